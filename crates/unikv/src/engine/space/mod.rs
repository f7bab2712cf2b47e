//! Space on disk: what deleted and superseded records keep of it, and what happens when it is used
//! up.

use crate::base::keys::FileNumber;
use crate::engine::core::Core;
use crate::engine::space::estimates::Estimates;
use crate::engine::space::full_disk::{FullDisk, free_bytes};
use crate::engine::space::unreadable::Unreadable;
use crate::error::{Error, ErrorKind, Result};
use crate::events::Event;
use crate::jobs::compact::left_alone::LeftAlone;
use crate::jobs::flush::placing::GenerationLimits;
use crate::jobs::partitioning::split::PartitionLimits;
use crate::jobs::space::SpaceLimit;
use crate::partition::Horizon;
use crate::version::Version;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

pub(crate) mod ballast;
pub(crate) mod estimates;
pub(crate) mod full_disk;
pub(crate) mod garbage;
pub(crate) mod tombstone_debt;
pub(crate) mod unreadable;

/// A part of what the space promise allows beside what is visible. The rest of that is for large
/// values of the memtable, for the ballast, and for manifests.
const IDLE_BYTES: u64 = 7 << 20;
const MEMTABLES_WHEN_IDLE: u64 = 4;

/// With this many times the space that writing resumes with, failed jobs are tried again at once.
const PLENTY: u64 = 4;

/// After this many milliseconds it is judged again how much has expired.
const TICK_MS: u64 = 5_000;

/// The component that bounds space on disk.
pub(crate) struct DiskSpace {
    core: Arc<Core>,
    pub(crate) full_disk: FullDisk,
    pub(crate) estimates: Estimates,
    unreadable: Unreadable,
}

impl DiskSpace {
    pub(crate) fn new(core: &Arc<Core>, full_disk: FullDisk) -> Arc<DiskSpace> {
        Arc::new(DiskSpace {
            core: Arc::clone(core),
            full_disk,
            estimates: Estimates::default(),
            unreadable: Unreadable::default(),
        })
    }

    /// What nobody needs any more. The time is that of the last tick, so that figures which depend
    /// on it hold for a while.
    pub(crate) fn horizon(&self) -> Horizon {
        let clock = &self.core.clock;
        let now_ms = if clock.is_needed() {
            clock.job_ms() / TICK_MS * TICK_MS
        } else {
            0
        };
        let oldest = self.core.snapshots.oldest();
        Horizon {
            oldest: oldest.map(|moment| moment.seq),
            time_ms: oldest.map_or(now_ms, |moment| moment.time_ms.min(now_ms)),
            now_ms,
        }
    }

    /// Bytes of what the wall clock hides and the job clock keeps.
    pub(crate) fn expired_kept_bytes(&self, version: &Version) -> u64 {
        let clock = &self.core.clock;
        if !clock.is_needed() {
            return 0;
        }
        // In this order: the first is never later than the second.
        let (job_ms, now_ms) = (clock.job_ms(), clock.now_ms());
        let partitions = version.partitions().where_sums(|sum| sum.may_be_obsolete);
        let tables = partitions.flat_map(|p| &p.key_tables);
        let kept = tables.map(|table| {
            let expiring = &table.meta().expiring;
            let hidden = expiring.expired_bytes(now_ms);
            hidden.saturating_sub(expiring.expired_bytes(job_ms))
        });
        kept.sum()
    }

    /// In what time more may have expired.
    pub(crate) fn look_again_in(&self) -> Option<Duration> {
        let expires = self.core.clock.is_needed() && self.estimates.expires();
        expires.then(|| Duration::from_millis(TICK_MS))
    }

    pub(crate) fn space_limit(&self) -> SpaceLimit {
        let memtable_bytes = self.full_disk.memtable_bytes();
        let unsorted_bytes = self.unsorted_bytes();
        let threads = self.core.options.background_threads as u64;
        SpaceLimit {
            max_space_amp: self.core.options.max_space_amp,
            floor_bytes: memtable_bytes.saturating_mul(2),
            idle_bytes: self.full_disk.gathered(IDLE_BYTES) + MEMTABLES_WHEN_IDLE * memtable_bytes,
            horizon: self.horizon(),
            job_bytes: (2 * threads).saturating_mul(unsorted_bytes),
            unsorted_bytes,
        }
    }

    /// Of an UnsortedStore, where the disk has room for it.
    fn unsorted_bytes(&self) -> u64 {
        self.full_disk.gathered(self.core.options.unsorted_bytes)
    }

    /// How large partitions may grow.
    pub(crate) fn partition_limits(&self) -> PartitionLimits {
        PartitionLimits::new(
            self.core.options.partition_bytes,
            self.core.options.unsorted_bytes,
        )
    }

