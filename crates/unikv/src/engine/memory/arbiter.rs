//! The arbiter, and what it knows of each part.

use super::plan::{MEMTABLES, READ_PART, ROOMY_CACHE_PART};
use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::engine::memory::plan::MemoryPlan;
use crate::jobs::Jobs;
use crate::jobs::flush::flushed_together;
use crate::key_table::ReadCache;
use crate::memtable::{ArenaPool, Memtable};
use crate::partition::View;
use crate::version::Version;
use crate::vfs::Process;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// This many memtables there are while writers are busy: an open one, one that is flushed, and one
/// that waits.
const USUAL_MEMTABLES: u64 = 3;
/// What a memtable may take whatever the others take.
const LEAST_MEMTABLE_PART: u64 = 64;
/// A hash index is at most as large as this part of the budget.
pub(super) const INDEX_PART: u64 = 8;
/// Per record of a flush: its entry among the table's keys, and its entry in the key section, which
/// grows by doubling.
const FLUSH_BYTES_PER_RECORD: u64 = 32 + 64;
/// Room for more iterators is given back once few are open; room for fewer only with the next view:
/// they come and go.
pub(super) const FEW_ITERATORS: usize = 16;
/// What a cursor keeps of a table beside a block.
const CURSOR_BYTES: u64 = 512;
/// What an iterator may fetch ahead, whatever the budget.
pub(super) const LEAST_BATCH_BYTES: u64 = 4 << 10;
pub(super) const MOST_BATCH_BYTES: u64 = 4 << 20;

/// Memory of an open database by part, in bytes, as of now.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct MemoryStats {
    /// The option `memory_budget`.
    pub budget: u64,
    /// Memtables, open and sealed, those that iterators keep, and memory kept for the next ones.
    pub memtables: u64,
    /// Hash indexes, those that iterators keep included.
    pub indexes: u64,
    /// What is known of files, partitions and generations, also what iterators keep of it.
    pub metadata: u64,
    /// Buffers of flushes and merges: as much as they may take while any runs, else what is kept
    /// for the next one.
    pub jobs: u64,
    /// Cursors of open iterators, what they fetch ahead, and what `handed_out` says.
    pub iterators: u64,
    /// What open transactions have read.
    pub transactions: u64,
    /// The read cache: blocks, fences and records.
    pub cache: u64,
    /// Of `iterators`: buffers that keys and values share which iterators have handed out or are
    /// about to, exactly, at this moment. Each lives until the last of those is dropped. While they
    /// take about an eighth of the budget, what is handed out is copies, which are the caller's.
    pub handed_out: u64,
}

