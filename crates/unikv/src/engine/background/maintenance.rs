//! What a caller can ask for beside reading and writing: compact, wait until idle, collect garbage.
//! Settling is done for callers, and while writers are idle.

use crate::base::keys::FileNumber;
use crate::base::sync::atomic::Ordering;
use crate::engine::background::{Background, Ended};
use crate::engine::catalog::{CatalogState, Indexes};
use crate::engine::health::{COLLECT, FLUSH, Failure, JobError, MERGE};
use crate::engine::space::garbage::GarbageStats;
use crate::error::Result;
use crate::jobs::plan::Settling;
use crate::jobs::plan::facts::IDLE;
use crate::jobs::plan::rules::settle;
use crate::jobs::space::garbage::Pressure;
use crate::version::edit::VersionEdit;
use std::sync::Arc;
use std::time::Duration;

impl Background {
    /// Flushes, freezes every generation of the partitions that meet the range between the bounds,
    /// and waits until all are merged.
    pub(crate) fn compact(&self, bounds: &(Vec<u8>, Vec<u8>)) -> Result<()> {
        self.write.flush_memtables()?;
        self.merge_tables(bounds)
    }

    /// The same of what has been flushed.
    pub(crate) fn merge_tables(&self, (lower, upper): &(Vec<u8>, Vec<u8>)) -> Result<()> {
        if lower >= upper {
            return Ok(());
        }
        // Tables flushed until now have smaller numbers. Partitions may be split meanwhile.
        let next_file = FileNumber(self.core.next_file.load(Ordering::Relaxed));
        let merged = || {
            let mut catalog = self.catalog.lock();
            let frozen = catalog.freeze_tables_before(next_file, lower, upper);
            drop(catalog);
            if frozen.any {
                self.core.work.notify();
            }
            frozen.is_done
        };
        self.core.wait_while(merged, || self.check_merges())
    }

    /// Waits until no memtable is sealed, no generation is frozen, no partition is too large, no
    /// two neighbours are too small, there is little enough garbage, what is worth its cost to
    /// reads is done, and what was hot before the opening is read back.
    pub(crate) fn wait_until_idle(&self) -> Result<()> {
        // What merges have shown may make the memtable worth a flush.
        while self.settle()? {
            self.await_background()?;
        }
        self.await_background()?;
        // What the last readers and jobs have released takes no space when this returns.
        self.core.store.remove_obsolete();
        let version = Arc::clone(&self.read.view.load().version);
        let stays = self.choices.why_garbage_stays(&version);
        stays.map_or(Ok(()), Err)
    }

    /// Collects garbage as a merge would that passes by, and waits for that. While the disk is
    /// full, as much as there is room for.
    pub(crate) fn collect_garbage(&self) -> Result<()> {
        self.core.check_open()?;
        let _requested = self.choices.garbage_requests.add();
        self.core.work.notify();
        let done = || {
            let version = &self.catalog.lock().version;
            !self.space.has_garbage(version, Pressure::Riding)
        };
        self.core.wait_while(done, || self.check_collecting())
    }

    /// Settles while writers are idle. If that is to seal the memtable and cannot, it is left alone
    /// for a while.
    pub(super) fn settle_when_idle(&self, what: Settling) -> Ended {
        let is_sealed = !what.seals || self.write.seal_when_idle();
        let frozen = what.freezes && self.catalog.lock().freeze_all();
        if is_sealed || frozen {
            Ended::Done
        } else {
            Ended::GivenUp
        }
    }

    /// Waits until the background finds nothing to do.
    fn await_background(&self) -> Result<()> {
        self.core.check_open()?;
        self.scheduler.forget_given_up();
        let _at_once = self.idle.asked.add();
        // What there is to do may depend on snapshots that have gone since the background last
        // looked.
        self.core.work.notify();
        let idle = || {
            if self.scheduler.is_searched() {
                return false;
            }
            let mut catalog = self.catalog.lock();
            if !self.scheduler.leases.are_free() {
                return false;
            }
            let due = self.what_is_due(&mut catalog);
            drop(catalog);
            // It may be due without anybody's knowing: a read of an old view may have made it worth
            // its cost, and what was given up meanwhile may be tried again.
            let is_unknown = due.is_some_and(|rule| rule.is_for_reads);
            if due.is_some() && (self.scheduler.forget_given_up() || is_unknown) {
                self.core.work.notify();
            }
            due.is_none()
        };
        self.core.wait_while(idle, || self.check_jobs())
    }

