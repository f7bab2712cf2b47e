//! A skiplist of entries in an arena: one writer, any number of lock-free readers.
//!
//! Entries stand in internal order (key ascending, newest first) and are never changed, moved or
//! removed; all memory is released with the list. So a reader needs no guard: whoever holds the
//! list may follow any link it has read. How a node looks is told in `node`.
//!
//! **Publication.** A node is complete before the first `Release` store of its address into a link;
//! readers load links with `Acquire`. Links at level 0 define the content; higher links only
//! shorten the way. `prev` is set last: walking backward passes over an entry whose insert has not
//! yet returned, and over no other.
//!
//! Lock: `SkipList::writer`, held during one insert. Under it only `ArenaPool::idle` is taken.

use super::MemEntry;
use super::arena::{Arena, ArenaPool};
use super::node::{NodeRef, Target, new_node};
use crate::base::keys::{KEYSPACE_PREFIX_LEN, Kind, MAX_USER_KEY_LEN, MAX_VALUE_LEN, SeqNo};
use crate::base::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::base::sync::{self, Mutex, Weakness, order};
use std::ptr;
use std::sync::Arc;

/// With one node in four rising a level, enough for 16 million entries.
const MAX_HEIGHT: usize = 12;

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
}

/// The skiplist.
pub(super) struct SkipList {
    /// A node with a full tower and no entry, in front of all others.
    head: NodeRef,
    /// Levels in use.
    height: AtomicUsize,
    len: AtomicUsize,
    bytes: AtomicUsize,
    key_bytes: AtomicUsize,
    max_seq: AtomicU64,
    /// Owns the memory of all nodes.
    writer: Mutex<Writer>,
}

impl SkipList {
    pub(super) fn new(pool: &Arc<ArenaPool>) -> SkipList {
        let mut arena = Arena::new(pool);
        let nothing = MemEntry {
            key: &[],
            seq: SeqNo(0),
            kind: Kind::Put,
            expiry_ms: None,
            value: &[],
        };
        let head = new_node(&mut arena, MAX_HEIGHT, &nothing, ptr::null_mut());
        let before = [head; MAX_HEIGHT];
        let writer = Writer {
            arena,
            before,
            random: 0x9e37_79b9_7f4a_7c15,
        };
        SkipList {
            head,
            height: AtomicUsize::new(1),
            len: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            key_bytes: AtomicUsize::new(0),
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

    /// Bytes of the keys, those of older versions included.
    pub(super) fn key_bytes(&self) -> usize {
        self.key_bytes.load(Ordering::Relaxed)
    }

    /// The highest sequence number, once there is an entry.
    pub(super) fn max_seq(&self) -> Option<SeqNo> {
        (self.len() > 0).then(|| SeqNo(self.max_seq.load(Ordering::Relaxed)))
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
        let node = new_node(&mut writer.arena, height, entry, writer.before[0].as_ptr());
        self.link_in(node, &mut writer.before[..height]);
        self.count(entry, writer.arena.used_bytes());
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
            link.store(node.as_ptr(), order(Weakness::NodeLink, Ordering::Release));
            *place = node;
        }
        if let Some(next) = NodeRef::from_link(next) {
            let ordering = order(Weakness::NodePrev, Ordering::Release);
            next.prev_link().store(node.as_ptr(), ordering);
        }
    }

    /// Updates the counters; the caller holds the writer's lock, so plain stores do.
    fn count(&self, entry: &MemEntry<'_>, used_bytes: usize) {
        self.bytes.store(used_bytes, Ordering::Relaxed);
        let key_bytes = self.key_bytes() + entry.key.len();
        self.key_bytes.store(key_bytes, Ordering::Relaxed);
        if entry.seq.0 > self.max_seq.load(Ordering::Relaxed) {
            self.max_seq.store(entry.seq.0, Ordering::Relaxed);
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
        let before = NodeRef::from_link(node.prev_link().load(Ordering::Acquire))?;
        (before != self.head).then_some(before)
    }
}

/// A place in a list, which it keeps alive.
pub(super) struct Cursor {
    list: sync::Arc<SkipList>,
    /// A node of `list`, never its head.
    node: Option<NodeRef>,
}

impl Cursor {
    pub(super) fn new(list: &sync::Arc<SkipList>) -> Cursor {
        Cursor {
            list: sync::Arc::clone(list),
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
