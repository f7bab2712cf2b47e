//! A memtable's hash table: from a key to its newest version, and from there to the older ones.
//!
//! A bucket is a chain of nodes, one for each key: that of its newest version. The others of a key
//! hang behind that one, newest first. A newer version takes the place of its key's node in the
//! chain and links on to what that one linked to; so who stands at the old node goes on as before,
//! past what has come since, none of which its snapshot shows.
//!
//! **Publication.** As in `skiplist`: a node is complete, its own links included, before the
//! `Release` store of its address; readers load with `Acquire`. One writer at a time, which holds
//! the lock of `entries`.

use super::arena::ArenaPool;
use super::node::{Link, NodeRef};
use crate::base::sync::atomic::Ordering;
use crate::base::sync::{Weakness, order};
use std::sync::Arc;

/// Bytes of a memtable for each bucket: of entries of a kilobyte there are four times as many
/// buckets.
const BYTES_PER_BUCKET: usize = 256;
pub(super) const LEAST_BUCKETS: usize = 16;

/// The hash table.
pub(super) struct Buckets {
    heads: Box<[Link]>,
    /// Counts their memory.
    pool: Arc<ArenaPool>,
}

impl Buckets {
    /// Empty buckets for a memtable of the size that `pool` is made for.
    pub(super) fn new(pool: &Arc<ArenaPool>) -> Buckets {
        let count = pool.arena_bytes() / BYTES_PER_BUCKET;
        let count = count.next_power_of_two().max(LEAST_BUCKETS);
        let heads: Box<[Link]> = (0..count).map(|_| Link::default()).collect();
        pool.charge(size_of_val(&*heads));
        Buckets {
            heads,
            pool: Arc::clone(pool),
        }
    }

    /// The part of a key's hash that its node keeps.
    pub(super) fn tag(hash: u64) -> u8 {
        hash as u8
    }

    /// The newest version of `key`.
    #[inline]
    pub(super) fn newest(&self, key: &[u8], hash: u64) -> Option<NodeRef> {
        let tag = Buckets::tag(hash);
        let mut at = NodeRef::follow(self.bucket(hash));
        while let Some(node) = at {
            if node.is_of(key, tag) {
                return Some(node);
            }
            at = NodeRef::follow(node.chain_link());
        }
        None
    }

    /// The newest version of each key, in no order.
    pub(super) fn all_newest(&self) -> impl Iterator<Item = NodeRef> {
        self.heads.iter().flat_map(|head| {
            let next = |node: &NodeRef| NodeRef::follow(node.chain_link());
            std::iter::successors(NodeRef::follow(head), next)
        })
    }

    /// Adds `node`, whose key has this hash. Of two with the same key and sequence number the later
    /// one stands first.
    pub(super) fn insert(&self, node: NodeRef, hash: u64) {
        let (key, tag) = (node.key(), Buckets::tag(hash));
        let mut link = self.bucket(hash);
        while let Some(other) = NodeRef::follow(link) {
            if !other.is_of(key, tag) {
                link = other.chain_link();
                continue;
            }
            if other.seq() > node.seq() {
                return insert_below(node, other);
            }
            node.older_link().store(other.as_ptr(), Ordering::Relaxed);
            let next = other.chain_link().load(Ordering::Relaxed);
            node.chain_link().store(next, Ordering::Relaxed);
            break;
        }
        publish(link, node);
    }

    fn bucket(&self, hash: u64) -> &Link {
        &self.heads[number(hash, self.heads.len())]
    }
}

impl Drop for Buckets {
    fn drop(&mut self) {
        self.pool.discharge(size_of_val(&*self.heads));
    }
}

/// Which of `count` buckets, a power of two, is that of a key with this hash.
pub(super) fn number(hash: u64, count: usize) -> usize {
    // The lowest bits are the tag.
    (hash >> 32) as usize & (count - 1)
}

/// Adds `node` among the versions after `newer`, a later one of the same key.
#[cold]
fn insert_below(node: NodeRef, newer: NodeRef) {
    let mut link = newer.older_link();
    while let Some(other) = NodeRef::follow(link) {
        if other.seq() <= node.seq() {
            node.older_link().store(other.as_ptr(), Ordering::Relaxed);
            break;
        }
        link = other.older_link();
    }
    publish(link, node);
}

fn publish(link: &Link, node: NodeRef) {
    let ordering = order(Weakness::NodeChain, Ordering::Release);
    link.store(node.as_ptr(), ordering);
}
