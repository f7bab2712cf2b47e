//! The live snapshots: sequence numbers and times that jobs know of.
//!
//! A snapshot is a sequence number and a time, registered under the lock where jobs read the list.
//! A job chooses its inputs and then reads the list, so it is right about a snapshot taken later,
//! too: that one sees the newest version of everything in the inputs, which is always kept, unless
//! it had expired when the job looked at the clock. That is before it reads the list, and the clock
//! is read for a snapshot under the lock: so one that is not listed is no earlier than the job.
//! Iterators register theirs in the same way.

#[cfg(all(test, unikv_model = "loom"))]
mod models;

use crate::base::keys::SeqNo;
use crate::base::seeded::seeded;
use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::partition::Moment;
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
struct Holders {
    snapshots: usize,
    iterators: usize,
    /// When it was first registered, by the runtime's clock.
    since: Duration,
}

impl Holders {
    fn of(&mut self, holder: Holder) -> &mut usize {
        match holder {
            Holder::Snapshot => &mut self.snapshots,
            Holder::Iterator => &mut self.iterators,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Snapshots(Mutex<BTreeMap<Moment, Holders>>);

/// What is registered, for a person.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SnapshotFigures {
    /// Moments that snapshots hold, with their clones and their iterators.
    pub(crate) snapshots: usize,
    /// The oldest sequence number, and when it was registered.
    pub(crate) oldest: Option<(SeqNo, Duration)>,
}

impl Snapshots {
    /// Registers a snapshot of what is visible now. `now` says what the runtime's clock and that
    /// of the database are.
    pub(crate) fn take(
        &self,
        visible: &AtomicU64,
        holder: Holder,
        now: impl FnOnce() -> (Duration, u64),
    ) -> Moment {
        let mut live = self.0.lock();
        let seq = SeqNo(visible.load(Ordering::Acquire));
        let (since, time_ms) = now();
        let moment = Moment { seq, time_ms };
        let holders = live.entry(moment).or_insert_with(|| Holders {
            since,
            ..Holders::default()
        });
        *holders.of(holder) += 1;
        moment
    }

    /// Releases a registered snapshot. True: it was the oldest, and the last of its moment.
    pub(crate) fn release(&self, moment: Moment, holder: Holder) -> bool {
        let mut live = self.0.lock();
        let oldest = live.keys().next() == Some(&moment);
        if let Some(holders) = live.get_mut(&moment) {
            *holders.of(holder) -= 1;
            if holders.snapshots + holders.iterators == 0 {
                live.remove(&moment);
                return oldest;
            }
        }
        false
    }

    /// The live snapshots, ascending.
    pub(crate) fn list(&self) -> Vec<Moment> {
        let live = self.0.lock();
        let is_known = |m: &Holders| m.snapshots > 0 || !seeded!(IteratorUnregistered);
        let known = live.iter().filter(|(_, holders)| is_known(holders));
        known.map(|(moment, _)| *moment).collect()
    }

    /// The oldest live snapshot.
    pub(crate) fn oldest(&self) -> Option<Moment> {
        self.0.lock().keys().next().copied()
    }

    /// The moments that snapshots hold, ascending, and when each was registered.
    pub(crate) fn of_snapshots(&self) -> Vec<(SeqNo, Duration)> {
        let live = self.0.lock();
        let held = live.iter().filter(|(_, holders)| holders.snapshots > 0);
        held.map(|(moment, holders)| (moment.seq, holders.since))
            .collect()
    }

    pub(crate) fn figures(&self) -> SnapshotFigures {
        let live = self.0.lock();
        SnapshotFigures {
            snapshots: live.values().map(|holders| holders.snapshots).sum(),
            oldest: live
                .iter()
                .next()
                .map(|(moment, holders)| (moment.seq, holders.since)),
        }
    }
}
