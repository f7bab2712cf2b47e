//! The parts of a record file and of a key table.

use super::{Part, Walk, key_text, ranges_text};
use crate::base::file_header::{FileKind, RawHeader};
use crate::codec::{Codec, DictionaryPlace, FileCompression};
use crate::error::{ErrorKind, Result};
use crate::key_table::OwnedValue;
use crate::key_table::block::walk;
use crate::key_table::block::walk::{BlockWalk, SectionParts, WalkedBlock};
use crate::record::walk::{FrameWalk, Walked};
use crate::vfs::Access;
use crate::vfs::file_store::{DataFile, FileStore};
use std::path::Path;

impl Walk<'_> {
    pub(super) fn table(&mut self, raw: &RawHeader) -> Result<()> {
        // The store is only a way to the file: no other file of the directory is touched.
        let dir = self.path.parent().unwrap_or(Path::new(""));
        let store = FileStore::new(self.env.clone(), dir.to_owned(), raw.database, 1);
        let path = self.path.to_owned();
        let file = store.data_file(path, raw.number, raw.uid, Access::Sequential);
        let parts = match walk::parts(&file, self.len) {
            Ok(parts) => Some(parts),
            Err(error) if error.kind() == ErrorKind::Corruption => {
                let offset = error.offset().unwrap_or(0);
                self.show(&Part::new("footer", offset, 0).faulty(error));
                None
            }
            Err(error) => return Err(error),
        };
        let records_end = parts.map_or(self.len, |parts| parts.records_end);
        if parts.is_none() && self.kind == FileKind::KeyTable {
            // Without its footer nothing says where a block begins.
            return Ok(());
        }
        self.frames(&file, records_end)?;
        match parts {
            Some(parts) => self.section(&file, &parts),
            None => Ok(()),
        }
    }

    fn frames(&mut self, file: &DataFile, end: u64) -> Result<()> {
        let mut frames = FrameWalk::new(file, end);
        while let Some(walked) = frames.next()? {
            self.show(&frame(walked));
        }
        Ok(())
    }

    fn section(&mut self, file: &DataFile, parts: &SectionParts) -> Result<()> {
        if parts.has_key_section {
            match BlockWalk::open(file, self.len) {
                Ok(blocks) => self.blocks(&blocks, parts)?,
                Err(error) if error.kind() == ErrorKind::Corruption => {
                    let part = Part::new("index", parts.index_offset, parts.index_len);
                    self.show(&part.faulty(error));
                }
                Err(error) => return Err(error),
            }
        }
        let mut dictionary = None;
        let part = Part::new("properties", parts.properties_offset, parts.properties_len);
        let part = match walk::facts(file, self.len) {
            Ok(facts) => {
                let found = &facts.properties;
                let seqs = (found.min_seq().0, found.max_seq().0);
                let refs = found.refs.iter().map(|refs| {
                    format!(
                        "{}: {} records, {} bytes",
                        refs.file.0, refs.count, refs.bytes
                    )
                });
                dictionary = found.compression.dictionary;
                let part = compression(part, &found.compression, self.len);
                let part = match &found.ranges {
                    Some(ranges) => part.field("range deletes", ranges_text(ranges)),
                    None => part,
                };
                part.field("records", found.records)
                    .field("entries", found.entries)
                    .field("from", key_text(&found.min_key))
                    .field("to", key_text(&found.max_key))
                    .field("sequence numbers", format!("{} to {}", seqs.0, seqs.1))
                    .field("inline bytes", found.inline_bytes)
                    .field(
                        "points to",
                        format!("[{}]", refs.collect::<Vec<_>>().join("; ")),
                    )
                    .field("checksum", "right")
            }
            Err(error) => part.faulty(error),
        };
        self.show(&part);
        if let Some(DictionaryPlace { offset, len, .. }) = dictionary {
            let part = Part::new("dictionary", offset, len.into());
            self.show(&part.field("checksum", "right").within());
        }
        let part = Part::new("footer", parts.footer_offset, parts.footer_len)
            .field("records end", parts.records_end)
            .field("bytes of blocks", parts.blocks_len)
            .field("bytes of the index", parts.index_len)
            .field("bytes of properties", parts.properties_len)
            .field("checksum", "right");
        self.show(&part);
        Ok(())
    }

    fn blocks(&mut self, blocks: &BlockWalk<'_>, parts: &SectionParts) -> Result<()> {
        let mut i = 0;
        while let Some(block) = blocks.block(i)? {
            self.block(block);
            i += 1;
        }
        let part = Part::new("index", parts.index_offset, parts.index_len);
        let part = part.field("blocks", blocks.len());
        self.show(&part.field("checksum", "right"));
        Ok(())
    }

    fn block(&mut self, block: WalkedBlock) {
        let part = Part::new("block", block.offset, block.len);
        let fence = block.fence.as_slice();
        let part = if fence.is_empty() {
            part.field("fence", "none")
        } else {
            part.field("fence", key_text(fence))
        };
        let entries = match block.entries {
            Ok(entries) => entries,
            Err(reason) => return self.show(&part.faulty(reason)),
        };
        let part = part.field("entries", entries.len());
        self.show(&part.field("checksum", "right"));
        for entry in entries {
            let mut part = Part::new("entry", block.offset, 0)
                .field("key", key_text(&entry.key))
                .field("sequence number", entry.seq.0)
                .field("kind", format!("{:?}", entry.kind).to_lowercase())
                .field("value", value_text(&entry.value));
            if let Some(ms) = entry.expiry_ms {
                part = part.field("expires", ms);
            }
            self.show(&part.within());
        }
    }
}

/// Says with what a file of `len` bytes is compressed, if it is.
pub(super) fn compression(part: Part, compression: &FileCompression, len: u64) -> Part {
    if compression.codecs.is_empty() {
        return part;
    }
    let ratio = (len + compression.saved_bytes) as f64 / len.max(1) as f64;
    part.field("compressed with", compression.codecs)
        .field("least level", compression.level)
        .field("compression ratio", format!("{ratio:.2}"))
}

fn value_text(value: &OwnedValue) -> String {
    match value {
        OwnedValue::None => "none".to_owned(),
        OwnedValue::Inline(value) => format!("{} bytes here", value.len()),
        OwnedValue::Pointer(p) => format!("file {} at {}, {} bytes", p.file.0, p.offset, p.len),
    }
}

fn frame(walked: Walked) -> Part {
    let Some(frame) = walked.frame else {
        let part = Part::new("no record", walked.offset, walked.len);
        return part.faulty(walked.fault.unwrap_or_default());
    };
    let part = match &frame.range {
        Some(range) => Part::new("range delete", walked.offset, walked.len)
            .field("from", key_text(&range.start))
            .field("to before", key_text(&range.end))
            .field("sequence number", frame.seq.0),
        None => Part::new("record", walked.offset, walked.len)
            .field("key", key_text(&frame.key))
            .field("sequence number", frame.seq.0)
            .field("kind", format!("{:?}", frame.kind).to_lowercase())
            .field("value", format!("{} bytes", frame.value_len)),
    };
    let part = match frame.codec {
        Codec::None => part,
        codec => part.field("stored as", format!("{} bytes, {codec}", frame.stored_len)),
    };
    match walked.fault {
        None => part.field("checksum", "right"),
        Some(fault) => part.faulty(fault),
    }
}
