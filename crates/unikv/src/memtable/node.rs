//! The nodes of a memtable: their layout (see [`Node`]), and the comparison that a search makes at
//! each.
//!
//! Contract with `entries`, `buckets` and `skiplist`, the only users: a [`NodeRef`] is followed
//! only while the arena that holds the node is alive, and nothing taken from it outlives a borrow
//! of the arena's owner. A node is complete when [`new_node`] returns; afterwards only its links
//! change, and those are atomics.

#![allow(
    unsafe_code,
    reason = "nodes of variable length in arena memory, read beside one writer"
)]

use super::MemEntry;
use super::arena::{Arena, NODE_ALIGN};
use crate::base::keys::{Kind, SeqNo, internal_cmp};
use crate::base::sync::Witness;
use crate::base::sync::atomic::{AtomicPtr, Ordering};
use std::ptr::{self, NonNull};

/// Key bytes compared as one number. A node has at least this many, padded with zeros.
const HEAD_LEN: usize = 16;
const NODE_LEN: usize = size_of::<Node>();
const LINK_LEN: usize = size_of::<Link>();

pub(super) type Link = AtomicPtr<Node>;

/// The fixed part of a node; the tower stands below it, the key and the [`Tail`] above:
///
/// ```text
/// tower, grows downwards:  next[height-1] … next[1] next[0]
/// Node, 24 bytes:          seq, chain, lengths, kind …
///                          key, zero-padded
/// Tail:                    prev, older, value, value_len [expiry]
/// ```
///
/// What a search reads stands together: the lowest links, the sequence number and the first key
/// bytes mostly share a cache line, and 16 key bytes are compared as one number. The value stands
/// elsewhere in the arena.
#[repr(C)]
pub(super) struct Node {
    seq: SeqNo,
    /// The next node of the bucket: see `buckets`.
    chain: Link,
    key_len: u32,
    kind: Kind,
    has_expiry: bool,
    height: u8,
    /// A part of the key's hash.
    tag: u8,
    /// Of all bytes of the node and its value that are not atomic.
    bytes: Witness,
}

/// The part of a node that a search does not need.
#[repr(C)]
struct Tail {
    prev: Link,
    /// The node of the version before this one.
    older: Link,
    value: NonNull<u8>,
    value_len: u32,
}

/// A node of a list that is alive. The pointer may reach the whole node, not just its fixed part.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct NodeRef(NonNull<Node>);

// SAFETY: nodes hold plain bytes and atomics; what is not atomic does not change after publication.
unsafe impl Send for NodeRef {}
// SAFETY: as above.
unsafe impl Sync for NodeRef {}

/// Bytes that a key takes in a node.
fn padded_key_len(key_len: usize) -> usize {
    key_len.max(HEAD_LEN).next_multiple_of(NODE_ALIGN)
}

impl NodeRef {
    #[inline]
    pub(super) fn from_link(node: *mut Node) -> Option<NodeRef> {
        NonNull::new(node).map(NodeRef)
    }

    /// The node that `link` leads to.
    #[inline]
    pub(super) fn follow(link: &Link) -> Option<NodeRef> {
        NodeRef::from_link(link.load(Ordering::Acquire))
    }

    pub(super) fn as_ptr(self) -> *mut Node {
        self.0.as_ptr()
    }

    /// The fixed part, which never changes. The lifetime is bounded by the callers, who hold the
    /// list.
    fn fixed<'a>(self) -> &'a Node {
        // SAFETY: a `NodeRef` names a complete node of a live list, and the fixed part is not
        // written after publication.
        let fixed = unsafe { self.0.as_ref() };
        fixed.bytes.read();
        fixed
    }

    /// The link of `level`, which must be below the node's height.
    #[inline]
    pub(super) fn link<'a>(self, level: usize) -> &'a Link {
        // SAFETY: nodes are reached at `level` only through links of that level, which the writer
        // sets only for nodes whose tower reaches it; the tower was initialised before publication
        // and is accessed only as atomics afterwards.
        unsafe { &*self.as_ptr().cast::<Link>().sub(1 + level) }
    }

    #[inline]
    pub(super) fn next(self, level: usize) -> Option<NodeRef> {
        NodeRef::follow(self.link(level))
    }

    /// The levels of its tower.
    pub(super) fn height(self) -> usize {
        usize::from(self.fixed().height)
    }

    /// The sequence number.
    #[inline]
    pub(super) fn seq(self) -> SeqNo {
        self.fixed().seq
    }

    /// Whether it is of `key`, of whose hash `tag` is a part.
    #[inline]
    pub(super) fn is_of(self, key: &[u8], tag: u8) -> bool {
        self.fixed().tag == tag && self.key() == key
    }

    /// The link to the next node of the bucket.
    #[inline]
    pub(super) fn chain_link<'a>(self) -> &'a Link {
        &self.fixed().chain
    }

    /// The link to the version before this one.
    pub(super) fn older_link<'a>(self) -> &'a Link {
        &self.tail().older
    }

    fn key_start(self) -> *const u8 {
        // SAFETY: the key follows the fixed part within the same allocation.
        unsafe { self.as_ptr().cast::<u8>().add(NODE_LEN) }
    }

    pub(super) fn key<'a>(self) -> &'a [u8] {
        // SAFETY: `key_len` bytes were written there before publication.
        unsafe { std::slice::from_raw_parts(self.key_start(), self.fixed().key_len as usize) }
    }

