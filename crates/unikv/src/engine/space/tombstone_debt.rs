//! Deleted records give their space back early, and also when nobody writes any more (promise I7).
//!
//! A tombstone or a short value takes a few bytes and may hide a large record, which only its
//! flush, its merge and then garbage collection reclaim. Three rules bound what is hidden
//! ([`crate::jobs::space`] estimates it): a memtable whose writes hide too much is sealed early;
//! while generations hide too much the worst is frozen, and so merged, early; and when space may be
//! out of bounds and nobody has written for a second, all are, after the memtable if its writes may
//! supersede long records. The last two hold as well for what has died in tables that other
//! partitions have merged already ([`crate::jobs::compact::half_merged`]): generations keep it.

use crate::base::keys::Kind;
use crate::base::sync::atomic::Ordering;
use crate::engine::space::estimates::{Freed, KnownSpace};
use crate::engine::space::{DiskSpace, MEMTABLES_WHEN_IDLE};
use crate::jobs::compact::gc;
use crate::jobs::compact::left_alone::LeftAlone;
use crate::jobs::space::Space;
use crate::jobs::space::garbage::Pressure;
use crate::jobs::space::tombstones::MANY;
use crate::memtable::{Batch, BatchOp, OpsIter};
use crate::partition::{Horizon, MemtableHandle, View};
use crate::version::Version;
use std::sync::Arc;

impl DiskSpace {
    /// The space of a version. Summed up once a version, and once in a while where it has something
    /// that expires: it is asked for at every seal and by every job, and the sum is over all files.
    pub(crate) fn space_of(&self, version: &Arc<Version>, horizon: Horizon) -> Space {
        let unreadable = self.unreadable.files();
        let mut known = self.estimates.known.lock();
        let is_same = |known: &&KnownSpace| {
            known.horizon == horizon
                && std::ptr::eq(known.version.as_ptr(), Arc::as_ptr(version))
                && known.unreadable == unreadable
        };
        if let Some(known) = known.as_ref().filter(is_same) {
            return known.space;
        }
        let left_alone = LeftAlone::of(version, &unreadable);
        let space = Space {
            stuck_bytes: gc::stuck_bytes(version, horizon, &left_alone),
            ..Space::of(version, horizon, self.core.options.max_space_amp)
        };
        *known = Some(KnownSpace {
            version: Arc::downgrade(version),
            horizon,
            unreadable,
            space,
        });
        space
    }

    /// How full the space promise is at worst: 1 when files may take all that is promised, jobs
    /// included; 0 when there is no garbage at all.
    pub(crate) fn space_fill(&self, view: &View, space: &Space) -> f64 {
        let hidden = self.estimates.freed_in(view.sealed.len());
        space.fill(self.space_limit(), hidden)
    }

    /// Judges again, after a version of such a space was published.
    pub(crate) fn update_tombstone_debt(&self, space: &Space) {
        let limit = self.space_limit();
        let excess = space.without_snapshots().excess(limit, Pressure::Alone);
        let presses = space.obsolete_bytes_in_all > 0 && excess > 0;
        let reclaim = &self.estimates;
        let stored = space.live_bytes + space.key_table_bytes;
        let alike = space.entries.saturating_sub(space.outliers.count);
        let mean = stored
            .saturating_sub(space.outliers.bytes)
            .checked_div(alike);
        let mean = mean.unwrap_or(0);
        let worth = space.writes_worth_a_flush(limit).unwrap_or(0);
        reclaim.writes_worth_a_flush.store(worth, Ordering::Relaxed);
        let limit = space.allowed_garbage(limit) / 16;
        reclaim.mean_record_bytes.store(mean, Ordering::Relaxed);
        let has_outliers = space.outliers.count > 0;
        reclaim.has_outliers.store(has_outliers, Ordering::Relaxed);
        let limit = limit.max(self.core.memory.plan.memtable_bytes);
        reclaim.memtable_limit.store(limit, Ordering::Relaxed);
        reclaim.judge(presses);
    }

