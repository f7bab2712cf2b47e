//! Choices of files in the model, each of which serves many jobs: victims of collections, and files
//! in which values are spread. A job takes partitions of the present choice that are free, and a
//! new choice is made when none of them has anything left.

use super::oracle::{is_free, may_take};
use super::partition::Partition;
use super::world::World;
use crate::base::keys::{FileNumber, PartitionId};
use crate::jobs::plan::{COLLECT, Filter, Pass};
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Partitions that one job takes, at most.
const MOST_TOGETHER: usize = 64;

#[derive(Clone, Debug)]
pub(super) struct Choice {
    files: BTreeSet<FileNumber>,
    /// Those with values in the files, most bytes first.
    partitions: Vec<PartitionId>,
    is_idle: bool,
}

/// The present choices.
#[derive(Clone, Debug, Default)]
pub(super) struct Choices {
    pub(super) collections: RefCell<Option<Choice>>,
    pub(super) slices: RefCell<Option<Choice>>,
}

/// What a job of a choice takes.
enum Next {
    Partitions(Vec<PartitionId>),
    /// Others work on the rest.
    AtWork,
    /// The choice has ended.
    Nothing,
}

impl Choice {
    fn new(
        files: BTreeSet<FileNumber>,
        is_idle: bool,
        bytes: impl Iterator<Item = (u64, PartitionId)>,
    ) -> Option<Choice> {
        let mut all: Vec<_> = bytes.collect();
        all.sort_by_key(|(bytes, _)| Reverse(*bytes));
        let partitions: Vec<_> = all.into_iter().map(|(_, id)| id).collect();
        (!partitions.is_empty()).then_some(Choice {
            files,
            partitions,
            is_idle,
        })
    }

    /// The first partitions that are due. If they are several, they cost no more than `most`.
    fn next(
        &self,
        world: &World,
        most: u64,
        bytes: impl Fn(&Partition) -> u64,
        cost_if_due: impl Fn(u64, &Partition) -> Option<u64>,
    ) -> Next {
        let (mut left, mut taken, mut is_at_work) = (most, Vec::new(), false);
        for partition in self.partitions.iter().filter_map(|id| world.get(*id)) {
            let bytes = bytes(partition);
            if bytes == 0 {
                continue;
            }
            is_at_work |= world.leased.contains(&partition.id);
            let Some(cost) = cost_if_due(bytes, partition) else {
                continue;
            };
            if taken.is_empty() || cost <= left {
                taken.push(partition);
            }
            left = left.saturating_sub(cost) * u64::from(cost <= left);
            if left == 0 || taken.len() == MOST_TOGETHER {
                break;
            }
        }
        taken.sort_by(|a, b| a.start.cmp(&b.start));
        match taken.is_empty() {
            false => Next::Partitions(taken.iter().map(|p| p.id).collect()),
            true if is_at_work => Next::AtWork,
            true => Next::Nothing,
        }
    }

    fn pass(&self, partitions: Vec<PartitionId>) -> Pass {
        Pass {
            partitions,
            files: self.files.iter().copied().collect(),
        }
    }
}

/// Collections.
impl World {
    /// Dead bytes above the threshold.
    pub(super) fn excess(&self) -> u64 {
        self.dead_bytes().saturating_sub(self.garbage_begins_at)
    }

    /// The files with most garbage for what lives in them, as many as it takes to come to the
    /// threshold.
    pub(super) fn victims(&self) -> BTreeSet<FileNumber> {
        let mut left = self.excess();
        let mut all: Vec<_> = self.files.iter().filter(|(_, it)| it.dead > 0).collect();
        all.sort_by_key(|(number, it)| (Reverse(it.dead * 1_000 / it.live), **number));
        let victims = all.into_iter().take_while(|(_, file)| {
            let is_taken = left > 0;
            left = left.saturating_sub(file.dead);
            is_taken
        });
        victims.map(|(number, _)| *number).collect()
    }

