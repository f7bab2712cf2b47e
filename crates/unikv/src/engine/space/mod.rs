//! Space on disk: what deleted and superseded records keep of it, and what happens when it is used
//! up.

use crate::base::keys::FileNumber;
use crate::engine::core::Core;
use crate::engine::space::debt::TombstoneDebt;
use crate::engine::space::full::DiskFull;
use crate::engine::space::unreadable::Unreadable;
use crate::error::Error;
use crate::jobs::compact::left_alone::LeftAlone;
use crate::jobs::flush::placing::GenerationLimits;
use crate::jobs::partitioning::split::PartitionLimits;
use crate::jobs::space::SpaceLimit;
use crate::partition::Horizon;
use crate::version::Version;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

pub(crate) mod debt;
pub(crate) mod disk_full;
pub(crate) mod full;
pub(crate) mod garbage;
pub(crate) mod tombstone_debt;
pub(crate) mod unreadable;

/// A part of what the space promise allows beside what is visible. The rest of that is for large
/// values of the memtable, for the ballast, and for manifests.
const IDLE_BYTES: u64 = 7 << 20;
const MEMTABLES_WHEN_IDLE: u64 = 4;

/// After this many milliseconds it is judged again how much has expired.
const TICK_MS: u64 = 5_000;

/// The component that bounds space on disk.
pub(crate) struct DiskSpace {
    core: Arc<Core>,
    pub(crate) full: DiskFull,
    pub(crate) debt: TombstoneDebt,
    unreadable: Unreadable,
}

impl DiskSpace {
    pub(crate) fn new(core: &Arc<Core>, full: DiskFull) -> Arc<DiskSpace> {
        Arc::new(DiskSpace {
            core: Arc::clone(core),
            full,
            debt: TombstoneDebt::default(),
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
        let expires = self.core.clock.is_needed() && self.debt.expires();
        expires.then(|| Duration::from_millis(TICK_MS))
    }

    pub(crate) fn space_limit(&self) -> SpaceLimit {
        let memtable_bytes = self.full.memtable_bytes();
        let unsorted_bytes = self.unsorted_bytes();
        let threads = self.core.options.background_threads as u64;
        SpaceLimit {
            max_space_amp: self.core.options.max_space_amp,
            floor_bytes: memtable_bytes.saturating_mul(2),
            idle_bytes: self.full.gathered(IDLE_BYTES) + MEMTABLES_WHEN_IDLE * memtable_bytes,
            horizon: self.horizon(),
            job_bytes: (2 * threads).saturating_mul(unsorted_bytes),
            unsorted_bytes,
        }
    }

    /// Of an UnsortedStore, where the disk has room for it.
    fn unsorted_bytes(&self) -> u64 {
        self.full.gathered(self.core.options.unsorted_bytes)
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
        self.full.look(&self.core.store).unwrap_or(u64::MAX)
    }
}