    /// Seals and freezes what may hide too much without waiting for its time. Whether there was
    /// any.
    pub(crate) fn settle(&self) -> Result<bool> {
        self.core.check_open()?;
        let freed = self.write.commit.lock().freed.bytes();
        let first = self.what_to_settle(freed);
        if first.seals {
            self.write.flush_memtables()?;
        }
        // What was flushed may hide too much in generations.
        if !first.freezes && !self.what_to_settle(0).freezes {
            return Ok(false);
        }
        let frozen = self.catalog.lock().freeze_all();
        if frozen {
            self.core.work.notify();
        }
        Ok(frozen)
    }

    /// What is to be settled as if writers had been idle for long enough. Those of the memtable may
    /// free this many bytes, which is known under the commit lock alone.
    fn what_to_settle(&self, freed_bytes: u64) -> Settling {
        let catalog = self.catalog.lock();
        let mut facts = self.facts_of(&catalog);
        self.add_unsettled(&mut facts, &catalog);
        let most = self.space.space_limit().floor_bytes;
        facts.unsettled.memtable_hides |= freed_bytes > most;
        let wanted = settle::wanted(&facts, facts.idle.time.max(IDLE));
        wanted.map_or(Settling::default(), |(what, _)| what)
    }
}

impl Background {
    /// An operator says that the wall clock is right: what has expired by it may be destroyed.
    pub(crate) fn trust_wall_clock(&self) -> Result<()> {
        self.core.check_open()?;
        let mut catalog = self.catalog.lock();
        self.core.clock.trust_wall_clock();
        let edit = VersionEdit {
            clock_ms: Some(self.core.clock.note_ms()),
            ..VersionEdit::default()
        };
        let noted = self.commit(&mut catalog, edit, &Indexes::new(), None);
        drop(catalog);
        self.core.work.notify();
        noted
    }

    /// What garbage collection would do now, had a caller asked for it.
    pub(crate) fn garbage(&self) -> GarbageStats {
        if !self.core.process.is_this() {
            return GarbageStats::default();
        }
        self.space.garbage(&self.read.view.load().version)
    }

    /// Refuses to wait for garbage collection while it fails, or while there is room for none, or
    /// nothing left of it can be read.
    pub(crate) fn check_collecting(&self) -> Result<()> {
        self.check_jobs()?;
        let version = Arc::clone(&self.read.view.load().version);
        let is_done = || !self.space.has_garbage(&version, Pressure::Riding);
        if self.choices.first_collection(&version, &|_| true).is_some() || is_done() {
            return Ok(());
        }
        Err(match self.space.why_left_alone() {
            Some(error) => error,
            None => self.space.no_room(),
        })
    }
}

/// Which failures of jobs count, and for whom. A failure counts as long as its job is due: a
/// garbage collection that failed and is no longer needed has nothing to report. A call returns a
/// failure only if what it waits for cannot come about before that job has succeeded. So a
/// partition whose merge meets a damaged file stops nobody until flushes have to wait for that
/// merge (`write::waits`).
impl Background {
    /// Forgets failures of jobs that are no longer due.
    pub(crate) fn forget_settled(&self, catalog: &CatalogState) {
        if !self.core.health.has_failures() {
            return;
        }
        let mut settled = self.core.health.failures();
        settled.retain(|failure| !self.is_still_due(catalog, failure.job, failure.partition));
        for failure in &settled {
            self.core.job_recovered(failure.job, failure.partition);
        }
        if !settled.is_empty() {
            self.core.progress.notify();
        }
    }

