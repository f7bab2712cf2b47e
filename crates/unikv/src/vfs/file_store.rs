//! The data files of one database: opened on first touch, a bounded number at a time, unlinked when
//! the last holder of an obsolete one has released it.
//!
//! Invariants:
//! - A [`DataFile`] is immutable, so its handle may be closed and opened again at any time.
//! - `open_files` holds exactly the files whose handle is open, one entry each.
//! - A read that finds the handle takes no lock. Closing drops a reference: such a read goes on.
//!
//! Locks: `open_files`, over no system call but the close of an evicted file; `obsolete` for a push
//! or a take, alone or under `removing`, which is held while obsolete files are unlinked;
//! `directory_failed` over the sync of the directory. Else none is taken under another. The `work`
//! event is notified under none.

mod data_file;
mod dense_reads;
mod direct_reads;
#[cfg(all(test, unikv_model = "loom"))]
mod models;

use super::direct_io::policy::DirectReadPolicy;
pub(crate) use super::direct_io::policy::{LONG_BYTES, Route};
use super::{Access, Env, Event, KeepsFilesOpen, ReadFile};
use crate::base::keys::{DatabaseId, FileNumber, FileUid};
use crate::base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::base::sync::{ArcSwapOption, Mutex};
use crate::error::{Error, Result};
pub(crate) use data_file::DataFile;
use dense_reads::DenseReads;
pub(crate) use direct_reads::DirectFileRead;
use std::fmt;
use std::io;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

/// The files of one database and the environment they live in.
pub(crate) struct FileStore {
    env: Env,
    dir: PathBuf,
    database: DatabaseId,
    open_files: Mutex<OpenFiles>,
    obsolete: Mutex<Vec<PathBuf>>,
    removing: Mutex<()>,
    /// Notified when there are obsolete files to unlink.
    work: Arc<dyn Event>,
    /// Why a sync of the directory has failed.
    directory_failed: Mutex<Option<Error>>,
    /// Obsolete files that somebody still holds, and their bytes.
    pinned_files: AtomicU64,
    pinned_bytes: AtomicU64,
    read_bytes: AtomicU64,
    reads: AtomicU64,
    direct_read_policy: DirectReadPolicy,
    dense_reads: DenseReads,
}

impl FileStore {
    /// The files of `database` in `dir`, of which at most `max_open_files` (at least one) data
    /// files are open at a time.
    pub(crate) fn new(
        env: Env,
        dir: PathBuf,
        database: DatabaseId,
        max_open_files: usize,
    ) -> Arc<FileStore> {
        let limit = max_open_files.max(1);
        let work = env.runtime.event();
        let store = Arc::new(FileStore {
            env,
            dir,
            database,
            open_files: Mutex::new(OpenFiles {
                limit,
                may_be_gone: None,
                ring: Vec::new(),
                hand: 0,
            }),
            obsolete: Mutex::default(),
            removing: Mutex::default(),
            work,
            directory_failed: Mutex::default(),
            pinned_files: AtomicU64::new(0),
            pinned_bytes: AtomicU64::new(0),
            read_bytes: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            direct_read_policy: DirectReadPolicy::new(),
            dense_reads: DenseReads::new(),
        });
        let keeper = Arc::downgrade(&store);
        store.env.vfs.keeps_files_open(keeper);
        store
    }

    /// The file system and runtime.
    pub(crate) fn env(&self) -> &Env {
        &self.env
    }

    /// From now on no read is direct.
    pub(crate) fn read_through(&self) {
        self.direct_read_policy.refuse();
    }

    /// How many data files are open.
    pub(crate) fn open_files(&self) -> usize {
        self.open_files.lock().ring.len()
    }

    /// Keeps no more than `most` files open from now on, of the `needed` files whose names somebody
    /// else may remove: such a file that is gone is no damage.
    pub(crate) fn let_files_go(&self, most: usize, needed: usize) {
        let mut open_files = self.open_files.lock();
        open_files.limit = most.max(1);
        open_files.may_be_gone = Some(needed);
        open_files.close_down_to(most);
    }

    /// Keeps all files open from now on, as they could not be opened again. Of those before, some
    /// may be gone.
    pub(crate) fn keep_files(&self) {
        self.open_files.lock().limit = usize::MAX;
    }

    /// The directory of the database.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The id in each file's header.
    pub(crate) fn database(&self) -> DatabaseId {
        self.database
    }

