//! The one place that notices that nobody writes.
//!
//! Writers are idle for as long as the last sequence number has not changed, as far as somebody has
//! looked. A caller that waits for the background counts as proof that they are.
//!
//! Lock: `last`, a leaf.

use super::Background;
use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

#[derive(Debug, Default)]
pub(crate) struct Idle {
    /// The last sequence number when it was last found changed, and when that was.
    last: Mutex<Option<(u64, Duration)>>,
    /// How many callers wait for the background.
    asked: AtomicUsize,
}

/// As long as it lives, writers are taken to be idle.
pub(crate) struct Asked<'a>(&'a AtomicUsize);

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Idle {
    /// How long it is known that nobody writes, at `now` with `seq` as the last sequence number.
    fn time(&self, seq: u64, now: Duration) -> Duration {
        let mut last = self.last.lock();
        let since = match *last {
            Some((known, since)) if known == seq => since,
            _ => last.insert((seq, now)).1,
        };
        now.saturating_sub(since)
    }

    /// Has work for idle times begin without waiting for writers to be idle.
    pub(crate) fn ask(&self) -> Asked<'_> {
        self.asked.fetch_add(1, Ordering::AcqRel);
        Asked(&self.asked)
    }

    /// Whether a caller waits for the background.
    pub(crate) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Acquire) > 0
    }
}

impl Background {
    /// How long it is known at `now` that nobody writes.
    pub(crate) fn idle_time(&self, now: Duration) -> Duration {
        let seq = self.read.visible_seq.load(Ordering::Acquire);
        self.idle.time(seq, now)
    }
}
