//! The memory arbiter: one budget for everything that the engine allocates (promise I7).
//!
//! The [`MemoryPlan`] divides the budget when the database is opened: it bounds the memtables, the
//! hash indexes and the buffers of jobs, each of which works with less where the budget is small.
//! The [`Arbiter`] then watches what these parts take, and gives the read cache what they leave.
//! So the cache shrinks while writers fill memtables or indexes grow, and grows again afterwards.
//!
//! Invariants: what is charged for a part is at least what it takes until the next publication of
//! a view, so that room has been made before the memory is needed. The cache gives way first. When
//! little of it is left, memory kept for later memtables is given up, iterators let go of earlier
//! views with their memtables and indexes, and memtables are sealed earlier. Indexes are bounded by freezing generations and by making flushes wait for merges.
//!
//! Locks: `Arbiter::tracked`, taken under `view_lock` or alone; under it the cache's shards, its list of pointer
//! indexes and the idle chunks, one at a time.

use super::pressure::MAX_SEALED;
use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::hash_index::HashIndex;
use crate::key_table::ReadCache;
use crate::memtable::{ArenaPool, Memtable};
use crate::options::EffectiveOptions;
use crate::partition::View;
use crate::version::Version;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// All memtables there may be: the open one and the sealed ones.
const MEMTABLES: u64 = MAX_SEALED as u64 + 1;
/// A memtable takes at most this part of the budget.
const MEMTABLE_PART: u64 = 12;
/// What iterators fetch ahead takes this part of the budget, and so do the read buffers of merges.
const READ_PART: u64 = 16;
/// A key table, which is built in memory, takes at most this part of the budget.
const KEY_TABLE_PART: u64 = 32;
/// A buffer in which a file's writes are gathered takes at most this part of the budget.
const WRITE_BUFFER_PART: u64 = 64;
/// While the cache has this part of the budget, nobody else has to give way.
const ROOMY_CACHE_PART: u64 = 8;
/// What a memtable may take whatever the others take.
const LEAST_MEMTABLE_PART: u64 = 64;
/// What the cache keeps whatever the others take.
const LEAST_CACHE_PART: u64 = 32;
/// Files that a merge writes at a time, and the buffers that are kept idle for the next file.
const FILES_PER_MERGE: u64 = 3;
const IDLE_WRITE_BUFFERS: u64 = 4;
/// What an output file gathers before it goes to the file's own buffer.
const GATHERED_BYTES: u64 = 64 << 10;
/// A manifest that is longer than this part of the budget may be replaced by a shorter one.
const MANIFEST_PART: u64 = 16;
/// A hash index is at most as large as this part of the budget.
const INDEX_PART: u64 = 8;
/// The longest group of writes that is copied into the log's buffer, and the shortest.
const GROUP_BYTES: std::ops::RangeInclusive<u64> = 4 << 10..=4 << 20;
/// Per record of a flush: its entry among the table's keys, and its entry in the key section, which
/// grows by doubling.
const FLUSH_BYTES_PER_RECORD: u64 = 32 + 64;
/// Iterators for which room is made at a time.
const ITERATORS_PER_STEP: usize = 16;
/// What a cursor keeps of a table beside a block.
const CURSOR_BYTES: u64 = 512;
/// What an iterator may fetch ahead, whatever the budget.
const LEAST_BATCH_BYTES: u64 = 4 << 10;
const MOST_BATCH_BYTES: u64 = 4 << 20;
/// Locks, threads, counters, queues; and which places of the files were read lately.
const FIXED_BYTES: u64 = 96 << 10;
/// What is left over of the budget for what is not charged to the byte.
const SLACK_PART: u64 = 64;

/// How the budget is divided.
#[derive(Clone, Debug)]
pub(crate) struct MemoryPlan {
    pub(crate) budget_bytes: u64,
    /// At which a memtable is sealed.
    pub(crate) memtable_bytes: u64,
    /// Up to which writers that wait share one append to the log.
    pub(crate) group_bytes: u64,
    /// Up to which a batch is copied for the queue of those who wait.
    pub(crate) queued_bytes: u64,
    /// At which a manifest may be replaced by a shorter one: opening keeps its edits in memory.
    pub(crate) manifest_bytes: u64,
    /// Of a key table.
    pub(crate) key_table_bytes: u64,
    /// For the read buffers of one merge.
    pub(crate) merge_read_bytes: u64,
    /// Of the buffer of a file being written.
    pub(crate) write_buffer_bytes: u64,
    block_bytes: u64,
    merge_threads: u64,
}

