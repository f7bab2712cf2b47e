//! The files that a merge writes: key tables, and record files where values are clustered.

use super::JobContext;
use super::merge::{Kept, KeptValue};
use crate::base::keys::{FileNumber, Kind};
use crate::error::{Error, Result};
use crate::key_table::{
    EntryValue, KeyEntry, KeySectionBuilder, KeyTableMeta, RecordPointer, write_key_table,
};
use crate::record::{
    Record, RecordFile, RecordFileMeta, RecordRef, RecordStream, RecordWriter, frame_len,
};
use crate::version::Generation;
use crate::version::file_names;
use std::collections::HashMap;
use std::sync::Arc;

/// A record file of clustered values is ended at this size, so that dead ones can be dropped.
const CLUSTERED_FILE_BYTES: u64 = 64 << 20;

/// Collects merged keys into key tables of the target size.
pub(super) struct MergeOutput<'a> {
    context: &'a JobContext<'a>,
    /// The generation's record files, each read front to back: its pointers ascend.
    tables: HashMap<FileNumber, (Arc<RecordFile>, Option<RecordStream>)>,
    builder: KeySectionBuilder,
    clustered: Option<RecordWriter>,
    key_tables: Vec<KeyTableMeta>,
    record_files: Vec<RecordFileMeta>,
}

impl<'a> MergeOutput<'a> {
    pub(super) fn new(context: &'a JobContext<'a>, generation: &Generation) -> MergeOutput<'a> {
        let tables = generation.tables();
        let tables = tables
            .map(|(_, t)| (t.meta().number, (Arc::clone(t), None)))
            .collect();
        MergeOutput {
            context,
            tables,
            builder: KeySectionBuilder::new(context.block_bytes),
            clustered: None,
            key_tables: Vec::new(),
            record_files: Vec::new(),
        }
    }

    /// Whether ending the key table here would leave it much smaller than its target.
    pub(super) fn would_leave_a_splinter(&self) -> bool {
        let len = self.builder.estimated_len();
        !self.builder.is_empty() && len < self.context.key_table_bytes / 4
    }

    /// Adds a key with its kept versions, newest first.
    pub(super) fn add_key(&mut self, key: &[u8], kept: &[Kept], inline: &[u8]) -> Result<()> {
        for version in kept {
            self.add_version(key, version, inline)?;
        }
        if self.builder.estimated_len() >= self.context.key_table_bytes {
            self.cut_table()?;
        }
        Ok(())
    }

    fn add_version(&mut self, key: &[u8], version: &Kept, inline: &[u8]) -> Result<()> {
        let record;
        let value = match &version.value {
            KeptValue::None => EntryValue::None,
            KeptValue::Inline(range) => {
                EntryValue::Inline(inline.get(range.clone()).unwrap_or_default())
            }
            KeptValue::Pointer(pointer) => {
                let without_value = frame_len(key.len(), 0, version.expiry_ms.is_some());
                let value_len = u64::from(pointer.len).saturating_sub(without_value);
                if version.unsorted && value_len < self.context.inline_value_bytes as u64 {
                    record = self.read(key, version, *pointer)?;
                    EntryValue::Inline(record.value_slice())
                } else if version.unsorted && self.context.cluster {
                    let record = self.read(key, version, *pointer)?;
                    EntryValue::Pointer(self.copy(&record)?)
                } else {
                    EntryValue::Pointer(*pointer)
                }
            }
        };
        let (seq, kind, expiry_ms) = (version.seq, version.kind, version.expiry_ms);
        self.builder.add(&KeyEntry {
            key,
            seq,
            kind,
            expiry_ms,
            value,
        });
        Ok(())
    }

    /// Reads the record of an entry of the UnsortedStore and makes sure that it is the one.
    fn read(&mut self, key: &[u8], version: &Kept, pointer: RecordPointer) -> Result<Record> {
        let Some((file, stream)) = self.tables.get_mut(&pointer.file) else {
            let what = format!("a key points to file {}, not its own table", pointer.file.0);
            return Err(Error::corruption(self.context.store.dir(), 0, what));
        };
        let record = stream.get_or_insert_with(|| file.stream()).read(pointer)?;
        if record.key() != key || record.seq() != version.seq || record.kind() != Kind::Put {
            let what = "the record is not the one its key entry was made for";
            return Err(Error::corruption(file.path(), pointer.offset, what));
        }
        Ok(record)
    }

    /// Writes a value once more, behind its neighbour in key order.
    fn copy(&mut self, record: &Record) -> Result<RecordPointer> {
        if self
            .clustered
            .as_ref()
            .is_some_and(|w| w.len() >= CLUSTERED_FILE_BYTES)
        {
            self.end_clustered()?;
        }
        let writer = match &mut self.clustered {
            Some(writer) => writer,
            None => {
                let number = self.context.begin_file(file_names::record);
                let writer = RecordWriter::create(self.context.store, number, 0)?;
                self.clustered.insert(writer)
            }
        };
        writer.append(&RecordRef {
            older_follows: false,
            ..record.as_ref()
        })
    }

    /// Ends the key table being built, if it has keys.
    pub(super) fn cut_table(&mut self) -> Result<()> {
        if self.builder.is_empty() {
            return Ok(());
        }
        let next = KeySectionBuilder::new(self.context.block_bytes);
        let section = std::mem::replace(&mut self.builder, next);
        let number = self.context.begin_file(file_names::key_table);
        self.key_tables
            .push(write_key_table(self.context.store, number, section)?);
        Ok(())
    }

    fn end_clustered(&mut self) -> Result<()> {
        if let Some(writer) = self.clustered.take() {
            self.record_files.push(writer.finish(None)?);
        }
        Ok(())
    }

    /// Ends all files.
    pub(super) fn finish(mut self) -> Result<(Vec<KeyTableMeta>, Vec<RecordFileMeta>)> {
        self.cut_table()?;
        self.end_clustered()?;
        Ok((self.key_tables, self.record_files))
    }
}
