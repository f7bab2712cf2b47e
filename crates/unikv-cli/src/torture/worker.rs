//! One thread of the load: draws operations, does them, and judges everything that they return.

use crate::exit::Failure;
use crate::torture::held::{HeldIterator, HeldSnapshot, lifespan};
use crate::torture::model::{Effect, Record};
use crate::torture::oracle::{Found, Oracle};
use crate::torture::pins::Pins;
use crate::torture::ranges::{expect_range, wide_scan};
use crate::torture::scratch::Scratch;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::fmt::Display;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use unikv::{Batch, Db};
use unikv_bench::measure::latency::Interval;
use unikv_bench::workload::generator::{Chooser, Distribution};

/// Snapshots and iterators that one thread holds at a time.
const MOST_HELD: usize = 4;
/// After this many operations a thread looks at what it holds.
const HELD_EVERY: u64 = 256;
/// After this many looks the first thread makes the iterators of all threads release their views.
const RELEASE_EVERY: u64 = 8;

/// What all threads share.
pub struct Shared<'a> {
    pub db: &'a Db,
    pub oracle: &'a Oracle,
    /// Ends all threads after the first failure of one.
    pub stop: &'a AtomicBool,
    pub deadline: Instant,
    pub started: Instant,
    pub seed: u64,
    pub counts: &'a Counts,
}

/// What the threads have done.
#[derive(Default)]
pub struct Counts {
    pub writes: AtomicU64,
    pub reads: AtomicU64,
    /// Entries that scans and iterators returned.
    pub scanned: AtomicU64,
    pub snapshots: AtomicU64,
    /// Times that all iterators release their views.
    pub releases: AtomicU64,
    /// Bytes of keys and values written, and of those that deletes took away.
    pub written_bytes: AtomicU64,
    /// What the scratch keyspaces of one thread took, at most.
    most_scratch_bytes: AtomicU64,
    pub pins: Pins,
}

impl Counts {
    /// What snapshots keep, at most.
    pub fn pinned_bytes(&self) -> u64 {
        self.pins.bytes(|| self.written())
    }

    /// Counts what the scratch keyspaces of a thread take.
    pub fn note_scratch(&self, bytes: u64) {
        self.most_scratch_bytes.fetch_max(bytes, Ordering::Relaxed);
    }

    /// What scratch keyspaces take, at most, and what of them is to be collected yet.
    pub fn scratch_bytes(&self, threads: u64) -> u64 {
        threads * self.most_scratch_bytes.load(Ordering::Relaxed)
    }

    /// Counts bytes that are written to keyspaces.
    pub fn add_written(&self, bytes: u64) {
        add(&self.written_bytes, bytes);
    }

    pub fn written(&self) -> u64 {
        self.written_bytes.load(Ordering::Relaxed)
    }
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

/// One thread.
pub struct Worker<'a> {
    shared: &'a Shared<'a>,
    puts: &'a Interval,
    thread: u64,
    rng: SmallRng,
    hot: Chooser,
    value: Vec<u8>,
    batch: Batch,
    snapshots: Vec<HeldSnapshot<'a>>,
    iterators: Vec<HeldIterator>,
    scratch: Scratch,
}

