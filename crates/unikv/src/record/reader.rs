//! Reading records of a listed file at random, through the read cache or past it.

mod expand;
pub(crate) mod parts;
mod range_tombstones;
mod sample;

use super::frame::{
    FRAME_HEADER_LEN, FrameHeader, FramePlace, MIN_FRAME_LEN, Record, StoredRecord,
};
use super::key_version::KeyVersion;
use super::meta::RecordFileMeta;
use crate::base::file_header::HEADER_LEN;
use crate::base::sync::OnceLock;
use crate::codec::{Codec, Dictionary};
use crate::error::{Error, Result};
use crate::key_table::read_terms;
use crate::key_table::{
    CachedFrame, FileFacts, KeyIter, KeySection, LONGEST_BUFFER, ReadBuffer, ReadCache,
    RecordPointer, STREAMED_BYTES, verify_file,
};
use crate::vfs::Access;
use crate::vfs::file_store::DataFile;
use bytes::Bytes;
use std::path::Path;
use std::sync::Arc;

/// Who keeps a record keeps at most this part more than it takes: to give less back costs the
/// allocator a get's time.
const MOST_SLACK_PART: usize = 16;

/// The header that begins `frame`, if its record is as long as `pointer` says.
fn decode_pointed_header(
    frame: &[u8],
    pointer: RecordPointer,
    place: &FramePlace<'_>,
) -> Result<FrameHeader> {
    let header = FrameHeader::decode(frame, place)?;
    if header.frame_len() != pointer.len as usize {
        return Err(place.corruption("the record has another length than its pointer"));
    }
    Ok(header)
}

/// A record file, open for reading. Opening it reads nothing.
#[derive(Debug)]
pub(crate) struct RecordFile {
    pub(super) meta: Arc<RecordFileMeta>,
    pub(super) file: Arc<DataFile>,
    pub(super) section: Option<Arc<KeySection>>,
    pub(super) cache: Arc<ReadCache>,
    /// What compressed values share, once one has been read.
    pub(super) dictionary: Arc<OnceLock<Arc<Dictionary>>>,
}

impl RecordFile {
    /// The same file, as one that has nothing but records.
    pub(super) fn without_section(&self) -> RecordFile {
        RecordFile {
            meta: Arc::clone(&self.meta),
            file: Arc::clone(&self.file),
            section: None,
            cache: Arc::clone(&self.cache),
            dictionary: Arc::clone(&self.dictionary),
        }
    }

    /// The file itself.
    pub(crate) fn data_file(&self) -> &DataFile {
        &self.file
    }

    /// What the manifest knows of it.
    pub(crate) fn meta(&self) -> &RecordFileMeta {
        &self.meta
    }

    /// Memory of the handle and of what is known of the file.
    pub(crate) fn memory_bytes(&self) -> usize {
        let keys = self.meta.min_key.capacity() + self.meta.max_key.capacity();
        let section = self.section.as_ref().map_or(0, |s| s.memory_bytes());
        // Twice: once more for who rebuilds the section.
        let own = 2 * size_of::<RecordFile>() + size_of::<RecordFileMeta>();
        // Counted before it is read. Versions share it, and of those the arbiter counts two.
        let dictionary = self.meta.compression.memory_bytes() / 2;
        let ranges = self
            .range_set_in_memory()
            .map_or(0, |set| set.memory_bytes());
        own + keys + section + dictionary + ranges + self.file.memory_bytes()
    }

    /// The record that `pointer` names: from the cache, or with one read.
    pub(crate) fn get(&self, pointer: RecordPointer) -> Result<Record> {
        if let Some(record) = self.cached(pointer) {
            return Ok(record);
        }
        read_terms::check_time()?;
        let record = self.read(pointer)?;
        self.keep(&record);
        Ok(record)
    }

    /// As [`RecordFile::get`], past the cache.
    pub(crate) fn read_uncached(&self, pointer: RecordPointer) -> Result<Record> {
        self.read(pointer)
    }

    /// The length of the value in the record that `pointer` names, of which the header is read.
    pub(crate) fn value_len(&self, pointer: RecordPointer) -> Result<usize> {
        self.check(pointer)?;
        let place = self.place(pointer.offset);
        let number = self.meta.number;
        let cached = self.cache.record(number, pointer.offset, |frame| {
            let header = FrameHeader::of_kept(frame.bytes(), &place)?;
            (header.frame_len() == pointer.len as usize).then_some(header)
        });
        let header = match cached {
            Some(header) => header,
            None => {
                let mut header = [0; FRAME_HEADER_LEN];
                self.file.read_exact_at(&mut header, pointer.offset)?;
                decode_pointed_header(&header, pointer, &place)?
            }
        };
        Ok(header.value_range().len())
    }

