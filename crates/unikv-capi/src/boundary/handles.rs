//! Handles: what C holds of the library's objects, and how their misuse is noticed.
//!
//! A handle points to a [`Cell`], which begins with a word that says the type of what is in it and
//! whether it is there. Cells are never given back to the allocator: one that is empty waits in
//! its type's [`Pool`], and is used again for that type. So the word may be looked at whatever C
//! does with a handle that it once got: null, another type's handle, a second close, and use after
//! close are errors, the last until the cell is used again.
//!
//! Objects that only one thread may use are taken for the time of a call ([`Cell::take`]): two
//! threads at once, and a call from within a callback, are errors, too.

use super::fault::{Fault, Outcome};
use super::pool::Pool;
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};

const IN_USE: u64 = 1;
const EMPTY: u64 = 2;

/// A type of object that C holds handles of.
pub(crate) trait Object: Sized + Send + 'static {
    /// Its name in C.
    const C: &'static str;
    /// What the first word of a cell is while an object of this type is in it: odd letters, with
    /// the lowest two bits free.
    const WORD: u64;

    fn pool() -> &'static Empty<Self>;
}

/// Makes a type an [`Object`] with this name and these letters.
macro_rules! object {
    ($type:ty, $c:literal, $letters:literal) => {
        impl $crate::boundary::handles::Object for $type {
            const C: &'static str = $c;
            const WORD: u64 = u64::from_be_bytes(*$letters) & !3;

            fn pool() -> &'static $crate::boundary::handles::Empty<Self> {
                static POOL: $crate::boundary::handles::Empty<$type> =
                    $crate::boundary::handles::Empty::new();
                &POOL
            }
        }
    };
}
pub(crate) use object;

/// Where an object is.
#[repr(C)]
pub(crate) struct Cell<T> {
    word: AtomicU64,
    value: UnsafeCell<MaybeUninit<T>>,
}

/// The empty cells of a type.
pub(crate) type Empty<T> = Pool<Cell<T>>;

#[expect(unsafe_code, reason = "what is shared is guarded by the first word")]
// SAFETY: an object reaches another thread through `get` (only where it is `Sync`), or alone
// through `take` and `remove`, which the word gives to one thread at a time.
unsafe impl<T: Send> Sync for Cell<T> {}

/// Puts an object into a cell, for C.
#[expect(unsafe_code, reason = "writes into a cell that nobody else has")]
pub(crate) fn place<T: Object>(value: T) -> *mut Cell<T> {
    let cell: &'static Cell<T> = T::pool().reusable().unwrap_or_else(|| {
        Box::leak(Box::new(Cell {
            word: AtomicU64::new(T::WORD | EMPTY),
            value: UnsafeCell::new(MaybeUninit::uninit()),
        }))
    });
    // SAFETY: the cell is empty, so nobody looks at the value before the word says otherwise.
    unsafe { (*cell.value.get()).write(value) };
    cell.word.store(T::WORD, Ordering::Release);
    std::ptr::from_ref(cell).cast_mut()
}

/// The cell behind a handle, unless that cannot be one.
#[expect(unsafe_code, reason = "follows a handle that C gives")]
fn cell_of<T: Object>(handle: *const Cell<T>) -> Outcome<&'static Cell<T>> {
    if handle.is_null() || !handle.is_aligned() {
        return Err(no_handle::<T>(0));
    }
    // SAFETY: C gives handles that this library has given it, of any type and perhaps closed ones;
    // all cells begin with the same word and stay for ever. More than the word is not looked at
    // before that has been compared.
    Ok(unsafe { &*handle })
}

/// What is wrong with a handle whose first word is this.
#[cold]
fn no_handle<T: Object>(word: u64) -> Fault {
    let name = T::C;
    let (what, remedy) = match word ^ T::WORD {
        IN_USE => (
            format!("the {name} is used by another call"),
            "use it from one thread at a time, and not from a callback that it calls",
        ),
        EMPTY => (
            format!("the {name} has been closed or destroyed"),
            "do not use it after that",
        ),
        _ => (
            format!("null, or no {name}, was passed"),
            "pass one that is open",
        ),
    };
    Fault::misuse(&what, remedy)
}

/// The object of a handle, which others may use at the same time.
#[expect(unsafe_code, reason = "lends what is in a cell")]
pub(crate) fn get<'a, T: Object + Sync>(handle: *const Cell<T>) -> Outcome<&'a T> {
    let cell = cell_of(handle)?;
    let word = cell.word.load(Ordering::Acquire);
    if word != T::WORD {
        return Err(no_handle::<T>(word));
    }
    // SAFETY: the word says that the object is there. C promises that it is not closed or changed
    // while another call uses it (the header says which objects that concerns).
    Ok(unsafe { (*cell.value.get()).assume_init_ref() })
}

/// The object of a handle, for this call alone.
pub(crate) fn take<T: Object>(handle: *const Cell<T>) -> Outcome<Taken<T>> {
    let cell = cell_of(handle)?;
    let (free, taken) = (T::WORD, T::WORD | IN_USE);
    let exchange = cell
        .word
        .compare_exchange(free, taken, Ordering::Acquire, Ordering::Relaxed);
    match exchange {
        Ok(_) => Ok(Taken(cell)),
        Err(word) => Err(no_handle::<T>(word)),
    }
}

/// Takes the object out of its cell: the handle is no more.
#[expect(unsafe_code, reason = "moves an object out of its cell")]
pub(crate) fn remove<T: Object>(handle: *const Cell<T>) -> Outcome<T> {
    let taken = take(handle)?;
    let cell = taken.0;
    // The cell stays taken until it is empty.
    std::mem::forget(taken);
    // SAFETY: this thread alone has the object, and nobody looks at it once the cell is empty.
    let value = unsafe { (*cell.value.get()).assume_init_read() };
    cell.word.store(T::WORD | EMPTY, Ordering::Release);
    T::pool().add(cell);
    Ok(value)
}

/// An object that is this call's alone.
pub(crate) struct Taken<T: Object>(&'static Cell<T>);

#[expect(unsafe_code, reason = "lends what is in a cell")]
impl<T: Object> Deref for Taken<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the word says that the object is there and that it is this call's.
        unsafe { (*self.0.value.get()).assume_init_ref() }
    }
}

#[expect(unsafe_code, reason = "lends what is in a cell")]
impl<T: Object> DerefMut for Taken<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as for `deref`; no other reference to it is there.
        unsafe { (*self.0.value.get()).assume_init_mut() }
    }
}

impl<T: Object> Drop for Taken<T> {
    fn drop(&mut self) {
        self.0.word.store(T::WORD, Ordering::Release);
    }
}
