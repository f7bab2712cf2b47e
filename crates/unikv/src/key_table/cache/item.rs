//! What the read cache holds.

use crate::key_table::block::Block;
use crate::key_table::fences::Fences;
use crate::key_table::item_log::LogItem;
use bytes::Bytes;
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

    pub(super) fn record(self) -> Option<Bytes> {
        match self {
            Item::Record(frame) => Some(frame),
            Item::Block(_) | Item::Fences(_) => None,
        }
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

    /// Blocks stay within the engine; see `ReadCache::hold_segment`.
    fn apart(&self) -> Item {
        match self {
            Item::Block(_) | Item::Fences(_) => self.clone(),
            Item::Record(frame) => Item::Record(Bytes::copy_from_slice(frame)),
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