    /// The failures of jobs that are due.
    pub(crate) fn job_failures(&self) -> Vec<Failure> {
        if !self.core.health.has_failures() {
            return Vec::new();
        }
        self.forget_settled(&self.catalog.lock());
        self.core.health.failures()
    }

    /// The failures of jobs, for a person.
    pub(crate) fn job_errors(&self) -> Vec<JobError> {
        let mut failures = self.job_failures();
        let version = Arc::clone(&self.read.view.load().version);
        let stays = self
            .choices
            .why_garbage_stays(&version)
            .map(|error| Failure {
                job: COLLECT,
                partition: None,
                error,
                failures: 1,
                retry_at: Duration::MAX,
            });
        failures.extend(stays);
        failures.iter().map(JobError::of).collect()
    }

    /// Refuses to wait for all background work while some of it is failing.
    pub(crate) fn check_jobs(&self) -> Result<()> {
        self.core.health.check_fatal()?;
        match self.job_failures().into_iter().next() {
            None => Ok(()),
            Some(failure) => Err(failure.error),
        }
    }

    /// Refuses to wait for merges while a flush or a merge is failing.
    pub(crate) fn check_merges(&self) -> Result<()> {
        self.core.health.check_fatal()?;
        let failures = self.job_failures();
        let mut concerned = failures
            .into_iter()
            .filter(|f| [FLUSH, MERGE].contains(&f.job));
        concerned
            .next()
            .map_or(Ok(()), |failure| Err(failure.error))
    }
}

#[cfg(test)]
mod failures_tests;
#[cfg(test)]
mod tests {
    use crate::engine::tests::{Machine, Model, churn, same, small};
    use crate::testing::file_trace::{FileTrace, prefetched_in_vain, prefetches, reads};
    use crate::{Options, Tuning};
    use rand::SeedableRng;
    use rand::rngs::SmallRng;
    use std::sync::Arc;

