//! What a read may return: for each record the versions issued and the oldest one still allowed.
//!
//! One atomic word of 32 bits per record, so that millions of records cost little memory beside
//! the engine under test:
//! - *issued*, 20 bits: number of the newest version handed to a writer, modulo 2^20;
//! - *lag*, 6 bits: how many versions older than that may still be read; 63 means any;
//! - *writing*, 6 bits: writes of this record under way (hence at most 63 client threads).
//!
//! The lag shrinks when a write is acknowledged *that began while no other write of its record was
//! under way*: all older versions are then overwritten for good. Writes that overlap leave it as
//! it is, since the engine may order them either way. With one thread the check is therefore
//! exact, with several it never raises a false alarm.
//!
//! Records are numbered from 0; those below [`VersionTable::present`] are all there. Inserts take
//! numbers in order and may end out of order: `present` passes a record when it and all before it
//! are acknowledged.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const ISSUED_BITS: u32 = 20;
const ISSUED_MASK: u32 = (1 << ISSUED_BITS) - 1;
const FIELD: u32 = 63;
const LAG_SHIFT: u32 = ISSUED_BITS;
const WRITING_SHIFT: u32 = ISSUED_BITS + 6;
/// Any version may be read.
const LAG_UNKNOWN: u32 = FIELD;

/// The number of client threads that the table can tell apart.
pub const MAX_THREADS: usize = FIELD as usize;

/// The state of one record at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State(u32);

impl State {
    fn new(issued: u32, lag: u32, writing: u32) -> State {
        State(
            (issued & ISSUED_MASK)
                | (lag.min(LAG_UNKNOWN) << LAG_SHIFT)
                | (writing << WRITING_SHIFT),
        )
    }

    fn issued(self) -> u32 {
        self.0 & ISSUED_MASK
    }

    fn lag(self) -> u32 {
        (self.0 >> LAG_SHIFT) & FIELD
    }

    fn writing(self) -> u32 {
        self.0 >> WRITING_SHIFT
    }
}

/// A write under way.
#[derive(Debug)]
pub struct Write {
    /// The version to be written.
    pub version: u64,
    alone: bool,
}

/// The states of all records.
pub struct VersionTable {
    states: Vec<AtomicU32>,
    next: AtomicU64,
    present: AtomicU64,
}

impl VersionTable {
    /// Room for `capacity` records, of which `present` are there with unknown versions.
    pub fn new(capacity: u64, present: u64) -> VersionTable {
        let unknown = State::new(0, LAG_UNKNOWN, 0).0;
        let initial = |record| AtomicU32::new(if record < present { unknown } else { 0 });
        VersionTable {
            states: (0..capacity.max(present)).map(initial).collect(),
            next: AtomicU64::new(present),
            present: AtomicU64::new(present),
        }
    }

    /// How many records are there: all below this number.
    pub fn present(&self) -> u64 {
        self.present.load(Ordering::SeqCst)
    }

    /// Takes the number of a record to insert; `None` when the table is full.
    pub fn take_insert(&self) -> Option<u64> {
        let record = self.next.fetch_add(1, Ordering::Relaxed);
        (record < self.states.len() as u64).then_some(record)
    }

    /// The state of a record below the capacity.
    pub fn state(&self, record: u64) -> State {
        State(self.states[record as usize].load(Ordering::SeqCst))
    }

    /// Issues the next version of a record.
    pub fn begin(&self, record: u64) -> Write {
        let old = self.update(record, |state| {
            let lag = if state.lag() == LAG_UNKNOWN {
                LAG_UNKNOWN
            } else {
                state.lag() + 1
            };
            State::new(state.issued() + 1, lag, state.writing() + 1)
        });
        let version = u64::from((old.issued() + 1) & ISSUED_MASK);
        Write {
            version,
            alone: old.writing() == 0,
        }
    }

    /// The engine has acknowledged a write.
    pub fn acknowledge(&self, record: u64, write: &Write) {
        self.update(record, |state| {
            let behind = state.issued().wrapping_sub(write.version as u32) & ISSUED_MASK;
            let lag = if write.alone {
                state.lag().min(behind)
            } else {
                state.lag()
            };
            State::new(state.issued(), lag, state.writing() - 1)
        });
    }

    /// The insert of a record has been acknowledged: lets `present` pass it when its turn is.
    pub fn inserted(&self) {
        loop {
            let record = self.present.load(Ordering::SeqCst);
            let Some(state) = self.states.get(record as usize) else {
                return;
            };
            let state = State(state.load(Ordering::SeqCst));
            if state.issued() == 0 || state.writing() > 0 {
                return;
            }
            // If another thread passes it first, look at the one behind.
            let _ = self.present.compare_exchange(
                record,
                record + 1,
                Ordering::SeqCst,
                Ordering::SeqCst,
            );
        }
    }

