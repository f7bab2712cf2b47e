//! Helpers shared by the tests of several modules.

pub(crate) mod file_trace;
pub(crate) mod golden;
#[path = "../../tests/limit/mod.rs"]
mod limits;
#[cfg(all(test, unikv_model = "loom"))]
pub(crate) mod loom_model;
#[cfg(all(test, unikv_model = "shuttle"))]
pub(crate) mod shuttle_model;

pub(crate) use limits::{MOST_WAIT, limit};
use std::time::Instant;

/// Waits until `condition` holds, which another thread is about to bring about.
///
/// # Panics
/// Names `what` it waited for once [`MOST_WAIT`] has passed.
pub(crate) fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < MOST_WAIT, "waited in vain for {what}");
        std::thread::yield_now();
    }
}
