//! The entries of a memtable: found by hash, and put in order when somebody asks for the order.
//! Sorting at the flush costs a fraction of as many inserts into a list; once a memtable is
//! scanned, it and the next one are ordered as they grow.
//!
//! Invariants: before `is_ordered`, readers follow no link of a tower: nodes hang after
//! `Writer::unordered` by those of level 0, or `ordering` is putting them into the list. After it,
//! all nodes are in the list. All memory is released with the last holder, so readers need no
//! guard.
//!
//! Lock: `Entries::writer`, held during one insert, or while a few nodes are put in order, or while
//! what has come since is looked at for a gap. Under it only `ArenaPool::idle` and the lock of the
//! gaps are taken.

pub(super) mod gaps;
mod ordering;

use super::MemEntry;
use super::arena::{Arena, ArenaPool};
use super::buckets::Buckets;
use super::node::{NodeRef, Target, new_node};
use super::skiplist::{Before, MAX_HEIGHT, SkipList};
use crate::base::keys::{KEYSPACE_PREFIX_LEN, Kind, MAX_USER_KEY_LEN, MAX_VALUE_LEN, SeqNo};
use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use gaps::{GapReader, Gaps};
use std::sync::Arc;

/// An entry among those that are being sorted: the beginning of its key, how many came after it,
/// its node.
type Unsorted = (u128, u64, NodeRef);

/// This many newer versions a look-up for an older moment passes over, before it looks in the
/// order.
const MOST_STEPS: usize = 32;

/// Entries that are looked at for a gap under the lock at a time.
const LOOKED_AT: u64 = 1024;

/// What only the writer touches.
struct Writer {
    arena: Arena,
    /// Whether nodes are put into the list as they come.
    links: bool,
    /// The last of the nodes that were not, and how many of them nobody has taken.
    unordered: Option<NodeRef>,
    unordered_len: usize,
    before: Before,
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

    /// The newest of the nodes that are in no order, and how many they are. From now on there are
    /// none.
    fn take_unordered(&mut self) -> (Option<NodeRef>, usize) {
        let len = std::mem::take(&mut self.unordered_len);
        (self.unordered.take(), len)
    }
}

/// The entries.
pub(super) struct Entries {
    by_key: Buckets,
    list: SkipList,
    /// Whether the list has all entries.
    is_ordered: AtomicBool,
    /// Whether anybody has asked for the order.
    is_scanned: AtomicBool,
    len: AtomicUsize,
    bytes: AtomicUsize,
    key_bytes: AtomicUsize,
    max_seq: AtomicU64,
    /// Counts the memory of a sort.
    pool: Arc<ArenaPool>,
    /// Where iterators have found nothing. None before there is an order.
    gaps: Gaps,
    /// Held while the entries are put in order.
    ordering: Mutex<()>,
    /// Owns the memory of all nodes.
    writer: Mutex<Writer>,
}

