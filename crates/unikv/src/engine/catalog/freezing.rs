//! When generations are frozen, and so merged, before they are full.
//!
//! Kept under the catalog's lock.

use super::CatalogState;
use crate::base::keys::{FileNumber, PartitionId};
use crate::jobs::flush::placing::GenerationLimits;
use crate::version::{Generation, Partition};
use std::sync::Arc;

/// What came of freezing the generations with old tables.
pub(crate) struct FrozenBefore {
    /// Any generation has been frozen.
    pub(crate) any: bool,
    /// No generation has an old table any more.
    pub(crate) is_done: bool,
}

impl CatalogState {
    /// Freezes a partition's open generation, unless that would make it one too many.
    pub(crate) fn freeze(&mut self, partition: &Partition) -> bool {
        self.may_freeze(partition) && self.end_target(partition.id)
    }

    /// Whether the partition has an open generation that may be frozen.
    pub(crate) fn may_freeze(&self, partition: &Partition) -> bool {
        self.targets.may_freeze(partition)
    }

    /// Freezes every open generation that may be frozen; whether there was one.
    pub(crate) fn freeze_all(&mut self) -> bool {
        let version = Arc::clone(&self.version);
        let partitions = version.partitions().iter();
        partitions.filter(|p| self.freeze(p)).count() > 0
    }

    /// Whether [`Self::freeze_all`] would freeze any. It takes long only where many partitions have
    /// all their generations.
    pub(crate) fn may_freeze_any(&self) -> bool {
        let partitions = self
            .targets
            .keys()
            .filter_map(|id| self.version.partition(*id));
        partitions.into_iter().any(|p| self.may_freeze(p))
    }

    /// Freezes the open generations of these partitions. Whether there was one.
    pub(crate) fn freeze_these(&mut self, ids: &[PartitionId]) -> bool {
        let version = Arc::clone(&self.version);
        let partitions = ids.iter().filter_map(|id| version.partition(*id));
        partitions.filter(|p| self.freeze(p)).count() > 0
    }

    /// Freezes every generation between the bounds that has a table with a number below `file`.
    pub(crate) fn freeze_tables_before(
        &mut self,
        file: FileNumber,
        lower: &[u8],
        upper: &[u8],
    ) -> FrozenBefore {
        let version = Arc::clone(&self.version);
        let has_old = |g: &Generation| g.tables().any(|(_, t)| t.meta().number < file);
        let mut frozen = FrozenBefore {
            any: false,
            is_done: true,
        };
        let meets = |p: &Partition| p.start.as_slice() < upper && p.range().is_before_end(lower);
        for partition in version.partitions().iter().filter(|p| meets(p)) {
            if partition.generations.iter().any(has_old) {
                frozen.is_done = false;
                let newest_is_old = partition.generations.first().is_some_and(has_old);
                frozen.any |= newest_is_old && self.freeze(partition);
            }
        }
        frozen
    }

    /// Freezes the open generations that hide and keep most, while all hide and keep more than
    /// `most` bytes: there are `garbage` bytes of that.
    pub(crate) fn freeze_hiding(&mut self, garbage: u64, most: u64) {
        if garbage <= most {
            return;
        }
        let version = Arc::clone(&self.version);
        let open = version.partitions().iter().filter_map(|p| {
            let target = self.targets.get(&p.id)?;
            let generation = p
                .generations
                .first()
                .filter(|g| g.id == target.generation)?;
            let hidden = p.hidden_by([generation]);
            Some((hidden + version.kept_by(generation), p))
        });
        let mut open: Vec<_> = open.filter(|(garbage, _)| *garbage > 0).collect();
        let mut garbage: u64 = open.iter().map(|(garbage, _)| garbage).sum();
        open.sort_unstable_by_key(|(garbage, _)| std::cmp::Reverse(*garbage));
        for (its, partition) in open {
            if garbage <= most {
                return;
            }
            if self.freeze(partition) {
                garbage -= its;
            }
        }
    }