impl MemoryPlan {
    pub(crate) fn of(options: &EffectiveOptions) -> MemoryPlan {
        let budget = options.memory_budget;
        let merge_threads = (options.background_threads as u64).saturating_sub(1).max(1);
        let memtable_bytes = options.memtable_bytes.min(budget / MEMTABLE_PART);
        let key_table_bytes = options.key_table_bytes;
        MemoryPlan {
            budget_bytes: budget,
            memtable_bytes,
            group_bytes: (memtable_bytes / 4).clamp(*GROUP_BYTES.start(), *GROUP_BYTES.end()),
            key_table_bytes: key_table_bytes.min(budget / KEY_TABLE_PART / merge_threads),
            queued_bytes: (memtable_bytes / 64).max(*GROUP_BYTES.start()),
            manifest_bytes: (budget / MANIFEST_PART).max(64 << 10),
            merge_read_bytes: budget / READ_PART / merge_threads,
            write_buffer_bytes: budget / WRITE_BUFFER_PART / merge_threads,
            block_bytes: u64::from(options.block_bytes),
            merge_threads,
        }
    }

    /// Of all memtables together.
    pub(crate) fn memtables_bytes(&self) -> u64 {
        MEMTABLES * self.memtable_bytes
    }

    /// A cache made for what will mostly be left to it. It may hold little before anything is known of
    /// the others: while a database is opened, they have not made room for one another.
    pub(crate) fn new_cache(&self) -> Arc<ReadCache> {
        let cache = ReadCache::new(self.cache_beside(2 * self.memtable_bytes + self.jobs_bytes()));
        cache.set_capacity(self.budget_bytes / ROOMY_CACHE_PART);
        cache
    }

    /// What merges that run on all threads take, and the buffers for the files of all jobs.
    fn jobs_bytes(&self) -> u64 {
        // A key table is built in a buffer that grows by doubling.
        let tables = self.merge_threads * 2 * self.key_table_bytes;
        let files = self.merge_threads * FILES_PER_MERGE + 1;
        // Whatever the part, a buffer has a few pages.
        let buffer = self.write_buffer_bytes.clamp(8 << 10, 1 << 20);
        let idle = IDLE_WRITE_BUFFERS.min(files);
        let buffers = files * (buffer + GATHERED_BYTES) + idle * buffer;
        tables + self.merge_threads * self.merge_read_bytes + buffers + 2 * self.group_bytes
    }

    fn cache_beside(&self, others: u64) -> u64 {
        let least = self.budget_bytes / LEAST_CACHE_PART;
        let slack = FIXED_BYTES + self.budget_bytes / SLACK_PART;
        self.budget_bytes.saturating_sub(others + slack).max(least)
    }
}

/// Memory of an open database by part, in bytes: what is charged, which is what a part takes or may
/// take before the charges are made anew.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// Buffers of flushes and merges.
    pub jobs: u64,
    /// Cursors of open iterators and what they fetch ahead.
    pub iterators: u64,
    /// The read cache: blocks, fences and records.
    pub cache: u64,
}

impl MemoryStats {
    /// All parts together.
    pub fn total(&self) -> u64 {
        self.without_cache() + self.cache
    }

    fn without_cache(&self) -> u64 {
        self.memtables + self.indexes + self.metadata + self.jobs + self.iterators
    }
}

/// Watches the parts and divides the budget between them.
pub(crate) struct Arbiter {
    pub(crate) plan: MemoryPlan,
    pool: Arc<ArenaPool>,
    cache: Arc<ReadCache>,
    /// At which the memtable is to be sealed at present.
    memtable_bytes: AtomicU64,
    iterators: AtomicUsize,
    tracked: Mutex<Tracked>,
}

/// What is known since the last publication.
#[derive(Default)]
struct Tracked {
    /// The version that was looked at last.
    version: Weak<Version>,
    /// All indexes that are or were in a version, by address. The address is not used again while
    /// the reference is kept.
    indexes: HashMap<usize, Weak<HashIndex>>,
    index_bytes: u64,
    largest_index_bytes: u64,
    metadata_bytes: u64,
    /// Earlier versions that were held when last looked at, with what they alone take, roughly.
    replaced: Vec<(Weak<Version>, u64)>,
    /// Of one iterator's cursors.
    cursor_bytes: u64,
    /// What the open memtable may take in addition.
    growth_bytes: u64,
    /// What the last flush took or the next will take.
    flush_bytes: u64,
}

impl Arbiter {
    pub(crate) fn new(
        plan: MemoryPlan,
        pool: &Arc<ArenaPool>,
        cache: &Arc<ReadCache>,
    ) -> Arc<Arbiter> {
        Arc::new(Arbiter {
            memtable_bytes: AtomicU64::new(plan.memtable_bytes),
            plan,
            pool: Arc::clone(pool),
            cache: Arc::clone(cache),
            iterators: AtomicUsize::new(0),
            tracked: Mutex::default(),
        })
    }

