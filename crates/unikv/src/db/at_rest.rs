//! Clustering while writers rest (see [`crate::jobs::lazy_cluster`]).
//!
//! Writers rest when the last sequence number has not changed for a second, or when somebody waits for the
//! background to become quiet. Then, after all other work, UnsortedStores of many tables are merged, and files that
//! flushes wrote are moved; what merges meanwhile is copied in key order at once.
//!
//! A pass holds the partition's lease, as every merge does. It is for speed alone: one that fails is no failure of
//! the database, and its files are left as they are.
//!
//! Locks: `seen` and `failed`, for a look; nothing is locked under them, and they under the catalog.

use super::catalog::Catalog;
use super::disk_full::free_bytes;
use super::engine::Engine;
use super::merging::MergePlan;
use crate::base::keys::FileNumber;
use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::error::{Error, ErrorKind, Result};
use crate::jobs::gc::{self, Pressure};
use crate::jobs::lazy_cluster::{self, FEW_FILES};
use crate::jobs::merge::MergeInputs;
use crate::jobs::space::{Space, SpaceLimit};
use crate::options::Clustering;
use crate::record::RecordFile;
use crate::version::{Generation, Partition, Version};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// A pass may write this part of what is free on the disk.
const FREE_PART: u64 = 4;
/// How long nobody must have written; twice as long after each pass that a writer has ended, so that who writes
/// little but often does not have passes begun for nothing.
const REST: Duration = Duration::from_secs(1);
/// Up to so many times.
const MOST_DOUBLINGS: u32 = 10;

/// What is known of the rests of writers.
#[derive(Debug, Default)]
pub(crate) struct AtRest {
    /// The last sequence number when it was last found changed, and when that was.
    seen: Mutex<Option<(u64, Duration)>>,
    /// How many callers wait for the background.
    asked: AtomicUsize,
    /// Passes that writers have ended since the last one that came to its end.
    interrupted: AtomicU32,
    /// Files that passes were to move which have failed.
    failed: Mutex<HashSet<FileNumber>>,
}

/// As long as it lives, writers are taken to rest.
pub(crate) struct Asked<'a>(&'a AtomicUsize);

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl AtRest {
    /// Has clustering begin without a rest.
    pub(crate) fn ask(&self) -> Asked<'_> {
        self.asked.fetch_add(1, Ordering::AcqRel);
        Asked(&self.asked)
    }
}

impl Engine {
    /// In what time writers will have rested for long enough if they do; `None`: they have, or nobody asks.
    pub(super) fn rest_begins_in(&self, now: Duration) -> Option<Duration> {
        let is_asked = self.at_rest.asked.load(Ordering::Acquire) > 0;
        if self.options.clustering != Clustering::AtRest || is_asked {
            return None;
        }
        let seq = self.visible_seq.load(Ordering::Acquire);
        let mut seen = self.at_rest.seen.lock();
        let since = match *seen {
            Some((last, since)) if last == seq => since,
            _ => seen.insert((seq, now)).1,
        };
        let interrupted = self.at_rest.interrupted.load(Ordering::Acquire);
        let rest = REST * (1 << interrupted.min(MOST_DOUBLINGS));
        (since + rest)
            .checked_sub(now)
            .filter(|left| !left.is_zero())
    }

    /// Whether writers rest and values may be copied.
    fn clusters_at_rest(&self) -> bool {
        self.options.clustering == Clustering::AtRest
            && self.rest_begins_in(self.now()).is_none()
            && !self.space.is_full()
    }

    /// Whether a merge of `generations` copies values because writers rest. What was ingested is in order.
    pub(super) fn copies_at_rest(&self, generations: &[Generation]) -> bool {
        self.clusters_at_rest() && !generations.iter().any(Generation::is_ingested)
    }

    /// What is to be done now, if writers rest.
    pub(super) fn plan_at_rest(&self, catalog: &Catalog) -> Option<Plan> {
        if !self.clusters_at_rest() {
            return None;
        }
        let partitions = catalog.version.partitions().iter();
        let due: Vec<_> = partitions
            .filter(|p| is_worth_merging(catalog, p))
            .collect();
        if !due.is_empty() {
            return Some(Plan::Freeze(due.into_iter().cloned().collect()));
        }
        let (version, limit) = (&catalog.version, self.space_limit());
        let space = self.space_of(version, limit.oldest);
        let victims = self.apart(version, &space, limit);
        let is_free = |id| !catalog.merging.contains(&id);
        let of = |victims| gc::partition_of(version, &space, limit, victims, is_free);
        let partition = Some(&victims)
            .filter(|them| !them.is_empty())
            .and_then(|them| of(them))?;
        Some(Plan::Pass(MergePlan {
            partition: Arc::clone(partition),
            inputs: MergeInputs {
                victims,
                at_rest: true,
                ..MergeInputs::default()
            },
        }))
    }

