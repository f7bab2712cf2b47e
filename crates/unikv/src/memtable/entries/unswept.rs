//! The deletes of a memtable over which no sweep has gone yet: how many, and between which keys.
//!
//! A sweep leaves gaps over what they hide, so that the first reader need not step over all of it
//! (`engine/read/iter/sweep.rs`). It puts the entries in order, which makes later inserts cost
//! more. So it is worth its cost where deletes come in the order of their keys or are a large part
//! of what comes, or where the entries are in order anyway.
//!
//! Invariant: each delete since the last sweep began lies in the range. It serves speed alone.
//!
//! Lock: what is not atomic is under that of the inserts, held by the callers.

use super::Entries;
use crate::base::keys::SeqNo;
use crate::base::seeded::seeded;
use crate::base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::memtable::node::{NodeRef, Target};

/// Deletes that are worth a sweep: a reader steps over them in two milliseconds. In a small
/// memtable fewer are.
const MANY: u64 = 2048;
const LEAST: u64 = 64;
const MEMTABLE_PART: u64 = 1024;
/// While writers go on, a sweep costs this many steps for each delete at most.
const STEPS_FOR_EACH: u64 = 8;
/// Where entries are in no order, deletes are this part of them at least, and are in the order of
/// their keys, or half of all and this many.
const PART: u64 = 8;
const MANY_OF_NO_ORDER: u64 = 32 << 10;

/// What is under the lock of the inserts.
#[derive(Default)]
pub(super) struct Range {
    /// What an earlier sweep, or an earlier memtable, has left.
    rest: Option<(Vec<u8>, Vec<u8>)>,
    first: Option<NodeRef>,
    last: Option<NodeRef>,
    /// The one that came last.
    newest: Option<NodeRef>,
}

/// Deletes that were not swept.
pub(in crate::memtable) struct Unswept {
    least: u64,
    deletes: AtomicU64,
    /// How many of them came after one of a smaller key.
    rising: AtomicU64,
    /// Whether the background was woken for them.
    is_awaited: AtomicBool,
    /// Steps of the sweeps since one has come to its end, and of those that ended then.
    steps: AtomicU64,
    last_steps: AtomicU64,
}

impl Unswept {
    pub(super) fn new(memtable_bytes: u64) -> Unswept {
        Unswept {
            least: (memtable_bytes / MEMTABLE_PART).clamp(LEAST, MANY),
            deletes: AtomicU64::new(0),
            rising: AtomicU64::new(0),
            is_awaited: AtomicBool::new(false),
            steps: AtomicU64::new(0),
            last_steps: AtomicU64::new(0),
        }
    }

    /// A delete has come. Under the lock, so plain stores do.
    pub(super) fn add(&self, range: &mut Range, node: NodeRef) {
        let key = node.key();
        if range.first.is_none_or(|first| key < first.key()) {
            range.first = Some(node);
        }
        if range.last.is_none_or(|last| key > last.key()) {
            range.last = Some(node);
        }
        let newest = range.newest.replace(node);
        if newest.is_none_or(|newest| newest.key() < key) {
            let rising = self.rising.load(Ordering::Relaxed) + 1;
            self.rising.store(rising, Ordering::Relaxed);
        }
        let deletes = self.deletes.load(Ordering::Relaxed) + 1;
        self.deletes.store(deletes, Ordering::Relaxed);
    }

    /// Whether a sweep is worth its cost, where `len` entries are in no order (0: they are in
    /// order).
    fn is_due(&self, is_idle: bool, unordered: u64) -> bool {
        let deletes = self.deletes.load(Ordering::Relaxed);
        if deletes < self.least {
            return false;
        }
        let is_cheap = deletes >= self.last_steps.load(Ordering::Relaxed) / STEPS_FOR_EACH;
        let rising = self.rising.load(Ordering::Relaxed);
        let in_sequence = 4 * rising >= 3 * deletes || 4 * rising <= deletes;
        let is_much = deletes >= MANY_OF_NO_ORDER && 2 * deletes >= unordered;
        let is_worth_order = PART * deletes >= unordered && (in_sequence || is_much || is_idle);
        (is_cheap || is_idle) && (unordered == 0 || is_worth_order)
    }