impl MemoryStats {
    /// Each part by its name; together they are the [total](MemoryStats::total).
    pub fn parts(&self) -> [(&'static str, u64); 7] {
        [
            ("memtables", self.memtables),
            ("indexes", self.indexes),
            ("metadata", self.metadata),
            ("jobs", self.jobs),
            ("iterators", self.iterators),
            ("transactions", self.transactions),
            ("cache", self.cache),
        ]
    }

    /// All parts together.
    pub fn total(&self) -> u64 {
        self.without_cache() + self.cache
    }

    fn without_cache(&self) -> u64 {
        let used = self.memtables + self.indexes + self.metadata + self.jobs;
        used + self.iterators + self.transactions
    }
}

/// Watches the parts and divides the budget between them.
pub(crate) struct Arbiter {
    pub(crate) plan: MemoryPlan,
    /// That which has opened the database.
    pub(crate) process: Process,
    pub(super) pool: Arc<ArenaPool>,
    pub(super) cache: Arc<ReadCache>,
    /// At which the memtable is to be sealed at present.
    pub(super) memtable_bytes: AtomicU64,
    pub(super) iterators: AtomicUsize,
    /// For how many iterators there is room.
    pub(super) iterators_room: AtomicUsize,
    /// What they took when each last looked, and for how much of it room was made.
    pub(super) iterators_used: AtomicU64,
    pub(super) iterators_charged: AtomicU64,
    /// Memory of the reads of transactions, the number of these transactions, and for how much room
    /// was made.
    pub(super) reads_used: AtomicU64,
    pub(super) reads_open: AtomicU64,
    pub(super) reads_charged: AtomicU64,
    pub(super) jobs: Jobs,
    /// Bytes that large batches wait for.
    pub(super) large_waiting: AtomicU64,
    pub(super) tracked: Mutex<Tracked>,
}

/// What is known since the last publication.
#[derive(Default)]
pub(super) struct Tracked {
    /// The version that was looked at last.
    pub(super) version: Weak<Version>,
    /// Memory of all indexes that are or were in a version, while they live.
    pub(super) indexes: Arc<AtomicU64>,
    /// The same when a version was looked at last.
    pub(super) index_bytes: u64,
    pub(super) largest_index_bytes: u64,
    pub(super) metadata_bytes: u64,
    /// Earlier versions that were held when last looked at, with what they alone take, roughly.
    pub(super) replaced: Vec<(Weak<Version>, u64)>,
    /// Of one iterator's cursors.
    pub(super) cursor_bytes: u64,
    /// What the open memtable may take in addition.
    pub(super) growth_bytes: u64,
    /// What the last flush took or the next will take.
    pub(super) flush_bytes: u64,
    /// Large batches that have memory and are not linked yet.
    pub(super) large_batches: usize,
    /// When a job was last seen.
    pub(super) worked_at: Duration,
    /// How many parts of what jobs and one more memtable take the cache is lent, of
    /// [`lending::PARTS`].
    pub(super) lent_parts: u64,
}

impl Arbiter {
    pub(crate) fn new(
        plan: MemoryPlan,
        pool: &Arc<ArenaPool>,
        cache: &Arc<ReadCache>,
        process: Process,
    ) -> Arc<Arbiter> {
        Arc::new(Arbiter {
            memtable_bytes: AtomicU64::new(plan.memtable_bytes),
            plan,
            process,
            pool: Arc::clone(pool),
            cache: Arc::clone(cache),
            iterators: AtomicUsize::new(0),
            iterators_room: AtomicUsize::new(0),
            iterators_used: AtomicU64::new(0),
            iterators_charged: AtomicU64::new(0),
            reads_used: AtomicU64::new(0),
            reads_open: AtomicU64::new(0),
            reads_charged: AtomicU64::new(0),
            jobs: Jobs::default(),
            large_waiting: AtomicU64::new(0),
            tracked: Mutex::default(),
        })
    }

    /// Looks at a view that is about to be published, and divides the budget. Returns whether
    /// memory is short, so that iterators should release earlier views.
    pub(crate) fn look_at(&self, view: &View) -> bool {
        let mut tracked = self.tracked.lock();
        if !std::ptr::eq(tracked.version.as_ptr(), Arc::as_ptr(&view.version)) {
            tracked.look_at(&view.version, self.plan.block_bytes);
        }
        if self.plan.writes {
            self.expect_writes(&mut tracked, view);
        }
        self.fit_iterators();
        self.fit_reads();
        self.divide(&tracked)
    }

    /// Counts what flushes and the open memtable may take before the next view.
    fn expect_writes(&self, tracked: &mut Tracked, view: &View) {
        // One flush runs at a time. While none waits, its memory is kept for the next.
        let together = flushed_together(&view.sealed, self.memtable_bytes());
        let next = view.sealed.iter().rev().take(together);
        let next: u64 = next.map(|m| flush_bytes(&m.table)).sum();
        let largest = view.sealed.iter().map(|m| flush_bytes(&m.table)).max();
        if let Some(largest) = largest {
            tracked.flush_bytes = largest.max(next);
        }
        let filled = view.memtable.table.bytes() as u64;
        tracked.growth_bytes = self.memtable_bytes().saturating_sub(filled);
    }

    /// At which the memtable is to be sealed at present.
    pub(crate) fn memtable_bytes(&self) -> u64 {
        self.memtable_bytes.load(Ordering::Relaxed)
    }

