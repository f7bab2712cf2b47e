//! A skiplist of entries in an arena: one writer, any number of lock-free readers.
//!
//! Entries stand in internal order (key ascending, newest first) and are never changed, moved or
//! removed; all memory is released with the list. So a reader needs no guard: whoever holds the
//! list may follow any link it has read.
//!
//! ```text
//! node:  next[height-1] … next[1] next[0] | seq, key_len, kind, flags | key, zero-padded | prev, value, value_len [expiry]
//!        \______ tower, grows downwards _/ \______ Node, 16 bytes ___/                    \_______ Tail ________/
//! ```
//!
//! What a search reads stands together: the lowest links, the sequence number and the first key
//! bytes mostly share a cache line, and 16 key bytes are compared as one number. The value stands
//! elsewhere in the arena.
//!
//! **Publication.** A node is complete before the first `Release` store of its address into a link;
//! readers load links with `Acquire`. Links at level 0 define the content; higher links only
//! shorten the way. `prev` is set last: walking backward passes over an entry whose insert has not
//! yet returned, and over no other.
//!
//! Lock: `SkipList::writer`, held during one insert. Under it only `ArenaPool::idle` is taken.

#![allow(
    unsafe_code,
    reason = "links between arena nodes, read without locks beside one writer"
)]

use super::MemEntry;
use super::arena::{Arena, ArenaPool, NODE_ALIGN};
use crate::base::keys::{KEYSPACE_PREFIX_LEN, Kind, MAX_USER_KEY_LEN, MAX_VALUE_LEN, SeqNo};
use parking_lot::Mutex;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

/// With one node in four rising a level, enough for 16 million entries.
const MAX_HEIGHT: usize = 12;
/// Key bytes compared as one number. A node has at least so many, padded with zeros.
const HEAD_LEN: usize = 16;
const NODE_LEN: usize = size_of::<Node>();
const LINK_LEN: usize = size_of::<Link>();

type Link = AtomicPtr<Node>;

/// The fixed part of a node; the tower stands below it, the key and the [`Tail`] above.
#[repr(C)]
struct Node {
    seq: SeqNo,
    key_len: u32,
    kind: Kind,
    has_expiry: bool,
}

/// The part of a node that a search does not need.
#[repr(C)]
struct Tail {
    prev: Link,
    value: NonNull<u8>,
    value_len: u32,
}

/// A node of a list that is alive. The pointer may reach the whole node, not just its fixed part.
#[derive(Clone, Copy, PartialEq, Eq)]
struct NodeRef(NonNull<Node>);

/// Bytes that a key takes in a node.
fn padded_key_len(key_len: usize) -> usize {
    key_len.max(HEAD_LEN).next_multiple_of(NODE_ALIGN)
}

impl NodeRef {
    fn from_link(node: *mut Node) -> Option<NodeRef> {
        NonNull::new(node).map(NodeRef)
    }

    fn as_ptr(self) -> *mut Node {
        self.0.as_ptr()
    }

    /// The fixed part, which never changes. The lifetime is bounded by the callers, who hold the
    /// list.
    fn fixed<'a>(self) -> &'a Node {
        // SAFETY: a `NodeRef` names a complete node of a live list, and the fixed part is not
        // written after publication.
        unsafe { self.0.as_ref() }
    }

    /// The link of `level`, which must be below the node's height.
    fn link<'a>(self, level: usize) -> &'a Link {
        // SAFETY: nodes are reached at `level` only through links of that level, which the writer
        // sets only for nodes whose tower reaches it; the tower was initialised before publication
        // and is accessed only as atomics afterwards.
        unsafe { &*self.as_ptr().cast::<Link>().sub(1 + level) }
    }

    fn next(self, level: usize) -> Option<NodeRef> {
        NodeRef::from_link(self.link(level).load(Ordering::Acquire))
    }

    fn key_start(self) -> *const u8 {
        // SAFETY: the key follows the fixed part within the same allocation.
        unsafe { self.as_ptr().cast::<u8>().add(NODE_LEN) }
    }

    fn key<'a>(self) -> &'a [u8] {
        // SAFETY: `key_len` bytes were written there before publication.
        unsafe { std::slice::from_raw_parts(self.key_start(), self.fixed().key_len as usize) }
    }

    /// The first key bytes as a number.
    fn head(self) -> u128 {
        // SAFETY: a key is padded to at least `HEAD_LEN` initialised bytes.
        u128::from_be(unsafe { self.key_start().cast::<u128>().read_unaligned() })
    }

    fn tail_ptr(self) -> *mut Tail {
        let offset = NODE_LEN + padded_key_len(self.fixed().key_len as usize);
        // SAFETY: the tail follows the padded key within the same allocation.
        unsafe { self.as_ptr().cast::<u8>().add(offset).cast() }
    }

    fn tail<'a>(self) -> &'a Tail {
        // SAFETY: the tail is complete and aligned; afterwards only its atomic link changes.
        unsafe { &*self.tail_ptr() }
    }

