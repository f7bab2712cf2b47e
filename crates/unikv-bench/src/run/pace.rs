//! Operations at a fixed rate, whether those before have ended or not.

use std::time::{Duration, Instant};

/// A thread sleeps until so long before its next operation is due, as sleeping ends late; the rest
/// it spends asking for the time, and giving way to others.
const AWAKE: Duration = Duration::from_micros(200);

/// When the operations of one thread are due.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Of its first operation, after the beginning.
    offset: Duration,
    /// Between two of its operations.
    every: Duration,
}

impl Pace {
    /// Of one of `threads` that together do `rate` operations a second, by turns.
    pub fn new(rate: u64, thread: usize, threads: usize) -> Pace {
        let step = Duration::from_secs(1).div_f64(rate.max(1) as f64);
        Pace {
            offset: step * thread as u32,
            every: step * threads as u32,
        }
    }

    /// When the `nth` operation is due in a phase that began at `start`.
    pub fn due(&self, start: Instant, nth: u64) -> Instant {
        let after = self.offset + self.every.mul_f64(nth as f64);
        start.checked_add(after).unwrap_or(start)
    }
}

/// Returns at `due`, or at once if that is past.
pub fn wait_until(due: Instant) {
    loop {
        let left = due.saturating_duration_since(Instant::now());
        match left.checked_sub(AWAKE) {
            _ if left.is_zero() => return,
            Some(long) if !long.is_zero() => std::thread::sleep(long),
            _ => std::thread::yield_now(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_take_turns() {
        let start = Instant::now();
        let due = |thread, nth| Pace::new(1_000, thread, 4).due(start, nth) - start;
        assert_eq!(due(0, 0), Duration::ZERO);
        assert_eq!(due(3, 0), Duration::from_millis(3));
        assert_eq!(due(1, 2), Duration::from_millis(9));
    }
}
