//! What a caller can ask for beside reading and writing: flush, compact, wait, stop, destroy.

use super::join::Effort;
use crate::base::keys::FileNumber;
use crate::base::sync::atomic::Ordering;
use crate::engine::Engine;
use crate::engine::catalog::Catalog;
use crate::engine::open::directory::{hold, take_lock};
use crate::error::{Error, Result};
use crate::version::file_names::{self, FileName};
use crate::version::{Generation, Partition};
use crate::vfs::{Env, wait_until};
use std::path::Path;
use std::sync::Arc;

impl Engine {
    /// Seals the memtable and waits until all memtables sealed so far are in tables. A poisoned log
    /// is then begun anew.
    pub(crate) fn flush_memtables(&self) -> Result<()> {
        self.check_open()?;
        let newest = {
            let mut commit = self.commit.lock();
            self.check_open()?;
            if self.health.is_suspended() {
                self.health.check_fatal()?;
                self.seal_without_wal(&mut commit);
            } else if !commit.memtable.table.is_empty() {
                self.seal(&mut commit)?;
            }
            commit.memtable.wal
        };
        let flushed = || {
            let view = self.view.load();
            view.sealed.iter().all(|sealed| sealed.wal >= newest)
        };
        self.wait_while(flushed, Engine::check_flushes)?;
        if self.health.is_suspended() {
            return self.resume(&mut self.commit.lock());
        }
        Ok(())
    }

    /// Flushes, freezes every generation of the partitions that meet the range between the bounds,
    /// and waits until all are merged.
    pub(crate) fn compact(&self, (lower, upper): &(Vec<u8>, Vec<u8>)) -> Result<()> {
        self.flush_memtables()?;
        if lower >= upper {
            return Ok(());
        }
        // Tables flushed until now have smaller numbers. Partitions may be split meanwhile.
        let next_file = FileNumber(self.next_file.load(Ordering::Relaxed));
        let merged = || self.freeze_tables_before(next_file, lower, upper);
        self.wait_while(merged, Engine::check_merges)
    }

    /// Freezes every generation between the bounds that has a table with a number below `file`.
    /// True: there is none.
    fn freeze_tables_before(&self, file: FileNumber, lower: &[u8], upper: &[u8]) -> bool {
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
            self.work.notify();
        }
        done
    }

    /// Waits until no memtable is sealed, no generation is frozen, no partition is too large, no
    /// two neighbours are too small, there is little enough garbage, and what scans have paid for
    /// is done.
    pub(crate) fn quiesce(&self) -> Result<()> {
        // What merges have shown may make the memtable worth a flush.
        while self.settle()? {
            self.await_background()?;
        }
        self.await_background()?;
        // What the last readers and jobs have let go of takes no space when this returns.
        self.store.remove_obsolete();
        Ok(())
    }

    /// Waits until the background finds nothing to do.
    fn await_background(&self) -> Result<()> {
        self.check_open()?;
        self.catalog.lock().given_up_joins.clear();
        let _at_once = self.idle.ask();
        // What there is to do may depend on snapshots that have gone since the background last
        // looked.
        self.work.notify();
        let idle = || {
            let mut catalog = self.catalog.lock();
            let limits = self.partition_limits();
            let mut partitions = catalog.version.partitions().iter();
            let idle = catalog.merging.is_empty()
                && self.plan_merge(&catalog, None).is_none()
                && !partitions.any(|p| Catalog::is_to_be_split(p, limits))
                && self.view.load().sealed.is_empty();
            let joined = !idle || self.plan_join(&catalog, Effort::Merges, None).is_none();
            // A join that was given up meanwhile is in backoff, and nothing is in its way any more.
            let in_backoff = !joined && !catalog.given_up_joins.is_empty();
            if in_backoff {
                catalog.given_up_joins.clear();
            }
            let for_reads = self.plan_scan_merge(&catalog).is_some()
                || self.plan_when_idle(&catalog).is_some()
                || self.is_index_wanted()
                || self.are_blocks_wanted();
            drop(catalog);
            // A read of an old view may have paid the last of it without knowing.
            if for_reads || in_backoff {
                self.work.notify();
            }
            idle && joined && !for_reads
        };
        self.wait_while(idle, Engine::check_jobs)
    }

    /// Waits for `done` as long as `check` finds nothing and the database is open.
    pub(crate) fn wait_while(
        &self,
        mut done: impl FnMut() -> bool,
        check: fn(&Engine) -> Result<()>,
    ) -> Result<()> {
        let mut outcome = Ok(());
        wait_until(&*self.progress, || {
            if done() {
                outcome = Ok(());
                return true;
            }
            outcome = self.check_open().and_then(|()| check(self));
            outcome.is_err()
        });
        outcome
    }

    /// Lets no more work begin and tells the workers to end.
    pub(crate) fn stop(&self) {
        self.closing.store(true, Ordering::Release);
        // Waits for a group that is being committed, which may wait for the background itself.
        self.progress.notify();
        drop(self.commit.lock());
        self.work.notify();
        self.progress.notify();
        self.sync_wake.notify();
    }

    /// Removes what is obsolete and lets another opener in. The workers have ended.
    pub(crate) fn release(&self) {
        // Files of large values that are being written are given up by their writers.
        drop(self.staging.write());
        // An ingest removes its files when it finds the database closed.
        drop(self.ingesting.write());
        self.commit.lock().wal = None;
        self.store.remove_files(self.wal_sync.drop_spare());
        self.views.release();
        self.store.remove_obsolete();
        drop(self.lock.lock().take());
    }
}

