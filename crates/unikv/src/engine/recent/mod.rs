//! Recent writes: what a transaction that commits is compared with, without a read of the disk
//! under the commit lock. A transaction conflicts if something that it read has been written since
//! its moment, or if what was written then is not kept any more or was an ingest.
//!
//! Invariants: all those writes are in memtables, of the view or, flushed, kept here as long as a
//! transaction is open that began before their last write; of the older ones only the keys
//! (`kept`). A transaction is entered before its moment is registered, under the lock under which
//! flushed memtables come here: none is missed that holds a later write. The view without a
//! memtable is published after it has come here, and a comparison takes the view first. Under the
//! commit lock few writes are compared, from `written`, unless writers are too fast.
//!
//! Lock: `state`, a leaf, held for a look or a change.

mod comparing;
mod kept;
pub(crate) mod own_writes;
pub(crate) mod reads;
mod seen;
mod turns;
mod written;

pub(crate) use turns::Turns;

use crate::base::keys::SeqNo;
use crate::base::seeded::seeded;
use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::engine::core::Core;
use crate::engine::memory::ReadsCharge;
use crate::engine::recent::kept::KeptKeys;
use crate::engine::recent::written::Written;
use crate::memtable::{Batch, Memtable};
use crate::vfs::Process;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The kept memtables take as much as this many full ones, at most. Of older ones the keys are
/// kept, which count with what transactions have read. When these take more than they may, the
/// oldest are given up, and transactions that began before their end conflict.
const MOST_KEPT: u64 = 2;
/// How often the keys of a memtable are merged with those before it, if these change meanwhile.
const MOST_MERGES: usize = 3;

/// The component that keeps recent writes for transactions.
pub(crate) struct RecentWrites {
    /// Of a full memtable.
    memtable_bytes: u64,
    /// That which has opened the database: in its children no lock is taken.
    process: Process,
    pub(crate) turns: Turns,
    written: Written,
    /// What `State::keys` takes.
    charge: ReadsCharge,
    /// Look-ups that were made under the commit lock.
    #[cfg(test)]
    pub(crate) looked_up: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The moments before which transactions that are open began, with their numbers.
    open: BTreeMap<SeqNo, usize>,
    /// The keys of flushed memtables, oldest first, and the memtables flushed after these.
    keys: VecDeque<Arc<KeptKeys>>,
    kept: VecDeque<Arc<Memtable>>,
    /// What was written up to here may be in no memtable.
    lost_until: SeqNo,
}

impl RecentWrites {
    pub(crate) fn new(core: &Core) -> Arc<RecentWrites> {
        Arc::new(RecentWrites {
            memtable_bytes: core.memory.plan.memtable_bytes,
            process: core.process.clone(),
            turns: Turns::new(core.store.env().runtime.event()),
            written: Written::new(core.memory.plan.memtable_bytes),
            charge: ReadsCharge::new(&core.memory),
            #[cfg(test)]
            looked_up: AtomicU64::new(0),
            state: Mutex::default(),
        })
    }

    /// A transaction begins. Its moment is registered after this.
    pub(crate) fn begin(self: &Arc<Self>, visible: &AtomicU64) -> OpenTransaction {
        let visible = || SeqNo(visible.load(Ordering::Acquire));
        let since = if self.process.is_this() {
            let mut state = self.state.lock();
            let since = visible();
            *state.open.entry(since).or_default() += 1;
            since
        } else {
            visible()
        };
        OpenTransaction {
            recent: Arc::clone(self),
            since,
        }
    }

    /// A memtable has been flushed, and is about to leave the view.
    pub(crate) fn flushed(&self, memtable: &Arc<Memtable>) {
        let mut state = self.state.lock();
        let last = memtable.max_seq().unwrap_or_default();
        if state.oldest().is_none_or(|oldest| oldest >= last) || seeded!(FlushedNotCompared) {
            return;
        }
        state.kept.push_back(Arc::clone(memtable));
        while state.kept_bytes() > self.most_kept() {
            // What came before is of no use without it.
            state.keys.clear();
            let lost = state.kept.pop_front().and_then(|m| m.max_seq());
            state.lost_until = state.lost_until.max(lost.unwrap_or_default());
        }
    }

    fn most_kept(&self) -> usize {
        MOST_KEPT.saturating_mul(self.memtable_bytes) as usize
    }

    /// Memtables that take as much are about to be flushed: of the oldest that were, only the keys
    /// are kept. No lock is held, and no other call runs.
    pub(crate) fn make_room(&self, bytes: usize) {
        let mut merges = 0;
        while merges < MOST_MERGES {
            let (oldest, before) = {
                let state = self.state.lock();
                let fits = state.kept_bytes() + bytes <= self.most_kept();
                let Some(oldest) = state.kept.front().filter(|_| !fits) else {
                    break;
                };
                (Arc::clone(oldest), state.keys.clone())
            };
            let (mut keys, mut after) = (KeptKeys::of(&oldest), before.clone());
            while let Some(last) = after
                .back()
                .filter(|last| last.len() < 2 * keys.len().max(1))
            {
                keys = last.merged(&keys);
                after.pop_back();
            }
            after.push_back(Arc::new(keys));
            let mut state = self.state.lock();
            let is_same = state.kept.front().is_some_and(|m| Arc::ptr_eq(m, &oldest))
                && state.keys.len() == before.len()
                && state
                    .keys
                    .iter()
                    .zip(&before)
                    .all(|(a, b)| Arc::ptr_eq(a, b));
            if is_same {
                merges = 0;
                state.kept.pop_front();
                state.keys = after;
            } else {
                // A transaction has ended.
                merges += 1;
            }
        }
        self.charge_keys();
    }

