//! Clustering while writers are idle (see [`crate::jobs::compact::cluster`]).
//!
//! Writers are idle when the last sequence number has not changed for a second, or when somebody
//! waits for the background to become quiet. Then, after all other work, UnsortedStores of many
//! tables are merged, and files that flushes wrote are moved; what merges meanwhile is copied in
//! key order at once.
//!
//! A pass holds the partition's lease, as every merge does. It is for speed alone: one that fails
//! is no failure of the database, and its partition is left as it is.
//!
//! Locks: `rest` and `failed`, for a look; nothing is locked under them, and they under the
//! catalog.

use crate::base::keys::PartitionId;
use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicUsize, Ordering};
use crate::engine::catalog::CatalogState;
use crate::engine::health::Job;
use crate::engine::schedule::Scheduler;
use crate::engine::schedule::merges::MergePlan;
use crate::error::{Error, ErrorKind};
use crate::jobs::Resting;
use crate::jobs::compact::cluster::FEW_FILES;
use crate::jobs::compact::gc::Pressure;
use crate::jobs::compact::merge::MergeInputs;
use crate::jobs::compact::{cluster, gc};
use crate::jobs::space::{Space, SpaceLimit};
use crate::key_table::KeyTable;
use crate::options::Clustering;
use crate::record::RecordFile;
use crate::version::{Generation, Partition, Version};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// A pass may write this part of what is free on the disk.
const FREE_PART: u64 = 4;
/// How long nobody must have written; twice as long after each pass that a writer has ended, so
/// that who writes little but often does not have passes begun for nothing.
const REST: Duration = Duration::from_secs(1);
/// Up to so many times.
const MOST_DOUBLINGS: u32 = 10;

/// What is known of the times in which writers are idle.
#[derive(Debug, Default)]
pub(crate) struct IdleWork {
    rest: Mutex<Rest>,
    /// How many callers wait for the background.
    asked: AtomicUsize,
    /// Where a pass has failed: what lies apart there is left so until the database is opened anew.
    failed: Mutex<HashSet<PartitionId>>,
}

/// What is known of the last writes.
#[derive(Debug, Default)]
struct Rest {
    /// The last sequence number when it was last found changed, and when that was.
    seen: Option<(u64, Duration)>,
    /// By how many writes in a row passes were ended, none having come to its end.
    interrupted: u32,
    /// The sequence number at the last of them.
    interrupted_at: u64,
}

/// As long as it lives, writers are taken to be idle.
pub(crate) struct Asked<'a>(&'a AtomicUsize);

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl IdleWork {
    /// Has clustering begin without waiting for writers to be idle.
    pub(crate) fn ask(&self) -> Asked<'_> {
        self.asked.fetch_add(1, Ordering::AcqRel);
        Asked(&self.asked)
    }

    /// A pass has come to its end.
    pub(crate) fn pass_succeeded(&self) {
        self.rest.lock().interrupted = 0;
    }

    /// Whether somebody waits for the background to become quiet.
    pub(crate) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Acquire) > 0
    }
}

impl Scheduler {
    /// In what time writers will have rested for long enough if they do; `None`: they have, or it
    /// is all one.
    pub(crate) fn rest_begins_in(&self, now: Duration) -> Option<Duration> {
        if self.core.options.clustering != Clustering::AtRest || self.idle.is_asked() {
            return None;
        }
        let seq = self.read.visible_seq.load(Ordering::Acquire);
        let mut rest = self.idle.rest.lock();
        let since = match rest.seen {
            Some((last, since)) if last == seq => since,
            _ => rest.seen.insert((seq, now)).1,
        };
        let least = REST * (1 << rest.interrupted.min(MOST_DOUBLINGS));
        (since + least)
            .checked_sub(now)
            .filter(|left| !left.is_zero())
    }

    /// Whether writers are idle and values may be copied. Writers that wait for a flush are not.
    pub(crate) fn clusters_when_idle(&self) -> bool {
        self.core.options.clustering == Clustering::AtRest
            && self.rest_begins_in(self.core.now()).is_none()
            && !self.space.full.is_full()
            && self.read.view.load().sealed.is_empty()
    }

