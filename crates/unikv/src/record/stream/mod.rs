//! Reading a record file from front to back, for jobs.

mod memory;
pub(crate) mod value_reader;

use super::frame::{FRAME_HEADER_LEN, FrameHeader, Record, StoredRecord};
use super::reader::RecordFile;
use crate::base::file_header::HEADER_LEN;
use crate::base::keys::{Kind, SeqNo};
use crate::codec::Codec;
use crate::error::Result;
use crate::key_table::{RecordPointer, STREAMED_BYTES};
use crate::record::stream::memory::StreamMemory;
use crate::record::stream::value_reader::ValueReader;
use bytes::Bytes;
use std::sync::Arc;

/// How much is read at a time, at least and at most; a longer frame is read whole.
const LEAST_BUFFER_BYTES: usize = 4 << 10;
const BUFFER_BYTES: usize = 256 << 10;

/// A front-to-back reader. Its records share its memory.
#[derive(Debug)]
pub(crate) struct RecordStream {
    file: Arc<RecordFile>,
    buffer_bytes: usize,
    memory: StreamMemory,
    buffer: Bytes,
    /// Where `buffer` stands in the file.
    buffer_offset: u64,
    /// Where the next record begins.
    position: u64,
    /// Where `next` ends.
    end: u64,
}

/// A record that was verified whole, and what is kept of it.
#[derive(Clone, Debug)]
pub(crate) struct RecordHead {
    /// The keyspace id and the user's key.
    pub(crate) key: Bytes,
    pub(crate) seq: SeqNo,
    pub(crate) kind: Kind,
    pub(crate) expiry_ms: Option<u64>,
    /// Where its frame begins.
    pub(crate) offset: u64,
    pub(crate) frame_len: u32,
    /// `None`: it is large.
    pub(crate) value: Option<Bytes>,
}

impl RecordFile {
    /// Reads the file from front to back, without range tombstones.
    pub(crate) fn stream(self: &Arc<Self>) -> RecordStream {
        let end = self.meta().plain_end();
        RecordStream::new(Arc::clone(self), HEADER_LEN as u64, end)
    }

    /// A stream with a buffer of about `buffer` bytes for a job that reads, from `offset` on, the
    /// `share` bytes that one of many has of the file. It takes no more than these; what lies
    /// around them is prefetched, because the job goes on to the neighbours.
    pub(crate) fn stream_of_share(
        self: &Arc<Self>,
        share: u64,
        offset: u64,
        buffer: usize,
    ) -> Result<RecordStream> {
        let share = usize::try_from(share).unwrap_or(usize::MAX);
        if share < buffer.min(BUFFER_BYTES) {
            let window = BUFFER_BYTES as u64;
            self.prefetch(offset - offset % window, window)?;
        }
        Ok(self.stream().reading(buffer.min(share)))
    }

    /// Reads the records from the one at `offset` on.
    pub(super) fn stream_from(self: &Arc<Self>, offset: u64) -> RecordStream {
        RecordStream::new(Arc::clone(self), offset, self.meta().records_end)
    }
}

impl RecordStream {
    fn new(file: Arc<RecordFile>, position: u64, end: u64) -> RecordStream {
        let buffer = Bytes::new();
        RecordStream {
            file,
            buffer_bytes: BUFFER_BYTES,
            memory: StreamMemory::new(BUFFER_BYTES),
            buffer,
            buffer_offset: position,
            position,
            end,
        }
    }

    /// The same with a buffer of about `bytes`, where memory is short.
    pub(crate) fn reading(mut self, bytes: usize) -> RecordStream {
        self.buffer_bytes = bytes.clamp(LEAST_BUFFER_BYTES, BUFFER_BYTES);
        self
    }

    /// The next record; `None` after the last. After an error it stays where it is: what follows
    /// a damaged header cannot be found.
    pub(crate) fn next(&mut self) -> Result<Option<Record>> {
        let left = self.end.saturating_sub(self.position);
        if left == 0 {
            return Ok(None);
        }
        let start = self.position;
        let head = self.bytes(start, FRAME_HEADER_LEN.min(left as usize))?;
        let header = FrameHeader::decode(&head, &self.file.place(start))?;
        let frame = self.bytes(start, header.frame_len())?;
        let place = self.file.place(start);
        let record = self.file.verified(frame, header, &place)?;
        self.position = record.end_offset();
        Ok(Some(record))
    }