    /// A load of `records` by several threads, each its own share, has ended.
    pub fn loaded(&self, records: u64) {
        self.next.fetch_max(records, Ordering::SeqCst);
        self.present.fetch_max(records, Ordering::SeqCst);
    }

    fn update(&self, record: u64, change: impl Fn(State) -> State) -> State {
        let cell = &self.states[record as usize];
        let mut old = cell.load(Ordering::SeqCst);
        loop {
            let new = change(State(old)).0;
            match cell.compare_exchange_weak(old, new, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return State(old),
                Err(now) => old = now,
            }
        }
    }
}

/// Whether a read that began at `before` and ended at `after` may return `version`.
pub fn allowed(version: u64, before: State, after: State) -> bool {
    let mask = u64::from(ISSUED_MASK);
    if before.lag() == LAG_UNKNOWN {
        return true;
    }
    let issued_since = u64::from(after.issued().wrapping_sub(before.issued()) & ISSUED_MASK);
    let behind = u64::from(after.issued()).wrapping_sub(version) & mask;
    version <= mask && behind <= u64::from(before.lag()) + issued_since
}

/// The versions that [`allowed`] accepts, for a message.
pub fn allowed_in_words(before: State, after: State) -> String {
    let (newest, lag) = (after.issued(), before.lag());
    match lag {
        LAG_UNKNOWN => "any version".to_owned(),
        lag => {
            let oldest = before.issued().wrapping_sub(lag) & ISSUED_MASK;
            if oldest == newest {
                format!("version {newest}")
            } else {
                format!("a version from {oldest} to {newest}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readable(table: &VersionTable, record: u64) -> Vec<u64> {
        let state = table.state(record);
        (0..200)
            .filter(|&version| allowed(version, state, state))
            .collect()
    }

    #[test]
    fn one_thread_sees_exactly_the_newest() {
        let table = VersionTable::new(2, 0);
        for version in 1..=100 {
            let write = table.begin(1);
            assert_eq!(write.version, version);
            assert_eq!(readable(&table, 1), [version - 1, version]);
            table.acknowledge(1, &write);
            assert_eq!(readable(&table, 1), [version]);
        }
    }

    #[test]
    fn a_read_may_see_what_is_written_meanwhile() {
        let table = VersionTable::new(1, 0);
        let write = table.begin(0);
        table.acknowledge(0, &write);
        let before = table.state(0);
        let write = table.begin(0);
        table.acknowledge(0, &write);
        let after = table.state(0);
        assert!(allowed(1, before, after) && allowed(2, before, after));
        assert!(!allowed(0, before, after) && !allowed(3, before, after));
    }

    #[test]
    fn overlapping_writes_may_end_either_way() {
        let table = VersionTable::new(1, 0);
        let first = table.begin(0);
        let second = table.begin(0);
        table.acknowledge(0, &second);
        assert_eq!(readable(&table, 0), [0, 1, 2]);
        table.acknowledge(0, &first);
        assert_eq!(readable(&table, 0), [1, 2]);
        let third = table.begin(0);
        table.acknowledge(0, &third);
        assert_eq!(readable(&table, 0), [3]);
    }

    #[test]
    fn versions_wrap_around() {
        let table = VersionTable::new(1, 0);
        table.states[0].store(State::new(ISSUED_MASK, 0, 0).0, Ordering::SeqCst);
        let write = table.begin(0);
        assert_eq!(write.version, 0);
        table.acknowledge(0, &write);
        assert_eq!(readable(&table, 0), [0]);
        assert!(!allowed(
            u64::from(ISSUED_MASK),
            table.state(0),
            table.state(0)
        ));
    }

    #[test]
    fn unknown_versions_become_known_by_writing() {
        let table = VersionTable::new(1, 1);
        assert_eq!(readable(&table, 0).len(), 200);
        let write = table.begin(0);
        table.acknowledge(0, &write);
        assert_eq!(readable(&table, 0), [write.version]);
    }

    #[test]
    fn inserts_appear_in_order() {
        let table = VersionTable::new(3, 0);
        let records: Vec<_> = (0..3).filter_map(|_| table.take_insert()).collect();
        assert_eq!((records, table.take_insert()), (vec![0, 1, 2], None));
        let writes: Vec<_> = (0..3).map(|record| table.begin(record)).collect();
        for (record, present) in [(2, 0), (0, 1), (1, 3)] {
            table.acknowledge(record, &writes[record as usize]);
            table.inserted();
            assert_eq!(table.present(), present);
        }
    }
}
