//! The cost of something that makes reads of a table cheaper, its pointer index or having all its
//! blocks in the cache, and what reads have lost for want of it.
//!
//! It is made once they have lost as much. Where an attempt fails, the next one costs twice as
//! much.

use crate::base::account::Account;
use crate::base::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A cost that is never reached.
const NEVER: u64 = u64::MAX;

/// What it costs and what has been lost, in reads.
#[derive(Debug)]
pub(crate) struct BuildCost {
    account: Account,
    cost: AtomicU64,
    /// Somebody is making it.
    attempted: AtomicBool,
    /// All of it was charged beforehand.
    advanced: AtomicBool,
}

/// An attempt to make it. There is one at a time. Unless it fails, the cost stays: should what was
/// made go, the next one costs the same.
pub(crate) struct Attempt<'a>(&'a BuildCost);

impl BuildCost {
    /// For a table of this many bytes, at this many reads for each MiB.
    pub(crate) fn of(table_bytes: u64, reads_per_mib: u64) -> BuildCost {
        let cost = (table_bytes >> 20)
            .saturating_mul(reads_per_mib)
            .saturating_add(2);
        BuildCost {
            account: Account::default(),
            cost: AtomicU64::new(cost),
            attempted: AtomicBool::new(false),
            advanced: AtomicBool::new(false),
        }
    }

    /// Charges one read. Whether it is worth its cost with that.
    pub(crate) fn charge(&self) -> bool {
        let cost = self.cost.load(Ordering::Relaxed);
        // Reads that race may charge a little more.
        cost != NEVER && self.account.charged() < cost && self.account.charge(1, cost)
    }

    /// Charges all that is left before any read has. That is done once.
    pub(crate) fn advance(&self) {
        if !self.advanced.swap(true, Ordering::Relaxed) {
            self.account.set(self.cost.load(Ordering::Relaxed));
        }
    }

    /// Whether it was charged beforehand.
    pub(crate) fn is_advanced(&self) -> bool {
        self.advanced.load(Ordering::Relaxed)
    }

    /// Whether it is worth its cost, and nobody makes it yet.
    pub(crate) fn is_worth_it(&self) -> bool {
        let charged = self.account.charged();
        charged >= self.cost.load(Ordering::Relaxed) && !self.attempted.load(Ordering::Relaxed)
    }

    /// Begins an attempt, if it is worth its cost and nobody makes one.
    pub(crate) fn begin(&self) -> Option<Attempt<'_>> {
        let is_mine = self.is_worth_it() && !self.attempted.swap(true, Ordering::AcqRel);
        is_mine.then_some(Attempt(self))
    }
}

impl Attempt<'_> {
    /// It cannot be made at present.
    pub(crate) fn failed(self) {
        let cost = self.0.cost.load(Ordering::Relaxed);
        let cost = cost.saturating_mul(2);
        self.0.cost.store(cost, Ordering::Relaxed);
    }

    /// It is not worth making.
    pub(crate) fn give_up(self) {
        self.0.cost.store(NEVER, Ordering::Relaxed);
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        // In this order: the read that reaches the cost again is heard, as an attempt may begin.
        self.0.attempted.store(false, Ordering::Release);
        self.0.account.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failed_attempt_doubles_the_cost_of_the_next_one() {
        let cost = BuildCost::of(1 << 20, 64);
        let charges = || (1..).find(|_| cost.charge()).unwrap();
        assert!(cost.begin().is_none());
        assert_eq!(charges(), 66);
        assert!(cost.is_worth_it() && !cost.charge(), "it is reached once");
        let attempt = cost.begin().unwrap();
        assert!(
            cost.begin().is_none() && !cost.is_worth_it(),
            "one at a time"
        );
        attempt.failed();
        assert_eq!(charges(), 132);
        drop(cost.begin().unwrap());
        assert!(!cost.is_worth_it());
        assert_eq!(charges(), 132);
        cost.advance();
        cost.begin().unwrap().failed();
        cost.advance();
        assert!(cost.is_advanced() && !cost.is_worth_it(), "once");
        assert_eq!(charges(), 264);
        cost.begin().unwrap().give_up();
        assert!(!(0..10_000).any(|_| cost.charge()));
        assert!(cost.begin().is_none());
    }
}
