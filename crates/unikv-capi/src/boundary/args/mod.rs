//! Arguments as C passes them, each with what it is for the code inside.
//!
//! Each type here has the representation of the C type that it names, so that a function's
//! signature is written once: the macro [`capi`](super::capi) takes the arguments apart before the
//! body runs, and the header is made from the same types. None can be made but by a call from C.
//! C promises of each what the header says: that a pointer is null or valid for its length, that a
//! string ends, that nobody changes what is read. All the code behind relies on that, and it is why
//! taking an argument apart is safe here.

mod callbacks;
mod handles;
mod places;
mod text;

use super::fault::{Fault, Outcome};
pub(crate) use callbacks::{Compare, CreateFilter, Destructor, MayMatch, Name, OnDelete, OnPut};
pub(crate) use callbacks::{callbacks, or_stay};
pub(crate) use handles::{
    Alone, AloneConst, Const, Ending, EndingConst, New, NewConst, Optional, Shared, end,
};
pub(crate) use places::{Array, ArrayOut, ErrPtr, Out, Start, objects, strings, texts};
use std::ffi::{c_char, c_int, c_void};
pub(crate) use text::{Buffer, Bytes, OptionalBytes, OptionalText, Text, bytes};

/// A type with a name in C. `(*)` stands where the name of a pointer to a function goes.
pub(crate) trait InC {
    #[cfg_attr(not(test), expect(dead_code, reason = "a test writes the header"))]
    fn c() -> String;
}

/// An argument.
pub(crate) trait Argument: InC {
    /// What it is inside.
    type Inside<'a>
    where
        Self: 'a;

    fn inside(&self) -> Outcome<Self::Inside<'_>>;
}

/// An argument that is two in C, a pointer and a length.
pub(crate) trait Pair: InC {
    type Inside<'a>
    where
        Self: 'a;

    fn inside(&mut self, len: usize) -> Outcome<Self::Inside<'_>>;
}

/// What a function may return.
pub(crate) trait Return: InC {
    /// What it returns when it has failed.
    fn failed() -> Self;
}

macro_rules! plain {
    ($($type:ty: $c:literal, $failed:expr;)*) => {$(
        impl InC for $type {
            fn c() -> String {
                $c.to_owned()
            }
        }

        impl Argument for $type {
            type Inside<'a> = $type;

            fn inside(&self) -> Outcome<$type> {
                Ok(*self)
            }
        }

        impl Return for $type {
            fn failed() -> $type {
                $failed
            }
        }
    )*};
}

plain! {
    (): "void", ();
    u8: "unsigned char", 0;
    c_int: "int", 0;
    u32: "uint32_t", 0;
    u64: "uint64_t", 0;
    i64: "int64_t", 0;
    usize: "size_t", 0;
    *mut c_void: "void*", std::ptr::null_mut();
    *mut c_char: "char*", std::ptr::null_mut();
    *const c_char: "const char*", std::ptr::null();
}

#[inline]
fn check<T>(start: *const T, len: usize) -> Outcome<()> {
    if start.is_null() {
        return Err(Fault::misuse(
            "null was passed with a length",
            "pass what is meant",
        ));
    }
    if len > isize::MAX as usize / size_of::<T>().max(1) {
        return Err(Fault::misuse(
            "a length is more than memory has",
            "pass the right one",
        ));
    }
    Ok(())
}
