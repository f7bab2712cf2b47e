//! A transaction that has conflicted again and again may be alone: other writers wait for it.
//!
//! They do not wait for ever, for what is alone may itself wait for one of them, on the same thread
//! even. Then it may conflict once more.
//!
//! Lock: `taken`, a leaf.

use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::vfs::Event;
use std::sync::Arc;
use std::time::Duration;

/// How long writers wait for one that is alone.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

pub(crate) struct Turns {
    taken: Mutex<bool>,
    /// The same, to be asked at each write.
    is_taken: AtomicBool,
    ended: Arc<dyn Event>,
}

impl Turns {
    pub(super) fn new(ended: Arc<dyn Event>) -> Turns {
        Turns {
            taken: Mutex::new(false),
            is_taken: AtomicBool::new(false),
            ended,
        }
    }

    /// Takes the turn if nobody has it.
    pub(crate) fn try_begin(&self) -> bool {
        let mut taken = self.taken.lock();
        let is_free = !std::mem::replace(&mut *taken, true);
        self.is_taken.store(true, Ordering::Release);
        is_free
    }

    #[inline]
    pub(crate) fn is_taken(&self) -> bool {
        self.is_taken.load(Ordering::Relaxed)
    }

    /// Waits until nobody has the turn, or for as long as a writer waits; `now` is the clock.
    pub(crate) fn wait(&self, now: impl Fn() -> Duration) {
        let until = now().saturating_add(LONGEST_WAIT);
        loop {
            let epoch = self.ended.epoch();
            let left = until.saturating_sub(now());
            if !*self.taken.lock() || left.is_zero() {
                return;
            }
            self.ended.wait_past(epoch, Some(left));
        }
    }

    pub(crate) fn end(&self) {
        let mut taken = self.taken.lock();
        *taken = false;
        self.is_taken.store(false, Ordering::Release);
        drop(taken);
        self.ended.notify();
    }
}
