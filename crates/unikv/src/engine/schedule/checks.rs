//! Which failures of jobs count, and for whom.
//!
//! A failure counts as long as its job is due: a garbage collection that failed and is no longer
//! needed has nothing to report. A caller is told of a failure only if what it waits for cannot
//! come about before that job has succeeded. So a partition whose merge meets a damaged file stops
//! nobody until flushes have to wait for that merge.
//!
//! Takes the catalog's lock, and only while something has failed.

use crate::engine::catalog::{CatalogState, FlushBlock};
use crate::engine::health::{Failure, Job};
use crate::engine::schedule::Scheduler;
use crate::error::Result;
use crate::jobs::compact::gc;

/// A background job that has failed and not been made up for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct JobError {
    /// What it does: `flush`, `merge`, `garbage collection`, `split` or `join`.
    pub job: &'static str,
    /// The id of the partition that it works on, of a join's the first; flushes work on all.
    pub partition: Option<u64>,
    /// What is wrong, where, and what remedies it.
    pub message: String,
    /// How often it has been tried again.
    pub retries: u32,
}

impl JobError {
    fn of(failure: &Failure) -> JobError {
        JobError {
            job: failure.job.name(),
            partition: failure.partition.map(|id| id.0),
            message: failure.error.to_string(),
            retries: failure.failures - 1,
        }
    }
}

impl Scheduler {
    /// Forgets failures of jobs that are no longer due.
    pub(crate) fn forget_settled(&self, catalog: &CatalogState) {
        if !self.core.health.has_failures() {
            return;
        }
        let mut settled = self.core.health.failures();
        settled.retain(|failure| !self.is_due(catalog, failure));
        for failure in &settled {
            self.core
                .health
                .job_succeeded(failure.job, failure.partition);
        }
        if !settled.is_empty() {
            self.core.progress.notify();
        }
    }

    fn is_due(&self, catalog: &CatalogState, failure: &Failure) -> bool {
        let version = &catalog.version;
        let partition = failure.partition.and_then(|id| version.partition(id));
        match (failure.job, partition) {
            (Job::Flush, _) => !self.read.view.load().sealed.is_empty(),
            (_, None) => false,
            (Job::Merge, Some(partition)) => !catalog.frozen(partition).is_empty(),
            (Job::Split, Some(partition)) => {
                CatalogState::is_to_be_split(partition, self.space.partition_limits())
                    || self.is_too_large_for_space(partition)
            }
            (Job::Join, Some(partition)) => self.is_to_be_joined(catalog, partition.id),
            (Job::Gc, Some(partition)) => {
                let (limit, victims) = (self.space.space_limit(), self.victims_alone(version));
                let space = self.space.space_of(version, limit.oldest);
                let is_its = |id| id == partition.id;
                gc::partition_of(version, &space, limit, &victims, is_its).is_some()
            }
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
        self.job_failures().iter().map(JobError::of).collect()
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
        let mut concerned = failures.into_iter().filter(|f| f.job <= Job::Merge);
        concerned
            .next()
            .map_or(Ok(()), |failure| Err(failure.error))
    }

    /// Refuses to wait for a flush that is failing, or that waits for merges which are failing.
    pub(crate) fn check_flushes(&self) -> Result<()> {
        self.core.health.check_fatal()?;
        if !self.core.health.has_failures() {
            return Ok(());
        }
        let catalog = self.catalog.lock();
        self.forget_settled(&catalog);
        if let Some(failure) = self.core.health.failure(Job::Flush, None) {
            return Err(failure.error);
        }
        let of_merge = |id| self.core.health.failure(Job::Merge, Some(id));
        match catalog.what_blocks_flushes(self.space.generation_limits(&catalog.version)) {
            None => Ok(()),
            Some(FlushBlock::Partition(id)) => of_merge(id).map_or(Ok(()), |f| Err(f.error)),
            Some(FlushBlock::SharedLimit) => {
                // Any merge helps: only if all fail is there nothing to wait for.
                let partitions = catalog.version.partitions().iter();
                let mut frozen = partitions.filter(|p| !catalog.frozen(p).is_empty());
                let mut failed = None;
                let all = frozen.all(|p| {
                    failed = of_merge(p.id);
                    failed.is_some()
                });
                match failed {
                    Some(failure) if all => Err(failure.error),
                    _ => Ok(()),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
