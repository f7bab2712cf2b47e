//! What is wrong with the engine right now, and what that forbids.
//!
//! - A *fatal* error (the manifest could not be appended to, or the directory not be synced)
//!   suspends writing until reopen.
//! - A *poisoned WAL* (a write or sync of it failed) suspends writing until everything acknowledged
//!   is in tables; then it goes on in a new segment.
//! - A *job failure* belongs to a job and, but for flushes, to a partition. That job is in backoff
//!   for a while that doubles with each failure up to a minute, and is retried; others go on. Its
//!   success clears it, and so does its being no longer due, which the scheduler decides.
//!
//! Locks: `causes` for what suspends writing, `failures` for jobs: leaves, held for a look or a
//! change.

use crate::base::keys::PartitionId;
use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::error::{Error, ErrorKind, Result};
pub(crate) use crate::jobs::plan::{COLLECT, FLUSH, JobName, MERGE};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a failed job is in backoff: at first, and at most.
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
const LONGEST_BACKOFF: Duration = Duration::from_secs(60);

/// How long a job is in backoff after this many failures in a row. Writers wait for flushes.
fn backoff(job: JobName, failures: u32) -> Duration {
    match job {
        FLUSH => FIRST_BACKOFF,
        _ => FIRST_BACKOFF
            .saturating_mul(1 << failures.saturating_sub(1).min(6))
            .min(LONGEST_BACKOFF),
    }
}

/// A job that has failed and not been made up for.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) job: JobName,
    pub(crate) partition: Option<PartitionId>,
    pub(crate) error: Error,
    /// How often in a row.
    pub(crate) failures: u32,
    /// When it is tried again, on the runtime's clock.
    pub(crate) retry_at: Duration,
}

/// A background job that has failed and not been made up for.
#[derive(Clone, Debug, serde::Serialize)]
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

/// As it stands in a file.
#[derive(serde::Deserialize)]
struct ReadJobError {
    job: String,
    partition: Option<u64>,
    message: String,
    retries: u32,
}

// Not derived: the name of a job is no part of what is read.
impl<'de> serde::Deserialize<'de> for JobError {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        let read = ReadJobError::deserialize(from)?;
        Ok(JobError {
            job: job_named(&read.job),
            partition: read.partition,
            message: read.message,
            retries: read.retries,
        })
    }
}

/// The kind of job that a person calls `name`.
pub(crate) fn job_named(name: &str) -> JobName {
    const KNOWN: &[JobName] = &[
        FLUSH,
        MERGE,
        COLLECT,
        "split",
        "join",
        "scan merge",
        "clustering",
    ];
    let known = KNOWN.iter().find(|known| **known == name);
    known.copied().unwrap_or("another job")
}

impl JobError {
    pub(crate) fn of(failure: &Failure) -> JobError {
        JobError {
            job: failure.job,
            partition: failure.partition.map(|id| id.0),
            message: failure.error.to_string(),
            retries: failure.failures - 1,
        }
    }
}

/// Why writing is suspended.
#[derive(Debug, Default)]
struct Causes {
    fatal: Option<Error>,
    poisoned: Option<Error>,
}

#[derive(Debug, Default)]
pub(crate) struct Health {
    causes: Mutex<Causes>,
    /// Whether there is a cause: the one test on the way of every write. Changed under their lock.
    suspended: AtomicBool,
    failures: Mutex<BTreeMap<(JobName, Option<PartitionId>), Failure>>,
    /// How many there are, to be read without the lock.
    failure_count: AtomicUsize,
}

impl Health {
    /// Whether a write must look at what is wrong before it goes on.
    pub(crate) fn is_suspended(&self) -> bool {
        self.suspended.load(Ordering::Acquire)
    }

    /// Refuses writing after a fatal error.
    pub(crate) fn check_fatal(&self) -> Result<()> {
        match &self.causes.lock().fatal {
            None => Ok(()),
            Some(cause) => {
                let remedy = "reads go on; close and reopen the database to resume writing";
                Err(Error::writes_suspended(cause, remedy))
            }
        }
    }

    /// Returns what `change` does.
    fn suspend(&self, change: impl FnOnce(&mut Causes) -> bool) -> bool {
        let mut causes = self.causes.lock();
        let changed = change(&mut causes);
        let suspended = causes.fatal.is_some() || causes.poisoned.is_some();
        self.suspended.store(suspended, Ordering::Release);
        changed
    }

    /// Suspends writing until reopen. True: it was not before.
    pub(crate) fn set_fatal(&self, error: &Error) -> bool {
        self.suspend(|causes| {
            let is_first = causes.fatal.is_none();
            causes.fatal.get_or_insert_with(|| error.clone());
            is_first
        })
    }

    /// Why the WAL is poisoned, if it is.
    pub(crate) fn poisoned(&self) -> Option<Error> {
        self.causes.lock().poisoned.clone()
    }

    /// Suspends writing until the memtables are in tables. True: it was not before.
    pub(crate) fn poison(&self, error: &Error) -> bool {
        self.suspend(|causes| {
            let is_first = causes.fatal.is_none() && causes.poisoned.is_none();
            causes.poisoned.get_or_insert_with(|| error.clone());
            is_first
        })
    }

    /// A new WAL segment has taken over. True: writing goes on.
    pub(crate) fn unpoison(&self) -> bool {
        self.suspend(|causes| causes.poisoned.take().is_some() && causes.fatal.is_none())
    }

