//! Running clusterings (see [`crate::jobs::cluster`]): when scans have paid for one, copy values that lie
//! apart next to each other.
//!
//! It holds the partition's lease, as every merge does, and comes after all other work. It is for speed
//! alone: nobody waits for it, a failed one is no failure of the database, and scans pay anew before it is
//! tried again.

use super::catalog::Catalog;
use super::engine::Engine;
use super::merging::MergePlan;
use crate::base::sync::atomic::Ordering;
use crate::error::Result;
use crate::jobs::cluster::{self, Clusters};
use crate::jobs::merge::MergeInputs;
use crate::options::Clustering;
use crate::version::{Partition, Version};
use std::sync::Arc;

impl Engine {
    /// Whether scans may pay for clustering.
    pub(super) fn clusters_by_scans(&self) -> bool {
        self.options.clustering == Clustering::ByScans
    }

    /// What a merge of `partition` clusters on its way.
    pub(super) fn clusters(&self, version: &Version, partition: &Partition) -> Clusters {
        match self.clusters_by_scans() {
            true => cluster::choose(version, partition, self.options.unsorted_bytes),
            false => Clusters::default(),
        }
    }

    /// The partition, among those that are free, in which scans have paid for clustering.
    pub(super) fn plan_clustering<'a>(&self, catalog: &'a Catalog) -> Option<&'a Arc<Partition>> {
        let partitions = catalog.version.partitions().iter();
        let mut free = partitions.filter(|p| !catalog.merging.contains(&p.id));
        let due = free.find(|partition| cluster::is_due(partition));
        due.filter(|_| self.clusters_by_scans() && !self.space.is_full())
    }

    /// Clusters values for which scans have paid, if there are some.
    pub(super) fn cluster_one(&self) -> Result<bool> {
        self.health.check_fatal()?;
        let plan = {
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
        let clustered = self.run_plan(&plan);
        if clustered.is_err() {
            plan.partition
                .key_tables
                .iter()
                .for_each(|table| table.scan_cost.store(0, Ordering::Relaxed));
        }
        self.catalog.lock().merging.remove(&plan.partition.id);
        if clustered.is_err() {
            self.counters
                .failed_clusterings
                .fetch_add(1, Ordering::Relaxed);
            // Unless writing is suspended, that was all: back to other work.
            self.health.check_fatal()?;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
