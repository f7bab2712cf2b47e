//! The entries of memtables that are flushed together, in internal order.
//!
//! No locks.

use crate::base::keys::internal_cmp;
use crate::memtable::{MemEntry, Memtable, MemtableIter};
use std::sync::Arc;

/// Walks several memtables at once. They are few, and one of them often has many entries in a row:
/// its entries are compared with that of the runner-up alone.
pub(super) struct Merged {
    iters: Vec<MemtableIter>,
    /// The one with the first entry.
    first: usize,
    /// The one with the first entry among the others, if they have any.
    second: Option<usize>,
}

impl Merged {
    /// Stands at the first entry of all.
    pub(super) fn new(memtables: &[Arc<Memtable>]) -> Merged {
        let mut merged = Merged {
            iters: memtables.iter().map(Memtable::iter).collect(),
            first: 0,
            second: None,
        };
        merged
            .iters
            .iter_mut()
            .for_each(MemtableIter::seek_to_first);
        merged.find_first();
        merged
    }

    /// The entry it stands at; `None` after the last one.
    pub(super) fn entry(&self) -> Option<MemEntry<'_>> {
        self.iters.get(self.first)?.entry()
    }

    /// Steps forward.
    pub(super) fn next(&mut self) {
        if let Some(iter) = self.iters.get_mut(self.first) {
            iter.next();
        }
        let Some(second) = self.second else {
            // The others have ended.
            return;
        };
        let entry = |i: usize| self.iters.get(i).and_then(MemtableIter::entry);
        let is_first = match (entry(self.first), entry(second)) {
            (Some(a), Some(b)) => internal_cmp((a.key, a.seq), (b.key, b.seq)).is_lt(),
            _ => false,
        };
        if !is_first {
            self.find_first();
        }
    }

    fn find_first(&mut self) {
        let least = |but: Option<usize>| {
            let entries = self.iters.iter().enumerate();
            let entries = entries.filter(|(i, _)| Some(*i) != but);
            let entries = entries.filter_map(|(i, iter)| Some((i, iter.entry()?)));
            let least =
                entries.min_by(|(_, a), (_, b)| internal_cmp((a.key, a.seq), (b.key, b.seq)));
            least.map(|(i, _)| i)
        };
        let first = least(None);
        self.second = first.and_then(|first| least(Some(first)));
        self.first = first.unwrap_or(0);
    }
}
