//! One of the data files: read through, out of or past the page cache, and unlinked when nobody
//! wants it any more.

use super::{FileStore, Handle, Route, Slot};
use crate::base::keys::{FileNumber, FileUid};
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::error::{Error, Result};
use crate::vfs::ReadFile;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// The counts of the three parts of a data file that are shared, and the system's handle.
const SHARING_BYTES: usize = 4 * 16 + 8;

/// A file that never changes. Opened lazily; closed when too many others are open.
pub(crate) struct DataFile {
    store: Arc<FileStore>,
    pub(super) slot: Arc<Slot>,
    number: FileNumber,
    uid: FileUid,
    /// The length of the file once it is obsolete, [`LISTED`] until then.
    obsolete_bytes: AtomicU64,
}

/// No file has this length.
const LISTED: u64 = u64::MAX;

impl DataFile {
    pub(super) fn new(
        store: Arc<FileStore>,
        slot: Arc<Slot>,
        number: FileNumber,
        uid: FileUid,
    ) -> DataFile {
        DataFile {
            store,
            slot,
            number,
            uid,
            obsolete_bytes: AtomicU64::new(LISTED),
        }
    }

    /// Where the file is.
    pub(crate) fn path(&self) -> &Path {
        &self.slot.path
    }

    /// Memory of the handle, open or not.
    pub(crate) fn memory_bytes(&self) -> usize {
        let path = self.slot.path.as_os_str().len();
        // The open file has the path, too.
        size_of::<DataFile>() + size_of::<Slot>() + size_of::<Handle>() + SHARING_BYTES + 2 * path
    }

    /// The number in its name.
    pub(crate) fn number(&self) -> FileNumber {
        self.number
    }

    /// The uid its checksums are bound to.
    pub(crate) fn uid(&self) -> FileUid {
        self.uid
    }

    /// Fills `buf` from `offset`; a file that ends before that is damaged.
    pub(crate) fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        if self.read_at(buf, offset)? < buf.len() {
            return Err(Error::corruption(
                self.path(),
                offset,
                "the file ends early",
            ));
        }
        Ok(())
    }

    /// As [`DataFile::read_exact_at`], of a single record: others near it may be brought into
    /// memory with it.
    pub(crate) fn read_record_at(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        if let Some(piece) = self.store.dense_reads.note(self.number, offset) {
            self.will_need(piece.start, piece.end - piece.start)?;
        }
        self.read_exact_at(buf, offset)
    }

    /// Fills `buf` from `offset`. Returns the bytes read, fewer than asked only at the file's end.
    pub(crate) fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let result = self.with_file(|file| file.read_at(buf, offset))?;
        let len = result.map_err(|e| Error::io("read the file", self.path(), e))?;
        self.count_read(len);
        Ok(len)
    }

    /// Fills `buf` from `offset` if the bytes are in memory. False: they are not, or the file ends.
    pub(crate) fn read_cached_at(&self, buf: &mut [u8], offset: u64) -> Result<bool> {
        let want = buf.len();
        let result = self.with_file(|file| file.read_cached_at(buf, offset))?;
        let len = result.map_err(|e| Error::io("read the file", self.path(), e))?;
        let whole = len == Some(want);
        if whole {
            self.count_read(want);
        }
        Ok(whole)
    }

    /// How `len` bytes from `offset` should be read by who wants them once, as far as is known.
    pub(crate) fn route(&self, offset: u64, len: usize) -> Route {
        self.store
            .direct_read_policy
            .route(self.number, offset, len)
    }

    /// Says whether what came by [`Route::Trial`] was found in memory.
    pub(crate) fn note_trial(&self, len: usize, found: bool) {
        self.store.direct_read_policy.note_trial(len, found);
    }

    /// The files that it is one of.
    pub(crate) fn store(&self) -> &Arc<FileStore> {
        &self.store
    }

    /// Begins to bring bytes into memory.
    pub(crate) fn will_need(&self, offset: u64, len: u64) -> Result<()> {
        self.with_file(|file| file.will_need(offset, len))
    }

    pub(super) fn count_read(&self, len: usize) {
        self.store.reads.fetch_add(1, Ordering::Relaxed);
        self.store
            .read_bytes
            .fetch_add(len as u64, Ordering::Relaxed);
    }

    /// Whether it is open.
    pub(crate) fn is_open(&self) -> bool {
        self.slot.handle.load().is_some()
    }

    /// Opens it, if it is not open yet, and returns its length. It stays open if its store closes
    /// none.
    pub(crate) fn open_now(&self) -> Result<u64> {
        let len = self.with_file(|file| file.len())?;
        len.map_err(|e| Error::io("look at", self.path(), e))
    }

    /// The open file.
    pub(super) fn handle(&self) -> Result<Arc<Handle>> {
        match self.slot.handle.load_full() {
            Some(handle) => {
                self.slot.note_read();
                Ok(handle)
            }
            None => self.store.open(&self.slot),
        }
    }

    fn with_file<T>(&self, read: impl FnOnce(&dyn ReadFile) -> T) -> Result<T> {
        let handle = self.slot.handle.load();
        match &*handle {
            Some(handle) => {
                self.slot.note_read();
                Ok(read(&*handle.file))
            }
            None => Ok(read(&*self.store.open(&self.slot)?.file)),
        }
    }

    /// Says that no version lists the file, of `len` bytes, any more: once dropped, its path goes
    /// to [`FileStore::take_obsolete`].
    pub(crate) fn mark_obsolete(&self, len: u64) {
        if self.obsolete_bytes.swap(len, Ordering::AcqRel) == LISTED {
            self.store.pinned_files.fetch_add(1, Ordering::Relaxed);
            self.store.pinned_bytes.fetch_add(len, Ordering::Relaxed);
        }
    }
}

impl Drop for DataFile {
    fn drop(&mut self) {
        self.store.open_files.lock().forget(&self.slot);
        let len = self.obsolete_bytes.load(Ordering::Acquire);
        if len == LISTED {
            return;
        }
        let first = {
            let mut obsolete = self.store.obsolete.lock();
            obsolete.push(self.slot.path.clone());
            obsolete.len() == 1
        };
        self.store.pinned_files.fetch_sub(1, Ordering::Relaxed);
        self.store.pinned_bytes.fetch_sub(len, Ordering::Relaxed);
        if first {
            self.store.work.notify();
        }
    }
}

impl fmt::Debug for DataFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataFile")
            .field("path", &self.slot.path)
            .finish_non_exhaustive()
    }
}
