//! What slices cluster: see [`crate::jobs::compact::cluster`].
//!
//! Invariants:
//! - A slice is due when scans have charged as much as it copies
//!   ([`crate::partition::scan_sources`]), and spends that; while writers are idle, whatever is
//!   charged.
//! - No more files are chosen than there may be garbage. Over the life of a database no more than
//!   [`MOST_COPIES`] bytes are copied for each byte of the user's, but for the last slices.
//! - A slice holds its partitions' leases until it has copied its share
//!   ([`Choices::slice_bytes`]) or a merge or a collection is due, and commits that. What is
//!   left follows from the version; the next slice takes from the same choice ([`Round`]).
//! - It is for speed alone: one that fails is no failure of the database.

use super::passes::pass_over;
use super::{Choice, Choices, Look, MOST_TOGETHER_BYTES, Round};
use crate::base::keys::FileNumber;
use crate::base::seeded::{seeded, slip};
use crate::jobs::compact::{cluster, gc};
use crate::jobs::plan::{Facts, Filter, Pass};
use crate::jobs::space::garbage::Pressure;
use crate::partition::scan_sources;
use crate::record::RecordFile;
use crate::version::{Partition, Version};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// A slice copies as many bytes as an UnsortedStore has, but no fewer and no more than these.
const SLICE_BYTES: std::ops::RangeInclusive<u64> = 4 << 10..=64 << 20;
/// Bytes that are copied over the life of a database for each byte that users have written.
const MOST_COPIES: u64 = 2;
/// The files of all slices at a time may take this part of what is free on the disk.
const FREE_PART: u64 = 4;
/// Stretches of values that a key table may have, and where writers are idle.
const STRETCHES: usize = 6;
const STRETCHES_WHEN_IDLE: usize = 4;

/// Bytes that may still be copied over the life of a database.
struct Copies {
    /// Where stretches are joined: room is kept for what has not been copied yet.
    of_stretches: u64,
    /// Where what flushes wrote is copied for the first time.
    of_all: u64,
}

/// What slices are chosen by.
struct Slices<'a> {
    version: &'a Arc<Version>,
    facts: &'a Facts<'a>,
    filter: Filter,
    is_idle: bool,
    copies: Copies,
}

impl Choices {
    /// How long slices give way to look-ups if nobody scans; `None`: they do not, as where somebody
    /// waits for the background.
    pub(crate) fn gives_way_for(&self, facts: &Facts<'_>, version: &Version) -> Option<Duration> {
        if facts.idle.is_asked_for {
            return None;
        }
        let charged = || scan_sources::charged_in_all(version);
        self.rest_left(facts.now, charged)
    }

    /// What of the present choice, or of a new one, can be copied now.
    pub(crate) fn next_slice(
        &self,
        facts: &Facts<'_>,
        version: &Arc<Version>,
        filter: Filter,
    ) -> Option<Pass> {
        let slices = Slices {
            version,
            facts,
            filter,
            is_idle: facts.clusters_when_idle(),
            copies: self.most_copies(version, facts.memtables.bytes),
        };
        let present = self.next_of_round(&slices);
        let slice = present.or_else(|| self.begin_round(&slices))?;
        (!slice.partitions.is_empty()).then_some(slice)
    }

    /// A slice of the present choice; it is empty while others work on the rest. `None`: no choice
    /// serves any more.
    fn next_of_round(&self, slices: &Slices<'_>) -> Option<Pass> {
        let rounds = &self.clusterings;
        let &Slices {
            version, is_idle, ..
        } = slices;
        let round = rounds.present(|choice| choice.is_idle == is_idle)?;
        let left_alone = self.space.left_alone(version);
        let victims = round.files_in(version, |file| !left_alone.contains(file));
        let live = victims
            .iter()
            .map(|file| version.live(file.meta().number).bytes);
        if live.sum::<u64>() > self.room(version, is_idle) {
            rounds.end();
            return None;
        }
        let numbers = gc::numbers(&victims);
        let most = slices.copies.of(round.purpose.is_of_stretches);
        let slice_bytes = self.slice_bytes(version);
        let most_bytes = slice_bytes.max(MOST_TOGETHER_BYTES).min(most);
        let look = Look {
            version,
            is_free: &|id| slices.facts.is_free(id, slices.filter),
            bytes_in: &|partition| bytes_in(partition, &numbers),
            cost_if_due: &|bytes, partition| {
                let cost = bytes.min(slice_bytes);
                let may_move = self.may_move(slices, partition);
                (may_move && is_due(cost, partition, most, is_idle)).then_some(cost)
            },
        };
        let partitions = rounds.next(&round, most_bytes, &look)?;
        Some(pass_over(partitions, &victims))
    }

