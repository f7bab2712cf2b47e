//! Comparing what the kinds find by sums and figures ([`crate::version::state`], the catalog's
//! figures) with a walk over all partitions, for tests and debug builds.
//!
//! Invariant: a partition in which a walk finds a job is among those that a kind asks. Where a kind
//! asks fewer, nothing else would ever ask that partition again, until an edit changes it.

use crate::engine::background::Background;
use crate::engine::catalog::CatalogState;
use crate::jobs::space::tombstones;
use crate::version::Partition;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Background {
    /// Whether the kinds ask every partition in which something is due.
    pub(in crate::engine::background) fn check_candidates(
        &self,
        catalog: &CatalogState,
    ) -> Result<(), String> {
        catalog.check_figures()?;
        let version = &catalog.version;
        let partitions = version.partitions();
        let are_all =
            |what: &str, asked: Vec<&Arc<Partition>>, due: &dyn Fn(&Partition) -> bool| {
                let asked: BTreeSet<_> = asked.into_iter().map(|p| p.id).collect();
                let mut missed = partitions.iter().filter(|p| due(p));
                match missed.find(|p| !asked.contains(&p.id)) {
                    Some(partition) => Err(format!("{what} of {:?} is not found", partition.id)),
                    None => Ok(()),
                }
            };
        let many = tombstones::perhaps_many(version).collect();
        are_all("counting tombstones", many, &|p| self.counted.is_due(p))?;
        Ok(())
    }
}
