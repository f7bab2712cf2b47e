//! What reads have paid for work that makes later ones cheaper.
//!
//! A read pays what it loses for want of the work, in a unit in which the work has a price too. So
//! nothing is done for less than has been lost already, and a workload that loses nothing pays
//! nothing. Reads that race all pay.

use crate::base::sync::atomic::{AtomicU64, Ordering};

/// What is paid and not yet spent.
#[derive(Debug, Default)]
pub(crate) struct Account(AtomicU64);

impl Account {
    /// One in which this much is paid.
    pub(crate) fn of(paid: u64) -> Account {
        Account(AtomicU64::new(paid))
    }

    pub(crate) fn paid(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Pays `amount`. Whether another `step`, not zero, is full with it: then somebody is to look.
    pub(crate) fn pay(&self, amount: u64, step: u64) -> bool {
        let before = self.0.fetch_add(amount, Ordering::Relaxed);
        before / step < before.saturating_add(amount) / step
    }

    /// Takes `amount`, as far as it is there.
    pub(crate) fn spend(&self, amount: u64) {
        let take = |paid: u64| Some(paid.saturating_sub(amount));
        let _always = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
    }

    /// From now on this much is paid.
    pub(crate) fn set(&self, paid: u64) {
        self.0.store(paid, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_full_step_is_reported_once_and_no_more_is_spent_than_was_paid() {
        let account = Account::of(3);
        let full: Vec<bool> = (0..8).map(|_| account.pay(2, 5)).collect();
        assert_eq!(full, [true, false, false, true, false, true, false, false]);
        assert_eq!(account.paid(), 19);
        account.spend(9);
        assert_eq!(account.paid(), 10);
        account.spend(11);
        assert_eq!(account.paid(), 0);
        account.set(u64::MAX - 1);
        account.pay(1, 1);
        assert_eq!(account.paid(), u64::MAX);
    }
}