    /// Looks at a view that is about to be published, and divides the budget. Returns whether memory
    /// is short, so that iterators should let go of earlier views.
    pub(crate) fn look_at(&self, view: &View) -> bool {
        let mut tracked = self.tracked.lock();
        if !std::ptr::eq(tracked.version.as_ptr(), Arc::as_ptr(&view.version)) {
            tracked.look_at(&view.version, self.plan.block_bytes);
        }
        // One flush runs at a time. While none waits, its memory is kept for the next.
        let flushes = view.sealed.iter().map(|m| flush_bytes(&m.table));
        if let Some(largest) = flushes.max() {
            tracked.flush_bytes = largest;
        }
        let filled = view.memtable.table.bytes() as u64;
        tracked.growth_bytes = self.memtable_bytes().saturating_sub(filled);
        self.divide(&tracked)
    }

    /// At which the memtable is to be sealed at present.
    pub(crate) fn memtable_bytes(&self) -> u64 {
        self.memtable_bytes.load(Ordering::Relaxed)
    }

    /// Gives cache and memtables what the others leave. Returns whether that is little.
    fn divide(&self, tracked: &Tracked) -> bool {
        let (plan, charges) = (&self.plan, self.charges(tracked));
        let others = charges.without_cache();
        let roomy = plan.budget_bytes - plan.budget_bytes / ROOMY_CACHE_PART;
        if others > roomy {
            self.pool.trim((others - roomy) as usize);
        }
        let for_memtables = roomy.saturating_sub(others - charges.memtables);
        let (most, least) = (plan.memtable_bytes, plan.budget_bytes / LEAST_MEMTABLE_PART);
        let memtable_bytes = (for_memtables / MEMTABLES).clamp(least.min(most), most);
        self.memtable_bytes.store(memtable_bytes, Ordering::Relaxed);
        let others = self.charges(tracked).without_cache();
        self.cache.set_capacity(plan.cache_beside(others));
        others > roomy
    }

    fn charges(&self, tracked: &Tracked) -> MemoryStats {
        let allocated = self.pool.allocated_bytes() as u64;
        let idle = self.pool.idle_bytes() as u64;
        MemoryStats {
            budget: self.plan.budget_bytes,
            memtables: allocated + tracked.growth_bytes.saturating_sub(idle),
            indexes: tracked.index_bytes + self.index_growth_bytes(tracked),
            metadata: tracked.metadata_bytes,
            jobs: self.plan.jobs_bytes() + tracked.flush_bytes,
            iterators: self.iterator_bytes(tracked),
            cache: self.cache.memory_bytes(),
        }
    }

    /// An index that becomes too small is replaced by one of about twice its size.
    fn index_growth_bytes(&self, tracked: &Tracked) -> u64 {
        let most = self.plan.budget_bytes / INDEX_PART;
        (2 * tracked.largest_index_bytes).min(most)
    }

    /// Memory of all hash indexes.
    pub(crate) fn index_bytes(&self) -> u64 {
        self.tracked.lock().index_bytes
    }

    /// Whether the memtables have room for a batch of `bytes`, which take up to twice as much there.
    pub(crate) fn fits(&self, bytes: u64) -> bool {
        let used = self
            .pool
            .allocated_bytes()
            .saturating_sub(self.pool.idle_bytes()) as u64;
        used + 2 * bytes <= self.plan.budget_bytes / MEMTABLE_PART * MEMTABLES
    }

    /// Makes room in the memtable for more than it is made for.
    pub(crate) fn expect(&self, bytes: u64) {
        let mut tracked = self.tracked.lock();
        tracked.growth_bytes = tracked.growth_bytes.max(bytes + bytes / 8);
        self.divide(&tracked);
    }

    fn iterator_bytes(&self, tracked: &Tracked) -> u64 {
        let steps = self.iterators.load(Ordering::Relaxed) / ITERATORS_PER_STEP + 1;
        let room_for = (steps * ITERATORS_PER_STEP) as u64;
        room_for * (tracked.cursor_bytes + LEAST_BATCH_BYTES) + self.plan.budget_bytes / READ_PART
    }

    /// The memory by part.
    pub(crate) fn stats(&self) -> MemoryStats {
        self.charges(&self.tracked.lock())
    }

    /// Counts an iterator until what is returned is dropped.
    pub(crate) fn open_iterator(self: &Arc<Self>) -> IteratorCharge {
        let before = self.iterators.fetch_add(1, Ordering::Relaxed);
        if (before + 1).is_multiple_of(ITERATORS_PER_STEP) {
            self.divide(&self.tracked.lock());
        }
        IteratorCharge {
            arbiter: Arc::clone(self),
        }
    }
}

