//! Which records the client of a run touches, one after the other.
//!
//! The sequence is not made up beside the suite: the run's own steps and phases are driven over
//! [`Recorder`], an engine that keeps no values but makes them again, so that every read is
//! verified here, too. Seeds, draws and the records that are there are those of every other
//! engine's run. The order is the same in all of them while one thread does everything, and with
//! several in none.

use crate::engine::{BatchOp, Direction, Engine, Figures};
use crate::failure::Failure;
use crate::run::Runner;
use crate::suite::expand::Scaled;
use crate::suite::results::PhaseView;
use crate::workload::generator::Chooser;
use crate::workload::keys::KeyOrder;
use crate::workload::phases::Kind;
use crate::workload::values::{self, Lengths};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// One touch of one record. There are tens of millions of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access(u32);

const IS_READ: u32 = 1 << 31;

impl Access {
    /// A get, for which the record has to be in memory or is read from the device.
    pub fn read(record: u32) -> Access {
        Access(record | IS_READ)
    }

    /// A write, or a scan's passing by: the record is in memory then, and that costs nothing.
    pub fn free(record: u32) -> Access {
        Access(record)
    }

    /// The number of the record.
    pub fn record(self) -> usize {
        (self.0 & !IS_READ) as usize
    }

    /// Whether it is a get.
    pub fn is_read(self) -> bool {
        self.0 & IS_READ != 0
    }
}

/// All that a run does to records.
pub struct Sequence {
    /// In order.
    pub accesses: Vec<Access>,
    /// Which of them are whose.
    pub phases: Vec<PhaseAccesses>,
}

/// What a phase does to records.
pub struct PhaseAccesses {
    /// Its name, without numbers.
    pub name: String,
    /// Whether it inserts all records.
    pub is_load: bool,
    /// Operations, of which a scan touches many records and a get of what is not there none.
    pub operations: u64,
    /// Gets of what is not there, of records that were deleted.
    pub in_vain: u64,
    /// What draws its records, if they are drawn, and how many there were when it began.
    pub drawn: Option<(Chooser, u64)>,
    /// Its part of the sequence.
    pub accesses: Range<usize>,
}

/// The sequence of a run, with all operations of phases that time may cut short.
///
/// # Errors
/// Several threads take part in the run, or one of its phases cannot be done.
pub fn of(scaled: &Scaled) -> Result<Sequence, Failure> {
    let mut phases = Vec::new();
    let recorder = Recorder::new(scaled);
    for step in 0..scaled.steps.len() {
        let plan = scaled.plan(step, Path::new(""))?;
        let mut runner = Runner::<Recorder>::new(&plan, recorder.clone(), None)?;
        // Nothing comes after it in its step, and it would kill this process.
        let before_kill = plan.phases.iter().take_while(|it| it.kind != Kind::Die);
        for phase in before_kill {
            if plan.threads_of(phase) > 1 {
                let what = "what several threads do comes in another order each time";
                return Err(Failure::invalid(what).in_phase(&phase.label));
            }
            let (begin, present) = (recorder.touched()?, runner.present());
            let drawn = match &phase.kind {
                Kind::Mix(mix) => Some((plan.chooser(phase, mix, present), present)),
                _ => None,
            };
            let report = runner.run(phase).map_err(|e| e.in_phase(&phase.label))?;
            let view = PhaseView {
                phase: report.phase,
                ..PhaseView::default()
            };
            phases.push(PhaseAccesses {
                name: view.name(),
                is_load: phase.kind == Kind::Load,
                operations: report.operations,
                in_vain: report.misses,
                drawn,
                accesses: begin..recorder.touched()?,
            });
        }
        runner.close()?;
    }
    let accesses = std::mem::take(&mut recorder.0.lock().accesses);
    Ok(Sequence { accesses, phases })
}

/// An engine that notes what is touched. Clones are the same store.
#[derive(Clone)]
struct Recorder(Arc<Mutex<Log>>);

struct Log {
    order: KeyOrder,
    /// By the codes of their keys, with which these ascend.
    stored: BTreeMap<u64, Stored>,
    values: Lengths,
    /// Where values are made.
    value: Vec<u8>,
    accesses: Vec<Access>,
}

