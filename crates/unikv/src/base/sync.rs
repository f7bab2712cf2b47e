//! The one module from which atomics, locks and swapped pointers come, so that a model checker can
//! stand in: in the tests' build with `--cfg unikv_model` (`make model-check`) the same names are
//! those of loom or shuttle. In any other build they are what they are called, and cost nothing.
//!
//! What a checker cannot see, it is shown in two ways. Bytes that are shared by raw pointers have a
//! [`Witness`] beside them, which is notified of reads and writes. And [`Weakness`] names the
//! places where a model may be made wrong on purpose: a test that does not notice proves nothing.
//! `Arc` and `Weak` may come from the standard library: the thread that drops the last one does so
//! between two uses of what is seen here. [`Arc`] is for a count that a checker is to follow
//! itself.
//!
//! Of locks [`FairMutex`] alone takes two.

#[cfg(all(test, unikv_model))]
mod checked;
mod fair;
mod held;
#[cfg(not(all(test, unikv_model)))]
mod locks;
#[cfg(all(test, unikv_model))]
pub(crate) use checked::*;

#[cfg(not(all(test, unikv_model)))]
pub(crate) use plain::*;

pub(crate) use fair::FairMutex;

/// The names as they are.
#[cfg(not(all(test, unikv_model)))]
mod plain {
    use super::Weakness;
    pub(crate) use super::locks::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard};
    pub(crate) use arc_swap::{ArcSwap, ArcSwapOption, ArcSwapWeak, Guard};
    pub(crate) use std::sync::{Arc, OnceLock, atomic};

    /// Stands beside bytes that are shared by raw pointers; a checker that is notified of each use
    /// finds those that nothing orders.
    #[derive(Debug)]
    pub(crate) struct Witness;

    impl Witness {
        /// The bytes are being written, by a thread that alone knows of them.
        #[inline(always)]
        pub(crate) fn new() -> Witness {
            Witness
        }

        /// The bytes are read.
        #[inline(always)]
        pub(crate) fn read(&self) {}
    }

    /// Whether the running model is to be wrong at this place.
    #[inline(always)]
    pub(crate) const fn is_weak(_place: Weakness) -> bool {
        false
    }
}

use atomic::Ordering;

/// `order`, unless the running model is to be wrong at this place: then none.
#[inline(always)]
pub(crate) fn order(place: Weakness, order: Ordering) -> Ordering {
    if is_weak(place) {
        Ordering::Relaxed
    } else {
        order
    }
}

/// What no checker is to see: atomics that hold mere guesses or are touched under a lock that it
/// does not see, for if it let another thread run there, that one might wait for the lock for ever;
/// and the locks of what a test has a simulated disk do.
pub(crate) mod unseen {
    pub(crate) use std::sync::Mutex;
    pub(crate) use std::sync::atomic::{
        AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, fence,
    };
}

/// A place where a model can be made wrong, with what is done there then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weakness {
    /// A node of the memtable is linked in without `Release`.
    NodeLink,
    /// Nor is the link back to it.
    NodePrev,
    /// Nor is its link in the hash table.
    NodeChain,
    /// That entries of a memtable have been put in order is published without `Release`.
    EntriesOrdered,
    /// The head of an overflow chain is stored without `Release`.
    OverflowHead,
    /// The visible sequence number is stored without `Release`.
    Visible,
    /// Nothing orders a request to release a view and the look for one.
    HoldFence,
    /// An event moves without its lock.
    EventLock,
    /// A read takes the sequence number first, then the view.
    SeqBeforeView,
    /// A job that is done wakes nobody who waits for it.
    JobTellsNobody,
    /// What is written while a segment is synced counts as durable.
    MarkTooHigh,
    /// A writer that has led wakes nobody who waits.
    LeadTellsNobody,
}
