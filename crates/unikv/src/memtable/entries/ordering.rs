//! Putting the entries of a memtable in order, once somebody asks for the order, beside a writer
//! that goes on.
//!
//! The nodes that have come so far are taken from the writer, sorted without its lock, and put into
//! the list, which nobody else touches yet. Meanwhile others come: they are taken in the same way,
//! in rounds, each of which leaves fewer, until few are left or the writer is too fast for that.
//! Then the writer puts its nodes into the list itself, and the rest is added under its lock, few
//! at a time. So a writer waits for [`LINKED_AT_ONCE`] nodes at most, however large the memtable.
//!
//! Lock: `Entries::ordering`, over all of that, and under it that of the writer for single steps.

use super::{Entries, Unsorted};
use crate::base::seeded::seeded;
use crate::base::sync::atomic::Ordering;
use crate::base::sync::{Weakness, order};
use crate::memtable::Reserved;
use crate::memtable::node::NodeRef;

/// Nodes that are added to the list while the writer waits.
pub(super) const LINKED_AT_ONCE: usize = 128;
/// Rounds after which the writer takes part.
const MOST_ROUNDS: usize = 16;

impl Entries {
    /// Puts all entries in order. `between` is called after each step that holds no lock of the
    /// writer. Returns how many nodes were added at most while the writer waited.
    #[cold]
    pub(in crate::memtable) fn put_in_order(&self, mut between: impl FnMut()) -> usize {
        let _turn = self.ordering.lock();
        if self.is_ordered() {
            return 0;
        }
        let mut before = self.list.beginning();
        for _ in 0..MOST_ROUNDS {
            let (newest, len) = self.writer.lock().take_unordered();
            let _counted = self.count_sort(len);
            for (_, _, node) in sorted(newest, len) {
                // Mostly each belongs after the one before, and nothing is searched.
                self.list.insert(node, &mut before);
            }
            between();
            if len <= LINKED_AT_ONCE {
                break;
            }
        }
        let mut writer = self.writer.lock();
        let (newest, len) = writer.take_unordered();
        writer.before = before;
        writer.links = true;
        drop(writer);
        let _counted = self.count_sort(len);
        let rest = sorted(newest, len);
        let mut most = 0;
        for part in rest.chunks(LINKED_AT_ONCE) {
            let mut writer = self.writer.lock();
            for (_, _, node) in part.iter().filter(|_| !seeded!(ComesWhileOrdering)) {
                self.list.insert(*node, &mut writer.before);
            }
            drop(writer);
            most = most.max(part.len());
            between();
        }
        let ordering = order(Weakness::EntriesOrdered, Ordering::Release);
        self.is_ordered.store(true, ordering);
        most
    }

    /// Counts the memory that sorting takes.
    fn count_sort(&self, len: usize) -> Reserved {
        Reserved::new(&self.pool, len * size_of::<Unsorted>())
    }
}

/// The `len` nodes that came up to `newest`, in internal order. Of two with the same key and
/// sequence number the earlier one stands first: the list puts the later one first.
fn sorted(newest: Option<NodeRef>, len: usize) -> Vec<Unsorted> {
    let mut nodes = Vec::with_capacity(len);
    let mut at = newest;
    while let Some(node) = at {
        nodes.push((node.head(), nodes.len() as u64, node));
        at = NodeRef::from_link(node.link(0).load(Ordering::Relaxed));
    }
    // In place: a stable sort would take as much memory again.
    nodes.sort_unstable_by(|(head, later, node), (other_head, other_later, other)| {
        let by_head = head.cmp(other_head);
        let by_place = by_head.then_with(|| node.cmp_in_order(*other));
        by_place.then_with(|| other_later.cmp(later))
    });
    nodes
}
