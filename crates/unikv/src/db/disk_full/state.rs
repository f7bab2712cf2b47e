//! The state of [`super`]: the limits, the ballast, whether the disk counts as full and why.

use crate::base::file_names;
use crate::base::seeded::seeded;
use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::error::{Error, ErrorKind, Result};
use crate::vfs::file_store::FileStore;

/// The most that manifests, key tables and the like add to the memtables in ballast and reserve.
const MOST_BESIDE_MEMTABLES: u64 = 4 << 20;

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

    /// Two memtables and what goes with them.
    pub(crate) fn ballast_bytes(self) -> u64 {
        2 * self.memtable_bytes + self.beside()
    }

    /// With less than this free the disk counts as full.
    pub(super) fn reserve_bytes(self) -> u64 {
        self.memtable_bytes + self.beside()
    }

    /// With this much free writing resumes: the ballast, and twice the reserve.
    pub(super) fn resume_bytes(self) -> u64 {
        self.ballast_bytes() + 2 * self.reserve_bytes()
    }

    /// Written bytes between two looks at the free space.
    pub(super) fn probe_bytes(self) -> u64 {
        self.memtable_bytes / 16
    }
}

/// Whether the disk is full, and what is kept for that.
#[derive(Debug)]
pub(crate) struct DiskFull {
    pub(super) limits: SpaceLimits,
    /// Whether `cause` holds something: the one test on the way of every write.
    pub(super) is_full: AtomicBool,
    pub(super) cause: Mutex<Option<Error>>,
    /// When the state began, in nanoseconds on the runtime's clock.
    pub(super) begun_ns: AtomicU64,
    pub(super) has_ballast: AtomicBool,
    /// Bytes written to the log since the free space was looked at.
    pub(super) unprobed_bytes: AtomicU64,
    pub(super) reclaim: Reclaim,
}

/// Whether there is something that may have become garbage and is not merged yet.
#[derive(Debug, Default)]
pub(super) struct Reclaim {
    /// Grows with each group of deletes, and when the disk becomes full.
    pub(super) wanted: AtomicU64,
    /// What it was at the last look.
    pub(super) seen: AtomicU64,
    /// What it was when memtables were sealed for it.
    pub(super) sealed: AtomicU64,
    /// Whether all generations are to be frozen once the memtables are flushed.
    pub(super) freeze: AtomicBool,
}

impl DiskFull {
    /// Looks at the disk while the database in `store` is opened. A ballast of another size than
    /// this database keeps is removed.
    pub(crate) fn at_open(store: &FileStore, memtable_bytes: u64) -> DiskFull {
        let limits = SpaceLimits::of(memtable_bytes);
        let path = store.dir().join(file_names::BALLAST);
        let len = store.env().vfs.len(&path).ok();
        let space = DiskFull {
            limits,
            is_full: AtomicBool::new(false),
            cause: Mutex::default(),
            begun_ns: AtomicU64::new(0),
            has_ballast: AtomicBool::new(len.is_some()),
            unprobed_bytes: AtomicU64::new(0),
            reclaim: Reclaim::default(),
        };
        if len.is_some_and(|len| len != limits.ballast_bytes()) {
            space.release_ballast(store);
        }
        space.probe(store);
        space
    }

    /// Writes what opening needs; if the disk is too full for it, again without the ballast.
    pub(crate) fn with_ballast<T>(
        &self,
        store: &FileStore,
        mut write: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        match write() {
            Err(error) if error.kind() == ErrorKind::DiskFull && self.begin(store, &error) => {
                write()
            }
            other => other,
        }
    }

    /// Whether puts are refused.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Acquire)
    }

    /// The same, for who is to see it change.
    pub(crate) fn is_full_flag(&self) -> &AtomicBool {
        &self.is_full
    }

    /// Bytes of the ballast, if it is there.
    pub(crate) fn ballast_bytes(&self) -> u64 {
        if self.has_ballast.load(Ordering::Acquire) {
            self.limits.ballast_bytes()
        } else {
            0
        }
    }

    /// The longest log segment that is kept for the next to be written over it: one that a large batch
    /// has made much longer than a memtable is not.
    pub(crate) fn spare_bytes(&self, memtable_bytes: u64) -> u64 {
        match self.is_full() {
            true => 0,
            false => 2 * (memtable_bytes + memtable_bytes / 8),
        }
    }

    /// The disk is full from now on, and the ballast is released. True: it was not before.
    pub(crate) fn begin(&self, store: &FileStore, cause: &Error) -> bool {
        let mut held = self.cause.lock();
        if held.is_some() {
            return false;
        }
        *held = Some(cause.clone());
        let now = store.env().runtime.now().as_nanos() as u64;
        self.begun_ns.store(now, Ordering::Relaxed);
        self.is_full.store(true, Ordering::Release);
        self.reclaim.wanted.fetch_add(1, Ordering::Relaxed);
        self.release_ballast(store);
        true
    }

    pub(super) fn end(&self) {
        let mut held = self.cause.lock();
        *held = None;
        // Under the lock: a disk that becomes full again at once must not be taken for one that is not.
        self.is_full.store(false, Ordering::Release);
        self.unprobed_bytes.store(0, Ordering::Relaxed);
    }

    /// Looks at the free space; true: the disk has become full.
    pub(super) fn probe(&self, store: &FileStore) -> bool {
        let free = free_bytes(store);
        if free.is_none_or(|free| free >= self.limits.reserve_bytes()) {
            return false;
        }
        self.begin(store, &self.error(store, free, None))
    }

    /// Removes the ballast. What cannot be removed now is tried again at the next look.
    pub(super) fn release_ballast(&self, store: &FileStore) {
        if !self.has_ballast.load(Ordering::Acquire) {
            return;
        }
        let path = store.dir().join(file_names::BALLAST);
        let gone = match store.env().vfs.remove(&path) {
            Ok(()) => true,
            Err(e) => e.kind() == std::io::ErrorKind::NotFound,
        };
        self.has_ballast.store(!gone, Ordering::Release);
    }

    /// Makes the ballast, if it is not there and `free` leaves twice the reserve beside it.
    pub(super) fn make_ballast(&self, store: &FileStore, free: u64) -> bool {
        if self.has_ballast.load(Ordering::Acquire) {
            return true;
        }
        if free < self.limits.resume_bytes() {
            return false;
        }
        let path = store.dir().join(file_names::BALLAST);
        if seeded!(BallastNotRestored) {
            return true;
        }
        let made = store.env().vfs.reserve(&path, self.limits.ballast_bytes());
        self.has_ballast.store(made.is_ok(), Ordering::Release);
        made.is_ok()
    }

    /// What a refused write is told.
    pub(super) fn error(
        &self,
        store: &FileStore,
        free: Option<u64>,
        cause: Option<&Error>,
    ) -> Error {
        let needed = self.limits.resume_bytes();
        let free = free.map_or("unknown".to_owned(), |free| format!("{free}"));
        Error::disk_full(store.dir(), cause, &free, needed)
    }
}

/// Bytes that can be written to the file system of the database, where that can be told.
pub(in crate::db) fn free_bytes(store: &FileStore) -> Option<u64> {
    store.env().vfs.free_space(store.dir()).ok()
}
