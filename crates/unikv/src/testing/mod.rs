//! Helpers shared by the tests of several modules.

pub(crate) mod file_trace;
pub(crate) mod golden;
#[cfg(all(test, unikv_model = "loom"))]
pub(crate) mod loom_model;
#[cfg(all(test, unikv_model = "shuttle"))]
pub(crate) mod shuttle_model;

use std::time::{Duration, Instant};

/// After this a test fails that waits for another thread: far more than that takes on any machine.
pub(crate) const MOST_WAIT: Duration = Duration::from_secs(300);

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
