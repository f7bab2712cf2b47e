//! A file open for reading: through the page cache, out of it alone, or past it.

use super::directory::Directory;
use super::read_full;
use crate::base::mapped::PAGE_BYTES;
use crate::base::sync::OnceLock;
use crate::vfs::direct_io::is_refusal;
use crate::vfs::{Access, ReadFile};
use rustix::fs::{Advice, OFlags};
use rustix::io::{Errno, ReadWriteFlags, retry_on_intr};
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

/// Whether a read that may not wait, and does not find its page in memory, has the device read it:
/// since Linux 6.12. Asking again takes the processor a microsecond. Of several pages it may
/// leave out those after one that the device is reading already.
pub(super) fn miss_begins_a_read() -> bool {
    let system = rustix::system::uname();
    let release = system.release().to_string_lossy();
    let numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut numbers = numbers.map(|number| number.parse().unwrap_or(0_u32));
    (numbers.next(), numbers.next()) >= (Some(6), Some(12))
}

#[derive(Debug)]
pub(super) struct OsReadFile {
    directory: Directory,
    path: PathBuf,
    file: File,
    /// The same file for direct reads, once there was one; `None` if it knows none.
    direct: OnceLock<Option<File>>,
    /// See [`miss_begins_a_read`].
    miss_begins_a_read: bool,
}

impl OsReadFile {
    pub(super) fn open(
        directory: &Directory,
        path: &Path,
        access: Access,
        miss_begins_a_read: bool,
    ) -> io::Result<OsReadFile> {
        let file = directory.open(path, OFlags::RDONLY)?;
        let advice = match access {
            Access::Random => Advice::Random,
            Access::Sequential => Advice::Sequential,
        };
        // Advice only: a file system that does not take it still reads right.
        let _ = rustix::fs::fadvise(&file, 0, None, advice);
        Ok(OsReadFile {
            directory: directory.clone(),
            path: path.to_owned(),
            file,
            direct: OnceLock::new(),
            miss_begins_a_read,
        })
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
            // Part of it, the file's end, or none of it: the ordinary read says.
            Ok(_) | Err(Errno::AGAIN) => {
                let is_one_page = offset as usize % PAGE_BYTES + want <= PAGE_BYTES;
                if !(is_one_page && self.miss_begins_a_read) {
                    self.will_need(offset, want as u64);
                }
                Ok(None)
            }
            Err(Errno::OPNOTSUPP) => self.read_at(buf, offset).map(Some),
            Err(e) => Err(e.into()),
        }
    }

    fn will_need(&self, offset: u64, len: u64) {
        // Advice only, as above.
        let _ = rustix::fs::fadvise(&self.file, offset, NonZeroU64::new(len), Advice::WillNeed);
    }

    fn direct(&self) -> io::Result<Option<BorrowedFd<'_>>> {
        if let Some(direct) = self.direct.get() {
            return Ok(direct.as_ref().map(File::as_fd));
        }
        let flags = OFlags::RDONLY | OFlags::DIRECT;
        let opened = match self.directory.open(&self.path, flags) {
            Ok(file) => Some(file),
            Err(error) if is_refusal(&error) => None,
            Err(error) => return Err(error),
        };
        Ok(self.direct.get_or_init(|| opened).as_ref().map(File::as_fd))
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }
}
