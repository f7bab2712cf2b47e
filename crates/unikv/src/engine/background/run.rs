//! What each job does: it makes its inputs from what it names, runs without locks, and hands what
//! it has made to [`super::commit`].
//!
//! Invariant: the leases of the job's partitions are held. So one job at a time changes the
//! SortedStore of a partition; only flushes run beside it, and they touch newer generations only.

use super::Background;
use super::choices::passes::plans_of;
use super::commit::Attempt;
use crate::base::keys::{FileNumber, PartitionId};
use crate::base::seeded::slip;
use crate::engine::health::{JobName, MERGE};
use crate::error::{ErrorKind, Result};
use crate::jobs::compact::parts::{MergeInputs, MergePlan, MergeRules, Purpose, partitions_of};
use crate::jobs::compact::together::merge_together;
use crate::jobs::flush::placing::MAX_GENERATIONS;
use crate::jobs::flush::{flush, flushed_together};
use crate::jobs::grant::grant;
use crate::jobs::plan::{CLUSTER, COLLECT, Job, Pass};
use crate::jobs::space::tombstones;
use crate::jobs::{Needs, Slice};
use crate::key_table::Wish;
use crate::partition::scan_sources;
use crate::version::Version;
use std::cell::Cell;
use std::sync::Arc;

/// A slice, which looks each MiB whether a merge is due, looks after this many MiB whether a
/// collection is: these may be due again and again, and a scan finds what the slice has copied in
/// one place.
const LOOKS_FOR_COLLECTION: u32 = 16;

/// How often both sides are merged before a join is given up.
const JOIN_ROUNDS: usize = 3;

/// How a job ended that has not failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Done,
    /// There was nothing to do after all: less urgent work has its turn.
    Nothing,
    /// One partition of several has failed, and the others are done. Both is noted.
    InPart,
    /// One partition of several has failed, which is noted, and nothing of the others is kept.
    Discarded,
    /// Others need what it needs: it is left alone for a while.
    GivenUp,
}

impl Ended {
    /// Done, if there was anything to do.
    pub(crate) fn done_if(any: bool) -> Ended {
        if any { Ended::Done } else { Ended::Nothing }
    }
}

impl Background {
    /// Does what a job says. The leases of its partitions are held.
    pub(super) fn perform(&self, job: &Job) -> Result<Ended> {
        match job {
            Job::LookAfterDisk => {
                let idle = self.idle_time(self.core.now());
                Ok(Ended::done_if(self.write.look_after_disk(idle)))
            }
            Job::Flush => self.flush_oldest(),
            Job::Settle(what) => Ok(self.settle_when_idle(*what)),
            Job::LendMemory => {
                let now = self.core.now();
                Ok(Ended::done_if(self.core.memory.lend(now)))
            }
            Job::Merge(ids) => {
                self.warmth.turn_begins(false);
                self.merge_these(ids)
            }
            Job::Collect(pass) => {
                let plans = plans_of(pass, &self.read.view.load().version, MergeInputs::collect);
                self.run_passes(COLLECT, &plans)
            }
            Job::Cluster(slice) => self.run_slice(slice),
            Job::FreezeToCluster(ids) => {
                let frozen = self.catalog.lock().freeze_these(ids);
                Ok(Ended::done_if(frozen))
            }
            Job::Split(id) => self.split(*id),
            Job::Join(sides) => self.join_leased(*sides),
            Job::Clear(ids) => self.clear(ids),
            Job::JoinGone(ids) => self.join_gone(ids),
            Job::FreezeForSpace => {
                self.space.full_disk.reclaim.frozen();
                self.catalog.lock().freeze_all();
                Ok(Ended::Done)
            }
            Job::FreezeTombstones(id) => self.freeze_tombstones(*id),
            Job::ScanMerge(id) => self.scan_merge_in(*id),
            Job::PointerIndex => Ok(Ended::done_if(self.make_index())),
            Job::KeyBlocks => Ok(Ended::done_if(self.read_blocks())),
            Job::PointerIndexes => {
                let version = Arc::clone(&self.read.view.load().version);
                version.key_tables().for_each(|table| table.want_index());
                Ok(Ended::Done)
            }
            Job::Warm => {
                self.warmth.turn_begins(true);
                Ok(Ended::done_if(self.warmth.read_hints()))
            }
            Job::NoteHints => Ok(Ended::done_if(self.warmth.note_hints())),
            Job::NoteClock => self.note_clock(),
            #[cfg(test)]
            Job::Chore(id) => self.do_chore(*id),
        }
    }

