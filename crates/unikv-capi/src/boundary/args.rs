//! Arguments as C passes them, each with what it is for the code inside.
//!
//! Each type here has the representation of the C type that it names, so that a function's
//! signature is written once: the macro [`capi`](super::capi) takes the arguments apart before the
//! body runs, and the header is made from the same types. None can be made but by a call from C.
//! C promises of each what the header says: that a pointer is null or valid for its length, that a
//! string ends, that nobody changes what is read. All the code behind relies on that, and it is why
//! taking an argument apart is safe here.

use super::fault::{Fault, Outcome};
use super::handles::{self, Cell, Object, Taken};
use super::memory;
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

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

macro_rules! handles {
    ($($(#[doc = $doc:literal])* $name:ident $pointer:literal;)*) => {$(
        $(#[doc = $doc])*
        #[repr(transparent)]
        pub struct $name<T: 'static>(*const Cell<T>);

        impl<T: Object> InC for $name<T> {
            fn c() -> String {
                format!($pointer, T::C)
            }
        }
    )*};
}

handles! {
    /// A handle whose object others may use, too.
    Shared "{}*";
    /// The same, which C sees as constant.
    Const "const {}*";
    /// The same, or null.
    Optional "const {}*";
    /// A handle that is this call's alone.
    Alone "{}*";
    /// The same, which C sees as constant.
    AloneConst "const {}*";
    /// A handle that ends with this call; null is nothing.
    Ending "{}*";
    /// The same, which C sees as constant.
    EndingConst "const {}*";
}

macro_rules! inside {
    ($life:lifetime: $($name:ident $(+ $bound:ident)?: $inside:ty, $how:expr;)*) => {$(
        impl<T: Object $(+ $bound)?> Argument for $name<T> {
            type Inside<$life> = $inside;

            fn inside<$life>(&$life self) -> Outcome<$inside> {
                $how(self.0)
            }
        }
    )*};
}

inside! { 'a:
    Shared + Sync: &'a T, handles::get;
    Const + Sync: &'a T, handles::get;
    Optional + Sync: Option<&'a T>, |handle: *const Cell<T>| {
        if handle.is_null() { Ok(None) } else { handles::get(handle).map(Some) }
    };
    Alone: Taken<T>, handles::take;
    AloneConst: Taken<T>, handles::take;
    Ending: Option<T>, ending;
    EndingConst: Option<T>, ending;
}

fn ending<T: Object>(handle: *const Cell<T>) -> Outcome<Option<T>> {
    if handle.is_null() {
        return Ok(None);
    }
    handles::remove(handle).map(Some)
}

/// Ends what a handle was of.
pub(crate) fn end<T>(ending: Option<T>) {
    drop(ending);
}

/// A new object, or null.
#[repr(transparent)]
pub struct New<T: 'static>(*mut Cell<T>);

impl<T: Object> New<T> {
    pub(crate) fn of(value: T) -> New<T> {
        New(handles::place(value))
    }

    pub(crate) fn null() -> New<T> {
        New(std::ptr::null_mut())
    }
}

impl<T: Object> InC for New<T> {
    fn c() -> String {
        format!("{}*", T::C)
    }
}

impl<T: Object> Return for New<T> {
    fn failed() -> New<T> {
        New::null()
    }
}

/// The same, which C sees as constant.
#[repr(transparent)]
pub struct NewConst<T: 'static>(New<T>);

impl<T: Object> NewConst<T> {
    pub(crate) fn of(value: T) -> NewConst<T> {
        NewConst(New::of(value))
    }
}

impl<T: Object> InC for NewConst<T> {
    fn c() -> String {
        format!("const {}*", T::C)
    }
}

impl<T: Object> Return for NewConst<T> {
    fn failed() -> NewConst<T> {
        NewConst(New::null())
    }
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

    #[expect(unsafe_code, reason = "reads a string of C's")]
    fn inside(&self) -> Outcome<Chars<'_>> {
        if self.0.is_null() {
            return Err(Fault::misuse("null was passed for a string", "pass one"));
        }
        // SAFETY: it is not null, and C promises that it ends and stays during the call.
        Ok(Chars(unsafe { CStr::from_ptr(self.0) }))
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