    /// The first key bytes as a number.
    #[inline]
    pub(super) fn head(self) -> u128 {
        self.fixed();
        // SAFETY: a key is padded to at least `HEAD_LEN` initialised bytes.
        u128::from_be(unsafe { self.key_start().cast::<u128>().read_unaligned() })
    }

    fn tail_ptr(self) -> *mut Tail {
        let offset = NODE_LEN + padded_key_len(self.fixed().key_len as usize);
        // SAFETY: the tail follows the padded key within the same allocation.
        unsafe { self.as_ptr().cast::<u8>().add(offset).cast() }
    }

    /// The link to the node before.
    pub(super) fn prev_link<'a>(self) -> &'a Link {
        &self.tail().prev
    }

    fn tail<'a>(self) -> &'a Tail {
        // SAFETY: the tail is complete and aligned; afterwards only its atomic link changes.
        unsafe { &*self.tail_ptr() }
    }

    #[inline]
    pub(super) fn entry<'a>(self) -> MemEntry<'a> {
        let node = self.fixed();
        let tail = self.tail();
        // SAFETY: a node with an expiry has one initialised u64 after its tail.
        let expiry_ms = node
            .has_expiry
            .then(|| unsafe { self.tail_ptr().add(1).cast::<u64>().read() });
        // SAFETY: `value_len` bytes were written there before publication and never change.
        let value = unsafe {
            std::slice::from_raw_parts(tail.value.as_ptr().cast_const(), tail.value_len as usize)
        };
        MemEntry {
            key: self.key(),
            seq: node.seq,
            kind: node.kind,
            expiry_ms,
            value,
        }
    }

    /// Its place in internal order.
    pub(super) fn target<'a>(self) -> Target<'a> {
        Target {
            head: self.head(),
            key: self.key(),
            seq: self.seq(),
        }
    }

    /// Where this entry stands beside another in internal order.
    pub(super) fn cmp_in_order(self, other: NodeRef) -> std::cmp::Ordering {
        internal_cmp((self.key(), self.seq()), (other.key(), other.seq()))
    }

    /// Whether this entry comes before `target` in internal order.
    #[inline(always)]
    pub(super) fn is_before(self, target: &Target<'_>) -> bool {
        let head = self.head();
        if head != target.head {
            head < target.head
        } else {
            self.is_before_same_head(target)
        }
    }

    fn is_before_same_head(self, target: &Target<'_>) -> bool {
        let key = self.key();
        let order = match (key.get(HEAD_LEN..), target.key.get(HEAD_LEN..)) {
            (Some(rest), Some(target_rest)) => rest.cmp(target_rest),
            // One is short enough to be padded: the padding says nothing.
            _ => key.cmp(target.key),
        };
        order
            .then_with(|| target.seq.cmp(&self.fixed().seq))
            .is_lt()
    }
}

/// A place in internal order.
pub(super) struct Target<'a> {
    head: u128,
    key: &'a [u8],
    seq: SeqNo,
}

impl<'a> Target<'a> {
    pub(super) fn new(key: &'a [u8], seq: SeqNo) -> Target<'a> {
        let head = key.first_chunk::<HEAD_LEN>().copied().unwrap_or_else(|| {
            let mut padded = [0; HEAD_LEN];
            padded[..key.len()].copy_from_slice(key);
            padded
        });
        Target {
            head: u128::from_be_bytes(head),
            key,
            seq,
        }
    }
}

/// A complete node that no link names yet, its links empty. `tag`: a part of the key's hash.
pub(super) fn new_node(arena: &mut Arena, height: usize, entry: &MemEntry<'_>, tag: u8) -> NodeRef {
    let key_len = entry.key.len();
    let padded_len = padded_key_len(key_len);
    let expiry_len = if entry.expiry_ms.is_some() {
        size_of::<u64>()
    } else {
        0
    };
    let tower_len = height * LINK_LEN;
    let len = tower_len + NODE_LEN + padded_len + size_of::<Tail>() + expiry_len;
    let value = arena.alloc_value(entry.value.len());
    let start = arena.alloc_node(len);
    let fixed = Node {
        seq: entry.seq,
        chain: Link::new(ptr::null_mut()),
        key_len: key_len as u32,
        kind: entry.kind,
        has_expiry: entry.expiry_ms.is_some(),
        height: height as u8,
        tag,
        bytes: Witness::new(),
    };
    let tail = Tail {
        prev: Link::new(ptr::null_mut()),
        older: Link::new(ptr::null_mut()),
        value,
        value_len: entry.value.len() as u32,
    };
    // SAFETY: `start` has `len` bytes and `value` has the value's length; both are fresh, so
    // nothing overlaps them. All parts are multiples of `NODE_ALIGN`, hence aligned.
    unsafe {
        ptr::copy_nonoverlapping(entry.value.as_ptr(), value.as_ptr(), entry.value.len());
        for level in 0..height {
            start
                .cast::<Link>()
                .add(level)
                .write(Link::new(ptr::null_mut()));
        }
        let node = start.add(tower_len).cast::<Node>();
        node.write(fixed);
        let key = node.cast::<u8>().add(NODE_LEN);
        ptr::copy_nonoverlapping(entry.key.as_ptr(), key.as_ptr(), key_len);
        key.add(key_len).write_bytes(0, padded_len - key_len);
        let tail_at = key.add(padded_len).cast::<Tail>();
        tail_at.write(tail);
        if let Some(expiry_ms) = entry.expiry_ms {
            tail_at.add(1).cast::<u64>().write(expiry_ms);
        }
        NodeRef(node)
    }
}
