//! A full disk: puts fail cleanly, reads and deletes go on, writing resumes by itself.
//! `docs/crashes.md`, "A full disk", has the mechanism.
//!
//! Invariants: the state begins when less is free than the reserve that puts leave alone, before
//! anything has failed, or when a write is refused for want of space. Puts are refused before
//! anything of them is written; deletes are taken while what is in memory could still be flushed.
//! The state ends when [`FullDisk::resume_bytes`] are free, log and manifest are as they should be
//! and the ballast is back. No call is needed.
//!
//! What is done about it: `engine/write/full_disk.rs`. When: [`FullDisk::look_at`].
//!
//! Locks: `cause`, a leaf but for the removal of the ballast under it.

use crate::base::file_names;
use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::engine::space::ballast::{LEAST_BALLAST, LEAST_BALLAST_PART, SpaceLimits};
use crate::error::{Error, ErrorKind, Result};
use crate::vfs::file_store::FileStore;
use std::time::Duration;

/// Between two looks at the space while the disk is full, which lasts for as long at least: a job
/// that fails for want of more than is free would else begin and end it without a pause.
pub(crate) const PROBE_EVERY: Duration = Duration::from_secs(1);
/// Between two attempts to make a ballast where there was no room for it.
const BALLAST_EVERY: Duration = Duration::from_secs(30);

/// Memory of memtables comes in chunks, of which the last ones hold little: they may be this much.
const BEGUN_CHUNKS_BYTES: u64 = 8 << 20;

/// What a database gathers before it writes it elsewhere (a memtable, an UnsortedStore) takes no
/// more than this part of the room there is for it, or than the least.
const PART_OF_ROOM: u64 = 32;
const LEAST_GATHERED: u64 = 64 << 10;

/// Whether the disk is full, and what is kept for that.
#[derive(Debug)]
pub(crate) struct FullDisk {
    /// Of a memtable where there is room for it, and by the last look.
    memtable_bytes: u64,
    gathered_in_memtable: AtomicU64,
    /// Whether the files are on a disk, and this process writes them.
    keeps_ballast: bool,
    /// Whether `cause` holds something: the one test on the way of every write.
    pub(super) is_full: AtomicBool,
    pub(super) cause: Mutex<Option<Error>>,
    /// When the state began, in nanoseconds on the runtime's clock.
    begun_ns: AtomicU64,
    /// When the space was last looked after in vain, on the same clock; zero: it was not, since it
    /// was as it should be.
    in_vain_ns: AtomicU64,
    /// Bytes of the ballast; zero: there is none.
    held_ballast: AtomicU64,
    /// Bytes of tables, value logs and key tables.
    data_bytes: AtomicU64,
    /// Bytes that were free at the last look.
    free_bytes: AtomicU64,
    /// Bytes written to the log since the free space was looked at.
    unprobed_bytes: AtomicU64,
    pub(crate) reclaim: Reclaim,
}

/// Whether there is something that may have become garbage and is not merged yet.
#[derive(Debug, Default)]
pub(crate) struct Reclaim {
    /// Grows with each group of deletes, and when the disk becomes full.
    wanted: AtomicU64,
    /// What it was when memtables were sealed for it.
    sealed: AtomicU64,
    /// Whether all generations are to be frozen once the memtables are flushed.
    freeze: AtomicBool,
}

impl Reclaim {
    /// Deletes were committed.
    pub(crate) fn want(&self) {
        self.wanted.fetch_add(1, Ordering::Relaxed);
    }

    /// How often something was deleted.
    pub(crate) fn wanted(&self) -> u64 {
        self.wanted.load(Ordering::Relaxed)
    }

    /// Whether the memtables were sealed for what was `wanted`.
    pub(crate) fn is_sealed(&self, wanted: u64) -> bool {
        self.sealed.load(Ordering::Relaxed) == wanted
    }

    /// The memtables were sealed for what was `wanted`.
    pub(crate) fn sealed(&self, wanted: u64) {
        self.sealed.store(wanted, Ordering::Relaxed);
        self.freeze.store(true, Ordering::Release);
    }

    /// Whether all generations are to be frozen once the memtables are flushed.
    pub(crate) fn wants_freeze(&self) -> bool {
        self.freeze.load(Ordering::Acquire)
    }

    /// All generations are frozen now.
    pub(crate) fn frozen(&self) {
        self.freeze.store(false, Ordering::Release);
    }
}

