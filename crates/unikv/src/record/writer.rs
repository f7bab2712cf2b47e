//! Writing a record file.

use super::chunks::shape::{ChunkShape, MOST_BITS};
use super::external::External;
use super::frame::{CRC_LEN, RecordRef, StoredAs, StoredRecord, frame_len};
use super::meta::RecordFileMeta;
use super::stream::value_reader::ValueReader;
use crate::base::checksum::Crc;
use crate::base::file_header::{CHUNKED_VALUES, FileHeader, FileKind};
use crate::base::file_names;
use crate::base::keys::{FileNumber, Kind};
use crate::base::range_tombstones::RangeRef;
use crate::base::seeded::seeded;
use crate::codec::{Codec, Compression, Dictionary, DictionaryPlace, Encoder, FileCompression};
use crate::error::{Error, Result};
use crate::key_table::range_section::RangeSection;
use crate::key_table::{
    KeySectionBuilder, OutputFile, Properties, ReadCache, RecordFileRefs, RecordPointer,
    STREAMED_BYTES, write_tail,
};
use crate::vfs::file_store::FileStore;
use bytes::Bytes;
use std::sync::Arc;

/// A streamed value is in memory this many bytes at a time.
const PIECE_BYTES: usize = 128 << 10;

/// Streams records into a new file. Where each stands is known when it is appended.
#[derive(Debug)]
pub(crate) struct RecordWriter {
    pub(super) output: OutputFile,
    header: FileHeader,
    properties: Properties,
    /// What stands before the value in the current frame.
    pub(super) head: Vec<u8>,
    encoder: Encoder,
    pub(super) compression: FileCompression,
    /// Large values are cut into chunks of this power of two.
    pub(super) chunk_bits: u8,
    /// Of chunks, which have no dictionary.
    pub(super) chunk_encoder: Option<Encoder>,
}

impl RecordWriter {
    /// Creates the record file `number`.
    pub(crate) fn create(
        store: &Arc<FileStore>,
        number: FileNumber,
        size_hint: u64,
    ) -> Result<RecordWriter> {
        let header = OutputFile::header(store, FileKind::Record, number);
        RecordWriter::with_header(store, header, size_hint)
    }

    pub(super) fn with_header(
        store: &FileStore,
        header: FileHeader,
        size_hint: u64,
    ) -> Result<RecordWriter> {
        let name = file_names::record(header.number);
        let output = OutputFile::create(store, &name, header, size_hint)?;
        Ok(RecordWriter {
            output,
            header,
            properties: Properties::default(),
            head: Vec::new(),
            encoder: Encoder::new(None),
            compression: FileCompression::default(),
            chunk_bits: MOST_BITS,
            chunk_encoder: None,
        })
    }

    /// The same, with a dictionary for the values that are compressed with Zstandard.
    pub(crate) fn with_dictionary(mut self, dictionary: Option<Arc<Dictionary>>) -> RecordWriter {
        self.encoder = Encoder::new(dictionary);
        self
    }

    /// Appends a record as it is, a large value in chunks, and says where it stands. It is not
    /// readable before the file is finished.
    #[cfg(test)]
    pub(crate) fn append(&mut self, record: &RecordRef<'_>) -> Result<RecordPointer> {
        self.append_as(record, Compression::None)
    }

    /// Appends a record, whose value is compressed if that shrinks it and cut into chunks if it is
    /// large, and says where it stands. It is not readable before the file is finished.
    pub(crate) fn append_as(
        &mut self,
        record: &RecordRef<'_>,
        compression: Compression,
    ) -> Result<RecordPointer> {
        if record.kind == Kind::Put && ChunkShape::is_worth_it(record.value.len(), self.chunk_bits)
        {
            return self.append_chunked(record, compression);
        }
        // What stands for a large value is short, and long values are copied piece by piece.
        let is_fit = record.kind == Kind::Put && record.frame_len() < u64::from(STREAMED_BYTES);
        let compression = if is_fit {
            compression
        } else {
            Compression::None
        };
        let value = record.value;
        let (stored_as, stored) = match self.encoder.encode(value, compression) {
            None => (StoredAs::raw(value.len()), value),
            Some((codec, stored)) => {
                let stored_as = StoredAs {
                    codec,
                    stored_len: stored.len(),
                    raw_len: value.len(),
                    chunk_bits: 0,
                };
                (stored_as, stored)
            }
        };
        let pointer = append(&mut self.output, &mut self.head, record, stored_as, stored)?;
        self.note_stored(stored_as, compression.level());
        self.note(record)?;
        Ok(pointer)
    }

