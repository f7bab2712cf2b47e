//! The list of open iterators, and the view and cursors that each of them holds.
//!
//! Locks: `held` and the position in each [`Hold`] are leaf locks.

use crate::base::keys::SeqNo;
use crate::base::sync::Mutex;
use crate::base::sync::atomic::AtomicU64;
use crate::engine::memory::IteratorBytes;
use crate::engine::read::hold::Hold;
use crate::partition::View;
use crate::partition::view_cursor::ViewCursor;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Where an iterator reads: the view, and the cursors of its two ends in it.
pub(crate) struct Position {
    pub(crate) view: Arc<View>,
    pub(crate) front: Option<ViewCursor>,
    pub(crate) back: Option<ViewCursor>,
    /// What the cursors hold.
    pub(super) bytes: IteratorBytes,
}

impl Position {
    /// Counts what the cursors hold now.
    pub(crate) fn count(&mut self) {
        let cursors = [&self.front, &self.back].into_iter().flatten();
        self.bytes.set(cursors.map(ViewCursor::memory_bytes).sum());
    }
}

/// An iterator, as others see it.
pub(super) struct Held {
    pub(super) hold: Hold<Position>,
    pub(super) seq: SeqNo,
    /// When it was made, on the runtime's clock.
    pub(super) since: Duration,
    /// Whether it is of a snapshot or of a transaction.
    pub(super) has_owner: bool,
}

/// The iterators of an engine.
#[derive(Default)]
pub(crate) struct Views {
    pub(super) next: AtomicU64,
    pub(super) held: Mutex<BTreeMap<u64, Arc<Held>>>,
}

impl Views {
    /// All iterators that do not gather a batch release their views, the others soon.
    pub(crate) fn release(&self) {
        let held: Vec<Arc<Held>> = self.held.lock().values().cloned().collect();
        held.iter().for_each(|held| held.hold.release());
    }

    /// How many iterators there are, and how many of them hold a view.
    pub(crate) fn count(&self) -> (usize, usize) {
        let held = self.held.lock();
        (
            held.len(),
            held.values().filter(|h| h.hold.is_held()).count(),
        )
    }
}
