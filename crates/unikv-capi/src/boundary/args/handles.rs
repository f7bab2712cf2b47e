//! Handles as arguments and results.

use super::{Argument, InC, Return};
use crate::boundary::fault::Outcome;
use crate::boundary::handles::{self, Cell, Object, Taken};

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
