//! Facts about a file that stand in the file itself, so that a lost manifest entry can be rebuilt.
//!
//! A sequence of fields ⟨tag, length, bytes⟩ and a checksum; a reader skips tags it does not know.
//! See `docs/format.md`, "Properties".

use super::expiring::Expiring;
use super::footer::Footer;
use super::outliers::Outliers;
use super::refs::RecordFileRefs;
use crate::base::checksum::bound;
use crate::base::coding::{Decoder, put_prefixed, put_varint};
use crate::base::keys::{FileNumber, FileUid, SeqNo};
use crate::codec::{Codecs, Dictionary, DictionaryPlace, FileCompression};
use crate::error::{Error, Result};
use crate::key_table::builder::newest::{Newest, NewestNumbers};
use crate::key_table::range_section::RangeSection;
use crate::vfs::file_store::DataFile;

const RECORD_COUNT: u64 = 1;
const ENTRY_COUNT: u64 = 2;
const MIN_KEY: u64 = 3;
const MAX_KEY: u64 = 4;
const SEQS: u64 = 5;
const EXPIRY: u64 = 6;
const RANGE_DELETES: u64 = 7;
const REFS: u64 = 8;
const INLINE_BYTES: u64 = 9;
const OLDER_BYTES: u64 = 10;
const NEWEST: u64 = 11;
const OUTLIERS: u64 = 12;
const COMPRESSION: u64 = 13;
const DICTIONARY: u64 = 14;
const RANGES: u64 = 15;
const EXPIRING: u64 = 16;

/// The properties of a record file or a key table, gathered while it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Properties {
    /// Frames before the key section, but range tombstones.
    pub(crate) records: u64,
    /// Entries in the key section.
    pub(crate) entries: u64,
    pub(crate) min_key: Vec<u8>,
    pub(crate) max_key: Vec<u8>,
    /// The least and greatest sequence number; `None` while there is nothing.
    pub(crate) seqs: Option<(SeqNo, SeqNo)>,
    /// The earliest and the latest expiry.
    pub(crate) expiry: Option<(u64, u64)>,
    pub(crate) has_range_deletes: bool,
    /// Sorted by file.
    pub(crate) refs: Vec<RecordFileRefs>,
    pub(crate) inline_bytes: u64,
    /// Bytes of what all but the newest version of each key keep: records and inline values.
    pub(crate) older_bytes: u64,
    /// `None`: unknown.
    pub(crate) newest: Option<Newest>,
    pub(crate) outliers: Outliers,
    /// Where the range tombstones stand, if there are any.
    pub(crate) ranges: Option<RangeSection>,
    /// Of a key table: when how much of it expires.
    pub(crate) expiring: Expiring,
    /// How values are stored, of a file with records; else how blocks are.
    pub(crate) compression: FileCompression,
    /// What the values share, where it is to be written.
    dictionary: Vec<u8>,
}

impl Properties {
    /// Widens the sequence bounds.
    pub(crate) fn add_seq(&mut self, seq: SeqNo) {
        let (min, max) = self.seqs.unwrap_or((seq, seq));
        self.seqs = Some((min.min(seq), max.max(seq)));
    }

    /// Widens the expiry bounds.
    pub(crate) fn add_expiry(&mut self, expiry_ms: Option<u64>) {
        if let Some(ms) = expiry_ms {
            let (min, max) = self.expiry.unwrap_or((ms, ms));
            self.expiry = Some((min.min(ms), max.max(ms)));
        }
    }

    /// Counts a frame that a pointer keeps alive.
    pub(crate) fn add_ref(&mut self, file: FileNumber, bytes: u64) {
        let count = 1;
        self.add_refs(RecordFileRefs { file, count, bytes });
    }

    /// Counts frames of one file that pointers keep alive.
    pub(crate) fn add_refs(&mut self, more: RecordFileRefs) {
        match self.refs.binary_search_by_key(&more.file, |refs| refs.file) {
            Ok(i) => {
                self.refs[i].count += more.count;
                self.refs[i].bytes += more.bytes;
            }
            Err(i) => self.refs.insert(i, more),
        }
    }

