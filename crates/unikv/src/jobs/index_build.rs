//! Building the hash index of a generation from its tables (paper §III-G, instead of checkpoints).
//!
//! Recovery builds every index so; a flush builds a larger one when an index is full. Only the keys
//! of the partition's range are entered: a table may be shared by several partitions.

use crate::base::hash::key_hash;
use crate::base::keys::{SeqNo, Slot};
use crate::base::seeded::seeded;
use crate::error::{Error, Result};
use crate::hash_index::{HashIndex, HashIndexWriter};
use crate::key_table::EntryValue;
use crate::version::{Generation, KeyRange, Table};

/// An index of `capacity` records with the keys of `generation` in `range`; `None` if it would
/// have to be larger.
pub(crate) fn build_index(
    generation: &Generation,
    range: KeyRange<'_>,
    seed: u64,
    capacity: usize,
) -> Result<Option<HashIndex>> {
    let index = HashIndex::with_capacity(capacity);
    let mut writer = index.writer();
    for (slot, table) in generation.shares().rev() {
        let fits = match enter_keys(&mut writer, slot, table, range, seed) {
            Ok(fits) => fits,
            Err(_) if seeded!(DamagedSectionIsEmpty) => true,
            // A damaged key section is made up for by the records. What was entered so far is
            // entered again, which is harmless.
            Err(_) => enter_records(&mut writer, slot, table, range, seed)?,
        };
        if !fits {
            return Ok(None);
        }
    }
    drop(writer);
    Ok(Some(index))
}

/// Enters the newest version of each key. False: the index is full.
fn enter_keys(
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

fn enter_records(
    index: &mut HashIndexWriter<'_>,
    slot: Slot,
    table: &Table,
    range: KeyRange<'_>,
    seed: u64,
) -> Result<bool> {
    let mut records = table.file.stream();
    let mut older = false;
    while let Some(record) = records.next()? {
        if !range.is_before_end(record.key()) {
            break;
        }
        if !older && record.key() >= range.start {
            let hash = key_hash(seed, record.key());
            let len = record.frame_len() as u64;
            if index.insert(hash, slot, record.offset(), len).is_err() {
                return Ok(false);
            }
        }
        older = record.older_follows();
    }
    Ok(true)
}