    /// Whether a merge of `generations` copies values because writers are idle, and garbage and the
    /// disk have room for what is left behind. What was ingested is in order.
    pub(crate) fn copies_when_idle(
        &self,
        generations: &[Generation],
        space: &Space,
        limit: SpaceLimit,
    ) -> bool {
        let bytes: u64 = generations.iter().map(Generation::bytes).sum();
        self.clusters_when_idle()
            && !generations.iter().any(Generation::is_ingested)
            && space.excess(limit, Pressure::Alone) == 0
            && bytes <= self.space.free_bytes() / FREE_PART
    }

    /// What is to be done now, if writers are idle.
    pub(crate) fn plan_when_idle(&self, catalog: &CatalogState) -> Option<Plan> {
        if !self.clusters_when_idle() {
            return None;
        }
        let partitions = catalog.version.partitions().iter();
        let due: Vec<_> = partitions
            .filter(|p| is_worth_merging(catalog, p))
            .filter(|p| self.core.health.failure(Job::Merge, Some(p.id)).is_none())
            .collect();
        if !due.is_empty() {
            return Some(Plan::Freeze(due.into_iter().cloned().collect()));
        }
        let (version, limit) = (&catalog.version, self.space.space_limit());
        let space = self.space.space_of(version, limit.oldest);
        let victims = self.apart(version, &space, limit);
        if victims.is_empty() {
            return None;
        }
        let failed = self.idle.failed.lock();
        let is_free = |id| !catalog.merging.contains(&id) && !failed.contains(&id);
        let partition = gc::partition_of(version, &space, limit, &victims, is_free)?;
        Some(Plan::Pass(MergePlan {
            partition: Arc::clone(partition),
            inputs: MergeInputs {
                victims,
                copies_when_idle: true,
                ..MergeInputs::default()
            },
        }))
    }

    /// Files that a pass takes while writers are idle: as many as garbage leaves room for, and the
    /// disk.
    fn apart(&self, version: &Version, space: &Space, limit: SpaceLimit) -> Vec<Arc<RecordFile>> {
        let keys = KeyTable::bytes_of(version.key_tables());
        // Of a single partition the pass lets go of its victims at once. Elsewhere they stay until
        // each partition has had its pass, and a collection must not begin meanwhile.
        let begins = space.begins_at(limit, Pressure::Alone);
        let most = match version.partitions().len() {
            1 => begins.max(space.most_when_idle(limit).saturating_sub(keys)),
            _ => begins,
        };
        let room = most.saturating_sub(space.dead_bytes());
        let free = self.space.free_bytes().saturating_sub(keys);
        cluster::choose(version, room.min(free / FREE_PART))
    }

    /// By what a pass sees that it is to end. Who waits for it is not kept waiting.
    pub(crate) fn resting(&self) -> Resting<'_> {
        let seq = self.read.visible_seq.load(Ordering::Acquire);
        Resting {
            last_seq: &self.read.visible_seq,
            seq: (!self.idle.is_asked()).then_some(seq),
            disk_full: self.space.full.is_full_flag(),
        }
    }

    /// Notes how a pass failed.
    pub(crate) fn pass_failed(&self, plan: &MergePlan, error: &Error) {
        if error.kind() == ErrorKind::Closed {
            return;
        }
        if error.kind() == ErrorKind::Cancelled && !self.space.full.is_full() {
            // Somebody writes.
            let seq = self.read.visible_seq.load(Ordering::Acquire);
            let mut rest = self.idle.rest.lock();
            // One write may end several passes.
            rest.interrupted += u32::from(rest.interrupted_at != seq);
            rest.interrupted_at = seq;
            return;
        }
        let failed = &self.core.counters.failed_clusterings;
        failed.fetch_add(1, Ordering::Relaxed);
        self.idle.failed.lock().insert(plan.partition.id);
    }
}

/// What is done when idle.
pub(crate) enum Plan {
    /// The UnsortedStores of these partitions are to be merged.
    Freeze(Vec<Arc<Partition>>),
    /// These files are to be moved.
    Pass(MergePlan),
}

/// Whether a partition's open generation makes scans look into many tables, and its merge writes
/// more of values than of keys that are there already.
fn is_worth_merging(catalog: &CatalogState, partition: &Partition) -> bool {
    let is_worth = |newest: &Generation| {
        newest.tables().count() > FEW_FILES && newest.bytes() >= partition.key_table_bytes()
    };
    catalog.may_freeze(partition) && partition.generations.first().is_some_and(is_worth)
}

#[cfg(test)]
mod tests;
