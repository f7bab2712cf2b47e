//! Records that were read and verified, in their stored form and expanded.

use super::{FRAME_HEADER_LEN, FrameHeader, FramePlace, RecordRef, StoredAs};
use crate::base::checksum::bound;
use crate::base::keys::{Kind, SeqNo};
use crate::base::seeded::seeded;
use crate::codec::{Codec, Decoders, Dictionary};
use crate::error::Result;
use crate::key_table::has_long_head;
use crate::record::chunks::frame as chunks;
use bytes::{Buf, Bytes};

/// A verified record whose value may be compressed. It shares the buffer that it was read into, as
/// a [`Record`] does.
#[derive(Clone, Debug)]
pub(crate) struct StoredRecord(Record);

impl StoredRecord {
    /// Verifies the payload of the frame that begins `frame`, whose header is `header`.
    pub(in crate::record) fn verify(
        frame: Bytes,
        header: FrameHeader,
        place: &FramePlace<'_>,
    ) -> Result<StoredRecord> {
        if header.codec == Codec::Chunks {
            chunks::verify_whole(&frame, &header, place)?;
            return Ok(StoredRecord(Record::of_chunks(frame, header, place.offset)));
        }
        Record::verify(frame, header, place).map(StoredRecord)
    }

    /// Whether its value is in chunks.
    pub(crate) fn is_chunked(&self) -> bool {
        self.0.header.codec == Codec::Chunks
    }

    /// The record, if its value is stored as it was written.
    pub(in crate::record) fn into_raw(self) -> std::result::Result<Record, StoredRecord> {
        match self.0.header.codec {
            Codec::None => Ok(self.0),
            _ => Err(self),
        }
    }

    /// The record with its raw value, in memory of its own.
    pub(in crate::record) fn expand(
        &self,
        decoders: &Decoders,
        dictionary: Option<&Dictionary>,
        place: &FramePlace<'_>,
    ) -> Result<Record> {
        let Record { header, offset, .. } = self.0;
        let (start, end) = (header.value_start(), header.value_end());
        let before = self.0.frame.get(..start).unwrap_or_default();
        let mut frame = vec![0; header.expanded_len()];
        frame[..start].copy_from_slice(before);
        let raw = frame.get_mut(start..end).unwrap_or_default();
        if header.codec == Codec::Chunks {
            chunks::expand_whole(self.stored_value(), &header, raw, decoders, place)?;
            return Ok(Record::of_chunks(Bytes::from(frame), header, offset));
        }
        let decoded = decoders.decode(header.codec, self.stored_value(), raw, dictionary);
        decoded.map_err(|what| place.corruption(what))?;
        let frame = Bytes::from(frame);
        Ok(Record {
            frame,
            header,
            offset,
        })
    }

    /// Everything about the record but its value.
    pub(crate) fn head(&self) -> RecordRef<'_> {
        self.0.with_value(&[])
    }

    /// The length of the value before it was compressed.
    pub(crate) fn raw_len(&self) -> usize {
        self.0.header.value_len
    }

    /// The value as it stands in the file.
    pub(crate) fn stored_value(&self) -> &[u8] {
        let Record { frame, header, .. } = &self.0;
        frame
            .get(header.value_start()..header.stored_end())
            .unwrap_or_default()
    }

    /// How the value is stored.
    pub(in crate::record) fn stored_as(&self) -> StoredAs {
        self.0.header.stored_as()
    }

    /// Where its frame begins.
    pub(in crate::record) fn offset(&self) -> u64 {
        self.0.offset
    }

    /// Where its frame ends.
    pub(in crate::record) fn end_offset(&self) -> u64 {
        self.0.end_offset()
    }
}

/// A verified record, expanded. It shares the buffer that it was read into, unless its value was
/// compressed: one of its own after a single read, one with its neighbours after a coalesced read
/// or from a stream.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    /// Begins with the frame; may go on after it.
    frame: Bytes,
    header: FrameHeader,
    offset: u64,
}

