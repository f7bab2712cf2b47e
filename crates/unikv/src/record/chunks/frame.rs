//! A record whose value is in chunks, and parts of that value.

use super::shape::{Chunk, ChunkShape, Directory};
use crate::base::checksum::Crc;
use crate::base::seeded::slip;
use crate::codec::{Codec, Decoders};
use crate::error::Result;
use crate::record::frame::{CRC_LEN, FRAME_HEADER_LEN, FrameHeader, FramePlace, Record};
use crate::record::reader::RecordFile;
use bytes::Bytes;
use std::ops::Range;

/// Stored bytes that are read at a time, unless one chunk has more.
const SPAN_BYTES: usize = 256 << 10;
/// Bytes that are prefetched before they are read.
const AHEAD_BYTES: u64 = 1 << 20;

/// What stands around the chunks of a value, verified.
#[derive(Debug)]
pub(in crate::record) struct ChunkedFrame {
    offset: u64,
    header: FrameHeader,
    /// All that stands before the chunks.
    head: Vec<u8>,
    directory: Directory,
}

impl ChunkedFrame {
    /// Reads it, where the frame at `offset` has `header` and begins with `first`.
    pub(in crate::record) fn read(
        file: &RecordFile,
        offset: u64,
        header: FrameHeader,
        first: &[u8],
    ) -> Result<ChunkedFrame> {
        let place = file.place(offset);
        let shape = header.shape();
        let shape = shape.ok_or_else(|| place.corruption("the value is not in chunks"))?;
        let mut head = vec![0; header.value_start()];
        match first.get(..head.len()) {
            Some(first) => head.copy_from_slice(first),
            None => {
                let (known, rest) = head.split_at_mut(first.len());
                known.copy_from_slice(first);
                file.fill(rest, offset + first.len() as u64)?;
            }
        }
        let mut tail = vec![0; shape.directory_len() + CRC_LEN];
        let tail_start = header.frame_len() - tail.len();
        file.fill(&mut tail, offset + tail_start as u64)?;
        ChunkedFrame::verify(head, &tail, header, &place)
    }

    /// Verifies what stands before the chunks and behind them.
    pub(in crate::record) fn verify(
        head: Vec<u8>,
        tail: &[u8],
        header: FrameHeader,
        place: &FramePlace<'_>,
    ) -> Result<ChunkedFrame> {
        let directory = directory_of(&head, tail, &header, place)?;
        Ok(ChunkedFrame {
            offset: place.offset,
            header,
            head,
            directory,
        })
    }

    /// The keyspace id and the user's key.
    pub(in crate::record) fn key(&self) -> &[u8] {
        self.head.get(self.header.key_range()).unwrap_or_default()
    }

    pub(in crate::record) fn header(&self) -> &FrameHeader {
        &self.header
    }

    pub(in crate::record) fn shape(&self) -> ChunkShape {
        self.directory.shape()
    }

    /// Memory that it takes.
    pub(in crate::record) fn memory_bytes(&self) -> usize {
        self.head.capacity() + size_of_val(self.directory.chunks())
    }

    /// Where the chunks begin in the file.
    fn chunks_start(&self) -> u64 {
        self.offset + self.head.len() as u64
    }

    /// The record with its whole value.
    pub(in crate::record) fn whole(&self, file: &RecordFile) -> Result<Record> {
        let mut frame = vec![0; self.header.expanded_len()];
        let value = self.header.value_range();
        let (head, value_on) = frame.split_at_mut(value.start);
        head.copy_from_slice(&self.head);
        let out = value_on.get_mut(..value.len()).unwrap_or_default();
        self.read_range(file, 0..value.len(), out)?;
        Ok(Record::of_chunks(
            Bytes::from(frame),
            self.header,
            self.offset,
        ))
    }

