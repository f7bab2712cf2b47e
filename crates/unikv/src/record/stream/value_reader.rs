//! Reading a record piece by piece: its head first, then as much of its value at a time as the
//! caller likes, and at the end the proof that all of it was what was written.
//!
//! For large values: neither a check nor a job that moves one ever holds it whole. The value comes
//! as it is stored. Until [`ValueReader::finish`] has said so, nothing that was handed out is
//! verified but the lengths.

use crate::base::checksum::Crc;
use crate::base::keys::{Kind, SeqNo};
use crate::codec::Codec;
use crate::error::Result;
use crate::key_table::RecordPointer;
use crate::record::chunks::frame::ChunkedFrame;
use crate::record::frame::{CRC_LEN, FRAME_HEADER_LEN, FrameHeader, StoredAs};
use crate::record::reader::RecordFile;
use std::sync::Arc;

/// A head is read with this many bytes at first.
const HEAD_BYTES: usize = 4 << 10;
/// How much is read at a time where nobody wants the bytes.
const SKIP_BYTES: usize = 128 << 10;

/// A position in the value of one record.
#[derive(Debug)]
pub(crate) struct ValueReader {
    file: Arc<RecordFile>,
    offset: u64,
    header: FrameHeader,
    /// Expiry and key.
    head: Vec<u8>,
    /// Of the payload up to the position.
    crc: Crc,
    /// The position, from the frame's beginning.
    at: usize,
    /// All of a value in chunks has been verified.
    is_verified: bool,
}

impl ValueReader {
    /// Reads the head of the record that `pointer` names.
    pub(crate) fn open(file: &Arc<RecordFile>, pointer: RecordPointer) -> Result<ValueReader> {
        file.check(pointer)?;
        let reader = ValueReader::open_at(file, pointer.offset)?;
        if reader.header.frame_len() != pointer.len as usize {
            let place = file.place(pointer.offset);
            return Err(place.corruption("the record has another length than its pointer"));
        }
        Ok(reader)
    }

    /// Reads the head of the record at `offset`, which lies within the records.
    pub(crate) fn open_at(file: &Arc<RecordFile>, offset: u64) -> Result<ValueReader> {
        let place = file.place(offset);
        let left = place.records_end.saturating_sub(offset);
        let first_len = HEAD_BYTES.min(usize::try_from(left).unwrap_or(HEAD_BYTES));
        let first = file.read_bytes(offset, first_len)?;
        let header = FrameHeader::decode(&first, &place)?;
        let value_start = header.value_start();
        let head = match first.get(FRAME_HEADER_LEN..value_start) {
            Some(head) => head.to_vec(),
            None => {
                let len = value_start - FRAME_HEADER_LEN;
                let start = offset + FRAME_HEADER_LEN as u64;
                file.read_bytes(start, len)?.to_vec()
            }
        };
        Ok(ValueReader {
            file: Arc::clone(file),
            offset,
            header,
            crc: Crc::default().update(&head),
            head,
            at: value_start,
            is_verified: false,
        })
    }

    /// The keyspace id and the user's key.
    pub(crate) fn key(&self) -> &[u8] {
        let start = self.header.key_start() - FRAME_HEADER_LEN;
        self.head.get(start..).unwrap_or_default()
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
        let len = self.header.key_start() - FRAME_HEADER_LEN;
        Some(u64::from_le_bytes(*self.head.get(..len)?.first_chunk()?))
    }

    /// The host's byte.
    pub(crate) fn host_type(&self) -> u8 {
        self.header.host_type
    }

    /// How the value is stored.
    pub(in crate::record) fn stored_as(&self) -> StoredAs {
        self.header.stored_as()
    }

    /// Whether the value is stored as it was written.
    #[cfg(fuzzing)]
    pub(crate) fn is_raw(&self) -> bool {
        self.header.stored_as().codec == crate::codec::Codec::None
    }

    /// Bytes of the value as it is stored.
    pub(crate) fn stored_len(&self) -> usize {
        self.header.stored_as().stored_len
    }

    /// Where its frame begins.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Where its frame ends.
    pub(crate) fn end_offset(&self) -> u64 {
        self.offset + self.header.frame_len() as u64
    }

    /// Fills `piece` with the next bytes of the value, which has as many left.
    pub(crate) fn read(&mut self, piece: &mut [u8]) -> Result<()> {
        let left = self.value_end().saturating_sub(self.at);
        if piece.len() > left {
            let place = self.file.place(self.offset);
            return Err(place.corruption("the record's value ends early"));
        }
        self.file.fill(piece, self.offset + self.at as u64)?;
        self.crc = self.crc.update(piece);
        self.at += piece.len();
        Ok(())
    }

    /// The file, and what stands around the chunks of a value that is in chunks.
    pub(in crate::record) fn chunks(&self) -> Result<(Arc<RecordFile>, ChunkedFrame)> {
        let frame = ChunkedFrame::read(&self.file, self.offset, self.header, &[])?;
        Ok((Arc::clone(&self.file), frame))
    }

    /// All of a value in chunks has been verified.
    pub(in crate::record) fn note_verified(&mut self) {
        self.is_verified = true;
    }

    /// Reads what is left and compares the checksum; of a value in chunks, reads all.
    pub(crate) fn finish(mut self) -> Result<()> {
        if self.header.codec == Codec::Chunks {
            return if self.is_verified {
                Ok(())
            } else {
                self.chunks()?
                    .1
                    .for_each_stored(&self.file, |_, _, _| Ok(()))
            };
        }
        let mut left = self.value_end().saturating_sub(self.at);
        let mut piece = vec![0; SKIP_BYTES.min(left)];
        while left > 0 {
            piece.truncate(left);
            self.read(&mut piece)?;
            left -= piece.len();
        }
        let mut crc = [0; CRC_LEN];
        self.file.fill(&mut crc, self.offset + self.at as u64)?;
        let place = self.file.place(self.offset);
        if crc != self.crc.bind(place.uid, self.offset).to_le_bytes() {
            return Err(place.corruption("the record's checksum does not match"));
        }
        Ok(())
    }

    fn value_end(&self) -> usize {
        self.header.value_start() + self.stored_len()
    }
}
