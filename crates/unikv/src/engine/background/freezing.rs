//! When generations are frozen, and so merged, before they are full.

use crate::base::keys::{FileNumber, PartitionId};
use crate::engine::background::{Background, Ended};
use crate::engine::catalog::CatalogState;
use crate::error::{ErrorKind, Result};
use crate::jobs::space::tombstones;
use crate::version::{Generation, Partition};
use std::sync::Arc;

impl Background {
    /// Freezes every generation between the bounds that has a table with a number below `file`.
    /// True: there is none.
    pub(crate) fn freeze_tables_before(
        &self,
        file: FileNumber,
        lower: &[u8],
        upper: &[u8],
    ) -> bool {
        let mut catalog = self.catalog.lock();
        let version = Arc::clone(&catalog.version);
        let has_old = |g: &Generation| g.tables().any(|(_, t)| t.meta().number < file);
        let mut frozen = false;
        let mut done = true;
        let meets = |p: &Partition| p.start.as_slice() < upper && p.range().is_before_end(lower);
        for partition in version.partitions().iter().filter(|p| meets(p)) {
            if partition.generations.iter().any(has_old) {
                done = false;
                let newest_is_old = partition.generations.first().is_some_and(has_old);
                frozen |= newest_is_old && catalog.freeze(partition);
            }
        }
        drop(catalog);
        if frozen {
            self.core.work.notify();
        }
        done
    }

    /// Freezes all open generations, as deletes have been flushed on a full disk.
    pub(super) fn freeze_for_space(&self) {
        self.space.full_disk.reclaim.frozen();
        self.catalog.lock().freeze_all();
    }

    /// Freezes the open generations of these partitions. Whether there was one.
    pub(super) fn freeze_these(&self, ids: &[PartitionId]) -> bool {
        let mut catalog = self.catalog.lock();
        let version = Arc::clone(&catalog.version);
        let partitions = ids.iter().filter_map(|id| version.partition(*id));
        partitions.filter(|p| catalog.freeze(p)).count() > 0
    }

    /// Freezes the open generation of a leased partition if much of it is tombstones. What cannot
    /// be read is left to the merge, which reports it.
    pub(super) fn freeze_tombstones(&self, id: PartitionId) -> Result<Ended> {
        let version = Arc::clone(&self.read.view.load().version);
        let partition = version.partition(id);
        let Some((partition, generation)) =
            partition.and_then(|p| Some((p, p.generations.first()?)))
        else {
            return Ok(Ended::Nothing);
        };
        let worth = tombstones::are_worth_a_merge(partition, generation, self.until_closed());
        self.counted.note(partition.id, generation);
        match worth {
            Err(error) if error.kind() == ErrorKind::Closed => return Err(error),
            Ok(true) => drop(self.catalog.lock().freeze(partition)),
            Ok(false) | Err(_) => {}
        }
        Ok(Ended::Done)
    }

    /// Freezes the open generations that hide and keep most while all hide and keep too much.
    pub(crate) fn freeze_hiding(&self, catalog: &mut CatalogState) {
        let version = Arc::clone(&catalog.version);
        let space = self.space.space_of(&version, self.space.horizon());
        let limit = space.most_hidden(self.space.space_limit());
        if space.unmerged_garbage() <= limit {
            return;
        }
        let open = version.partitions().iter().filter_map(|p| {
            let target = catalog.targets.get(&p.id)?;
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
            if garbage <= limit {
                return;
            }
            if catalog.freeze(partition) {
                garbage -= its;
            }
        }
    }

    /// Whether generations may hide more than there may be when idle.
    pub(crate) fn holds_too_much(&self) -> bool {
        let version = Arc::clone(&self.read.view.load().version);
        let space = self.space.space_of(&version, self.space.horizon());
        space.is_too_much_when_idle(self.space.space_limit(), 0)
    }

    pub(crate) fn freeze_all(&self) -> bool {
        let frozen = self.catalog.lock().freeze_all();
        if frozen {
            self.core.work.notify();
        }
        frozen
    }
}

#[cfg(test)]
mod tests {
    use crate::Batch;
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
            let (db, runtime) = machine.open(options.memtable_bytes(512 << 10));
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
            small()
                .memory_budget(64 << 20)
                .memtable_bytes(512 << 10)
                .unsorted_bytes(8 << 20)
                .key_table_bytes(64 << 10)
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