    /// Flushes the oldest sealed memtable, and those after it that are short.
    fn flush_oldest(&self) -> Result<Ended> {
        let view = self.read.view.load_full();
        let sealed = &view.sealed;
        let count = flushed_together(sealed, self.core.memory.memtable_bytes());
        if count == 0 {
            return Ok(Ended::Nothing);
        }
        // Newest first, as they are sealed.
        let oldest = slip!(
            FlushNewestFirst,
            &sealed[..count],
            &sealed[sealed.len() - count..]
        );
        let memtables: Vec<_> = oldest
            .iter()
            .map(|handle| Arc::clone(&handle.table))
            .collect();
        let filled: usize = memtables.iter().map(|table| table.bytes()).sum();
        self.space.probe_space();
        let begin = self.core.now();
        let waiting = || self.read.view.load().sealed.len().saturating_sub(count);
        let needs = Needs {
            waiting: Some(&waiting),
            ..Needs::default()
        };
        let context = self.job_context(self.until_closed(), needs);
        let flushed = flush(&context, &memtables);
        let tables = self.core.or_clean_up(&context, flushed)?;
        let time = self.core.now().saturating_sub(begin);
        // A small one takes what a flush takes in any case, which says nothing of its bytes.
        let least = self.core.memory.plan.memtable_bytes / 4;
        let bytes = (filled as u64).max(least);
        self.backpressure.state.note_flush(bytes, time);
        self.write.recent.make_room(filled);
        self.commit_flush(&context, &view, oldest, tables)?;
        Ok(Ended::Done)
    }

    /// Merges the oldest frozen generations of leased partitions, the first of which is the job's.
    fn merge_these(&self, ids: &[PartitionId]) -> Result<Ended> {
        let plans = self.merge_plans(ids);
        let Some(first) = plans.first() else {
            return Ok(Ended::Nothing);
        };
        let first = first.partition.id;
        match self.run_passes(MERGE, &plans) {
            Err(error) if Some(&first) != ids.first() && error.kind() != ErrorKind::Closed => {
                // The failure is of another partition than the job's.
                self.space.note_full(&error);
                self.job_failed(MERGE, Some(first), &error);
                Ok(Ended::Discarded)
            }
            ended => ended,
        }
    }

    /// What is merged of these partitions, in key order, and what rides along.
    pub(super) fn merge_plans(&self, ids: &[PartitionId]) -> Vec<MergePlan> {
        let catalog = self.catalog.lock();
        let version = Arc::clone(&catalog.version);
        let frozen = self.choices.oldest_frozen(&catalog, ids);
        drop(catalog);
        self.choices.merges_of(&version, frozen)
    }

    /// Merges the oldest frozen generations of a partition, and nothing rides along. False: there
    /// are none.
    pub(crate) fn merge_leased(&self, id: PartitionId) -> Result<bool> {
        let frozen = self.choices.oldest_frozen(&self.catalog.lock(), &[id]);
        let plans = frozen
            .into_iter()
            .map(|(partition, generations)| MergePlan {
                partition,
                inputs: MergeInputs::merge(generations),
            });
        let ended = self.run_passes(MERGE, &plans.collect::<Vec<_>>())?;
        Ok(ended != Ended::Nothing)
    }

    /// Copies the values of a slice.
    fn run_slice(&self, slice: &Pass) -> Result<Ended> {
        let plans = plans_of(slice, &self.read.view.load().version, MergeInputs::cluster);
        let (ran, took, misses) = self
            .core
            .beside_look_ups(|| self.run_passes(CLUSTER, &plans));
        let charged = scan_sources::charged_in_all(&self.read.view.load().version);
        self.choices.ended(self.core.now(), took, misses, charged);
        ran
    }