impl FullDisk {
    /// Looks at the disk while the database in `store` is opened.
    pub(crate) fn at_open(store: &FileStore, memtable_bytes: u64, keeps_ballast: bool) -> FullDisk {
        let path = store.dir().join(file_names::BALLAST);
        let len = || store.env().vfs.len(&path).unwrap_or(0);
        let len = if keeps_ballast { len() } else { 0 };
        let space = FullDisk {
            memtable_bytes,
            gathered_in_memtable: AtomicU64::new(memtable_bytes),
            keeps_ballast,
            is_full: AtomicBool::new(false),
            cause: Mutex::default(),
            begun_ns: AtomicU64::new(0),
            in_vain_ns: AtomicU64::new(0),
            held_ballast: AtomicU64::new(len),
            data_bytes: AtomicU64::new(0),
            free_bytes: AtomicU64::new(u64::MAX),
            unprobed_bytes: AtomicU64::new(0),
            reclaim: Reclaim::default(),
        };
        if keeps_ballast {
            space.probe(store, 0);
        }
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

    /// How long the state has lasted at `now`.
    pub(crate) fn lasted(&self, now: Duration) -> Duration {
        let begun_at = Duration::from_nanos(self.begun_ns.load(Ordering::Relaxed));
        now.saturating_sub(begun_at)
    }

    /// When the space is to be looked after; `None`: the disk is not full, and the ballast has its
    /// size.
    pub(crate) fn look_at(&self) -> Option<Duration> {
        let pause = if self.is_full() {
            PROBE_EVERY
        } else if self.ballast_bytes() == self.wanted_ballast() {
            return None;
        } else {
            BALLAST_EVERY
        };
        Some(match self.in_vain_ns.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            in_vain => Duration::from_nanos(in_vain) + pause,
        })
    }

    /// The space was looked after at `now`. Whether that was in vain.
    pub(crate) fn looked_after(&self, now: Duration) -> bool {
        let is_in_vain = self.look_at().is_some();
        let in_vain_ns = if is_in_vain { now.as_nanos().max(1) } else { 0 };
        self.in_vain_ns.store(in_vain_ns as u64, Ordering::Relaxed);
        is_in_vain
    }

    /// Bytes that the database has or may take.
    pub(super) fn room(&self) -> u64 {
        let free = self.free_bytes.load(Ordering::Relaxed);
        let data = self.data_bytes.load(Ordering::Relaxed);
        free.saturating_add(data)
            .saturating_add(self.ballast_bytes())
    }

    /// How much of `bytes` is gathered at most on a disk of this size.
    pub(crate) fn gathered(&self, bytes: u64) -> u64 {
        bytes.min((self.room() / PART_OF_ROOM).max(LEAST_GATHERED))
    }

    /// How much a memtable gathers at most.
    #[inline]
    pub(crate) fn memtable_bytes(&self) -> u64 {
        self.gathered_in_memtable.load(Ordering::Relaxed)
    }

    fn note_room(&self) {
        let gathered = self.gathered(self.memtable_bytes);
        self.gathered_in_memtable.store(gathered, Ordering::Relaxed);
    }

    /// Whether the disk has no room for whole memtables.
    pub(crate) fn is_small(&self) -> bool {
        self.memtable_bytes() < self.memtable_bytes
    }

    pub(super) fn limits(&self) -> SpaceLimits {
        SpaceLimits::of(self.memtable_bytes())
    }

    /// Looks how much is free, where that can be known.
    pub(super) fn look(&self, store: &FileStore) -> Option<u64> {
        let free = free_bytes(store);
        self.free_bytes
            .store(free.unwrap_or(u64::MAX), Ordering::Relaxed);
        self.note_room();
        free
    }

    /// Counts bytes that are about to be written. True: it is time to look at the free space.
    pub(super) fn is_probe_due(&self, bytes: u64) -> bool {
        let unprobed = self.unprobed_bytes.fetch_add(bytes, Ordering::Relaxed);
        let due = unprobed + bytes >= self.limits().probe_bytes();
        if due {
            self.unprobed_bytes.store(0, Ordering::Relaxed);
        }
        due
    }

