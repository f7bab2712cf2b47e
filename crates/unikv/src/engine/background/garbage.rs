//! Collecting on request.
//!
//! Locks: the catalog, while a plan is looked for.

use crate::engine::background::Background;
use crate::engine::space::garbage::GarbageStats;
use crate::error::Result;
use crate::jobs::space::garbage::Pressure;
use std::sync::Arc;

impl Background {
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
        if self.first_collection(&version, &|_| true).is_some() || is_done() {
            return Ok(());
        }
        Err(match self.space.why_left_alone() {
            Some(error) => error,
            None => self.space.no_room(),
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::Options;
    use crate::engine::tests::{Machine, small};
    use crate::testing::file_trace::{FileTrace, prefetched_in_vain, prefetches, reads};
    use std::sync::Arc;

    #[test]
    fn what_is_reported_is_what_is_collected() {
        let machine = Machine::new(8);
        let options = small().partition_bytes(1 << 40);
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
                .memtable_bytes(memtable_bytes)
                .unsorted_bytes(32 << 20)
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
