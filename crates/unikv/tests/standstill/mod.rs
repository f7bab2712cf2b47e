//! A watchdog for tests that wait for the background by themselves: an engine may be as slow as its
//! machine, but it may neither stop nor work for ever.

use std::time::{Duration, Instant};
use unikv::{Db, Stats};

/// No single job of these tests takes as long, on any machine.
const MOST_WITHOUT_A_JOB: Duration = Duration::from_secs(900);
/// Far more than what is left to do at any moment.
const MOST_JOBS: u64 = 20_000;

/// What has been done since it was made.
pub struct Standstill {
    first: u64,
    last: u64,
    since: Instant,
}

fn jobs(stats: &Stats) -> u64 {
    stats.flushes + stats.merges + stats.gcs + stats.splits + stats.joins
}

impl Standstill {
    pub fn new(db: &Db) -> Standstill {
        let done = jobs(&db.stats());
        Standstill {
            first: done,
            last: done,
            since: Instant::now(),
        }
    }

    /// Fails when no job has ended for long, or this many have that they come to no end.
    pub fn look(&mut self, db: &Db, what: &dyn Fn() -> String) {
        let stats = db.stats();
        let done = jobs(&stats);
        if done > self.last {
            (self.last, self.since) = (done, Instant::now());
        }
        let (idle, done) = (self.since.elapsed(), done - self.first);
        assert!(
            idle < MOST_WITHOUT_A_JOB && done < MOST_JOBS,
            "{} after {done} jobs, the last one {idle:?} ago: {stats:#?}",
            what()
        );
    }
}
