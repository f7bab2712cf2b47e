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
use crate::base::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::partition::Moment;
use std::collections::BTreeMap;
use std::time::Duration;

/// What needs a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// A snapshot, or iterators that were made from one.
    Snapshot,
    /// A transaction, or iterators that were made from one.
    Transaction,
    /// An iterator over the newest state of its time.
    Iterator,
}

/// Registrations of one kind.
#[derive(Debug, Default)]
struct Count {
    registered: usize,
    /// Those of which only iterators are left.
    disowned: usize,
}

#[derive(Debug, Default)]
struct Holders {
    snapshots: Count,
    transactions: Count,
    iterators: Count,
    /// When it was first registered, by the runtime's clock.
    since: Duration,
}

impl Holders {
    fn of(&mut self, holder: Holder) -> &mut Count {
        match holder {
            Holder::Snapshot => &mut self.snapshots,
            Holder::Transaction => &mut self.transactions,
            Holder::Iterator => &mut self.iterators,
        }
    }

    fn each(&self) -> [(Holder, &Count); 3] {
        [
            (Holder::Snapshot, &self.snapshots),
            (Holder::Transaction, &self.transactions),
            (Holder::Iterator, &self.iterators),
        ]
    }

    /// Snapshots and transactions, with the iterators of each.
    fn with_iterators(&self) -> usize {
        self.snapshots.registered + self.transactions.registered
    }
}

#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    live: Mutex<BTreeMap<Moment, Holders>>,
    /// How many of them have an earlier time than their number had. Changed under the lock.
    early: AtomicUsize,
}

/// What is registered, for a person.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SnapshotFigures {
    /// Snapshots with their clones, and transactions, each with its iterators.
    pub(crate) snapshots: usize,
    /// The oldest sequence number, and when it was registered.
    pub(crate) oldest: Option<(SeqNo, Duration)>,
}

fn register(live: &mut BTreeMap<Moment, Holders>, moment: Moment, holder: Holder, since: Duration) {
    let holders = live.entry(moment).or_insert_with(|| Holders {
        since,
        ..Holders::default()
    });
    holders.of(holder).registered += 1;
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
        let mut live = self.live.lock();
        let seq = SeqNo(visible.load(Ordering::Acquire));
        let (since, time_ms) = now();
        let moment = Moment { seq, time_ms };
        register(&mut live, moment, holder, since);
        moment
    }

    /// Registers an earlier time of a number that is registered. `time_ms` says it.
    pub(crate) fn take_earlier(
        &self,
        seq: SeqNo,
        holder: Holder,
        since: Duration,
        time_ms: impl FnOnce() -> u64,
    ) -> Moment {
        let mut live = self.live.lock();
        self.early.fetch_add(1, Ordering::Relaxed);
        let time_ms = time_ms();
        let moment = Moment { seq, time_ms };
        register(&mut live, moment, holder, since);
        moment
    }

    /// What [`Snapshots::take_earlier`] has registered has been released.
    pub(crate) fn released_earlier(&self) {
        let _live = self.live.lock();
        self.early.fetch_sub(1, Ordering::Relaxed);
    }

    /// A registered snapshot or transaction has ended, and has left iterators.
    pub(crate) fn disown(&self, moment: Moment, holder: Holder) {
        if let Some(holders) = self.live.lock().get_mut(&moment) {
            holders.of(holder).disowned += 1;
        }
    }

    /// Releases a registered snapshot. True: it was the oldest, and the last of its moment.
    pub(crate) fn release(&self, moment: Moment, holder: Holder, is_disowned: bool) -> bool {
        let mut live = self.live.lock();
        let oldest = live.keys().next() == Some(&moment);
        if let Some(holders) = live.get_mut(&moment) {
            let count = holders.of(holder);
            count.registered -= 1;
            count.disowned -= usize::from(is_disowned);
            if holders
                .each()
                .iter()
                .all(|(_, count)| count.registered == 0)
            {
                live.remove(&moment);
                return oldest;
            }
        }
        false
    }

    /// The live snapshots, ascending.
    pub(crate) fn list(&self) -> Vec<Moment> {
        let live = self.live.lock();
        let is_known = |m: &Holders| m.with_iterators() > 0 || !seeded!(IteratorUnregistered);
        let known = live.iter().filter(|(_, holders)| is_known(holders));
        known.map(|(moment, _)| *moment).collect()
    }

    /// The oldest number of a live snapshot, and the earliest time.
    pub(crate) fn oldest(&self) -> Option<Moment> {
        let live = self.live.lock();
        let mut oldest = *live.keys().next()?;
        if self.early.load(Ordering::Relaxed) > 0 {
            let times = live.keys().map(|moment| moment.time_ms);
            oldest.time_ms = times.min().unwrap_or(oldest.time_ms);
        }
        Some(oldest)
    }

    /// The moments that snapshots and transactions hold, ascending, and when each was registered.
    pub(crate) fn with_iterators(&self) -> Vec<(Holder, SeqNo, Duration)> {
        let live = self.live.lock();
        let of_moment = |(moment, holders): (&Moment, &Holders)| {
            let (seq, since) = (moment.seq, holders.since);
            let held = holders
                .each()
                .map(|(holder, count)| (holder, count.registered));
            let held = held
                .into_iter()
                .filter(|(holder, registered)| *holder != Holder::Iterator && *registered > 0);
            held.map(move |(holder, _)| (holder, seq, since))
        };
        live.iter().flat_map(of_moment).collect()
    }

    /// Each snapshot with its clones, each transaction, and each iterator over the newest state of
    /// its time, and when it was registered.
    pub(crate) fn owners(&self) -> Vec<(Holder, Duration)> {
        let live = self.live.lock();
        let of_moment = |holders: &Holders| {
            let since = holders.since;
            let owned = holders.each().map(|(holder, count)| {
                std::iter::repeat_n((holder, since), count.registered - count.disowned)
            });
            owned.into_iter().flatten()
        };
        live.values().flat_map(of_moment).collect()
    }

    pub(crate) fn figures(&self) -> SnapshotFigures {
        let live = self.live.lock();
        SnapshotFigures {
            snapshots: live.values().map(Holders::with_iterators).sum(),
            oldest: live
                .iter()
                .next()
                .map(|(moment, holders)| (moment.seq, holders.since)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_time_of_a_number_counts_among_older_numbers() {
        let (snapshots, visible) = (Snapshots::default(), AtomicU64::new(50));
        let (holder, since) = (Holder::Snapshot, Duration::ZERO);
        let older = snapshots.take(&visible, holder, || (since, 900));
        visible.store(100, Ordering::Release);
        let newer = snapshots.take(&visible, holder, || (since, 901));
        assert_eq!(snapshots.oldest(), Some(older));
        let early = snapshots.take_earlier(newer.seq, Holder::Iterator, since, || 300);
        let oldest = Moment {
            seq: older.seq,
            time_ms: 300,
        };
        assert_eq!(snapshots.oldest(), Some(oldest));
        let readers = crate::jobs::compact::retention::Readers {
            time_ms: 1000,
            snapshots: snapshots.list(),
        };
        assert_eq!(readers.horizon().time_ms, 300);
        snapshots.release(early, Holder::Iterator, false);
        snapshots.released_earlier();
        assert_eq!(snapshots.oldest(), Some(older));
    }
}