    /// What the record at `offset` says of `key`, nothing if it is of another one: from the cache,
    /// or as [`RecordFile::read_hinted`].
    pub(crate) fn version_at(
        &self,
        offset: u64,
        read_len: usize,
        key: &[u8],
    ) -> Result<Option<KeyVersion>> {
        let cached = self.cache.record(self.meta.number, offset, |frame| {
            KeyVersion::in_cache(&frame, key, &self.place(offset))
        });
        if let Some(found) = cached {
            return Ok(found);
        }
        read_terms::check_time()?;
        let record = self.read_hinted(offset, read_len)?;
        self.keep(&record);
        Ok(record.of_key(key))
    }

    /// The record at `offset`, with a read of `read_len` bytes if the caller's guess is good; else
    /// a second read fetches the rest.
    pub(crate) fn read_hinted(&self, offset: u64, read_len: usize) -> Result<Record> {
        let place = self.place(offset);
        let left = self.meta.records_end.saturating_sub(offset);
        if offset < HEADER_LEN as u64 || left < MIN_FRAME_LEN as u64 {
            return Err(place.corruption("there is no record at this offset"));
        }
        let first_len = (read_len.max(MIN_FRAME_LEN) as u64).min(left) as usize;
        let mut frame = vec![0; first_len];
        self.file.read_record_at(&mut frame, offset)?;
        let header = FrameHeader::decode(&frame, &place)?;
        if header.frame_len() > first_len && header.codec == Codec::Chunks {
            return self.read_chunked(offset, header, &frame);
        }
        if header.frame_len() > first_len {
            frame = self.read_rest(&frame, header.frame_len(), offset)?;
        }
        frame.truncate(header.frame_len());
        if frame.capacity() - frame.len() > frame.len() / MOST_SLACK_PART {
            frame.shrink_to_fit();
        }
        self.verified(Bytes::from(frame), header, &place)
    }

    /// Prefetches the records in `len` bytes from `offset` on: they are needed soon. A hint.
    pub(crate) fn prefetch(&self, offset: u64, len: u64) -> Result<()> {
        let end = offset.saturating_add(len).min(self.meta.records_end);
        if offset < end {
            self.file.will_need(offset, end - offset)?;
        }
        Ok(())
    }

    /// Prefetches the beginning of the record at `offset`, whose length is about `len`, unless it
    /// is in memory. Whether it did.
    pub(crate) fn prefetch_unless_present(&self, offset: u64, len: usize) -> Result<bool> {
        let left = self.meta.records_end.saturating_sub(offset);
        let len = (len.min(LONGEST_BUFFER) as u64).min(left);
        if len == 0 || self.cache.holds(self.meta.number, offset) {
            return Ok(false);
        }
        Ok(self.read_bytes_present(offset, len as usize)?.is_none())
    }

    /// An iterator over the key section. A file that is listed as a table and has none is damaged.
    pub(crate) fn keys(&self, access: Access) -> Result<KeyIter> {
        Ok(self.section()?.iter(access))
    }

    /// The key section of a file that is listed as a table.
    pub(crate) fn section(&self) -> Result<&Arc<KeySection>> {
        let missing = || {
            let what = "the file is listed as a table and has no key section";
            Error::corruption(self.path(), self.meta.records_end, what)
        };
        self.section.as_ref().ok_or_else(missing)
    }

    /// The facts about the file that stand in its footer and properties.
    pub(crate) fn facts(&self) -> Result<FileFacts> {
        FileFacts::read(&self.file, self.meta.len)
    }

    /// Reads the whole file and compares it with the checksum in the manifest.
    pub(crate) fn verify(&self) -> Result<()> {
        verify_file(&self.file, self.meta.len, self.meta.checksum)
    }

    /// Lets the file be removed when nobody reads it any more.
    pub(crate) fn mark_obsolete(&self) {
        self.file.mark_obsolete(self.meta.len);
    }

