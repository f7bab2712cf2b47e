//! Arrays, and places that the call writes to.

use super::text::chars;
use super::{Argument, InC, bytes, check};
use crate::boundary::fault::{Fault, Outcome};
use crate::boundary::handles::{self, Cell, Object};
use crate::boundary::memory;
use std::ffi::c_char;

/// An array of as many as another argument says.
#[repr(transparent)]
pub struct Array<T: 'static>(*const T);

/// An array to be filled, of as many as another argument says.
#[repr(transparent)]
pub struct ArrayOut<T: 'static>(*mut T);

/// Where the call writes something; null is refused.
#[repr(transparent)]
pub struct Out<T: 'static>(*mut T);

/// What an array or a place to write to is inside.
pub(crate) struct Start<T>(*mut T);

macro_rules! pointers {
    ($($name:ident<$t:ty>: $c:literal;)*) => {$(
        impl InC for $name<$t> {
            fn c() -> String {
                $c.to_owned()
            }
        }
    )*};
}

pointers! {
    Array<*const c_char>: "const char* const*";
    Array<usize>: "const size_t*";
    ArrayOut<u64>: "uint64_t*";
    ArrayOut<usize>: "size_t*";
    Out<usize>: "size_t*";
    Out<u64>: "uint64_t*";
    Out<i64>: "int64_t*";
    Out<*mut c_char>: "char**";
}

impl<T: Object> InC for Array<*const Cell<T>> {
    fn c() -> String {
        format!("{}* const*", T::C)
    }
}

impl<T: Object> InC for ArrayOut<*mut Cell<T>> {
    fn c() -> String {
        format!("{}**", T::C)
    }
}

impl<T: 'static> Argument for Array<T>
where
    Array<T>: InC,
{
    type Inside<'a> = Start<T>;

    fn inside(&self) -> Outcome<Start<T>> {
        Ok(Start(self.0.cast_mut()))
    }
}

impl<T: 'static> Argument for ArrayOut<T>
where
    ArrayOut<T>: InC,
{
    type Inside<'a> = Start<T>;

    fn inside(&self) -> Outcome<Start<T>> {
        Ok(Start(self.0))
    }
}

impl<T: 'static> Argument for Out<T>
where
    Out<T>: InC,
{
    type Inside<'a> = Start<T>;

    fn inside(&self) -> Outcome<Start<T>> {
        check(self.0, 1)?;
        Ok(Start(self.0))
    }
}

impl<T: Copy> Start<T> {
    /// The first `count` of an array.
    #[expect(unsafe_code, reason = "C's array is read")]
    pub(crate) fn read(&self, count: usize) -> Outcome<&[T]> {
        if count == 0 {
            return Ok(&[]);
        }
        check(self.0, count)?;
        // SAFETY: as for `bytes`.
        Ok(unsafe { std::slice::from_raw_parts(self.0, count) })
    }

    /// Writes one after the other.
    #[expect(unsafe_code, reason = "C's array is written to")]
    pub(crate) fn write(&self, all: impl ExactSizeIterator<Item = T>) -> Outcome<()> {
        if all.len() == 0 {
            return Ok(());
        }
        check(self.0, all.len())?;
        for (at, one) in all.enumerate() {
            // SAFETY: it is not null, and C promises that as many places are there.
            unsafe { self.0.add(at).write(one) };
        }
        Ok(())
    }

    /// Writes the only one there is a place for. It was checked that it is not null.
    pub(crate) fn set(&self, one: T) -> Outcome<()> {
        self.write(std::iter::once(one))
    }
}

/// The strings of two arrays, of pointers and of lengths.
pub(crate) fn strings<'a>(
    count: usize,
    starts: &Start<*const c_char>,
    lens: &Start<usize>,
) -> Outcome<Vec<&'a [u8]>> {
    let (starts, lens) = (starts.read(count)?, lens.read(count)?);
    let pairs = starts.iter().zip(lens);
    pairs.map(|(start, len)| bytes(*start, *len)).collect()
}

/// The strings of an array that end with a NUL.
pub(crate) fn texts<'a>(count: usize, starts: &Start<*const c_char>) -> Outcome<Vec<&'a str>> {
    let starts = starts.read(count)?.iter();
    starts.map(|start| chars(*start)?.str()).collect()
}

/// The objects of an array of handles, which others may use, too.
pub(crate) fn objects<'a, T: Object + Sync>(
    count: usize,
    handles: &Start<*const Cell<T>>,
) -> Outcome<Vec<&'a T>> {
    let handles = handles.read(count)?.iter();
    handles.map(|handle| handles::get(*handle)).collect()
}

/// Where a message goes: LevelDB's `errptr`.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct ErrPtr(*mut *mut c_char);

impl InC for ErrPtr {
    fn c() -> String {
        "char**".to_owned()
    }
}

impl Argument for ErrPtr {
    type Inside<'a> = ErrPtr;

    fn inside(&self) -> Outcome<ErrPtr> {
        Ok(*self)
    }
}

impl ErrPtr {
    /// For a function that has none.
    pub(crate) const NONE: ErrPtr = ErrPtr(std::ptr::null_mut());

    /// Puts the message in the place of the one that is there, which is freed.
    #[cold]
    #[expect(unsafe_code, reason = "C's pointer is read and written")]
    pub(crate) fn set(self, fault: &Fault) {
        if self.0.is_null() {
            return;
        }
        let Ok(message) = memory::malloc_copy(fault.message.to_bytes()) else {
            return;
        };
        // SAFETY: it is not null, and C promises that it points to a pointer that is null or came
        // from `malloc`.
        let before = unsafe { self.0.replace(message) };
        memory::free(before.cast());
    }
}