    /// Makes a new choice. Its first slice.
    fn begin_round(&self, slices: &Slices<'_>) -> Option<Pass> {
        let &Slices {
            version, is_idle, ..
        } = slices;
        let most_stretches = if is_idle {
            STRETCHES_WHEN_IDLE
        } else {
            STRETCHES
        };
        let slice_bytes = self.slice_bytes(version);
        for (is_of_stretches, most_stretches) in [(true, most_stretches), (false, usize::MAX)] {
            let victims = self.fragmented(version, is_idle, most_stretches);
            let numbers = gc::numbers(&victims);
            let most = slices.copies.of(is_of_stretches);
            let partitions = version.partitions().iter();
            let partitions = partitions.filter(|p| self.may_move(slices, p));
            let partitions = partitions.map(|p| (bytes_in(p, &numbers), p));
            let cost = |bytes: u64| bytes.min(slice_bytes);
            let mut due: Vec<_> = partitions
                .filter(|(bytes, p)| is_due(cost(*bytes), p, most, is_idle))
                .collect();
            due.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
            if !due.is_empty() {
                let choice = Choice {
                    is_idle,
                    is_of_stretches,
                };
                let partitions = due.iter().map(|(_, partition)| partition.id);
                let round = Round::new(&victims, partitions, choice);
                self.clusterings.begin(round);
                return self.next_of_round(slices);
            }
        }
        None
    }

    /// Whether a slice may work on a partition.
    fn may_move(&self, slices: &Slices<'_>, partition: &Partition) -> bool {
        slices.facts.is_free(partition.id, slices.filter) && !self.has_failed(partition.id)
    }

    /// Bytes of a partition that a slice copies at most, and the record more that reaches them.
    /// Where UnsortedStores are small it is what one job takes of several partitions: each slice
    /// writes the keys of its partition again.
    pub(crate) fn slice_bytes(&self, version: &Version) -> u64 {
        let (least, most) = SLICE_BYTES.into_inner();
        let slice = self.core.options.unsorted_bytes.clamp(least, most);
        slice.max(self.most_together_bytes(version))
    }

    /// Memtables hold `in_memory` bytes.
    fn most_copies(&self, version: &Version, in_memory: u64) -> Copies {
        if seeded!(ClusterForever) {
            let (of_stretches, of_all) = (u64::MAX, u64::MAX);
            return Copies {
                of_stretches,
                of_all,
            };
        }
        let life = self.core.counters.lifetime(version, 0);
        let most = life.user_bytes_written.saturating_mul(MOST_COPIES);
        let of_all = most.saturating_sub(life.clustered_bytes);
        let first = cluster::flushed_bytes(version).saturating_add(in_memory);
        let of_stretches = of_all.saturating_sub(first);
        Copies {
            of_stretches,
            of_all,
        }
    }

    /// The files from which values are moved: as many as garbage leaves room for, and the disk.
    fn fragmented(
        &self,
        version: &Arc<Version>,
        is_idle: bool,
        most_stretches: usize,
    ) -> Vec<Arc<RecordFile>> {
        // A file that a partition cannot leave would be garbage that no collection removes either.
        let failed = version.partitions().iter();
        let failed = failed.filter(|p| self.has_failed(p.id));
        let refs = failed
            .flat_map(|p| &p.key_tables)
            .flat_map(|table| &table.meta().refs);
        let damaged: HashSet<FileNumber> = refs.map(|refs| refs.file).collect();
        let left_alone = self.space.left_alone(version);
        let choose = |room: u64| {
            let mut files = cluster::choose(version, room, most_stretches);
            files.retain(|file| {
                let number = file.meta().number;
                !damaged.contains(&number) && !left_alone.contains(number)
            });
            files
        };
        let chosen = choose(self.room(version, false));
        if chosen.is_empty() && is_idle {
            choose(self.room(version, true))
        } else {
            chosen
        }
    }

    /// Bytes that the files of a choice may have: they stay until the last of their values has
    /// moved, and no collection is to begin for that, nor a pause of writers. While writers are
    /// idle it is more: garbage just below a collection's threshold would keep values apart until
    /// the next write.
    fn room(&self, version: &Arc<Version>, is_idle: bool) -> u64 {
        let limit = self.space.space_limit();
        let space = self.space.space_of(version, limit.horizon);
        let keys = version.partition_sums().key_table_bytes;
        let free = self.space.free_bytes().saturating_sub(keys) / FREE_PART;
        // Files that readers pin stay on disk, though the version knows them no more.
        let (_, pinned) = self.core.store.pinned();
        let pinned = slip!(ClusterBesideReaders, 0, pinned);
        let most = space.begins_at(limit, Pressure::Alone);
        let most_when_idle = space.most_when_idle(limit).saturating_sub(keys);
        let most = if is_idle {
            most.max(most_when_idle)
        } else {
            most
        };
        let room = most.saturating_sub(space.dead_bytes().saturating_add(pinned));
        slip!(ClusterBeyondRoom, u64::MAX, room).min(free)
    }
}

/// Whether it is worth its cost to copy these bytes of a partition, where `most` may be copied.
fn is_due(bytes: u64, partition: &Partition, most: u64, is_idle: bool) -> bool {
    let is_worth_it = is_idle || partition.scan_cost.charged() >= bytes;
    bytes > 0 && is_worth_it && bytes <= most
}

impl Copies {
    fn of(&self, is_of_stretches: bool) -> u64 {
        if is_of_stretches {
            self.of_stretches
        } else {
            self.of_all
        }
    }
}

/// Bytes of the records that slices would move in `partition` from these files.
fn bytes_in(partition: &Partition, files: &HashSet<FileNumber>) -> u64 {
    let is_victim = |file| files.contains(&file);
    let tables = partition.key_tables.iter();
    let bytes = tables.map(|table| cluster::bytes_to_move(table.meta(), is_victim));
    bytes.sum()
}

#[cfg(test)]
mod tests;
