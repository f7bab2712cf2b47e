//! One client thread: draws operations, does them, times them and verifies what they return.
//!
//! It allocates nothing per operation and takes no lock; what threads share are the version table
//! (one atomic word per record) and a flag that stops them all. Verification stands outside the
//! time measured, inside the CPU time.

use crate::engine::{Direction, Engine};
use crate::failure::Failure;
use crate::measure::latency::Latencies;
use crate::measure::trace::Gauge;
use crate::workload::generator::Chooser;
use crate::workload::keys::{KEY_BYTES, KeyOrder};
use crate::workload::phases::{Mix, Operation};
use crate::workload::values;
use crate::workload::versions::{State, VersionTable, absence_allowed, allowed, allowed_in_words};
use rand::Rng;
use rand::rngs::SmallRng;
use std::fmt::Display;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What all threads of a run share.
pub struct Shared<'a, E> {
    pub engine: &'a E,
    pub order: KeyOrder,
    pub value_bytes: usize,
    pub verify: bool,
    /// With several threads a scan cannot tell how old its records may be.
    pub threads: usize,
    pub versions: &'a VersionTable,
    /// Ends all threads after the first failure of one.
    pub stop: &'a AtomicBool,
    pub deadline: Option<Instant>,
}

/// What one client thread does in a phase.
pub enum Task {
    /// Inserts these records.
    Load(Range<u64>),
    /// Gets each of these records.
    GetAll(Range<u64>),
    /// Deletes `count` of these records.
    Delete { records: Range<u64>, count: u64 },
    /// Operations drawn at random.
    Mix {
        mix: Mix,
        chooser: Chooser,
        operations: u64,
    },
    /// The full scan of `verify`.
    FullScan,
}

/// One client thread.
pub struct Client<'a, E> {
    shared: &'a Shared<'a, E>,
    gauge: &'a Gauge,
    rng: SmallRng,
    value: Vec<u8>,
    /// The record numbers and versions that a scan has found.
    seen: Vec<(u64, u64)>,
    pub latencies: Latencies,
    pub operations: u64,
    /// Records returned by scans.
    pub scanned: u64,
    /// Gets that found nothing; when verifying, a failure if the record should be there.
    pub misses: u64,
    /// The longest put or delete.
    pub longest_write: Duration,
}

