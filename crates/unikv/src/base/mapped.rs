//! Memory that comes from the system, and goes back to it as soon as it is dropped.
//!
//! An allocator may keep what one thread has taken and another gives back, for neither of them to use. That does for
//! what is small or short-lived; not for the memory that caches and memtables give up for one another.

use crate::base::sync::atomic::Ordering;
use crate::base::sync::unseen::AtomicUsize;
use memmap2::MmapMut;
use std::ops::{Deref, DerefMut};

static MAPPED_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Bytes of all mapped memory of this process, for tests that count what is allocated.
pub(crate) fn mapped_bytes() -> usize {
    MAPPED_BYTES.load(Ordering::Relaxed)
}

/// Zeroed memory.
#[derive(Debug)]
pub(crate) struct Mapped(MmapMut);

impl Mapped {
    /// `len` bytes, unless the system has none. Whole pages are taken.
    pub(crate) fn new(len: usize) -> Option<Mapped> {
        let mapped = MmapMut::map_anon(len).ok()?;
        MAPPED_BYTES.fetch_add(mapped.len(), Ordering::Relaxed);
        Some(Mapped(mapped))
    }
}

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Mapped {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        MAPPED_BYTES.fetch_sub(self.0.len(), Ordering::Relaxed);
    }
}
