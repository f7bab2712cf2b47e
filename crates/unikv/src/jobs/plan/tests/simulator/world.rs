//! The model of a database: the facts of decisions, and the changes of these.
//!
//! Invariants:
//! - Partitions stand in key order. Their ranges meet and cover all keyspaces, and an id is given
//!   once.
//! - Figures of partitions are set where something changes, as the engine does it: those of the
//!   changed partition, and of the one before it.

use super::failures::Failures;
use super::partition::{Generation, Partition, key_between};
use crate::base::keys::{FileNumber, PartitionId};
use crate::jobs::plan::facts::{Disk, Gone, Hints, Memtables, TableWishes, Vacant};
use crate::jobs::plan::partitions::{JoinFacts, PartitionFacts, Partitions};
use crate::jobs::plan::{Facts, MERGE};
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::time::Duration;

/// Bytes of a memtable for one place in a keyspace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Write {
    pub(super) keyspace: u32,
    /// Chooses one of the partitions of the keyspace.
    pub(super) place: usize,
    pub(super) bytes: u64,
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
    /// The oldest first.
    pub(super) sealed: VecDeque<Vec<Write>>,
    pub(super) leased: BTreeSet<PartitionId>,
    /// Jobs that merge and have begun since a join that needs merges did.
    pub(super) merges_since_join: u64,
    pub(super) disk: Disk,
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
    pub(super) failures: Failures,
    /// Of a thousand jobs that may fail, this many do.
    pub(super) failing: u32,
    figures: Partitions,
    /// Facts that follow from all partitions; `None`: to be made again.
    of_all: Option<OfAll>,
}

#[derive(Debug, Default)]
struct OfAll {
    gone: Gone,
    blocking: Option<PartitionId>,
    flushes_wait: bool,
}

impl World {
    /// A world without partitions.
    pub(super) fn new() -> World {
        World {
            now: Duration::from_secs(100),
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
        partition.is_empty() && self.is_gone(at) && !self.sealed.iter().flatten().any(is_of_it)
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
    fn blocking(&self) -> Option<PartitionId> {
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

/// Facts.
impl World {
    /// Must precede [`World::facts`] after any change.
    pub(super) fn refresh(&mut self) {
        if self.of_all.is_none() {
            self.of_all = Some(OfAll {
                gone: self.gone(),
                blocking: self.blocking(),
                flushes_wait: self.flushes_wait(),
            });
        }
    }

    pub(super) fn facts(&self) -> Facts<'_> {
        let of_all = self.of_all.as_ref().expect("facts are refreshed");
        Facts {
            now: self.now,
            partitions: &self.figures,
            most_partition_bytes: self.most_bytes,
            blocking: of_all.blocking,
            gone: of_all.gone.clone(),
            leased: self.leased.clone(),
            merges_since_join: self.merges_since_join,
            memtables: Memtables {
                sealed: self.sealed.len(),
                are_blocked: of_all.flushes_wait,
            },
            disk: self.disk.clone(),
            note_clock_at: self.note_clock_at,
            hints: Hints {
                are_left: self.hints_left > 0 && !self.are_hints_read,
                had_turn: self.hints_had_turn,
                note_at: self.note_hints_at,
            },
            wishes: TableWishes {
                index: self.index_wishes > 0,
                blocks: self.block_wishes > 0,
            },
            most_together_bytes: self.most_together_bytes,
            held_back: self.failures.held_back(),
            ..Facts::default()
        }
    }

    fn gone(&self) -> Gone {
        let mut gone = Gone::default();
        let is_all_there = |at| !self.is_gone(at);
        if (0..self.partitions.len()).all(is_all_there) {
            return gone;
        }
        let mut vacant_before = None;
        for at in 0..self.partitions.len() {
            let id = self.partitions[at].id;
            if self.is_gone(at) && !self.partitions[at].is_empty() {
                gone.full.push(id);
            }
            if !self.is_vacant(at) {
                continue;
            }
            let follows = vacant_before.is_some_and(|before: usize| before + 1 == at);
            gone.vacant.push(Vacant { id, follows });
            vacant_before = Some(at);
            // The pair of two vacant ones is listed twice, as the engine does.
            for left in [at.checked_sub(1), Some(at)].into_iter().flatten() {
                let join = self.join(left);
                gone.joins
                    .extend(join.map(|join| (self.partitions[left].id, join)));
            }
        }
        gone
    }

    fn figures_of(&self, at: usize) -> PartitionFacts {
        let partition = &self.partitions[at];
        let lives = |at| at < self.partitions.len() && !self.is_gone(at);
        let are_living = lives(at) && lives(at + 1);
        PartitionFacts {
            join: if are_living { self.join(at) } else { None },
            ..partition.figures(self.most_bytes)
        }
    }

    /// Compares the figures with those made from scratch.
    pub(super) fn check_figures(&self) {
        let mut figures = Partitions::default();
        for (at, partition) in self.partitions.iter().enumerate() {
            figures.set(partition.id, Some(self.figures_of(at)));
        }
        assert!(
            figures == self.figures,
            "figures or orders of partitions differ from those made from scratch:\n{:?}\n{:?}",
            self.figures,
            figures
        );
        for pair in self.partitions.windows(2) {
            let (end, begin) = (pair[0].keyspaces.1, pair[1].keyspaces.0);
            assert!(begin == end || begin == end + 1, "ranges do not meet");
            assert!(pair[0].start < pair[1].start, "keys are out of order");
        }
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
            });
            open.bytes += write.bytes;
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

    pub(super) fn disk_has_room(&mut self) {
        self.disk.is_full = false;
        self.failures.disk_has_room();
        self.changed();
    }

    /// A measure of the work to be done: memtables, generations, key tables of the least size,
    /// partitions, wishes, failures.
    pub(super) fn work(&self) -> usize {
        let writes: usize = self.sealed.iter().map(|writes| 1 + writes.len()).sum();
        let written: u64 = self.sealed.iter().flatten().map(|write| write.bytes).sum();
        let generations: usize = self.partitions.iter().map(Partition::generations).sum();
        let bytes: u64 = self.partitions.iter().map(Partition::bytes).sum();
        let tables = (bytes + written) / (self.most_bytes / 16) + 1;
        let wishes = self.index_wishes + self.block_wishes + self.hints_left;
        let failures = self.failures.held_back().len();
        writes + generations + tables as usize + self.partitions.len() + wishes + failures + 4
    }
}
