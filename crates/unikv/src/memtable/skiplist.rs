//! The order of a memtable's entries: a skiplist over nodes of its arena, one writer, any number of
//! lock-free readers.
//!
//! Nodes stand in internal order (key ascending, newest first) and are never moved or removed. How
//! a node looks is described in `node`; who writes, in `entries`.
//!
//! **Publication.** A node is complete before the first `Release` store of its address into a link;
//! readers load links with `Acquire`. Links at level 0 define the content; higher links only
//! shorten the way. `prev` is set last: walking backward passes over an entry whose insert has not
//! yet returned, and over no other.

use super::node::{NodeRef, Target};
use crate::base::sync::atomic::{AtomicUsize, Ordering};
use crate::base::sync::{Weakness, order};
use std::ptr;

/// With one node in four rising a level, enough for 16 million entries.
pub(super) const MAX_HEIGHT: usize = 12;

/// On each level the last node before the place where the last insert ended, its own node included:
/// where a sequential load goes on. The writer's.
pub(super) type Before = [NodeRef; MAX_HEIGHT];

/// The skiplist.
pub(super) struct SkipList {
    /// A node with a full tower and no entry, before all others.
    head: NodeRef,
    /// Levels in use.
    height: AtomicUsize,
}

impl SkipList {
    /// An empty list after `head`, which has a full tower.
    pub(super) fn new(head: NodeRef) -> SkipList {
        SkipList {
            head,
            height: AtomicUsize::new(1),
        }
    }

    /// Where the first insert begins.
    pub(super) fn beginning(&self) -> Before {
        [self.head; MAX_HEIGHT]
    }

    /// Adds a node. Of two with the same key and sequence number the later one stands first.
    pub(super) fn insert(&self, node: NodeRef, before: &mut Before) {
        let target = node.target();
        if !self.continues(before[0], &target) {
            self.last_before(&target, |level, node| before[level] = node);
        }
        self.link_in(node, &mut before[..node.height()]);
    }

    /// Whether `target` belongs right after `last`, so that all that was found out about the place
    /// of `last` holds.
    fn continues(&self, last: NodeRef, target: &Target<'_>) -> bool {
        (last == self.head || last.is_before(target))
            && last.next(0).is_none_or(|next| !next.is_before(target))
    }

    /// Publishes `node` after `before` on the levels of its tower, the lowest first.
    fn link_in(&self, node: NodeRef, before: &mut [NodeRef]) {
        node.prev_link()
            .store(before[0].as_ptr(), Ordering::Relaxed);
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

    /// The first node at or after `target`.
    pub(super) fn first_at_or_after(&self, target: &Target<'_>) -> Option<NodeRef> {
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

    /// The first node.
    pub(super) fn first(&self) -> Option<NodeRef> {
        self.head.next(0)
    }

    /// The last node.
    pub(super) fn last(&self) -> Option<NodeRef> {
        let mut node = self.head;
        for level in (0..self.height.load(Ordering::Relaxed)).rev() {
            while let Some(next) = node.next(level) {
                node = next;
            }
        }
        (node != self.head).then_some(node)
    }

    /// The node right before `node`, or `None` for the first.
    pub(super) fn previous(&self, node: NodeRef) -> Option<NodeRef> {
        let before = NodeRef::follow(node.prev_link())?;
        (before != self.head).then_some(before)
    }
}
