//! A mutex that whoever waits for it gets.
//!
//! A plain mutex may be taken again by the thread that has just released it, before one that waits
//! for it is awake. Where it is held over a sync of a file by a thread that does nothing else, each
//! such round costs the others a sync, and nothing bounds their number. Here the first thread that
//! waits has the gate, and whoever has released the mutex waits behind it.
//!
//! Lock: the gate is held only while a thread waits for the mutex, and no other lock is taken then.

use super::atomic::{AtomicUsize, Ordering};
use super::{Mutex, MutexGuard};

/// A mutex that does not poison, taken in turn.
#[derive(Debug, Default)]
pub(crate) struct FairMutex<T> {
    /// Threads that wait. Seen late, it costs a turn.
    waiting: AtomicUsize,
    gate: Mutex<()>,
    mutex: Mutex<T>,
}

impl<T> FairMutex<T> {
    pub(crate) fn new(value: T) -> FairMutex<T> {
        FairMutex {
            waiting: AtomicUsize::new(0),
            gate: Mutex::new(()),
            mutex: Mutex::new(value),
        }
    }

    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.try_lock().unwrap_or_else(|| self.lock_in_turn())
    }

    /// `None` if a thread has it or waits for it.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let is_free = self.waiting.load(Ordering::Relaxed) == 0;
        is_free.then(|| self.mutex.try_lock())?
    }

    #[cold]
    fn lock_in_turn(&self) -> MutexGuard<'_, T> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let gate = self.gate.lock();
        let guard = self.mutex.lock();
        drop(gate);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        guard
    }
}

#[cfg(all(test, not(unikv_model)))]
mod tests;
