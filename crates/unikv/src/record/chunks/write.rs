//! Writing a value in chunks, as they come.

use super::shape::{ChunkShape, Directory};
use crate::base::checksum::Crc;
use crate::base::keys::MAX_VALUE_LEN;
use crate::base::seeded::seeded;
use crate::codec::{Codec, Compression, Encoder, FileCompression};
use crate::error::Result;
use crate::record::RecordPointer;
use crate::record::frame::{FRAME_HEADER_LEN, RecordRef, StoredAs, frame_len};
use crate::record::stream::value_reader::ValueReader;
use crate::record::writer::{RecordWriter, beyond_limits};

/// A record whose value is being written. Unless it is finished, its file cannot be.
pub(crate) struct ValueWriter<'w> {
    writer: &'w mut RecordWriter,
    compression: Compression,
    /// Where the frame begins, and its header as it was written there.
    offset: u64,
    header: Vec<u8>,
    /// Of expiry and key.
    payload: Crc,
    directory: Directory,
    raw_len: usize,
}

impl RecordWriter {
    /// Cuts large values into chunks of a size that suits memtables of these bytes.
    pub(crate) fn for_memtables_of(mut self, memtable_bytes: u64) -> RecordWriter {
        self.chunk_bits = ChunkShape::bits_for(memtable_bytes);
        self
    }

    /// Leaves large values whole, as releases before chunks did.
    #[cfg(test)]
    pub(crate) fn without_chunks(mut self) -> RecordWriter {
        // No value has as many bytes.
        self.chunk_bits = 40;
        self
    }

    /// Bytes of a chunk.
    pub(crate) fn chunk_bytes(&self) -> usize {
        1 << self.chunk_bits
    }

    /// Begins a record whose value comes in chunks, `raw_len` bytes in all if that is known.
    /// `record.value` is not looked at.
    pub(crate) fn begin_value(
        &mut self,
        record: &RecordRef<'_>,
        raw_len: Option<usize>,
        compression: Compression,
    ) -> Result<ValueWriter<'_>> {
        let shape = ChunkShape::new(raw_len.unwrap_or(0), self.chunk_bits);
        let shape = shape.ok_or_else(beyond_limits)?;
        // Most likely right if nothing is compressed.
        let stored_len = shape.raw_len() + shape.directory_len();
        let guess = stored_in_chunks(shape, stored_len);
        let (offset, payload) = self.begin_frame(record, guess)?;
        let header = self.head.get(..FRAME_HEADER_LEN).unwrap_or_default();
        Ok(ValueWriter {
            compression,
            offset,
            header: header.to_vec(),
            payload,
            directory: Directory::new(shape),
            raw_len: 0,
            writer: self,
        })
    }

    /// Appends a record whose value `source` gives, `raw_len` bytes if that is known: each call
    /// fills the buffer, and only the last one not whole. Returns also how long the value is.
    /// After an error the file cannot be finished.
    pub(crate) fn append_from(
        &mut self,
        record: &RecordRef<'_>,
        raw_len: Option<usize>,
        compression: Compression,
        mut source: impl FnMut(&mut [u8]) -> Result<usize>,
    ) -> Result<(RecordPointer, usize)> {
        let mut chunk = vec![0; self.chunk_bytes()];
        let mut value = self.begin_value(record, raw_len, compression)?;
        loop {
            let filled = source(&mut chunk)?;
            if filled > 0 {
                value.add(chunk.get(..filled).unwrap_or_default())?;
            }
            if filled < chunk.len() {
                let len = value.raw_len;
                return Ok((value.finish(record)?, len));
            }
        }
    }

    /// Appends a record whose value is in memory, cut into chunks.
    #[cold]
    pub(in crate::record) fn append_chunked(
        &mut self,
        record: &RecordRef<'_>,
        compression: Compression,
    ) -> Result<RecordPointer> {
        let chunk_bytes = self.chunk_bytes();
        let mut value = self.begin_value(record, Some(record.value.len()), compression)?;
        for chunk in record.value.chunks(chunk_bytes) {
            value.add(chunk)?;
        }
        value.finish(record)
    }

    /// Appends a record with the chunks of another one, each verified and in the form that it has
    /// there. `goes_on` is asked for every few of them.
    pub(in crate::record) fn copy_chunks(
        &mut self,
        record: &RecordRef<'_>,
        value: &mut ValueReader,
        source: &FileCompression,
        mut goes_on: impl FnMut() -> Result<()>,
    ) -> Result<RecordPointer> {
        let (file, frame) = value.chunks()?;
        let shape = frame.shape();
        let (stored_as, uid) = (value.stored_as(), self.output.uid());
        let (offset, payload) = self.begin_frame(record, stored_as)?;
        let mut directory = Directory::new(shape);
        frame.for_each_stored(&file, |at, chunk, stored| {
            goes_on()?;
            let raw_len = shape.raw_range(at).len();
            directory.add(chunk.codec, stored, uid, self.output.len());
            self.compression
                .note(chunk.codec, source.level, raw_len, stored.len());
            self.output.append(stored)
        })?;
        value.note_verified();
        let directory = directory.encode();
        self.end_chunked(record, payload, &directory, (offset, stored_as))
    }

    /// Appends what follows the chunks.
    fn end_chunked(
        &mut self,
        record: &RecordRef<'_>,
        payload: Crc,
        directory: &[u8],
        (offset, stored_as): (u64, StoredAs),
    ) -> Result<RecordPointer> {
        let checksum = payload.update(directory).bind(self.output.uid(), offset);
        self.output.append(directory)?;
        self.output.append(&checksum.to_le_bytes())?;
        self.compression.codecs.add(Codec::Chunks);
        self.note(record)?;
        let has_expiry = record.expiry_ms.is_some();
        let len = frame_len(record.key.len(), stored_as.stored_len, has_expiry);
        Ok(RecordPointer {
            file: self.output.number(),
            offset,
            len: u32::try_from(len).map_err(|_| beyond_limits())?,
        })
    }
}

