//! What attempts to take a lock come to. No lock poisons here.

use std::sync::TryLockError;

/// The guard, unless somebody else holds the lock.
#[inline]
pub(super) fn held<G>(attempt: Result<G, TryLockError<G>>) -> Option<G> {
    match attempt {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}
