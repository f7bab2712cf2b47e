//! Something that one thread uses now and then, and that others may ask it to release.
//!
//! Locks: what is held is locked while it is used. A request only tries that lock; the thread that
//! has it then looks, once it is free again, whether somebody has asked. What is taken out is
//! dropped under no lock.

#[cfg(all(test, unikv_model = "loom"))]
mod models;

use crate::base::sync::atomic::{AtomicBool, Ordering, fence};
use crate::base::sync::{Mutex, Weakness, is_weak};

pub(crate) struct Hold<T> {
    held: Mutex<Option<T>>,
    /// Somebody has asked to release and found it locked.
    asked: AtomicBool,
}

impl<T> Default for Hold<T> {
    fn default() -> Hold<T> {
        Hold {
            held: Mutex::new(None),
            asked: AtomicBool::new(false),
        }
    }
}

impl<T> Hold<T> {
    /// Calls `with` on what is held, which nobody takes away meanwhile.
    pub(crate) fn with<R>(&self, with: impl FnOnce(&mut Option<T>) -> R) -> R {
        let mut held = self.held.lock();
        let result = with(&mut held);
        drop(held);
        self.revoke_if_asked();
        result
    }

    /// Whether something is held.
    pub(crate) fn is_held(&self) -> bool {
        self.look(|held| held.is_some()).unwrap_or(true)
    }

    /// Calls `look` on what is held; `None`: it is in use.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&Option<T>) -> R) -> Option<R> {
        let held = self.held.try_lock()?;
        let result = look(&held);
        drop(held);
        self.revoke_if_asked();
        Some(result)
    }

    /// Releases it now, or when it is no longer in use.
    pub(crate) fn release(&self) {
        self.asked.store(true, Ordering::Relaxed);
        // Either this finds it unlocked, or the thread that has it locked sees the request
        // afterwards.
        if !is_weak(Weakness::HoldFence) {
            fence(Ordering::SeqCst);
        }
        let Some(mut held) = self.held.try_lock() else {
            return;
        };
        self.asked.store(false, Ordering::Relaxed);
        let taken = held.take();
        drop(held);
        drop(taken);
    }

    /// Releases it if somebody has asked while it was locked. To be called after each use.
    fn revoke_if_asked(&self) {
        if !is_weak(Weakness::HoldFence) {
            fence(Ordering::SeqCst);
        }
        if self.asked.load(Ordering::Relaxed) {
            self.release();
        }
    }
}
