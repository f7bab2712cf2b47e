//! One client thread: draws operations, does them, times them and verifies what they return.
//!
//! It allocates nothing per operation and takes no lock; what threads share are the version table
//! (one atomic word per record) and a flag that stops them all. Verification stands outside the
//! time measured, inside the CPU time.

mod groups;

use crate::engine::{Direction, Engine};
use crate::failure::Failure;
use crate::measure::latency::Latencies;
use crate::measure::trace::Gauge;
use crate::run::pace::{Pace, wait_until};
use crate::run::shared::Shared;
use crate::workload::generator::Chooser;
use crate::workload::keys::KEY_BYTES;
use crate::workload::phases::{Mix, Operation};
use crate::workload::values;
use crate::workload::versions::{absence_allowed, allowed_in_words};
use groups::Group;
use rand::Rng;
use rand::rngs::SmallRng;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

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
        pace: Option<Pace>,
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
    group: Group,
    pub latencies: Latencies,
    pub operations: u64,
    /// Records returned by scans.
    pub scanned: u64,
    /// Gets that found nothing; when verifying, a failure if the record should be there.
    pub misses: u64,
    /// The longest put or delete.
    pub longest_write: Duration,
    /// Bytes of keys and values that were written.
    pub bytes_written: u64,
}

/// Keys of numbers from here on are never written.
const ABSENT: u64 = 1 << 60;

impl<'a, E: Engine> Client<'a, E> {
    pub fn new(shared: &'a Shared<'a, E>, gauge: &'a Gauge, rng: SmallRng) -> Client<'a, E> {
        Client {
            shared,
            gauge,
            rng,
            value: Vec::with_capacity(shared.values.range().1),
            seen: Vec::new(),
            group: Group::default(),
            latencies: Latencies::default(),
            operations: 0,
            scanned: 0,
            misses: 0,
            longest_write: Duration::ZERO,
            bytes_written: 0,
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
    pub fn run(
        &mut self,
        mix: &Mix,
        chooser: &Chooser,
        operations: u64,
        pace: Option<Pace>,
    ) -> Result<(), Failure> {
        let began = Instant::now();
        for nth in 0..operations {
            let due = pace.map(|pace| pace.due(began, nth));
            if let Some(due) = due {
                wait_until(due);
            }
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
                    self.scan(record, length, mix.backwards)?
                }
                Operation::ReadAbsent => {
                    let record = self.choose(chooser);
                    self.read_absent(record)?
                }
                Operation::MultiGet => self.multi_get(chooser, mix.group)?,
                Operation::Batch => self.batch(chooser, mix.group)?,
            };
            if self.done(operation, due.unwrap_or(start), end) {
                break;
            }
        }
        Ok(())
    }

    /// Deletes `count` of `records`, each choice of this many alike.
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
        // The reader may miss one that comes while it looks; it is in the histogram all the same.
        if latency_ns > self.gauge.longest_ns.load(Ordering::Relaxed) {
            self.gauge.longest_ns.store(latency_ns, Ordering::Relaxed);
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
        let length = self.shared.values.of(record, write.version);
        self.value.resize(length, 0);
        values::fill(&mut self.value, record, write.version);
        let start = Instant::now();
        let put = self.shared.engine.put(&key, &self.value);
        let end = Instant::now();
        put?;
        self.shared.versions.acknowledge(record, &write);
        self.bytes_written += (KEY_BYTES + self.value.len()) as u64;
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
        self.bytes_written += KEY_BYTES as u64;
        self.longest_write = self.longest_write.max(end - start);
        Ok((start, end))
    }

    fn read(&mut self, record: u64) -> Result<(Instant, Instant), Failure> {
        let shared = self.shared;
        let key = shared.order.key(record);
        let before = shared.versions.state(record);
        let start = Instant::now();
        // What is found is verified where the engine has it, outside the time measured.
        let found = shared.engine.get(&key, |value| {
            let end = Instant::now();
            let verified = if shared.verify {
                shared.verify_value("get", record, value, Some(before))
            } else {
                Ok(())
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

    fn read_absent(&mut self, record: u64) -> Result<(Instant, Instant), Failure> {
        let key = self.shared.order.key(ABSENT + record);
        let start = Instant::now();
        let found = self.shared.engine.get(&key, <[u8]>::len)?;
        let end = Instant::now();
        match found {
            Some(bytes) if self.shared.verify => {
                let found = format!("a value of {bytes} bytes");
                Err(self
                    .shared
                    .mismatch("get", ABSENT + record, "nothing", found))
            }
            _ => Ok((start, end)),
        }
    }

    fn scan(
        &mut self,
        first: u64,
        length: u64,
        backwards: bool,
    ) -> Result<(Instant, Instant), Failure> {
        let (direction, wrong) = if backwards {
            (Direction::Backwards, std::cmp::Ordering::Greater)
        } else {
            (Direction::Forwards, std::cmp::Ordering::Less)
        };
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
                    if !absent || key.cmp(&first_key) == wrong {
                        let found = format!("record {record}");
                        return Err(shared.mismatch("scan", first, "its start", found));
                    }
                }
                let order = key.cmp(&last);
                if found > 0 && (order == wrong || order.is_eq()) {
                    let found = format!("the key of record {record}");
                    return Err(shared.mismatch("scan", first, "keys in order", found));
                }
                last.copy_from_slice(key);
                seen.push((record, shared.verify_bytes("scan", record, value)?));
            }
            found += 1;
            Ok(())
        };
        let from = Some(&first_key[..]);
        shared.engine.scan(from, direction, length, visit)?;
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
