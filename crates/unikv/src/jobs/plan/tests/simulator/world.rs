//! The model of a database: the facts of decisions, and the changes of these.
//!
//! Invariants:
//! - Partitions stand in key order. Their ranges meet and cover all keyspaces, and an id is given
//!   once.
//! - Figures of partitions are set where something changes, as the engine does it: those of the
//!   changed partition, and of the one before it.

use super::choices::Choices;
use super::failures::Failures;
use super::partition::{Generation, Partition, key_between};
use super::values::File;
use crate::base::keys::{FileNumber, PartitionId};
use crate::jobs::plan::MERGE;
use crate::jobs::plan::facts::{Disk, Gone, Unsettled};
use crate::jobs::plan::partitions::{JoinFacts, Partitions};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::time::Duration;

/// Bytes of a memtable for one place in a keyspace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Write {
    pub(super) keyspace: u32,
    /// Chooses one of the partitions of the keyspace.
    pub(super) place: usize,
    pub(super) bytes: u64,
    pub(super) has_deletes: bool,
    /// It may hide more than there may be when idle.
    pub(super) hides: bool,
}

#[derive(Debug, Default)]
pub(super) struct World {
    pub(super) now: Duration,
    /// Bytes that a partition may have.
    pub(super) most_bytes: u64,
    /// Bytes after which a generation is frozen, by the limits of the moment.
    pub(super) generation_bytes: u64,
    /// Bytes that all UnsortedStores may have together.
    pub(super) most_unsorted_bytes: u64,
    pub(super) partitions: Vec<Partition>,
    /// The keyspaces that exist.
    pub(super) keyspaces: BTreeSet<u32>,
    pub(super) last_keyspace: u32,
    last_partition: u64,
    last_file: u64,
    /// Bytes that a merge of several partitions may read.
    pub(super) most_together_bytes: u64,
    /// The writes in the open memtable.
    pub(super) open: Vec<Write>,
    /// The sealed memtables, the oldest first.
    pub(super) sealed: VecDeque<Vec<Write>>,
    pub(super) leased: BTreeSet<PartitionId>,
    /// Jobs that merge and have begun since a join that needs merges did.
    pub(super) merges_since_join: u64,
    /// Without the time of the next look.
    pub(super) disk: Disk,
    /// There is room for a ballast, and for writing to resume.
    pub(super) has_room: bool,
    pub(super) has_ballast: bool,
    /// When the space was last looked after in vain; `None`: it was not since it was as it should
    /// be.
    pub(super) in_vain_at: Option<Duration>,
    /// Jobs that run and take the memory of jobs, and when one last did.
    pub(super) jobs: usize,
    pub(super) worked_at: Duration,
    /// The cache is lent that memory.
    pub(super) is_lent: bool,
    pub(super) note_clock_at: Option<Duration>,
    /// Whether anything expires.
    pub(super) expires: bool,
    pub(super) hints_left: usize,
    /// A job reads hints back.
    pub(super) are_hints_read: bool,
    pub(super) hints_had_turn: bool,
    pub(super) note_hints_at: Option<Duration>,
    pub(super) index_wishes: usize,
    pub(super) block_wishes: usize,
    /// Files of values.
    pub(super) files: BTreeMap<FileNumber, File>,
    /// Collections begin at this many dead bytes.
    pub(super) garbage_begins_at: u64,
    pub(super) choices: Choices,
    /// The options let values be copied for scans.
    pub(super) may_cluster: bool,
    /// Bytes that a slice copies in a partition.
    pub(super) slice_bytes: u64,
    /// Bytes that may still be copied.
    pub(super) copies_left: u64,
    /// Where a slice has failed.
    pub(super) failed_slices: BTreeSet<PartitionId>,
    /// Until when slices give way to look-ups, and what scans had charged when that began.
    pub(super) gives_way: (Duration, u64),
    pub(super) last_write: Duration,
    /// A caller waits for the background.
    pub(super) is_asked_for: bool,
    /// Tables lack indexes for which there is room.
    pub(super) lack_indexes: bool,
    pub(super) failures: Failures,
    /// Of a thousand jobs that may fail, this many do.
    pub(super) failing: u32,
    pub(super) figures: Partitions,
    /// Facts that follow from all partitions; `None`: to be made again.
    pub(super) of_all: Option<OfAll>,
}

#[derive(Debug, Default)]
pub(super) struct OfAll {
    pub(super) gone: Gone,
    pub(super) blocking: Option<PartitionId>,
    pub(super) flushes_wait: bool,
    pub(super) unsettled: Unsettled,
}