    pub(super) fn next_collection(&self, filter: Filter) -> Option<Pass> {
        if self.excess() == 0 {
            return None;
        }
        let may = |p: &Partition| may_take(self, filter, COLLECT, p.id);
        let choose = || {
            let victims = self.victims();
            let bytes = self.partitions.iter().filter(|p| may(p));
            let bytes = bytes.map(|p| (p.live_in(&victims), p.id));
            let bytes: Vec<_> = bytes.filter(|(bytes, _)| *bytes > 0).collect();
            Choice::new(victims, false, bytes.into_iter())
        };
        if filter != Filter::Worker || self.disk.is_full {
            let choice = choose()?;
            return Some(choice.pass(vec![choice.partitions[0]]));
        }
        let present = &self.choices.collections;
        for _ in 0..2 {
            if present.borrow().is_none() {
                *present.borrow_mut() = choose();
            }
            let choice = present.borrow().clone()?;
            let next = choice.next(
                self,
                self.most_together_bytes,
                |p| p.live_in(&choice.files),
                |bytes, p| {
                    let has_failed = self.failures.has_failed((COLLECT, Some(p.id)));
                    let cost = bytes + p.sorted_bytes();
                    let cost = if has_failed { u64::MAX } else { cost };
                    may(p).then_some(cost)
                },
            );
            match next {
                Next::Partitions(ids) => return Some(choice.pass(ids)),
                Next::AtWork => return None,
                Next::Nothing => *present.borrow_mut() = None,
            }
        }
        None
    }
}

/// Slices.
impl World {
    /// Whether nobody writes and values may be copied for scans.
    pub(super) fn clusters_when_idle(&self) -> bool {
        let is_idle = self.is_asked_for || self.idle_time().as_secs() >= 1;
        self.may_cluster && !self.disk.is_full && self.sealed.is_empty() && is_idle
    }

    /// What a slice costs in a partition; `None`: it is not worth its cost.
    fn cost_of_slice(&self, bytes: u64, partition: &Partition, is_idle: bool) -> Option<u64> {
        let cost = bytes.min(self.slice_bytes);
        let is_worth_it = is_idle || partition.charge >= cost;
        (bytes > 0 && is_worth_it && cost <= self.copies_left).then_some(cost)
    }

    /// Files in which values are spread, as many as there may be garbage.
    fn fragmented(&self, is_idle: bool) -> BTreeSet<FileNumber> {
        let mut chosen = BTreeSet::new();
        let mut left = self.room(is_idle);
        for partition in self.partitions.iter().filter(|p| p.is_spread()) {
            for file in partition.live.keys() {
                let live = self.files[file].live;
                if !chosen.contains(file) && live <= left {
                    left -= live;
                    chosen.insert(*file);
                }
            }
        }
        chosen
    }

    fn room(&self, is_idle: bool) -> u64 {
        let most = self.garbage_begins_at * (1 + u64::from(is_idle));
        most.saturating_sub(self.dead_bytes())
    }

    /// A new choice of files for slices, and the partitions in which a slice is due.
    pub(super) fn choose_slices(&self, filter: Filter) -> Option<Choice> {
        let is_idle = self.clusters_when_idle();
        let files = self.fragmented(is_idle);
        let all = self.partitions.iter().filter(|p| {
            let bytes = p.to_move(&files);
            self.may_be_moved(p, filter) && self.cost_of_slice(bytes, p, is_idle).is_some()
        });
        let due: Vec<_> = all.map(|p| (p.to_move(&files), p.id)).collect();
        Choice::new(files, is_idle, due.into_iter())
    }

    fn may_be_moved(&self, partition: &Partition, filter: Filter) -> bool {
        let has_failed = self.failed_slices.contains(&partition.id);
        is_free(self, filter, partition.id) && !has_failed
    }

    /// Whether a slice may be due.
    fn may_slice(&self) -> bool {
        let is_charged = self.partitions.iter().any(|p| p.charge > 0);
        let may_cluster = self.may_cluster && !self.disk.is_full;
        may_cluster && self.give_way_for().is_none() && (is_charged || self.clusters_when_idle())
    }

    pub(super) fn next_slice(&self, filter: Filter) -> Option<Pass> {
        if !self.may_slice() {
            return None;
        }
        let is_idle = self.clusters_when_idle();
        let present = &self.choices.slices;
        let serves = |choice: &Choice| {
            let live = choice.files.iter().filter_map(|it| self.files.get(it));
            let live: u64 = live.map(|file| file.live).sum();
            choice.is_idle == is_idle && live <= self.room(is_idle)
        };
        if !present.borrow().as_ref().is_some_and(serves) {
            *present.borrow_mut() = None;
        }
        for _ in 0..2 {
            if present.borrow().is_none() {
                *present.borrow_mut() = self.choose_slices(filter);
            }
            let choice = present.borrow().clone()?;
            let next = choice.next(
                self,
                self.slice_bytes.min(self.copies_left),
                |p| p.to_move(&choice.files),
                |bytes, p| {
                    let cost = self.cost_of_slice(bytes, p, is_idle);
                    cost.filter(|_| self.may_be_moved(p, filter))
                },
            );
            match next {
                Next::Partitions(ids) => return Some(choice.pass(ids)),
                Next::AtWork => return None,
                Next::Nothing => *present.borrow_mut() = None,
            }
        }
        None
    }
}
