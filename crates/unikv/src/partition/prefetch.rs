//! Telling the device what look-ups of many keys will read, before any of them waits.
//!
//! It walks as [`View::get`] does, up to the first read that memory cannot serve, and prefetches
//! that one. All of it is a hint: whatever it finds, overlooks or fails in, the look-up itself
//! decides.

use super::View;
use crate::base::hash::key_hash;
use crate::base::keys::SeqNo;
use crate::error::Result;
use crate::key_table::{Candidate, KeySection, OwnedEntry, OwnedValue, RecordPointer};
use crate::record::RecordFile;
use crate::version::{Generation, Partition};
use std::sync::Arc;

/// What the look-up of a key will do, as far as it can be known without waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ahead {
    /// It reads nothing, or what the page cache has.
    InMemory,
    /// It reads a record, which has been prefetched.
    Prefetched,
    /// It reads a block of keys, which has been prefetched, and then perhaps a record.
    BlockFirst,
}

/// What a store says of a key: it is not here, or what the look-up will do.
type Outcome = Option<Ahead>;

impl View {
    /// Prefetches what a look-up of `key` as of `snapshot` would wait for first. With `waits` it
    /// waits for a block of keys, so that the record after it can be prefetched.
    pub(crate) fn prefetch(&self, key: &[u8], snapshot: SeqNo, waits: bool) -> Result<Ahead> {
        let hash = key_hash(self.version.counters.hash_seed, key);
        if self
            .memtables()
            .any(|handle| handle.table.get(key, hash, snapshot).is_some())
        {
            return Ok(Ahead::InMemory);
        }
        let Some(partition) = self.version.partition_for(key) else {
            return Ok(Ahead::InMemory);
        };
        for generation in &partition.generations {
            let reported = if generation.is_ingested() {
                in_ingested(generation, key, snapshot, waits)?
            } else {
                by_index(generation, hash, snapshot)?
            };
            if let Some(ahead) = reported {
                return Ok(ahead);
            }
        }
        let reported = self.in_sorted_store(partition, key, hash, snapshot, waits)?;
        Ok(reported.unwrap_or(Ahead::InMemory))
    }

    fn in_sorted_store(
        &self,
        partition: &Partition,
        key: &[u8],
        hash: u64,
        snapshot: SeqNo,
        waits: bool,
    ) -> Result<Outcome> {
        let Some(table) = partition.key_table_for(key) else {
            return Ok(None);
        };
        if let Some(index) = &*table.index() {
            let mut candidates = index.candidates(hash);
            let file = |it: Candidate| Some((self.version.record_file(it.file)?, it));
            if let Some((file, it)) = candidates.find_map(file) {
                return prefetch_record(file, it.offset, it.read_len).map(Some);
            }
            if index.is_complete() {
                return Ok(None);
            }
        }
        in_section(table.section(), key, snapshot, waits, |pointer| {
            self.version.record_file(pointer.file)
        })
    }
}

/// The first candidate of the index is the record, but for equal tags.
fn by_index(generation: &Generation, hash: u64, snapshot: SeqNo) -> Result<Outcome> {
    let candidates = generation.index.lookup(hash, generation.high_water());
    for candidate in candidates.iter() {
        if let Some(table) = generation.table(candidate.slot)
            && table.meta().min_seq <= snapshot
        {
            return prefetch_record(table, candidate.offset, candidate.read_len).map(Some);
        }
    }
    Ok(None)
}

fn in_ingested(
    generation: &Generation,
    key: &[u8],
    snapshot: SeqNo,
    waits: bool,
) -> Result<Outcome> {
    let Some(table) = generation.ingested_table_for(key) else {
        return Ok(None);
    };
    in_section(table.section()?, key, snapshot, waits, |_| Some(table))
}

/// Prefetches the block of `section` that may have `key`, or the record in the file of its pointer.
fn in_section<'a>(
    section: &KeySection,
    key: &[u8],
    snapshot: SeqNo,
    waits: bool,
    file: impl FnOnce(RecordPointer) -> Option<&'a Arc<RecordFile>>,
) -> Result<Outcome> {
    let entry = if waits {
        section.get(key, snapshot)?
    } else {
        match section.get_present(key, snapshot)? {
            Some(entry) => entry,
            None => return Ok(Some(Ahead::BlockFirst)),
        }
    };
    let Some(OwnedEntry { value, .. }) = entry else {
        return Ok(None);
    };
    let OwnedValue::Pointer(pointer) = value else {
        return Ok(Some(Ahead::InMemory));
    };
    match file(pointer) {
        Some(file) => prefetch_record(file, pointer.offset, pointer.len as usize).map(Some),
        None => Ok(None),
    }
}

fn prefetch_record(file: &RecordFile, offset: u64, len: usize) -> Result<Ahead> {
    Ok(if file.prefetch_unless_present(offset, len)? {
        Ahead::Prefetched
    } else {
        Ahead::InMemory
    })
}
