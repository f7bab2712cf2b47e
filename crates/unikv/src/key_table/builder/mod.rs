//! Building a key section in memory and writing it, after records or as a key table of its own.

pub(crate) mod bounds;
pub(crate) mod newest;
pub(crate) mod output;
pub(crate) mod rebuilt;

use super::block::BlockBuilder;
use super::footer::Footer;
use super::meta::{KeyTableMeta, stored_part};
use super::outliers::Outliers;
use super::properties::Properties;
use crate::base::checksum::{Crc, bound};
use crate::base::file_header::{BLOCK_CODECS, FileHeader, FileKind};
use crate::base::file_names;
use crate::base::keys::{FileNumber, FileUid, SeqNo, internal_cmp};
use crate::codec::Compression;
use crate::error::Result;
use crate::key_table::block::compressed::BlockCompressor;
use crate::key_table::block::entry::{EntryValue, KeyEntry};
use crate::key_table::block::fences;
use crate::key_table::builder::newest::Newest;
use crate::key_table::builder::output::{OutputFile, UnsyncedFile};
use crate::vfs::file_store::FileStore;
use std::cmp::Ordering;
use std::sync::Arc;

/// What index and properties take besides the fences, roughly.
const FIXED_BYTES: usize = 256;

/// Gathers entries, which come in internal order, into a section. The section knows its file only
/// when it is written: until then the checksums of its blocks are unbound.
#[derive(Debug)]
pub(crate) struct KeySectionBuilder {
    block_bytes: usize,
    blocks: Vec<u8>,
    block: BlockBuilder,
    ends: Vec<BlockEnd>,
    /// The index entries of all blocks that have ended.
    index: Vec<u8>,
    last_key: Vec<u8>,
    last_seq: SeqNo,
    /// The first key of the block at the end, and the entry before it.
    block_first: Vec<u8>,
    before_block: Option<(Vec<u8>, SeqNo)>,
    properties: Properties,
    newest: Newest,
    outliers: Outliers,
    /// Bytes of the inline values among `properties.older_bytes`.
    older_inline_bytes: u64,
    /// `None`: blocks are stored as they are.
    compressor: Option<Box<BlockCompressor>>,
}

#[derive(Debug)]
struct BlockEnd {
    len: usize,
    crc: Crc,
}

impl KeySectionBuilder {
    /// A section whose blocks end when they reach `block_bytes`.
    pub(crate) fn new(block_bytes: usize) -> KeySectionBuilder {
        KeySectionBuilder {
            block_bytes,
            blocks: Vec::new(),
            block: BlockBuilder::default(),
            ends: Vec::new(),
            index: Vec::new(),
            last_key: Vec::new(),
            last_seq: SeqNo(0),
            block_first: Vec::new(),
            before_block: None,
            properties: Properties::default(),
            newest: Newest::default(),
            outliers: Outliers::default(),
            older_inline_bytes: 0,
            compressor: None,
        }
    }

    /// Has the blocks compressed so that end from now on.
    pub(crate) fn compress(&mut self, compression: Compression) {
        let compresses = compression != Compression::None;
        self.compressor = compresses.then(|| Box::new(BlockCompressor::new(compression)));
    }

    /// Adds the next entry in internal order.
    pub(crate) fn add(&mut self, entry: &KeyEntry<'_>) {
        debug_assert!(
            self.is_empty()
                || internal_cmp((&self.last_key, self.last_seq), (entry.key, entry.seq))
                    == Ordering::Less,
            "entries come in internal order"
        );
        if self.block.is_empty() {
            self.block_first.clear();
            self.block_first.extend_from_slice(entry.key);
        }
        self.block.add(&mut self.blocks, &self.last_key, entry);
        self.note(entry);
        self.last_key.clear();
        self.last_key.extend_from_slice(entry.key);
        self.last_seq = entry.seq;
        if self.block.len_beside_prefix(&self.blocks) >= self.block_bytes {
            self.end_block();
        }
    }

