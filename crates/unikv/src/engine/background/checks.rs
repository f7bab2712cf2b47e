//! Which failures of jobs count, and for whom.
//!
//! A failure counts as long as its job is due: a garbage collection that failed and is no longer
//! needed has nothing to report. A call returns a failure only if what it waits for cannot come
//! about before that job has succeeded. So a partition whose merge meets a damaged file stops
//! nobody until flushes have to wait for that merge (`write::waits`).
//!
//! Takes the catalog's lock, and only while something has failed.

#[cfg(any(test, debug_assertions))]
mod candidates;

use crate::engine::background::Background;
use crate::engine::catalog::CatalogState;
use crate::engine::health::{COLLECT, FLUSH, Failure, JobError, MERGE};
use crate::error::Result;
use std::sync::Arc;
use std::time::Duration;

impl Background {
    /// Forgets failures of jobs that are no longer due.
    pub(crate) fn forget_settled(&self, catalog: &CatalogState) {
        if !self.core.health.has_failures() {
            return;
        }
        let mut settled = self.core.health.failures();
        settled.retain(|failure| !self.is_still_due(catalog, failure.job, failure.partition));
        for failure in &settled {
            self.core.job_recovered(failure.job, failure.partition);
        }
        if !settled.is_empty() {
            self.core.progress.notify();
        }
    }

    /// The failures of jobs that are due.
    pub(crate) fn job_failures(&self) -> Vec<Failure> {
        if !self.core.health.has_failures() {
            return Vec::new();
        }
        self.forget_settled(&self.catalog.lock());
        self.core.health.failures()
    }

    /// The failures of jobs, for a person.
    pub(crate) fn job_errors(&self) -> Vec<JobError> {
        let mut failures = self.job_failures();
        let version = Arc::clone(&self.read.view.load().version);
        let stays = self
            .choices
            .why_garbage_stays(&version)
            .map(|error| Failure {
                job: COLLECT,
                partition: None,
                error,
                failures: 1,
                retry_at: Duration::MAX,
            });
        failures.extend(stays);
        failures.iter().map(JobError::of).collect()
    }

    /// Refuses to wait for all background work while some of it is failing.
    pub(crate) fn check_jobs(&self) -> Result<()> {
        self.core.health.check_fatal()?;
        match self.job_failures().into_iter().next() {
            None => Ok(()),
            Some(failure) => Err(failure.error),
        }
    }

    /// Refuses to wait for merges while a flush or a merge is failing.
    pub(crate) fn check_merges(&self) -> Result<()> {
        self.core.health.check_fatal()?;
        let failures = self.job_failures();
        let mut concerned = failures
            .into_iter()
            .filter(|f| [FLUSH, MERGE].contains(&f.job));
        concerned
            .next()
            .map_or(Ok(()), |failure| Err(failure.error))
    }
}

#[cfg(test)]
mod tests;
