//! What reads have to pay for something that makes later ones cheaper, before it is made: the
//! pointer index of a table, or having all its blocks in the cache.
//!
//! They pay what they cost for want of it, so it is never made for less than has been lost already.
//! Where an attempt fails, the next one costs twice as much.

use crate::base::account::Account;
use crate::base::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A price that is never paid.
const NEVER: u64 = u64::MAX;

/// What is paid and what is to be paid, in reads.
#[derive(Debug)]
pub(crate) struct Price {
    account: Account,
    price: AtomicU64,
    /// Somebody is making it.
    attempted: AtomicBool,
    /// It was paid beforehand.
    advanced: AtomicBool,
}

/// An attempt to make it. There is one at a time. Unless it fails, the price stays: should what was
/// made go, the next one costs the same.
pub(crate) struct Attempt<'a>(&'a Price);

impl Price {
    /// For a table of this many bytes, at this many reads for each MiB.
    pub(crate) fn of(table_bytes: u64, reads_per_mib: u64) -> Price {
        let price = (table_bytes >> 20)
            .saturating_mul(reads_per_mib)
            .saturating_add(2);
        Price {
            account: Account::default(),
            price: AtomicU64::new(price),
            attempted: AtomicBool::new(false),
            advanced: AtomicBool::new(false),
        }
    }

    /// Pays for one read. Whether that was the last of it.
    pub(crate) fn pay(&self) -> bool {
        let price = self.price.load(Ordering::Relaxed);
        // Reads that race may pay a little more.
        price != NEVER && self.account.paid() < price && self.account.pay(1, price)
    }

    /// Pays all that is left before any read has. That is done once.
    pub(crate) fn advance(&self) {
        if !self.advanced.swap(true, Ordering::Relaxed) {
            self.account.set(self.price.load(Ordering::Relaxed));
        }
    }

    /// Whether it was paid beforehand.
    pub(crate) fn is_advanced(&self) -> bool {
        self.advanced.load(Ordering::Relaxed)
    }

    /// Whether all is paid, and nobody makes it yet.
    pub(crate) fn is_paid(&self) -> bool {
        let paid = self.account.paid();
        paid >= self.price.load(Ordering::Relaxed) && !self.attempted.load(Ordering::Relaxed)
    }

    /// Begins an attempt, unless it is not paid for or somebody makes one.
    pub(crate) fn begin(&self) -> Option<Attempt<'_>> {
        let is_mine = self.is_paid() && !self.attempted.swap(true, Ordering::AcqRel);
        is_mine.then_some(Attempt(self))
    }
}

impl Attempt<'_> {
    /// It cannot be made at present.
    pub(crate) fn failed(self) {
        let price = self.0.price.load(Ordering::Relaxed);
        let price = price.saturating_mul(2);
        self.0.price.store(price, Ordering::Relaxed);
    }

    /// It is not worth making.
    pub(crate) fn give_up(self) {
        self.0.price.store(NEVER, Ordering::Relaxed);
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.0.account.set(0);
        self.0.attempted.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failed_attempt_makes_the_next_one_dearer() {
        let price = Price::of(1 << 20, 64);
        let pays = || (1..).find(|_| price.pay()).unwrap();
        assert!(price.begin().is_none());
        assert_eq!(pays(), 66);
        assert!(price.is_paid() && !price.pay(), "it is paid once");
        let attempt = price.begin().unwrap();
        assert!(price.begin().is_none() && !price.is_paid(), "one at a time");
        attempt.failed();
        assert_eq!(pays(), 132);
        drop(price.begin().unwrap());
        assert!(!price.is_paid());
        assert_eq!(pays(), 132);
        price.advance();
        price.begin().unwrap().failed();
        price.advance();
        assert!(price.is_advanced() && !price.is_paid(), "once");
        assert_eq!(pays(), 264);
        price.begin().unwrap().give_up();
        assert!(!(0..10_000).any(|_| price.pay()));
        assert!(price.begin().is_none());
    }
}