/// What a value is made of.
#[derive(Clone, Copy)]
struct Stored {
    record: u32,
    version: u32,
}

impl Recorder {
    fn new(scaled: &Scaled) -> Recorder {
        Recorder(Arc::new(Mutex::new(Log {
            order: scaled.order(),
            stored: BTreeMap::new(),
            values: scaled.values(),
            value: Vec::new(),
            accesses: Vec::new(),
        })))
    }

    /// How many accesses there have been. Their numbers have 32 bits.
    fn touched(&self) -> Result<usize, Failure> {
        let touched = self.0.lock().accesses.len();
        match u32::try_from(touched) {
            Ok(_) => Ok(touched),
            Err(_) => Err(Failure::invalid("too many operations")),
        }
    }
}

impl Log {
    /// What is stored under `key`; its value stands in `self.value` then.
    fn find(&mut self, key: &[u8]) -> Option<Stored> {
        let record = self.order.record(key)?;
        let stored = *self.stored.get(&self.order.code(record))?;
        let version = u64::from(stored.version);
        self.value.resize(self.values.of(record, version), 0);
        values::fill(&mut self.value, record, version);
        Some(stored)
    }
}

impl Engine for Recorder {
    type Setup = Recorder;

    fn open(_: &Path, setup: &Recorder, _: bool) -> Result<Recorder, Failure> {
        Ok(setup.clone())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        let log = &mut *self.0.lock();
        let number = log.order.record(key).unwrap_or(u64::MAX);
        let record = u32::try_from(number).unwrap_or(u32::MAX);
        if record >= IS_READ {
            return Err(Failure::invalid("too many records"));
        }
        let version = values::check(value, &log.values, number)
            .map_err(|fault| Failure::verification(fault.to_string()))?;
        // Versions begin again long before they have 32 bits.
        let version = version as u32;
        let code = log.order.code(number);
        log.stored.insert(code, Stored { record, version });
        log.accesses.push(Access::free(record));
        Ok(())
    }

    // Nothing is noted: reading what is not there is free, and the put that brings it back is, too.
    fn delete(&self, key: &[u8]) -> Result<(), Failure> {
        let log = &mut *self.0.lock();
        if let Some(record) = log.order.record(key) {
            log.stored.remove(&log.order.code(record));
        }
        Ok(())
    }

    fn write(&self, batch: &[BatchOp<'_>]) -> Result<(), Failure> {
        batch.iter().try_for_each(|operation| match *operation {
            BatchOp::Put(key, value) => self.put(key, value),
            BatchOp::Delete(key) => self.delete(key),
        })
    }

    fn get<R>(&self, key: &[u8], found: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, Failure> {
        let log = &mut *self.0.lock();
        let Some(stored) = log.find(key) else {
            return Ok(None);
        };
        log.accesses.push(Access::read(stored.record));
        Ok(Some(found(&log.value)))
    }

    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        limit: usize,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let log = &mut *self.0.lock();
        let (order, lengths) = (log.order, log.values);
        let (value, accesses) = (&mut log.value, &mut log.accesses);
        let code = |key| order.record(key).map(|record| order.code(record));
        let from = from
            .and_then(code)
            .map_or(Bound::Unbounded, Bound::Included);
        let pass = |(_, stored): (&u64, &Stored)| {
            accesses.push(Access::free(stored.record));
            let (record, version) = (u64::from(stored.record), u64::from(stored.version));
            value.resize(lengths.of(record, version), 0);
            values::fill(value, record, version);
            visit(&order.key(record), value)
        };
        let stored = &log.stored;
        match direction {
            Direction::Forwards => stored
                .range((from, Bound::Unbounded))
                .take(limit)
                .try_for_each(pass),
            Direction::Backwards => stored
                .range((Bound::Unbounded, from))
                .rev()
                .take(limit)
                .try_for_each(pass),
        }
    }

    fn settle(&self) -> Result<Duration, Failure> {
        Ok(Duration::ZERO)
    }

    fn close(self) -> Result<(), Failure> {
        Ok(())
    }

    // There is no directory in which to look for them.
    fn figures(&self) -> Option<Figures> {
        Some(Figures::default())
    }
}
