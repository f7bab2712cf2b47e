//! What writers owe for what they wrote, and how long a writer pauses for it.
//!
//! Invariants: a short write does not pause for what long ones owe; a long one pauses for both. No
//! locks.

/// The shortest pause; the longest of a short write, also for what others owe; and the longest of
/// all, which only batches of some MiB come to.
const LEAST_PAUSE_NS: i64 = 500_000;
const LONGEST_OWED_PAUSE_NS: i64 = 10_000_000;
pub(crate) const LONGEST_PAUSE_NS: i64 = 100_000_000;
/// What is still owed after a pause, at most: by then the costs have changed.
const MOST_OWED_NS: i64 = 1_000_000_000;

/// What writers owe. A write is long if its own cost is more than a short one may pause for others.
#[derive(Debug, Default)]
pub(super) struct Owed {
    short: Account,
    long: Account,
}

/// What short writes owe, or long ones.
#[derive(Debug, Default)]
struct Account {
    /// What no pause has been begun for; negative, pauses have taken longer than they were to.
    owed_ns: i64,
    /// When the pauses end that have been begun.
    until_ns: i64,
}

impl Owed {
    /// Adds the cost of a write; returns how long its writer is to pause from `now_ns` on.
    pub(super) fn add(&mut self, cost_ns: i64, now_ns: i64) -> Option<i64> {
        if cost_ns > LONGEST_OWED_PAUSE_NS {
            self.long.until_ns = self.long.until_ns.max(self.short.until_ns);
            return self.long.add(cost_ns, now_ns, LONGEST_PAUSE_NS);
        }
        if self.long.until_ns > now_ns {
            // The next long write pauses for what short ones wrote while this one pauses.
            self.long.until_ns = self.long.until_ns.saturating_add(cost_ns);
        }
        self.short.add(cost_ns, now_ns, LONGEST_OWED_PAUSE_NS)
    }

    /// Whether a write of this cost would pause. If so, time settles what is owed from `now_ns` on.
    pub(super) fn would_pause(&mut self, cost_ns: i64, now_ns: i64) -> bool {
        self.account(cost_ns).would_pause(cost_ns, now_ns)
    }

    /// What a pause for this cost took too long is credited, but not for ever.
    pub(super) fn credit(&mut self, cost_ns: i64, ns: i64) {
        let account = self.account(cost_ns);
        account.owed_ns = account.owed_ns.saturating_sub(ns).max(-LEAST_PAUSE_NS);
    }

    /// That of a write of this cost.
    fn account(&mut self, cost_ns: i64) -> &mut Account {
        if cost_ns > LONGEST_OWED_PAUSE_NS {
            &mut self.long
        } else {
            &mut self.short
        }
    }
}

impl Account {
    /// See [`Owed::add`]. The pause is at most `most_ns`.
    fn add(&mut self, cost_ns: i64, now_ns: i64, most_ns: i64) -> Option<i64> {
        self.owed_ns = self.owed_ns.saturating_add(cost_ns);
        let begun = self.until_ns.saturating_sub(now_ns).max(0);
        let all = begun.saturating_add(self.owed_ns);
        if all < LEAST_PAUSE_NS {
            return None;
        }
        let pause = all.min(most_ns);
        let all = all.min(pause + MOST_OWED_NS);
        *self = Account {
            owed_ns: 0,
            until_ns: now_ns.saturating_add(all),
        };
        Some(pause)
    }

    /// See [`Owed::would_pause`].
    fn would_pause(&mut self, cost_ns: i64, now_ns: i64) -> bool {
        let begun = self.until_ns.saturating_sub(now_ns).max(0);
        let due = begun.saturating_add(self.owed_ns);
        if due.saturating_add(cost_ns) < LEAST_PAUSE_NS {
            return false;
        }
        *self = Account {
            owed_ns: 0,
            until_ns: now_ns.saturating_add(due),
        };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_writers_pause_for_each_other() {
        let mut owed = Owed::default();
        let ms = |ms: i64| ms * 1_000_000;
        // Eight at one moment, each of 4 ms.
        let pauses: Vec<_> = (0..8).filter_map(|_| owed.add(ms(4), 0)).collect();
        assert_eq!(pauses, [4, 8, 10, 10, 10, 10, 10, 10].map(ms));
        assert_eq!(
            owed.add(ms(50), 0),
            Some(ms(82)),
            "a long one for all of them"
        );
    }
}
