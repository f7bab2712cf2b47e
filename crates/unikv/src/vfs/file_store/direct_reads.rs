//! Direct reads of data files.

use super::{DataFile, FileStore, LONG_BYTES};
use crate::vfs::DirectRead;

/// A direct read; see [`DirectRead`].
pub(crate) struct DirectFileRead<'a> {
    pub(crate) file: &'a DataFile,
    pub(crate) offset: u64,
    pub(crate) len: usize,
    pub(crate) buf: &'a mut [u8],
}

impl FileStore {
    /// Reads past the page cache, all at once where the file system can, and says from where in
    /// each buffer the bytes stand. `None`: they must be read through it, and what stands in the
    /// way will be reported then.
    pub(crate) fn read_direct(&self, wanted: Vec<DirectFileRead<'_>>) -> Vec<Option<usize>> {
        let handles: Vec<_> = wanted.iter().map(|read| read.file.handle()).collect();
        let asked: Vec<_> = wanted.iter().map(|read| (read.file, read.len)).collect();
        let reads = wanted.into_iter().zip(&handles);
        let reads = reads.filter_map(|(wanted, handle)| {
            Some(DirectRead {
                file: &*handle.as_ref().ok()?.file,
                offset: wanted.offset,
                len: wanted.len,
                buf: wanted.buf,
            })
        });
        let mut reads: Vec<_> = reads.collect();
        let start = self.env.runtime.now();
        let mut begins = self.env.vfs.read_direct(&mut reads).into_iter();
        let took = self.env.runtime.now().saturating_sub(start);
        let each = took / u32::try_from(reads.len()).unwrap_or(u32::MAX).max(1);
        let (mut long, mut short) = (false, false);
        let begins = handles.iter().zip(asked).map(|(handle, (file, len))| {
            handle.as_ref().ok()?;
            let begin = match begins.next()? {
                Ok(Some(begin)) => begin,
                Ok(None) => {
                    self.direct_read_policy.refuse();
                    return None;
                }
                Err(_reported_by_the_next_read) => return None,
            };
            file.count_read(len);
            *(if len < LONG_BYTES {
                &mut short
            } else {
                &mut long
            }) = true;
            Some(begin)
        });
        let begins = begins.collect();
        if short {
            self.direct_read_policy.note_direct(0, each);
        }
        if long {
            self.direct_read_policy.note_direct(LONG_BYTES, each);
        }
        begins
    }

    /// Whether the device gets all reads of one [`FileStore::read_direct`] at once.
    pub(crate) fn reads_direct_together(&self) -> bool {
        self.env.vfs.reads_direct_together()
    }
}
