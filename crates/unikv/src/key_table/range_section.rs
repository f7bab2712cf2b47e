//! What is known of the range tombstones of a record file: where they stand, and what they can
//! cover. So damage to them is an error for the keys that they may cover, and for no others.

use crate::base::coding::{Decoder, put_prefixed, put_varint};
use crate::base::file_header::HEADER_LEN;
use crate::base::keys::SeqNo;
use crate::base::range_tombstones::{RangeRef, RangeTombstones};
use crate::base::sync::OnceLock;
use std::fmt;
use std::sync::Arc;

/// The range tombstones of a record file: frames behind all others, up to the records' end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RangeSection {
    /// Where the first one begins.
    pub(crate) offset: u64,
    pub(crate) count: u64,
    /// The least first key, and the greatest first key after a range.
    pub(crate) start: Vec<u8>,
    pub(crate) end: Vec<u8>,
    pub(crate) min_seq: SeqNo,
    pub(crate) max_seq: SeqNo,
    pub(crate) in_memory: InMemory,
}

/// The tombstones themselves, once somebody has them. They are no part of what is listed.
#[derive(Clone, Default)]
pub(crate) struct InMemory(Arc<OnceLock<Arc<RangeTombstones>>>);

impl InMemory {
    pub(crate) fn get(&self) -> Option<&Arc<RangeTombstones>> {
        self.0.get()
    }

    pub(crate) fn set(&self, tombstones: &Arc<RangeTombstones>) {
        self.0.get_or_init(|| Arc::clone(tombstones));
    }
}

impl PartialEq for InMemory {
    fn eq(&self, _: &InMemory) -> bool {
        true
    }
}

impl Eq for InMemory {}

impl fmt::Debug for InMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InMemory")
    }
}

impl RangeSection {
    /// None yet, of those that are to begin at `offset`.
    pub(crate) fn begin(offset: u64) -> RangeSection {
        RangeSection {
            offset,
            count: 0,
            start: Vec::new(),
            end: Vec::new(),
            min_seq: SeqNo::MAX,
            max_seq: SeqNo(0),
            in_memory: InMemory::default(),
        }
    }

    /// Counts one more.
    pub(crate) fn add(&mut self, tombstone: RangeRef<'_>) {
        if self.count == 0 || tombstone.start < self.start.as_slice() {
            self.start.clear();
            self.start.extend_from_slice(tombstone.start);
        }
        if tombstone.end > self.end.as_slice() {
            self.end.clear();
            self.end.extend_from_slice(tombstone.end);
        }
        self.count += 1;
        self.min_seq = self.min_seq.min(tombstone.seq);
        self.max_seq = self.max_seq.max(tombstone.seq);
    }

    /// Whether one of them may cover a key from `first` to before `end`; `None`: to the last.
    pub(crate) fn may_touch(&self, first: &[u8], end: Option<&[u8]>) -> bool {
        first < self.end.as_slice() && end.is_none_or(|end| self.start.as_slice() < end)
    }

    /// The same, of one key.
    pub(crate) fn may_cover(&self, key: &[u8]) -> bool {
        self.start.as_slice() <= key && key < self.end.as_slice()
    }

    /// The bytes, in the file's properties and in the manifest.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let numbers = [self.offset, self.count, self.min_seq.0, self.max_seq.0];
        numbers.into_iter().for_each(|n| put_varint(&mut out, n));
        put_prefixed(&mut out, &self.start);
        put_prefixed(&mut out, &self.end);
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<RangeSection> {
        let mut d = Decoder::new(bytes);
        let (offset, count) = (d.varint()?, d.varint()?);
        let (min_seq, max_seq) = (SeqNo(d.varint()?), SeqNo(d.varint()?));
        let (start, end) = (d.prefixed()?.to_vec(), d.prefixed()?.to_vec());
        let seqs_are_sound = min_seq <= max_seq && max_seq <= SeqNo::MAX;
        let is_sound = offset >= HEADER_LEN as u64 && count > 0 && start < end && seqs_are_sound;
        (is_sound && d.is_empty()).then_some(RangeSection {
            offset,
            count,
            start,
            end,
            min_seq,
            max_seq,
            in_memory: InMemory::default(),
        })
    }
}
