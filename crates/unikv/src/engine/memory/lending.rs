//! Lending: what only jobs and later memtables take serves the read cache while no job runs.
//!
//! When none has run for a while, the cache is *lent* the memory of all jobs and that of one
//! memtable; what was kept for later memtables is given up. Room for the open memtable and for one
//! more stays: the first that is full begins a flush, and while the second fills, the flush takes
//! back what was lent before it does anything else. So it is a job that waits for the cache to give
//! way; a writer who seals a memtable waits for one part of that at most.

use super::arbiter::{Arbiter, Tracked};
use crate::jobs::Running;
use std::time::Duration;

/// How long no job must have run.
const LENT_AFTER: Duration = Duration::from_secs(2);
/// In this many parts it is taken back: a thread that waits for the lock does not wait for all of
/// it.
pub(super) const PARTS: u64 = 32;

impl Arbiter {
    /// Counts a job, for as long as what this returns lives, and takes back what the cache was
    /// lent.
    pub(crate) fn begin_job(&self) -> Running<'_> {
        // Counted before the look: either it finds what is lent, or who lends finds the job.
        let running = self.jobs.begin();
        loop {
            let mut tracked = self.tracked.lock();
            if tracked.lent_parts == 0 {
                return running;
            }
            tracked.lent_parts -= 1;
            self.divide(&tracked);
        }
    }

    /// When the cache is to be lent what jobs take, unless one runs before; `None`: it is. To be
    /// asked again and again while jobs run: only that notices when they have.
    pub(crate) fn lend_at(&self, now: Duration) -> Option<Duration> {
        self.lend_tracked_at(&mut self.tracked.lock(), now)
    }

    fn lend_tracked_at(&self, tracked: &mut Tracked, now: Duration) -> Option<Duration> {
        if self.jobs.have_run() {
            tracked.worked_at = now;
        }
        let lend_at = tracked.worked_at + LENT_AFTER;
        (tracked.lent_parts == 0 || lend_at > now).then_some(lend_at)
    }

    /// Lends the cache what jobs take and what is kept for later memtables, if its time has come.
    /// Whether it had.
    pub(crate) fn lend(&self, now: Duration) -> bool {
        let mut tracked = self.tracked.lock();
        let lend_at = self.lend_tracked_at(&mut tracked, now);
        if lend_at.is_none_or(|at| at > now) {
            return false;
        }
        let idle = self.pool.idle_bytes() as u64;
        self.pool
            .trim(idle.saturating_sub(tracked.growth_bytes) as usize);
        tracked.lent_parts = PARTS;
        self.fit_iterators();
        self.fit_reads();
        self.divide(&tracked);
        true
    }
}

impl Tracked {
    /// What is lent of these bytes.
    pub(super) fn lent(&self, bytes: u64) -> u64 {
        bytes / PARTS * self.lent_parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::keys::{Kind, SeqNo};
    use crate::engine::memory::MemoryPlan;
    use crate::memtable::{ArenaPool, Memtable};
    use crate::options::{Options, StoredOptions};
    use crate::vfs::Process;

    #[test]
    fn the_cache_is_lent_what_no_job_needs_and_gives_it_back_before_one_begins() {
        let options = Options::default().memory_budget(64 << 20);
        let plan = MemoryPlan::of(&options.resolve(&StoredOptions::default()).unwrap());
        let (budget, most) = (plan.budget_bytes, plan.memtable_bytes);
        let pool = ArenaPool::new(most as usize, plan.memtables_bytes() as usize);
        let cache = plan.new_cache();
        let arbiter = Arbiter::new(plan, &pool, &cache, Process::alone());
        let at = Duration::from_millis;
        let filled = || {
            let table = Memtable::new(&pool, 0);
            let mut seq = (1..).map(SeqNo);
            while table.bytes() < most as usize {
                let seq = seq.next().unwrap();
                table.insert(b"\0\0\0\0key", seq, Kind::Put, None, &[7; 1000]);
            }
            table
        };
        drop([filled(), filled(), filled()]);
        arbiter.fit_iterators();
        arbiter.divide(&arbiter.tracked.lock());
        let working = {
            let _job = arbiter.begin_job();
            assert_eq!(arbiter.lend_at(at(9000)), Some(at(11_000)), "a job runs");
            assert!(!arbiter.lend(at(9000)));
            assert!(arbiter.charged().total() <= budget);
            cache.capacity()
        };
        assert_eq!(arbiter.lend_at(at(9000)), Some(at(11_000)), "one has run");
        assert_eq!(arbiter.lend_at(at(10_999)), Some(at(11_000)));
        assert!(!arbiter.lend(at(10_999)));
        assert_eq!(arbiter.lend_at(at(11_000)), Some(at(11_000)));
        assert!(arbiter.lend(at(11_000)));
        let lent = cache.capacity();
        assert!(lent > working + most, "{lent} after {working}");
        assert!(arbiter.charged().total() <= budget && pool.idle_bytes() == 0);
        assert_eq!(arbiter.lend_at(at(20_000)), None);
        assert!(!arbiter.lend(at(20_000)), "it is lent");

        // The open memtable and the next one fill, and their writers find room.
        let two = [filled(), filled()];
        arbiter.divide(&arbiter.tracked.lock());
        // But for the rests of chunks.
        let chunks = most / 2;
        assert!(lent - cache.capacity() < chunks, "{lent}");
        let job = arbiter.begin_job();
        let three = filled();
        arbiter.divide(&arbiter.tracked.lock());
        assert!(working.abs_diff(cache.capacity()) < chunks, "{working}");
        assert!(arbiter.charged().total() <= budget);
        drop((job, two, three));
        assert_eq!(arbiter.lend_at(at(30_000)), Some(at(32_000)));
    }
}