    /// Fills `out` with the bytes `range` of the value, which lie within it.
    pub(in crate::record) fn read_range(
        &self,
        file: &RecordFile,
        range: Range<usize>,
        out: &mut [u8],
    ) -> Result<()> {
        let shape = self.shape();
        debug_assert!(range.len() == out.len() && range.end <= shape.raw_len());
        let range = slip!(RangeFromChunkStart, shape.with_chunk_start(range), range);
        let wanted = shape.chunks_of(&range);
        let (mut scratch, mut expanded) = (Vec::new(), Vec::new());
        self.for_each_span(file, wanted, |span, start| {
            file.fill(span.buffer(&mut scratch), start)?;
            for (at, chunk) in self.chunks_in(span.chunks.clone()) {
                let stored = span.stored(&scratch, chunk);
                self.check(file, chunk, stored)?;
                let raw = shape.raw_range(at);
                let part = raw.start.max(range.start)..raw.end.min(range.end);
                let to = part.start - range.start..part.end - range.start;
                let out = out.get_mut(to).unwrap_or_default();
                let from = part.start - raw.start..part.end - raw.start;
                if chunk.codec == Codec::None {
                    out.copy_from_slice(stored.get(from).unwrap_or_default());
                } else if part == raw {
                    self.decode(file, chunk, stored, out)?;
                } else {
                    expanded.resize(raw.len(), 0);
                    self.decode(file, chunk, stored, &mut expanded)?;
                    out.copy_from_slice(expanded.get(from).unwrap_or_default());
                }
            }
            Ok(())
        })
    }

    /// Calls `take` with each chunk as it is stored, verified.
    pub(in crate::record) fn for_each_stored(
        &self,
        file: &RecordFile,
        mut take: impl FnMut(usize, &Chunk, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut scratch = Vec::new();
        self.for_each_span(file, 0..self.shape().count(), |span, start| {
            file.fill(span.buffer(&mut scratch), start)?;
            for (at, chunk) in self.chunks_in(span.chunks.clone()) {
                let stored = span.stored(&scratch, chunk);
                self.check(file, chunk, stored)?;
                take(at, chunk, stored)?;
            }
            Ok(())
        })
    }

    /// Calls `read` with each span of the chunks `wanted` and where it begins in the file. What
    /// follows has then been prefetched.
    fn for_each_span(
        &self,
        file: &RecordFile,
        wanted: Range<usize>,
        mut read: impl FnMut(&Span, u64) -> Result<()>,
    ) -> Result<()> {
        let last = self.chunks_in(wanted.clone()).last();
        let end = self.chunks_start() + last.map_or(0, |(_, chunk)| chunk.range().end as u64);
        let (mut next, mut ahead) = (wanted.start, 0);
        while let Some(span) = self.span(next..wanted.end) {
            next = span.chunks.end;
            let start = self.chunks_start() + span.start as u64;
            let span_end = start + span.len as u64;
            if span_end < end && span_end >= ahead {
                ahead = end.min(span_end + AHEAD_BYTES);
                file.prefetch(span_end, ahead - span_end)?;
            }
            read(&span, start)?;
        }
        Ok(())
    }

    /// The first of the chunks `wanted`, with as many after it as are read together.
    fn span(&self, wanted: Range<usize>) -> Option<Span> {
        let first = self.directory.chunks().get(wanted.start)?.range();
        let mut span = Span {
            chunks: wanted.start..wanted.start,
            start: first.start,
            len: 0,
        };
        for (at, chunk) in self.chunks_in(wanted) {
            let len = chunk.range().end - first.start;
            if at > span.chunks.start && len > SPAN_BYTES {
                break;
            }
            (span.chunks.end, span.len) = (at + 1, len);
        }
        (!span.chunks.is_empty()).then_some(span)
    }

    fn chunks_in(&self, chunks: Range<usize>) -> impl Iterator<Item = (usize, &Chunk)> {
        let found = self.directory.chunks().get(chunks.clone());
        chunks.zip(found.unwrap_or_default())
    }

    fn check(&self, file: &RecordFile, chunk: &Chunk, stored: &[u8]) -> Result<()> {
        let place = file.place(self.chunks_start() + u64::from(chunk.start));
        check_chunk(chunk, stored, &place)
    }

    fn decode(
        &self,
        file: &RecordFile,
        chunk: &Chunk,
        stored: &[u8],
        raw: &mut [u8],
    ) -> Result<()> {
        let place = file.place(self.chunks_start() + u64::from(chunk.start));
        decode_chunk(chunk, stored, raw, file.cache.decoders(), &place)
    }
}

/// Chunks that are read together, and where they stand, from the first chunk of the value on.
struct Span {
    chunks: Range<usize>,
    start: usize,
    len: usize,
}

impl Span {
    fn buffer<'b>(&self, buffer: &'b mut Vec<u8>) -> &'b mut [u8] {
        buffer.resize(self.len, 0);
        buffer
    }

    fn stored<'b>(&self, buffer: &'b [u8], chunk: &Chunk) -> &'b [u8] {
        let place = chunk.range();
        let own = place.start - self.start..place.end - self.start;
        buffer.get(own).unwrap_or_default()
    }
}

