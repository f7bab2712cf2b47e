//! Waiting until the background of an engine that does not say is quiet: its process then neither
//! computes nor writes. And until the device has carried out what it was given: where the space of
//! removed files is given back to it, it may be busy with that for seconds after the engine is
//! quiet.

use crate::measure::process::{block_device_counts, cpu_time, device_bytes};
use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

/// How often one looks.
const EVERY: Duration = Duration::from_millis(100);
/// This many looks in a row have to find nothing.
const LOOKS: u32 = 10;
/// What a quiet process may still compute and write between two looks.
const CPU: Duration = Duration::from_millis(3);
const BYTES: u64 = 64 << 10;
/// Requests that others may make of a quiet device between two looks: logs are written everywhere.
const REQUESTS: u64 = 20;
/// A process that is not quiet by then is measured as it is.
const LONGEST: Duration = Duration::from_secs(300);
/// And a device that others use is as quiet then as it will be.
const LONGEST_FOR_DEVICE: Duration = Duration::from_secs(60);

/// Returns when nothing has run for a second, or after five minutes, and gives the time until that
/// second began.
pub fn wait_until_quiet() -> Duration {
    let mut last = (cpu_time(), written());
    wait_while_busy(LONGEST, || {
        let now = (cpu_time(), written());
        let is_quiet = now.0.saturating_sub(last.0) <= CPU && now.1.saturating_sub(last.1) <= BYTES;
        last = now;
        is_quiet
    })
}

/// Hands all that is dirty under `dir` to the device and returns when that has done hardly anything
/// for a second. Gives the time until that second began; `None` where the system does not say.
pub fn wait_for_device(dir: &Path) -> Option<Duration> {
    let start = Instant::now();
    rustix::fs::syncfs(File::open(dir).ok()?).ok()?;
    let handed_over = start.elapsed();
    let mut last = Some(block_device_counts(dir)?);
    let left = LONGEST_FOR_DEVICE.saturating_sub(handed_over);
    let busy = wait_while_busy(left, || {
        let now = block_device_counts(dir);
        let is_quiet = match (&now, &last) {
            (Some(now), Some(last)) => now.in_flight == 0 && now.since(last) <= REQUESTS,
            _ => false,
        };
        last = now;
        is_quiet
    });
    Some(handed_over + busy)
}

/// Looks until `is_quiet` has said so often enough in a row, or for the `longest` time, and gives
/// the time until the first of those looks.
fn wait_while_busy(longest: Duration, mut is_quiet: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    let mut quiet = 0;
    while quiet < LOOKS && start.elapsed() < longest {
        std::thread::sleep(EVERY);
        quiet = if is_quiet() { quiet + 1 } else { 0 };
    }
    start.elapsed().saturating_sub(EVERY * quiet)
}

fn written() -> u64 {
    device_bytes().map_or(0, |(_, written)| written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_waited_for_where_the_system_counts_for_it() {
        let dir = std::env::temp_dir();
        let waited = wait_for_device(&dir);
        assert_eq!(waited.is_some(), block_device_counts(&dir).is_some());
        assert_eq!(
            wait_for_device(&dir.join("there is no such directory")),
            None
        );
    }
}