    /// A sweep took as many steps, and has come to its end or not.
    pub(in crate::memtable) fn swept(&self, steps: u64, is_all: bool) {
        let steps = self.steps.load(Ordering::Relaxed) + steps;
        self.steps
            .store(if is_all { 0 } else { steps }, Ordering::Relaxed);
        let last = if is_all { steps } else { 0 };
        self.last_steps.store(last, Ordering::Relaxed);
    }
}

impl Range {
    fn add(&mut self, lower: Vec<u8>, upper: Vec<u8>) {
        self.rest = Some(match self.rest.take() {
            Some((from, to)) => (from.min(lower), to.max(upper)),
            None => (lower, upper),
        });
    }

    /// The range, from its first key to before one after its last.
    fn take(&mut self) -> Option<(Vec<u8>, Vec<u8>)> {
        let range = std::mem::take(self);
        let mut taken = Range {
            rest: range.rest,
            ..Range::default()
        };
        if let (Some(first), Some(last)) = (range.first, range.last) {
            taken.add(first.key().to_vec(), after(last.key()));
        }
        taken.rest
    }
}

fn after(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

impl Entries {
    pub(in crate::memtable) fn unswept(&self) -> &Unswept {
        &self.unswept
    }

    /// Whether a sweep is due.
    pub(in crate::memtable) fn is_sweep_due(&self, is_idle: bool) -> bool {
        let unordered = if self.is_ordered() {
            0
        } else {
            self.len() as u64
        };
        self.unswept.is_due(is_idle, unordered)
    }

    /// Whether the background is to be woken for a sweep.
    pub(in crate::memtable) fn awaits_sweep(&self) -> bool {
        let awaited = &self.unswept.is_awaited;
        self.is_sweep_due(false)
            && !awaited.load(Ordering::Relaxed)
            && !awaited.swap(true, Ordering::Relaxed)
    }

    /// Takes the range in which deletes were not swept. With it come the entries beside it, so that
    /// its gaps meet those of earlier sweeps.
    pub(in crate::memtable) fn take_unswept(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        let (lower, upper) = self.take_range()?;
        let list = self.in_order();
        let first = list.first_at_or_after(&Target::new(&lower, SeqNo::MAX));
        let before = first.and_then(|first| list.previous(first));
        let next = list.first_at_or_after(&Target::new(&upper, SeqNo::MAX));
        Some((
            before.map_or(lower, |before| before.key().to_vec()),
            next.map_or(upper, |next| after(next.key())),
        ))
    }

    fn take_range(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        let mut writer = self.writer.lock();
        let unswept = &self.unswept;
        for counter in [&unswept.deletes, &unswept.rising] {
            counter.store(0, Ordering::Relaxed);
        }
        unswept.is_awaited.store(false, Ordering::Relaxed);
        writer.unswept.take()
    }

    /// In this range, deletes were not swept, enough of them for a sweep unless they are `few`.
    pub(in crate::memtable) fn add_unswept(&self, lower: Vec<u8>, upper: Vec<u8>, few: bool) {
        let mut writer = self.writer.lock();
        writer.unswept.add(lower, upper);
        let unswept = &self.unswept;
        let more = if few { 0 } else { unswept.least };
        let deletes = unswept.deletes.load(Ordering::Relaxed) + more;
        unswept.deletes.store(deletes, Ordering::Relaxed);
    }

    /// Gives what was not swept to the memtable after this one, to which nothing is added any more.
    pub(in crate::memtable) fn hand_unswept_on(&self, to: &Entries) {
        if !seeded!(UnsweptForgotten)
            && let Some((lower, upper)) = self.take_range()
        {
            to.add_unswept(lower, upper, false);
        }
    }
}
