//! Walking the frames of a record file of which nothing else is known, be it damaged or torn.
//!
//! Memory: one buffer of 256 KiB and one key, however long the values are, and of a value in chunks
//! their directory. A frame's payload is
//! checked as it streams by.

use super::chunks::frame::directory_of;
use super::frame::{FRAME_HEADER_LEN, FrameHeader, FramePlace, MIN_FRAME_LEN};
use crate::base::bounds::are_of_a_range;
use crate::base::checksum::Crc;
use crate::base::file_header::HEADER_LEN;
use crate::base::keys::{KEYSPACE_PREFIX_LEN, Kind, MAX_USER_KEY_LEN, SeqNo};
use crate::base::range_tombstones::RangeTombstone;
use crate::codec::Codec;
use crate::error::Result;
use crate::vfs::file_store::DataFile;
use std::ops::Range;

const CHUNK_BYTES: usize = 256 << 10;
const CRC_LEN: usize = 4;

/// A frame whose header verified.
#[derive(Clone, Debug)]
pub(crate) struct WalkedFrame {
    pub(crate) key: Vec<u8>,
    pub(crate) seq: SeqNo,
    pub(crate) kind: Kind,
    pub(crate) expiry_ms: Option<u64>,
    pub(crate) value_len: u64,
    pub(crate) codec: Codec,
    /// Bytes of the value as it stands in the file.
    pub(crate) stored_len: u64,
    /// What it deletes, if it is a range delete that says so.
    pub(crate) range: Option<RangeTombstone>,
}

/// What stands at one place of the file.
#[derive(Clone, Debug)]
pub(crate) struct Walked {
    pub(crate) offset: u64,
    pub(crate) len: u64,
    /// `None`: no frame begins here.
    pub(crate) frame: Option<WalkedFrame>,
    pub(crate) fault: Option<String>,
}

/// Reads frames from front to back.
pub(crate) struct FrameWalk<'a> {
    file: &'a DataFile,
    end: u64,
    offset: u64,
    buffer: Vec<u8>,
    buffer_offset: u64,
}

