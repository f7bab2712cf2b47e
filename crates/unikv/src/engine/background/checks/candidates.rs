//! Comparing what the kinds find by sums and sets ([`crate::version::state`], the catalog's frozen
//! partitions) with a walk over all partitions, for tests and debug builds.
//!
//! Invariant: a partition in which a walk finds a job is among those that a kind asks. Where a kind
//! asks fewer, nothing else would ever ask that partition again, until an edit changes it.

use crate::engine::background::Background;
use crate::engine::background::kinds::join::may_be_joined;
use crate::engine::catalog::CatalogState;
use crate::jobs::partitioning::join;
use crate::jobs::space::tombstones;
use crate::partition::scan_sources;
use crate::version::Partition;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Background {
    /// Whether the kinds ask every partition in which something is due.
    pub(in crate::engine::background) fn check_candidates(
        &self,
        catalog: &CatalogState,
    ) -> Result<(), String> {
        catalog.check_frozen()?;
        let version = &catalog.version;
        let partitions = version.partitions();
        let limits = self.space.partition_limits();
        let pairs = partitions.iter().zip(partitions.iter().skip(1));
        let due = pairs.filter(|(left, right)| {
            may_be_joined(catalog, left, right) && join::is_due(left, right, limits)
        });
        let id_of = |(left, _): (&Arc<Partition>, &Arc<Partition>)| left.id;
        if !self.due_joins(catalog).map(id_of).eq(due.map(id_of)) {
            return Err("neighbours to be joined are not found".to_owned());
        }
        let are_all =
            |what: &str, asked: Vec<&Arc<Partition>>, due: &dyn Fn(&Partition) -> bool| {
                let asked: BTreeSet<_> = asked.into_iter().map(|p| p.id).collect();
                let mut missed = partitions.iter().filter(|p| due(p));
                match missed.find(|p| !asked.contains(&p.id)) {
                    Some(partition) => Err(format!("{what} of {:?} is not found", partition.id)),
                    None => Ok(()),
                }
            };
        let larger = version.perhaps_larger(limits.data_bytes, limits.key_table_bytes);
        are_all("a split", larger.collect(), &|p| {
            CatalogState::is_to_be_split(p, limits)
        })?;
        let many = tombstones::perhaps_many(version).collect();
        are_all("counting tombstones", many, &|p| self.counted.is_due(p))?;
        let limit = self.core.options.scan_merge_limit as usize;
        let many = scan_sources::perhaps_many(version, limit).collect();
        are_all("a scan merge", many, &|p| {
            let newest = p.generations.first();
            newest.is_some_and(|newest| scan_sources::is_merge_worth_it(newest, limit))
        })
    }
}