    /// About how many bytes the section would take in a file now.
    pub(crate) fn estimated_len(&self) -> usize {
        let open = self.block.len(&self.blocks);
        self.blocks.len().max(open) + self.index.len() + FIXED_BYTES
    }

    /// Bytes of records to which the newest versions of its keys point.
    pub(crate) fn newest_record_bytes(&self) -> u64 {
        self.newest.apart.bytes
    }

    /// Whether it has no entry.
    pub(crate) fn is_empty(&self) -> bool {
        self.properties.entries == 0
    }

    fn note(&mut self, entry: &KeyEntry<'_>) {
        let properties = &mut self.properties;
        if properties.entries == 0 {
            properties.min_key.extend_from_slice(entry.key);
        }
        properties.entries += 1;
        properties.add_seq(entry.seq);
        properties.add_expiry(entry.expiry_ms);
        let (inline, record) = match entry.value {
            EntryValue::None => (0, 0),
            EntryValue::Inline(value) => (value.len() as u64, 0),
            EntryValue::Pointer(p) => {
                properties.add_ref(p.file, u64::from(p.len));
                (0, u64::from(p.len))
            }
        };
        properties.inline_bytes += inline;
        let is_older = properties.entries > 1 && self.last_key == entry.key;
        if let Some(expiry_ms) = entry.expiry_ms {
            let bytes = entry.key.len() as u64 * u64::from(inline > 0) + inline + record;
            let newest_bytes = if is_older { 0 } else { bytes };
            properties.expiring.add(expiry_ms, newest_bytes);
        }
        if is_older {
            properties.older_bytes += inline + record;
            self.older_inline_bytes += inline;
            return;
        }
        match entry.value {
            EntryValue::None => {}
            EntryValue::Inline(_) => self.newest.add_inline(entry.key, inline),
            EntryValue::Pointer(_) => {
                let before = self.newest.sum();
                self.outliers.note(entry.key, record, before);
                self.newest.add_apart(entry.key, record);
            }
        }
    }

    fn end_block(&mut self) {
        let compressor = &mut self.compressor;
        let (len, crc) = self.block.end(&mut self.blocks, |blocks, start| {
            if let Some(compressor) = compressor {
                compressor.compress(blocks, start);
            }
        });
        let before = self
            .before_block
            .as_ref()
            .map(|(key, seq)| (&key[..], *seq));
        fences::encode(&mut self.index, len, before, &self.block_first);
        self.ends.push(BlockEnd { len, crc });
        let (key, seq) = self.before_block.get_or_insert_default();
        key.clone_from(&self.last_key);
        *seq = self.last_seq;
    }

    /// Ends the block, if it has entries, before the next one comes.
    pub(super) fn cut(&mut self) {
        if !self.block.is_empty() {
            self.end_block();
        }
    }

    /// Ends the last block and binds the blocks to their places from `start` of the file `uid` on.
    fn seal(&mut self, uid: FileUid, start: u64) {
        self.cut();
        let mut at = 0;
        for end in &self.ends {
            let crc = end.crc.bind(uid, start + at as u64);
            at += end.len;
            self.blocks[at - 4..at].copy_from_slice(&crc.to_le_bytes());
        }
    }

    /// The blocks as they would stand at `start` of the file `uid`, and the index without its
    /// checksum.
    pub(super) fn into_memory(mut self, uid: FileUid, start: u64) -> (Vec<u8>, Vec<u8>) {
        self.seal(uid, start);
        (self.blocks, self.index)
    }

    /// Writes blocks and index at the end of `output`. Returns their lengths and the properties.
    fn write(mut self, output: &mut OutputFile) -> Result<(u64, u64, Properties)> {
        self.seal(output.uid(), output.len());
        output.append(&self.blocks)?;
        let crc = bound(output.uid(), output.len(), &self.index);
        self.index.extend_from_slice(&crc.to_le_bytes());
        output.append(&self.index)?;
        self.properties.max_key = self.last_key;
        Ok((
            self.blocks.len() as u64,
            self.index.len() as u64,
            self.properties,
        ))
    }
}

