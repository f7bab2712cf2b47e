//! Building the hash index of a generation from its tables (paper §III-G, instead of checkpoints).
//!
//! Recovery builds every index so; a flush builds a larger one when an index is full. Only the keys
//! of the partition's range are entered: a table may be shared by several partitions. They are read
//! from the key sections; a damaged section is rebuilt from its records when it is read.

use crate::base::hash::key_hash;
use crate::base::keys::{SeqNo, Slot};
use crate::base::seeded::seeded;
use crate::error::{Error, ErrorKind, Result};
use crate::hash_index::{HashIndex, HashIndexWriter};
use crate::key_table::EntryValue;
use crate::version::{Generation, KeyRange, Table};

/// An index of `capacity` records with the keys of `generation` in `range`; `None` if it would have
/// to be larger. A table whose keys cannot be read, not even from its records, becomes a unindexed
/// slot: lookups in its range find that out for themselves, and whatever is newer is found without
/// it.
pub(crate) fn build_index(
    generation: &Generation,
    range: KeyRange<'_>,
    seed: u64,
    capacity: usize,
) -> Result<Option<HashIndex>> {
    let mut index = HashIndex::with_capacity(capacity);
    let mut writer = index.writer();
    let mut unindexed = Vec::new();
    for (slot, table) in generation.shares().rev() {
        match enter_keys(&mut writer, slot, table, range, seed) {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(_) if seeded!(DamagedSectionIsEmpty) => {}
            Err(error) if error.kind() == ErrorKind::Corruption => unindexed.insert(0, slot),
            Err(error) => return Err(error),
        }
    }
    drop(writer);
    index.set_unindexed(unindexed);
    Ok(Some(index))
}

/// Enters the newest version of each key. False: the index is full.
pub(crate) fn enter_keys(
    index: &mut HashIndexWriter<'_>,
    slot: Slot,
    table: &Table,
    range: KeyRange<'_>,
    seed: u64,
) -> Result<bool> {
    let mut keys = table.job_keys()?;
    let mut previous: Option<Vec<u8>> = None;
    keys.seek(range.start, SeqNo::MAX)?;
    while let Some(entry) = keys.entry().filter(|e| range.is_before_end(e.key)) {
        if previous.as_deref() != Some(entry.key) {
            let EntryValue::Pointer(pointer) = entry.value else {
                let what = "a table's key has no pointer";
                return Err(Error::corruption(table.file.path(), 0, what));
            };
            let hash = key_hash(seed, entry.key);
            let len = u64::from(pointer.len);
            if index.insert(hash, slot, pointer.offset, len).is_err() {
                return Ok(false);
            }
            let previous = previous.get_or_insert_default();
            previous.clear();
            previous.extend_from_slice(entry.key);
        }
        keys.next()?;
    }
    Ok(true)
}
