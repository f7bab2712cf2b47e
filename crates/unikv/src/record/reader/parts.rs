//! Long records, and parts of their values.

use super::{RecordFile, decode_pointed_header};
use crate::base::keys::{Kind, SeqNo};
use crate::codec::Codec;
use crate::error::Result;
use crate::record::RecordPointer;
use crate::record::chunks::frame::ChunkedFrame;
use crate::record::frame::{FrameHeader, Record};
use bytes::Bytes;
use std::ops::Range;
use std::sync::Arc;

/// Of a record whose form is not known, this is read first: it is all of a short one.
const FIRST_BYTES: usize = 4 << 10;

/// A record of which parts are wanted.
#[derive(Debug)]
pub(crate) enum Opened {
    /// It is verified and whole.
    Whole(Record),
    /// Its value is in chunks, of which none has been read.
    Chunked(Chunked),
}

/// A value in chunks, to be read part by part. It keeps its file.
#[derive(Debug)]
pub(crate) struct Chunked {
    file: Arc<RecordFile>,
    frame: ChunkedFrame,
}

impl Opened {
    /// What must hold of it: see `check_pointed`.
    pub(crate) fn found(&self) -> (&[u8], SeqNo, Kind) {
        match self {
            Opened::Whole(record) => (record.key(), record.seq(), record.kind()),
            Opened::Chunked(Chunked { frame, .. }) => {
                let (seq, kind) = frame.header().seq_and_kind();
                (frame.key(), seq, kind)
            }
        }
    }

    /// The bytes `range` of the value, as far as it has them.
    #[cfg(test)]
    pub(crate) fn part(self, range: Range<usize>) -> Result<Bytes> {
        match self {
            Opened::Whole(record) => Ok(part_of(record.into_value(), range)),
            Opened::Chunked(value) => value.part(range),
        }
    }
}

impl Chunked {
    /// The length of the value.
    pub(crate) fn len(&self) -> usize {
        self.frame.shape().raw_len()
    }

    /// Bytes of a chunk.
    pub(crate) fn chunk_bytes(&self) -> usize {
        self.frame.shape().chunk_bytes()
    }

    /// The bytes `range` of the value, as far as it has them.
    pub(crate) fn part(&self, range: Range<usize>) -> Result<Bytes> {
        let range = within(range, self.len());
        let mut part = vec![0; range.len()];
        self.read(range, &mut part)?;
        Ok(Bytes::from(part))
    }

    /// Memory that it takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.frame.memory_bytes()
    }

    /// Fills `out` with the bytes `range`, which lie within the value.
    pub(crate) fn read(&self, range: Range<usize>, out: &mut [u8]) -> Result<()> {
        self.frame.read_range(&self.file, range, out)
    }
}

/// What of `range` lies within `len` bytes.
pub(crate) fn within(range: Range<usize>, len: usize) -> Range<usize> {
    let end = range.end.min(len);
    range.start.min(end)..end
}

/// The bytes `range` of a value that is in memory, as far as it has them. They keep the value only
/// where they are nearly all of it.
pub(crate) fn part_of(value: Bytes, range: Range<usize>) -> Bytes {
    let range = within(range, value.len());
    let is_little = range.len() < value.len() - value.len() / 8;
    if is_little {
        Bytes::copy_from_slice(value.get(range).unwrap_or_default())
    } else {
        value.slice(range)
    }
}

impl RecordFile {
    /// The record that `pointer` names, for parts of its value: read whole, unless it is in chunks.
    pub(crate) fn open_record(self: &Arc<Self>, pointer: RecordPointer) -> Result<Opened> {
        if let Some(record) = self.cached(pointer) {
            return Ok(Opened::Whole(record));
        }
        self.check(pointer)?;
        let (first, header) = self.first_of(pointer)?;
        if header.codec == Codec::Chunks {
            let frame = ChunkedFrame::read(self, pointer.offset, header, &first)?;
            let file = Arc::clone(self);
            return Ok(Opened::Chunked(Chunked { file, frame }));
        }
        let record = self.rest_of(pointer, header, first)?;
        self.keep(&record);
        Ok(Opened::Whole(record))
    }

    /// As [`RecordFile::read`] for a long record, whose pointer has been checked.
    #[cold]
    pub(in crate::record) fn read_long(&self, pointer: RecordPointer) -> Result<Record> {
        let (first, header) = self.first_of(pointer)?;
        match header.codec {
            Codec::Chunks => self.read_chunked(pointer.offset, header, &first),
            _ => self.rest_of(pointer, header, first),
        }
    }

    /// The record at `offset` in chunks, which has `header` and begins with `first`.
    #[cold]
    pub(super) fn read_chunked(
        &self,
        offset: u64,
        header: FrameHeader,
        first: &[u8],
    ) -> Result<Record> {
        ChunkedFrame::read(self, offset, header, first)?.whole(self)
    }

    fn first_of(&self, pointer: RecordPointer) -> Result<(Bytes, FrameHeader)> {
        let first = self.read_bytes(pointer.offset, FIRST_BYTES.min(pointer.len as usize))?;
        let header = decode_pointed_header(&first, pointer, &self.place(pointer.offset))?;
        Ok((first, header))
    }

    fn rest_of(&self, pointer: RecordPointer, header: FrameHeader, first: Bytes) -> Result<Record> {
        let (len, mut frame) = (pointer.len as usize, first);
        if frame.len() < len {
            frame = Bytes::from(self.read_rest(&frame, len, pointer.offset)?);
        }
        self.verified(frame, header, &self.place(pointer.offset))
    }
}
