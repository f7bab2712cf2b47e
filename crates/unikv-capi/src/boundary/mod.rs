//! The boundary to C: what crosses it, and how nothing else does.
//!
//! [`capi`] defines exported functions. Each takes its arguments apart ([`args`]), runs its body
//! where a panic is caught, and turns an error into `errptr` and the thread's last error
//! ([`fault`]). The same definition gives the [`Function`] from which the header is written.

pub(crate) mod args;
pub(crate) mod fault;
pub(crate) mod handles;
pub(crate) mod memory;
pub(crate) mod pool;

use args::{ErrPtr, Return};
use fault::{Fault, Outcome};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What the header says of an exported function.
#[cfg(test)]
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) docs: &'static [&'static str],
    /// Types and names.
    pub(crate) arguments: Vec<(String, &'static str)>,
    pub(crate) returns: String,
}

/// Defines exported functions, and `$table`, which returns what the header says of them.
///
/// `key[keylen]: Bytes` is a pointer and a length. What stands after `;` is the `errptr`. The body
/// is run with the arguments as what they are inside, and may use `?`.
macro_rules! capi {
    ($table:ident: $(
        $(#[doc = $doc:literal])*
        fn $name:ident(
            $($arg:ident $([$len:ident])?: $type:ty),* $(,)? $(; $errptr:ident)?
        ) $(-> $returns:ty)? $body:block
    )*) => {
        $(
            $(#[doc = $doc])*
            #[expect(unsafe_code, reason = "the name by which C finds it")]
            #[unsafe(no_mangle)]
            pub extern "C" fn $name(
                $($arg: $type, $($len: usize,)?)*
                $($errptr: $crate::boundary::args::ErrPtr,)?
            ) $(-> $returns)? {
                #[allow(unused_mut, reason = "not every body changes what it gets")]
                $crate::boundary::enter(capi!(@errptr $($errptr)?), move || {
                    $(capi!(@inside $arg $($len)?);)*
                    Ok($body)
                })
            }
        )*

        /// What the header says of these functions.
        #[cfg(test)]
        pub(crate) fn $table() -> Vec<$crate::boundary::Function> {
            use $crate::boundary::args::InC;
            vec![$($crate::boundary::Function {
                name: stringify!($name),
                docs: &[$($doc),*],
                arguments: vec![
                    $((<$type>::c(), stringify!($arg)),
                      $((usize::c(), stringify!($len)),)?)*
                    $(($crate::boundary::args::ErrPtr::c(), stringify!($errptr)),)?
                ],
                returns: capi!(@returns $($returns)?),
            },)*]
        }
    };
    (@errptr) => { $crate::boundary::args::ErrPtr::NONE };
    (@errptr $errptr:ident) => { $errptr };
    (@inside $arg:ident) => {
        let mut $arg = $crate::boundary::args::Argument::inside(&$arg)?;
    };
    (@inside $arg:ident $len:ident) => {
        let mut $arg = $arg;
        let mut $arg = $crate::boundary::args::Pair::inside(&mut $arg, $len)?;
    };
    (@returns) => { <()>::c() };
    (@returns $returns:ty) => { <$returns>::c() };
}
pub(crate) use capi;

/// Runs the body of an exported function: no panic and no error leaves it but as C knows them.
#[inline]
pub(crate) fn enter<T: Return>(errptr: ErrPtr, body: impl FnOnce() -> Outcome<T>) -> T {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(done)) => done,
        Ok(Err(fault)) => fail(errptr, fault),
        Err(payload) => {
            let fault = Fault::panicked(&*payload);
            // What was thrown may panic again when it is dropped.
            drop(catch_unwind(AssertUnwindSafe(|| drop(payload))));
            fail(errptr, fault)
        }
    }
}

#[cold]
fn fail<T: Return>(errptr: ErrPtr, fault: Fault) -> T {
    errptr.set(&fault);
    fault::remember(fault);
    T::failed()
}

#[cfg(test)]
mod tests;
