//! What a read may see: the one place that decides whether a version of a key is a value for it.
//!
//! A read sees of each key the newest version at or below its sequence number, and that version
//! decides: it is the value, or there is none, because it is a tombstone or because it has expired
//! at the time of the read. What has expired shadows older versions as a tombstone does. It has
//! expired from the very millisecond of its expiry on.
//!
//! Snapshots, iterators and transactions have a time of their own, taken when they were made. Any
//! other read has that of the database, and looks at the clock only where it has found something
//! that expires.

use crate::base::keys::{Kind, SeqNo};
use crate::base::seeded::seeded;
use crate::vfs::clock::Clock;
use std::num::NonZeroU64;

/// The moment of a snapshot, of an iterator or of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment {
    pub(crate) seq: SeqNo,
    /// In milliseconds since 1970.
    pub(crate) time_ms: u64,
}

/// What nobody needs any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Horizon {
    /// The oldest live snapshot: who sees the newest version of a key needs no older ones.
    pub(crate) oldest: Option<SeqNo>,
    /// The time of the oldest reader: what had expired by then has for everybody.
    pub(crate) time_ms: u64,
    /// The time of who reads the newest state.
    pub(crate) now_ms: u64,
}

impl Horizon {
    /// If there were no snapshots.
    pub(crate) fn without_snapshots(self) -> Horizon {
        Horizon {
            oldest: None,
            time_ms: self.now_ms,
            ..self
        }
    }
}

/// What a read sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Visibility {
    pub(crate) seq: SeqNo,
    /// In milliseconds since 1970; `None`: whenever the clock is looked at.
    time_ms: Option<NonZeroU64>,
}

impl Visibility {
    /// Up to this number, and what has not expired when it is found.
    #[inline(always)]
    pub(crate) fn now(seq: SeqNo) -> Visibility {
        Visibility { seq, time_ms: None }
    }

    /// Up to the number of a moment, and what had not expired at its time.
    pub(crate) fn at(Moment { seq, time_ms }: Moment) -> Visibility {
        if seeded!(SnapshotOfNow) {
            return Visibility::now(seq);
        }
        // Nothing that anybody writes expires in 1970.
        let time_ms = NonZeroU64::new(time_ms.max(1));
        Visibility { seq, time_ms }
    }

    /// The same for several reads, which are to see one moment. What is written after the clock was
    /// last needed is not seen.
    pub(crate) fn fixed(self, clock: &Clock) -> Visibility {
        match self.time_ms {
            None if clock.is_needed() => Visibility::at(Moment {
                seq: self.seq,
                time_ms: clock.now_ms(),
            }),
            _ => self,
        }
    }

    /// The time of the read.
    pub(crate) fn time_ms(self, clock: &Clock) -> u64 {
        self.time_ms.map_or_else(|| clock.now_ms(), NonZeroU64::get)
    }

    /// Whether the newest version at or below the number is a value.
    #[inline(always)]
    pub(crate) fn shows(self, kind: Kind, expiry_ms: Option<u64>, clock: &Clock) -> bool {
        kind != Kind::Delete && !self.has_expired(expiry_ms, clock)
    }

    /// Whether what expires then, if ever, has expired.
    #[inline(always)]
    pub(crate) fn has_expired(self, expiry_ms: Option<u64>, clock: &Clock) -> bool {
        expiry_ms.is_some_and(|expiry_ms| self.is_past(expiry_ms, clock))
    }

    #[cold]
    #[inline(never)]
    fn is_past(self, expiry_ms: u64, clock: &Clock) -> bool {
        expiry_ms <= self.time_ms(clock)
    }
}
