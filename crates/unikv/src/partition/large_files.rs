//! The record files of large values that no version lists yet, and the way from what stands in the
//! place of such a value to the value.
//!
//! A file belongs to the memtable that holds the places of its values ([`super::MemtableHandle`]):
//! it is put there before the first of them can be seen, and stays as long as the memtable does, so
//! a holder of a view finds every file that an entry of it names. The flush of the memtable lists
//! the file in the manifest, under the same handle.
//!
//! Lock: one mutex, held for a look or a change of the map.

use super::view::View;
use crate::base::keys::{FileNumber, Kind, SeqNo};
use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::error::{Error, Result};
use crate::key_table::RecordPointer;
use crate::record::pointed::{check_pointed, dangling};
use crate::record::{External, RecordFile};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Record files of large values, by number.
#[derive(Default)]
pub(crate) struct LargeFiles {
    files: Mutex<BTreeMap<FileNumber, Arc<RecordFile>>>,
    bytes: AtomicU64,
}

impl LargeFiles {
    pub(crate) fn insert(&self, file: Arc<RecordFile>) {
        let meta = file.meta();
        self.bytes.fetch_add(meta.len, Ordering::Relaxed);
        self.files.lock().insert(meta.number, file);
    }

    pub(crate) fn get(&self, number: FileNumber) -> Option<Arc<RecordFile>> {
        self.files.lock().get(&number).cloned()
    }

    /// Takes a file out.
    pub(crate) fn take(&self, number: FileNumber) -> Option<Arc<RecordFile>> {
        let file = self.files.lock().remove(&number)?;
        self.bytes.fetch_sub(file.meta().len, Ordering::Relaxed);
        Some(file)
    }

    /// All of them, by ascending number.
    pub(crate) fn all(&self) -> Vec<Arc<RecordFile>> {
        self.files.lock().values().cloned().collect()
    }

    /// Bytes of all of them.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl View {
    /// A record file, be it listed or not yet.
    pub(crate) fn record_file(&self, number: FileNumber) -> Option<Arc<RecordFile>> {
        if let Some(file) = self.version.record_file(number) {
            return Some(Arc::clone(file));
        }
        self.unlisted_file(number)
    }

    /// The record file of large values, which a memtable of this view names.
    pub(crate) fn unlisted_file(&self, number: FileNumber) -> Option<Arc<RecordFile>> {
        self.memtables().find_map(|handle| handle.large.get(number))
    }

    /// The value of `key` at `seq`, in whose place `external` stands in `path`.
    pub(super) fn external_value(
        &self,
        key: &[u8],
        seq: SeqNo,
        external: &[u8],
        path: &Path,
    ) -> Result<Bytes> {
        let (file, pointer) = self.external_place(external, path)?;
        let record = file.get(pointer)?;
        check_pointed(&record, (key, seq, Kind::Put), file.path(), pointer)?;
        Ok(record.into_value())
    }

    /// Where the value is in whose place `external` stands in `path`.
    pub(super) fn external_place(
        &self,
        external: &[u8],
        path: &Path,
    ) -> Result<(Arc<RecordFile>, RecordPointer)> {
        let external = External::decode(external).ok_or_else(|| {
            let what = "what stands in the place of a large value is malformed";
            Error::corruption(path, 0, what)
        })?;
        let pointer = external.pointer;
        let file = self.record_file(pointer.file);
        let file = file.ok_or_else(|| dangling(path, pointer))?;
        external.is_in(&file)?;
        Ok((file, pointer))
    }
}