impl Entries {
    /// None yet; with `ordered` they are put in order as they come.
    pub(super) fn new(pool: &Arc<ArenaPool>, ordered: bool) -> Entries {
        let mut arena = Arena::new(pool);
        let nothing = MemEntry {
            key: &[],
            seq: SeqNo(0),
            kind: Kind::Put,
            expiry_ms: None,
            value: &[],
        };
        let list = SkipList::new(new_node(&mut arena, MAX_HEIGHT, &nothing, 0));
        let writer = Writer {
            arena,
            links: ordered,
            unordered: None,
            unordered_len: 0,
            before: list.beginning(),
            random: 0x9e37_79b9_7f4a_7c15,
        };
        Entries {
            by_key: Buckets::new(pool),
            list,
            is_ordered: AtomicBool::new(ordered),
            is_scanned: AtomicBool::new(false),
            len: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            key_bytes: AtomicUsize::new(0),
            max_seq: AtomicU64::new(0),
            pool: Arc::clone(pool),
            gaps: Gaps::new(pool),
            ordering: Mutex::default(),
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

    /// Whether anybody has asked for the order.
    pub(super) fn is_scanned(&self) -> bool {
        self.is_scanned.load(Ordering::Relaxed)
    }

    /// Memory that it takes to put the entries in order, if they are not.
    pub(super) fn ordering_bytes(&self) -> usize {
        if self.is_ordered() {
            0
        } else {
            self.len() * size_of::<Unsorted>()
        }
    }

    pub(super) fn is_ordered(&self) -> bool {
        self.is_ordered.load(Ordering::Acquire)
    }

    /// Adds an entry, whose key has this hash. Of two entries with the same key and sequence number
    /// the later one stands first.
    pub(super) fn insert(&self, entry: &MemEntry<'_>, hash: u64) {
        // The lengths are stored in 32 bits; what is longer never gets past a batch.
        assert!(entry.key.len() <= KEYSPACE_PREFIX_LEN + MAX_USER_KEY_LEN);
        assert!(entry.value.len() <= MAX_VALUE_LEN);
        let mut guard = self.writer.lock();
        let writer = &mut *guard;
        let height = writer.random_height();
        let node = new_node(&mut writer.arena, height, entry, Buckets::tag(hash));
        if writer.links {
            self.list.insert(node, &mut writer.before);
            if entry.kind != Kind::Delete {
                self.gaps.put(entry.key);
            }
        } else {
            let last = writer.unordered.replace(node);
            let last = last.map_or(std::ptr::null_mut(), NodeRef::as_ptr);
            node.link(0).store(last, Ordering::Relaxed);
            writer.unordered_len += 1;
        }
        self.by_key.insert(node, hash);
        self.count(entry, writer.arena.used_bytes());
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

    /// The newest version of `key`, which has this hash, at or below `snapshot`.
    #[inline(always)]
    pub(super) fn get(&self, key: &[u8], hash: u64, snapshot: SeqNo) -> Option<MemEntry<'_>> {
        self.node_of(key, hash, snapshot).map(NodeRef::entry)
    }

    /// See [`super::Memtable::any_newer`]. Nothing is put in order for it.
    pub(super) fn any_newer(&self, after: SeqNo, mut is_met: impl FnMut(&[u8]) -> bool) -> bool {
        let mut newest = self.by_key.all_newest();
        newest.any(|node| node.seq() > after && is_met(node.key()))
    }

    #[inline(always)]
    fn node_of(&self, key: &[u8], hash: u64, snapshot: SeqNo) -> Option<NodeRef> {
        let mut node = self.by_key.newest(key, hash)?;
        let mut steps = 0;
        while node.seq() > snapshot {
            steps += 1;
            if steps > MOST_STEPS && self.is_ordered() {
                let found = self.list.first_at_or_after(&Target::new(key, snapshot));
                return found.filter(|found| found.key() == key);
            }
            node = NodeRef::follow(node.older_link())?;
        }
        Some(node)
    }

    /// All entries in order.
    pub(super) fn in_order(&self) -> &SkipList {
        if !self.is_ordered() {
            self.put_in_order(|| ());
        }
        if !self.is_scanned() {
            self.is_scanned.store(true, Ordering::Relaxed);
        }
        &self.list
    }

    /// The entries with numbers after `after` and up to `until`, in the order of their numbers.
    pub(super) fn by_number(&self, after: SeqNo, until: SeqNo) -> Vec<(SeqNo, NodeRef)> {
        let (mut found, mut at) = (Vec::new(), self.in_order().first());
        while let Some(node) = at {
            let seq = node.entry().seq;
            if seq > after && seq <= until {
                found.push((seq, node));
            }
            at = node.next(0);
        }
        found.sort_unstable_by_key(|(seq, _)| *seq);
        found
    }

    pub(super) fn gaps(&self) -> &Gaps {
        &self.gaps
    }

    /// Adds a gap that `reader` has found, as far as no value has come since. It spares `steps`.
    #[cold]
    pub(super) fn add_gap(&self, (start, end): (&[u8], &[u8]), reader: &GapReader, steps: u64) {
        let list = self.in_order();
        let mut from = start.to_vec();
        while from.as_slice() < end {
            // Nothing is inserted while this is held.
            let _turn = self.writer.lock();
            if self.max_seq().is_none_or(|newest| newest <= reader.seq) {
                return self.gaps.add((&from, end), reader, steps);
            }
            let mut at = list.first_at_or_after(&Target::new(&from, SeqNo::MAX));
            let mut looked_at = 0;
            let (upto, is_cut) = loop {
                let Some(node) = at.filter(|node| node.key() < end) else {
                    break (end.to_vec(), false);
                };
                if node.seq() > reader.seq && node.entry().kind != Kind::Delete {
                    break (node.key().to_vec(), true);
                }
                if looked_at >= LOOKED_AT {
                    if node.key() > from.as_slice() {
                        break (node.key().to_vec(), false);
                    }
                    // Of one key there are many versions. The rest of them are older still, or too
                    // many have come since.
                    let is_older = node.seq() <= reader.seq;
                    break if is_older {
                        ([node.key(), &[0]].concat(), false)
                    } else {
                        (from.clone(), true)
                    };
                }
                looked_at += 1;
                at = node.next(0);
            };
            self.gaps.add((&from, &upto), reader, looked_at);
            if is_cut {
                return;
            }
            from = upto;
        }
    }
}
