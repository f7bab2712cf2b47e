//! What the read cache holds.

use crate::item_log::LogItem;
use crate::item_log::read_buffers::has_long_head;
use crate::key_table::block::Block;
use crate::key_table::block::fences::Fences;
use bytes::Bytes;
use std::ops::Range;
use std::sync::Arc;

#[derive(Clone)]
pub(super) enum Item {
    Block(Arc<Block>),
    Fences(Arc<Fences>),
    Record(Bytes),
}

impl Item {
    pub(super) fn block(self) -> Option<Arc<Block>> {
        match self {
            Item::Block(block) => Some(block),
            Item::Fences(_) | Item::Record(_) => None,
        }
    }

    pub(super) fn fences(self) -> Option<Arc<Fences>> {
        match self {
            Item::Fences(fences) => Some(fences),
            Item::Block(_) | Item::Record(_) => None,
        }
    }

    /// `is_stored`: in a segment, with others.
    pub(super) fn frame(&self, is_stored: bool) -> Option<CachedFrame<'_>> {
        match self {
            Item::Record(frame) => Some(CachedFrame { frame, is_stored }),
            Item::Block(_) | Item::Fences(_) => None,
        }
    }
}

/// The frame of a record, in the cache.
pub(crate) struct CachedFrame<'a> {
    frame: &'a Bytes,
    is_stored: bool,
}

impl CachedFrame<'_> {
    pub(crate) fn bytes(&self) -> &[u8] {
        self.frame
    }

    /// A part of it for somebody who may hold it for long, and then should not hold a whole
    /// segment, nor a key that is longer.
    #[inline]
    pub(crate) fn part(&self, place: Range<usize>) -> Option<Bytes> {
        let part = self.frame.get(place.clone())?;
        Some(
            if self.is_stored || has_long_head(place.start, part.len()) {
                Bytes::copy_from_slice(part)
            } else {
                self.frame.slice_ref(part)
            },
        )
    }
}

impl LogItem for Item {
    fn bytes(&self) -> &[u8] {
        match self {
            Item::Block(block) => block.bytes(),
            Item::Fences(_) => &[],
            Item::Record(frame) => frame,
        }
    }

    fn set_bytes(&mut self, bytes: Bytes) {
        match self {
            Item::Block(block) => block.set_bytes(bytes),
            Item::Fences(_) => {}
            Item::Record(frame) => *frame = bytes,
        }
    }

    fn beside_bytes(&self) -> usize {
        match self {
            Item::Block(block) => block.memory_bytes() - block.bytes().len(),
            Item::Fences(fences) => fences.memory_bytes(),
            Item::Record(_) => 0,
        }
    }
}