    /// Does this in several leased partitions, in key order, as a job of `name`, and commits all of
    /// it at once. A failure of a later one is noted, and the others are committed if no value has
    /// been moved.
    pub(super) fn run_passes(&self, name: JobName, plans: &[MergePlan]) -> Result<Ended> {
        if plans.is_empty() {
            return Ok(Ended::Nothing);
        }
        self.space.probe_space();
        let began = self.core.now();
        let looks = Cell::new(0_u32);
        let held = partitions_of(plans);
        let is_awaited = || {
            looks.set(looks.get() + 1);
            let for_collection = looks.get().is_multiple_of(LOOKS_FOR_COLLECTION);
            self.is_merge_due(&held) || for_collection && self.is_collection_due(&held)
        };
        // The inputs are chosen; only now the snapshots are listed.
        let needs = Needs {
            syncs_late: plans.len() > 1,
            ..Needs::default()
        };
        let context = self.job_context(self.until_closed(), needs);
        let slice_bytes = self.choices.slice_bytes(&self.read.view.load().version);
        let is_slice = |plan: &MergePlan| plan.inputs.purpose == Purpose::Cluster;
        let slice = plans.iter().any(is_slice).then_some(Slice {
            most_bytes: slice_bytes,
            is_awaited: &is_awaited,
        });
        let together = merge_together(&context, plans, |partition| {
            // Held no longer than that: it would keep the files on disk that others drop meanwhile.
            let version = Arc::clone(&self.read.view.load().version);
            MergeRules {
                inline_value_bytes: self.choices.inline_bytes_of(&version, partition),
                slice,
            }
        })?;
        let ended = match (&together.failed, &together.merged[..]) {
            (None, _) => Ended::Done,
            // The others have their turn again without the partition that failed.
            (Some(_), []) => Ended::Discarded,
            (Some(_), _) => Ended::InPart,
        };
        if let Some((nth, error)) = &together.failed {
            let plan = &plans[*nth];
            let version = Arc::clone(&self.read.view.load().version);
            self.choices.pass_failed(plan, error, &version);
            if *nth == 0 {
                return Err(error.clone());
            }
            self.space.note_full(error);
            self.job_failed(name, Some(plan.partition.id), error);
        }
        if ended != Ended::Discarded {
            self.commit_passes(name, &context, plans, together, began)?;
        }
        Ok(ended)
    }

    /// Joins neighbours whose leases are held. A flush that reaches a side meanwhile begins another
    /// generation there, which is merged as well, some times: so writers that keep two small
    /// neighbours busy cost merges now and then, and never wait.
    pub(crate) fn join_leased(&self, sides: [PartitionId; 2]) -> Result<Ended> {
        for round in 0..=JOIN_ROUNDS {
            match self.try_to_join(sides)? {
                Attempt::Joined => return Ok(Ended::Done),
                Attempt::GivenUp => return Ok(Ended::GivenUp),
                Attempt::ToBeMerged if round == JOIN_ROUNDS => return Ok(Ended::GivenUp),
                Attempt::ToBeMerged => {}
            }
            for side in sides {
                if !self.merge_frozen(side)? {
                    return Ok(Ended::GivenUp);
                }
            }
        }
        Ok(Ended::GivenUp)
    }

    /// Merges what is frozen of a side. False: a merge has failed, which is noted.
    fn merge_frozen(&self, side: PartitionId) -> Result<bool> {
        for _ in 0..MAX_GENERATIONS {
            match self.merge_leased(side) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    self.space.note_full(&error);
                    if error.kind() == ErrorKind::Closed {
                        return Err(error);
                    }
                    self.job_failed(MERGE, Some(side), &error);
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Makes the pointer index of a table that wants one. False: none does any more.
    fn make_index(&self) -> bool {
        let next = || self.next_wish(Wish::Index);
        grant(next, |table| table.make_index(self.core.hash_seed))
    }

    /// Reads the key blocks of a table that wants them. False: none does any more.
    fn read_blocks(&self) -> bool {
        let version = Arc::clone(&self.read.view.load().version);
        let sums = version.partition_sums();
        let bytes = sums.key_table_bytes + sums.saved_bytes;
        let has_room = self.core.cache.has_room_for_blocks(bytes);
        let next = || self.next_wish(Wish::Blocks);
        grant(next, |table| table.read_blocks(has_room))
    }

    /// A table that wants this. A commit has a table's successor want what it wants before it lists
    /// it, so both are read under one lock.
    fn next_wish(&self, wish: Wish) -> Option<(FileNumber, Arc<Version>)> {
        let catalog = self.catalog.lock();
        let number = self.core.cache.wishes().of(wish).take()?;
        Some((number, Arc::clone(&catalog.version)))
    }

    /// Freezes the open generation of a leased partition if much of it is tombstones. What cannot
    /// be read is left to the merge, which reports it.
    fn freeze_tombstones(&self, id: PartitionId) -> Result<Ended> {
        let version = Arc::clone(&self.read.view.load().version);
        let partition = version.partition(id);
        let newest = partition.and_then(|p| Some((p, p.generations.first()?)));
        let Some((partition, generation)) = newest else {
            return Ok(Ended::Nothing);
        };
        let worth = tombstones::are_worth_a_merge(partition, generation, self.until_closed());
        self.counted.note(partition.id, generation);
        match worth {
            Err(error) if error.kind() == ErrorKind::Closed => return Err(error),
            Ok(true) => drop(self.catalog.lock().freeze(partition)),
            Ok(false) | Err(_) => {}
        }
        Ok(Ended::Done)
    }
}

#[cfg(test)]
mod join_tests;
#[cfg(test)]
mod merge_tests;
