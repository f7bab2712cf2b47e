//! Which reads are direct.
//!
//! To bring 45 KiB into the page cache takes 29 µs of processor time, and drives out as much that
//! others may want; a direct read takes 12, and less where the device gets several at once
//! (`docs/benchmarks/levers.md`). But then the bytes are not there for the next reader. So a read
//! is direct if its place was not read lately, and if such places are in memory so seldom that
//! direct reads cost less in the mean. How seldom, the reads of a sample of all places show, which
//! always go through the page cache. Where there is memory enough for all, it fills with them, and
//! soon no read is direct any more.
//!
//! No lock. What is remembered is a guess: to overwrite another's guess does no harm.

use crate::base::hash::key_hash;
use crate::base::keys::FileNumber;
use crate::base::sync::OnceLock;
use crate::base::sync::atomic::Ordering::Relaxed;
use crate::base::sync::unseen::{AtomicBool, AtomicU16, AtomicU32};
use std::time::Duration;

/// Shorter direct reads cost no less than others, if they are alone.
pub(crate) const LONG_BYTES: usize = 16 << 10;
/// Places remembered, two bytes each; and the bytes of a file that are one place.
const PLACES: usize = 32 << 10;
const PLACE_BYTES: u64 = 8 << 10;
/// One in this many pieces of a file, of this many bytes, is always read through the page cache: it
/// sees all that is asked of it there, as it would if no read were direct.
const TRIED_PART: u64 = 1 << 3;
const TRIED_BYTES: u64 = 256 << 10;
/// All of the reads tried were found in memory.
const ALWAYS: u32 = 1 << 16;
/// The newest of the reads tried, or timed, counts this part of all before it.
const NEWEST_PART: u32 = 1 << 5;
/// What a read takes of a processor that is found in memory, that is not, and that is direct; and
/// with the wait for the device, until that is known. Measured for 45 KiB, and for 1 KiB among
/// others.
const LONG: Costs = Costs {
    found_nanos: 8_000,
    missed_nanos: 29_000,
    direct_nanos: 12_000,
    waited_nanos: 60_000,
};
const SHORT: Costs = Costs {
    found_nanos: 1_000,
    missed_nanos: 8_000,
    direct_nanos: 4_000,
    waited_nanos: 20_000,
};
/// Waiting costs this part of what the processor's time does: others can use that meanwhile.
const WAIT_PART: u64 = 4;

struct Costs {
    found_nanos: u64,
    missed_nanos: u64,
    direct_nanos: u64,
    waited_nanos: u32,
}

/// How a read is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// Through the page cache.
    Through,
    /// The same, and [`DirectReadPolicy::note_trial`] wants to know whether it was found there.
    Trial,
    /// Past the page cache.
    Direct,
}

/// What is known of reads.
pub(in crate::vfs) struct DirectReadPolicy {
    /// Tags of the places that were read lately; made when there is a read that may be direct.
    lately: OnceLock<Box<[AtomicU16]>>,
    long: Known,
    short: Known,
    refused: AtomicBool,
}

/// What is known of reads of about one length.
struct Known {
    costs: Costs,
    /// The share of those tried that were found in memory, of [`ALWAYS`].
    found: AtomicU32,
    /// What a direct read takes, with the wait for the device.
    waited_nanos: AtomicU32,
}

impl Known {
    fn new(costs: Costs) -> Known {
        Known {
            found: AtomicU32::new(ALWAYS),
            waited_nanos: AtomicU32::new(costs.waited_nanos),
            costs,
        }
    }

    /// Whether direct reads cost less in the mean than those through the page cache, of which a
    /// share `s` is found there; with the wait `w` for the device: `DIRECT + w < s * FOUND + (1 -
    /// s) * (MISSED + w)`.
    fn is_worthwhile(&self) -> bool {
        let costs = &self.costs;
        let found = u64::from(self.found.load(Relaxed));
        let waited = u64::from(self.waited_nanos.load(Relaxed)).saturating_sub(costs.direct_nanos);
        let saved = costs.missed_nanos + waited / WAIT_PART - costs.found_nanos;
        found * saved < u64::from(ALWAYS) * (costs.missed_nanos - costs.direct_nanos)
    }
}

impl DirectReadPolicy {
    pub(in crate::vfs) fn new() -> DirectReadPolicy {
        DirectReadPolicy {
            lately: OnceLock::new(),
            long: Known::new(LONG),
            short: Known::new(SHORT),
            refused: AtomicBool::new(false),
        }
    }

    /// How to read `len` bytes from `offset` of `file`.
    pub(in crate::vfs) fn route(&self, file: FileNumber, offset: u64, len: usize) -> Route {
        if self.refused.load(Relaxed) || self.was_read_lately(file, offset) {
            return Route::Through;
        }
        let is_tried = || hash(file, offset / TRIED_BYTES).is_multiple_of(TRIED_PART);
        if self.known(len).is_worthwhile() && !is_tried() {
            Route::Direct
        } else {
            Route::Trial
        }
    }

    fn known(&self, len: usize) -> &Known {
        if len < LONG_BYTES {
            &self.short
        } else {
            &self.long
        }
    }

    /// Whether what was tried was found in memory.
    pub(in crate::vfs) fn note_trial(&self, len: usize, found: bool) {
        let known = self.known(len);
        move_mean(&known.found, if found { ALWAYS } else { 0 });
        // Where none is direct none is timed: a device that was slow for a while would seem so
        // for ever.
        move_mean(&known.waited_nanos, known.costs.waited_nanos);
    }