impl<'a, E: Engine> Client<'a, E> {
    pub fn new(shared: &'a Shared<'a, E>, gauge: &'a Gauge, rng: SmallRng) -> Client<'a, E> {
        Client {
            shared,
            gauge,
            rng,
            value: vec![0; shared.value_bytes],
            seen: Vec::new(),
            latencies: Latencies::default(),
            operations: 0,
            scanned: 0,
            misses: 0,
            longest_write: Duration::ZERO,
        }
    }

    /// Inserts its share of the records.
    pub fn load(&mut self, records: Range<u64>) -> Result<(), Failure> {
        for record in records {
            let (start, end) = self.write(record)?;
            if self.done(Operation::Insert, start, end) {
                break;
            }
        }
        Ok(())
    }

    /// Does `operations` drawn from `mix`.
    pub fn run(&mut self, mix: &Mix, chooser: &Chooser, operations: u64) -> Result<(), Failure> {
        for _ in 0..operations {
            let mut operation = mix.operation(self.rng.random_range(0..100));
            let (start, end) = match operation {
                Operation::Insert => match self.shared.versions.take_insert() {
                    Some(record) => {
                        let times = self.write(record)?;
                        self.shared.versions.inserted();
                        times
                    }
                    // The table has room for more inserts than the dice will plausibly give.
                    None => {
                        operation = Operation::Update;
                        let record = self.choose(chooser);
                        self.write(record)?
                    }
                },
                Operation::Read => {
                    let record = self.choose(chooser);
                    self.read(record)?
                }
                Operation::Update => {
                    let record = self.choose(chooser);
                    self.write(record)?
                }
                Operation::Delete => {
                    let record = self.choose(chooser);
                    self.delete(record)?
                }
                Operation::ReadModifyWrite => {
                    let record = self.choose(chooser);
                    let (start, _) = self.read(record)?;
                    let (_, end) = self.write(record)?;
                    (start, end)
                }
                Operation::Scan => {
                    let record = self.choose(chooser);
                    let length = mix
                        .scan_length
                        .unwrap_or_else(|| self.rng.random_range(1..=100));
                    self.scan(record, length)?
                }
            };
            if self.done(operation, start, end) {
                break;
            }
        }
        Ok(())
    }

    /// Deletes `count` of `records`, each choice of so many alike.
    pub fn delete_some(&mut self, records: Range<u64>, mut count: u64) -> Result<(), Failure> {
        let behind = records.end;
        for record in records {
            if self.rng.random_range(0..behind - record) >= count {
                continue;
            }
            count -= 1;
            let (start, end) = self.delete(record)?;
            if self.done(Operation::Delete, start, end) {
                break;
            }
        }
        Ok(())
    }

    /// Gets each record of its share.
    pub fn get_all(&mut self, records: Range<u64>) -> Result<(), Failure> {
        for record in records {
            let (start, end) = self.read(record)?;
            if self.done(Operation::Read, start, end) {
                break;
            }
        }
        Ok(())
    }

    fn choose(&mut self, chooser: &Chooser) -> u64 {
        chooser.next(&mut self.rng, self.shared.versions.present())
    }

    /// Notes an operation; true when the thread shall end.
    #[inline]
    fn done(&mut self, operation: Operation, start: Instant, end: Instant) -> bool {
        let latency_ns = u64::try_from((end - start).as_nanos()).unwrap_or(u64::MAX);
        self.latencies.record(operation, latency_ns);
        if let Some(interval) = &self.gauge.interval {
            interval.record(latency_ns);
        }
        self.operations += 1;
        self.gauge
            .operations
            .store(self.operations, Ordering::Relaxed);
        self.shared.stop.load(Ordering::Relaxed)
            || self.shared.deadline.is_some_and(|deadline| end >= deadline)
    }

    fn write(&mut self, record: u64) -> Result<(Instant, Instant), Failure> {
        let key = self.shared.order.key(record);
        let write = self.shared.versions.begin(record);
        values::fill(&mut self.value, record, write.version);
        let start = Instant::now();
        let put = self.shared.engine.put(&key, &self.value);
        let end = Instant::now();
        put?;
        self.shared.versions.acknowledge(record, &write);
        self.longest_write = self.longest_write.max(end - start);
        Ok((start, end))
    }

    fn delete(&mut self, record: u64) -> Result<(Instant, Instant), Failure> {
        let key = self.shared.order.key(record);
        let write = self.shared.versions.begin_delete(record);
        let start = Instant::now();
        let deleted = self.shared.engine.delete(&key);
        let end = Instant::now();
        deleted?;
        self.shared.versions.acknowledge(record, &write);
        self.longest_write = self.longest_write.max(end - start);
        Ok((start, end))
    }

    fn read(&mut self, record: u64) -> Result<(Instant, Instant), Failure> {
        let shared = self.shared;
        let key = shared.order.key(record);
        let before = shared.versions.state(record);
        let start = Instant::now();
        // What is found is verified where the engine has it, behind the time measured.
        let found = shared.engine.get(&key, |value| {
            let end = Instant::now();
            let verified = match shared.verify {
                true => shared.verify_value("get", record, value, Some(before)),
                false => Ok(()),
            };
            verified.map(|()| end)
        })?;
        if let Some(verified) = found {
            return Ok((start, verified?));
        }
        let end = Instant::now();
        self.misses += 1;
        let after = shared.versions.state(record);
        if shared.verify && !absence_allowed(before, after) {
            let expected = allowed_in_words(before, after);
            return Err(shared.mismatch("get", record, expected, "nothing"));
        }
        Ok((start, end))
    }

    fn scan(&mut self, first: u64, length: u64) -> Result<(Instant, Instant), Failure> {
        let shared = self.shared;
        let first_key = shared.order.key(first);
        // Values are verified within the measured time, as they come: keeping them for later
        // would cost more than the check. Only their versions are compared together at the end,
        // which lets the look-ups of where they should be overlap.
        let seen = &mut self.seen;
        seen.clear();
        let before = shared.versions.state(first);
        let start = Instant::now();
        let mut found = 0;
        let mut last = [0_u8; KEY_BYTES];
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let visit = |key: &[u8], value: &[u8]| {
            if shared.verify {
                let record = shared.order.record(key).ok_or_else(|| {
                    let found = format!("the foreign key {}", key.escape_ascii());
                    shared.mismatch("scan", first, "keys of records", found)
                })?;
                if found == 0 && record != first {
                    let absent = absence_allowed(before, shared.versions.state(first));
                    if !absent || key < &first_key[..] {
                        let found = format!("record {record}");
                        return Err(shared.mismatch("scan", first, "its start", found));
                    }
                }
                if found > 0 && key <= &last[..] {
                    let found = format!("the key of record {record}");
                    return Err(shared.mismatch("scan", first, "ascending keys", found));
                }
                last.copy_from_slice(key);
                seen.push((record, shared.verify_bytes("scan", record, value)?));
            }
            found += 1;
            Ok(())
        };
        let from = Some(&first_key[..]);
        shared
            .engine
            .scan(from, Direction::Forwards, length, visit)?;
        for &(record, version) in &self.seen {
            shared.verify_version("scan", record, version, None)?;
        }
        let end = Instant::now();
        let absent = || absence_allowed(before, shared.versions.state(first));
        if shared.verify && found == 0 && !absent() {
            return Err(shared.mismatch("scan", first, "its start", "nothing"));
        }
        self.scanned += found;
        Ok((start, end))
    }
}

impl<E> Shared<'_, E> {
    /// Checks a value read. `before` is the state when the read began; a scan has none.
    pub fn verify_value(
        &self,
        what: &str,
        record: u64,
        value: &[u8],
        before: Option<State>,
    ) -> Result<(), Failure> {
        let version = self.verify_bytes(what, record, value)?;
        self.verify_version(what, record, version, before)
    }

