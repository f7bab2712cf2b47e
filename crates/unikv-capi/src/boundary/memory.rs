//! Memory that C frees: everything that is handed out comes from `malloc`.

use super::fault::{Fault, Kind, Outcome};
use std::ffi::{c_char, c_void};

/// A copy of `bytes` with a NUL after them, to be freed by the caller with `free`.
#[expect(unsafe_code, reason = "C gets memory that it can free")]
pub(crate) fn malloc_copy(bytes: &[u8]) -> Outcome<*mut c_char> {
    let len = bytes.len();
    // SAFETY: `malloc` may be called with any size.
    let copy = unsafe { libc::malloc(len.saturating_add(1)) }.cast::<u8>();
    if copy.is_null() {
        let what = format!("malloc of {len} bytes failed");
        return Err(Fault::new(Kind::OutOfMemory, &what, "free memory"));
    }
    // SAFETY: `copy` is a new block of `len + 1` bytes, which overlaps nothing.
    unsafe {
        copy.copy_from_nonoverlapping(bytes.as_ptr(), len);
        copy.add(len).write(0);
    }
    Ok(copy.cast())
}

/// Frees what came from `malloc`; null is nothing.
#[expect(unsafe_code, reason = "the memory is C's")]
pub(crate) fn free(block: *mut c_void) {
    // SAFETY: the caller promises that it came from `malloc` and has not been freed; the header
    // says so of everything that reaches this.
    unsafe { libc::free(block) }
}
