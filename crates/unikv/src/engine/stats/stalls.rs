//! Why writers were held up: counts and times for each cause.
//!
//! Back-pressure makes writers pause while something fills up
//! ([`crate::engine::backpressure`]); a pause is booked on the fill that weighs most then. A
//! writer that finds every memtable sealed waits: for a flush, or, where flushes wait for the
//! UnsortedStore themselves, for a merge.

use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::events::StallCause;
use std::time::Duration;

/// How often and for how long one cause held writers up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct StallStats {
    /// The cause.
    pub cause: StallCause,
    /// How often.
    pub count: u64,
    /// For how long in all.
    pub time: Duration,
    /// For how long at most.
    pub longest: Duration,
}

#[derive(Debug, Default)]
struct Stall {
    count: AtomicU64,
    ns: AtomicU64,
    longest_ns: AtomicU64,
}

/// The counters of all causes.
#[derive(Debug, Default)]
pub(crate) struct Stalls([Stall; StallCause::ALL.len()]);

impl Stalls {
    pub(crate) fn count(&self, cause: StallCause, ns: u64) {
        if let Some(stall) = self.0.get(cause as usize) {
            stall.count.fetch_add(1, Ordering::Relaxed);
            stall.ns.fetch_add(ns, Ordering::Relaxed);
            stall.longest_ns.fetch_max(ns, Ordering::Relaxed);
        }
    }

    /// The causes that have held a writer up.
    pub(crate) fn figures(&self) -> Vec<StallStats> {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let each = StallCause::ALL.iter().zip(&self.0);
        let figures = each.map(|(cause, stall)| StallStats {
            cause: *cause,
            count: of(&stall.count),
            time: Duration::from_nanos(of(&stall.ns)),
            longest: Duration::from_nanos(of(&stall.longest_ns)),
        });
        figures.filter(|stall| stall.count > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_has_its_own_count_and_times() {
        let stalls = Stalls::default();
        assert_eq!(stalls.figures(), []);
        stalls.count(StallCause::MergeWait, 5);
        stalls.count(StallCause::Space, 7);
        stalls.count(StallCause::Space, 3);
        let figures = stalls.figures();
        let found: Vec<_> = figures
            .iter()
            .map(|s| (s.cause, s.count, s.time.as_nanos(), s.longest.as_nanos()))
            .collect();
        let expected = [
            (StallCause::Space, 2, 10, 7),
            (StallCause::MergeWait, 1, 5, 5),
        ];
        assert_eq!(found, expected);
    }
}