    /// Gives cache and memtables what the others leave. Returns whether that is little.
    pub(super) fn divide(&self, tracked: &Tracked) -> bool {
        let (plan, charges) = (&self.plan, self.charges(tracked));
        // Memtables are not lent what jobs take: nobody would take it back from them.
        let lent_of_jobs = tracked.lent(self.job_bytes(tracked));
        let others = charges.without_cache() + lent_of_jobs;
        let roomy = plan.budget_bytes - plan.budget_bytes / ROOMY_CACHE_PART;
        if others > roomy {
            self.pool.trim((others - roomy) as usize);
        }
        let for_memtables = roomy.saturating_sub(others - charges.memtables);
        let (most, least) = (plan.memtable_bytes, plan.budget_bytes / LEAST_MEMTABLE_PART);
        let memtable_bytes = (for_memtables / MEMTABLES).clamp(least.min(most), most);
        self.memtable_bytes.store(memtable_bytes, Ordering::Relaxed);
        let charges = self.charges(tracked);
        // Room for the next memtables is there before they are made: their writer does not wait for
        // it.
        let beside = |memtables: u64| {
            let later = memtables.saturating_sub(charges.memtables);
            charges.without_cache() + later
        };
        let memtables = USUAL_MEMTABLES * memtable_bytes;
        let lasting = plan.cache_beside(beside(memtables) + lent_of_jobs);
        let capacity = plan.cache_beside(beside(memtables - tracked.lent(memtable_bytes)));
        self.cache.lend(capacity, capacity - lasting);
        others > roomy
    }

    pub(super) fn charges(&self, tracked: &Tracked) -> MemoryStats {
        let allocated = self.pool.allocated_bytes() as u64;
        let idle = self.pool.idle_bytes() as u64;
        let job_bytes = self.job_bytes(tracked);
        MemoryStats {
            budget: self.plan.budget_bytes,
            memtables: allocated + tracked.growth_bytes.saturating_sub(idle),
            indexes: tracked.index_bytes + self.index_growth_bytes(tracked),
            metadata: tracked.metadata_bytes,
            jobs: self.plan.standing_bytes() + job_bytes - tracked.lent(job_bytes),
            iterators: self.iterator_bytes(tracked),
            transactions: self.reads_bytes(),
            cache: self.cache.memory_bytes(),
            handed_out: self.cache.buffers().shared_bytes() as u64,
        }
    }

    /// What jobs take while they run.
    pub(super) fn job_bytes(&self, tracked: &Tracked) -> u64 {
        self.plan.jobs_bytes() + tracked.flush_bytes
    }

    /// An index that becomes too small is replaced by one of about twice its size.
    fn index_growth_bytes(&self, tracked: &Tracked) -> u64 {
        let most = self.plan.budget_bytes / INDEX_PART;
        (2 * tracked.largest_index_bytes).min(most)
    }

    fn iterator_bytes(&self, tracked: &Tracked) -> u64 {
        let ends = 2 * self.iterators_room.load(Ordering::Relaxed) as u64;
        let batches = (self.plan.budget_bytes / READ_PART).min(ends * MOST_BATCH_BYTES);
        let expected = ends * (tracked.cursor_bytes + LEAST_BATCH_BYTES) + batches;
        // Keys may be long.
        expected.max(self.iterators_charged.load(Ordering::Relaxed))
    }

    /// The memory that each part takes now, where `idle_buffers` are kept for later files.
    pub(crate) fn stats(&self, idle_buffers: u64) -> MemoryStats {
        let tracked = self.tracked.lock();
        let charges = self.charges(&tracked);
        let replaced = |held: &(Weak<Version>, u64)| (held.0.strong_count() > 0).then_some(held.1);
        let version = tracked.version.upgrade();
        let jobs_run = !self.jobs.are_idle();
        MemoryStats {
            memtables: self.pool.allocated_bytes() as u64,
            indexes: tracked.indexes.load(Ordering::Relaxed),
            metadata: version.map_or(0, |version| version.memory_bytes() as u64)
                + tracked.replaced.iter().filter_map(replaced).sum::<u64>(),
            jobs: if jobs_run { charges.jobs } else { idle_buffers },
            iterators: self.used_by_iterators(),
            transactions: self.reads_used.load(Ordering::Relaxed),
            ..charges
        }
    }

    #[cfg(test)]
    pub(super) fn charged(&self) -> MemoryStats {
        self.charges(&self.tracked.lock())
    }

    /// Makes room for as many iterators as are open, or little more, and for what transactions have
    /// read.
    pub(super) fn make_room(&self) {
        // In the child of a fork the lock may be held by a thread that is not there.
        if !self.process.is_this() {
            return;
        }
        let tracked = self.tracked.lock();
        self.fit_iterators();
        self.fit_reads();
        self.divide(&tracked);
    }

    /// What iterators take, and what they have handed out and is not the caller's alone.
    pub(super) fn used_by_iterators(&self) -> u64 {
        let used = self.iterators_used.load(Ordering::Relaxed);
        used + self.cache.buffers().shared_bytes() as u64
    }

