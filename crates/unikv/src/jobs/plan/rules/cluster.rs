//! Clustering in slices: moving the values of neighbours to where they lie together. Which files,
//! and which partitions have values there, is chosen for many slices at once
//! (`engine/background/choices/rounds.rs`).

use crate::base::keys::PartitionId;
use crate::jobs::plan::{CLUSTER, Facts, Filter, Job, MERGE, OfCatalog, OnFailure, Rule, Why};

/// Clusters what is fragmented, where that is worth its cost to scans or while writers are idle.
pub(crate) const CLUSTERINGS: Rule = Rule {
    name: CLUSTER,
    of_catalog: OfCatalog::Slices,
    is_for_reads: true,
    on_failure: OnFailure::Counted,
    listed_for: Filter::Worker,
    find: |facts, _| {
        let unmerged = to_be_merged_first(facts);
        if !unmerged.is_empty() {
            let partitions = unmerged.len();
            return Some((
                Job::FreezeToCluster(unmerged),
                Why::ManyTables { partitions },
            ));
        }
        if !may_slice(facts) {
            return None;
        }
        let slice = facts.scans.next_slice.clone()?;
        let why = Why::Spread {
            partitions: slice.partitions.len(),
            is_idle: facts.clusters_when_idle(),
        };
        Some((Job::Cluster(slice), why))
    },
    due_in: |facts| {
        let waits = [facts.clusters_in(), facts.scans.give_way_for];
        waits.into_iter().flatten().min()
    },
};

/// Whether a slice may be due. To look for one takes longer.
pub(crate) fn may_slice(facts: &Facts<'_>) -> bool {
    let is_charged = facts.clusters_when_idle() || facts.partitions.charged().next().is_some();
    facts.may_cluster() && is_charged && facts.scans.give_way_for.is_none()
}

/// Where scans look into many tables of an UnsortedStore while nobody writes. Which files are
/// spread is chosen when these values are merged, too.
pub(crate) fn to_be_merged_first(facts: &Facts<'_>) -> Vec<PartitionId> {
    if !facts.clusters_when_idle() {
        return Vec::new();
    }
    let all = facts.partitions.many_tables();
    all.filter(|id| !facts.has_failed(MERGE, *id)).collect()
}
