//! Callers that want something done now which would be done later by itself, and jobs that run.
//!
//! Lock: that of [`Running`], a leaf.

use crate::base::keys::PartitionId;
use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicUsize, Ordering};
use crate::engine::health::JobName;
use crate::engine::stats::holders::RunningJob;
use crate::jobs::plan::Why;
use std::collections::BTreeMap;
use std::time::Duration;

/// A job that runs: what, where, why and since when.
type Run = (JobName, Option<PartitionId>, Why, Duration);

/// The jobs that run by the order in which they began, and how many have begun.
#[derive(Debug, Default)]
pub(crate) struct Running(Mutex<(u64, BTreeMap<u64, Run>)>);

impl Running {
    /// A job begins; returns what [`Running::end`] is to get.
    pub(super) fn begin(
        &self,
        job: JobName,
        of: Option<PartitionId>,
        why: Why,
        now: Duration,
    ) -> u64 {
        let mut running = self.0.lock();
        running.0 += 1;
        let id = running.0;
        running.1.insert(id, (job, of, why, now));
        id
    }

    pub(super) fn end(&self, id: u64) {
        self.0.lock().1.remove(&id);
    }

    /// All of them, the oldest first.
    pub(crate) fn figures(&self, now: Duration) -> Vec<RunningJob> {
        let running = self.0.lock();
        let each = running.1.values().map(|(job, of, why, since)| RunningJob {
            job: (*job).to_owned(),
            partition: of.map(|id| id.0),
            why: why.to_string(),
            running_for: now.saturating_sub(*since),
        });
        each.collect()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Requests(AtomicUsize);

/// Counts a caller for as long as it lives.
pub(crate) struct Requested<'a>(&'a AtomicUsize);

impl Drop for Requested<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Requests {
    pub(crate) fn add(&self) -> Requested<'_> {
        self.0.fetch_add(1, Ordering::AcqRel);
        Requested(&self.0)
    }

    /// Whether there is one.
    pub(crate) fn any(&self) -> bool {
        self.0.load(Ordering::Acquire) > 0
    }
}
