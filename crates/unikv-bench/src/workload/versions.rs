//! What a read may return: for each record the versions issued and the oldest one still allowed, in
//! one atomic word ([`State`]), so that millions of records cost little memory.
//!
//! Invariants: the lag shrinks when a write is acknowledged *that began while no other write of its
//! record was under way*: all older versions are then overwritten for good. Writes that overlap
//! leave it as it is, since the engine may order them either way. With one thread the check is
//! therefore exact, with several it never raises a false alarm.
//!
//! Records are numbered from 0. Those below [`VersionTable::present`] have all been inserted, and
//! are there unless they were deleted.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const ISSUED_BITS: u32 = 18;
const ISSUED_MASK: u32 = (1 << ISSUED_BITS) - 1;
const FIELD: u32 = 31;
const LAG_SHIFT: u32 = ISSUED_BITS;
const WRITING_SHIFT: u32 = LAG_SHIFT + 5;
const ABSENT_SHIFT: u32 = WRITING_SHIFT + 5;
const ABSENT_BITS: u32 = 4;
/// Any version may be read.
const LAG_UNKNOWN: u32 = FIELD;

/// The number of client threads that the table can distinguish.
pub const MAX_THREADS: usize = FIELD as usize;

/// The state of one record at one moment, in 32 bits:
/// - *issued*, 18 bits: number of the newest version handed to a writer, modulo 2^18;
/// - *lag*, 5 bits: how many versions older than that may still be read; 31 means any;
/// - *writing*, 5 bits: writes of this record under way (hence at most 31 client threads);
/// - *absent*, 4 bits: which of the newest versions are deletes, the newest in the lowest bit. The
///   highest bit stays set once a delete has reached it: "some version that old".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State(u32);

impl State {
    fn new(issued: u32, lag: u32, writing: u32, absent: u32) -> State {
        State(
            (issued & ISSUED_MASK)
                | (lag.min(LAG_UNKNOWN) << LAG_SHIFT)
                | (writing << WRITING_SHIFT)
                | (absent << ABSENT_SHIFT),
        )
    }

    fn issued(self) -> u32 {
        self.0 & ISSUED_MASK
    }

    fn lag(self) -> u32 {
        (self.0 >> LAG_SHIFT) & FIELD
    }

    fn writing(self) -> u32 {
        (self.0 >> WRITING_SHIFT) & FIELD
    }

    fn absent(self) -> u32 {
        self.0 >> ABSENT_SHIFT
    }

    /// Whether the newest version issued is a delete, or the record was never written.
    fn is_absent(self) -> bool {
        self.absent() & 1 == 1
    }

    /// Whether a record in this state, which nobody writes, may have no value.
    pub fn may_be_absent(self) -> bool {
        absence_allowed(self, self)
    }

    /// Whether a record in this state, which nobody writes, may have a value.
    pub fn may_be_there(self) -> bool {
        // The highest bit does not say that everything so old is a delete.
        let behind = self.lag();
        let window = window_bits(behind);
        behind >= ABSENT_BITS - 1 || self.absent() & window != window
    }
}

/// Which of the bits of [`State::absent`] speak of the newest `behind + 1` versions.
fn window_bits(behind: u32) -> u32 {
    (1 << (behind.saturating_add(1)).min(ABSENT_BITS)) - 1
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
    live: AtomicU64,
}

impl VersionTable {
    /// Room for `capacity` records, of which `present` are there with unknown versions.
    pub fn new(capacity: u64, present: u64) -> VersionTable {
        let unknown = State::new(0, LAG_UNKNOWN, 0, 0).0;
        let never_written = State::new(0, 0, 0, 1).0;
        let initial = |record| {
            AtomicU32::new(if record < present {
                unknown
            } else {
                never_written
            })
        };
        VersionTable {
            states: (0..capacity.max(present)).map(initial).collect(),
            next: AtomicU64::new(present),
            present: AtomicU64::new(present),
            live: AtomicU64::new(present),
        }
    }

    /// All records below this number have been inserted. Inserts take numbers in order and may end
    /// out of order: this passes a record when it and all before it are acknowledged.
    pub fn present(&self) -> u64 {
        self.present.load(Ordering::SeqCst)
    }

    /// How many records there are. Where a delete and a put of one record overlap, the one that
    /// began last is the one that counts.
    pub fn live(&self) -> u64 {
        self.live.load(Ordering::SeqCst)
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

    /// Issues the next version of a record: a value.
    pub fn begin(&self, record: u64) -> Write {
        self.begin_version(record, 0)
    }

    /// Issues the next version of a record: its absence.
    pub fn begin_delete(&self, record: u64) -> Write {
        self.begin_version(record, 1)
    }

    fn begin_version(&self, record: u64, is_delete: u32) -> Write {
        let old = self.update(record, |state| {
            let lag = if state.lag() == LAG_UNKNOWN {
                LAG_UNKNOWN
            } else {
                state.lag() + 1
            };
            let oldest = state.absent() & (1 << (ABSENT_BITS - 1));
            let absent = (state.absent() << 1 | is_delete | oldest) & ((1 << ABSENT_BITS) - 1);
            State::new(state.issued() + 1, lag, state.writing() + 1, absent)
        });
        match (old.is_absent(), is_delete) {
            (true, 0) => self.live.fetch_add(1, Ordering::SeqCst),
            (false, 1) => self.live.fetch_sub(1, Ordering::SeqCst),
            _ => 0,
        };
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
            State::new(state.issued(), lag, state.writing() - 1, state.absent())
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
            // If another thread passes it first, look at the one after.
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

/// Whether a read that began at `before` and ended at `after` may find nothing.
pub fn absence_allowed(before: State, after: State) -> bool {
    let issued_since = after.issued().wrapping_sub(before.issued()) & ISSUED_MASK;
    let behind = before.lag().saturating_add(issued_since);
    after.absent() & window_bits(behind) != 0
}

/// The versions that [`allowed`] accepts, for a message.
pub fn allowed_in_words(before: State, after: State) -> String {
    let (newest, lag) = (after.issued(), before.lag());
    let or_none = if absence_allowed(before, after) {
        ", or nothing"
    } else {
        ""
    };
    let versions = match lag {
        LAG_UNKNOWN => "any version".to_owned(),
        lag => {
            let oldest = before.issued().wrapping_sub(lag) & ISSUED_MASK;
            if oldest == newest {
                format!("version {newest}")
            } else {
                format!("a version from {oldest} to {newest}")
            }
        }
    };
    format!("{versions}{or_none}")
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
        table.states[0].store(State::new(ISSUED_MASK, 0, 0, 0).0, Ordering::SeqCst);
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
    fn one_thread_sees_a_delete_until_the_next_put() {
        let table = VersionTable::new(1, 0);
        let absent = || {
            let state = table.state(0);
            (state.may_be_absent(), state.may_be_there(), table.live())
        };
        assert_eq!(absent(), (true, false, 0));
        for _ in 0..10 {
            let put = table.begin(0);
            assert_eq!(absent(), (true, true, 1));
            table.acknowledge(0, &put);
            assert_eq!(absent(), (false, true, 1));
            let again = table.begin(0);
            table.acknowledge(0, &again);
            assert_eq!(absent(), (false, true, 1));
            let before = table.state(0);
            let delete = table.begin_delete(0);
            assert_eq!(absent(), (true, true, 0));
            table.acknowledge(0, &delete);
            assert_eq!(absent(), (true, false, 0));
            // A read that began before the delete may find either.
            assert!(absence_allowed(before, table.state(0)));
            assert!(allowed(again.version, before, table.state(0)));
        }
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
