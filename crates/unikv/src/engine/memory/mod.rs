//! The memory arbiter: one budget for everything that the engine allocates (promise I7). The
//! [`MemoryPlan`] divides it at opening; the [`Arbiter`] watches what the parts take and gives the
//! read cache the rest. See `docs/mechanisms.md`, "Memory".
//!
//! Invariants: what is charged for a part is at least what it takes until the next publication of a
//! view, so room has been made before the memory is needed. The cache gives way first. What jobs
//! would take is lent to the cache only while no job runs ([`lending`]).
//!
//! Locks: `Arbiter::tracked`, taken under `view_lock`, the catalog's lock or alone; under it the
//! lock by which the cache is fitted, with its shards and its list of pointer indexes, and the idle
//! chunks, one at a time.

mod arbiter;
mod iterators;
mod large_batches;
mod lending;
mod plan;
mod reads;

pub(crate) use arbiter::Arbiter;
pub use arbiter::MemoryStats;
pub(crate) use iterators::{IteratorBytes, IteratorCharge};
pub(crate) use large_batches::LargeBatchTurn;
pub(crate) use plan::{MAX_SEALED, MemoryPlan};
pub(crate) use reads::ReadsCharge;