    /// Notes that a job has failed at `now`.
    pub(crate) fn job_failed(
        &self,
        job: JobName,
        partition: Option<PartitionId>,
        error: Error,
        now: Duration,
    ) {
        self.change_failures(|failures| {
            let before = failures.get(&(job, partition)).map_or(0, |f| f.failures);
            let count = before.saturating_add(1);
            let failure = Failure {
                job,
                partition,
                error,
                failures: count,
                retry_at: now.saturating_add(backoff(job, count)),
            };
            failures.insert((job, partition), failure);
        });
    }

    /// Notes that a job has succeeded; returns what failed of it before.
    pub(crate) fn job_succeeded(
        &self,
        job: JobName,
        partition: Option<PartitionId>,
    ) -> Option<Failure> {
        self.change_failures(|failures| failures.remove(&(job, partition)))
    }

    /// Lets what failed because the disk was full be tried again at once, now that there is room;
    /// returns what that was. Not so collections: nobody waits for them, and what has filled the
    /// disk once may do so again.
    pub(crate) fn forget_full_disk(&self) -> Vec<Failure> {
        let is_full = |failure: &Failure| {
            failure.error.kind() == ErrorKind::DiskFull && failure.job != COLLECT
        };
        self.change_failures(|failures| {
            let forgotten = failures.values().filter(|f| is_full(f)).cloned().collect();
            failures.retain(|_, failure| !is_full(failure));
            forgotten
        })
    }

    /// Whether some job has failed and not been made up for.
    pub(crate) fn has_failures(&self) -> bool {
        self.failure_count.load(Ordering::Acquire) > 0
    }

    /// All failures.
    pub(crate) fn failures(&self) -> Vec<Failure> {
        self.failures.lock().values().cloned().collect()
    }

    /// The failure of one job.
    pub(crate) fn failure(&self, job: JobName, partition: Option<PartitionId>) -> Option<Failure> {
        let there = self.has_failures();
        there.then(|| self.failures.lock().get(&(job, partition)).cloned())?
    }

    /// How long from `now` until the first job in backoff is retried, of those that are asked for.
    pub(crate) fn backoff_left(
        &self,
        is_asked: impl Fn(JobName) -> bool,
        now: Duration,
    ) -> Option<Duration> {
        let failures = self.failures.lock();
        let asked = failures.values().filter(|f| is_asked(f.job));
        let first = asked.map(|f| f.retry_at).min()?;
        // Never at once: a job that is due and cannot be chosen would be asked for without a pause.
        Some(first.saturating_sub(now).max(FIRST_BACKOFF / 10))
    }

    fn change_failures<T>(
        &self,
        change: impl FnOnce(&mut BTreeMap<(JobName, Option<PartitionId>), Failure>) -> T,
    ) -> T {
        let mut failures = self.failures.lock();
        let result = change(&mut failures);
        self.failure_count.store(failures.len(), Ordering::Release);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failing() -> Error {
        Error::corruption(std::path::Path::new("000001.rec"), 7, "damaged")
    }

    #[test]
    fn a_failing_job_rests_longer_each_time_up_to_a_minute() {
        let (health, id) = (Health::default(), PartitionId(3));
        let mut now = Duration::ZERO;
        let is_in_backoff = |job, id, at| {
            let failure = health.failure(job, Some(id));
            failure.is_some_and(|failure| failure.retry_at > at)
        };
        let mut rests = Vec::new();
        for _ in 0..9 {
            health.job_failed(MERGE, Some(id), failing(), now);
            let rest = health.backoff_left(|_| true, now).unwrap();
            assert!(is_in_backoff(MERGE, id, now + rest / 2));
            assert!(!is_in_backoff(MERGE, id, now + rest));
            rests.push(rest.as_secs());
            now += rest;
        }
        assert_eq!(rests, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert!(!is_in_backoff(COLLECT, id, Duration::ZERO));
        assert!(!is_in_backoff(MERGE, PartitionId(4), Duration::ZERO));
        health.job_succeeded(MERGE, Some(id));
        assert!(!health.has_failures());
        health.job_failed(MERGE, Some(id), failing(), now);
        assert_eq!(health.failures()[0].failures, 1);
    }

    #[test]
    fn a_flush_is_retried_every_second() {
        let health = Health::default();
        for _ in 0..9 {
            health.job_failed(FLUSH, None, failing(), Duration::ZERO);
        }
        let failure = health.failure(FLUSH, None).unwrap();
        assert_eq!(failure.retry_at, Duration::from_secs(1));
        assert_eq!(
            health.backoff_left(|job| job == MERGE, Duration::ZERO),
            None
        );
    }

    #[test]
    fn failures_that_a_full_disk_explains_are_forgotten_alone() {
        let health = Health::default();
        let full = std::io::ErrorKind::StorageFull.into();
        let full = Error::io("write", std::path::Path::new("f"), full);
        health.job_failed(MERGE, Some(PartitionId(1)), full.clone(), Duration::ZERO);
        health.job_failed("split", Some(PartitionId(1)), failing(), Duration::ZERO);
        health.job_failed(COLLECT, Some(PartitionId(1)), full, Duration::ZERO);
        health.forget_full_disk();
        let left: Vec<_> = health.failures().iter().map(|f| f.job).collect();
        assert_eq!(left, [COLLECT, "split"]);
    }
}