impl<'a> FrameWalk<'a> {
    /// Over the frames of `file`, which end at `end`.
    pub(crate) fn new(file: &'a DataFile, end: u64) -> FrameWalk<'a> {
        FrameWalk {
            file,
            end,
            offset: HEADER_LEN as u64,
            buffer: Vec::new(),
            buffer_offset: 0,
        }
    }

    /// The next frame, or the bytes up to where one begins again. Fails only when the system does.
    pub(crate) fn next(&mut self) -> Result<Option<Walked>> {
        let offset = self.offset;
        if offset >= self.end {
            return Ok(None);
        }
        let fault = match self.header_at(offset)? {
            Ok(header) => return self.frame(offset, &header).map(Some),
            Err(fault) => fault,
        };
        self.offset = self.next_header(offset + 1)?;
        Ok(Some(Walked {
            offset,
            len: self.offset - offset,
            frame: None,
            fault: Some(fault),
        }))
    }

    fn frame(&mut self, offset: u64, header: &FrameHeader) -> Result<Walked> {
        let len = header.frame_len();
        let key_range = header.key_range();
        let key = self.bytes(offset + key_range.start as u64, key_range.len())?;
        let key = key.to_vec();
        let expiry_len = key_range.start - FRAME_HEADER_LEN;
        let expiry = self.bytes(offset + FRAME_HEADER_LEN as u64, expiry_len)?;
        let expiry_ms = expiry.first_chunk().map(|ms| u64::from_le_bytes(*ms));
        let fits = match header.codec {
            Codec::Chunks => self.chunks_fit(offset, header)?,
            _ => {
                let payload = FRAME_HEADER_LEN..len - CRC_LEN;
                let crc = self.checksum(Crc::default(), offset, payload)?;
                let crc = crc.bind(self.file.uid(), offset).to_le_bytes();
                *self.bytes(offset + (len - CRC_LEN) as u64, CRC_LEN)? == crc
            }
        };
        let (seq, kind) = header.seq_and_kind();
        let range = match kind {
            Kind::RangeDelete => self.range(offset, &key, header)?,
            _ => None,
        };
        self.offset = offset + len as u64;
        let fault = if !fits {
            Some("the record's checksum does not match")
        } else if kind == Kind::RangeDelete && range.is_none() {
            Some("what a range tombstone bounds is no range")
        } else {
            None
        };
        Ok(Walked {
            offset,
            len: len as u64,
            frame: Some(WalkedFrame {
                key,
                seq,
                kind,
                expiry_ms,
                value_len: header.value_len() as u64,
                codec: header.codec,
                stored_len: header.stored_as().stored_len as u64,
                range,
            }),
            fault: fault.map(str::to_owned),
        })
    }

    /// The checksum of bytes of the frame at `offset`, after those that `crc` has.
    fn checksum(&mut self, mut crc: Crc, offset: u64, bytes: Range<usize>) -> Result<Crc> {
        let mut at = bytes.start;
        while at < bytes.end {
            let part = (bytes.end - at).min(CHUNK_BYTES);
            crc = crc.update(self.bytes(offset + at as u64, part)?);
            at += part;
        }
        Ok(crc)
    }

    /// Whether the directory of the value's chunks and all of them verify.
    fn chunks_fit(&mut self, offset: u64, header: &FrameHeader) -> Result<bool> {
        let Some(shape) = header.shape() else {
            return Ok(false);
        };
        let head = self.bytes(offset, header.value_start())?.to_vec();
        let tail_len = shape.directory_len() + CRC_LEN;
        let tail_start = header.frame_len() - tail_len;
        let tail = self.bytes(offset + tail_start as u64, tail_len)?.to_vec();
        let uid = self.file.uid();
        let Ok(directory) = directory_of(&head, &tail, header, &self.place(offset)) else {
            return Ok(false);
        };
        for chunk in directory.chunks() {
            let start = offset + (head.len() + chunk.start as usize) as u64;
            let stored = self.bytes(start, chunk.len as usize)?;
            if !chunk.fits(stored, uid, start) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What a range delete bounds; `None` if that is no range.
    #[cold]
    fn range(
        &mut self,
        offset: u64,
        start: &[u8],
        header: &FrameHeader,
    ) -> Result<Option<RangeTombstone>> {
        let end = header.value_range();
        if end.len() > KEYSPACE_PREFIX_LEN + MAX_USER_KEY_LEN {
            return Ok(None);
        }
        let end = self.bytes(offset + end.start as u64, end.len())?;
        Ok(are_of_a_range(start, end).then(|| RangeTombstone {
            start: start.to_vec(),
            end: end.to_vec(),
            seq: header.seq,
        }))
    }

    /// Where from `offset` on a header verifies, or the end.
    fn next_header(&mut self, mut offset: u64) -> Result<u64> {
        while offset + (MIN_FRAME_LEN as u64) <= self.end {
            if self.stands_at(offset)? && self.header_at(offset)?.is_ok() {
                return Ok(offset);
            }
            offset += 1;
        }
        Ok(self.end)
    }

    /// Whether the checksum of a header fits: most places are refused so, and cheaply.
    fn stands_at(&mut self, offset: u64) -> Result<bool> {
        let place = self.place(offset);
        let bytes = self.bytes(offset, FRAME_HEADER_LEN)?;
        Ok(FrameHeader::stands_before(bytes, &place))
    }

    fn header_at(&mut self, offset: u64) -> Result<std::result::Result<FrameHeader, String>> {
        if self.end - offset < MIN_FRAME_LEN as u64 {
            return Ok(Err("too few bytes for a record".to_owned()));
        }
        let place = self.place(offset);
        let bytes = self.bytes(offset, FRAME_HEADER_LEN)?;
        Ok(FrameHeader::decode(bytes, &place).map_err(|error| error.to_string()))
    }

    fn place(&self, offset: u64) -> FramePlace<'a> {
        FramePlace {
            path: self.file.path(),
            uid: self.file.uid(),
            offset,
            records_end: self.end,
            // As the record says: the manifest, which may know better, is not looked at.
            ingest_seq: None,
        }
    }

    /// `len` bytes at `offset`, which lie before the end of the file.
    fn bytes(&mut self, offset: u64, len: usize) -> Result<&[u8]> {
        let inside = offset >= self.buffer_offset
            && offset + len as u64 <= self.buffer_offset + self.buffer.len() as u64;
        if !inside {
            let behind = usize::try_from(self.end - offset).unwrap_or(usize::MAX);
            self.buffer.resize(len.max(CHUNK_BYTES.min(behind)), 0);
            self.buffer_offset = offset;
            self.file.read_exact_at(&mut self.buffer, offset)?;
        }
        let start = (offset - self.buffer_offset) as usize;
        Ok(self.buffer.get(start..start + len).unwrap_or_default())
    }
}
