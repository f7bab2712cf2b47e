//! Running clusterings (see [`crate::jobs::compact::cluster`]): when scans have paid for one, copy values that lie
//! apart next to each other.
//!
//! It holds the partition's lease, as every merge does, and comes after all other work. It is for speed
//! alone: nobody waits for it, a failed one is no failure of the database, and scans pay anew before it is
//! tried again.

use crate::base::sync::atomic::Ordering;
use crate::engine::Engine;
use crate::engine::background::merge::MergePlan;
use crate::engine::catalog::Catalog;
use crate::error::{Error, Result};
use crate::jobs::compact::cluster;
use crate::jobs::compact::cluster::Clusters;
use crate::jobs::compact::gc::Pressure;
use crate::jobs::compact::merge::MergeInputs;
use crate::options::Clustering;
use crate::version::{Partition, Version};
use std::sync::Arc;

impl Engine {
    /// Whether scans may pay for clustering.
    pub(crate) fn clusters_by_scans(&self) -> bool {
        self.options.clustering == Clustering::ByScans
    }

    /// Whether there is room for what clustering leaves behind: not while garbage is to be collected.
    pub(crate) fn may_cluster(&self, version: &Arc<Version>) -> bool {
        let limit = self.space_limit();
        let excess = || {
            self.space_of(version, limit.oldest)
                .excess(limit, Pressure::Alone)
        };
        self.clusters_by_scans() && !self.space.is_full() && excess() == 0
    }

    /// What a pass over `partition` clusters.
    pub(crate) fn clusters(&self, version: &Version, partition: &Partition) -> Clusters {
        cluster::choose(version, partition, self.options.unsorted_bytes)
    }

    /// The partition, among those that are free, in which scans have paid for clustering.
    pub(crate) fn plan_clustering<'a>(&self, catalog: &'a Catalog) -> Option<&'a Arc<Partition>> {
        if !self.clusters_by_scans() {
            return None;
        }
        let partitions = catalog.version.partitions().iter();
        let mut free = partitions.filter(|p| !catalog.merging.contains(&p.id));
        let due = free.find(|partition| cluster::is_due(partition));
        due.filter(|_| self.may_cluster(&catalog.version))
    }

    /// Clusters values for which scans have paid, if there are some.
    pub(crate) fn cluster_one(&self) -> Result<bool> {
        self.health.check_fatal()?;
        let mut plan = {
            let mut catalog = self.catalog.lock();
            let Some(partition) = self.plan_clustering(&catalog).cloned() else {
                return Ok(false);
            };
            catalog.merging.insert(partition.id);
            let inputs = MergeInputs {
                clusters: self.clusters(&catalog.version, &partition),
                ..MergeInputs::default()
            };
            MergePlan { partition, inputs }
        };
        self.run_for_scans(&mut plan, |plan, _| {
            self.gives_up_copies(plan);
        })?;
        Ok(true)
    }

    /// Runs what is for scans alone, and gives the lease back that the caller has taken for it. `failed` is
    /// told of a failure before anybody else may plan. Whether it came to its end.
    pub(crate) fn run_for_scans(
        &self,
        plan: &mut MergePlan,
        failed: impl FnOnce(&mut MergePlan, &Error),
    ) -> Result<bool> {
        let ended = self.run_plan(plan).inspect_err(|error| {
            self.note_full(error);
            failed(plan, error);
        });
        self.catalog.lock().merging.remove(&plan.partition.id);
        if ended.is_err() {
            // Unless writing is suspended, that was all: back to other work.
            self.health.check_fatal()?;
        }
        Ok(ended.is_ok())
    }

    /// Takes out of a plan that has failed what it was to copy for scans; false: nothing. Scans pay for it
    /// anew, or writers rest once more.
    pub(crate) fn gives_up_copies(&self, plan: &mut MergePlan) -> bool {
        let clusters = std::mem::take(&mut plan.inputs.clusters);
        let copies = std::mem::take(&mut plan.inputs.at_rest) || !clusters.is_empty();
        if !copies || self.closing.load(Ordering::Acquire) {
            return false;
        }
        cluster::forget(&plan.partition, &clusters);
        let failed = &self.counters.failed_clusterings;
        failed.fetch_add(1, Ordering::Relaxed);
        true
    }
}

#[cfg(test)]
mod tests;