impl ValueWriter<'_> {
    /// Adds a chunk, which only as the last one may be shorter than the others.
    pub(crate) fn add(&mut self, raw: &[u8]) -> Result<()> {
        let chunk_bytes = self.directory.shape().chunk_bytes();
        debug_assert!(self.raw_len.is_multiple_of(chunk_bytes) && raw.len() <= chunk_bytes);
        self.raw_len += raw.len();
        if self.raw_len > MAX_VALUE_LEN {
            return Err(beyond_limits());
        }
        let RecordWriter {
            output,
            chunk_encoder,
            compression,
            ..
        } = &mut *self.writer;
        let encoder = chunk_encoder.get_or_insert_with(|| Encoder::new(None));
        let encoded = encoder.encode(raw, self.compression);
        let (codec, stored) = encoded.unwrap_or((Codec::None, raw));
        self.directory
            .add(codec, stored, output.uid(), output.len());
        compression.note(codec, self.compression.level(), raw.len(), stored.len());
        output.append(stored)
    }

    /// Ends the record, which is the one that it was begun for.
    pub(crate) fn finish(self, record: &RecordRef<'_>) -> Result<RecordPointer> {
        let ValueWriter {
            writer, directory, ..
        } = self;
        let shape = ChunkShape::new(self.raw_len, directory.shape().bits());
        let shape = shape.filter(|shape| shape.raw_len() > 0);
        let shape = shape.ok_or_else(beyond_limits)?;
        let stored_as = stored_in_chunks(shape, directory.chunks_len() + shape.directory_len());
        let uid = writer.output.uid();
        let head = record.encode_head(stored_as, &mut writer.head, uid, self.offset);
        head.ok_or_else(beyond_limits)?;
        let header = writer.head.get(..FRAME_HEADER_LEN).unwrap_or_default();
        if header != self.header && !seeded!(ChunkedLengthGuessed) {
            writer.output.replace(self.offset, &self.header, header)?;
        }
        let directory = directory.encode();
        writer.end_chunked(record, self.payload, &directory, (self.offset, stored_as))
    }
}

fn stored_in_chunks(shape: ChunkShape, stored_len: usize) -> StoredAs {
    StoredAs {
        codec: Codec::Chunks,
        stored_len,
        raw_len: shape.raw_len(),
        chunk_bits: shape.bits(),
    }
}
