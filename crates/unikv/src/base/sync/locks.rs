//! The standard library's locks, without poisoning: what a panic leaves behind is judged where the
//! panic is caught.
//!
//! A lock's state is in the lock and nowhere else. A child of a fork may therefore use locks of its
//! own whatever the threads of its parent were doing: a table of waiting threads that the whole
//! process shares would still list those that the fork did not copy.

use super::held::held;
use std::sync::{self, PoisonError};
use std::time::Duration;

pub(crate) use std::sync::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};

/// Repeats `attempt` in the build for ThreadSanitizer (`scripts/tsan.sh`), which does not see what
/// the standard library does out of line when a lock has to wait.
#[inline(always)]
fn acquire<G>(attempt: impl Fn() -> Option<G>, wait: impl FnOnce() -> G) -> G {
    if cfg!(unikv_tsan) {
        loop {
            match attempt() {
                Some(guard) => return guard,
                None => std::thread::yield_now(),
            }
        }
    }
    wait()
}

/// A mutex that does not poison.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Mutex<T> {
        Mutex(sync::Mutex::new(value))
    }

    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        let wait = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        acquire(|| self.try_lock(), wait)
    }

    #[inline]
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        held(self.0.try_lock())
    }
}

/// A lock for many readers or one writer. A reader waits behind a writer that waits, also where its
/// thread is a reader already.
#[derive(Debug, Default)]
pub(crate) struct RwLock<T>(sync::RwLock<T>);

impl<T> RwLock<T> {
    pub(crate) const fn new(value: T) -> RwLock<T> {
        RwLock(sync::RwLock::new(value))
    }

    #[inline]
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
        let wait = || self.0.read().unwrap_or_else(PoisonError::into_inner);
        acquire(|| self.try_read(), wait)
    }

    /// `None` if a writer has it or waits for it.
    #[inline]
    pub(crate) fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        held(self.0.try_read())
    }

    #[inline]
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
        let wait = || self.0.write().unwrap_or_else(PoisonError::into_inner);
        acquire(|| held(self.0.try_write()), wait)
    }
}

/// Waits for what another thread changes under the same mutex.
#[derive(Debug, Default)]
pub(crate) struct Condvar(sync::Condvar);

impl Condvar {
    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`Condvar::wait`], for `timeout` at most.
    pub(crate) fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> MutexGuard<'a, T> {
        let waited = self.0.wait_timeout(guard, timeout);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}
