//! A mutex that does not poison: what a panic leaves behind is judged where the panic is caught.
//!
//! It is the standard library's, whose state is in the mutex alone, so that in the child of a fork
//! nobody waits for threads that the fork did not copy.

use std::sync::{self, PoisonError, TryLockError};

pub(crate) use std::sync::MutexGuard;

pub(crate) struct Mutex<T>(sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Mutex<T> {
        Mutex(sync::Mutex::new(value))
    }

    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}