    /// Bytes that a group of batches frees beyond its own, about: as many records of mean size, and
    /// what is known of much longer ones, unless the memtable has superseded these already, which
    /// `is_first` denies of a key. Puts of large values count on neither side: their bytes are in
    /// files, and make up for nothing that the memtable hides. `version` is the published one.
    pub(crate) fn freed_by<'a>(
        &self,
        is_first: impl Fn(&[u8]) -> bool,
        batches: impl Iterator<Item = &'a Batch> + Clone,
        version: impl FnOnce() -> Arc<Version>,
    ) -> i64 {
        let batches = || batches.clone();
        let shorts = |batch: &Batch| batch.len() - batch.externals();
        let records: u64 = batches().map(|batch| shorts(batch) as u64).sum();
        let bytes: u64 = batches().map(|b| b.user_bytes_here() as u64).sum();
        let mean = self.estimates.mean_record_bytes.load(Ordering::Relaxed);
        let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        let freed = signed(records.saturating_mul(mean)) - signed(bytes);
        if !self.estimates.has_outliers.load(Ordering::Relaxed) {
            return freed;
        }
        let version = version();
        let superseded = |op: BatchOp<'_>| {
            let table = version.partition_for(op.key)?.key_table_for(op.key)?;
            let len = table.known_outliers()?.len_of(op.key)?;
            is_first(op.key).then(|| len.saturating_sub(op.value.len() as u64))
        };
        let ops = batches().flat_map(|batch| OpsIter::new(batch.ops_bytes()));
        let long: u64 = ops.flatten().filter_map(superseded).sum();
        freed.saturating_add(signed(long))
    }

    /// Bytes of the SortedStore in the ranges that batches delete, about: whole key tables. What a
    /// range has of others counts as that of a delete.
    #[cold]
    pub(crate) fn deleted_by<'a>(
        &self,
        batches: impl Iterator<Item = &'a Batch>,
        version: &Version,
    ) -> u64 {
        let ops = batches
            .flat_map(|batch| OpsIter::new(batch.ops_bytes()))
            .flatten();
        let ranges = ops.filter(|op| op.kind == Kind::RangeDelete);
        ranges
            .map(|op| sorted_bytes_in((op.key, op.value), version))
            .sum()
    }

    /// The same of ranges that do not overlap.
    pub(crate) fn deleted_in(&self, ranges: &[(&[u8], &[u8])], version: &Version) -> u64 {
        ranges
            .iter()
            .map(|range| sorted_bytes_in(*range, version))
            .sum()
    }

    /// Whether the writes in the memtable free so much that it is to be sealed.
    pub(crate) fn hides_too_much(&self, freed: Freed) -> bool {
        freed.bytes_with_ranges() > self.estimates.memtable_limit.load(Ordering::Relaxed)
    }

    /// A memtable begins.
    pub(crate) fn memtable_begins(&self) {
        let deletes = self.core.counters.deletes.load(Ordering::Relaxed);
        self.estimates
            .deletes_before
            .store(deletes, Ordering::Relaxed);
    }

    /// Whether there are this many deletes in the memtable that scans gain from its flush and
    /// merge.
    #[inline]
    pub(crate) fn has_many_deletes(&self) -> bool {
        let deletes = self.core.counters.deletes.load(Ordering::Relaxed);
        deletes.saturating_sub(self.estimates.deletes_before.load(Ordering::Relaxed)) >= MANY
    }

    /// The oldest snapshot has gone: wakes the background if it kept much.
    pub(crate) fn snapshot_released(&self) {
        if self.estimates.waits_for_snapshots() {
            self.core.work.notify();
        }
    }

    /// Whether the writes in a memtable may supersede long records, more than there may be when
    /// idle, or whether it has this many large values that overwritten ones among them may take as
    /// much.
    pub(crate) fn is_worth_a_flush(&self, memtable: &MemtableHandle) -> bool {
        let worth = self.estimates.writes_worth_a_flush.load(Ordering::Relaxed);
        let most_large = MEMTABLES_WHEN_IDLE * self.core.memory.plan.memtable_bytes;
        let supersedes = worth > 0 && memtable.table.len() as u64 >= worth;
        supersedes || memtable.table.has_ranges() || memtable.large.bytes() > most_large
    }
}

/// Bytes of the SortedStore's key tables that lie in a range as a whole, and of their values.
fn sorted_bytes_in((start, end): (&[u8], &[u8]), version: &Version) -> u64 {
    let partitions = version.partitions_between(start, end);
    partitions.map(|p| p.sorted_bytes_within(start, end)).sum()
}

#[cfg(test)]
mod tests {
    use crate::Tuning;
    use crate::engine::tests::{Machine, small};

    #[test]
    fn short_values_hide_long_ones_as_deletes_do() {
        let machine = Machine::new(8);
        let (db, _) = machine.open(
            small()
                .memory_budget(64 << 20)
                .tuning(Tuning::default().memtable_bytes(1 << 20)),
        );
        let key = |n: u32| format!("key{n:05}");
        let put = |len: usize| (0..100).for_each(|n| db.put(key(n), vec![7; len]).unwrap());
        let freed = || db.0.engine.write.commit.lock().freed.bytes();
        let mean_is_known = || {
            db.flush().unwrap();
            db.compact().unwrap();
        };
        put(2000);
        assert_eq!(freed(), 0, "nothing is there yet");
        mean_is_known();
        put(2000);
        assert!(freed() < 100 * 400, "{}", freed());
        mean_is_known();
        put(40);
        assert!(freed() > 100 * 1900, "{}", freed());
        mean_is_known();
        (0..100).for_each(|n| db.delete(key(n)).unwrap());
        assert!((100 * 40..100 * 400).contains(&freed()), "{}", freed());
    }

    #[test]
    fn large_values_do_not_make_up_for_what_deletes_hide() {
        let machine = Machine::new(9);
        let (db, _) = machine.open(
            small()
                .memory_budget(64 << 20)
                .tuning(Tuning::default().memtable_bytes(1 << 20)),
        );
        let key = |n: u32| format!("key{n:05}");
        (0..100).for_each(|n| db.put(key(n), [7; 2000]).unwrap());
        db.flush().unwrap();
        db.compact().unwrap();
        let large = vec![8; 300 << 10];
        for n in 0..100 {
            db.delete(key(n)).unwrap();
            if n % 10 == 0 {
                db.put(format!("large{n:05}"), &large).unwrap();
            }
        }
        let freed = db.0.engine.write.commit.lock().freed.bytes();
        assert!((100 * 1900..100 * 2400).contains(&freed), "{freed}");
    }
}
