//! Functions that C passes.

use super::{Argument, InC};
use crate::boundary::fault::Outcome;
use std::ffi::{c_char, c_int, c_void};

macro_rules! callbacks {
    ($($(#[doc = $doc:literal])* $name:ident: $type:ty, $c:literal;)*) => {$(
        $(#[doc = $doc])*
        pub(crate) type $name = $type;

        impl InC for Option<$name> {
            fn c() -> String {
                $c.to_owned()
            }
        }

        impl Argument for Option<$name> {
            type Inside<'a> = Option<$name>;

            fn inside(&self) -> Outcome<Option<$name>> {
                Ok(*self)
            }
        }
    )*};
}

callbacks! {
    /// Frees the state of a comparator or a filter policy.
    Destructor: extern "C" fn(*mut c_void), "void (*)(void*)";
    /// Compares two keys.
    Compare: extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize) -> c_int,
        "int (*)(void*, const char* a, size_t alen, const char* b, size_t blen)";
    /// The name of a comparator or a filter policy.
    Name: extern "C" fn(*mut c_void) -> *const c_char, "const char* (*)(void*)";
    /// Makes a filter of keys.
    CreateFilter: extern "C" fn(
        *mut c_void, *const *const c_char, *const usize, c_int, *mut usize,
    ) -> *mut c_char,
        "char* (*)(void*, const char* const* key_array, const size_t* key_length_array, \
         int num_keys, size_t* filter_length)";
    /// Asks a filter.
    MayMatch: extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize) -> u8,
        "unsigned char (*)(void*, const char* key, size_t length, const char* filter, \
         size_t filter_length)";
    /// Gets a put of a batch.
    OnPut: extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize),
        "void (*)(void*, const char* k, size_t klen, const char* v, size_t vlen)";
    /// Gets a delete of a batch.
    OnDelete: extern "C" fn(*mut c_void, *const c_char, usize),
        "void (*)(void*, const char* k, size_t klen)";
}
