//! The seeded bugs of decisions, of large batches, of transactions, of the files that partitions
//! share, of the budgets of followers and of ended iterators, which stand after those of `list`.

/// Declares the bugs that it is given, and these.
macro_rules! and_of_writes {
    ($($others:tt)*) => {
        bugs! {
            $($others)*
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
    };
}