impl<'a> Worker<'a> {
    pub fn new(shared: &'a Shared<'a>, puts: &'a Interval, thread: u64) -> Worker<'a> {
        Worker {
            shared,
            puts,
            thread,
            rng: SmallRng::seed_from_u64(shared.seed.wrapping_add(thread << 32)),
            hot: Chooser::new(Distribution::ZIPFIAN, shared.oracle.keys_per_thread, 0),
            value: Vec::new(),
            batch: Batch::new(),
            snapshots: Vec::new(),
            iterators: Vec::new(),
            scratch: Scratch::new(thread),
        }
    }

    /// Works until the time is over or a thread has failed.
    pub fn run(&mut self) -> Result<(), Failure> {
        let mut operations = 0_u64;
        while !self.shared.stop.load(Ordering::Relaxed) {
            self.step()?;
            operations += 1;
            if operations.is_multiple_of(HELD_EVERY) {
                let looks = operations / HELD_EVERY;
                if self.thread == 0 && looks.is_multiple_of(RELEASE_EVERY) {
                    self.shared.db.release_views();
                    add(&self.shared.counts.releases, 1);
                }
                self.look_at_held()?;
                if Instant::now() >= self.shared.deadline {
                    break;
                }
            }
        }
        if self.thread == 0 {
            self.shared.db.release_views();
            add(&self.shared.counts.releases, 1);
        }
        // What is still held at the end is judged once more.
        for snapshot in std::mem::take(&mut self.snapshots) {
            snapshot.verify_all(self.shared.counts)?;
        }
        for mut iterator in std::mem::take(&mut self.iterators) {
            let scanned = iterator.advance(u64::MAX)?;
            add(&self.shared.counts.scanned, scanned);
        }
        self.scratch.end()
    }

    fn step(&mut self) -> Result<(), Failure> {
        match self.rng.random_range(0..100_000) {
            0..50_000 => self.write(),
            50_000..80_000 => self.get_own(),
            80_000..93_000 => self.get_other(),
            93_000..99_500 => self.scan_own(),
            99_500..99_600 => self.scan_wide(),
            99_600..99_700 => self.multi_get(),
            99_700..99_800 => self.hold_snapshot(),
            99_800..99_900 => self.hold_iterator(),
            99_900..99_902 => self
                .scratch
                .round(self.shared.db, &mut self.rng, self.shared.counts),
            _ => self.flush_sometimes(),
        }
    }

    /// One of the own keys: half of the time a hot one.
    fn choose(&mut self) -> Record {
        let keys = self.shared.oracle.keys_per_thread;
        let index = if self.rng.random() {
            self.hot.next(&mut self.rng, keys)
        } else {
            self.rng.random_range(0..keys)
        };
        Record {
            thread: self.thread,
            index,
        }
    }

    fn choose_other(&mut self) -> Record {
        let thread = self.rng.random_range(0..self.shared.oracle.threads);
        Record {
            thread,
            ..self.choose()
        }
    }

    /// Writes the next version of a key and of those that are written with it.
    fn write(&mut self) -> Result<(), Failure> {
        let chosen = self.choose();
        let version = self.shared.oracle.version(chosen) + 1;
        let unit = chosen.unit();
        let bytes = unit.clone().map(|index| {
            let record = Record { index, ..chosen };
            let (old, new) = (record.live_bytes(version - 1), record.live_bytes(version));
            old.max(new)
        });
        // Before it is written: what is overwritten is never more.
        add(&self.shared.counts.written_bytes, bytes.sum());
        let db = self.shared.db;
        let (start, written);
        if unit.end - unit.start == 1 {
            let effect = chosen.fill(version, &mut self.value);
            let key = chosen.key();
            start = Instant::now();
            written = match effect {
                Effect::Absent => db.delete(key),
                Effect::Value(_) => db.put(key, &self.value),
            };
        } else {
            self.batch.clear();
            for index in unit.clone() {
                let record = Record { index, ..chosen };
                match record.fill(version, &mut self.value) {
                    Effect::Absent => self.batch.delete(record.key()),
                    Effect::Value(_) => self.batch.put(record.key(), &self.value),
                };
            }
            start = Instant::now();
            written = db.write(&self.batch);
        }
        let ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        written?;
        self.puts.record(ns);
        add(&self.shared.counts.writes, 1);
        self.shared.oracle.acknowledge(self.thread, unit, version)
    }

    fn get_own(&mut self) -> Result<(), Failure> {
        let record = self.choose();
        let value = self.shared.db.get(record.key())?;
        add(&self.shared.counts.reads, 1);
        let found = found(record, value.as_deref())?;
        let judged = self.shared.oracle.judge_own(record, found);
        judged.map_err(|expected| mismatch("get", record, expected, found))
    }

    fn get_other(&mut self) -> Result<(), Failure> {
        let record = self.choose_other();
        let before = self.shared.oracle.version(record);
        let value = self.shared.db.get(record.key())?;
        add(&self.shared.counts.reads, 1);
        let found = found(record, value.as_deref())?;
        let judged = if record.thread == self.thread {
            self.shared.oracle.judge_own(record, found)
        } else {
            self.shared.oracle.judge_other(record, before, found)
        };
        judged.map_err(|expected| mismatch("get of another thread's key", record, expected, found))
    }

    /// Keys of all threads as of one moment: those written together have one version.
    fn multi_get(&mut self) -> Result<(), Failure> {
        let record = self.choose_other();
        let unit = record.unit();
        let records: Vec<Record> = unit.map(|index| Record { index, ..record }).collect();
        let before = self.shared.oracle.version(record);
        let values = self
            .shared
            .db
            .multi_get(records.iter().map(|record| record.key()))?;
        add(&self.shared.counts.reads, values.len() as u64);
        let newest = self.shared.oracle.version(record).saturating_add(1);
        let mut founds = Vec::with_capacity(values.len());
        for (record, value) in records.iter().zip(&values) {
            founds.push(found(*record, value.as_deref())?);
        }
        let all = |version| {
            let mut pairs = records.iter().zip(&founds);
            pairs.all(|(record, found)| found.is(*record, version))
        };
        let newest = if record.thread == self.thread {
            before
        } else {
            newest
        };
        if (before..=newest).any(all) {
            Ok(())
        } else {
            let expected = format!("one version from {before} to {newest}");
            Err(mismatch("multi_get", record, expected, founds))
        }
    }

    fn scan_own(&mut self) -> Result<(), Failure> {
        let first = self.choose().index;
        let most = if self.rng.random_range(0..100) == 0 {
            2_000
        } else {
            60
        };
        let keys = self.shared.oracle.keys_per_thread;
        let end = (first + self.rng.random_range(1..=most)).min(keys);
        let version = |index| {
            let thread = self.thread;
            self.shared.oracle.version(Record { thread, index })
        };
        let backwards = self.rng.random_range(0..4) == 0;
        let (thread, shared) = (self.thread, self.shared);
        let range = |range| shared.db.range(range);
        let scanned = expect_range(range, thread, first..end, version, backwards)?;
        add(&self.shared.counts.scanned, scanned);
        Ok(())
    }

    fn scan_wide(&mut self) -> Result<(), Failure> {
        let first = self.choose_other();
        let count = self.rng.random_range(1..=3_000);
        let entries = self.shared.db.range(first.key()..).take(count);
        let newest = |record: Record| self.shared.oracle.version(record).saturating_add(1);
        let (scanned, _) = wide_scan(entries, newest)?;
        add(&self.shared.counts.scanned, scanned);
        Ok(())
    }

    fn hold_snapshot(&mut self) -> Result<(), Failure> {
        if self.snapshots.len() < MOST_HELD {
            let until = Instant::now() + self.lifespan();
            let others = self.choose_other();
            let samples: Vec<Record> = (0..32).map(|_| self.choose()).collect();
            let first = self.choose().index;
            let held = HeldSnapshot::take(self.shared, &samples, first, others, until)?;
            self.snapshots.push(held);
            add(&self.shared.counts.snapshots, 1);
        }
        Ok(())
    }

    fn hold_iterator(&mut self) -> Result<(), Failure> {
        if self.iterators.len() < MOST_HELD {
            let until = Instant::now() + self.lifespan();
            let first = self.choose();
            let held = HeldIterator::begin(self.shared, first, until);
            self.iterators.push(held);
        }
        Ok(())
    }

    fn lifespan(&mut self) -> Duration {
        lifespan(&mut self.rng, self.shared.deadline - self.shared.started)
    }

    fn flush_sometimes(&mut self) -> Result<(), Failure> {
        match self.rng.random_range(0..1_000) {
            0 => Ok(self.shared.db.flush()?),
            _ => Ok(()),
        }
    }

    /// Reads a little in each snapshot and iterator, and releases those whose time has come.
    fn look_at_held(&mut self) -> Result<(), Failure> {
        let now = Instant::now();
        let mut kept = Vec::new();
        for snapshot in self.snapshots.drain(..) {
            if now >= snapshot.until {
                snapshot.verify_all(self.shared.counts)?;
            } else {
                let which = self.rng.random();
                snapshot.verify_one(which)?;
                kept.push(snapshot);
            }
        }
        self.snapshots = kept;
        for iterator in &mut self.iterators {
            let scanned = iterator.advance(2)?;
            add(&self.shared.counts.scanned, scanned);
        }
        self.iterators
            .retain(|iterator| now < iterator.until && !iterator.has_ended);
        Ok(())
    }
}

/// What a value found is, which must be a version of the record in every byte.
pub fn found(record: Record, value: Option<&[u8]>) -> Result<Found, Failure> {
    let Some(value) = value else {
        return Ok(Found::Nothing);
    };
    let version = record.version_of(value);
    let version =
        version.map_err(|fault| mismatch("a value", record, "a value of its key", fault))?;
    Ok(Found::Version(version))
}

/// The failure of a judgement.
#[cold]
pub fn mismatch(
    what: &str,
    record: Record,
    expected: impl Display,
    found: impl std::fmt::Debug,
) -> Failure {
    Failure::verification(format!(
        "{what}: key {} (thread {}, index {}): {expected}; found {found:?}",
        record.key().escape_ascii(),
        record.thread,
        record.index
    ))
}
