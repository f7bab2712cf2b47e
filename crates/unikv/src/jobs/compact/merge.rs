//! Merge: frozen generations of the UnsortedStore join the SortedStore (paper §III-C). One k-way
//! pass over the generations' key sections and the key tables that they overlap; garbage collection
//! ([`super::gc`]) and clustering ([`super::cluster`]) are the same pass with *victims*, whose
//! values move. See `docs/mechanisms.md`, "Merge".
//!
//! Invariants: the generations are the oldest of their partition, and everything older is in the
//! SortedStore. So the versions from both are all there is of a key: a tombstone with nothing kept
//! below it is dropped. Flushes go to newer generations, so the inputs do not change, and the edit
//! drops them whole. Range tombstones become tombstones of single keys where a snapshot keeps a
//! version: the SortedStore has none of ranges.
//!
//! No locks; the caller has the partition's lease.

use super::merge_output::MergeOutput;
use super::moved_values::MovedValues;
use super::retention::{Fate, Readers, Retention};
use crate::base::keys::{FileNumber, Kind, SeqNo};
use crate::base::range_tombstones::RangeTombstones;
use crate::base::seeded::{seeded, slip};
use crate::error::Result;
use crate::jobs::JobContext;
use crate::jobs::compact::parts::{Kept, KeptValue, MergeInputs, MergeRules, Merged};
use crate::jobs::space::is_obsolete;
use crate::key_table::{EntryValue, KeyEntry, KeyTable, KeyTableMeta};
use crate::partition::cursor::Cursor;
use crate::partition::merging::{MergingCursor, follows};
use crate::partition::{Moment, scan_sources};
use crate::version::{Generation, Partition, all_within};
use crate::vfs::Access;
use std::path::Path;
use std::sync::Arc;

/// Merges the generations into the SortedStore of `partition`, and moves the live records that it
/// has in the victims, to the files of `moved`.
pub(crate) fn merge(
    context: &JobContext<'_>,
    partition: &Partition,
    inputs: &MergeInputs,
    rules: MergeRules<'_>,
    moved: &mut MovedValues,
) -> Result<Merged> {
    let generations = &inputs.generations;
    // The keys and the records of each table, the records of each further file, and a key table.
    let tables = generations.iter().flat_map(Generation::tables).count();
    let files = inputs.victims.len();
    let buffer = context.read_buffer_bytes(2 * tables + files + 1);
    let sources = generations
        .iter()
        .flat_map(|generation| scan_sources::for_job(generation, buffer));
    let mut unsorted = MergingCursor::new(sources.collect::<Result<_>>()?);
    // Tables may hold keys of other partitions on both sides of this one's range.
    let begin = slip!(MergeBeyondBorder, &[], &partition.start[..]);
    unsorted.seek(begin, SeqNo::MAX)?;
    let ranges = if seeded!(MergeForgetsRanges) {
        None
    } else {
        all_within(generations, partition.range())?
    };
    let ranges = ranges.as_ref();
    let mut merger = Merger {
        unsorted,
        group: Group::new(&context.readers, ranges),
        ranges,
        output: MergeOutput::new(context, inputs, rules, buffer, partition.range(), moved),
        dropped: Vec::new(),
        context,
        buffer,
        keys: 0,
    };
    for table in &partition.key_tables {
        merger.pass_table(table)?;
    }
    merger.drain_unsorted_before(partition.end.as_deref())?;
    Ok(Merged {
        dropped_key_tables: merger.dropped,
        ..merger.output.finish(partition.end.as_deref())?
    })
}

struct Merger<'a> {
    unsorted: MergingCursor,
    /// The range tombstones of the generations.
    ranges: Option<&'a RangeTombstones>,
    group: Group<'a>,
    output: MergeOutput<'a>,
    dropped: Vec<FileNumber>,
    context: &'a JobContext<'a>,
    /// Bytes of a read buffer.
    buffer: usize,
    keys: u64,
}

