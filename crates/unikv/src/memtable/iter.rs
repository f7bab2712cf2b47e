//! Walking a memtable in internal order, in both directions.
//!
//! An iterator keeps the memory of its memtable alive. Entries that are inserted meanwhile may or
//! may not be met.

use super::MemEntry;
use super::entries::Entries;
use super::node::{NodeRef, Target};
use super::sorted_batch::NumberedBatch;
use crate::base::keys::SeqNo;
use crate::base::sync::Arc;

/// Walks a memtable.
pub(crate) struct MemtableIter(Position);

/// Where it stands, and among what.
enum Position {
    Growing {
        entries: Arc<Entries>,
        /// One of `entries`, since they are in order.
        node: Option<NodeRef>,
    },
    Batch {
        batch: NumberedBatch,
        place: Option<usize>,
    },
}

impl MemtableIter {
    /// Over entries that come one after the other, standing nowhere yet.
    pub(super) fn growing(entries: &Arc<Entries>) -> MemtableIter {
        MemtableIter(Position::Growing {
            entries: Arc::clone(entries),
            node: None,
        })
    }

    /// Over those of a large batch, standing nowhere yet.
    pub(super) fn batch(batch: &NumberedBatch) -> MemtableIter {
        MemtableIter(Position::Batch {
            batch: batch.clone(),
            place: None,
        })
    }

    /// Stands at the first entry.
    pub(crate) fn seek_to_first(&mut self) {
        match &mut self.0 {
            Position::Growing { entries, node } => *node = entries.in_order().first(),
            Position::Batch { place, .. } => *place = Some(0),
        }
    }

    /// Stands at the last entry.
    pub(crate) fn seek_to_last(&mut self) {
        match &mut self.0 {
            Position::Growing { entries, node } => *node = entries.in_order().last(),
            Position::Batch { batch, place } => *place = batch.len().checked_sub(1),
        }
    }

    /// Stands at the first entry at or after (`key`, `seq`) in internal order.
    pub(crate) fn seek(&mut self, key: &[u8], seq: SeqNo) {
        match &mut self.0 {
            Position::Growing { entries, node } => {
                let target = Target::new(key, seq);
                *node = entries.in_order().first_at_or_after(&target);
            }
            Position::Batch { batch, place } => *place = Some(batch.seek(key, seq)),
        }
    }

    /// Steps forward; after the last entry it stands nowhere.
    pub(crate) fn next(&mut self) {
        match &mut self.0 {
            Position::Growing { node, .. } => *node = node.and_then(|node| node.next(0)),
            Position::Batch { place, .. } => *place = place.map(|place| place + 1),
        }
    }

    /// Steps back; before the first entry it stands nowhere.
    pub(crate) fn prev(&mut self) {
        match &mut self.0 {
            Position::Growing { entries, node } => {
                let list = entries.in_order();
                *node = node.and_then(|node| list.previous(node));
            }
            Position::Batch { batch, place } => {
                let at = place.filter(|place| *place < batch.len());
                *place = at.and_then(|place| place.checked_sub(1));
            }
        }
    }

    /// The entry it stands at.
    pub(crate) fn entry(&self) -> Option<MemEntry<'_>> {
        match &self.0 {
            Position::Growing { node, .. } => node.map(NodeRef::entry),
            Position::Batch { batch, place } => batch.entry((*place)?),
        }
    }
}