    /// A uid for a new file; never zero, which zeroed bytes could carry.
    pub(crate) fn new_uid(&self) -> FileUid {
        loop {
            let uid = self.env.runtime.random_u64();
            if uid != 0 {
                return FileUid(uid);
            }
        }
    }

    /// Makes the names of new files durable. Once that has failed it fails for good: the system may
    /// have dropped the names that were to be written, also those of other threads' files, and
    /// would then report a success that means nothing.
    pub(crate) fn sync_directory(&self) -> Result<()> {
        let mut failed = self.directory_failed.lock();
        if let Some(error) = &*failed {
            return Err(error.clone());
        }
        self.env.vfs.sync_dir(&self.dir).map_err(|e| {
            let error = Error::io("sync the directory", &self.dir, e);
            failed.insert(error).clone()
        })
    }

    /// The data file at `path`. Nothing is opened yet.
    pub(crate) fn data_file(
        self: &Arc<Self>,
        path: PathBuf,
        number: FileNumber,
        uid: FileUid,
        access: Access,
    ) -> DataFile {
        let slot = Arc::new(Slot {
            path,
            access,
            handle: ArcSwapOption::empty(),
            referenced: AtomicBool::new(false),
        });
        DataFile::new(Arc::clone(self), slot, number, uid)
    }

    /// Unlinks the obsolete files that nobody holds any more, and waits for those that another
    /// thread is unlinking.
    pub(crate) fn remove_obsolete(&self) {
        let _one_at_a_time = self.removing.lock();
        self.remove_files(self.take_obsolete());
    }

    /// Unlinks files that nothing lists. What cannot be unlinked is swept at the next open.
    pub(crate) fn remove_files(&self, paths: impl IntoIterator<Item = PathBuf>) {
        for path in paths {
            let _swept_at_open = self.env.vfs.remove(&path);
        }
    }

    /// The paths of obsolete files that nobody holds any more, each once: to be unlinked.
    fn take_obsolete(&self) -> Vec<PathBuf> {
        mem::take(&mut self.obsolete.lock())
    }

    /// Notified when [`FileStore::remove_obsolete`] has something to do again: a last holder, be it
    /// a reader, must not wait for the removal itself.
    pub(crate) fn work(&self) -> &Arc<dyn Event> {
        &self.work
    }

    /// How many obsolete files are still held, and their bytes.
    pub(crate) fn pinned(&self) -> (u64, u64) {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (of(&self.pinned_files), of(&self.pinned_bytes))
    }

    /// Bytes read through all data files so far.
    pub(crate) fn read_bytes(&self) -> u64 {
        self.read_bytes.load(Ordering::Relaxed)
    }

    /// Reads through all data files so far.
    pub(crate) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// Opens the file of `slot`, or takes the handle that another thread has installed meanwhile.
    fn open(&self, slot: &Arc<Slot>) -> Result<Arc<Handle>> {
        let file = self.env.vfs.open(&slot.path, slot.access).map_err(|e| {
            match (e.kind(), self.open_files.lock().may_be_gone) {
                (io::ErrorKind::NotFound, Some(needed)) => Error::not_kept(&slot.path, needed),
                // A listed file that is gone is damage, never an absent record.
                (io::ErrorKind::NotFound, None) => {
                    Error::corruption(&slot.path, 0, "the file is missing")
                }
                _ => Error::io("open the file", &slot.path, e),
            }
        })?;
        let mut open_files = self.open_files.lock();
        if let Some(handle) = slot.handle.load_full() {
            return Ok(handle);
        }
        let handle = Arc::new(Handle { file });
        let limit = open_files.limit;
        open_files.close_down_to(limit - 1);
        slot.referenced.store(true, Ordering::Relaxed);
        slot.handle.store(Some(Arc::clone(&handle)));
        open_files.ring.push(Arc::downgrade(slot));
        Ok(handle)
    }
}

impl KeepsFilesOpen for FileStore {
    fn close_some(&self) -> bool {
        let mut open_files = self.open_files.lock();
        let (may, open) = (open_files.limit < usize::MAX, open_files.ring.len());
        if may {
            open_files.close_down_to(open / 2);
        }
        may && open > 0
    }
}

impl fmt::Debug for FileStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileStore")
            .field("dir", &self.dir)
            .finish_non_exhaustive()
    }
}

