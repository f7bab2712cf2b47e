//! The memory arbiter: one budget for everything that the engine allocates (promise I7).
//!
//! The [`MemoryPlan`] divides the budget when the database is opened: it bounds the memtables, the
//! hash indexes and the buffers of jobs, each of which works with less where the budget is small.
//! The [`Arbiter`] then watches what these parts take, and gives the read cache what they leave. So
//! the cache shrinks while writers fill memtables or indexes grow, and grows again afterwards. When
//! no job has run for a while it is *lent* what jobs would take ([`lending`]).
//!
//! Invariants: what is charged for a part is at least what it takes until the next publication of
//! a view, so that room has been made before the memory is needed. The cache gives way first. When
//! little of it is left, memory kept for later memtables is given up, iterators release earlier
//! views with their memtables and indexes, and memtables are sealed earlier. Indexes are bounded by
//! freezing generations and by making flushes wait for merges.
//!
//! Locks: `Arbiter::tracked`, taken under `view_lock` or alone; under it the lock by which the
//! cache is fitted, with its shards and its list of pointer indexes, and the idle chunks, one at a
//! time.

mod arbiter;
mod iterators;
mod lending;
mod plan;

pub(crate) use arbiter::Arbiter;
pub use arbiter::MemoryStats;
pub(crate) use iterators::{IteratorBytes, IteratorCharge};
pub(crate) use plan::{MAX_SEALED, MemoryPlan};
