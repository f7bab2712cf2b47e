//! Writing a record file.

use super::external::External;
use super::frame::{RecordRef, frame_len};
use super::meta::RecordFileMeta;
use crate::base::file_header::{FileHeader, FileKind};
use crate::base::file_names;
use crate::base::keys::{FileNumber, Kind};
use crate::base::seeded::seeded;
use crate::error::{Error, Result};
use crate::key_table::{
    KeySectionBuilder, OutputFile, Properties, ReadCache, RecordFileRefs, RecordPointer, write_tail,
};
use crate::vfs::file_store::FileStore;
use bytes::Bytes;
use std::sync::Arc;

/// A streamed value is in memory this many bytes at a time.
const PIECE_BYTES: usize = 128 << 10;

/// Streams records into a new file. Where each stands is known when it is appended.
#[derive(Debug)]
pub(crate) struct RecordWriter {
    output: OutputFile,
    properties: Properties,
    /// What stands before the value in the current frame.
    head: Vec<u8>,
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
            properties: Properties::default(),
            head: Vec::new(),
        })
    }

    /// Appends a record and says where it stands. It is not readable before the file is finished.
    pub(crate) fn append(&mut self, record: &RecordRef<'_>) -> Result<RecordPointer> {
        self.append_frame(record).map(|(pointer, _)| pointer)
    }

    /// As [`RecordWriter::append`], and `cache` has the record at its new place, `is_wanted` if it
    /// will soon be asked for.
    pub(crate) fn append_cached(
        &mut self,
        record: &RecordRef<'_>,
        cache: &ReadCache,
        is_wanted: bool,
    ) -> Result<RecordPointer> {
        let (pointer, crc) = self.append_frame(record)?;
        let mut frame = Vec::with_capacity(record.frame_len() as usize);
        for part in [&self.head[..], record.value, &crc[..]] {
            frame.extend_from_slice(part);
        }
        cache.insert_record(pointer.file, pointer.offset, Bytes::from(frame), is_wanted);
        Ok(pointer)
    }

    fn append_frame(&mut self, record: &RecordRef<'_>) -> Result<(RecordPointer, [u8; 4])> {
        let (offset, uid) = (self.output.len(), self.output.uid());
        let crc = record
            .encode(&mut self.head, uid, offset)
            .ok_or_else(beyond_limits)?;
        self.output.append(&self.head)?;
        self.output.append(record.value)?;
        self.output.append(&crc)?;
        self.note(record)?;
        Ok((self.pointer(offset, record.frame_len() as u32), crc))
    }

    /// As [`RecordWriter::append`] for a value of `value_len` bytes that is never in memory whole:
    /// `fill` is asked for it piece by piece. `record.value` is not looked at.
    pub(crate) fn append_streamed(
        &mut self,
        record: &RecordRef<'_>,
        value_len: usize,
        mut fill: impl FnMut(&mut [u8]) -> Result<()>,
    ) -> Result<RecordPointer> {
        let (offset, uid) = (self.output.len(), self.output.uid());
        let head = record.encode_head(value_len, &mut self.head, uid, offset);
        let mut payload = head.ok_or_else(beyond_limits)?;
        self.output.append(&self.head)?;
        let mut piece = vec![0; PIECE_BYTES.min(value_len)];
        let mut left = value_len;
        while left > 0 {
            piece.truncate(left);
            fill(&mut piece)?;
            payload = payload.update(&piece);
            self.output.append(&piece)?;
            left -= piece.len();
        }
        self.output
            .append(&payload.bind(uid, offset).to_le_bytes())?;
        self.note(record)?;
        let len = frame_len(record.key.len(), value_len, record.expiry_ms.is_some()) as u32;
        Ok(self.pointer(offset, len))
    }

    fn pointer(&self, offset: u64, len: u32) -> RecordPointer {
        RecordPointer {
            file: self.output.number(),
            offset,
            len,
        }
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
        let key_section = section.is_some();
        let properties = write_tail(&mut output, section, self.properties)?;
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
            key_section,
            // Its own records are no others.
            refs: without(properties.refs, number),
            ingest_seq: None,
        })
    }

    /// Records come sorted from a flush and in any order from GC.
    fn note(&mut self, record: &RecordRef<'_>) -> Result<()> {
        let properties = &mut self.properties;
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
        properties.has_range_deletes |= record.kind == Kind::RangeDelete;
        if record.kind == Kind::External && !seeded!(LargeValuesUncounted) {
            let external = External::decode(record.value);
            let external = external.ok_or_else(beyond_limits)?;
            let RecordPointer { file, len, .. } = external.pointer;
            properties.add_ref(file, u64::from(len));
        }
        Ok(())
    }
}

fn without(mut refs: Vec<RecordFileRefs>, file: FileNumber) -> Vec<RecordFileRefs> {
    refs.retain(|refs| refs.file != file);
    refs
}

fn beyond_limits() -> Error {
    let what = "a key, value or sequence number exceeds the limits of the format";
    Error::invalid(what, "keep keys to 64 KiB and values to 1 GiB")
}
