//! Waking somebody when look-ups have missed often enough: who sleeps need not look for himself.

use crate::base::sync::OnceLock;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::vfs::Event;
use std::sync::Arc;

const NEVER: u64 = u64::MAX;

/// Whom to wake when look-ups have missed often enough.
#[derive(Debug)]
pub(super) struct Alarm {
    /// At this many misses; once.
    at: AtomicU64,
    wakes: OnceLock<Arc<dyn Event>>,
}

impl Alarm {
    pub(super) fn new() -> Alarm {
        Alarm {
            at: AtomicU64::new(NEVER),
            wakes: OnceLock::new(),
        }
    }

    /// Look-ups have missed this often.
    pub(super) fn ring(&self, misses: u64) {
        let at = self.at.load(Ordering::Relaxed);
        if misses < at {
            return;
        }
        let (done, failed) = (Ordering::Relaxed, Ordering::Relaxed);
        let is_first = self.at.compare_exchange(at, NEVER, done, failed).is_ok();
        if let Some(wakes) = self.wakes.get().filter(|_| is_first) {
            wakes.notify();
        }
    }

    /// Notifies `event` when look-ups have missed about this often.
    pub(super) fn set(&self, misses: u64, event: &Arc<dyn Event>) {
        self.wakes.get_or_init(|| Arc::clone(event));
        self.at.store(misses, Ordering::Relaxed);
    }
}