impl World {
    /// A world without partitions.
    pub(super) fn new() -> World {
        World {
            now: Duration::from_secs(100),
            worked_at: Duration::from_secs(100),
            most_bytes: 1_600,
            generation_bytes: 100,
            ..World::default()
        }
    }

    pub(super) fn position(&self, id: PartitionId) -> Option<usize> {
        self.partitions.iter().position(|p| p.id == id)
    }

    pub(super) fn get(&self, id: PartitionId) -> Option<&Partition> {
        self.partitions.iter().find(|p| p.id == id)
    }

    pub(super) fn new_id(&mut self) -> PartitionId {
        self.last_partition += 1;
        PartitionId(self.last_partition)
    }

    /// The number of the newest file.
    pub(super) fn last_file(&self) -> u64 {
        self.last_file
    }

    pub(super) fn new_file(&mut self) -> FileNumber {
        self.last_file += 1;
        FileNumber(self.last_file)
    }

    /// The number of keyspaces that exist in a range, two at most.
    fn count_in(&self, (first, last): (u32, u32)) -> usize {
        self.keyspaces.range(first..=last).take(2).count()
    }

    /// Whether no keyspace exists in the range of a partition.
    pub(super) fn is_gone(&self, at: usize) -> bool {
        self.count_in(self.partitions[at].keyspaces) == 0
    }

    /// Whether a partition belongs to no keyspace, is empty, and no memtable has anything for it.
    pub(super) fn is_vacant(&self, at: usize) -> bool {
        let partition = &self.partitions[at];
        let (first, last) = partition.keyspaces;
        let is_of_it = |write: &Write| (first..=last).contains(&write.keyspace);
        let mut in_memory = self.sealed.iter().flatten().chain(&self.open);
        partition.is_empty() && self.is_gone(at) && !in_memory.any(is_of_it)
    }

    /// The join of a partition with the next one. Both together belong to one keyspace at most, and
    /// a side that belongs to none is vacant.
    pub(super) fn join(&self, left: usize) -> Option<JoinFacts> {
        let (a, b) = (&self.partitions[left], self.partitions.get(left + 1)?);
        let join = a.join(b, self.most_bytes)?;
        let both = (a.keyspaces.0, b.keyspaces.1);
        let may_be_joined = |side| !self.is_gone(side) || self.is_vacant(side);
        let is_due = self.count_in(both) <= 1 && may_be_joined(left) && may_be_joined(left + 1);
        is_due.then_some(join)
    }

    /// Whether one of two neighbours has an UnsortedStore.
    pub(super) fn needs_merge(&self, sides: [PartitionId; 2]) -> bool {
        let mut sides = sides.into_iter().filter_map(|id| self.get(id));
        sides.any(|partition| partition.generations() > 0)
    }

    /// The first partition that makes flushes wait for its merge.
    pub(super) fn blocking(&self) -> Option<PartitionId> {
        let mut all = self.partitions.iter();
        let blocking = all.find(|p| p.blocks(self.generation_bytes))?;
        Some(blocking.id)
    }

    /// Whether flushes wait for merges: one partition has no room; or all UnsortedStores together
    /// are too large, and a merge would make room. Partitions with failing merges do not count.
    pub(super) fn flushes_wait(&self) -> bool {
        if self.blocking().is_some() {
            return true;
        }
        let unsorted = |p: &&Partition| p.generations() > 0;
        let helps = |p: &&Partition| !self.failures.has_failed((MERGE, Some(p.id)));
        let all: Vec<_> = self
            .partitions
            .iter()
            .filter(unsorted)
            .filter(helps)
            .collect();
        let bytes: u64 = all.iter().map(|p| p.unsorted_bytes()).sum();
        bytes > self.most_unsorted_bytes && all.iter().any(|p| !p.frozen.is_empty())
    }
}

/// Changes.
impl World {
    /// Must follow a change of memtables, keyspaces, limits or failures.
    pub(super) fn changed(&mut self) {
        self.of_all = None;
    }

    /// Must follow a change of a partition.
    pub(super) fn note(&mut self, at: usize) {
        for at in at.saturating_sub(1)..=at {
            let figures = self.figures_of(at);
            self.figures.set(self.partitions[at].id, Some(figures));
        }
        self.changed();
    }

    /// Changes a partition.
    pub(super) fn change(&mut self, at: usize, change: impl FnOnce(&mut Partition)) {
        change(&mut self.partitions[at]);
        self.note(at);
    }

