//! The details of the last failed call of a thread.

use crate::boundary::args::Out;
use crate::boundary::capi;
use crate::boundary::fault::{self, Fault};
use std::ffi::{CStr, c_char, c_int};

/// A text of the last error, which stays until the thread's next failed call.
fn text(of: impl FnOnce(&Fault) -> Option<&CStr>) -> *const c_char {
    let pointer = |fault: &Fault| of(fault).map(CStr::as_ptr);
    fault::last(|fault| fault.and_then(pointer)).unwrap_or(std::ptr::null())
}

capi! { functions:
    /// The kind of the last error of this thread: `unikv_ok` if there was none. A call that
    /// succeeds leaves it as it is.
    fn unikv_last_error_kind() -> c_int {
        fault::last(|fault| fault.map_or(0, |fault| fault.kind as c_int))
    }

    /// Its message; NULL if there was none. This and the next two are the library's, and stay until
    /// the next call of this thread that fails, or `unikv_clear_last_error`.
    fn unikv_last_error_message() -> *const c_char {
        text(|fault| Some(&fault.message))
    }

    /// What remedies it, as a sentence for a person; NULL if there was none.
    fn unikv_last_error_remedy() -> *const c_char {
        text(|fault| Some(&fault.remedy))
    }

    /// The file concerned; NULL where there is none.
    fn unikv_last_error_file() -> *const c_char {
        text(|fault| fault.file.as_deref())
    }

    /// Puts the offset in the file into `*offset`; 0 where there is none.
    fn unikv_last_error_offset(offset: Out<u64>) -> u8 {
        match fault::last(|fault| fault.and_then(|fault| fault.offset)) {
            Some(at) => {
                offset.set(at)?;
                1
            }
            None => 0,
        }
    }

    /// Forgets the last error of this thread.
    fn unikv_clear_last_error() {
        fault::forget();
    }
}
