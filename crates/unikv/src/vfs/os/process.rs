//! Whether this is the process that it was, and not a child that it has forked.
//!
//! A page that the kernel empties in a child (`MADV_WIPEONFORK`, Linux 4.14) says so for one load and no system call, and
//! for any way to fork, `clone` without the C library included. Where there is no such page the process id is compared.
#![allow(
    unsafe_code,
    reason = "the kernel changes the memory of a child, and advice about memory takes a pointer"
)]

use crate::base::mapped::{Mapped, PAGE_BYTES};
use rustix::mm::{Advice, madvise};
use std::fmt;
use std::process;

/// The byte that stands in the page of the process that has made it.
const OWN: u8 = 1;

/// See the module.
pub(crate) struct ForkMark {
    page: Option<Mapped>,
    /// `None`: the page is enough.
    pid: Option<u32>,
}

impl ForkMark {
    /// The mark of this process.
    pub(crate) fn new() -> ForkMark {
        let page = Mapped::new(PAGE_BYTES).and_then(|mut page| {
            let at = page.as_mut_ptr();
            // SAFETY: the range is that of a private anonymous mapping, which this function alone knows. The advice
            // changes nothing in this process.
            let advised = unsafe { madvise(at.cast(), PAGE_BYTES, Advice::LinuxWipeOnFork) };
            *page.first_mut()? = OWN;
            advised.is_ok().then_some(page)
        });
        let pid = page.is_none().then(process::id);
        ForkMark { page, pid }
    }

    /// Whether this process has made the mark.
    #[inline]
    pub(crate) fn is_own(&self) -> bool {
        match &self.page {
            // SAFETY: the page is mapped and readable as long as `self` is there. Nobody writes to it; that it is empty in
            // a child is not seen by the compiler, so the load is volatile.
            Some(page) => unsafe { page.as_ptr().read_volatile() == OWN },
            None => self.pid == Some(process::id()),
        }
    }
}

impl fmt::Debug for ForkMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForkMark")
            .field("is_own", &self.is_own())
            .finish_non_exhaustive()
    }
}