impl Merger<'_> {
    /// Merges what comes before `table`, then `table` itself, or keeps it by name.
    fn pass_table(&mut self, table: &Arc<KeyTable>) -> Result<()> {
        let meta = table.meta();
        self.drain_unsorted_before(Some(&meta.min_key))?;
        let touched = self
            .unsorted
            .entry()
            .is_some_and(|e| e.key <= meta.max_key.as_slice());
        let ranges = self
            .ranges
            .filter(|ranges| ranges.touch(&meta.min_key, &meta.max_key));
        if ranges.is_some_and(|ranges| self.is_deleted(ranges, meta)) {
            self.dropped.push(meta.number);
            return Ok(());
        }
        let touched = touched || ranges.is_some();
        let horizon = self.context.readers.horizon();
        if !touched && meta.has_expired(horizon.time_ms) {
            // Nobody needs to look at what is in it.
            self.dropped.push(meta.number);
            return Ok(());
        }
        let is_due = || self.output.has_to_move(meta) || is_obsolete(meta, horizon);
        let is_unreadable = self.context.unreadable.contains(&meta.number);
        let touched = touched || !self.output.has_ended() && !is_unreadable && is_due();
        // What a slice leaves undersized, the next merge mends; else it might write all tables
        // after it again.
        let may_end = is_unreadable
            || self.output.has_ended()
            || !self.output.would_leave_an_undersized_table();
        if !touched && may_end {
            return self.output.keep_table(meta);
        }
        self.dropped.push(meta.number);
        let mut sorted = Cursor::Keys(table.iter(Access::Sequential).reading(self.buffer));
        sorted.seek_to_first()?;
        while let Some(entry) = sorted.entry() {
            // Of one key, the versions of the UnsortedStore are the newer ones.
            let is_newer =
                |e: &KeyEntry<'_>| slip!(SortedStoreFirst, e.key < entry.key, e.key <= entry.key);
            let newer = self.unsorted.entry().filter(is_newer);
            if let Some(newer) = newer {
                let path = self.unsorted.path();
                self.group.push((&newer, path), true, &mut self.output)?;
                self.unsorted.next()?;
            } else {
                let path = Some(table.path());
                self.group.push((&entry, path), false, &mut self.output)?;
                sorted.next()?;
            }
            self.count_key()?;
        }
        Ok(())
    }

    /// Whether range tombstones delete all that a key table has, and no snapshot sees it.
    fn is_deleted(&self, ranges: &RangeTombstones, table: &KeyTableMeta) -> bool {
        let deleted = ranges.covering_all(&table.min_key, &table.max_key);
        let newest = ranges.newest().unwrap_or(SeqNo::MAX);
        let sees = |moment: &Moment| table.min_seq <= moment.seq && moment.seq < newest;
        let is_seen = self.context.readers.snapshots.iter().any(sees);
        deleted.is_some_and(|seq| table.max_seq < seq)
            && (!is_seen || seeded!(DropTableUnderSnapshot))
    }

    /// Merges entries of the UnsortedStore before `end` and completes the last key.
    fn drain_unsorted_before(&mut self, end: Option<&[u8]>) -> Result<()> {
        while let Some(entry) = self.unsorted.entry() {
            if end.is_some_and(|end| entry.key >= end) {
                break;
            }
            let path = self.unsorted.path();
            self.group.push((&entry, path), true, &mut self.output)?;
            self.unsorted.next()?;
            self.count_key()?;
        }
        self.group.complete(&mut self.output)
    }

    fn count_key(&mut self) -> Result<()> {
        self.keys += 1;
        if self.keys.is_multiple_of(1024) {
            self.context.check_cancelled()
        } else {
            Ok(())
        }
    }
}

/// The kept versions of one key, newest first.
struct Group<'a> {
    /// The last key, and the number of its last version, also after the end of the group.
    key: Vec<u8>,
    seq: SeqNo,
    begun: bool,
    kept: Vec<Kept>,
    inline: Vec<u8>,
    retention: Retention<'a>,
    readers: &'a Readers,
    ranges: Option<&'a RangeTombstones>,
    /// The range tombstones over the key that are newer than what has come of it, oldest first.
    deleted_at: Vec<SeqNo>,
}