/// The open files in a ring, evicted by a clock: the hand passes over a file that has been read
/// since its last visit and closes the first one that has not.
struct OpenFiles {
    /// `usize::MAX`: none is closed, as it could not be opened again.
    limit: usize,
    /// See [`FileStore::let_files_go`].
    may_be_gone: Option<usize>,
    ring: Vec<Weak<Slot>>,
    hand: usize,
}

impl OpenFiles {
    /// Closes files until no more than these are open.
    fn close_down_to(&mut self, most: usize) {
        // Readers set the bits behind the hand's back; after two rounds the next one goes.
        let mut patience = 2 * self.ring.len();
        while self.ring.len() > most {
            if self.hand >= self.ring.len() {
                self.hand = 0;
            }
            if let Some(slot) = self.ring[self.hand].upgrade() {
                if patience > 0 && slot.referenced.swap(false, Ordering::Relaxed) {
                    patience -= 1;
                    self.hand += 1;
                    continue;
                }
                slot.handle.store(None);
            }
            self.ring.swap_remove(self.hand);
        }
    }

    fn forget(&mut self, slot: &Arc<Slot>) {
        if let Some(at) = self
            .ring
            .iter()
            .position(|open| open.as_ptr() == Arc::as_ptr(slot))
        {
            self.ring.swap_remove(at);
        }
    }
}

/// The part of a data file that the clock sees.
struct Slot {
    path: PathBuf,
    access: Access,
    handle: ArcSwapOption<Handle>,
    /// Read since the clock's hand last passed.
    referenced: AtomicBool,
}

impl Slot {
    fn note_read(&self) {
        // Loaded first so that readers of a hot file do not fight for the cache line.
        if !self.referenced.load(Ordering::Relaxed) {
            self.referenced.store(true, Ordering::Relaxed);
        }
    }
}

/// Makes the handle a thin pointer, which is what can be swapped atomically.
struct Handle {
    file: Arc<dyn ReadFile>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::testing::limit;
    use crate::vfs::os::OsRuntime;
    use crate::vfs::sim::SimVfs;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    fn content(file: u64) -> Vec<u8> {
        (0..256).map(|i| (i * 31 + file * 7) as u8).collect()
    }

    fn store_with_files(
        files: u64,
        max_open_files: usize,
    ) -> (SimVfs, Arc<FileStore>, Vec<DataFile>) {
        let disk = SimVfs::new();
        let env = Env {
            vfs: Arc::new(disk.clone()),
            runtime: Arc::new(OsRuntime::default()),
        };
        let store = FileStore::new(env, "/db".into(), DatabaseId([1; 16]), max_open_files);
        let data_file = |file| {
            let path = PathBuf::from(format!("/db/{file:06}.rec"));
            disk.write_file(&path, &content(file));
            store.data_file(path, FileNumber(file), FileUid(file), Access::Random)
        };
        let files = (0..files).map(data_file).collect();
        (disk, store, files)
    }

    /// Counts the open handles, and checks that the ring has exactly those.
    fn open_files(store: &FileStore, files: &[DataFile]) -> usize {
        let open_files = store.open_files.lock();
        let open = files
            .iter()
            .filter(|f| f.slot.handle.load().is_some())
            .count();
        assert_eq!(open_files.ring.len(), open);
        open
    }

    #[test]
    fn at_most_the_limit_of_files_are_open() {
        let (_disk, store, files) = store_with_files(20, 2);
        assert_eq!(open_files(&store, &files), 0);
        let mut rng = SmallRng::seed_from_u64(3);
        for round in 0..500 {
            let file = rng.random_range(0..files.len());
            let (start, len) = (rng.random_range(0..200), rng.random_range(0..=56));
            let mut buf = vec![0; len];
            files[file].read_exact_at(&mut buf, start as u64).unwrap();
            assert_eq!(buf, content(file as u64)[start..start + len]);
            assert!(
                (1..=2).contains(&open_files(&store, &files)),
                "round {round}"
            );
        }
        assert_eq!(store.reads(), 500);
        assert!(store.read_bytes() > 0);
    }

    #[test]
    fn the_clock_passes_over_a_file_that_is_in_use() {
        let (_disk, store, files) = store_with_files(10, 3);
        let read = |file: usize| files[file].read_exact_at(&mut [0; 8], 0).unwrap();
        (0..3).for_each(read);
        // The first eviction takes the second chance of all; from then on only file 1 is in use.
        read(3);
        for file in 4..10 {
            read(1);
            read(file);
            assert!(
                files[1].slot.handle.load().is_some(),
                "file 1 was closed for {file}"
            );
        }
        assert_eq!(open_files(&store, &files), 3);
    }

