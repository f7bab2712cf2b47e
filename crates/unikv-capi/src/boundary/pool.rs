//! The cells that handles have left, by type: each waits until [`QUARANTINE`] others have become
//! empty after it, and is used again.
//!
//! A child of a fork leaves its parent's queue alone and begins one of its own: a thread that the
//! fork has not copied may have had the lock.

use std::collections::VecDeque;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use unikv::vfs::Process;

/// Empty cells of a type that wait before the oldest is used again.
const QUARANTINE: usize = 1024;

/// The empty cells of a type.
pub(crate) struct Pool<C: Sync + 'static>(AtomicPtr<Queue<C>>);

/// Stays for ever.
struct Queue<C: 'static> {
    /// That which has made it.
    process: Process,
    empty: Mutex<VecDeque<&'static C>>,
}

impl<C: Sync> Pool<C> {
    pub(crate) const fn new() -> Pool<C> {
        Pool(AtomicPtr::new(null_mut()))
    }

    /// A cell that has waited for long.
    pub(super) fn reusable(&self) -> Option<&'static C> {
        let mut empty = self.empty();
        let enough = empty.len() > QUARANTINE;
        enough.then(|| empty.pop_front()).flatten()
    }

    pub(super) fn add(&self, cell: &'static C) {
        self.empty().push_back(cell);
    }

    /// The queue of this process.
    #[expect(unsafe_code, reason = "follows pointers to queues, which stay")]
    fn empty(&self) -> MutexGuard<'static, VecDeque<&'static C>> {
        let mut current = self.0.load(Ordering::Acquire);
        loop {
            // SAFETY: null, or a queue that was published below and is never freed.
            if let Some(queue) = unsafe { current.as_ref() }
                && queue.process.is_this()
            {
                return queue.empty.lock().unwrap_or_else(PoisonError::into_inner);
            }
            let fresh = Box::into_raw(Box::new(Queue {
                process: Process::this(),
                empty: Mutex::default(),
            }));
            let (order, else_order) = (Ordering::AcqRel, Ordering::Acquire);
            current = match self.0.compare_exchange(current, fresh, order, else_order) {
                Ok(_) => fresh,
                Err(newer) => {
                    // SAFETY: it was made above, and nobody else has seen it.
                    drop(unsafe { Box::from_raw(fresh) });
                    newer
                }
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(unsafe_code, reason = "forks, and waits for the child")]
    fn the_child_of_a_fork_does_not_wait_for_a_thread_of_its_parent() {
        static POOL: Pool<u8> = Pool::new();
        let held = POOL.empty();
        // SAFETY: the child calls what is tested, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: calls of the system that take numbers. The alarm ends who waits for ever.
            unsafe {
                libc::alarm(60);
                libc::_exit(POOL.reusable().map_or(0, |_| 1));
            }
        }
        drop(held);
        let mut status = 0;
        // SAFETY: the status is written to memory that is there.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0);
    }
}
