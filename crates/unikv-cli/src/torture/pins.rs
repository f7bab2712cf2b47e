//! What the snapshots of a run may keep on disk, at most.
//!
//! Between one snapshot and the next, no more is overwritten than is written, and no more of what
//! the first shows than was live then. So the lesser of the two bounds what only the first keeps. A
//! snapshot counts for some time after its release, as what it kept has to be reclaimed first.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Within this time what a snapshot kept has to be reclaimed after its release.
const RECLAIM_TIME: Duration = Duration::from_secs(60);
/// Within this time files have to be removed after the last iterator that held them has gone: an
/// unlink takes about a millisecond, and an iterator may hold hundreds of files.
const UNLINK_TIME: Duration = Duration::from_secs(1);

struct Pin {
    id: u64,
    /// Bytes that had been written when it was taken.
    written: u64,
    /// Bytes that were live then.
    live: u64,
    released: Option<Instant>,
}

/// The snapshots, in the order in which they were taken.
#[derive(Default)]
pub struct Pins(Mutex<(u64, Vec<Pin>)>);

impl Pins {
    /// Notes a snapshot; its number is for [`Pins::release`].
    pub fn take(&self, written: impl FnOnce() -> u64, live: u64) -> u64 {
        let mut pins = self.0.lock();
        pins.0 += 1;
        let (id, written) = (pins.0, written());
        pins.1.push(Pin {
            id,
            written,
            live,
            released: None,
        });
        id
    }

    /// The snapshot is no more.
    pub fn release(&self, id: u64) {
        let mut pins = self.0.lock();
        if let Some(pin) = pins.1.iter_mut().find(|pin| pin.id == id) {
            pin.released = Some(Instant::now());
        }
    }

    /// The most that all of them keep, when `written` bytes have been written.
    pub fn bytes(&self, written: impl FnOnce() -> u64) -> u64 {
        let mut pins = self.0.lock();
        let counts = |pin: &Pin| pin.released.is_none_or(|at| at.elapsed() < RECLAIM_TIME);
        pins.1.retain(counts);
        let ends = pins.1.iter().skip(1).map(|pin| pin.written);
        let ends = ends.chain([written()]);
        let kept = pins.1.iter().zip(ends);
        kept.map(|(pin, end)| pin.live.min(end.saturating_sub(pin.written)))
            .sum()
    }
}

/// Bytes of the files that only iterators and snapshots hold.
#[derive(Default)]
pub struct HeldFiles(Mutex<VecDeque<(Instant, u64)>>);

impl HeldFiles {
    /// The most that they took within [`UNLINK_TIME`], if they take `bytes` at `now`.
    pub fn most(&self, bytes: u64, now: Instant) -> u64 {
        let mut seen = self.0.lock();
        seen.push_back((now, bytes));
        seen.retain(|(at, _)| now.saturating_duration_since(*at) < UNLINK_TIME);
        seen.iter().map(|(_, bytes)| *bytes).max().unwrap_or(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_snapshot_keeps_what_was_overwritten_until_the_next() {
        let pins = Pins::default();
        assert_eq!(pins.bytes(|| 900), 0);
        let first = pins.take(|| 1_000, 500);
        assert_eq!(pins.bytes(|| 1_000), 0);
        assert_eq!(pins.bytes(|| 1_100), 100);
        pins.take(|| 1_200, 500);
        assert_eq!(pins.bytes(|| 1_300), 300);
        assert_eq!(pins.bytes(|| 9_000), 700);
        // What it kept is not reclaimed at once.
        pins.release(first);
        assert_eq!(pins.bytes(|| 9_000), 700);
    }

    #[test]
    fn files_count_for_a_second_after_they_were_held() {
        let (held, start) = (HeldFiles::default(), Instant::now());
        assert_eq!(held.most(5, start), 5);
        assert_eq!(held.most(900, start + UNLINK_TIME / 2), 900);
        assert_eq!(held.most(0, start + UNLINK_TIME), 900);
        assert_eq!(held.most(0, start + UNLINK_TIME * 3 / 2), 0);
    }
}