    #[test]
    fn the_clock_closes_the_first_file_not_read_since_its_last_pass() {
        let (_disk, _store, files) = store_with_files(6, 3);
        let read = |file: usize| files[file].read_exact_at(&mut [0; 8], 0).unwrap();
        let open = || -> Vec<usize> {
            (0..6)
                .filter(|&file| files[file].slot.handle.load().is_some())
                .collect()
        };
        (0..4).for_each(read);
        assert_eq!(open(), [1, 2, 3], "all were read, so the first one goes");
        read(4);
        assert_eq!(open(), [1, 3, 4]);
        read(5);
        assert_eq!(open(), [3, 4, 5], "1 has not been read since, 3 and 4 have");
    }

    #[test]
    fn readers_in_many_threads_see_the_right_bytes() {
        let (_disk, store, files) = store_with_files(16, 2);
        let _limit = limit("readers");
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let files = &files;
                scope.spawn(move || {
                    let mut rng = SmallRng::seed_from_u64(thread);
                    let mut buf = [0; 100];
                    for _ in 0..5_000 {
                        let file = rng.random_range(0..files.len());
                        let start = rng.random_range(0..156);
                        files[file].read_exact_at(&mut buf, start as u64).unwrap();
                        assert_eq!(buf, content(file as u64)[start..start + 100]);
                    }
                });
            }
        });
        assert!(open_files(&store, &files) <= 2);
        assert_eq!((store.reads(), store.read_bytes()), (20_000, 2_000_000));
    }

    #[test]
    fn a_short_or_missing_file_is_corruption_and_a_failed_read_is_not() {
        let (disk, store, files) = store_with_files(3, 2);
        let mut buf = [0; 10];
        assert_eq!(files[0].read_at(&mut buf, 250).unwrap(), 6);
        let err = files[0].read_exact_at(&mut buf, 250).unwrap_err();
        assert_eq!(
            (err.kind(), err.offset()),
            (ErrorKind::Corruption, Some(250))
        );
        assert_eq!(err.file(), Some(files[0].path()));

        disk.set_read_fault(Box::new(|_| Some(io::ErrorKind::Other)));
        assert_eq!(
            files[1].read_at(&mut buf, 0).unwrap_err().kind(),
            ErrorKind::Io
        );
        disk.clear_faults();
        assert_eq!(files[1].read_at(&mut buf, 0).unwrap(), 10);

        store.env().vfs.remove(files[2].path()).unwrap();
        let err = files[2].read_at(&mut buf, 0).unwrap_err();
        assert_eq!(err.kind(), ErrorKind::Corruption);
    }

    #[test]
    fn an_obsolete_file_is_reported_once_when_its_last_holder_releases_it() {
        let (_disk, store, mut files) = store_with_files(4, 8);
        for file in &files {
            file.read_exact_at(&mut [0; 1], 0).unwrap();
        }
        let held = Arc::new(files.remove(2));
        let other = Arc::clone(&held);
        held.mark_obsolete(256);
        held.mark_obsolete(256);
        drop(held);
        assert_eq!(store.take_obsolete(), Vec::<PathBuf>::new());
        assert_eq!(store.pinned(), (1, 256));
        other.read_exact_at(&mut [0; 1], 0).unwrap();
        let epoch = store.work().epoch();
        drop(other);
        assert_ne!(store.work().epoch(), epoch, "the worker is woken");
        assert_eq!(store.pinned(), (0, 0));
        assert_eq!(store.take_obsolete(), [PathBuf::from("/db/000002.rec")]);
        assert_eq!(store.take_obsolete(), Vec::<PathBuf>::new());
        drop(files.pop());
        assert_eq!(store.take_obsolete(), Vec::<PathBuf>::new());
        assert_eq!(open_files(&store, &files), 2);
    }

    #[test]
    fn uids_are_not_zero_and_differ() {
        let (_disk, store, _files) = store_with_files(0, 1);
        let uids = [store.new_uid(), store.new_uid()];
        assert_ne!(uids[0], uids[1]);
        assert!(uids.iter().all(|uid| uid.0 != 0));
    }
}