/// Removes a database. CURRENT goes first: without it nothing is taken for a database again, and
/// with it everything is still there.
pub(crate) fn destroy(env: &Env, dir: &Path) -> Result<()> {
    let survey = file_names::survey(&*env.vfs, dir)?;
    // A lock file beside foreign files may be theirs.
    let only_lock = survey.names.iter().all(|name| *name == FileName::Lock);
    if survey.names.is_empty() || (only_lock && !survey.foreign.is_empty()) {
        return Ok(());
    }
    let env = &hold(env, dir)?;
    file_names::refuse_foreign(&*env.vfs, dir)?;
    let lock = take_lock(env, dir)?;
    let survey = file_names::survey(&*env.vfs, dir)?;
    let remove = |name: &FileName| {
        let path = dir.join(name.to_string());
        env.vfs
            .remove(&path)
            .map_err(|e| Error::io("remove", &path, e))
    };
    let sync = || {
        env.vfs
            .sync_dir(dir)
            .map_err(|e| Error::io("sync the directory", dir, e))
    };
    if survey.has_current {
        remove(&FileName::Current)?;
        sync()?;
    }
    let kept = [FileName::Current, FileName::Lock];
    // Data before manifests: while data files are left, a missing CURRENT tells of the removal.
    survey
        .names
        .iter()
        .filter(|name| !kept.contains(name))
        .try_for_each(remove)?;
    remove(&FileName::Lock)?;
    drop(lock);
    if survey.foreign.is_empty() {
        env.vfs
            .remove_dir(dir)
            .map_err(|e| Error::io("remove the directory", dir, e))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::engine::tests::{Machine, Model, churn, same, small};
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    #[test]
    fn compacting_a_range_merges_the_partitions_it_meets_and_no_others() {
        let machine = Machine::new(1);
        let options = small().key_table_bytes(1 << 10);
        let (db, _runtime) = machine.open(options.clone().partition_bytes(12 << 10));
        let (mut model, mut rng) = (Model::new(), SmallRng::seed_from_u64(1));
        churn(&db, &mut model, &mut rng, 2000);
        db.compact().unwrap();
        db.quiesce().unwrap();
        db.close().unwrap();
        // Nothing is split or collected from here on, and no generation is frozen.
        let options = options.unsorted_bytes(1 << 20).max_space_amp(100.0);
        let options = options.memory_budget(64 << 20);
        let (db, _runtime) = machine.open(options);
        let unsorted = || -> Vec<u64> {
            let stats = db.stats();
            let partitions = stats.partitions.iter();
            partitions.map(|p| p.unsorted_bytes).collect()
        };
        assert!(unsorted().len() >= 3, "{:?}", unsorted());
        for (key, value) in model.iter_mut() {
            *value = b"new".to_vec();
            db.put(key, b"new").unwrap();
        }
        db.flush().unwrap();
        let before = unsorted();
        let waiting = before.iter().filter(|bytes| **bytes > 0).count();
        assert!(waiting > 3, "{before:?}");

        // The wrong way round: nothing.
        db.compact_range("key0001".."key0000").unwrap();
        assert_eq!(unsorted(), before);
        // A border with something to merge on both sides, and behind.
        let both = |i: &usize| before[*i] > 0 && before[*i - 1] > 0;
        let behind = |i: &usize| before[*i + 1..].iter().any(|bytes| *bytes > 0);
        let middle = (1..before.len()).find(|i| both(i) && behind(i)).unwrap();
        let starts: Vec<_> = db.stats().partitions.into_iter().map(|p| p.start).collect();
        // Up to a border, which is another partition's.
        db.compact_range(..starts[middle].as_slice()).unwrap();
        let left = unsorted();
        assert!(left[..middle].iter().all(|bytes| *bytes == 0), "{left:?}");
        assert_eq!(left[middle..], before[middle..]);
        let border = starts[middle].as_slice();
        db.compact_range(border..=border).unwrap();
        let left = unsorted();
        assert!(left[..=middle].iter().all(|bytes| *bytes == 0), "{left:?}");
        assert_eq!(left[middle + 1..], before[middle + 1..]);
        same(&db, &model);
        db.compact().unwrap();
        assert!(
            unsorted().iter().all(|bytes| *bytes == 0),
            "{:?}",
            unsorted()
        );
        same(&db, &model);
        db.close().unwrap();
        machine.check();
    }
}