    /// Whether puts are refused.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Acquire)
    }

    /// Bytes of the ballast; zero: there is none.
    pub(crate) fn ballast_bytes(&self) -> u64 {
        self.held_ballast.load(Ordering::Acquire)
    }

    /// Notes how many bytes the files of the published version have.
    pub(crate) fn note_data(&self, bytes: u64) {
        self.data_bytes.store(bytes, Ordering::Relaxed);
        self.note_room();
    }

    /// Bytes that the ballast should have.
    fn wanted_ballast(&self) -> u64 {
        if !self.keeps_ballast {
            return 0;
        }
        let data = self.data_bytes.load(Ordering::Relaxed);
        self.limits().ballast_for(data, self.ballast_bytes())
    }

    /// What is kept for deletes at least.
    pub(super) fn least_reserve(&self) -> u64 {
        let data = self.data_bytes.load(Ordering::Relaxed);
        LEAST_BALLAST.max(data / LEAST_BALLAST_PART)
    }

    /// With this much free writing resumes: the ballast, and twice the reserve.
    pub(crate) fn resume_bytes(&self) -> u64 {
        self.wanted_ballast() + 2 * self.limits().reserve_bytes()
    }

    /// The longest log segment that is kept for the next to be written over it: one that a large
    /// batch has made much longer than a memtable is not.
    pub(crate) fn spare_bytes(&self) -> u64 {
        let memtable_bytes = self.memtable_bytes();
        if self.is_full() {
            0
        } else {
            2 * (memtable_bytes + memtable_bytes / 8)
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
        self.in_vain_ns.store(0, Ordering::Relaxed);
        self.is_full.store(true, Ordering::Release);
        self.reclaim.want();
        self.release_ballast(store);
        true
    }

    pub(crate) fn end(&self) {
        let mut held = self.cause.lock();
        *held = None;
        // Under the lock: a disk that becomes full again at once must not be taken for one that is
        // not.
        self.is_full.store(false, Ordering::Release);
        self.unprobed_bytes.store(0, Ordering::Relaxed);
    }

    /// Free space that puts leave alone with `in_memory` bytes of memtables: what was gathered
    /// while there was more room is to be flushed, too.
    pub(crate) fn reserve_bytes(&self, in_memory: u64) -> u64 {
        let most = SpaceLimits::of(self.memtable_bytes).reserve_bytes();
        let gathered = in_memory.saturating_sub(BEGUN_CHUNKS_BYTES);
        self.limits().reserve_bytes().max(gathered.min(most))
    }

    /// Looks at the free space; true: the disk has become full.
    pub(crate) fn probe(&self, store: &FileStore, in_memory: u64) -> bool {
        let free = self.look(store);
        if free.is_none_or(|free| free >= self.reserve_bytes(in_memory)) {
            return false;
        }
        self.begin(store, &self.error(store, free, None))
    }

    /// Removes the ballast. What cannot be removed now is tried again at the next look.
    pub(crate) fn release_ballast(&self, store: &FileStore) {
        if self.ballast_bytes() == 0 {
            return;
        }
        let path = store.dir().join(file_names::BALLAST);
        let gone = match store.env().vfs.remove(&path) {
            Ok(()) => true,
            Err(e) => e.kind() == std::io::ErrorKind::NotFound,
        };
        if gone {
            self.held_ballast.store(0, Ordering::Release);
        }
    }

    /// Gives the ballast the size that the data justify. A larger one is made only if `free` bytes
    /// leave twice the reserve beside it. False: there is no room for it.
    pub(crate) fn keep_ballast(&self, store: &FileStore, free: impl Fn() -> u64) -> bool {
        let (held, wanted) = (self.ballast_bytes(), self.wanted_ballast());
        if held == wanted {
            return true;
        }
        if wanted > held && free().saturating_add(held) < self.resume_bytes() {
            return false;
        }
        self.release_ballast(store);
        if wanted == 0 {
            return true;
        }
        let path = store.dir().join(file_names::BALLAST);
        let made = store.env().vfs.reserve(&path, wanted);
        if made.is_ok() {
            self.held_ballast.store(wanted, Ordering::Release);
        }
        made.is_ok()
    }

    /// The error of a refused write.
    pub(super) fn error(
        &self,
        store: &FileStore,
        free: Option<u64>,
        cause: Option<&Error>,
    ) -> Error {
        let needed = self.resume_bytes();
        let free = free.map_or("unknown".to_owned(), |free| format!("{free}"));
        Error::disk_full(store.dir(), cause, &free, needed)
    }
}

/// Bytes that can be written to the file system of the database, where that can be known.
pub(crate) fn free_bytes(store: &FileStore) -> Option<u64> {
    store.env().vfs.free_space(store.dir()).ok()
}

#[cfg(test)]
mod tests;
