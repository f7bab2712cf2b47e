//! How much space is kept back for what: the reserve that puts leave alone, and the ballast, a file
//! of real blocks that a full disk gives back. No locks.

/// The most that manifests, key tables and the like add to the memtables in ballast and reserve.
const MOST_BESIDE_MEMTABLES: u64 = 4 << 20;

/// The least ballast, with which a database is opened on a full disk and deletes are logged, and
/// the part of the data that it has at least.
pub(super) const LEAST_BALLAST: u64 = 64 << 10;
pub(super) const LEAST_BALLAST_PART: u64 = 100;
/// One that lacks no more than this part is not made again.
const NEAR_PART: u64 = 4;
/// A larger one takes at most this part of the data; one is made, or made larger, where it takes a
/// little less, so that garbage that comes and goes does not have it made again and again.
const KEPT_PART: u64 = 16;
const MADE_PART: u64 = 20;

/// How much space is kept for what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpaceLimits {
    pub(super) memtable_bytes: u64,
}

impl SpaceLimits {
    /// The limits that follow from the size of a memtable.
    pub(crate) fn of(memtable_bytes: u64) -> SpaceLimits {
        SpaceLimits { memtable_bytes }
    }

    pub(super) fn beside(self) -> u64 {
        self.memtable_bytes.min(MOST_BESIDE_MEMTABLES)
    }

    /// Two memtables and what goes with them: the largest ballast.
    pub(super) fn most_ballast(self) -> u64 {
        2 * self.memtable_bytes + self.beside()
    }

    /// The ballast for `data` bytes of files where there is one of `held` bytes: the largest
    /// ballast halved until it is no more than a sixteenth of them, but not below the least.
    pub(super) fn ballast_for(self, data: u64, held: u64) -> u64 {
        let mut most = self.most_ballast();
        while most < data / LEAST_BALLAST_PART {
            most *= 2;
        }
        let mut bytes = most;
        while bytes > data / MADE_PART {
            bytes /= 2;
        }
        let bytes = bytes.max(LEAST_BALLAST);
        let is_larger = held > bytes && held <= (2 * most).min(data / KEPT_PART);
        // On a small disk the limits follow what is free, so a little less serves, too.
        let is_near = held < bytes && held >= bytes - bytes / NEAR_PART;
        if is_larger || is_near { held } else { bytes }
    }

    /// With less than this free the disk counts as full.
    pub(super) fn reserve_bytes(self) -> u64 {
        self.memtable_bytes + self.beside()
    }

    /// Written bytes between two looks at the free space.
    pub(super) fn probe_bytes(self) -> u64 {
        self.memtable_bytes / 16
    }
}
