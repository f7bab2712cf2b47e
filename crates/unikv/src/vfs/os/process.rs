//! Whether this is the process that it was, and not a child that it has forked.
//!
//! A page that the kernel empties in a child (`MADV_WIPEONFORK`, Linux 4.14) says so for one load
//! and no system call, and for any way to fork, `clone` without the C library included. Where there
//! is no such page the process id is compared.
#![allow(
    unsafe_code,
    reason = "the kernel changes the memory of a child, and advice about memory takes a pointer"
)]

use crate::base::mapped::{Mapped, PAGE_BYTES};
use rustix::mm::{Advice, madvise};
use std::fmt;
use std::process;
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// The byte that stands in the page of the process that has made it.
const OWN: u8 = 1;
static ALWAYS_OWN: u8 = OWN;
static NEVER_OWN: u8 = 0;

/// Distinguishes the process that opened a database from the children that it forks: see
/// [`Runtime::process`].
///
/// [`Runtime::process`]: crate::vfs::Runtime::process
#[derive(Clone)]
pub struct Process {
    /// Holds [`OWN`] in this process; in another one the process id is asked for.
    mark: NonNull<u8>,
    /// Keeps the page that the mark is in.
    _page: Option<Arc<Mapped>>,
    id: Option<u32>,
}

// SAFETY: the mark is read only. It is a static's, or in the page that lives as long as this.
unsafe impl Send for Process {}
// SAFETY: as above.
unsafe impl Sync for Process {}

impl Process {
    /// The calling process.
    pub fn this() -> Process {
        let page = Mapped::new(PAGE_BYTES).and_then(|mut page| {
            let at = page.as_mut_ptr();
            // SAFETY: the range is that of a private anonymous mapping, which this function alone
            // knows. The advice changes nothing in this process.
            let advised = unsafe { madvise(at.cast(), PAGE_BYTES, Advice::LinuxWipeOnFork) };
            *page.first_mut()? = OWN;
            advised
                .is_ok()
                .then_some((NonNull::new(at)?, Arc::new(page)))
        });
        match page {
            Some((mark, page)) => Process {
                mark,
                _page: Some(page),
                id: None,
            },
            None => Process {
                mark: NonNull::from(&NEVER_OWN),
                _page: None,
                id: Some(process::id()),
            },
        }
    }

    /// A process that never forks.
    pub fn alone() -> Process {
        Process {
            mark: NonNull::from(&ALWAYS_OWN),
            _page: None,
            id: None,
        }
    }

    /// Whether it is the calling one.
    #[inline]
    pub fn is_this(&self) -> bool {
        // SAFETY: see above. That the kernel empties the page of a child the compiler does not
        // know.
        let mark = unsafe { ptr::read_volatile(self.mark.as_ptr()) };
        mark == OWN || self.has_id_of_this()
    }

    #[cold]
    fn has_id_of_this(&self) -> bool {
        self.id == Some(process::id())
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process")
            .field("is_this", &self.is_this())
            .finish_non_exhaustive()
    }
}
