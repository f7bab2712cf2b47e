//! Waiting without the lock of the interpreter.

use crate::boundary::errors::Fault;
use crate::boundary::guard::Guard;
use crate::boundary::locks::{Mutex, MutexGuard};
use pyo3::prelude::*;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

/// How long a call waits before it looks whether the user has pressed Ctrl-C.
const PATIENCE: Duration = Duration::from_millis(50);

/// Calls the engine while other threads of Python run.
#[inline]
pub(crate) fn detached<T: Send, E: Send + Into<Fault>>(
    py: Python<'_>,
    call: impl FnOnce() -> Result<T, E> + Send,
) -> PyResult<T> {
    py.detach(call).map_err(|error| error.into().into())
}

/// Calls the engine in a thread of its own, and waits for it: until a signal handler of Python
/// raises something, as that of Ctrl-C does. Then the call goes on, and nobody hears of its result.
pub(crate) fn interruptible<T: Send + 'static, E: Send + Into<Fault> + 'static>(
    py: Python<'_>,
    call: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> PyResult<T> {
    let (done, mut waiting) = sync_channel(1);
    std::thread::Builder::new()
        .name("unikv-python".to_owned())
        .spawn(move || done.send(call()))?;
    loop {
        let received;
        (waiting, received) = py.detach(move || {
            let received = waiting.recv_timeout(PATIENCE);
            (waiting, received)
        });
        match received {
            Ok(result) => return result.map_err(|error| error.into().into()),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => {
                let what = "the call has panicked".to_owned();
                let remedy = "this is a bug of UniKV: report it, then reopen the database";
                return Err(Fault::Ended("Internal", what, remedy).into());
            }
        }
    }
}

/// Takes a lock that another thread may hold while it waits for the interpreter.
#[inline]
pub(crate) fn lock<'a, T: Send>(py: Python<'_>, mutex: &'a Mutex<T>) -> MutexGuard<'a, T> {
    loop {
        if let Some(guard) = mutex.try_lock() {
            return guard;
        }
        py.detach(|| drop(mutex.lock()));
    }
}

/// Empties what an object of Python holds, and drops it. In the child of a fork nothing is done: a
/// thread of the parent may have had the lock.
pub(crate) fn release<T: Send>(py: Python<'_>, guard: &Guard, held: &Mutex<Option<T>>) {
    if guard.is_forked() {
        return;
    }
    let taken = lock(py, held).take();
    py.detach(|| drop(taken));
}