    /// Has these bytes written as the dictionary of the values.
    pub(crate) fn set_dictionary(&mut self, bytes: &[u8]) {
        self.dictionary = bytes.to_vec();
    }

    /// The least sequence number, 0 if there is nothing.
    pub(crate) fn min_seq(&self) -> SeqNo {
        self.seqs.map_or(SeqNo(0), |seqs| seqs.0)
    }

    /// The greatest sequence number, 0 if there is nothing.
    pub(crate) fn max_seq(&self) -> SeqNo {
        self.seqs.map_or(SeqNo(0), |seqs| seqs.1)
    }

    /// The bytes of the properties at `offset` of the file `uid`. From then on they say where the
    /// dictionary stands.
    pub(crate) fn encode(&mut self, uid: FileUid, offset: u64) -> Vec<u8> {
        let mut out = Vec::new();
        put_number(&mut out, RECORD_COUNT, self.records);
        put_number(&mut out, ENTRY_COUNT, self.entries);
        put_field(&mut out, MIN_KEY, &self.min_key);
        put_field(&mut out, MAX_KEY, &self.max_key);
        if let Some((min, max)) = self.seqs {
            put_numbers(&mut out, SEQS, &[min.0, max.0]);
        }
        if let Some((min, max)) = self.expiry {
            put_numbers(&mut out, EXPIRY, &[min, max]);
        }
        put_number(&mut out, RANGE_DELETES, u64::from(self.has_range_deletes));
        let refs = self
            .refs
            .iter()
            .flat_map(|refs| [refs.file.0, refs.count, refs.bytes]);
        put_numbers(&mut out, REFS, &refs.collect::<Vec<_>>());
        put_number(&mut out, INLINE_BYTES, self.inline_bytes);
        if self.older_bytes > 0 {
            put_number(&mut out, OLDER_BYTES, self.older_bytes);
        }
        if let Some(newest) = self.newest {
            put_numbers(&mut out, NEWEST, &NewestNumbers::from(newest));
        }
        if !self.outliers.is_empty() {
            put_field(&mut out, OUTLIERS, &self.outliers.encode());
        }
        if let Some(ranges) = &self.ranges {
            put_field(&mut out, RANGES, &ranges.encode());
        }
        if !self.expiring.is_empty() {
            put_field(&mut out, EXPIRING, &self.expiring.encode());
        }
        let compression = &mut self.compression;
        if !compression.codecs.is_empty() {
            let level = u64::from(compression.level as u8);
            let numbers = [compression.codecs.bits(), level, compression.saved_bytes];
            put_numbers(&mut out, COMPRESSION, &numbers);
        }
        let dictionary = std::mem::take(&mut self.dictionary);
        if !dictionary.is_empty() {
            put_field(&mut out, DICTIONARY, &dictionary);
            compression.dictionary = Some(DictionaryPlace {
                offset: offset + (out.len() - dictionary.len()) as u64,
                len: dictionary.len() as u32,
                hash: Dictionary::hash_of(&dictionary),
            });
        }
        let crc = bound(uid, offset, &out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    /// Decodes and checks the properties that stand at `offset` of the file `uid`.
    fn decode(
        bytes: &[u8],
        uid: FileUid,
        offset: u64,
    ) -> std::result::Result<Properties, &'static str> {
        let (body, crc) = bytes
            .split_last_chunk::<4>()
            .ok_or("the properties are too short")?;
        if u32::from_le_bytes(*crc) != bound(uid, offset, body) {
            return Err("the properties' checksum does not match");
        }
        Properties::decode_fields(body, offset).ok_or("the properties are malformed")
    }

    fn decode_fields(body: &[u8], offset: u64) -> Option<Properties> {
        let mut properties = Properties::default();
        let mut d = Decoder::new(body);
        while !d.is_empty() {
            let tag = d.varint()?;
            let mut field = Decoder::new(d.prefixed()?);
            match tag {
                RECORD_COUNT => properties.records = field.varint()?,
                ENTRY_COUNT => properties.entries = field.varint()?,
                MIN_KEY => properties.min_key = field.bytes(field.remaining())?.to_vec(),
                MAX_KEY => properties.max_key = field.bytes(field.remaining())?.to_vec(),
                SEQS => properties.seqs = Some((SeqNo(field.varint()?), SeqNo(field.varint()?))),
                EXPIRY => properties.expiry = Some((field.varint()?, field.varint()?)),
                RANGE_DELETES => properties.has_range_deletes = field.varint()? != 0,
                REFS => {
                    while !field.is_empty() {
                        let file = FileNumber(field.varint()?);
                        let (count, bytes) = (field.varint()?, field.varint()?);
                        properties.refs.push(RecordFileRefs { file, count, bytes });
                    }
                }
                INLINE_BYTES => properties.inline_bytes = field.varint()?,
                OLDER_BYTES => properties.older_bytes = field.varint()?,
                NEWEST => {
                    let mut numbers = NewestNumbers::default();
                    for number in &mut numbers {
                        *number = field.varint()?;
                    }
                    properties.newest = Some(numbers.into());
                }
                OUTLIERS => properties.outliers = Outliers::decode(&mut field)?,
                RANGES => {
                    let bytes = field.bytes(field.remaining())?;
                    properties.ranges = Some(RangeSection::decode(bytes)?);
                }
                EXPIRING => {
                    properties.expiring = Expiring::decode(field.bytes(field.remaining())?)?;
                }
                COMPRESSION => {
                    properties.compression.codecs = Codecs::of_file(field.varint()?);
                    properties.compression.level = field.varint()? as u8 as i8;
                    properties.compression.saved_bytes = field.varint()?;
                }
                DICTIONARY => {
                    let bytes = field.bytes(field.remaining())?;
                    properties.compression.dictionary = Some(DictionaryPlace {
                        offset: offset + (body.len() - d.remaining() - bytes.len()) as u64,
                        len: u32::try_from(bytes.len()).ok()?,
                        hash: Dictionary::hash_of(bytes),
                    });
                }
                _ => {}
            }
        }
        Some(properties)
    }
}

/// What a file says of itself, after its records and keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileFacts {
    /// Where the records end.
    pub(crate) records_end: u64,
    /// Whether there is a key section, be it an empty one.
    pub(crate) has_key_section: bool,
    pub(crate) properties: Properties,
}