    /// As [`RecordStream::next`] for who wants no value: that of a large record is verified piece
    /// by piece.
    pub(crate) fn next_head(&mut self) -> Result<Option<RecordHead>> {
        let left = self.end.saturating_sub(self.position);
        let may_have_chunks = self.file.meta().compression.codecs.holds(Codec::Chunks);
        if left >= u64::from(STREAMED_BYTES) || left > 0 && may_have_chunks {
            let head = self.bytes(self.position, FRAME_HEADER_LEN)?;
            let header = FrameHeader::decode(&head, &self.file.place(self.position))?;
            let is_chunked = header.codec == Codec::Chunks;
            if header.stored_as().stored_len >= STREAMED_BYTES as usize || is_chunked {
                let record = ValueReader::open_at(&self.file, self.position)?;
                let head = RecordHead {
                    key: Bytes::copy_from_slice(record.key()),
                    seq: record.seq(),
                    kind: record.kind(),
                    expiry_ms: record.expiry_ms(),
                    offset: record.offset(),
                    frame_len: (record.end_offset() - record.offset()) as u32,
                    value: None,
                };
                self.position = record.end_offset();
                record.finish()?;
                return Ok(Some(head));
            }
        }
        let record = self.next()?;
        Ok(record.map(|record| RecordHead {
            key: Bytes::copy_from_slice(record.key()),
            seq: record.seq(),
            kind: record.kind(),
            expiry_ms: record.expiry_ms(),
            offset: record.offset(),
            frame_len: record.frame_len() as u32,
            value: Some(record.into_value()),
        }))
    }

    /// The record that `pointer` names, as it is stored; cheap when the pointers of successive
    /// calls ascend. `next` goes on after it.
    pub(crate) fn read(&mut self, pointer: RecordPointer) -> Result<StoredRecord> {
        self.file.check(pointer)?;
        let frame = self.bytes(pointer.offset, pointer.len as usize)?;
        let record = self.file.decode_stored(frame, pointer)?;
        self.position = record.end_offset();
        Ok(record)
    }

    /// Bytes of memory that its buffer takes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.buffer.len().max(self.memory.kept_bytes())
    }

    /// `len` bytes at `start`, all within the records.
    fn bytes(&mut self, start: u64, len: usize) -> Result<Bytes> {
        if let Some(bytes) = self.buffered(start, len) {
            return Ok(bytes);
        }
        let left = self.file.meta().records_end.saturating_sub(start);
        let read_len = (len.max(self.buffer_bytes) as u64).min(left) as usize;
        let goes_on = self.goes_on_at(start);
        // The old one is given back before the new one is taken.
        self.buffer = Bytes::new();
        let fill = |bytes: &mut [u8]| self.file.fill(bytes, start);
        self.buffer = self.memory.read(read_len, fill)?;
        self.buffer_offset = start;
        if goes_on {
            // The device reads the next while this one is worked on.
            let next = start + read_len as u64;
            self.file.prefetch(next, self.buffer_bytes as u64)?;
        }
        let what = "the record reaches beyond the file's records";
        let short = || self.file.place(start).corruption(what);
        self.buffered(start, len).ok_or_else(short)
    }

    /// Whether a read at `start` follows the buffer closely, so that more such reads are likely.
    pub(super) fn goes_on_at(&self, start: u64) -> bool {
        let end = self.buffer_offset + self.buffer.len() as u64;
        let near = self.buffer_offset..end + self.buffer_bytes as u64;
        !self.buffer.is_empty() && near.contains(&start)
    }

    fn buffered(&self, start: u64, len: usize) -> Option<Bytes> {
        let from = usize::try_from(start.checked_sub(self.buffer_offset)?).ok()?;
        let to = from.checked_add(len)?;
        (to <= self.buffer.len()).then(|| self.buffer.slice(from..to))
    }
}
