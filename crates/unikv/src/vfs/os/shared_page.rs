//! A page that is shared by a mapping of its file, and held by a lock on it.
//!
//! Invariants:
//! - The file has all its bytes before it is mapped, and nobody shortens it: no access can leave
//!   it.
//! - Its creator has it locked (`flock`) before it gets the name under which others open it. Others
//!   ask by sharing the lock for a moment; the creator of the next page meets none of them, as it
//!   locks a file that nobody knows yet.
//! - A store must not need a new block, or a full disk would end the process. So the page is mapped
//!   only where files are written in place, and says so elsewhere ([`UNSHARED`]).
//!
//! Lock: the guard's, a leaf, for the moment of a release.
#![allow(
    unsafe_code,
    reason = "a file that other processes change is mapped as atomics"
)]

use super::directory::Directory;
use super::{OsLockGuard, read_full};
use crate::base::sync::Mutex;
use crate::base::sync::atomic::Ordering;
use crate::base::sync::unseen::{AtomicU64, fence};
use crate::vfs::shared_page::{PAGE_LEN, PAGE_WORDS, SharedPage, WORDS_AT, blank};
use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::{Errno, retry_on_intr};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Stands in the last word of a page whose file system does not let it be shared.
const UNSHARED: u64 = u64::MAX;

/// The file systems that write a file's blocks in place: ext2 to ext4, XFS, tmpfs; and overlayfs,
/// which mostly lies over one of them.
const IN_PLACE: [i64; 4] = [0xef53, 0x5846_5342, 0x0102_1994, 0x794c_7630];

#[derive(Debug)]
pub(super) struct OsPage {
    file: File,
    header: Vec<u8>,
    /// `None`: nobody else sees the words.
    mapping: Option<MmapRaw>,
    /// Of the creator, until it is released.
    guard: Mutex<Option<OsLockGuard>>,
}

impl OsPage {
    pub(super) fn create(directory: &Directory, path: &Path, header: &[u8]) -> io::Result<OsPage> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let file = directory.open(path, flags)?;
        let made = OsPage::fill(file, header);
        made.inspect_err(|_| drop(directory.remove(path)))
    }

    fn fill(file: File, header: &[u8]) -> io::Result<OsPage> {
        let lock = FlockOperation::NonBlockingLockExclusive;
        retry_on_intr(|| rustix::fs::flock(&file, lock))?;
        let guard = OsLockGuard::of(file.try_clone()?);
        let is_shared =
            rustix::fs::fstatfs(&file).is_ok_and(|stat| IN_PLACE.contains(&stat.f_type));
        let mut bytes = blank(header)?;
        if !is_shared {
            let last = WORDS_AT + 8 * (PAGE_WORDS - 1);
            bytes[last..last + 8].copy_from_slice(&UNSHARED.to_ne_bytes());
        }
        file.write_all_at(&bytes, 0)?;
        let mapping = if is_shared {
            Some(MmapOptions::new().len(PAGE_LEN).map_raw(&file)?)
        } else {
            None
        };
        Ok(OsPage {
            file,
            header: header.to_vec(),
            mapping,
            guard: Mutex::new(Some(guard)),
        })
    }

    pub(super) fn open(directory: &Directory, path: &Path) -> io::Result<OsPage> {
        let file = directory.open(path, OFlags::RDONLY)?;
        let mut header = vec![0; WORDS_AT];
        if file.metadata()?.len() < PAGE_LEN as u64 || read_full(&file, &mut header, 0)? < WORDS_AT
        {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let mapping = MmapOptions::new().len(PAGE_LEN).map_raw_read_only(&file)?;
        Ok(OsPage {
            file,
            header,
            mapping: Some(mapping),
            guard: Mutex::new(None),
        })
    }

    fn word(&self, at: usize) -> Option<&AtomicU64> {
        let mapping = self.mapping.as_ref().filter(|_| at < PAGE_WORDS)?;
        // SAFETY: the word lies in the mapping, which is `PAGE_LEN` long and begins at a page, so
        // it is aligned; it lives as long as `self`. All that touches it, here and in other
        // processes, are atomic accesses. In a mapping that is read only it is only loaded, by
        // relaxed loads of eight bytes, which is all right there.
        Some(unsafe { AtomicU64::from_ptr(mapping.as_mut_ptr().add(WORDS_AT + 8 * at).cast()) })
    }
}

impl SharedPage for OsPage {
    #[inline]
    fn store(&self, at: usize, word: u64) {
        if let Some(place) = self.word(at) {
            place.store(word, Ordering::Release);
        }
    }

    fn load(&self, at: usize) -> u64 {
        let word = self.word(at).map_or(0, |word| word.load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        word
    }

    fn header(&self) -> &[u8] {
        &self.header
    }

    fn is_shared(&self) -> bool {
        self.load(PAGE_WORDS - 1) != UNSHARED
    }

    fn is_held(&self) -> io::Result<bool> {
        // To share its own lock would give it up.
        if self.guard.lock().is_some() {
            return Ok(true);
        }
        let shared = FlockOperation::NonBlockingLockShared;
        match retry_on_intr(|| rustix::fs::flock(&self.file, shared)) {
            Err(Errno::WOULDBLOCK) => Ok(true),
            Err(error) => Err(error.into()),
            Ok(()) => {
                retry_on_intr(|| rustix::fs::flock(&self.file, FlockOperation::Unlock))?;
                Ok(false)
            }
        }
    }

    fn release(&self) {
        drop(self.guard.lock().take());
    }
}
