//! What reads have lost for want of work that would make later ones cheaper.
//!
//! A read charges an account with what it has lost, in the unit in which the cost of the work is
//! known. The work is worth its cost once as much is charged: nothing is done for less than has
//! been lost already, and nothing for a workload that loses nothing. Reads that race all charge.
//!
//! The read whose charge reaches the cost reports it ([`Reports`]), so that nobody has to look at
//! all accounts.
//!
//! Lock: that of [`Reports`], a leaf.

use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::base::sync::unseen::AtomicBool;
use std::collections::BTreeSet;

/// What is charged and not yet spent.
#[derive(Debug, Default)]
pub(crate) struct Account(AtomicU64);

impl Account {
    /// One to which this much is charged.
    pub(crate) fn of(charged: u64) -> Account {
        Account(AtomicU64::new(charged))
    }

    pub(crate) fn charged(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Charges `amount`. Whether another `step`, not zero, is full with it: then somebody is to
    /// look.
    pub(crate) fn charge(&self, amount: u64, step: u64) -> bool {
        let before = self.0.fetch_add(amount, Ordering::Relaxed);
        before / step < before.saturating_add(amount) / step
    }

    /// Takes `amount`, as far as it is there.
    pub(crate) fn spend(&self, amount: u64) {
        let take = |charged: u64| Some(charged.saturating_sub(amount));
        let _always = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
    }

    /// From now on this much is charged.
    pub(crate) fn set(&self, charged: u64) {
        self.0.store(charged, Ordering::Relaxed);
    }
}

/// What work has become worth its cost for, until somebody takes note of it. Where nobody hears of
/// it, as in a secondary, nothing is kept.
#[derive(Debug)]
pub(crate) struct Reports<T> {
    is_heard: AtomicBool,
    all: Mutex<BTreeSet<T>>,
}

impl<T> Default for Reports<T> {
    fn default() -> Reports<T> {
        Reports {
            is_heard: AtomicBool::default(),
            all: Mutex::default(),
        }
    }
}

impl<T: Ord> Reports<T> {
    /// Reports are heard from now on.
    pub(crate) fn hear(&self) {
        self.is_heard.store(true, Ordering::Relaxed);
    }

    pub(crate) fn report(&self, of: T) {
        if self.is_heard.load(Ordering::Relaxed) {
            self.all.lock().insert(of);
        }
    }

    pub(crate) fn are_any(&self) -> bool {
        !self.all.lock().is_empty()
    }

    /// Takes the first of them.
    pub(crate) fn take(&self) -> Option<T> {
        self.all.lock().pop_first()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_report_is_kept_until_it_is_taken_if_anybody_hears_it() {
        let reports = Reports::default();
        reports.report(1);
        assert!(!reports.are_any());
        reports.hear();
        [3, 2, 3].into_iter().for_each(|of| reports.report(of));
        let taken: Vec<_> = std::iter::from_fn(|| reports.take()).collect();
        assert_eq!(taken, [2, 3]);
    }

    #[test]
    fn each_full_step_is_reported_once_and_no_more_is_spent_than_was_charged() {
        let account = Account::of(3);
        let full: Vec<bool> = (0..8).map(|_| account.charge(2, 5)).collect();
        assert_eq!(full, [true, false, false, true, false, true, false, false]);
        assert_eq!(account.charged(), 19);
        account.spend(9);
        assert_eq!(account.charged(), 10);
        account.spend(11);
        assert_eq!(account.charged(), 0);
        account.set(u64::MAX - 1);
        account.charge(1, 1);
        assert_eq!(account.charged(), u64::MAX);
    }
}
