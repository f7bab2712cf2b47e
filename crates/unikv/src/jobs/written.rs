//! How much the job that runs on this thread has written to data files, for the event of its end.
//!
//! Jobs nest only in simulations, where a worker that waits lets another run on its thread.

use std::cell::Cell;

thread_local! {
    static BYTES: Cell<u64> = const { Cell::new(0) };
}

/// Counts bytes for the job that runs on this thread.
pub(crate) fn add(bytes: u64) {
    BYTES.set(BYTES.get().saturating_add(bytes));
}

/// Runs a job, and says how much it has written.
pub(crate) fn during<T>(run: impl FnOnce() -> T) -> (T, u64) {
    let outer = BYTES.replace(0);
    let result = run();
    (result, BYTES.replace(outer))
}
