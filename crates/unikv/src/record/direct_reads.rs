//! The runs of a batch that are better read directly, once all else is prefetched.

use crate::base::keys::FileNumber;
use crate::key_table::ReadBuffer;
use crate::vfs::file_store::{DataFile, DirectFileRead, LONG_BYTES, Route};
use bytes::Bytes;
use std::sync::Arc;

/// This many are read at once: each takes a buffer of whole blocks.
const MOST_READS: usize = 64;

/// Such runs, ascending by file and offset.
pub(crate) struct DirectReads {
    are_allowed: bool,
    runs: Vec<PlannedRead>,
}

struct PlannedRead {
    file: Arc<DataFile>,
    offset: u64,
    len: usize,
    /// Until it is read.
    buffer: Option<ReadBuffer>,
    /// Whether several records share what is read.
    is_shared: bool,
    bytes: Option<Bytes>,
}

impl DirectReads {
    pub(crate) fn new(are_allowed: bool) -> DirectReads {
        DirectReads {
            are_allowed,
            runs: Vec::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// How a run is read.
    pub(super) fn route(&self, file: &DataFile, offset: u64, len: usize) -> Route {
        if !self.are_allowed {
            return Route::Through;
        }
        let route = file.route(offset, len);
        // One by one, the device would read nothing else while it reads a second; of the first, the
        // others that are prefetched are read meanwhile.
        let may_be_one = || self.runs.is_empty() && len >= LONG_BYTES;
        let may_be_many = || self.runs.len() < MOST_READS && file.store().reads_direct_together();
        if route == Route::Direct && !may_be_one() && !may_be_many() {
            Route::Through
        } else {
            route
        }
    }

    /// Adds a run after all others, in the order of files and offsets, and the memory for reading
    /// it, which several records may share.
    pub(super) fn add(
        &mut self,
        file: &Arc<DataFile>,
        offset: u64,
        len: usize,
        buffer: ReadBuffer,
        is_shared: bool,
    ) {
        self.runs.push(PlannedRead {
            file: Arc::clone(file),
            offset,
            len,
            buffer: Some(buffer),
            is_shared,
            bytes: None,
        });
        debug_assert!(self.runs.is_sorted_by_key(PlannedRead::place));
    }

    /// Reads them all.
    pub(crate) fn read(&mut self) {
        let Some(store) = self.runs.first().map(|run| Arc::clone(run.file.store())) else {
            return;
        };
        let wanted = self.runs.iter_mut().filter_map(|run| {
            Some(DirectFileRead {
                file: &run.file,
                offset: run.offset,
                len: run.len,
                buf: run.buffer.as_mut()?.bytes_mut(),
            })
        });
        let begins = store.read_direct(wanted.collect());
        for (run, begin) in self.runs.iter_mut().zip(begins) {
            let (Some(buffer), Some(begin)) = (run.buffer.take(), begin) else {
                continue;
            };
            run.bytes = buffer.part(begin..begin + run.len, run.is_shared);
        }
    }

    /// The bytes of the run that begins at `offset`, if they have been read.
    pub(super) fn bytes(&self, file: FileNumber, offset: u64) -> Option<Bytes> {
        let found = self
            .runs
            .binary_search_by_key(&(file, offset), PlannedRead::place);
        self.runs.get(found.ok()?)?.bytes.clone()
    }
}

impl PlannedRead {
    fn place(&self) -> (FileNumber, u64) {
        (self.file.number(), self.offset)
    }
}
