//! A limit for what tests wait for: a thread that is joined may stand still, and so would the test.

use std::io::{Write, stderr};
use std::process::abort;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Far more than any test takes on any machine.
pub const MOST_WAIT: Duration = Duration::from_secs(1500);

/// Ends the process, with what was waited for, unless it is dropped within [`MOST_WAIT`].
#[must_use]
pub struct Limit(#[allow(dead_code, reason = "its end ends the wait for it")] Sender<()>);

/// Limits what is waited for in this scope: the threads `what`.
pub fn limit(what: &'static str) -> Limit {
    let (limit, end) = channel::<()>();
    std::thread::spawn(move || {
        if end.recv_timeout(MOST_WAIT) == Err(RecvTimeoutError::Timeout) {
            // Not by a panic, which ends this thread alone, nor by a macro, whose output is
            // captured.
            let _best_effort = writeln!(stderr(), "waited in vain for {what}");
            abort();
        }
    });
    Limit(limit)
}