    /// Freezes what is full; and while the open generations of all partitions together hold more
    /// than their share of bytes or index memory, the largest: one budget for all.
    pub(crate) fn freeze_full(&mut self, limits: GenerationLimits) {
        self.end_full_targets(limits);
        let version = Arc::clone(&self.version);
        let open = |p: &Arc<Partition>| {
            let target = self.targets.get(&p.id)?;
            let bytes = target.bytes();
            let index_bytes = target.index.memory_bytes() as u64;
            Some((bytes, index_bytes, Arc::clone(p)))
        };
        let mut open: Vec<_> = version.partitions().iter().filter_map(open).collect();
        let mut bytes: u64 = open.iter().map(|(bytes, ..)| bytes).sum();
        let mut index_bytes: u64 = open.iter().map(|(_, index, _)| index).sum();
        let most_bytes = limits.shared_bytes;
        if open.len() < 2 || (bytes <= most_bytes && index_bytes <= limits.index_bytes) {
            return;
        }
        open.sort_unstable_by_key(|(bytes, ..)| std::cmp::Reverse(*bytes));
        for (its_bytes, its_index, partition) in open {
            if bytes <= most_bytes && index_bytes <= limits.index_bytes {
                return;
            }
            if self.freeze(&partition) {
                bytes -= its_bytes;
                index_bytes -= its_index;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Batch;
    use crate::Tuning;
    use crate::engine::tests::{Machine, small};
    use crate::jobs::space::tombstones::MANY;
    use crate::options::Clustering;
    use crate::vfs::Runtime;
    use std::time::Duration;

    /// Nothing but the commit and the flush worker looks at the memtable then.
    #[test]
    fn deletes_of_the_last_batch_are_flushed_while_nobody_writes() {
        for clustering in [Clustering::LeastWriting, Clustering::Automatic] {
            let machine = Machine::new(6);
            let options = small().clustering(clustering).memory_budget(64 << 20);
            let (db, runtime) =
                machine.open(options.tuning(Tuning::default().memtable_bytes(512 << 10)));
            let key = |n: u64| format!("key{n:06}");
            (0..2 * MANY).for_each(|n| db.put(key(n), b"value").unwrap());
            db.compact().unwrap();
            let pause = |time: Duration| {
                runtime.delay(time);
                runtime.run_until_idle();
            };
            (0..60).for_each(|_| pause(Duration::from_secs(1)));
            // Writers without a pause, until one deletes much at once, of which nothing is there.
            let mut batch = Batch::new();
            for n in 0..MANY {
                batch.delete(key(4 * MANY + n));
            }
            for n in 0..5 {
                db.put(key(3 * MANY + n), b"value").unwrap();
                pause(Duration::from_millis(400));
            }
            db.write(&batch).unwrap();
            (0..10).for_each(|_| pause(Duration::from_secs(1)));
            assert_eq!(db.0.engine.read.view.load().memtable.table.len(), 0);
            db.close().unwrap();
            machine.check();
        }
    }

    #[test]
    fn deletes_are_merged_away_while_nobody_writes() {
        const KEYS: u32 = 20_000;
        let options = || {
            small().memory_budget(64 << 20).tuning(
                Tuning::default()
                    .memtable_bytes(512 << 10)
                    .unsorted_bytes(8 << 20)
                    .key_table_bytes(64 << 10),
            )
        };
        let key = |n: u32| format!("key{n:06}");
        // All is deleted; or all but one of thirty, which is not worth writing the others again.
        for (every, is_reopened) in [(1, false), (1, true), (30, false)] {
            let machine = Machine::new(5);
            let (mut db, mut runtime) = machine.open(options());
            (0..KEYS).for_each(|n| db.put(key(n), [n as u8; 100]).unwrap());
            db.compact().unwrap();
            for n in (0..KEYS).step_by(every) {
                db.delete(key(n)).unwrap();
            }
            if is_reopened {
                db.close().unwrap();
                (db, runtime) = machine.open(options());
            }
            for _ in 0..30 {
                runtime.delay(Duration::from_secs(1));
                runtime.run_until_idle();
            }
            let version = db.0.engine.read.view.load().version.clone();
            let partitions = version.partitions().iter();
            let entries = |p: &std::sync::Arc<crate::version::Partition>| {
                let tables = p.key_tables.iter().map(|table| table.meta().count);
                let generations = p.generations.iter().map(|g| g.records());
                generations.chain(tables).sum::<u64>()
            };
            let entries = partitions.map(entries).sum::<u64>();
            let in_memory = db.0.engine.read.view.load().memtable.table.len();
            match every {
                // What is left is few.
                1 => assert!(entries < MANY && (in_memory as u64) < MANY),
                _ => assert!(entries >= u64::from(KEYS), "{entries}"),
            }
            let left = if every == 1 {
                0
            } else {
                KEYS - KEYS.div_ceil(30)
            };
            assert_eq!(db.iter().count(), left as usize);
            db.close().unwrap();
            machine.check();
        }
    }
}
