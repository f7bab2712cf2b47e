//! A version of a key that a look-up has found.

use super::frame::{FrameHeader, FramePlace};
use crate::base::keys::{Kind, SeqNo};
use crate::base::seeded::seeded;
use crate::key_table::CachedFrame;
use crate::record::Record;
use bytes::Bytes;
use std::hint::black_box;

/// Of a frame, this many cache lines are waited for together; further ones the processor expects by
/// itself.
const LINES_TOGETHER: usize = 32;
const LINE_BYTES: usize = 64;

/// What a record says of the key that was asked for: all but the key.
#[derive(Debug)]
pub(crate) struct KeyVersion {
    header: FrameHeader,
    offset: u64,
    value: Bytes,
    /// When it expires; at the end of time: never.
    expiry_ms: u64,
}

/// The expiry of what does not expire.
const NEVER: u64 = u64::MAX;

impl Record {
    /// What it says of `key`; `None` if it is of another one.
    pub(crate) fn of_key(self, key: &[u8]) -> Option<KeyVersion> {
        let is_of = self.key() == key || seeded!(TrustTag);
        is_of.then(|| {
            let expiry_ms = self.expiry_ms().unwrap_or(NEVER);
            let (header, offset, value) = self.into_parts();
            KeyVersion {
                header,
                offset,
                value,
                expiry_ms,
            }
        })
    }
}

impl KeyVersion {
    /// What a frame that the cache keeps says of `key`: nothing if it is of another one. `None`:
    /// this is no frame.
    #[inline]
    pub(super) fn in_cache(
        frame: &CachedFrame<'_>,
        key: &[u8],
        place: &FramePlace<'_>,
    ) -> Option<Option<KeyVersion>> {
        touch(frame.bytes());
        let header = FrameHeader::of_kept(frame.bytes(), place)?;
        if frame.bytes().get(header.key_range())? != key && !seeded!(TrustTag) {
            return Some(None);
        }
        let value = frame.part(header.value_range())?;
        let expiry_ms = header.expiry_in(frame.bytes()).unwrap_or(NEVER);
        Some(Some(KeyVersion {
            header,
            offset: place.offset,
            value,
            expiry_ms,
        }))
    }

    /// The value.
    pub(crate) fn value(&self) -> &[u8] {
        &self.value
    }

    /// The value, for somebody who may hold it for long.
    pub(crate) fn into_value(self) -> Bytes {
        self.value
    }

    /// The sequence number.
    pub(crate) fn seq(&self) -> SeqNo {
        self.header.seq
    }

    /// What the record says about the key.
    pub(crate) fn kind(&self) -> Kind {
        self.header.kind
    }

    /// When it expires.
    pub(crate) fn expiry_ms(&self) -> Option<u64> {
        (self.expiry_ms != NEVER).then_some(self.expiry_ms)
    }

    /// Whether an older version of the key is the next record.
    pub(crate) fn older_follows(&self) -> bool {
        self.header.older_follows()
    }

    /// Where the record ends.
    pub(crate) fn end_offset(&self) -> u64 {
        self.offset + self.header.frame_len() as u64
    }
}

/// Has the processor wait for the memory of a frame once, and not for its header first and then for
/// what the header says.
fn touch(frame: &[u8]) {
    let lines = frame.iter().step_by(LINE_BYTES).take(LINES_TOGETHER);
    black_box(lines.fold(0, |all, byte| all | byte));
}
