//! Jobs that the model holds back: those that have failed, and those that were given up.

use crate::base::keys::PartitionId;
use crate::jobs::plan::facts::{Cause, HeldBack};
use crate::jobs::plan::{COLLECT, FLUSH, JobName};
use std::collections::BTreeMap;
use std::time::Duration;

const FIRST_BACKOFF: Duration = Duration::from_secs(1);
const LONGEST_BACKOFF: Duration = Duration::from_secs(60);
const LEFT_ALONE: Duration = Duration::from_secs(3);

/// A kind of job, and the first of its partitions.
pub(super) type Of = (JobName, Option<PartitionId>);

#[derive(Debug)]
struct Failure {
    cause: Cause,
    failures: u32,
    until: Duration,
}

#[derive(Debug, Default)]
pub(super) struct Failures {
    failed: BTreeMap<Of, Failure>,
    given_up: BTreeMap<Of, Duration>,
}

impl Failures {
    /// Notes a failure. Pauses double, except those of flushes.
    pub(super) fn fail(&mut self, of: Of, cause: Cause, now: Duration) {
        let failures = self
            .failed
            .get(&of)
            .map_or(1, |failure| failure.failures + 1);
        let doublings = if of.0 == FLUSH {
            0
        } else {
            (failures - 1).min(6)
        };
        let pause = (FIRST_BACKOFF * (1 << doublings)).min(LONGEST_BACKOFF);
        let until = now + pause;
        let failure = Failure {
            cause,
            failures,
            until,
        };
        self.failed.insert(of, failure);
    }

    pub(super) fn forget(&mut self, of: Of) {
        self.failed.remove(&of);
    }

    pub(super) fn give_up(&mut self, of: Of, now: Duration) {
        self.given_up.insert(of, now + LEFT_ALONE);
    }

    /// Forgets failures for want of space, except those of collections.
    pub(super) fn disk_has_room(&mut self) {
        let is_kept =
            |of: &Of, failure: &mut Failure| failure.cause != Cause::DiskFull || of.0 == COLLECT;
        self.failed.retain(is_kept);
    }

    pub(super) fn failed(&self) -> Vec<Of> {
        self.failed.keys().copied().collect()
    }

    pub(super) fn has_failed(&self, of: Of) -> bool {
        self.failed.contains_key(&of)
    }

    pub(super) fn lacked_space(&self, of: Of) -> bool {
        let failure = self.failed.get(&of);
        failure.is_some_and(|failure| failure.cause == Cause::DiskFull)
    }

    pub(super) fn holds_back(&self, of: Of, now: Duration) -> bool {
        let failed = self.failed.get(&of).map(|failure| failure.until);
        let given_up = self.given_up.get(&of).copied();
        failed.into_iter().chain(given_up).any(|until| until > now)
    }

    /// How long until the next pause ends.
    pub(super) fn left(&self, now: Duration) -> Option<Duration> {
        let failed = self.failed.values().map(|failure| failure.until);
        let all = failed.chain(self.given_up.values().copied());
        all.filter(|until| *until > now)
            .min()
            .map(|until| until - now)
    }

    /// Forgets jobs that were given up and whose pauses have ended.
    pub(super) fn time_passes(&mut self, now: Duration) {
        self.given_up.retain(|_, until| *until > now);
    }

    pub(super) fn held_back(&self) -> Vec<HeldBack> {
        let failed = self.failed.iter().map(|(of, failure)| HeldBack {
            cause: failure.cause,
            job: of.0,
            partition: of.1,
            until: failure.until,
        });
        let given_up = self.given_up.iter().map(|(of, until)| HeldBack {
            cause: Cause::GivenUp,
            job: of.0,
            partition: of.1,
            until: *until,
        });
        failed.chain(given_up).collect()
    }
}
