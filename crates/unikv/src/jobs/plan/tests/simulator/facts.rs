//! The facts of the model, and the figures of its partitions.

use super::kinds::{disk, lend, settle};
use super::world::{OfAll, World};
use crate::jobs::plan::Facts;
use crate::jobs::plan::facts::{
    Disk, Garbage, Gone, Hints, Idle, Memtables, Scans, TableWishes, Unsettled, Vacant,
};
use crate::jobs::plan::partitions::{PartitionFacts, Partitions};
use std::time::Duration;

impl World {
    pub(super) fn idle_time(&self) -> Duration {
        self.now - self.last_write
    }

    /// How long slices give way. They do not while a caller waits or after scans have charged more.
    pub(super) fn give_way_for(&self) -> Option<Duration> {
        let (until, charged) = self.gives_way;
        let left = until.saturating_sub(self.now);
        let gives_way = !left.is_zero() && self.charged() <= charged && !self.is_asked_for;
        gives_way.then_some(left)
    }

    pub(super) fn charged(&self) -> u64 {
        self.partitions.iter().map(|p| p.charge).sum()
    }

    /// Must precede [`World::facts`] after any change.
    pub(super) fn refresh(&mut self) {
        if self.of_all.is_none() {
            self.of_all = Some(OfAll {
                gone: self.gone(),
                blocking: self.blocking(),
                flushes_wait: self.flushes_wait(),
                unsettled: Unsettled {
                    memtable_hides: settle::memtable_hides(self),
                    has_many_deletes: settle::has_many_deletes(self),
                    may_seal: settle::may_seal(self),
                    generations_hide: settle::generations_hide(self),
                    may_freeze: settle::may_freeze(self),
                    gone_await_flush: settle::gone_await_flush(self),
                },
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
                bytes: 0,
                sealed: self.sealed.len(),
                are_blocked: of_all.flushes_wait,
            },
            disk: Disk {
                look_at: disk::look_at(self),
                ..self.disk.clone()
            },
            unsettled: of_all.unsettled,
            lend_at: lend::lend_at(self),
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
            idle: Idle {
                time: self.idle_time(),
                is_asked_for: self.is_asked_for,
            },
            garbage: Garbage {
                bytes: self.dead_bytes(),
                begins_at: self.garbage_begins_at,
                next: None,
                look_again_in: None,
            },
            scans: Scans {
                may_cluster: self.may_cluster,
                give_way_for: self.give_way_for(),
                next_slice: None,
                tombstones: {
                    let due = self.partitions.iter().filter(|p| p.has_tombstones());
                    due.map(|p| p.id).collect()
                },
                lack_indexes: self.lack_indexes,
            },
            most_together_bytes: self.most_together_bytes,
            held_back: self.failures.held_back(),
            chores: 0,
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

    pub(super) fn figures_of(&self, at: usize) -> PartitionFacts {
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
        self.check_files();
        assert!(
            figures == self.figures,
            "figures or orders of partitions differ from those made from scratch:\n{:?}\n{:?}",
            self.figures,
            figures
        );
        for pair in self.partitions.windows(2) {
            let (end, begin) = (pair[0].keyspaces.1, pair[1].keyspaces.0);
            assert!(begin == end || begin == end + 1, "ranges do not meet");
            // Keys must be in order, as the age of merges goes by them.
            assert!(pair[0].start < pair[1].start, "keys are out of order");
        }
    }
}
