//! Clustering while writers are idle (see [`crate::jobs::compact::cluster`]).
//!
//! Writers are idle when the last sequence number has not changed for a second, or when somebody
//! waits for the background to become quiet. Then, after all other work, UnsortedStores of many
//! tables are merged, and files that flushes wrote are moved; what merges meanwhile is copied in
//! key order at once.
//!
//! A pass holds the partition's lease, as every merge does. It is for speed alone: one that fails
//! is no failure of the database, and its partition is left as it is.

use crate::base::keys::PartitionId;
use crate::base::sync::atomic::Ordering;
use crate::engine::background::idle::IDLE;
use crate::engine::background::kinds::merge::MergePlan;
use crate::engine::background::scheduler::Ask;
use crate::engine::background::{Background, Ended, Job, JobKind};
use crate::engine::catalog::CatalogState;
use crate::engine::health::{JobName, MERGE};
use crate::error::{Error, ErrorKind};
use crate::jobs::Cancel;
use crate::jobs::compact::cluster::FEW_FILES;
use crate::jobs::compact::parts::MergeInputs;
use crate::jobs::compact::{cluster, gc};
use crate::jobs::space::garbage::Pressure;
use crate::jobs::space::{Space, SpaceLimit};
use crate::key_table::KeyTable;
use crate::options::Clustering;
use crate::record::RecordFile;
use crate::version::{Generation, Partition, Version};
use std::sync::Arc;
use std::time::Duration;

/// A pass may write this part of what is free on the disk.
const FREE_PART: u64 = 4;
/// Up to this many times.
const MOST_DOUBLINGS: u32 = 10;

/// Clusters what is fragmented, while writers are idle.
pub(crate) struct Clusterings;

impl JobKind for Clusterings {
    fn name(&self) -> JobName {
        "clustering"
    }

    fn is_for_reads(&self) -> bool {
        true
    }

    fn find(&self, background: &Background, ask: &Ask<'_>) -> Option<Job> {
        match background.plan_when_idle(ask)? {
            Plan::Freeze(partitions) => Some(Job::new(None, move |background| {
                let mut catalog = background.catalog.lock();
                let frozen = partitions.iter().filter(|p| catalog.freeze(p)).count();
                Ok(if frozen > 0 {
                    Ended::Done
                } else {
                    Ended::Nothing
                })
            })),
            Plan::Pass(plan) => Some(Job::new([plan.partition.id], move |background| {
                background.run_plan(&plan)?;
                background.passes.succeeded();
                Ok(Ended::Done)
            })),
        }
    }

    fn failed(&self, background: &Background, partition: Option<PartitionId>, error: &Error) {
        if error.kind() == ErrorKind::Cancelled && !background.space.full.is_full() {
            let seq = background.read.visible_seq.load(Ordering::Acquire);
            background.passes.interrupted(seq);
            return;
        }
        let failed = &background.core.counters.failed_clusterings;
        failed.fetch_add(1, Ordering::Relaxed);
        background.passes.failed(partition);
    }
}

impl Background {
    /// In what time writers will have been idle for long enough if they stay so; `None`: they have,
    /// or it makes no difference.
    pub(crate) fn idle_begins_in(&self, now: Duration) -> Option<Duration> {
        if self.core.options.clustering != Clustering::AtRest || self.idle.asked.any() {
            return None;
        }
        let interrupted = self.passes.interruptions();
        // Twice as long after each pass that a writer has ended, so that one who writes little but
        // often does not have passes begun for nothing.
        let least = IDLE * (1 << interrupted.min(MOST_DOUBLINGS));
        let left = least.checked_sub(self.idle_time(now))?;
        (!left.is_zero()).then_some(left)
    }

    /// Whether writers are idle and values may be copied. Writers that wait for a flush are not.
    pub(crate) fn clusters_when_idle(&self) -> bool {
        self.core.options.clustering == Clustering::AtRest
            && self.idle_begins_in(self.core.now()).is_none()
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
    pub(crate) fn plan_when_idle(&self, ask: &Ask<'_>) -> Option<Plan> {
        if !self.clusters_when_idle() {
            return None;
        }
        let catalog = ask.catalog;
        let partitions = catalog.version.partitions().iter();
        let due: Vec<_> = partitions
            .filter(|p| is_worth_merging(catalog, p))
            .filter(|p| self.core.health.failure(MERGE, Some(p.id)).is_none())
            .collect();
        if !due.is_empty() {
            return Some(Plan::Freeze(due.into_iter().cloned().collect()));
        }
        let (version, limit) = (&catalog.version, self.space.space_limit());
        let space = self.space.space_of(version, limit.oldest);
        let victims = self.fragmented(version, &space, limit);
        if victims.is_empty() {
            return None;
        }
        let is_free = |id| ask.is_free(id) && !self.passes.has_failed(id);
        let partition = gc::partition_of(version, &space, limit, &victims, is_free)?;
        Some(Plan::Pass(MergePlan {
            partition: Arc::clone(partition),
            inputs: MergeInputs::cluster(victims),
        }))
    }

    /// Files that a pass takes while writers are idle: as many as garbage leaves room for, and the
    /// disk.
    fn fragmented(
        &self,
        version: &Version,
        space: &Space,
        limit: SpaceLimit,
    ) -> Vec<Arc<RecordFile>> {
        let keys = KeyTable::bytes_of(version.key_tables());
        // Of a single partition the pass releases its victims at once. Elsewhere they stay until
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

    /// Ends a pass when somebody writes, unless a caller waits for it.
    pub(crate) fn while_idle(&self) -> Cancel<'_> {
        let seq = self.read.visible_seq.load(Ordering::Acquire);
        let seq = (!self.idle.asked.any()).then_some(seq);
        let full = self.space.full.is_full_flag();
        self.until_closed()
            .or_when_busy(&self.read.visible_seq, seq, full)
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
