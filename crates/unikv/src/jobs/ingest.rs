//! Ingest: a sorted stream becomes tables of the UnsortedStore, without WAL and memtable.
//!
//! The tables of one stream are sorted and disjoint: a *run*. They make a generation of their own,
//! which is searched through their fences and needs no hash index, so memory does not grow with the
//! stream: what is being written is held as one key section of the size of a key table. A table
//! has keys of one keyspace. The sequence number of each keyspace is known only when all is
//! committed. Records and keys say 0, and the manifest names the number that they have
//! (`RecordFileMeta::ingest_seq`).

use super::JobContext;
use super::flush::MAX_TABLE_BYTES;
use crate::base::keys::{FileNumber, GenerationId, KeyspaceId, Kind, PartitionId, SeqNo, Slot};
use crate::codec::dictionary::Samples;
use crate::codec::{Compression, Dictionary};
use crate::error::{Error, Result};
use crate::key_table::{EntryValue, KeyEntry, KeySectionBuilder};
use crate::record::{RecordFile, RecordFileMeta, RecordRef, RecordWriter};
use crate::version::edit::{TablePlace, TableShare};
use crate::version::file_names;
use crate::version::{KeyRange, Partition, Version};
use crate::vfs::Access;
use std::collections::HashMap;
use std::sync::Arc;

/// What records and keys say before their number is known.
const UNKNOWN_SEQ: SeqNo = SeqNo(0);

/// Writes the tables of a stream.
#[derive(Default)]
pub(crate) struct IngestWriter {
    table: Option<(RecordWriter, KeySectionBuilder)>,
    last_key: Vec<u8>,
    finished: Vec<RecordFileMeta>,
    records: u64,
    /// What the tables before have taught, for those after them.
    samples: Samples,
    dictionary: Option<Arc<Dictionary>>,
}