/// Writes what stands after the records of a file: the key section, if there is one, the
/// properties and the footer. `records` holds the facts about the records, with which those of the
/// section are stored.
pub(crate) fn write_tail(
    output: &mut OutputFile,
    section: Option<KeySectionBuilder>,
    records: Properties,
) -> Result<Properties> {
    let records_end = output.len();
    let mut properties = records;
    let (mut blocks_len, mut index_len) = (0, 0);
    if let Some(section) = section {
        let of_section;
        (blocks_len, index_len, of_section) = section.write(output)?;
        if properties.records == 0 && properties.ranges.is_none() {
            properties = of_section;
        } else {
            properties.entries = of_section.entries;
            for refs in of_section.refs {
                properties.add_refs(refs);
            }
            properties.inline_bytes = of_section.inline_bytes;
            properties.older_bytes = of_section.older_bytes;
        }
    }
    let encoded = properties.encode(output.uid(), output.len());
    output.append(&encoded)?;
    let properties_len = encoded.len() as u64;
    let footer = Footer {
        records_end,
        blocks_len,
        index_len,
        properties_len,
    };
    output.append(&footer.encode(output.uid()))?;
    Ok(properties)
}

/// Writes `section` as the key table `number`. Before the caller lists the table, it syncs the file
/// that this returns with it, and the directory. After an error there is no such file, unless
/// somebody else had made it.
pub(crate) fn write_key_table(
    store: &Arc<FileStore>,
    number: FileNumber,
    section: KeySectionBuilder,
) -> Result<(KeyTableMeta, UnsyncedFile)> {
    let header = OutputFile::header(store, FileKind::KeyTable, number);
    write_with_header(store, header, section)
}

pub(super) fn write_with_header(
    store: &FileStore,
    header: FileHeader,
    mut section: KeySectionBuilder,
) -> Result<(KeyTableMeta, UnsyncedFile)> {
    section.cut();
    let compression = section.compressor.as_ref().map(|it| it.done);
    let compression = compression.unwrap_or_default();
    let header = FileHeader {
        required: if compression.codecs.is_empty() {
            header.required
        } else {
            header.required | BLOCK_CODECS
        },
        ..header
    };
    section.properties.compression = compression;
    // Like all bytes that are counted, those are bytes on the disk.
    let (inline, stored) = (section.older_inline_bytes, section.blocks.len() as u64);
    section.properties.older_bytes -= inline - stored_part(inline, stored, compression.saved_bytes);
    section.newest.outliers = section.outliers.settle(section.newest.sum());
    section.properties.newest = Some(section.newest);
    section.properties.expiring.settle();
    section.properties.outliers = std::mem::take(&mut section.outliers);
    let name = file_names::key_table(header.number);
    let size_hint = section.estimated_len() as u64;
    let mut output = OutputFile::create(store, &name, header, size_hint)?;
    let path = store.dir().join(&name);
    let written = write_tail(&mut output, Some(section), Properties::default());
    let written = written.and_then(|properties| Ok((properties, output.finish_unsynced()?)));
    let (properties, ((len, checksum), file)) = written.inspect_err(|_| {
        let _swept_at_open = store.env().vfs.remove(&path);
    })?;
    let table = KeyTableMeta {
        number: header.number,
        uid: header.uid,
        len,
        count: properties.entries,
        min_seq: properties.min_seq(),
        max_seq: properties.max_seq(),
        min_key: properties.min_key,
        max_key: properties.max_key,
        checksum,
        refs: properties.refs,
        inline_bytes: properties.inline_bytes,
        older_bytes: properties.older_bytes,
        newest: properties.newest,
        expiry: properties.expiry,
        expiring: properties.expiring,
        has_range_deletes: properties.has_range_deletes,
        clip: None,
        compression,
    };
    Ok((table, file))
}
