//! A file open for reading: through the page cache, out of it alone, or around it.

use super::bulk_file::refuses_direct;
use super::read_full;
use crate::vfs::{Access, BLOCK_BYTES, ReadFile};
use rustix::fs::{Advice, OFlags};
use rustix::io::{Errno, ReadWriteFlags, retry_on_intr};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::num::NonZeroU64;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

#[derive(Debug)]
pub(super) struct OsReadFile {
    file: File,
}

impl OsReadFile {
    pub(super) fn open(path: &Path, access: Access) -> io::Result<OsReadFile> {
        let file = File::open(path)?;
        let advice = match access {
            Access::Random => Advice::Random,
            Access::Sequential => Advice::Sequential,
        };
        // Advice only: a file system that does not take it still reads right.
        let _ = rustix::fs::fadvise(&file, 0, None, advice);
        Ok(OsReadFile { file })
    }
}

/// Reads `len` bytes from `offset` of the file at `path` into a part of `buf`, and says where that begins. The file is
/// opened anew each time, which takes little beside the read: to keep it open would take a second descriptor.
pub(super) fn read_around(
    path: &Path,
    buf: &mut [u8],
    offset: u64,
    len: usize,
) -> io::Result<Option<usize>> {
    let before = (offset % BLOCK_BYTES as u64) as usize;
    let blocks = (before + len).next_multiple_of(BLOCK_BYTES);
    let begin = buf.as_ptr().align_offset(BLOCK_BYTES);
    let buf = buf.get_mut(begin..begin + blocks);
    let buf = buf.ok_or(ErrorKind::InvalidInput)?;
    let mut options = OpenOptions::new();
    let flags = OFlags::DIRECT.bits() as i32;
    let read = options.read(true).custom_flags(flags).open(path);
    let read = read.and_then(|file| {
        let at = offset - before as u64;
        Ok(retry_on_intr(|| rustix::io::pread(&file, &mut *buf, at))?)
    });
    match read {
        Ok(read) if read >= before + len => Ok(Some(begin + before)),
        Ok(_) => Err(ErrorKind::UnexpectedEof.into()),
        Err(error) if refuses_direct(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

impl ReadFile for OsReadFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        read_full(&self.file, buf, offset)
    }

    fn read_cached_at(&self, buf: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
        let want = buf.len();
        let mut parts = [io::IoSliceMut::new(buf)];
        let flags = ReadWriteFlags::NOWAIT;
        let read = retry_on_intr(|| rustix::io::preadv2(&self.file, &mut parts, offset, flags));
        match read {
            Ok(len) if len == want => Ok(Some(len)),
            // Part of it, the file's end, or none of it: the ordinary read tells.
            Ok(_) | Err(Errno::AGAIN) => Ok(None),
            Err(Errno::OPNOTSUPP) => self.read_at(buf, offset).map(Some),
            Err(e) => Err(e.into()),
        }
    }

    fn will_need(&self, offset: u64, len: u64) {
        // Advice only, as above.
        let _ = rustix::fs::fadvise(&self.file, offset, NonZeroU64::new(len), Advice::WillNeed);
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }
}
