//! Which partitions jobs hold, what is left alone for a while, whose turn it is, and whether a
//! worker searches.
//!
//! A job is found (`jobs/plan`) and leased under the catalog's lock, and run under no lock. One
//! that fails is in backoff, and so is what it works on, while others go on; its error is in
//! [`Health`](crate::engine::health::Health) until it succeeds or is no longer due.
//!
//! Lock: `given_up`, a leaf.

use super::lease::Leases;
use crate::base::keys::PartitionId;
use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::engine::health::JobName;
use crate::jobs::plan::facts::{Cause, HeldBack};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How long a job that was given up is left alone.
const LEFT_ALONE: Duration = Duration::from_secs(3);

#[derive(Default)]
pub(crate) struct Scheduler {
    pub(crate) leases: Arc<Leases>,
    /// Jobs that were given up, and until when they are left alone.
    given_up: Mutex<BTreeMap<(JobName, Option<PartitionId>), Duration>>,
    /// Jobs that workers have run.
    jobs: AtomicU64,
    /// Jobs that merge and have begun since a join that needs merges did. It changes under the
    /// catalog's lock.
    merges_since_join: AtomicU64,
    /// The greatest number of jobs after which a worker has found no other.
    none_after: AtomicU64,
}

impl Scheduler {
    pub(super) fn jobs(&self) -> u64 {
        self.jobs.load(Ordering::Acquire)
    }

    pub(super) fn note_job(&self) {
        self.jobs.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn merges_since_join(&self) -> u64 {
        self.merges_since_join.load(Ordering::Relaxed)
    }

    /// A job that merges begins.
    pub(super) fn merge_begins(&self) {
        self.merges_since_join.fetch_add(1, Ordering::Relaxed);
    }

    /// A join that needs merges begins.
    pub(super) fn join_with_merges_begins(&self) {
        self.merges_since_join.store(0, Ordering::Relaxed);
    }

    /// A worker that began to search after `jobs` has found nothing to do.
    pub(super) fn note_none(&self, jobs: u64) {
        self.none_after.fetch_max(jobs, Ordering::AcqRel);
    }

    /// Whether a worker is yet to search, or searches. A caller that waits leaves it to that: with
    /// thousands of partitions a second search after each job takes as long as the job.
    pub(super) fn is_searched(&self) -> bool {
        self.none_after.load(Ordering::Acquire) < self.jobs()
    }

    /// Leaves a job alone for a while from `now` on.
    pub(super) fn give_up(&self, name: JobName, of: Option<PartitionId>, now: Duration) {
        let until = now.saturating_add(LEFT_ALONE);
        self.given_up.lock().insert((name, of), until);
    }

    /// What is left alone, and until when.
    pub(super) fn given_up(&self) -> Vec<HeldBack> {
        let given_up = self.given_up.lock();
        let each = given_up.iter().map(|((job, partition), until)| HeldBack {
            cause: Cause::GivenUp,
            job,
            partition: *partition,
            until: *until,
        });
        each.collect()
    }

    /// Lets what was given up be tried again. Whether there was any.
    pub(crate) fn forget_given_up(&self) -> bool {
        let mut given_up = self.given_up.lock();
        let any = !given_up.is_empty();
        given_up.clear();
        any
    }

    /// How long from `now` until something that was given up may be tried again.
    pub(super) fn left_alone_for(&self, now: Duration) -> Option<Duration> {
        let mut given_up = self.given_up.lock();
        given_up.retain(|_, until| *until > now);
        let first = given_up.values().min()?;
        Some(first.saturating_sub(now))
    }
}