/// The directory in `tail`, the end of the frame that begins with `head`.
pub(in crate::record) fn directory_of(
    head: &[u8],
    tail: &[u8],
    header: &FrameHeader,
    place: &FramePlace<'_>,
) -> Result<Directory> {
    let cut = || place.corruption("the record is cut short");
    let shape = header.shape().ok_or_else(cut)?;
    let (directory, crc) = tail.split_last_chunk::<CRC_LEN>().ok_or_else(cut)?;
    let payload = Crc::default().update(head.get(FRAME_HEADER_LEN..).ok_or_else(cut)?);
    if payload
        .update(directory)
        .bind(place.uid, place.offset)
        .to_le_bytes()
        != *crc
    {
        return Err(place.corruption("the record's checksum does not match"));
    }
    let chunks_len = header.stored_as().stored_len - shape.directory_len();
    Directory::decode(directory, shape, chunks_len).map_err(|what| place.corruption(what))
}

fn check_chunk(chunk: &Chunk, stored: &[u8], place: &FramePlace<'_>) -> Result<()> {
    if chunk.fits(stored, place.uid, place.offset) {
        Ok(())
    } else {
        Err(place.corruption("the checksum of a chunk of the value does not match"))
    }
}

fn decode_chunk(
    chunk: &Chunk,
    stored: &[u8],
    raw: &mut [u8],
    decoders: &Decoders,
    place: &FramePlace<'_>,
) -> Result<()> {
    chunk.codec.require("the file has values", place.path)?;
    let decoded = decoders.decode(chunk.codec, stored, raw, None);
    decoded.map_err(|what| place.corruption(what))
}

/// Verifies the `frame` in memory, which has `header`, with all its chunks.
pub(in crate::record) fn verify_whole(
    frame: &[u8],
    header: &FrameHeader,
    place: &FramePlace<'_>,
) -> Result<Directory> {
    let cut = || place.corruption("the record is cut short");
    let head = frame.get(..header.value_start()).ok_or_else(cut)?;
    let shape = header.shape().ok_or_else(cut)?;
    let directory_start = header.stored_end() - shape.directory_len();
    let tail = frame.get(directory_start..header.frame_len());
    let directory = directory_of(head, tail.ok_or_else(cut)?, header, place)?;
    let chunks = frame.get(head.len()..directory_start).ok_or_else(cut)?;
    for chunk in directory.chunks() {
        let stored = chunks.get(chunk.range()).ok_or_else(cut)?;
        check_chunk(
            chunk,
            stored,
            &place.behind(head.len() + chunk.start as usize),
        )?;
    }
    Ok(directory)
}

/// Fills `raw`, which is as long as the value, from the `stored` value of a frame that was
/// verified.
pub(in crate::record) fn expand_whole(
    stored: &[u8],
    header: &FrameHeader,
    raw: &mut [u8],
    decoders: &Decoders,
    place: &FramePlace<'_>,
) -> Result<()> {
    let damaged = |what: &str| place.corruption(what);
    let shape = header
        .shape()
        .ok_or_else(|| damaged("the value is not in chunks"))?;
    let chunks_len = stored.len().saturating_sub(shape.directory_len());
    let (chunks, directory) = stored.split_at(chunks_len);
    let directory = Directory::decode(directory, shape, chunks_len).map_err(damaged)?;
    for (at, chunk) in directory.chunks().iter().enumerate() {
        let stored = chunks.get(chunk.range()).unwrap_or_default();
        let raw = raw.get_mut(shape.raw_range(at)).unwrap_or_default();
        match chunk.codec {
            Codec::None if raw.len() == stored.len() => raw.copy_from_slice(stored),
            Codec::None => return Err(damaged("a chunk of the value has another length")),
            _ => decode_chunk(chunk, stored, raw, decoders, place)?,
        }
    }
    Ok(())
}