    /// Checks that a value read is one of `record`, and gives its version.
    fn verify_bytes(&self, what: &str, record: u64, value: &[u8]) -> Result<u64, Failure> {
        values::check(value, self.value_bytes, record).map_err(|fault| {
            let expected = format!("a value of {} bytes of this record", self.value_bytes);
            self.mismatch(what, record, expected, fault)
        })
    }

    /// Checks that `version` is one that a read of `record` may find.
    fn verify_version(
        &self,
        what: &str,
        record: u64,
        version: u64,
        before: Option<State>,
    ) -> Result<(), Failure> {
        let alone = self.threads == 1 && record < self.versions.present();
        let before = before.or_else(|| alone.then(|| self.versions.state(record)));
        let Some(before) = before else { return Ok(()) };
        let after = self.versions.state(record);
        if allowed(version, before, after) {
            return Ok(());
        }
        let expected = allowed_in_words(before, after);
        Err(self.mismatch(what, record, expected, format!("version {version}")))
    }

    /// The failure of a verification.
    #[cold]
    pub fn mismatch(
        &self,
        what: &str,
        record: u64,
        expected: impl Display,
        found: impl Display,
    ) -> Failure {
        let key = self.order.key(record);
        Failure::verification(format!(
            "{what} of record {record} (key {}): expected {expected}, found {found}",
            key.escape_ascii()
        ))
    }
}

/// When a phase that may last for `duration` from now has to end.
pub fn deadline(duration: Option<Duration>) -> Option<Instant> {
    duration.and_then(|duration| Instant::now().checked_add(duration))
}