    #[test]
    fn compacting_a_range_merges_the_partitions_it_meets_and_no_others() {
        let machine = Machine::new(1);
        let options = small().tuning(Tuning::default().key_table_bytes(1 << 10));
        let (db, _runtime) = machine.open(
            options
                .clone()
                .tuning(Tuning::default().partition_bytes(12 << 10)),
        );
        let (mut model, mut rng) = (Model::new(), SmallRng::seed_from_u64(1));
        churn(&db, &mut model, &mut rng, 2000);
        db.compact().unwrap();
        db.wait_until_idle().unwrap();
        db.close().unwrap();
        // Nothing is split or collected from here on, and no generation is frozen.
        let options = options
            .tuning(Tuning::default().unsorted_bytes(1 << 20))
            .max_space_amp(100.0);
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
        // A border with something to merge on both sides, and after.
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

    #[test]
    fn what_is_reported_is_what_is_collected() {
        let machine = Machine::new(8);
        let options = small().tuning(Tuning::default().partition_bytes(1 << 40));
        let (db, _) = machine.open(options.clone().max_space_amp(100.0));
        let keys = || (0..400_u32).map(|i| format!("key{i:05}"));
        for round in 0..3_u8 {
            // Ever fewer keys are overwritten, so that files keep live records.
            for key in keys().step_by(1 + usize::from(round)) {
                db.put(key, [round; 200]).unwrap();
            }
            db.compact().unwrap();
        }
        // A bound of which a part is used that lies between the two thresholds.
        let reported = db.garbage();
        let user = f64::from(400 * ("key00000".len() as u32 + 200));
        let frames = f64::from(400 * ("key00000".len() as u32 + 70));
        let stored = 100.0 * user + frames - reported.allowed_bytes as f64;
        let max_space_amp = (reported.dead_bytes as f64 / 0.5 + stored - frames) / user;
        db.close().unwrap();
        let (db, _) = machine.open(options.max_space_amp(max_space_amp));
        let reported = db.garbage();
        let dead: u64 = reported.files.iter().map(|file| file.dead_bytes()).sum();
        assert_eq!(dead, reported.dead_bytes);
        assert!(
            reported.riding_from_bytes < reported.alone_from_bytes,
            "{reported:?}"
        );
        assert!(
            reported.alone_from_bytes < reported.allowed_bytes,
            "{reported:?}"
        );
        let live: u64 = reported.files.iter().map(|file| file.live_bytes).sum();
        assert_eq!(live, reported.live_bytes);
        assert!(
            reported.dead_bytes > reported.riding_from_bytes,
            "{reported:?}"
        );
        assert!(
            reported.dead_bytes < reported.alone_from_bytes,
            "{reported:?}"
        );
        assert_eq!(reported.files[0].victim, Some(0));
        let gcs = db.stats().gcs;
        db.collect_garbage().unwrap();
        let after = db.garbage();
        assert!(db.stats().gcs > gcs);
        assert!(after.dead_bytes <= after.riding_from_bytes, "{after:?}");
        assert_eq!(after.next_partition, None);
        assert!(after.files.iter().all(|file| file.victim.is_none()));
        let victim = reported.files[0].number;
        assert!(after.files.iter().all(|file| file.number != victim));
        for (i, key) in keys().enumerate() {
            let newest = if i % 3 == 0 {
                2
            } else if i % 2 == 0 {
                1
            } else {
                0
            };
            assert_eq!(db.get(key).unwrap().unwrap(), &[newest; 200][..]);
        }
        // Nothing is left to do.
        let gcs = db.stats().gcs;
        db.collect_garbage().unwrap();
        assert_eq!(db.stats().gcs, gcs);
        db.close().unwrap();
        machine.check();
    }
    #[test]
    fn a_collection_prefetches_what_it_reads_next_of_its_victims() {
        let machine = Machine::new(9);
        let options = |memtable_bytes| {
            Options::default()
                .tuning(
                    Tuning::default()
                        .memtable_bytes(memtable_bytes)
                        .unsorted_bytes(32 << 20),
                )
                .memory_budget(256 << 20)
        };
        // One file of all records; then less garbage than would be left alone beside large
        // memtables.
        let (db, _) = machine.open(options(32 << 20));
        let keys = || (0..3000_u32).map(|i| format!("key{i:05}"));
        for key in keys() {
            db.put(key, [1; 1000]).unwrap();
        }
        db.compact().unwrap();
        db.close().unwrap();
        let (db, _) = machine.open(options(64 << 10));
        let version = Arc::clone(&db.0.engine.read.view.load().version);
        assert_eq!(version.record_files().len(), 1);
        let victim = version.record_files()[0].meta().clone();
        let trace = FileTrace::begin(&machine.disk, version.record_files()[0].path());
        drop(version);
        machine.disk.set_cold(true);
        // Two of three are live, some of them in each buffer.
        for key in keys().step_by(3) {
            db.put(key, [2; 1000]).unwrap();
        }
        db.compact().unwrap();
        db.collect_garbage().unwrap();
        let is_victim = |number| number == victim.number.0;
        assert!(!db.garbage().files.iter().any(|file| is_victim(file.number)));

        let events = trace.take();
        let (reads, prefetched) = (reads(&events), prefetches(&events));
        assert!(reads.len() >= 10, "{events:?}");
        assert_eq!(prefetched.len(), reads.len() - 2, "{events:?}");
        let end = prefetched.iter().map(|bytes| bytes.end).max();
        assert!(end <= Some(victim.records_end), "{events:?}");
        // What may stand between two buffers is dead.
        let frame_len = victim.records_end / 3000;
        assert!(prefetched_in_vain(&events) <= frame_len * prefetched.len() as u64);
        for (i, key) in keys().enumerate() {
            let newest = if i % 3 == 0 { 2 } else { 1 };
            assert_eq!(db.get(key).unwrap().unwrap(), &[newest; 1000][..]);
        }
        db.close().unwrap();
        machine.disk.clear_faults();
        machine.check();
    }
}