    /// How large the UnsortedStores may grow.
    pub(crate) fn generation_limits(&self, version: &Arc<Version>) -> GenerationLimits {
        let limit = self.space_limit();
        let most = self.space_of(version, limit.horizon).most_open_bytes(limit);
        GenerationLimits::of(self.unsorted_bytes(), self.core.options.memory_budget).sharing(most)
    }

    /// Notes that a pass has failed at a file of the version.
    pub(crate) fn note_unreadable(&self, file: FileNumber, error: &Error, version: &Version) {
        self.unreadable.note(file, error, |file| {
            let mut key_tables = version.key_tables();
            version.record_file(file).is_some() || key_tables.any(|t| t.meta().number == file)
        });
    }

    /// The files that count as unreadable.
    pub(crate) fn unreadable(&self) -> BTreeSet<FileNumber> {
        self.unreadable.files()
    }

    /// What passes over the key tables leave as it is.
    pub(crate) fn left_alone(&self, version: &Version) -> LeftAlone {
        LeftAlone::of(version, &self.unreadable.files())
    }

    /// Why they leave anything.
    pub(crate) fn why_left_alone(&self) -> Option<Error> {
        self.unreadable.error()
    }

    pub(crate) fn free_bytes(&self) -> u64 {
        self.full_disk.look(&self.core.store).unwrap_or(u64::MAX)
    }
}

/// What the full disk asks of all of it.
impl DiskSpace {
    /// Takes notice of an error: a full disk changes the state of the engine.
    pub(crate) fn note_full(&self, error: &Error) {
        if error.kind() == ErrorKind::DiskFull && self.full_disk.begin(&self.core.store, error) {
            self.report_full();
            self.core.work.notify();
            self.core.progress.notify();
        }
    }

    /// The disk is not full any more: `free` bytes are free.
    pub(crate) fn end_full(&self, free: u64) {
        self.full_disk.end();
        let lasted = self.full_disk.lasted(self.core.now());
        self.core
            .events
            .emit(|| Event::DiskFreed { elapsed: lasted });
        // Where there is little more than that, jobs that found too little stay in backoff: they
        // would make the disk full again at once.
        if free >= PLENTY * self.full_disk.resume_bytes() {
            self.core.forget_full_disk();
        }
        self.core.work.notify();
        self.core.progress.notify();
    }

    /// Looks at the free space before something large is written.
    pub(crate) fn probe_space(&self) {
        let (store, pool) = (&self.core.store, &self.core.pool);
        if !self.full_disk.is_full() && self.full_disk.probe(store, pool.used_bytes()) {
            self.report_full();
            self.core.work.notify();
        }
    }

    /// Has the listener hear that the disk is full.
    pub(crate) fn report_full(&self) {
        if let Err(error) = self.check_space() {
            self.core.events.emit(|| Event::DiskFull { error });
        }
    }

    /// As [`Self::probe_space`], before `bytes` are written, once enough were.
    pub(crate) fn probe_after(&self, bytes: u64) {
        if self.full_disk.is_probe_due(bytes) {
            self.probe_space();
        }
    }

    /// Free space that puts leave alone.
    pub(crate) fn reserve_bytes(&self) -> u64 {
        self.full_disk.reserve_bytes(self.core.pool.used_bytes())
    }

    /// Refuses a batch of these bytes if log and tables have no room for it. Nothing has been
    /// written.
    pub(crate) fn check_room(&self, bytes: u64) -> Result<()> {
        // Each write comes here.
        if bytes <= self.full_disk.limits().reserve_bytes() / 2 {
            return Ok(());
        }
        let reserve = self.reserve_bytes();
        let needed = bytes.saturating_mul(2).saturating_add(reserve);
        if self.free_bytes() < needed {
            return Err(self.no_room());
        }
        Ok(())
    }

    /// Bytes of deletes that a full disk still takes beside `in_memory` bytes of memtables:
    /// what leaves room to flush the memtables and to renew the manifest.
    pub(crate) fn room_for_deletes(&self, in_memory: u64) -> u64 {
        let needed = in_memory + self.full_disk.least_reserve() / 4;
        self.free_bytes().saturating_sub(needed)
    }

    /// Refuses what would grow the database while the disk is full. Nothing has been written.
    pub(crate) fn check_space(&self) -> Result<()> {
        if self.full_disk.is_full() {
            Err(self.no_room())
        } else {
            Ok(())
        }
    }

    /// The error of what does not fit.
    pub(crate) fn no_room(&self) -> Error {
        let cause = self.full_disk.cause.lock().clone();
        let (store, free) = (&self.core.store, free_bytes(&self.core.store));
        self.full_disk.error(store, free, cause.as_ref())
    }

    /// Bytes that a job may write while the disk is full; `None`: it is not.
    pub(crate) fn tight_space(&self) -> Option<u64> {
        let full = self.full_disk.is_full();
        full.then(|| free_bytes(&self.core.store).unwrap_or(self.full_disk.limits().most_ballast()))
    }
}
