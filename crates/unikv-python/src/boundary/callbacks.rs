//! Calls that run code of Python: functions, iterators, classes and attributes of the program.
//!
//! While the process exits, the interpreter ends each daemon thread that asks for its lock. Up to
//! Python 3.13 it does so by `pthread_exit`, which unwinds the thread's stack; later by a call that
//! never returns. Frames of Rust above must not be unwound by that, which would abort the process.
//! So the thread stays where it is, in [`Stay`], until the process is gone. What PyO3 does where it
//! takes the lock itself is the same.
//!
//! Invariant: a caller holds no lock of the engine or of this package, as it may never come back.

#![allow(
    unsafe_code,
    reason = "PyO3 has no calls from which a thread may be unwound"
)]

use crate::boundary::errors::Fault;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use std::mem;

/// Functions of the interpreter from which a thread may be unwound, declared as that.
///
/// PyO3 declares them as functions that never unwind. In a unit with both declarations the compiler
/// goes by the first it meets, and drops [`Stay`] as code that never runs. So they are called
/// through pointers that it must read.
mod interpreter {
    use pyo3::ffi::PyObject;

    type Object = *mut PyObject;
    type Call1 = unsafe extern "C-unwind" fn(Object) -> Object;
    type Call2 = unsafe extern "C-unwind" fn(Object, Object) -> Object;
    type Call3 = unsafe extern "C-unwind" fn(Object, Object, Object) -> Object;

    #[allow(
        clashing_extern_declarations,
        reason = "PyO3 declares them as functions that never unwind"
    )]
    mod declared {
        use super::Object;

        unsafe extern "C-unwind" {
            pub(super) fn PyObject_Call(callable: Object, args: Object, keywords: Object)
            -> Object;
            pub(super) fn PyObject_GetAttr(object: Object, name: Object) -> Object;
            pub(super) fn PyImport_Import(name: Object) -> Object;
            pub(super) fn PyObject_GetIter(object: Object) -> Object;
            pub(super) fn PyIter_Next(iterator: Object) -> Object;
        }
    }

    pub(super) static CALL: Call3 = declared::PyObject_Call;
    pub(super) static GET_ATTRIBUTE: Call2 = declared::PyObject_GetAttr;
    pub(super) static IMPORT: Call1 = declared::PyImport_Import;
    pub(super) static ITERATE: Call1 = declared::PyObject_GetIter;
    pub(super) static NEXT: Call1 = declared::PyIter_Next;

    /// One of these functions. The compiler does not know which.
    #[inline]
    pub(super) fn read<F: Copy>(function: &'static F) -> F {
        // SAFETY: a reference is valid and aligned, and a static of a `Copy` type may be copied.
        unsafe { std::ptr::read_volatile(function) }
    }
}

/// Stops a thread that is being unwound.
struct Stay;

impl Drop for Stay {
    fn drop(&mut self) {
        loop {
            std::thread::park();
        }
    }
}

/// What `run` returns, which is a function of the interpreter and nothing that panics.
#[inline]
fn or_stay<T>(run: impl FnOnce() -> T) -> T {
    let stay = Stay;
    let result = run();
    mem::forget(stay);
    result
}

/// The object that `run` returns, or the exception that it raises.
///
/// # Safety
/// `run` returns a new reference, or null with an exception set.
#[inline]
unsafe fn made(
    py: Python<'_>,
    run: impl FnOnce() -> *mut pyo3::ffi::PyObject,
) -> PyResult<Bound<'_, PyAny>> {
    // SAFETY: the caller says so.
    unsafe { Bound::from_owned_ptr_or_err(py, or_stay(run)) }
}

/// Calls `callable`.
pub(crate) fn call<'py>(
    callable: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    keywords: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let keywords = keywords.map_or(std::ptr::null_mut(), Bound::as_ptr);
    let (of, args) = (callable.as_ptr(), args.as_ptr());
    let run = interpreter::read(&interpreter::CALL);
    // SAFETY: the objects live, and the interpreter is attached.
    unsafe { made(callable.py(), || run(of, args, keywords)) }
}

/// Calls `callable` with arguments alone.
pub(crate) fn call_with<'py, A>(
    callable: &Bound<'py, PyAny>,
    args: A,
) -> PyResult<Bound<'py, PyAny>>
where
    A: IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>>,
    PyErr: From<A::Error>,
{
    call(callable, &args.into_pyobject(callable.py())?, None)
}

/// A module, which the first call runs.
pub(crate) fn module<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let name = PyString::new(py, name);
    let run = interpreter::read(&interpreter::IMPORT);
    // SAFETY: as in `call`.
    unsafe { made(py, || run(name.as_ptr())) }
}

/// An attribute, if the object has it.
pub(crate) fn attribute<'py>(
    object: &Bound<'py, PyAny>,
    name: &str,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = object.py();
    let name = PyString::new(py, name);
    let (of, named) = (object.as_ptr(), name.as_ptr());
    let run = interpreter::read(&interpreter::GET_ATTRIBUTE);
    // SAFETY: as in `call`.
    match unsafe { made(py, || run(of, named)) } {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is_instance_of::<pyo3::exceptions::PyAttributeError>(py) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The items of something that can be iterated over.
pub(crate) struct Items<'py>(Bound<'py, PyAny>);

impl<'py> Items<'py> {
    pub(crate) fn of(object: &Bound<'py, PyAny>) -> PyResult<Items<'py>> {
        let of = object.as_ptr();
        let run = interpreter::read(&interpreter::ITERATE);
        // SAFETY: as in `call`.
        let iterator = unsafe { made(object.py(), || run(of)) };
        iterator.map(Items)
    }
}

impl<'py> Iterator for Items<'py> {
    type Item = PyResult<Bound<'py, PyAny>>;

    fn next(&mut self) -> Option<PyResult<Bound<'py, PyAny>>> {
        let py = self.0.py();
        let run = interpreter::read(&interpreter::NEXT);
        // SAFETY: as in `call`; null without an exception is the end.
        let item = unsafe {
            let item = or_stay(|| run(self.0.as_ptr()));
            Bound::from_owned_ptr_or_opt(py, item)
        };
        match item {
            Some(item) => Some(Ok(item)),
            None => PyErr::take(py).map(Err),
        }
    }
}

/// Refuses what an async function returns: it has run nothing yet.
pub(crate) fn refuse_async(result: &Bound<'_, PyAny>) -> Result<(), Fault> {
    let is_coroutine =
        attribute(result, "send")?.is_some() && attribute(result, "__await__")?.is_some();
    if !is_coroutine && attribute(result, "asend")?.is_none() {
        return Ok(());
    }
    if let Some(close) = attribute(result, "close")? {
        call_with(&close, ())?;
    }
    let what = "the function is async, so it has not run";
    let remedy = "use one that is not async, and await outside of the transaction";
    Err(Fault::invalid(what, remedy))
}
