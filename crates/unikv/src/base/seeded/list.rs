//! The list of seeded bugs, each with the promise that falls.

bugs! {
    // The log.
    /// I1: a write that asks for it is acknowledged before it is synced.
    AckBeforeSync,
    /// I1: the name of a log segment is never made durable.
    SegmentNameUnsynced,
    /// I3: only the newest segment is synced, those before it are not.
    SyncNewestAlone,
    /// I1: a failed sync of the log is tried again, and the success of that is believed.
    RetryFailedSync,
    /// I4: a group becomes visible before it is in the memtable.
    PublishBeforeInsert,
    /// I4: the payload of a log record is not checked, so a torn batch is replayed.
    TornPayloadReplayed,
    /// I2: the segment begun by an opening does not link to those that were recovered.
    UnlinkedAtOpen,
    /// I3: replay goes on in the next segment where the chain breaks.
    ReplayBehindBreak,
    /// I3: replay passes over a torn record and takes those after it.
    ReplayBehindTorn,
    /// I1: damage below what is known durable is taken for a torn tail.
    CutBelowMark,
    /// I2: a record that ends where the file ends is taken for a torn one.
    LoseLastRecord,
    /// I2: the newest sealed memtable is flushed in the place of the oldest.
    FlushNewestFirst,

    // Checkpoints and backups.
    /// I2: a checkpoint has of the log what is durable, not what is acknowledged.
    CheckpointOfDurableLog,
    /// I5: a checkpoint lacks the files of large values that no version lists yet.
    CheckpointForgetsBlobs,
    /// I1: a checkpoint is there before its name is durable.
    CheckpointNameUnsynced,
    /// I1: a pruning removes data files before it is durable that their points are gone.
    PruneFilesFirst,
    // The change feed.
    /// I1: changes show that no sync has made durable.
    FeedShowsUnsynced,
    /// I5: an opening goes on in the incarnation before it.
    IncarnationForgotten,
    /// I5: a token is good by the opening after it, although a later crash took what it knows of.
    OnlyNextIncarnation,
    /// I5: a recovered window is said to have what only tables have.
    WindowWithGap,
    /// I5: the change window recycles a segment and says that it is there.
    WindowRecycled,
    // Exports.
    /// I5: an export that is cut where an entry ends is taken for a whole one.
    CutExportImported,
    /// I5: an import leaves out when values expire.
    ImportPersists,
    /// I1: an export is there before its name is durable.
    ExportNameUnsynced,
    // Secondaries.
    /// I5: a secondary keeps the memtable of what has been flushed.
    SecondaryKeepsFlushed,
    /// I5: a secondary takes a number that depends on edits which it does not know.
    SecondaryMissesEdits,
    /// I5: the hash index of a secondary lacks the tables of later flushes.
    SecondaryIndexStale,
    /// I5: a copy that a secondary makes lacks the commit tag of writes that are in no table.
    SecondaryCopiesNoMark,
    // The manifest, and what it lists.
    /// I1: an edit lists files whose names are not durable.
    DirectoryUnsynced,
    /// I1: an edit is in force before it is synced.
    ManifestUnsynced,
    /// I2: an edit claims that what is before it is durable, so a torn note counts as damage.
    MarkAheadOfSync,
    /// I1: `CURRENT` names a manifest whose name is not durable.
    ManifestNameUnsynced,
    /// I2: log segments are removed before the edit that makes them dispensable.
    LogRemovedBeforeEdit,
    /// I2: log segments are written over before that edit.
    LogRecycledBeforeEdit,
    /// I1: data files are removed before the edit that drops them is durable.
    DataRemovedBeforeEdit,
    /// I1: the files of an edit that may be durable are removed because its append failed.
    RemoveUnsure,
    /// I2: the edit of a flush gives up the log of memtables that are not flushed yet.
    LowWaterTooHigh,
    /// I3: the log does not say that keyspaces changed: a manifest loses that unnoticed.
    EditUnnoted,
    /// I2: a change of keyspaces does not say up to where the log was durable.
    EditForgetsLog,
    /// I2: the edit of a flush claims all writes that are visible.
    FlushedSeqTooHigh,
    /// I4: the edit of a flush commits the newest commit tag instead of that of its memtable.
    NewestMark,
    /// I2: numbers of files that a crash has left are given again.
    ReuseFileNumbers,
    /// I2: the sweep of an opening removes the oldest segment that is still needed.
    SweepNeededLog,
    /// I5: the pointers of a dropped key table stay counted.
    StaleLiveCounts,
    /// I5: a table that a partition has not merged is dropped with what another one has.
    DropUnmergedTable,
    /// I5: large values of unmerged tables do not keep their files.
    LargeValuesUncounted,
    // Range tombstones.
    /// I5: where range tombstones are added to a set, those that it had are lost.
    MergedRangesLost,
    /// I5: what comes while a memtable is put in order is left out of the order.
    ComesWhileOrdering,
    /// I5: a flush lists its table only where it has keys.
    RangeNeedsKey,
    /// I5: a split gives its tables only to the sides in which they have keys.
    SplitForgetsRanges,
    /// I5: a scan passes over all sources of a deleted range, newer ones, too.
    SkipUndeleted,
    /// I5: a merge drops range tombstones and keeps what they delete.
    MergeForgetsRanges,
    /// I5: a key table that a range tombstone covers is dropped, whoever sees it.
    DropTableUnderSnapshot,
    /// I5: what a snapshot keeps of a deleted key comes back.
    KeptIsUndeleted,
    // The hash index and lookups.
    /// I5: an equal tag counts as an equal key.
    TrustTag,
    /// I5: the oldest slot answers first.
    OldestSlotFirst,
    /// I5: a new generation stands after the older ones.
    OldGenerationFirst,
    /// I5: an opening indexes the newest generation only.
    FrozenUnindexed,
    /// I5: a damaged key section counts as one without keys.
    DamagedSectionIsEmpty,
    /// I5: a snapshot passes over tables with anything newer in them.
    SkipTableWithNewer,
    /// I5: a snapshot does not look past the newest version of a key in a table.
    NewestVersionAlone,
    /// I5: the first key of a partition is not entered into its index.
    FirstKeyUnindexed,
    /// I5: a scan that goes back leaves out the first key of a partition.
    FirstKeyPassedBack,
    /// I5: `contains_key` takes a tombstone in a memtable for a value.
    FindTombstones,
    /// I5: `contains_key` and `value_len` of a snapshot see the newest version.
    FindNewest,
    // Merge, garbage collection, split, join, scan merge, clustering.
    /// I5: a merge drops tombstones above versions that a snapshot keeps.
    DropEveryTombstone,
    /// I5: a scan merge drops tombstones.
    DropTombstonesInRun,
    /// I5: jobs drop the version that a snapshot sees if it was written just before.
    DropSnapshotVersion,
    /// I5: of equal keys a merge takes that of the SortedStore for the newer one.
    SortedStoreFirst,
    /// I5: a merge takes newer generations before the oldest.
    MergeNewestFirst,
    /// I7: of many small partitions, the last ones never have their turn, and keep shared files.
    MergeSmallInKeyOrder,
    /// I1: a job of several merges lists key tables whose bytes are not durable.
    MergeUnsynced,
    /// I5: a merge begins with keys of the partition before it.
    MergeBeyondBorder,
    /// I5: garbage collection gives what it moves a new sequence number.
    GcRenumbers,
    /// I5: a split lists a table on the left only if its last key is the border.
    SplitLosesBorderKey,
    /// I5: a join leaves out the key table that begins at the border.
    JoinLosesBorderKey,
    /// I5: a join looks for what is unmerged on the left side alone.
    JoinForgetsUnmerged,
    /// I5: where clustering copies values, it drops all versions of a key but the newest.
    ClusterNewestAlone,
    /// I5: there, it carries the oldest version alone.
    ClusterOldestAlone,
    /// I7: it knows no bound for what it copies over the life of a database.
    ClusterForever,
    /// I7: it copies more than garbage leaves room for.
    ClusterBeyondRoom,
    /// I7: what readers hold on disk is no garbage to it.
    ClusterBesideReaders,
    /// I7: it does not wait until writers are idle, and copies though no scan has lost anything.
    ClusterUncharged,
    /// I7: what scans have charged is not spent.
    ClusterUnspent,
    /// I7: a slice ends with its partition alone, and merges wait for it.
    ClusterWhole,
    /// I7: it moves large values, which are as good alone.
    ClusterLarge,
    /// I5: a merge puts a compressed value beside its key as if that were the value.
    InlineAsStored,
    /// I5: a scan run hides tables that were flushed after it.
    RunHidesNewer,
    /// I5: jobs do not know of iterators.
    IteratorUnregistered,
    // Ingest and large values.
    /// I5: flushes after an ingest go on in the generation before it.
    IngestKeepsTargets,
    /// I1: the log names a large value whose file has no durable name.
    LargeNameUnsynced,
    // Damage.
    /// I5: the checksum of a key block is not looked at.
    BlockUnchecked,
    /// I5: the checksum of a record is not looked at.
    RecordUnchecked,
    /// I5: checksums are not bound to file and offset.
    ChecksumUnbound,
    /// I5: the cache is asked for an offset, whatever the file.
    CacheForgetsFile,
    /// I5: the dictionary of compressed values is not compared with its hash.
    DictionaryUnchecked,
    /// I5: a repair takes an older version in the place of one that is lost.
    RepairTakesOlder,
    /// I5: a repair takes range tombstones that are damaged for none.
    RepairLosesRanges,
    // Iterators.
    /// I5: an iterator that has released its view goes on one key too far.
    ReanchorTooFar,
    /// I5: going back, the oldest version of a key answers.
    BackwardOldest,
    /// I5: the two ends of an iterator pass each other.
    EndsOverlap,
    /// I5: a cursor that turns round comes to its own entry again.
    TurnsOnTheSpot,
    /// I5: the checksums of a large value's chunks are not compared.
    ChunkUnchecked,
    /// I5: a part of a large value comes from where its first chunk begins.
    RangeFromChunkStart,
    /// I5: the frame of a value whose length was not known keeps what was guessed.
    ChunkedLengthGuessed,
    // The whole.
    /// I4: a put that is refused for want of space is written all the same.
    RefusedAndWritten,
    /// I5: a snapshot from before a keyspace was emptied shows it empty.
    EmptiedForSnapshots,
    /// I3: a keyspace is dropped before the writes before it are durable.
    DropBeforeSync,
    // What expires.
    /// I5: what a read hides is judged by the wall clock, which may jump back.
    ExpiryByWallClock,
    /// I5: a merge takes what has expired by its own time for nobody's, snapshots or not.
    ExpiryForgetsSnapshots,
    /// I5: what has expired goes in a merge that keeps an older version for a snapshot.
    ExpiredLeavesNothing,
    /// I5: a number that is counted up stays for ever.
    IncrementPersists,
    /// I5: jobs destroy what the wall clock alone says to have expired.
    WallClockDestroys,
    /// I5: reads go by the clock of jobs where that is later than the wall clock.
    ReadsByMark,
    /// I5: what a merge writes beside its key never expires.
    MergePersists,
    /// I5: what is ingested never expires.
    IngestPersists,
    /// I5: a snapshot judges what has expired by the time of the read.
    SnapshotOfNow,
    // Decisions.
    /// I5: a join takes a partition that another job holds.
    JoinLeased,
    /// I7: joins that need merges have no turn, and more and more partitions are empty.
    JoinPassedByMerges,
    /// I7: a worker tries a job that has failed without a pause.
    BackoffIgnored,
    /// I5: partitions of dropped keyspaces are joined across one that lies between them.
    JoinAcrossGap,
    /// I7: a flush does not wait for the merge of a partition with all its generations.
    FlushUnblocked,
    /// I7: a partition that was split or has shrunk hides others that are to be split.
    StaleSplits,
    // Writes.
    /// I6: a check without the lock reports an opening beside it as damage.
    SpoiledCheckCounts,
    /// I5: of two versions of a key in a large batch the older one is found.
    BatchOldestFirst,
    /// I5: a snapshot sees of a large batch what came after it.
    BatchSeenEarly,
    /// I2: of a batch that is written in passes, the keys at which a pass begins are lost.
    BatchPassGap,
    /// I2: a flush gives up the memtables that were sealed while it ran, too.
    FlushDropsUnflushed,
    /// I5: keys that a transaction has read are not compared: lost updates, write skew.
    KeysNotCompared,
    /// I5: ranges that a transaction has read are not compared: phantoms.
    RangesNotCompared,
    /// I5: writes that have been flushed since a transaction began are not compared.
    FlushedNotCompared,
    /// I5: a transaction's iterator ends where its own deletes begin.
    OwnDeletesEnd,
    /// I5: of the keys that are joined to a range the last one is not compared.
    CoarseEndsEarly,
    /// I5: what a transaction puts where it had deleted is not shown.
    EmptiedKeepsPuts,
    /// I5: a transaction's iterator does not show what was deleted after it was made.
    EmptiedForEarlier,
}