    /// Has `cache` keep `record`, which was appended last, at its new place, `is_wanted` if it will
    /// soon be asked for.
    pub(crate) fn keep_last(
        &self,
        record: &RecordRef<'_>,
        pointer: RecordPointer,
        cache: &ReadCache,
        is_wanted: bool,
    ) {
        let mut frame = Vec::with_capacity(record.frame_len() as usize);
        // Nobody compares the checksum of what is kept.
        for part in [&self.head[..], record.value, &[0; CRC_LEN]] {
            frame.extend_from_slice(part);
        }
        cache.insert_record(pointer.file, pointer.offset, Bytes::from(frame), is_wanted);
    }

    /// Appends a record with the value of another one, in the form that it has there, where
    /// `source` says at which level it was compressed and with which dictionary. `None` if it is
    /// not the form that `compression` asks for.
    pub(crate) fn append_copy(
        &mut self,
        record: &RecordRef<'_>,
        value: &StoredRecord,
        source: &FileCompression,
        compression: Compression,
    ) -> Result<Option<RecordPointer>> {
        let stored_as = value.stored_as();
        if !self.takes(stored_as, source, compression) {
            return Ok(None);
        }
        let (output, head) = (&mut self.output, &mut self.head);
        let pointer = append(output, head, record, stored_as, value.stored_value())?;
        self.note_stored(stored_as, source.level);
        self.note(record)?;
        Ok(Some(pointer))
    }

    /// Whether values that are stored so need not be compressed again.
    fn takes(
        &self,
        stored_as: StoredAs,
        source: &FileCompression,
        compression: Compression,
    ) -> bool {
        let wanted = self.encoder.codec_for(stored_as.raw_len, compression);
        let has_dictionary = |place: DictionaryPlace| {
            let own = self.encoder.dictionary();
            own.is_some_and(|own| own.hash() == place.hash)
        };
        stored_as.codec == wanted
            && source.level >= compression.level()
            && match wanted {
                Codec::ZstdWithDictionary => source.dictionary.is_some_and(has_dictionary),
                _ => true,
            }
    }

    /// As [`RecordWriter::append_copy`] for a value that is never in memory whole and keeps its
    /// form, whatever that is. `record.value` is not looked at; `goes_on` is asked for each piece.
    pub(crate) fn append_streamed(
        &mut self,
        record: &RecordRef<'_>,
        value: &mut ValueReader,
        source: &FileCompression,
        mut goes_on: impl FnMut() -> Result<()>,
    ) -> Result<RecordPointer> {
        let stored_as = value.stored_as();
        if stored_as.codec == Codec::Chunks {
            return self.copy_chunks(record, value, source, goes_on);
        }
        let value_len = stored_as.stored_len;
        let (offset, mut payload) = self.begin_frame(record, stored_as)?;
        let mut piece = vec![0; PIECE_BYTES.min(value_len)];
        let mut left = value_len;
        while left > 0 {
            piece.truncate(left);
            goes_on()?;
            value.read(&mut piece)?;
            payload = payload.update(&piece);
            self.output.append(&piece)?;
            left -= piece.len();
        }
        let checksum = payload.bind(self.output.uid(), offset);
        self.output.append(&checksum.to_le_bytes())?;
        self.note_stored(stored_as, source.level);
        self.note(record)?;
        let len = frame_len(record.key.len(), value_len, record.expiry_ms.is_some()) as u32;
        let file = self.output.number();
        Ok(RecordPointer { file, offset, len })
    }

    fn note_stored(&mut self, stored_as: StoredAs, level: i8) {
        let StoredAs {
            codec,
            stored_len,
            raw_len,
            ..
        } = stored_as;
        self.compression.note(codec, level, raw_len, stored_len);
    }

    /// The bytes written so far.
    pub(crate) fn len(&self) -> u64 {
        self.output.len()
    }

