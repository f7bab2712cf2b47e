//! What the snapshots of a run may keep on disk, at most.
//!
//! Between one snapshot and the next, no more is overwritten than is written, and no more of what the
//! first shows than was live then. So the lesser of the two bounds what only the first keeps. A snapshot
//! counts for some time after its release, as what it kept has to be reclaimed first.

use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// Within this time what a snapshot kept has to be reclaimed after its release.
const RECLAIM_TIME: Duration = Duration::from_secs(60);

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
}