impl FileFacts {
    /// Reads the facts of a file of `file_len` bytes.
    pub(crate) fn read(file: &DataFile, file_len: u64) -> Result<FileFacts> {
        let footer = Footer::read(file, file_len)?;
        let offset = footer.index_offset() + footer.index_len;
        // The footer's parts fill the file exactly, so this allocates no more than the file has.
        let mut bytes = vec![0; footer.properties_len as usize];
        file.read_exact_at(&mut bytes, offset)?;
        let properties = Properties::decode(&bytes, file.uid(), offset)
            .map_err(|what| Error::corruption(file.path(), offset, what))?;
        Ok(FileFacts {
            records_end: footer.records_end,
            has_key_section: footer.has_key_section(),
            properties,
        })
    }
}

fn put_field(out: &mut Vec<u8>, tag: u64, bytes: &[u8]) {
    put_varint(out, tag);
    put_prefixed(out, bytes);
}

fn put_number(out: &mut Vec<u8>, tag: u64, number: u64) {
    put_numbers(out, tag, &[number]);
}

fn put_numbers(out: &mut Vec<u8>, tag: u64, numbers: &[u64]) {
    let mut field = Vec::new();
    for &number in numbers {
        put_varint(&mut field, number);
    }
    put_field(out, tag, &field);
}