    /// What a direct read took.
    pub(in crate::vfs) fn note_direct(&self, len: usize, took: Duration) {
        let nanos = u32::try_from(took.as_nanos()).unwrap_or(u32::MAX);
        move_mean(&self.known(len).waited_nanos, nanos);
    }

    /// The file system knows no direct reads.
    pub(in crate::vfs) fn refuse(&self) {
        self.refused.store(true, Relaxed);
    }

    /// Whether this place was asked for lately. Now it is.
    fn was_read_lately(&self, file: FileNumber, offset: u64) -> bool {
        let make = || (0..PLACES).map(|_| AtomicU16::new(0)).collect();
        let lately = self.lately.get_or_init(make);
        let hash = hash(file, offset / PLACE_BYTES);
        // No place has the tag zero.
        let tag = (hash >> 48) as u16 | 1;
        let Some(slot) = lately.get(hash as usize % PLACES) else {
            return false;
        };
        let same = slot.load(Relaxed) == tag;
        if !same {
            slot.store(tag, Relaxed);
        }
        same
    }
}

fn hash(file: FileNumber, piece: u64) -> u64 {
    key_hash(file.0, &piece.to_le_bytes())
}

fn move_mean(mean: &AtomicU32, newest: u32) {
    let before = mean.load(Relaxed);
    let now = before - before / NEWEST_PART + newest / NEWEST_PART;
    mean.store(now, Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::Range;

    const LEN: usize = 45 << 10;

    /// Reads from places of a file, all of which are or are not in memory, and counts how they
    /// went.
    fn read(cold: &DirectReadPolicy, places: Range<u64>, found: bool) -> [usize; 3] {
        let mut counts = [0; 3];
        for place in places {
            let route = cold.route(FileNumber(7), place * TRIED_BYTES + 17, LEN);
            counts[route as usize] += 1;
            if route == Route::Trial {
                cold.note_trial(LEN, found);
            }
        }
        counts
    }

    #[test]
    fn what_is_seldom_in_memory_is_read_directly_and_a_part_of_it_never() {
        let cold = DirectReadPolicy::new();
        assert_eq!(read(&cold, 0..1000, true), [0, 1000, 0]);
        let [through, trials, direct] = read(&cold, 1000..2000, false);
        assert!(through == 0 && direct > 700 && trials > 100, "{trials}");
        // Once most of those tried are found again, all is read through the page cache.
        let [_, trials, direct] = read(&cold, 2000..3000, true);
        assert!(direct < 200 && trials > 800, "{direct}");
        assert_eq!(read(&cold, 3000..3100, true), [0, 100, 0]);
    }

    #[test]
    fn the_slower_the_device_the_more_is_worth_finding_in_memory() {
        let is_direct = |micros, found_of_ten: u32| {
            let cold = DirectReadPolicy::new();
            for n in 0..1000 {
                cold.note_trial(LEN, n % 10 < found_of_ten);
                (0..7).for_each(|_| cold.note_direct(LEN, Duration::from_micros(micros)));
            }
            cold.long.is_worthwhile()
        };
        assert!(is_direct(60, 3) && !is_direct(60, 6));
        assert!(is_direct(5000, 0) && !is_direct(5000, 1));

        let cold = DirectReadPolicy::new();
        read(&cold, 0..1000, false);
        (0..100).for_each(|_| cold.note_direct(LEN, Duration::from_secs(1)));
        cold.note_trial(LEN, true);
        assert!(!cold.long.is_worthwhile());
        read(&cold, 1000..2000, false);
        assert!(cold.long.is_worthwhile(), "it may have become faster");
    }

    #[test]
    fn what_was_read_lately_is_read_through_the_page_cache() {
        let cold = DirectReadPolicy::new();
        read(&cold, 0..1000, false);
        // Some have been overwritten by others.
        let [through, ..] = read(&cold, 900..1000, false);
        assert!(through >= 95, "{through}");
        // Another file's places are others, and after many others a place is forgotten.
        assert_ne!(
            cold.route(FileNumber(6), 950 * TRIED_BYTES + 17, LEN),
            Route::Through
        );
        read(&cold, 10_000..10_000 + 8 * PLACES as u64, false);
        let [through, _, direct] = read(&cold, 0..1000, false);
        assert!(through < 50 && direct > 700, "{through}");
    }

    #[test]
    fn short_reads_have_a_share_of_their_own() {
        let cold = DirectReadPolicy::new();
        read(&cold, 0..1000, false);
        let short = |file, place| cold.route(FileNumber(file), place * TRIED_BYTES, LONG_BYTES - 1);
        assert!((0..100).all(|place| short(8, place) == Route::Trial));
        (0..1000).for_each(|_| cold.note_trial(1000, false));
        let direct = (0..100).filter(|place| short(9, *place) == Route::Direct);
        assert!(direct.count() > 70);
        // Half of them found is too much.
        (0..1000).for_each(|n| cold.note_trial(1000, n % 2 == 0));
        assert!((0..100).all(|place| short(10, place) == Route::Trial));
        assert!(cold.long.is_worthwhile());
    }

    #[test]
    fn where_direct_reads_are_refused_there_are_none() {
        let cold = DirectReadPolicy::new();
        read(&cold, 0..1000, false);
        cold.refuse();
        assert_eq!(read(&cold, 1000..1100, false), [100, 0, 0]);
    }
}
