//! A file open for reading: through the page cache, out of it alone, or around it.

use super::bulk_file::refuses_direct;
use super::read_full;
use crate::base::sync::OnceLock;
use crate::vfs::{Access, BLOCK_BYTES, ReadFile};
use rustix::fs::{Advice, OFlags};
use rustix::io::{Errno, ReadWriteFlags};
use std::fs::{File, OpenOptions};
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// At what the memory of a read around the page cache must begin a multiple of.
const MEMORY_ALIGNMENT: usize = BLOCK_BYTES / 8;

#[derive(Debug)]
pub(super) struct OsReadFile {
    file: File,
    path: PathBuf,
    /// The same file once more, for reads around the page cache; empty where it cannot be opened so.
    around: OnceLock<Option<File>>,
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
        Ok(OsReadFile {
            file,
            path: path.to_owned(),
            around: OnceLock::new(),
        })
    }

    fn around(&self) -> Option<&File> {
        let open = || {
            let mut options = OpenOptions::new();
            options
                .read(true)
                .custom_flags(OFlags::DIRECT.bits() as i32);
            options.open(&self.path).ok()
        };
        self.around.get_or_init(open).as_ref()
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
        let read = rustix::io::retry_on_intr(|| {
            rustix::io::preadv2(&self.file, &mut parts, offset, flags)
        });
        match read {
            Ok(len) if len == want => Ok(Some(len)),
            // Part of it, the file's end, or none of it: the ordinary read tells.
            Ok(_) | Err(Errno::AGAIN) => Ok(None),
            Err(Errno::OPNOTSUPP) => self.read_at(buf, offset).map(Some),
            Err(e) => Err(e.into()),
        }
    }

    fn read_around_at(&self, buf: &mut [u8], offset: u64, len: usize) -> io::Result<Option<usize>> {
        let before = (offset % BLOCK_BYTES as u64) as usize;
        let blocks = (before + len).next_multiple_of(BLOCK_BYTES);
        let begin = buf.as_ptr().align_offset(MEMORY_ALIGNMENT);
        let (Some(file), Some(buf)) = (self.around(), buf.get_mut(begin..begin + blocks)) else {
            return Ok(None);
        };
        let read = loop {
            match file.read_at(buf, offset - before as u64) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        match read {
            Ok(read) if read >= before + len => Ok(Some(begin + before)),
            Ok(_) => Ok(None),
            Err(error) if refuses_direct(&error) => Ok(None),
            Err(error) => Err(error),
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