    /// The path of the file.
    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    /// What the frame at `offset` is bound to.
    pub(super) fn place(&self, offset: u64) -> FramePlace<'_> {
        let (uid, records_end) = (self.meta.uid, self.meta.records_end);
        FramePlace {
            path: self.file.path(),
            uid,
            offset,
            records_end,
            ingest_seq: self.meta.ingest_seq,
        }
    }

    /// Whether `pointer` lies within the records of this file.
    pub(super) fn check(&self, pointer: RecordPointer) -> Result<()> {
        let inside = pointer.offset >= HEADER_LEN as u64
            && pointer.len as usize >= MIN_FRAME_LEN
            && pointer
                .end()
                .is_some_and(|end| end <= self.meta.records_end);
        if pointer.file == self.meta.number && inside {
            return Ok(());
        }
        let what = "a key table points to where this file has no record";
        Err(Error::corruption(self.path(), pointer.offset, what))
    }

    /// The record in the frame that begins `frame`, if that is the one `pointer` means.
    pub(super) fn decode_pointed(&self, frame: Bytes, pointer: RecordPointer) -> Result<Record> {
        let place = self.place(pointer.offset);
        let header = decode_pointed_header(&frame, pointer, &place)?;
        self.verified(frame, header, &place)
    }

    /// As [`RecordFile::decode_pointed`], with the value as it is stored.
    pub(super) fn decode_stored(
        &self,
        frame: Bytes,
        pointer: RecordPointer,
    ) -> Result<StoredRecord> {
        let place = self.place(pointer.offset);
        let header = decode_pointed_header(&frame, pointer, &place)?;
        StoredRecord::verify(frame, header, &place)
    }

    /// Reads bytes of the records, which the caller has checked to be there.
    pub(super) fn read_bytes(&self, offset: u64, len: usize) -> Result<Bytes> {
        let mut bytes = vec![0; len];
        self.file.read_exact_at(&mut bytes, offset)?;
        Ok(Bytes::from(bytes))
    }

    /// Fills `piece` from `offset`, which the caller has checked to be within the records.
    pub(super) fn fill(&self, piece: &mut [u8], offset: u64) -> Result<()> {
        self.file.read_exact_at(piece, offset)
    }

    /// As [`RecordFile::read_bytes`] if the bytes are in memory; else prefetches them: they are
    /// needed.
    pub(super) fn read_bytes_present(&self, offset: u64, len: usize) -> Result<Option<ReadBuffer>> {
        let mut buffer = self.cache.buffer(len);
        let is_present = self.file.read_cached_at(buffer.bytes_mut(), offset)?;
        Ok(is_present.then_some(buffer))
    }

    /// As [`RecordFile::read_bytes`], into a buffer that is used again.
    pub(super) fn read_buffer(&self, offset: u64, len: usize) -> Result<ReadBuffer> {
        let mut buffer = self.cache.buffer(len);
        self.file.read_exact_at(buffer.bytes_mut(), offset)?;
        Ok(buffer)
    }

    /// Whether one more buffer may be shared.
    pub(super) fn may_share(&self) -> bool {
        self.cache.buffers().may_share()
    }

    /// Memory for bytes that are handed out.
    pub(super) fn buffer(&self, len: usize) -> ReadBuffer {
        self.cache.buffer(len)
    }

    /// Reads one record into a buffer of its own.
    pub(super) fn read(&self, pointer: RecordPointer) -> Result<Record> {
        self.check(pointer)?;
        if pointer.len >= STREAMED_BYTES {
            return self.read_long(pointer);
        }
        let mut frame = vec![0; pointer.len as usize];
        self.file.read_record_at(&mut frame, pointer.offset)?;
        self.decode_pointed(Bytes::from(frame), pointer)
    }

    /// The `len` bytes at `offset`, which begin with `first` and are all within the records.
    fn read_rest(&self, first: &[u8], len: usize, offset: u64) -> Result<Vec<u8>> {
        // Not `resize`: it could copy the slack of a reallocation, too.
        let mut whole = vec![0; len];
        let (known, rest) = whole.split_at_mut(first.len());
        known.copy_from_slice(first);
        self.file.read_exact_at(rest, offset + first.len() as u64)?;
        Ok(whole)
    }

    /// The record that `pointer` names, if it is in the cache.
    #[inline]
    fn cached(&self, pointer: RecordPointer) -> Option<Record> {
        if pointer.file != self.meta.number {
            return None;
        }
        let whole = |frame: CachedFrame<'_>| frame.part(0..frame.bytes().len());
        let frame = self.cache.record(pointer.file, pointer.offset, whole)?;
        let record = Record::from_cache(frame, &self.place(pointer.offset))?;
        (record.frame_len() == pointer.len as usize).then_some(record)
    }

    /// Offers the cache a record whose buffer is its own.
    fn keep(&self, record: &Record) {
        self.cache
            .offer_record(self.meta.number, record.offset(), record.frame());
    }
}

/// A header and the least after it fit into the first read of a stream.
const _: () = assert!(FRAME_HEADER_LEN < MIN_FRAME_LEN);
