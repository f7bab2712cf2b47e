//! Counts what is allocated, so that a target can bound it.
//!
//! The counters are for all threads together; the targets have one.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call goes to the system's allocator as it came; counting touches no memory of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller's promises about the layout are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the block came from `System` with this layout.
        unsafe { System.dealloc(at, layout) }
    }
}

/// Runs `parse` and asserts that it never holds more than `limit` bytes beyond what was held
/// before.
pub fn bounded<T>(limit: usize, parse: impl FnOnce() -> T) -> T {
    let before = NOW.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let parsed = parse();
    let used = PEAK.load(Ordering::Relaxed).saturating_sub(before);
    assert!(
        used <= limit,
        "{used} bytes allocated, and {limit} are enough"
    );
    parsed
}