impl Tracked {
    fn look_at(&mut self, version: &Arc<Version>, block_bytes: u64) {
        if let Some(replaced) = self.version.upgrade() {
            let bytes = replaced.memory_bytes_beside(version) as u64;
            self.replaced.push((Arc::downgrade(&replaced), bytes));
        }
        self.replaced.retain(|(held, _)| held.strong_count() > 0);
        self.version = Arc::downgrade(version);
        let mut most_tables = 0;
        for partition in version.partitions() {
            let mut tables = 0;
            for generation in &partition.generations {
                let index = &generation.index;
                let known = self.indexes.entry(Arc::as_ptr(index).addr());
                known.or_insert_with(|| Arc::downgrade(index));
                tables += generation.tables().count() as u64;
            }
            most_tables = most_tables.max(tables);
        }
        let (mut sum, mut largest) = (0, 0);
        self.indexes.retain(|_, index| {
            let index = index.upgrade();
            let bytes = index.as_ref().map_or(0, |i| i.memory_bytes() as u64);
            sum += bytes;
            largest = bytes.max(largest);
            index.is_some()
        });
        (self.index_bytes, self.largest_index_bytes) = (sum, largest);
        // A change of the version, and now and then a whole manifest, is made beside it.
        let replaced: u64 = self.replaced.iter().map(|(_, bytes)| bytes).sum();
        self.metadata_bytes = 2 * version.memory_bytes() as u64 + replaced;
        self.cursor_bytes = (most_tables + 1) * (block_bytes + CURSOR_BYTES);
    }
}

/// What a flush of `memtable` takes: the new table's keys and its key section.
fn flush_bytes(memtable: &Memtable) -> u64 {
    let ordering = memtable.ordering_bytes() as u64;
    memtable.len() as u64 * FLUSH_BYTES_PER_RECORD + 2 * memtable.key_bytes() as u64 + ordering
}

/// Counts an open iterator.
pub(crate) struct IteratorCharge {
    arbiter: Arc<Arbiter>,
}

impl IteratorCharge {
    /// Bytes of values that the iterator may fetch ahead at present.
    pub(crate) fn batch_bytes(&self) -> u64 {
        let open = self.arbiter.iterators.load(Ordering::Relaxed).max(1) as u64;
        let share = self.arbiter.plan.budget_bytes / READ_PART / open;
        share.clamp(LEAST_BATCH_BYTES, MOST_BATCH_BYTES)
    }
}

impl Drop for IteratorCharge {
    fn drop(&mut self) {
        let before = self.arbiter.iterators.fetch_sub(1, Ordering::Relaxed);
        if before.is_multiple_of(ITERATORS_PER_STEP) {
            self.arbiter.divide(&self.arbiter.tracked.lock());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Options, StoredOptions};

    fn effective(options: &Options) -> EffectiveOptions {
        options.resolve(&StoredOptions::default()).unwrap()
    }

    fn plan(budget: u64) -> MemoryPlan {
        MemoryPlan::of(&effective(&Options::default().memory_budget(budget)))
    }

    #[test]
    fn the_plan_leaves_something_to_the_cache_and_grants_what_is_asked_if_it_can() {
        for budget in [64 << 10, 1 << 20, 16 << 20, 64 << 20, 256 << 20, 4 << 30] {
            let plan = plan(budget);
            let bounded = plan.memtables_bytes() + plan.jobs_bytes() + budget / INDEX_PART;
            if budget >= 16 << 20 {
                assert!(bounded < budget, "{budget}: {plan:?}");
            }
            assert!(plan.cache_beside(2 * budget) > 0);
        }
        let options = effective(&Options::default());
        let plan = plan(options.memory_budget);
        assert_eq!(plan.memtable_bytes, options.memtable_bytes);
        assert_eq!(plan.key_table_bytes, options.key_table_bytes);
    }

    #[test]
    fn the_cache_gives_way_first_then_what_memtables_may_take() {
        let plan = plan(64 << 20);
        let (most, budget) = (plan.memtable_bytes, plan.budget_bytes);
        let pool = ArenaPool::new(most as usize, plan.memtables_bytes() as usize);
        let cache = plan.new_cache();
        let arbiter = Arbiter::new(plan, &pool, &cache);
        let divide = |index_bytes| {
            let tracked = Tracked {
                index_bytes,
                ..Tracked::default()
            };
            let short = arbiter.divide(&tracked);
            (short, cache.capacity(), arbiter.memtable_bytes())
        };
        let (short, roomy, memtable) = divide(0);
        assert!(!short && roomy > budget / 2 && memtable == most);
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
        let arbiter = Arbiter::new(plan, &pool, &cache);
        let one = arbiter.open_iterator();
        let alone = one.batch_bytes();
        let more: Vec<_> = (0..99).map(|_| arbiter.open_iterator()).collect();
        assert_eq!(one.batch_bytes(), alone / 100);
        let charged = arbiter.stats().iterators;
        drop(more);
        assert_eq!(one.batch_bytes(), alone);
        assert!(arbiter.stats().iterators < charged);
    }
}
