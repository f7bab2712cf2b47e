//! Which long reads go around the page cache.
//!
//! To bring 45 KiB into the page cache takes 29 µs of processor time, and drives out as much that others may want;
//! around it they take 12 (`docs/benchmarks/levers.md`). But then they are not there for who reads them next. So a long
//! read goes around the page cache when nobody has asked for its place lately, and what nobody has asked for lately is
//! seldom in memory. Some still go through it, to learn whether that is so: where there is memory enough for all, the
//! page cache fills with them, and soon no read goes around it any more.
//!
//! No lock. What is remembered is a guess: whoever overwrites another's guess does no harm.

use crate::base::hash::key_hash;
use crate::base::keys::FileNumber;
use crate::base::sync::OnceLock;
use crate::base::sync::atomic::Ordering::Relaxed;
use crate::base::sync::unseen::{AtomicBool, AtomicU16, AtomicU32};

/// Shorter reads cost no less around the page cache.
const LONG_BYTES: usize = 16 << 10;
/// Places remembered, two bytes each; and the bytes of a file that are one place.
const PLACES: usize = 16 << 10;
const PLACE_BYTES: u64 = 8 << 10;
/// All of the reads tried were found in memory.
const ALWAYS: u32 = 1 << 16;
/// Below this share of them a read around the page cache takes less time in the mean, as 45 KiB take 60 µs around it, 82
/// through it, and 8 out of it.
const WORTHWHILE: u32 = ALWAYS / 3;
/// The newest trial counts this part of all before it.
const TRIALS: u32 = 1 << 5;
/// One in so many of the reads that could go around the page cache is a trial.
const TRIED_PART: u32 = 1 << 3;

/// How a read is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// Through the page cache.
    Through,
    /// The same, and [`ColdReads::tell`] wants to know whether it was found there.
    Trial,
    /// Around the page cache.
    Around,
}

/// What is known of long reads.
pub(super) struct ColdReads {
    /// Tags of the places that were read lately; made when there is a long read.
    lately: OnceLock<Box<[AtomicU16]>>,
    /// The share of trials that were found in memory, of [`ALWAYS`].
    found: AtomicU32,
    turn: AtomicU32,
    refused: AtomicBool,
}

impl ColdReads {
    pub(super) fn new() -> ColdReads {
        ColdReads {
            lately: OnceLock::new(),
            found: AtomicU32::new(ALWAYS),
            turn: AtomicU32::new(0),
            refused: AtomicBool::new(false),
        }
    }

    /// How to read `len` bytes from `offset` of `file`.
    pub(super) fn route(&self, file: FileNumber, offset: u64, len: usize) -> Route {
        if len < LONG_BYTES || self.refused.load(Relaxed) || self.was_read_lately(file, offset) {
            return Route::Through;
        }
        let seldom_found = self.found.load(Relaxed) < WORTHWHILE;
        if !seldom_found || self.turn.fetch_add(1, Relaxed).is_multiple_of(TRIED_PART) {
            return Route::Trial;
        }
        Route::Around
    }

    /// Whether what was tried was found in memory.
    pub(super) fn tell(&self, found: bool) {
        let before = self.found.load(Relaxed);
        let now = if found { ALWAYS } else { 0 };
        self.found
            .store(before - before / TRIALS + now / TRIALS, Relaxed);
    }

    /// The file system knows no way around the page cache.
    pub(super) fn refuse(&self) {
        self.refused.store(true, Relaxed);
    }

    /// Whether this place was asked for lately. Now it is.
    fn was_read_lately(&self, file: FileNumber, offset: u64) -> bool {
        let make = || (0..PLACES).map(|_| AtomicU16::new(0)).collect();
        let lately = self.lately.get_or_init(make);
        let hash = key_hash(file.0, &(offset / PLACE_BYTES).to_le_bytes());
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

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: usize = 45 << 10;

    /// Reads places of a file from `first` on, all of which are or are not in memory, and counts how they went.
    fn read(cold: &ColdReads, first: u64, count: u64, found: bool) -> [usize; 3] {
        let mut counts = [0; 3];
        for place in first..first + count {
            let route = cold.route(FileNumber(7), place * PLACE_BYTES + 17, LEN);
            counts[route as usize] += 1;
            if route == Route::Trial {
                cold.tell(found);
            }
        }
        counts
    }

    #[test]
    fn what_is_seldom_in_memory_is_read_around_it_and_tried_now_and_then() {
        let cold = ColdReads::new();
        assert_eq!(read(&cold, 0, 1000, true), [0, 1000, 0]);
        let [through, trials, around] = read(&cold, 1000, 1000, false);
        assert!(through == 0 && around > 800 && trials > 100, "{trials}");
        // Once most trials are found again, all is read through the page cache.
        let [_, trials, around] = read(&cold, 2000, 1000, true);
        assert!(around < 200 && trials > 800, "{around}");
        assert_eq!(read(&cold, 3000, 100, true), [0, 100, 0]);
    }

    #[test]
    fn what_was_read_lately_is_read_through_the_page_cache_and_so_is_what_is_short() {
        let cold = ColdReads::new();
        read(&cold, 0, 1000, false);
        assert_eq!(read(&cold, 900, 100, false), [100, 0, 0]);
        for _ in 0..100 {
            let short = cold.route(FileNumber(8), 0, LONG_BYTES - 1);
            assert_eq!(short, Route::Through);
        }
        // Another file's places are others, and after many others a place is forgotten.
        let other = |file| cold.route(FileNumber(file), 950 * PLACE_BYTES, LEN);
        assert_ne!(other(6), Route::Through);
        read(&cold, 10_000, 8 * PLACES as u64, false);
        let [through, _, around] = read(&cold, 0, 1000, false);
        assert!(through < 50 && around > 800, "{through}");
    }

    #[test]
    fn where_there_is_no_way_around_nothing_is_sent_there() {
        let cold = ColdReads::new();
        read(&cold, 0, 1000, false);
        cold.refuse();
        assert_eq!(read(&cold, 1000, 100, false), [100, 0, 0]);
    }
}