    /// Writes the key section, if there is one, and the footer, and makes the file's bytes durable.
    /// The caller syncs the directory before it lists the file.
    pub(crate) fn finish(self, section: Option<KeySectionBuilder>) -> Result<RecordFileMeta> {
        let mut output = self.output;
        let (number, uid, records_end) = (output.number(), output.uid(), output.len());
        if self.compression.codecs.holds(Codec::Chunks) {
            let required = self.header.required | CHUNKED_VALUES;
            let header = FileHeader {
                required,
                ..self.header
            };
            output.replace(0, &self.header.encode(), &header.encode())?;
        }
        let key_section = section.is_some();
        let mut properties = self.properties;
        properties.compression = self.compression;
        // One that no value needed is left out.
        let uses_one = self.compression.codecs.holds(Codec::ZstdWithDictionary);
        if let Some(dictionary) = self.encoder.dictionary().filter(|_| uses_one) {
            properties.set_dictionary(dictionary.bytes());
        }
        let properties = write_tail(&mut output, section, properties)?;
        let (len, checksum) = output.finish()?;
        Ok(RecordFileMeta {
            number,
            uid,
            len,
            records_end,
            count: properties.records,
            min_seq: properties.min_seq(),
            max_seq: properties.max_seq(),
            min_key: properties.min_key,
            max_key: properties.max_key,
            checksum,
            expiry: properties.expiry,
            has_range_deletes: properties.has_range_deletes,
            ranges: properties.ranges,
            key_section,
            // Its own records are no others.
            refs: without(properties.refs, number),
            ingest_seq: None,
            compression: properties.compression,
        })
    }

    /// Appends a range tombstone. Records come before all of them.
    pub(crate) fn append_range(&mut self, tombstone: RangeRef<'_>) -> Result<()> {
        let record = RecordRef {
            key: tombstone.start,
            seq: tombstone.seq,
            kind: Kind::RangeDelete,
            value: tombstone.end,
            expiry_ms: None,
            host_type: 0,
            older_follows: false,
        };
        let offset = self.output.len();
        let stored_as = StoredAs::raw(record.value.len());
        let (output, head) = (&mut self.output, &mut self.head);
        append(output, head, &record, stored_as, record.value)?;
        let properties = &mut self.properties;
        properties.has_range_deletes = true;
        properties.add_seq(tombstone.seq);
        let ranges = &mut properties.ranges;
        let ranges = ranges.get_or_insert_with(|| RangeSection::begin(offset));
        ranges.add(tombstone);
        Ok(())
    }

    /// Appends what stands before the value. Returns where the frame begins, and the checksum of
    /// its payload so far.
    pub(super) fn begin_frame(
        &mut self,
        record: &RecordRef<'_>,
        stored_as: StoredAs,
    ) -> Result<(u64, Crc)> {
        begin_frame(&mut self.output, &mut self.head, record, stored_as)
    }

    /// Records come sorted from a flush and in any order from GC.
    pub(super) fn note(&mut self, record: &RecordRef<'_>) -> Result<()> {
        let properties = &mut self.properties;
        debug_assert!(properties.ranges.is_none(), "range tombstones come last");
        if properties.records == 0 || record.key < &properties.min_key[..] {
            properties.min_key.clear();
            properties.min_key.extend_from_slice(record.key);
        }
        if properties.records == 0 || record.key > &properties.max_key[..] {
            properties.max_key.clear();
            properties.max_key.extend_from_slice(record.key);
        }
        properties.records += 1;
        properties.add_seq(record.seq);
        properties.add_expiry(record.expiry_ms);
        if record.kind == Kind::External && !seeded!(LargeValuesUncounted) {
            let external = External::decode(record.value);
            let external = external.ok_or_else(beyond_limits)?;
            let RecordPointer { file, len, .. } = external.pointer;
            properties.add_ref(file, u64::from(len));
        }
        Ok(())
    }
}

/// Appends a frame whose value comes `stored` so.
fn append(
    output: &mut OutputFile,
    head: &mut Vec<u8>,
    record: &RecordRef<'_>,
    stored_as: StoredAs,
    stored: &[u8],
) -> Result<RecordPointer> {
    let (offset, payload) = begin_frame(output, head, record, stored_as)?;
    let crc = payload.update(stored).bind(output.uid(), offset);
    output.append(stored)?;
    output.append(&crc.to_le_bytes())?;
    let len = frame_len(record.key.len(), stored.len(), record.expiry_ms.is_some());
    let file = output.number();
    let len = len as u32;
    Ok(RecordPointer { file, offset, len })
}

fn begin_frame(
    output: &mut OutputFile,
    head: &mut Vec<u8>,
    record: &RecordRef<'_>,
    stored_as: StoredAs,
) -> Result<(u64, Crc)> {
    let offset = output.len();
    let payload = record.encode_head(stored_as, head, output.uid(), offset);
    let payload = payload.ok_or_else(beyond_limits)?;
    output.append(head)?;
    Ok((offset, payload))
}

fn without(mut refs: Vec<RecordFileRefs>, file: FileNumber) -> Vec<RecordFileRefs> {
    refs.retain(|refs| refs.file != file);
    refs
}

pub(super) fn beyond_limits() -> Error {
    let what = "a key, value or sequence number exceeds the limits of the format";
    Error::invalid(what, "keep keys to 64 KiB and values to 1 GiB")
}