/// What an entry of a stream gives its key.
pub(crate) enum Content<'a> {
    /// The key is removed.
    Removal,
    Value(&'a [u8]),
    /// A long value that comes in parts: its length, if that is known, and what fills a buffer
    /// with it, and only at the end not whole.
    Parts(Option<usize>, &'a mut dyn FnMut(&mut [u8]) -> Result<usize>),
}

impl<'a> From<Option<&'a [u8]>> for Content<'a> {
    fn from(value: Option<&'a [u8]>) -> Content<'a> {
        value.map_or(Content::Removal, Content::Value)
    }
}

impl IngestWriter {
    /// Appends what a key gets; returns the length of its value. Engine keys must ascend. After an
    /// error nothing more may be added, and what there is may not be finished.
    pub(crate) fn add(
        &mut self,
        context: &JobContext<'_>,
        key: &[u8],
        content: Content<'_>,
        expiry_ms: Option<u64>,
    ) -> Result<usize> {
        if self.records > 0 && key <= self.last_key.as_slice() {
            let what = format!(
                "key {} of the stream is not behind the one before",
                self.records
            );
            return Err(Error::invalid(what, "sort the keys, and keep one of each"));
        }
        if self.records.is_multiple_of(1024) {
            context.check_cancelled()?;
        }
        if self.records > 0 && KeyspaceId::of(&self.last_key) != KeyspaceId::of(key) {
            self.end_table()?;
        }
        let (records, section) = match &mut self.table {
            Some(table) => table,
            None => {
                let create = |number| RecordWriter::create(context.store, number, 0);
                let records = context.begin_file(file_names::record, create)?;
                let records = records.with_dictionary(self.dictionary.clone());
                let section = KeySectionBuilder::new(context.block_bytes);
                self.table.insert((records, section))
            }
        };
        let kind = match content {
            Content::Removal => Kind::Delete,
            Content::Value(_) | Content::Parts(..) => Kind::Put,
        };
        let value = match content {
            Content::Value(value) => value,
            Content::Removal | Content::Parts(..) => &[],
        };
        let compression = context.compressions.of(key);
        if matches!(compression, Compression::Zstd { .. }) && self.dictionary.is_none() {
            self.samples.add(value);
        }
        let record = RecordRef {
            key,
            seq: UNKNOWN_SEQ,
            kind,
            value,
            expiry_ms,
            host_type: 0,
            older_follows: false,
        };
        let (pointer, len) = match content {
            Content::Parts(len, source) => {
                records.append_from(&record, len, compression, |out| {
                    context.check_cancelled()?;
                    source(out)
                })?
            }
            _ => (records.append_as(&record, compression)?, value.len()),
        };
        section.add(&KeyEntry {
            key,
            seq: UNKNOWN_SEQ,
            kind,
            expiry_ms,
            value: EntryValue::Pointer(pointer),
        });
        self.records += 1;
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        let section_is_full = section.estimated_len() >= context.key_table_bytes;
        if section_is_full || records.len() >= MAX_TABLE_BYTES {
            self.end_table()?;
            if self.dictionary.is_none() {
                let samples = std::mem::take(&mut self.samples);
                self.dictionary = context.dictionaries.of(samples);
            }
        }
        Ok(len)
    }

    /// The tables, in the order of their keys; their bytes are durable.
    pub(crate) fn finish(&mut self) -> Result<Vec<RecordFileMeta>> {
        self.end_table()?;
        Ok(std::mem::take(&mut self.finished))
    }

    /// How many records came.
    pub(crate) fn records(&self) -> u64 {
        self.records
    }

    fn end_table(&mut self) -> Result<()> {
        if let Some((records, section)) = self.table.take() {
            self.finished.push(records.finish(Some(section))?);
        }
        Ok(())
    }
}

/// What a partition gets of each table.
type Shares = Vec<(FileNumber, TableShare)>;

/// Divides the tables of a stream among partitions.
pub(crate) struct IngestPlan {
    files: Vec<Arc<RecordFile>>,
    shares: HashMap<PartitionId, Shares>,
}

impl IngestPlan {
    pub(crate) fn new(files: Vec<Arc<RecordFile>>) -> IngestPlan {
        IngestPlan {
            files,
            shares: HashMap::new(),
        }
    }

    /// Each keyspace of which there are keys, with the least and the greatest of them.
    pub(crate) fn keyspaces(&self) -> Vec<(KeyspaceId, &[u8], &[u8])> {
        let mut found: Vec<(KeyspaceId, &[u8], &[u8])> = Vec::new();
        for file in &self.files {
            let (min, max) = (&file.meta().min_key, &file.meta().max_key);
            let keyspace = KeyspaceId::of(min);
            match found.last_mut() {
                Some(last) if last.0 == keyspace => last.2 = max,
                _ => found.push((keyspace, min, max)),
            }
        }
        found
    }

    /// The partitions between the first and the last key.
    pub(crate) fn partitions<'a>(
        &self,
        version: &'a Version,
    ) -> impl Iterator<Item = &'a Arc<Partition>> + use<'a> {
        let ends = self.files.first().zip(self.files.last());
        let between = ends.map(|(first, last)| {
            version.partitions_between(&first.meta().min_key, &last.meta().max_key)
        });
        between.into_iter().flatten()
    }

    /// Finds out what each partition gets that was not yet looked at. The range of a partition
    /// never changes.
    pub(crate) fn divide(&mut self, version: &Version) -> Result<()> {
        for partition in self.partitions(version) {
            if self.shares.contains_key(&partition.id) {
                continue;
            }
            let mut shares = Shares::new();
            for file in &self.files {
                if let Some(share) = share_of(file, partition.range())? {
                    shares.push((file.meta().number, share));
                }
            }
            self.shares.insert(partition.id, shares);
        }
        Ok(())
    }

    /// Whether all partitions of the version have been looked at.
    pub(crate) fn is_complete(&self, version: &Version) -> bool {
        let mut partitions = self.partitions(version);
        partitions.all(|p| self.shares.contains_key(&p.id))
    }

    /// The files as they are listed once they are committed, those of the first keyspace at
    /// `first`, those of the next one at the number after it.
    pub(crate) fn metas(&self, first: SeqNo) -> Vec<RecordFileMeta> {
        let keyspaces = self.keyspaces();
        let numbered = |file: &Arc<RecordFile>| {
            let of = KeyspaceId::of(&file.meta().min_key);
            let before = keyspaces
                .iter()
                .take_while(|(keyspace, ..)| *keyspace != of);
            let seq = SeqNo(first.0 + before.count() as u64);
            file.meta().clone().ingested_at(seq)
        };
        self.files.iter().map(numbered).collect()
    }

    /// Bytes of the files.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.meta().len).sum()
    }

    /// The places of the tables: in each partition with keys a new generation.
    pub(crate) fn places(&self, version: &Version, generation: GenerationId) -> Vec<TablePlace> {
        let mut places = Vec::new();
        for partition in self.partitions(version) {
            let shares = self.shares.get(&partition.id).into_iter().flatten();
            places.extend(shares.enumerate().map(|(slot, (file, share))| TablePlace {
                partition: partition.id,
                generation,
                slot: Slot(slot as u16),
                file: *file,
                share: Some(*share),
                hidden_bytes: 0,
            }));
        }
        places
    }
}

/// What of a table lies in `range`: whether there is something for certain, how much by estimate.
fn share_of(file: &Arc<RecordFile>, range: KeyRange<'_>) -> Result<Option<TableShare>> {
    let meta = file.meta();
    let (min, max) = (meta.min_key.as_slice(), meta.max_key.as_slice());
    let whole = TableShare {
        records: meta.count,
        bytes: meta.len,
    };
    if max < range.start || !range.is_before_end(min) {
        return Ok(None);
    }
    if range.start <= min && range.is_before_end(max) {
        return Ok(Some(whole));
    }
    let section = file.section()?;
    let mut keys = section.iter(Access::Random);
    keys.seek(range.start, SeqNo::MAX)?;
    if keys.entry().is_none_or(|e| !range.is_before_end(e.key)) {
        return Ok(None);
    }
    let start = section.part_before(range.start)?;
    let end = range.end.map_or(Ok(1.0), |end| section.part_before(end))?;
    let part = (end - start).clamp(0.0, 1.0);
    Ok(Some(TableShare {
        records: ((whole.records as f64 * part) as u64).max(1),
        bytes: (whole.bytes as f64 * part) as u64,
    }))
}
