//! An allocator that counts what is allocated.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// What is allocated, and the most that this and what is mapped have been.
static LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);
pub static PEAK_BYTES: AtomicUsize = AtomicUsize::new(0);

struct Counting;

/// What is allocated, and what is mapped beside it. What is mapped shows in the peak with the next
/// allocation, of which each operation does several.
pub fn live_bytes() -> usize {
    LIVE_BYTES.load(Ordering::Relaxed) + unikv::mapped_bytes()
}

fn grown(bytes: usize) {
    LIVE_BYTES.fetch_add(bytes, Ordering::Relaxed);
    PEAK_BYTES.fetch_max(live_bytes(), Ordering::Relaxed);
}

// SAFETY: all calls go to the system's allocator as they came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grown(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        grown(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, new_len: usize) -> *mut u8 {
        // As if the old and the new memory never lived together: large ones are moved by their
        // pages.
        if new_len >= layout.size() {
            grown(new_len - layout.size());
        } else {
            LIVE_BYTES.fetch_sub(layout.size() - new_len, Ordering::Relaxed);
        }
        // SAFETY: the caller's promise.
        unsafe { System.realloc(at, layout, new_len) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
