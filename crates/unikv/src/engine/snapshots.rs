//! The live snapshots: sequence numbers that jobs know of.
//!
//! A snapshot is a sequence number, registered under the lock where jobs read the list. A job
//! chooses its inputs and then reads the list, so it is right about a snapshot taken later, too:
//! that one sees the newest version of everything in the inputs, which is always kept. Iterators
//! register theirs in the same way.

#[cfg(all(test, unikv_model = "loom"))]
mod models;

use crate::base::keys::SeqNo;
use crate::base::seeded::seeded;
use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::time::Duration;

/// Who needs a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// A snapshot, or iterators that were made from one.
    Snapshot,
    /// An iterator over the newest state of its time.
    Iterator,
}

#[derive(Debug, Default)]
struct Moment {
    snapshots: usize,
    iterators: usize,
    /// When it was first registered, by the runtime's clock.
    since: Duration,
}

impl Moment {
    fn holders(&mut self, holder: Holder) -> &mut usize {
        match holder {
            Holder::Snapshot => &mut self.snapshots,
            Holder::Iterator => &mut self.iterators,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Snapshots(Mutex<BTreeMap<SeqNo, Moment>>);

/// What is registered, for a person.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SnapshotFigures {
    /// Moments that snapshots hold, with their clones and their iterators.
    pub(crate) snapshots: usize,
    /// The oldest sequence number, and when it was registered.
    pub(crate) oldest: Option<(SeqNo, Duration)>,
}

impl Snapshots {
    /// Registers a snapshot of what is visible now.
    pub(crate) fn take(&self, visible: &AtomicU64, holder: Holder, now: Duration) -> SeqNo {
        let mut live = self.0.lock();
        let seq = SeqNo(visible.load(Ordering::Acquire));
        let moment = live.entry(seq).or_insert_with(|| Moment {
            since: now,
            ..Moment::default()
        });
        *moment.holders(holder) += 1;
        seq
    }

    /// Releases a registered snapshot. True: it was the oldest, and the last of its moment.
    pub(crate) fn release(&self, seq: SeqNo, holder: Holder) -> bool {
        let mut live = self.0.lock();
        let oldest = live.keys().next() == Some(&seq);
        if let Some(moment) = live.get_mut(&seq) {
            *moment.holders(holder) -= 1;
            if moment.snapshots + moment.iterators == 0 {
                live.remove(&seq);
                return oldest;
            }
        }
        false
    }

    /// The live snapshots, ascending.
    pub(crate) fn list(&self) -> Vec<SeqNo> {
        let live = self.0.lock();
        let is_known = |m: &Moment| m.snapshots > 0 || !seeded!(IteratorUnregistered);
        let known = live.iter().filter(|(_, moment)| is_known(moment));
        known.map(|(seq, _)| *seq).collect()
    }

    /// The oldest live snapshot.
    pub(crate) fn oldest(&self) -> Option<SeqNo> {
        self.0.lock().keys().next().copied()
    }

    pub(crate) fn figures(&self) -> SnapshotFigures {
        let live = self.0.lock();
        SnapshotFigures {
            snapshots: live.values().map(|moment| moment.snapshots).sum(),
            oldest: live.iter().next().map(|(seq, moment)| (*seq, moment.since)),
        }
    }
}