    /// Files that a pass takes while writers rest: as many as garbage leaves room for, and the disk.
    fn apart(&self, version: &Version, space: &Space, limit: SpaceLimit) -> Vec<Arc<RecordFile>> {
        let garbage = space.begins_at(limit, Pressure::Alone);
        let room = garbage.saturating_sub(space.dead_bytes());
        let free = free_bytes(&self.store).unwrap_or(u64::MAX);
        let most_bytes = room.min(free / FREE_PART);
        let failed = self.at_rest.failed.lock();
        lazy_cluster::choose(version, most_bytes, |file| !failed.contains(&file))
    }

    /// By what a pass that is for rests alone sees that somebody writes. Who waits for it is not kept waiting.
    pub(super) fn resting_for(&self, inputs: &MergeInputs) -> Option<(&AtomicU64, u64)> {
        let is_asked = self.at_rest.asked.load(Ordering::Acquire) > 0;
        let is_pass = inputs.at_rest && inputs.generations.is_empty();
        (is_pass && !is_asked)
            .then(|| (&self.visible_seq, self.visible_seq.load(Ordering::Acquire)))
    }

    /// Clusters in one partition what lies apart, if writers rest.
    pub(super) fn cluster_at_rest(&self) -> Result<bool> {
        self.health.check_fatal()?;
        let plan = {
            let mut catalog = self.catalog.lock();
            match self.plan_at_rest(&catalog) {
                None => return Ok(false),
                Some(Plan::Freeze(partitions)) => {
                    let frozen = partitions.iter().filter(|p| catalog.freeze(p)).count();
                    return Ok(frozen > 0);
                }
                Some(Plan::Pass(plan)) => {
                    catalog.merging.insert(plan.partition.id);
                    plan
                }
            }
        };
        let clustered = self.merge_and_commit(&plan);
        self.catalog.lock().merging.remove(&plan.partition.id);
        let counters = &self.counters;
        match clustered {
            Ok(written) => {
                counters.clusterings.fetch_add(1, Ordering::Relaxed);
                counters.count_merged(written);
                self.at_rest.interrupted.store(0, Ordering::Release);
            }
            Err(error) => {
                self.note_full(&error);
                self.pass_failed(&plan, &error);
                // Unless writing is suspended, that was all: back to other work.
                self.health.check_fatal()?;
            }
        }
        Ok(true)
    }

    /// Notes how a pass failed. Files that could not be moved are left where they are.
    fn pass_failed(&self, plan: &MergePlan, error: &Error) {
        // Somebody writes, or the database is being closed.
        if error.kind() == ErrorKind::Closed {
            self.at_rest.interrupted.fetch_add(1, Ordering::AcqRel);
            return;
        }
        let failed = &self.counters.failed_clusterings;
        failed.fetch_add(1, Ordering::Relaxed);
        // When there is room again, they may well be moved.
        if error.kind() != ErrorKind::DiskFull {
            let files = plan.inputs.victims.iter().map(|file| file.meta().number);
            self.at_rest.failed.lock().extend(files);
        }
    }
}

/// What is done at rest.
pub(super) enum Plan {
    /// The UnsortedStores of these partitions are to be merged.
    Freeze(Vec<Arc<Partition>>),
    /// These files are to be moved.
    Pass(MergePlan),
}

/// Whether a partition's open generation makes scans look into many tables, and its merge writes more of
/// values than of keys that are there already.
fn is_worth_merging(catalog: &Catalog, partition: &Partition) -> bool {
    let keys: u64 = partition.key_tables.iter().map(|t| t.meta().len).sum();
    let is_many = |newest: &Generation| newest.tables().count() > FEW_FILES;
    catalog.may_freeze(partition)
        && partition
            .generations
            .first()
            .is_some_and(|g| is_many(g) && g.bytes() >= keys)
}

#[cfg(test)]
mod tests;
