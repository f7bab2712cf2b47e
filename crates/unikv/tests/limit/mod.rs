//! A limit for what tests wait for: a thread that is joined may stand still, and so would the test.

use parking_lot::{Condvar, Mutex};
use std::io::{Write, stderr};
use std::process::abort;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Far more than any test takes on any machine.
pub const MOST_WAIT: Duration = Duration::from_secs(300);

/// Ends the process, with what was waited for, unless it is dropped within [`MOST_WAIT`].
#[must_use]
pub struct Limit(Arc<(Mutex<bool>, Condvar)>);

/// Limits what is waited for in this scope: the threads `what`.
pub fn limit(what: &'static str) -> Limit {
    let ended = Arc::<(Mutex<bool>, Condvar)>::default();
    let watch = Arc::clone(&ended);
    std::thread::spawn(move || {
        let (has_ended, ends) = &*watch;
        let (mut has_ended, until) = (has_ended.lock(), Instant::now() + MOST_WAIT);
        while !*has_ended {
            if ends.wait_until(&mut has_ended, until).timed_out() {
                // Not by a panic, which ends this thread alone, nor by a macro, whose output is
                // captured.
                let _best_effort = writeln!(stderr(), "waited in vain for {what}");
                abort();
            }
        }
    });
    Limit(ended)
}

impl Drop for Limit {
    fn drop(&mut self) {
        let (has_ended, ends) = &*self.0;
        *has_ended.lock() = true;
        ends.notify_all();
    }
}
