//! Waiting until the background of an engine that does not tell is quiet: its process then neither
//! computes nor writes.

use crate::measure::process::{cpu_time, device_bytes};
use std::time::{Duration, Instant};

/// How often one looks.
const EVERY: Duration = Duration::from_millis(100);
/// So many looks in a row have to find nothing.
const LOOKS: u32 = 10;
/// What a quiet process may still compute and write between two looks.
const CPU: Duration = Duration::from_millis(3);
const BYTES: u64 = 64 << 10;
/// A process that is not quiet by then will never be.
const LONGEST: Duration = Duration::from_secs(3600);

/// Returns when nothing has run for a second, and gives the time until that second began.
pub fn wait_until_quiet() -> Duration {
    let start = Instant::now();
    let mut quiet = 0;
    let mut last = (cpu_time(), written());
    while quiet < LOOKS && start.elapsed() < LONGEST {
        std::thread::sleep(EVERY);
        let now = (cpu_time(), written());
        let is_quiet = now.0.saturating_sub(last.0) <= CPU && now.1.saturating_sub(last.1) <= BYTES;
        quiet = if is_quiet { quiet + 1 } else { 0 };
        last = now;
    }
    start.elapsed().saturating_sub(EVERY * quiet)
}

fn written() -> u64 {
    device_bytes().map_or(0, |(_, written)| written)
}
