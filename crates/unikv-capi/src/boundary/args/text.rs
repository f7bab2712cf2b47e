//! Strings and bytes that C passes, and buffers of its own.

use super::{Argument, InC, Pair, check};
use crate::boundary::fault::{Fault, Outcome};
use std::ffi::{CStr, OsStr, c_char};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A string that ends with a NUL.
#[repr(transparent)]
pub struct Text(*const c_char);

impl InC for Text {
    fn c() -> String {
        "const char*".to_owned()
    }
}

/// What a string is inside.
#[derive(Clone, Copy)]
pub(crate) struct Chars<'a>(&'a CStr);

impl<'a> Chars<'a> {
    pub(crate) fn path(self) -> &'a Path {
        Path::new(OsStr::from_bytes(self.0.to_bytes()))
    }

    pub(crate) fn str(self) -> Outcome<&'a str> {
        let is_other = |_| Fault::misuse("a string is not UTF-8", "pass UTF-8");
        self.0.to_str().map_err(is_other)
    }
}

impl Argument for Text {
    type Inside<'a> = Chars<'a>;

    fn inside(&self) -> Outcome<Chars<'_>> {
        chars(self.0)
    }
}

/// A string that C has passed.
#[expect(unsafe_code, reason = "reads a string of C's")]
pub(super) fn chars<'a>(start: *const c_char) -> Outcome<Chars<'a>> {
    if start.is_null() {
        return Err(Fault::misuse("null was passed for a string", "pass one"));
    }
    // SAFETY: it is not null, and C promises that it ends and stays during the call.
    Ok(Chars(unsafe { CStr::from_ptr(start) }))
}

/// A string, or null.
#[repr(transparent)]
pub struct OptionalText(Text);

impl InC for OptionalText {
    fn c() -> String {
        "const char*".to_owned()
    }
}

impl Argument for OptionalText {
    type Inside<'a> = Option<Chars<'a>>;

    fn inside(&self) -> Outcome<Option<Chars<'_>>> {
        let is_there = !self.0.0.is_null();
        is_there.then(|| self.0.inside()).transpose()
    }
}

/// Bytes with their length; null with no length is none.
#[repr(transparent)]
pub struct Bytes(*const c_char);

/// The same, where null stands for something else than no bytes.
#[repr(transparent)]
pub struct OptionalBytes(*const c_char);

/// Where the call may write, with its length.
#[repr(transparent)]
pub struct Buffer(*mut c_char);

impl InC for Bytes {
    fn c() -> String {
        "const char*".to_owned()
    }
}

impl InC for OptionalBytes {
    fn c() -> String {
        "const char*".to_owned()
    }
}

impl InC for Buffer {
    fn c() -> String {
        "char*".to_owned()
    }
}

impl Pair for Bytes {
    type Inside<'a> = &'a [u8];

    #[inline]
    fn inside(&mut self, len: usize) -> Outcome<&[u8]> {
        bytes(self.0, len)
    }
}

impl Pair for OptionalBytes {
    type Inside<'a> = Option<&'a [u8]>;

    fn inside(&mut self, len: usize) -> Outcome<Option<&[u8]>> {
        if self.0.is_null() {
            return Ok(None);
        }
        bytes(self.0, len).map(Some)
    }
}

impl Pair for Buffer {
    type Inside<'a> = &'a mut [MaybeUninit<u8>];

    #[expect(unsafe_code, reason = "C's buffer is written to")]
    fn inside(&mut self, len: usize) -> Outcome<&mut [MaybeUninit<u8>]> {
        if len == 0 {
            return Ok(&mut []);
        }
        check(self.0, len)?;
        // SAFETY: it is not null and no longer than memory can be; C promises that these bytes are
        // the call's to write to.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.0.cast(), len) })
    }
}

/// Bytes that C has passed.
#[expect(unsafe_code, reason = "C's bytes are read")]
#[inline]
pub(crate) fn bytes<'a>(start: *const c_char, len: usize) -> Outcome<&'a [u8]> {
    if len == 0 {
        return Ok(&[]);
    }
    check(start, len)?;
    // SAFETY: it is not null and no longer than memory can be; C promises that this many bytes are
    // there and stay as they are during the call.
    Ok(unsafe { std::slice::from_raw_parts(start.cast(), len) })
}