impl Record {
    /// Verifies the payload of the frame that begins `frame`, whose header is `header` and says
    /// that the value is raw. (Else this is the inside of a [`StoredRecord`].)
    #[inline(always)]
    pub(in crate::record) fn verify(
        frame: Bytes,
        header: FrameHeader,
        place: &FramePlace<'_>,
    ) -> Result<Record> {
        let payload = frame.get(FRAME_HEADER_LEN..header.stored_end());
        let crc = frame.get(header.stored_end()..header.frame_len());
        let (Some(payload), Some(crc)) = (payload, crc) else {
            return Err(place.corruption("the record is cut short"));
        };
        let fits = crc == bound(place.uid, place.offset, payload).to_le_bytes();
        if !fits && !seeded!(RecordUnchecked) {
            return Err(place.corruption("the record's checksum does not match"));
        }
        Ok(Record {
            frame,
            header,
            offset: place.offset,
        })
    }

    /// A record whose value is in chunks and was verified with them.
    pub(in crate::record) fn of_chunks(frame: Bytes, header: FrameHeader, offset: u64) -> Record {
        Record {
            frame,
            header,
            offset,
        }
    }

    /// The record whose verified `frame` was kept in the cache; `None` if it is none.
    pub(in crate::record) fn from_cache(frame: Bytes, place: &FramePlace<'_>) -> Option<Record> {
        let header = FrameHeader::of_kept(&frame, place)?;
        let offset = place.offset;
        Some(Record {
            frame,
            header,
            offset,
        })
    }

    /// Its header, its offset and its value, which keeps no key that is longer than it.
    pub(in crate::record) fn into_parts(self) -> (FrameHeader, u64, Bytes) {
        let place = self.header.value_range();
        if has_long_head(place.start, place.len()) {
            return self.into_copied_parts();
        }
        (self.header, self.offset, self.into_part())
    }

    /// The value, in the record's buffer, which counts as shared. What was expanded is not in it.
    #[inline(always)]
    pub(crate) fn into_part(self) -> Bytes {
        let place = self.header.value_range();
        let mut value = self.frame;
        value.truncate(place.end);
        value.advance(place.start);
        value
    }

    /// Whether its value stands in the file as it was written, and so in the buffer that was read.
    pub(crate) fn is_raw(&self) -> bool {
        self.header.codec == Codec::None
    }

    #[cold]
    fn into_copied_parts(self) -> (FrameHeader, u64, Bytes) {
        let value = Bytes::copy_from_slice(self.value_slice());
        (self.header, self.offset, value)
    }

    /// Exactly the expanded frame, sharing the record's buffer.
    pub(in crate::record) fn frame(&self) -> Bytes {
        self.frame.slice(..self.header.expanded_len())
    }

    /// The keyspace id and the user's key.
    pub(crate) fn key(&self) -> &[u8] {
        &self.frame[self.header.key_start()..self.header.value_start()]
    }

    /// The value, in the record's buffer unless little of that is the value.
    pub(crate) fn into_value(self) -> Bytes {
        let (_, _, value) = self.into_parts();
        value
    }

    /// The value.
    pub(crate) fn value_slice(&self) -> &[u8] {
        &self.frame[self.header.value_start()..self.header.value_end()]
    }

    /// The sequence number.
    pub(crate) fn seq(&self) -> SeqNo {
        self.header.seq
    }

    /// What the record says about its key.
    pub(crate) fn kind(&self) -> Kind {
        self.header.kind
    }

    /// When it expires.
    pub(crate) fn expiry_ms(&self) -> Option<u64> {
        self.header.expiry_in(&self.frame)
    }

    /// The host's byte.
    pub(crate) fn host_type(&self) -> u8 {
        self.header.host_type
    }

    /// Whether an older version of the same key is the next record.
    pub(crate) fn older_follows(&self) -> bool {
        self.header.older_follows()
    }

    /// Where its frame begins.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// The length of its frame in the file.
    pub(crate) fn frame_len(&self) -> usize {
        self.header.frame_len()
    }

    /// Where its frame ends.
    pub(crate) fn end_offset(&self) -> u64 {
        self.offset + self.header.frame_len() as u64
    }

    /// The record as it was given to the writer.
    #[cfg(test)]
    pub(crate) fn as_ref(&self) -> RecordRef<'_> {
        self.with_value(self.value_slice())
    }

    fn with_value<'a>(&'a self, value: &'a [u8]) -> RecordRef<'a> {
        RecordRef {
            key: self.key(),
            seq: self.seq(),
            kind: self.kind(),
            value,
            expiry_ms: self.expiry_ms(),
            host_type: self.host_type(),
            older_follows: self.older_follows(),
        }
    }
}
