//! What open transactions take for what they have read.
//!
//! All together have a share of the budget. While they take more, each that adds to its reads is
//! given the same part of that; beyond twice the share little is left for any of them. So the sum
//! is bounded, whichever of them go on reading.

use super::arbiter::Arbiter;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// The share of all transactions.
const READS_PART: u64 = 8;
/// What one may take whatever the others take.
const LEAST: u64 = 16 << 10;
/// Room for what iterators and transactions take is made in steps of this part of the budget.
const STEP_PART: u64 = 64;
/// Less is not counted, nor is a change of less.
const STEP: u64 = 4 << 10;

/// The memory of one transaction's reads, which counts until this is dropped.
#[derive(Default)]
pub(crate) struct ReadsCharge {
    arbiter: Option<Arc<Arbiter>>,
    bytes: AtomicU64,
}

impl ReadsCharge {
    pub(crate) fn new(arbiter: &Arc<Arbiter>) -> ReadsCharge {
        ReadsCharge {
            arbiter: Some(Arc::clone(arbiter)),
            bytes: AtomicU64::new(0),
        }
    }

    /// It takes this much now. Returns how much it may take, if it has changed by much.
    #[inline]
    pub(crate) fn note(&self, bytes: usize) -> Option<usize> {
        let bytes = bytes as u64;
        let is_much = bytes.abs_diff(self.bytes.load(Ordering::Relaxed)) >= STEP;
        if is_much { self.note_much(bytes) } else { None }
    }

    #[cold]
    fn note_much(&self, bytes: u64) -> Option<usize> {
        let arbiter = self.arbiter.as_ref()?;
        let counted = if bytes < STEP { 0 } else { bytes };
        let before = self.bytes.swap(counted, Ordering::Relaxed);
        if before == 0 {
            arbiter.reads_open.fetch_add(1, Ordering::Relaxed);
        }
        if counted == 0 {
            arbiter.reads_open.fetch_sub(1, Ordering::Relaxed);
        }
        // Together they are never less than nothing: each takes away what it has added.
        let more = counted.wrapping_sub(before);
        arbiter.reads_used.fetch_add(more, Ordering::Relaxed);
        if arbiter.needs_room_for_reads() {
            arbiter.make_room();
        }
        Some(arbiter.room_for_reads() as usize)
    }
}

impl Drop for ReadsCharge {
    fn drop(&mut self) {
        self.note(0);
    }
}

impl Arbiter {
    /// Room is made in steps of this.
    pub(super) fn step(&self) -> u64 {
        (self.plan.budget_bytes / STEP_PART).max(1)
    }

    /// What is charged for what transactions have read.
    pub(super) fn reads_bytes(&self) -> u64 {
        self.reads_charged.load(Ordering::Relaxed)
    }

    /// Whether transactions take more than is charged for them, or far less.
    fn needs_room_for_reads(&self) -> bool {
        let used = self.reads_used.load(Ordering::Relaxed);
        let charged = self.reads_bytes();
        used > charged || charged - used > 2 * self.step()
    }

    /// How much is to be charged. Under the lock.
    pub(super) fn fit_reads(&self) {
        let used = self.reads_used.load(Ordering::Relaxed);
        let charged = used.next_multiple_of(self.step());
        self.reads_charged.store(charged, Ordering::Relaxed);
    }

    /// How much the reads of one transaction may take.
    fn room_for_reads(&self) -> u64 {
        let share = self.plan.budget_bytes / READS_PART;
        let used = self.reads_used.load(Ordering::Relaxed);
        let open = self.reads_open.load(Ordering::Relaxed).max(1);
        if used <= share {
            u64::MAX
        } else if used <= 2 * share {
            (share / open).max(LEAST)
        } else {
            LEAST
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::MemoryPlan;
    use super::*;
    use crate::memtable::ArenaPool;
    use crate::options::{Options, StoredOptions};
    use crate::vfs::Process;

    #[test]
    fn transactions_have_a_share_together_and_the_cache_gives_way_to_it() {
        let options = Options::default().memory_budget(64 << 20);
        let plan = MemoryPlan::of(&options.resolve(&StoredOptions::default()).unwrap());
        let (cache, budget) = (plan.new_cache(), plan.budget_bytes);
        let pool = ArenaPool::new(1 << 20, 0);
        let arbiter = Arbiter::new(plan, &pool, &cache, Process::alone());
        arbiter.make_room();
        let (before, share) = (cache.capacity(), budget / READS_PART);
        let one = ReadsCharge::new(&arbiter);
        assert_eq!(one.note(STEP as usize - 1), None);
        assert_eq!(one.note(share as usize), Some(usize::MAX));
        assert!(arbiter.charged().transactions >= share);
        assert!(cache.capacity() < before);
        assert_eq!(one.note(share as usize + 5000), Some(share as usize));
        let others: Vec<_> = (0..99).map(|_| ReadsCharge::new(&arbiter)).collect();
        let least = others[98].note(5000).unwrap();
        assert_eq!(least as u64, share / 2);
        for other in &others {
            other.note(share as usize / 90);
        }
        assert_eq!(others[0].note(STEP as usize), Some(LEAST as usize));
        drop((one, others));
        // Some of it stays: the next one may need it.
        assert!(arbiter.charged().transactions <= 2 * arbiter.step());
        arbiter.make_room();
        assert_eq!(arbiter.charged().transactions, 0);
        assert_eq!(cache.capacity(), before);
    }
}
