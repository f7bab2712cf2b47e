//! Functions that C passes.
//!
//! One may end its thread instead of returning: an interpreter does that to threads that ask for
//! its lock while the process exits. `pthread_exit` unwinds the thread's stack, and frames of Rust
//! must not be unwound by that. So the thread stays where it is, in [`Stay`], until the process is
//! gone.
//!
//! Invariant: a caller holds no lock, as it may never come back. Handles that the call had for
//! itself alone stay in use.

use std::ffi::{c_char, c_int, c_void};

/// Stops a thread that is being unwound.
struct Stay;

impl Drop for Stay {
    fn drop(&mut self) {
        loop {
            std::thread::park();
        }
    }
}

/// What a function of C returns, if it does.
#[inline]
pub(crate) fn or_stay<T>(run: impl FnOnce() -> T) -> T {
    let stay = Stay;
    let result = run();
    std::mem::forget(stay);
    result
}

/// Declares functions that C passes, with their type in C.
macro_rules! callbacks {
    ($(
        $(#[doc = $doc:literal])*
        $name:ident($($arg:ident: $type:ty),*) $(-> $returns:ty)?, $c:literal;
    )*) => {$(
        $(#[doc = $doc])*
        #[derive(Clone, Copy)]
        #[repr(transparent)]
        pub(crate) struct $name(extern "C-unwind" fn($($type),*) $(-> $returns)?);

        impl $name {
            #[inline]
            #[allow(dead_code, reason = "a filter policy is never asked")]
            #[allow(clippy::too_many_arguments, reason = "as C declares it")]
            pub(crate) fn call(self, $($arg: $type),*) $(-> $returns)? {
                $crate::boundary::args::or_stay(|| (self.0)($($arg),*))
            }
        }

        impl $crate::boundary::args::InC for Option<$name> {
            fn c() -> String {
                $c.to_owned()
            }
        }

        impl $crate::boundary::args::Argument for Option<$name> {
            type Inside<'a> = Option<$name>;

            fn inside(&self) -> $crate::boundary::fault::Outcome<Option<$name>> {
                Ok(*self)
            }
        }
    )*};
}

pub(crate) use callbacks;

callbacks! {
    /// Frees the state of a comparator or a filter policy.
    Destructor(state: *mut c_void), "void (*)(void*)";
    /// Compares two keys.
    Compare(
        state: *mut c_void, a: *const c_char, a_len: usize, b: *const c_char, b_len: usize
    ) -> c_int,
        "int (*)(void*, const char* a, size_t alen, const char* b, size_t blen)";
    /// The name of a comparator or a filter policy.
    Name(state: *mut c_void) -> *const c_char, "const char* (*)(void*)";
    /// Makes a filter of keys.
    CreateFilter(
        state: *mut c_void, keys: *const *const c_char, lens: *const usize, count: c_int,
        len: *mut usize
    ) -> *mut c_char,
        "char* (*)(void*, const char* const* key_array, const size_t* key_length_array, \
         int num_keys, size_t* filter_length)";
    /// Asks a filter.
    MayMatch(
        state: *mut c_void, key: *const c_char, key_len: usize, filter: *const c_char, len: usize
    ) -> u8,
        "unsigned char (*)(void*, const char* key, size_t length, const char* filter, \
         size_t filter_length)";
    /// Gets a put of a batch.
    OnPut(
        state: *mut c_void, key: *const c_char, key_len: usize, value: *const c_char, len: usize
    ),
        "void (*)(void*, const char* k, size_t klen, const char* v, size_t vlen)";
    /// Gets a delete of a batch.
    OnDelete(state: *mut c_void, key: *const c_char, key_len: usize),
        "void (*)(void*, const char* k, size_t klen)";
}
