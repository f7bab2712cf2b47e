//! The entries of memtables that are flushed together, in internal order.
//!
//! No locks.

use crate::base::keys::internal_cmp;
use crate::memtable::{MemEntry, Memtable, MemtableIter};
use std::sync::Arc;

/// Walks several memtables at once. They are few: the first entry is sought among all of them.
pub(super) struct Merged {
    iters: Vec<MemtableIter>,
    /// The one with the first entry.
    first: usize,
}

impl Merged {
    /// Stands at the first entry of all.
    pub(super) fn new(memtables: &[Arc<Memtable>]) -> Merged {
        let mut merged = Merged {
            iters: memtables.iter().map(Memtable::iter).collect(),
            first: 0,
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
        self.find_first();
    }

    fn find_first(&mut self) {
        if self.iters.len() < 2 {
            return;
        }
        let entries = self.iters.iter().enumerate();
        let entries = entries.filter_map(|(i, iter)| Some((i, iter.entry()?)));
        let first = entries.min_by(|(_, a), (_, b)| internal_cmp((a.key, a.seq), (b.key, b.seq)));
        self.first = first.map_or(0, |(i, _)| i);
    }
}