    fn entry<'a>(self) -> MemEntry<'a> {
        let node = self.fixed();
        let tail = self.tail();
        // SAFETY: a node with an expiry has one initialised u64 behind its tail.
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

    /// Whether this entry comes before `target` in internal order.
    #[inline(always)]
    fn is_before(self, target: &Target<'_>) -> bool {
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
struct Target<'a> {
    head: u128,
    key: &'a [u8],
    seq: SeqNo,
}

impl<'a> Target<'a> {
    fn new(key: &'a [u8], seq: SeqNo) -> Target<'a> {
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

/// What only the writer touches.
struct Writer {
    arena: Arena,
    /// On each level the last node before the place where the last insert ended, its own node
    /// included: where a sequential load goes on.
    before: [NodeRef; MAX_HEIGHT],
    random: u64,
}

impl Writer {
    /// 1, and one more with probability 1/4 each.
    fn random_height(&mut self) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random.trailing_zeros() as usize / 2 + 1).min(MAX_HEIGHT)
    }

    /// A complete node that no link names yet, its tower empty.
    fn new_node(&mut self, height: usize, entry: &MemEntry<'_>, prev: *mut Node) -> NodeRef {
        let key_len = entry.key.len();
        let padded_len = padded_key_len(key_len);
        let expiry_len = if entry.expiry_ms.is_some() {
            size_of::<u64>()
        } else {
            0
        };
        let tower_len = height * LINK_LEN;
        let len = tower_len + NODE_LEN + padded_len + size_of::<Tail>() + expiry_len;
        let value = self.arena.alloc_value(entry.value.len());
        let start = self.arena.alloc_node(len);
        let fixed = Node {
            seq: entry.seq,
            key_len: key_len as u32,
            kind: entry.kind,
            has_expiry: entry.expiry_ms.is_some(),
        };
        let tail = Tail {
            prev: Link::new(prev),
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
}

/// The skiplist.
pub(super) struct SkipList {
    /// A node with a full tower and no entry, in front of all others.
    head: NodeRef,
    /// Levels in use.
    height: AtomicUsize,
    len: AtomicUsize,
    bytes: AtomicUsize,
    min_seq: AtomicU64,
    max_seq: AtomicU64,
    /// Owns the memory of all nodes.
    writer: Mutex<Writer>,
}

// SAFETY: nodes are owned by the list (through the arena) and hold plain bytes. Readers access only
// what was complete before publication, and atomics; the rest is behind the writer's mutex.
unsafe impl Send for SkipList {}
// SAFETY: as above.
unsafe impl Sync for SkipList {}

impl SkipList {
    pub(super) fn new(pool: &Arc<ArenaPool>) -> SkipList {
        let placeholder = NodeRef(NonNull::dangling());
        let mut writer = Writer {
            arena: Arena::new(pool),
            before: [placeholder; MAX_HEIGHT],
            random: 0x9e37_79b9_7f4a_7c15,
        };
        let nothing = MemEntry {
            key: &[],
            seq: SeqNo(0),
            kind: Kind::Put,
            expiry_ms: None,
            value: &[],
        };
        let head = writer.new_node(MAX_HEIGHT, &nothing, ptr::null_mut());
        writer.before = [head; MAX_HEIGHT];
        SkipList {
            head,
            height: AtomicUsize::new(1),
            len: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            min_seq: AtomicU64::new(u64::MAX),
            max_seq: AtomicU64::new(0),
            writer: Mutex::new(writer),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The lowest and the highest sequence number, once there is an entry.
    pub(super) fn seq_range(&self) -> Option<(SeqNo, SeqNo)> {
        (self.len() > 0).then(|| {
            let min = self.min_seq.load(Ordering::Relaxed);
            (SeqNo(min), SeqNo(self.max_seq.load(Ordering::Relaxed)))
        })
    }

    /// Adds an entry. Of two entries with the same key and sequence number the later one stands
    /// first.
    pub(super) fn insert(&self, entry: &MemEntry<'_>) {
        // The lengths are stored in 32 bits; what is longer never gets past a batch.
        assert!(entry.key.len() <= KEYSPACE_PREFIX_LEN + MAX_USER_KEY_LEN);
        assert!(entry.value.len() <= MAX_VALUE_LEN);
        let target = Target::new(entry.key, entry.seq);
        let mut guard = self.writer.lock();
        let writer = &mut *guard;
        if !self.continues(writer.before[0], &target) {
            self.last_before(&target, |level, node| writer.before[level] = node);
        }
        let height = writer.random_height();
        let node = writer.new_node(height, entry, writer.before[0].as_ptr());
        self.link_in(node, &mut writer.before[..height]);
        self.count(entry.seq, writer.arena.used_bytes());
    }

    /// Whether `target` belongs right behind `last`, so that all that was found out about the place
    /// of `last` holds.
    fn continues(&self, last: NodeRef, target: &Target<'_>) -> bool {
        (last == self.head || last.is_before(target))
            && last.next(0).is_none_or(|next| !next.is_before(target))
    }

    /// Publishes `node` behind `before` on the levels of its tower, the lowest first.
    fn link_in(&self, node: NodeRef, before: &mut [NodeRef]) {
        if before.len() > self.height.load(Ordering::Relaxed) {
            // Readers may see it before or after the links: the head's are null or good.
            self.height.store(before.len(), Ordering::Relaxed);
        }
        let next = before[0].link(0).load(Ordering::Relaxed);
        for (level, place) in before.iter_mut().enumerate() {
            let link = place.link(level);
            node.link(level)
                .store(link.load(Ordering::Relaxed), Ordering::Relaxed);
            link.store(node.as_ptr(), Ordering::Release);
            *place = node;
        }
        if let Some(next) = NodeRef::from_link(next) {
            next.tail().prev.store(node.as_ptr(), Ordering::Release);
        }
    }

    /// Updates the counters; the caller holds the writer's lock, so plain stores do.
    fn count(&self, seq: SeqNo, used_bytes: usize) {
        self.bytes.store(used_bytes, Ordering::Relaxed);
        if seq.0 < self.min_seq.load(Ordering::Relaxed) {
            self.min_seq.store(seq.0, Ordering::Relaxed);
        }
        if seq.0 > self.max_seq.load(Ordering::Relaxed) {
            self.max_seq.store(seq.0, Ordering::Relaxed);
        }
        self.len
            .store(self.len.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// The last node before `target` (the head if there is none). `visit` hears of the last one on
    /// each level in use.
    #[inline(always)]
    fn last_before(&self, target: &Target<'_>, mut visit: impl FnMut(usize, NodeRef)) -> NodeRef {
        let mut node = self.head;
        // The node at which a higher level stopped: known not to be before the target.
        let mut stop = ptr::null_mut();
        for level in (0..self.height.load(Ordering::Relaxed)).rev() {
            loop {
                let next = node.link(level).load(Ordering::Acquire);
                if next == stop {
                    break;
                }
                match NodeRef::from_link(next) {
                    Some(next) if next.is_before(target) => node = next,
                    _ => {
                        stop = next;
                        break;
                    }
                }
            }
            visit(level, node);
        }
        node
    }

    fn first_at_or_after(&self, target: &Target<'_>) -> Option<NodeRef> {
        let mut node = self.last_before(target, |_, _| ()).next(0);
        // A concurrent insert may have put entries between: pass those before the target.
        while let Some(found) = node {
            if !found.is_before(target) {
                break;
            }
            node = found.next(0);
        }
        node
    }

    /// The newest version of `key` at or below `snapshot`.
    pub(super) fn get(&self, key: &[u8], snapshot: SeqNo) -> Option<MemEntry<'_>> {
        let node = self.first_at_or_after(&Target::new(key, snapshot))?;
        (node.key() == key).then(|| node.entry())
    }

    fn last(&self) -> NodeRef {
        let mut node = self.head;
        for level in (0..self.height.load(Ordering::Relaxed)).rev() {
            while let Some(next) = node.next(level) {
                node = next;
            }
        }
        node
    }

    /// The node right before `node`, or `None` for the first.
    fn previous(&self, node: NodeRef) -> Option<NodeRef> {
        let before = NodeRef::from_link(node.tail().prev.load(Ordering::Acquire))?;
        (before != self.head).then_some(before)
    }
}

/// A place in a list, which it keeps alive.
pub(super) struct Cursor {
    list: Arc<SkipList>,
    /// A node of `list`, never its head.
    node: Option<NodeRef>,
}

// SAFETY: the node belongs to `list`, which is `Send` and `Sync` and kept alive.
unsafe impl Send for Cursor {}
// SAFETY: as above; moving needs `&mut`.
unsafe impl Sync for Cursor {}

impl Cursor {
    pub(super) fn new(list: &Arc<SkipList>) -> Cursor {
        Cursor {
            list: Arc::clone(list),
            node: None,
        }
    }

    pub(super) fn seek_to_first(&mut self) {
        self.node = self.list.head.next(0);
    }

    pub(super) fn seek_to_last(&mut self) {
        let last = self.list.last();
        self.node = (last != self.list.head).then_some(last);
    }

    pub(super) fn seek(&mut self, key: &[u8], seq: SeqNo) {
        self.node = self.list.first_at_or_after(&Target::new(key, seq));
    }

    pub(super) fn next(&mut self) {
        self.node = self.node.and_then(|node| node.next(0));
    }

    pub(super) fn prev(&mut self) {
        self.node = self.node.and_then(|node| self.list.previous(node));
    }

    pub(super) fn entry(&self) -> Option<MemEntry<'_>> {
        self.node.map(NodeRef::entry)
    }
}
