//! Walking the parts of a key section of which nothing else is known, be it damaged.
//!
//! Memory: the index and one block.

use super::entry::{EntryValue, Malformed, OwnedValue};
use super::fences::Fences;
use crate::base::keys::{Kind, SeqNo};
use crate::codec::Decoders;
use crate::error::Result;
use crate::key_table::block::Block;
use crate::key_table::footer::{FOOTER_LEN, Footer};
use crate::key_table::properties::FileFacts;
use crate::key_table::reader::section::read_index;
use crate::vfs::file_store::DataFile;
use bytes::Bytes;

/// Where the parts of a file lie.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SectionParts {
    pub(crate) records_end: u64,
    pub(crate) blocks_len: u64,
    pub(crate) index_offset: u64,
    pub(crate) index_len: u64,
    pub(crate) properties_offset: u64,
    pub(crate) properties_len: u64,
    pub(crate) footer_offset: u64,
    pub(crate) footer_len: u64,
    pub(crate) has_key_section: bool,
}

/// A block that verified, or why it did not.
pub(crate) struct WalkedBlock {
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) fence: Vec<u8>,
    pub(crate) entries: std::result::Result<Vec<WalkedEntry>, &'static str>,
}

/// An entry.
pub(crate) struct WalkedEntry {
    pub(crate) key: Vec<u8>,
    pub(crate) seq: SeqNo,
    pub(crate) kind: Kind,
    pub(crate) expiry_ms: Option<u64>,
    pub(crate) value: OwnedValue,
}

/// The footer of a file of `file_len` bytes.
pub(crate) fn parts(file: &DataFile, file_len: u64) -> Result<SectionParts> {
    let footer = Footer::read(file, file_len)?;
    Ok(SectionParts {
        records_end: footer.records_end,
        blocks_len: footer.blocks_len,
        index_offset: footer.index_offset(),
        index_len: footer.index_len,
        properties_offset: footer.index_offset() + footer.index_len,
        properties_len: footer.properties_len,
        footer_offset: file_len - FOOTER_LEN as u64,
        footer_len: FOOTER_LEN as u64,
        has_key_section: footer.has_key_section(),
    })
}

/// What a file of `file_len` bytes says of itself.
pub(crate) fn facts(file: &DataFile, file_len: u64) -> Result<FileFacts> {
    FileFacts::read(file, file_len)
}

/// The blocks of a file whose footer and index verified.
pub(crate) struct BlockWalk<'a> {
    file: &'a DataFile,
    fences: Fences,
    decoders: Decoders,
}

impl<'a> BlockWalk<'a> {
    /// Reads the index.
    pub(crate) fn open(file: &'a DataFile, file_len: u64) -> Result<BlockWalk<'a>> {
        let footer = Footer::read(file, file_len)?;
        let fences = read_index(file, &footer)?;
        let decoders = Decoders::default();
        Ok(BlockWalk {
            file,
            fences,
            decoders,
        })
    }

    /// How many blocks there are.
    pub(crate) fn len(&self) -> usize {
        self.fences.len()
    }

    /// The least key that the `i`th block can hold; empty for the first, and after the last.
    pub(crate) fn fence(&self, i: usize) -> &[u8] {
        self.fences.key(i)
    }

    /// The `i`th block, read from the file; `None` after the last. Fails only when the system
    /// does.
    pub(crate) fn block(&self, i: usize) -> Result<Option<WalkedBlock>> {
        let Some(place) = self.fences.place(i) else {
            return Ok(None);
        };
        let mut bytes = vec![0; place.len];
        self.file.read_exact_at(&mut bytes, place.offset)?;
        let uid = self.file.uid();
        let block = Block::verify(Bytes::from(bytes), uid, place.offset, &self.decoders);
        let entries = block.and_then(|block| {
            entries(&block).map_err(|Malformed| "the block's entries are malformed")
        });
        Ok(Some(WalkedBlock {
            offset: place.offset,
            len: place.len as u64,
            fence: self.fences.key(i).to_vec(),
            entries,
        }))
    }
}

fn entries(block: &Block) -> std::result::Result<Vec<WalkedEntry>, Malformed> {
    let (mut found, mut key, mut at) = (Vec::new(), Vec::new(), 0);
    while at < block.entries_end() {
        let entry = block.entry_at(at)?;
        if entry.shared > key.len() || entry.next <= at {
            return Err(Malformed);
        }
        key.truncate(entry.shared);
        key.extend_from_slice(entry.suffix.of(block.bytes()));
        found.push(WalkedEntry {
            key: key.clone(),
            seq: entry.seq,
            kind: entry.kind,
            expiry_ms: entry.expiry_ms,
            value: match entry.value.of(block.bytes()) {
                EntryValue::None => OwnedValue::None,
                EntryValue::Inline(value) => OwnedValue::Inline(Bytes::copy_from_slice(value)),
                EntryValue::Pointer(pointer) => OwnedValue::Pointer(pointer),
            },
        });
        at = entry.next;
    }
    Ok(found)
}