    /// For how many iterators there is to be room. Under the lock.
    pub(super) fn fit_iterators(&self) {
        let open = self.iterators.load(Ordering::Relaxed);
        let room_for = open.next_power_of_two();
        self.iterators_room.store(room_for, Ordering::Relaxed);
        let charged = self.used_by_iterators().next_multiple_of(self.step());
        self.iterators_charged.store(charged, Ordering::Relaxed);
    }
}

impl Tracked {
    fn look_at(&mut self, version: &Arc<Version>, block_bytes: u64) {
        let replaced = self.version.upgrade().unwrap_or_default();
        // Those of the other partitions are counted.
        let changed = version.partitions().not_shared_with(replaced.partitions());
        let generations = changed.flat_map(|partition| &partition.generations);
        generations.for_each(|generation| generation.index.count_in(&self.indexes));
        self.index_bytes = self.indexes.load(Ordering::Relaxed);
        if !replaced.partitions().is_empty() {
            let bytes = replaced.memory_bytes_beside(version) as u64;
            self.replaced.push((Arc::downgrade(&replaced), bytes));
        }
        self.replaced.retain(|(held, _)| held.strong_count() > 0);
        self.version = Arc::downgrade(version);
        let sums = version.partition_sums();
        self.largest_index_bytes = sums.largest_index_bytes;
        // A change of the version, and now and then a whole manifest, is made beside it.
        let replaced: u64 = self.replaced.iter().map(|(_, bytes)| bytes).sum();
        self.metadata_bytes = 2 * version.memory_bytes() as u64 + replaced;
        self.cursor_bytes = (sums.most_tables + 1) * (block_bytes + CURSOR_BYTES);
    }
}

/// What a flush of `memtable` takes: the new table's keys and its key section.
fn flush_bytes(memtable: &Memtable) -> u64 {
    let ordering = memtable.ordering_bytes() as u64;
    memtable.len() as u64 * FLUSH_BYTES_PER_RECORD + 2 * memtable.key_bytes() as u64 + ordering
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Options, StoredOptions};

    fn plan(budget: u64) -> MemoryPlan {
        let options = Options::default().memory_budget(budget);
        MemoryPlan::of(&options.resolve(&StoredOptions::default()).unwrap())
    }

    #[test]
    fn the_cache_gives_way_first_then_what_memtables_may_take() {
        let plan = plan(64 << 20);
        let (most, budget) = (plan.memtable_bytes, plan.budget_bytes);
        let pool = ArenaPool::new(most as usize, plan.memtables_bytes() as usize);
        let cache = plan.new_cache();
        let arbiter = Arbiter::new(plan, &pool, &cache, Process::alone());
        let divide = |index_bytes| {
            let tracked = Tracked {
                index_bytes,
                ..Tracked::default()
            };
            let short = arbiter.divide(&tracked);
            (short, cache.capacity(), arbiter.memtable_bytes())
        };
        let (short, roomy, memtable) = divide(0);
        assert!(
            !short && roomy > budget * 3 / 8 && memtable == most,
            "{roomy}"
        );
        let (short, smaller, memtable) = divide(4 << 20);
        assert!(!short && memtable == most);
        assert!(((3 << 20)..(4 << 20)).contains(&(roomy - smaller)));
        let (_, _, memtable) = divide(budget / 2);
        assert!(memtable < most);
        let (short, least, memtable) = divide(budget);
        assert!(short && least < budget / 16 && least > 0);
        assert_eq!(memtable, budget / LEAST_MEMTABLE_PART);
        assert_eq!(divide(0).1, roomy, "and takes it back");
    }

    #[test]
    fn iterators_fetch_less_ahead_the_more_there_are() {
        let plan = plan(64 << 20);
        let pool = ArenaPool::new(1 << 20, 0);
        let cache = plan.new_cache();
        let arbiter = Arbiter::new(plan, &pool, &cache, Process::alone());
        let one = arbiter.open_iterator();
        let alone = one.batch_bytes();
        let more: Vec<_> = (0..99).map(|_| arbiter.open_iterator()).collect();
        assert_eq!(one.batch_bytes(), alone / 100);
        let charged = arbiter.charged().iterators;
        drop(more);
        assert_eq!(one.batch_bytes(), alone);
        assert!(arbiter.charged().iterators < charged);
    }
}
