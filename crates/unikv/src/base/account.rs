//! What reads have lost for want of work that would make later ones cheaper.
//!
//! A read charges an account with what it has lost, in the unit in which the cost of the work is
//! known. The work is worth its cost once as much is charged: nothing is done for less than has
//! been lost already, and nothing for a workload that loses nothing. Reads that race all charge.

use crate::base::sync::atomic::{AtomicU64, Ordering};

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

#[cfg(test)]
mod tests {
    use super::*;

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
