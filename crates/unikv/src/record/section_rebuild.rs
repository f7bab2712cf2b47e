//! What a key section says, from the records in front of it.

use super::reader::RecordFile;
use super::stream::RecordHead;
use crate::base::keys::SeqNo;
use crate::error::Result;
use crate::key_table::{EntryValue, KeyEntry, RecordPointer, SpareEntries, TakeEntry};
use std::sync::Arc;

/// The entries of the section of `file`, which is handed in without it.
pub(super) fn entries(file: RecordFile) -> SpareEntries {
    let file = Arc::new(file);
    SpareEntries::new(move |take| each_entry(&file, take))
}

/// Reads all records. They stand in the order of their keys: a table has them so.
fn each_entry(file: &Arc<RecordFile>, take: &mut TakeEntry<'_>) -> Result<()> {
    let meta = file.meta();
    let mut records = file.stream();
    while let Some(record) = records.next_head()? {
        let RecordHead {
            key,
            seq,
            kind,
            expiry_ms,
            offset,
            frame_len,
            ..
        } = record;
        take(&KeyEntry {
            key: &key,
            // As it was written.
            seq: meta.ingest_seq.map_or(seq, |_| SeqNo(0)),
            kind,
            expiry_ms,
            value: EntryValue::Pointer(RecordPointer {
                file: meta.number,
                offset,
                len: frame_len,
            }),
        })?;
    }
    Ok(())
}