impl<'a> Group<'a> {
    fn new(readers: &'a Readers, ranges: Option<&'a RangeTombstones>) -> Group<'a> {
        let retention = Retention::new(readers);
        Group {
            key: Vec::new(),
            seq: SeqNo::MAX,
            begun: false,
            kept: Vec::new(),
            inline: Vec::new(),
            retention,
            readers,
            ranges,
            deleted_at: Vec::new(),
        }
    }

    /// Takes the next version in internal order, and the file that it is from.
    fn push(
        &mut self,
        (entry, path): (&KeyEntry<'_>, Option<&Path>),
        unsorted: bool,
        output: &mut MergeOutput<'_>,
    ) -> Result<()> {
        if !follows((&self.key, self.seq), entry, path)? {
            return Ok(());
        }
        self.seq = entry.seq;
        if !self.begun || self.key != entry.key {
            self.complete(output)?;
            self.begun = true;
            self.key.clear();
            self.key.extend_from_slice(entry.key);
            self.retention.next_key();
            if let Some(ranges) = self.ranges {
                let snapshots = &self.readers.snapshots;
                self.deleted_at = ranges.needed(entry.key, snapshots, |moment| moment.seq);
                self.deleted_at.reverse();
            }
        }
        self.delete_above(entry.seq);
        let fate = self.retention.judge(entry.seq, entry.expiry_ms);
        if fate == Fate::Unneeded {
            return Ok(());
        }
        if fate == Fate::Expired && seeded!(ExpiredLeavesNothing) {
            return Ok(());
        }
        if fate == Fate::Expired {
            self.kept.push(Kept {
                seq: entry.seq,
                kind: Kind::Delete,
                expiry_ms: None,
                value: KeptValue::None,
                unsorted,
            });
            return Ok(());
        }
        let value = match entry.value {
            EntryValue::None => KeptValue::None,
            // A tombstone needs its record no more.
            EntryValue::Pointer(_) if entry.kind == Kind::Delete => KeptValue::None,
            EntryValue::Pointer(pointer) => KeptValue::Pointer(pointer),
            EntryValue::Inline(bytes) => {
                let from = self.inline.len();
                self.inline.extend_from_slice(bytes);
                KeptValue::Inline(from..self.inline.len())
            }
        };
        let (seq, kind, expiry_ms) = (entry.seq, entry.kind, entry.expiry_ms);
        self.kept.push(Kept {
            seq,
            kind,
            expiry_ms,
            value,
            unsorted,
        });
        Ok(())
    }

    /// Range tombstones over the key that are newer than its version at `seq` become tombstones of
    /// the key: they are needed where an older version is kept for a snapshot.
    fn delete_above(&mut self, seq: SeqNo) {
        while let Some(tombstone) = self.deleted_at.pop_if(|tombstone| *tombstone > seq) {
            let is_lost = seeded!(KeptIsUndeleted) && !self.readers.snapshots.is_empty();
            if self.retention.keeps(tombstone) && !is_lost {
                self.kept.push(Kept {
                    seq: tombstone,
                    kind: Kind::Delete,
                    expiry_ms: None,
                    value: KeptValue::None,
                    unsorted: true,
                });
            }
        }
    }

    /// Writes the key out.
    fn complete(&mut self, output: &mut MergeOutput<'_>) -> Result<()> {
        if !std::mem::take(&mut self.begun) {
            return Ok(());
        }
        if seeded!(DropEveryTombstone) {
            self.kept.retain(|version| version.kind != Kind::Delete);
        }
        // Nothing older exists beneath: a tombstone at the bottom hides nothing.
        while self
            .kept
            .last()
            .is_some_and(|oldest| oldest.kind == Kind::Delete)
        {
            self.kept.pop();
        }
        if !self.kept.is_empty() {
            output.add_key(&self.key, &self.kept, &self.inline)?;
        }
        self.kept.clear();
        self.inline.clear();
        Ok(())
    }
}
