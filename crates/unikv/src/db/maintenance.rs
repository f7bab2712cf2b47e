//! What a caller can ask for beside reading and writing: flush, compact, wait, stop, destroy.

use super::engine::Engine;
use super::open::take_lock;
use crate::error::{Error, Result};
use crate::version::file_names::{self, FileName};
use crate::vfs::{Env, wait_until};
use std::path::Path;
use std::sync::atomic::Ordering;

impl Engine {
    /// Seals the memtable and waits until all memtables sealed so far are in tables. A poisoned log
    /// is then begun anew.
    pub(crate) fn flush_memtables(&self) -> Result<()> {
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
        self.wait_for(|| {
            self.view
                .load()
                .sealed
                .iter()
                .all(|sealed| sealed.wal >= newest)
        })?;
        if self.health.is_suspended() {
            return self.resume(&mut self.commit.lock());
        }
        Ok(())
    }

    /// Flushes, freezes every generation and waits until all are merged.
    pub(crate) fn compact(&self) -> Result<()> {
        self.flush_memtables()?;
        let frozen = {
            let mut catalog = self.catalog.lock();
            catalog.targets.clear();
            let partitions = catalog.version.partitions();
            let newest = partitions
                .iter()
                .filter_map(|p| Some((p.id, p.generations.first()?.id)));
            newest.collect::<Vec<_>>()
        };
        self.work.notify();
        self.wait_for(|| {
            let version = &self.view.load().version;
            frozen.iter().all(|(id, newest)| {
                let partition = version.partition(*id);
                partition.is_none_or(|p| p.generations.iter().all(|g| g.id > *newest))
            })
        })
    }

    /// Waits until no memtable is sealed, no generation is frozen and there is little enough garbage.
    pub(crate) fn quiesce(&self) -> Result<()> {
        self.check_open()?;
        self.wait_for(|| {
            let catalog = self.catalog.lock();
            let idle = catalog.merging.is_empty() && self.plan_merge(&catalog).is_none();
            idle && self.view.load().sealed.is_empty()
        })
    }

    /// Waits for the background to bring `done` about; fails when it fails or the database closes.
    fn wait_for(&self, mut done: impl FnMut() -> bool) -> Result<()> {
        let mut outcome = Ok(());
        wait_until(&*self.progress, || {
            if done() {
                outcome = Ok(());
                return true;
            }
            outcome = self.check_open().and_then(|()| self.health.check_jobs());
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
        self.commit.lock().wal = None;
        self.remove_files(self.store.take_obsolete());
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
    file_names::refuse_foreign(&*env.vfs, dir)?;
    let lock = take_lock(env, dir)?;
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
