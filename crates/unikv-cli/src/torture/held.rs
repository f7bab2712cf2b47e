//! Snapshots and iterators that a thread holds for seconds to many minutes while everything under
//! them is merged, collected and split.

use crate::exit::Failure;
use crate::torture::model::{Effect, Record};
use crate::torture::oracle::in_words;
use crate::torture::ranges::{expect_entry, expect_range, key_range, wide_scan};
use crate::torture::worker::{Counts, Shared, found, mismatch};
use rand::Rng;
use rand::rngs::SmallRng;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use unikv::{Iter, Snapshot};

const LONGEST: Duration = Duration::from_secs(20 * 60);
/// Own keys in the range that a snapshot remembers.
const RANGE_KEYS: u64 = 200;
/// Entries of all threads that a snapshot must show alike again.
const WIDE_ENTRIES: usize = 300;
const ITERATOR_KEYS: u64 = 5_000;

/// For how long to hold something in a run of `run`: mostly seconds, rarely most of the run.
pub fn lifespan(rng: &mut SmallRng, run: Duration) -> Duration {
    let longest = match rng.random_range(0..100) {
        0..70 => Duration::from_secs(5),
        70..95 => Duration::from_secs(60),
        _ => LONGEST.min(run / 2),
    };
    longest.mul_f64(rng.random())
}

/// A snapshot with what it must show.
pub struct HeldSnapshot<'a> {
    snapshot: Snapshot,
    pub until: Instant,
    samples: Vec<(Record, u32)>,
    range: Range<u64>,
    range_versions: Vec<u32>,
    wide_from: Record,
    wide: (u64, u64),
    counts: &'a Counts,
    /// See [`crate::torture::pins`].
    pin: u64,
}

impl<'a> HeldSnapshot<'a> {
    /// Takes one between two writes of this thread, whose versions it therefore shows.
    pub fn take(
        shared: &'a Shared<'a>,
        samples: &[Record],
        first: u64,
        wide_from: Record,
        until: Instant,
    ) -> Result<HeldSnapshot<'a>, Failure> {
        let oracle = shared.oracle;
        let snapshot = shared.db.snapshot();
        let live_bytes = oracle.live_bytes();
        let counts = shared.counts;
        let pin = counts.pins.take(|| counts.written(), live_bytes);
        let range = first..(first + RANGE_KEYS).min(oracle.keys_per_thread);
        let thread = samples.first().map_or(0, |record| record.thread);
        let version = |index| oracle.version(Record { thread, index });
        let newest = |record| oracle.version(record).saturating_add(1);
        let entries = snapshot.range(wide_from.key()..).take(WIDE_ENTRIES);
        Ok(HeldSnapshot {
            until,
            samples: samples
                .iter()
                .map(|record| (*record, oracle.version(*record)))
                .collect(),
            range_versions: range.clone().map(version).collect(),
            range,
            wide_from,
            wide: wide_scan(entries, newest)?,
            snapshot,
            counts: shared.counts,
            pin,
        })
    }

    /// Gets one of the keys remembered.
    pub fn verify_one(&self, which: u64) -> Result<(), Failure> {
        let count = self.samples.len().max(1) as u64;
        let sample = self.samples.get((which % count) as usize);
        sample.map_or(Ok(()), |(record, version)| self.get(*record, *version))
    }

    fn get(&self, record: Record, version: u32) -> Result<(), Failure> {
        let value = self.snapshot.get(record.key())?;
        let found = found(record, value.as_deref())?;
        if found.is(record, version) {
            Ok(())
        } else {
            let expected = in_words(record, version);
            Err(mismatch("get in a snapshot", record, expected, found))
        }
    }

    /// Compares everything remembered.
    pub fn verify_all(&self, counts: &Counts) -> Result<(), Failure> {
        for (record, version) in &self.samples {
            self.get(*record, *version)?;
        }
        let thread = self.samples.first().map_or(0, |(record, _)| record.thread);
        let first = self.range.start;
        let version = |index: u64| {
            let version = self.range_versions.get((index - first) as usize);
            version.copied().unwrap_or_default()
        };
        let iterate = |range| self.snapshot.range(range);
        let scanned = expect_range(iterate, thread, self.range.clone(), version, false)?;
        let entries = self.snapshot.range(self.wide_from.key()..);
        let wide = wide_scan(entries.take(WIDE_ENTRIES), |_| u32::MAX)?;
        counts
            .reads
            .fetch_add(self.samples.len() as u64, Ordering::Relaxed);
        counts
            .scanned
            .fetch_add(scanned + wide.0, Ordering::Relaxed);
        if wide != self.wide {
            let expected = "the entries seen when the snapshot was taken";
            return Err(mismatch(
                "scan in a snapshot",
                self.wide_from,
                expected,
                wide,
            ));
        }
        Ok(())
    }
}

impl Drop for HeldSnapshot<'_> {
    fn drop(&mut self) {
        self.counts.pins.release(self.pin);
    }
}

/// An iterator over keys of its thread, which is read a little at a time.
pub struct HeldIterator {
    iter: Iter,
    pub until: Instant,
    thread: u64,
    first: u64,
    versions: Vec<u32>,
    next: usize,
    pub has_ended: bool,
}

impl HeldIterator {
    /// Begins at `first`.
    pub fn begin(shared: &Shared<'_>, first: Record, until: Instant) -> HeldIterator {
        let thread = first.thread;
        let end = (first.index + ITERATOR_KEYS).min(shared.oracle.keys_per_thread);
        let indexes = first.index..end;
        let version = |index| shared.oracle.version(Record { thread, index });
        HeldIterator {
            iter: shared.db.range(key_range(thread, &indexes)),
            until,
            thread,
            first: first.index,
            versions: indexes.map(version).collect(),
            next: 0,
            has_ended: false,
        }
    }

    /// Reads up to `most` entries. Gives how many there were.
    pub fn advance(&mut self, most: u64) -> Result<u64, Failure> {
        let mut count = 0;
        while count < most && !self.has_ended {
            let Some(&version) = self.versions.get(self.next) else {
                self.has_ended = true;
                return match self.iter.next().transpose()? {
                    None => Ok(count),
                    Some((key, _)) => Err(crate::torture::ranges::foreign(&key, "the end")),
                };
            };
            let record = Record {
                thread: self.thread,
                index: self.first + self.next as u64,
            };
            self.next += 1;
            if record.effect(version) != Effect::Absent {
                expect_entry(self.iter.next().transpose()?, record, version)?;
                count += 1;
            }
        }
        Ok(count)
    }
}