    /// Counts what the keys take, and gives up the oldest as far as that is more than it may be.
    fn charge_keys(&self) {
        loop {
            let bytes = self.state.lock().key_bytes();
            let Some(most) = self.charge.note(bytes).filter(|most| bytes > *most) else {
                return;
            };
            let mut lost = Vec::new();
            let mut state = self.state.lock();
            while state.key_bytes() > most
                && let Some(oldest) = state.keys.pop_front()
            {
                state.lost_until = state.lost_until.max(oldest.last());
                lost.push(oldest);
            }
        }
    }

    /// Something is about to be visible at `seq` that is in no memtable: an ingest, or that a
    /// keyspace is gone.
    pub(crate) fn not_in_memtables(&self, seq: SeqNo) {
        let mut state = self.state.lock();
        state.lost_until = state.lost_until.max(seq);
    }

    /// A commit group is about to be visible up to `last`; so far it is up to `before`. Under the
    /// commit lock.
    #[inline]
    pub(crate) fn written<'a>(
        &self,
        before: SeqNo,
        last: SeqNo,
        batches: impl Iterator<Item = &'a Batch>,
    ) {
        self.written.add(before, last, batches);
    }

    /// Has writers leave their keys, or no longer.
    #[cfg(test)]
    pub(crate) fn want(&self) {
        self.written.want();
    }

    #[cfg(test)]
    pub(crate) fn unwant(&self) {
        self.written.leave();
    }

    /// Up to where something may be in no memtable.
    fn lost_until(&self) -> SeqNo {
        self.state.lock().lost_until
    }

    /// The same, and what is kept of what was written after it.
    fn kept(&self) -> (SeqNo, Vec<Arc<KeptKeys>>, Vec<Arc<Memtable>>) {
        let state = self.state.lock();
        let keys = state.keys.iter().cloned().collect();
        let memtables = state.kept.iter().cloned().collect();
        (state.lost_until, keys, memtables)
    }

    /// Gives up what is kept: memory is short.
    pub(crate) fn give_up(&self) {
        let given_up = {
            let mut state = self.state.lock();
            let last = state.kept.back().and_then(|m| m.max_seq());
            let last = last.max(state.keys.back().map(|keys| keys.last()));
            state.lost_until = state.lost_until.max(last.unwrap_or_default());
            (
                std::mem::take(&mut state.kept),
                std::mem::take(&mut state.keys),
            )
        };
        drop(given_up);
        self.charge_keys();
    }
}

impl State {
    fn oldest(&self) -> Option<SeqNo> {
        self.open.keys().next().copied()
    }

    fn kept_bytes(&self) -> usize {
        self.kept.iter().map(|memtable| memtable.bytes()).sum()
    }

    fn key_bytes(&self) -> usize {
        self.keys.iter().map(|keys| keys.memory_bytes()).sum()
    }

    /// Takes out what no transaction needs.
    fn prune(&mut self) -> Pruned {
        let mut pruned = Pruned::default();
        let oldest = self.oldest().unwrap_or(SeqNo::MAX);
        let is_needed = |m: &Arc<Memtable>| m.max_seq().is_some_and(|last| last > oldest);
        while self.keys.front().is_some_and(|keys| keys.last() <= oldest) {
            pruned.keys.extend(self.keys.pop_front());
        }
        while self.kept.front().is_some_and(|m| !is_needed(m)) {
            pruned.memtables.extend(self.kept.pop_front());
        }
        pruned
    }
}

/// What no transaction needs any more: to be dropped under no lock.
#[derive(Default)]
struct Pruned {
    memtables: Vec<Arc<Memtable>>,
    keys: Vec<Arc<KeptKeys>>,
}

/// An open transaction: what was written since its beginning is kept as long as this is.
pub(crate) struct OpenTransaction {
    recent: Arc<RecentWrites>,
    since: SeqNo,
}

impl Drop for OpenTransaction {
    fn drop(&mut self) {
        if !self.recent.process.is_this() {
            return;
        }
        let pruned = {
            let mut state = self.recent.state.lock();
            let left = state.open.get_mut(&self.since).map(|open| {
                *open -= 1;
                *open
            });
            if left == Some(0) {
                state.open.remove(&self.since);
                state.prune()
            } else {
                Pruned::default()
            }
        };
        if !pruned.keys.is_empty() {
            self.recent.charge_keys();
        }
        drop(pruned);
    }
}

#[cfg(test)]
mod tests;
