//! Making the pointer index of a table.

use super::{Found, IndexSlot, Layout, Made, first_slot, next_slot, place, slots_for};
use crate::base::hash::key_hash;
use crate::base::keys::{FileNumber, SeqNo};
use crate::base::mapped::Words;
use crate::error::Result;
use crate::key_table::cache::ReadCache;
use crate::key_table::cache::taken::Taken;
use crate::key_table::pointer_index::PointerIndex;
use crate::key_table::reader::KeyTable;
use crate::vfs::Access;
use std::sync::{Arc, Weak};

impl KeyTable {
    /// Makes the index, if that is worth its cost and there is room for it. Whether it did; if not,
    /// the next attempt costs more. Keys are hashed with `seed`.
    pub(crate) fn make_index(self: &Arc<Self>, seed: u64) -> bool {
        let Some(attempt) = self.build_cost.begin() else {
            return false;
        };
        // What cannot be read now, look-ups report.
        let made = PointerIndex::build(self, seed, &self.cache).unwrap_or(Made::NotNow);
        match made {
            Made::Index(index) => {
                self.index.set(index);
                let holder: Weak<IndexSlot> = Arc::downgrade(&self.index);
                self.cache.index_budget().add(holder);
                return true;
            }
            Made::NotNow => attempt.failed(),
            Made::Never => attempt.give_up(),
        }
        false
    }
}

impl PointerIndex {
    /// Makes the index of `table`. Keys are hashed with `seed`.
    pub(super) fn build(table: &Arc<KeyTable>, seed: u64, cache: &Arc<ReadCache>) -> Result<Made> {
        let files: Box<[_]> = table.meta().refs.iter().map(|refs| refs.file).collect();
        let (of_index, meanwhile) = KeyTable::index_bytes_of([table]);
        let most = of_index.saturating_add(meanwhile);
        let Some(mut taken) = Taken::new(cache, ReadCache::index_bytes, most) else {
            return Ok(Made::NotNow);
        };
        let (found, keys) = gather(table, seed, &files)?;
        let layout = Layout::of(&found, files.len());
        let Some(layout) = layout.filter(|_| found.len() >= keys / 2) else {
            return Ok(Made::Never);
        };
        let Some(mut slots) = Words::new(slots_for(found.len())) else {
            return Ok(Made::NotNow);
        };
        for key in &found {
            let mut at = first_slot(key.hash, slots.len());
            while slots.get(at) != 0 {
                at = next_slot(at, slots.len());
            }
            slots.set(at, layout.slot(key));
        }
        let is_complete = found.len() == keys;
        taken.keep(PointerIndex::bytes_for(found.len(), files.len()));
        Ok(Made::Index(PointerIndex {
            slots,
            files,
            layout,
            is_complete,
            _taken: taken,
        }))
    }
}

/// The newest versions in `table` that have a record, and how many keys there are.
fn gather(table: &Arc<KeyTable>, seed: u64, files: &[FileNumber]) -> Result<(Vec<Found>, usize)> {
    let mut found = Vec::with_capacity(table.meta().count as usize);
    let mut keys = 0;
    let mut previous: Option<Vec<u8>> = None;
    let mut entries = table.iter(Access::Sequential);
    entries.seek(b"", SeqNo::MAX)?;
    while let Some(entry) = entries.entry() {
        if previous.as_deref() != Some(entry.key) {
            let previous = previous.get_or_insert_default();
            previous.clear();
            previous.extend_from_slice(entry.key);
            keys += 1;
            found.extend(place(entry.value, files).map(|(file, pointer)| Found {
                hash: key_hash(seed, entry.key),
                file,
                len: pointer.len,
                offset: pointer.offset,
                seq: entry.seq,
            }));
        }
        entries.next()?;
    }
    Ok((found, keys))
}