    /// Puts partitions in the place of others.
    pub(super) fn replace(&mut self, range: Range<usize>, by: Vec<Partition>) {
        let noted = range.start..range.start + by.len();
        for old in self.partitions.splice(range, by) {
            self.figures.set(old.id, None);
        }
        noted.rev().for_each(|at| self.note(at));
    }

    /// The partitions that have a part of a keyspace.
    pub(super) fn range_of(&self, keyspace: u32) -> Range<usize> {
        let begin = self
            .partitions
            .partition_point(|p| p.keyspaces.1 < keyspace);
        let end = self
            .partitions
            .partition_point(|p| p.keyspaces.0 <= keyspace);
        begin..end
    }

    /// A keyspace begins with an empty partition after all others.
    pub(super) fn create_keyspace(&mut self) {
        self.last_keyspace += 1;
        let keyspace = self.last_keyspace;
        self.keyspaces.insert(keyspace);
        let last = self.partitions.last();
        let start = last.map_or(Vec::new(), |last| key_between(&last.start, None));
        let partition = Partition {
            id: self.new_id(),
            start,
            keyspaces: (keyspace, keyspace),
            ..Partition::default()
        };
        let end = self.partitions.len();
        self.replace(end..end, vec![partition]);
    }

    pub(super) fn drop_keyspace(&mut self, keyspace: u32) {
        self.keyspaces.remove(&keyspace);
        self.range_of(keyspace).for_each(|at| self.note(at));
    }

    /// Puts writes into the open generations of their partitions, and freezes full ones.
    pub(super) fn place(&mut self, writes: &[Write]) {
        let limit = self.generation_bytes;
        let mut places = BTreeSet::new();
        let file = self.new_file();
        for write in writes {
            let range = self.range_of(write.keyspace);
            let at = range.start + write.place % range.len();
            let partition = &mut self.partitions[at];
            if partition.open.is_some_and(|open| open.bytes >= limit) {
                partition.frozen.extend(partition.open.take());
            }
            let open = partition.open.get_or_insert(Generation {
                bytes: 0,
                oldest_file: file,
                tables: 0,
                has_tombstones: false,
                are_tombstones_counted: false,
                hides: false,
            });
            open.bytes += write.bytes;
            open.tables += 1;
            open.has_tombstones |= write.has_deletes;
            open.are_tombstones_counted = false;
            open.hides |= write.hides;
            places.insert(at);
        }
        for at in places {
            self.change(at, |partition| {
                if partition.open.is_some_and(|open| open.bytes >= limit) {
                    partition.frozen.extend(partition.open.take());
                }
            });
        }
        self.changed();
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.now += time;
        self.failures.time_passes(self.now);
        self.changed();
    }

    /// Lets slices give way for a time.
    pub(super) fn give_way(&mut self, milliseconds: u64) {
        let until = self.now + Duration::from_millis(milliseconds);
        self.gives_way = (until, self.charged());
    }

    /// The disk is full, and the ballast is released.
    pub(super) fn full_begins(&mut self) {
        if !self.disk.is_full {
            self.disk.is_full = true;
            self.has_room = false;
            self.has_ballast = false;
            self.in_vain_at = None;
        }
    }

    /// The disk is full no longer, if it was.
    pub(super) fn full_ends(&mut self) {
        if self.disk.is_full {
            self.disk.is_full = false;
            self.failures.disk_has_room();
            self.changed();
        }
    }

    /// A measure of the work to be done: memtables, generations, key tables of the least size,
    /// partitions, wishes, failures.
    pub(super) fn work(&self) -> usize {
        let memtables = || self.sealed.iter().chain([&self.open]);
        let writes: usize = memtables().map(|writes| 1 + writes.len()).sum();
        let written: u64 = memtables().flatten().map(|write| write.bytes).sum();
        let generations: usize = self.partitions.iter().map(Partition::generations).sum();
        let bytes: u64 = self.partitions.iter().map(Partition::bytes).sum();
        let tables = (bytes + written) / (self.most_bytes / 16) + 1;
        let wishes = self.index_wishes + self.block_wishes + self.hints_left;
        let failures = self.failures.held_back().len();
        let values: usize = self.partitions.iter().map(|p| p.live.len()).sum();
        let values = values + generations + self.partitions.len();
        values
            + writes
            + generations
            + tables as usize
            + self.partitions.len()
            + wishes
            + failures
            + 8
    }
}
