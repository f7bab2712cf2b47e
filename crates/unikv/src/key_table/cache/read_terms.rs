//! What a caller asks of its own reads: that the cache keeps nothing of what they read, and when
//! they give up. The thread knows it while the call lasts, and only what is not in memory asks for
//! it. As a parameter it would go through every layer between the handle and the file, for what few
//! reads want. No locks.

use crate::error::{Error, Result};
use crate::vfs::Runtime;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

/// What the caller of a read asks of it.
#[derive(Clone)]
pub(crate) struct ReadTerms {
    fills_cache: bool,
    until: Option<Deadline>,
}

#[derive(Clone)]
struct Deadline {
    /// On the clock of the runtime.
    at: Duration,
    timeout: Duration,
    runtime: Arc<dyn Runtime>,
}

thread_local! {
    /// Whether there are terms: as this has no end of its own, to look at it is one load.
    static HAS_TERMS: Cell<bool> = const { Cell::new(false) };
    static TERMS: RefCell<Option<ReadTerms>> = const { RefCell::new(None) };
}

/// Puts back what held before a call, also when that panics.
struct Before(Option<ReadTerms>);

impl Drop for Before {
    fn drop(&mut self) {
        replace(self.0.take());
    }
}

impl ReadTerms {
    /// Terms that hold from now on; `None` where nothing is asked.
    pub(crate) fn new(
        fills_cache: bool,
        timeout: Option<Duration>,
        runtime: &Arc<dyn Runtime>,
    ) -> Option<ReadTerms> {
        let until = timeout.map(|timeout| Deadline {
            at: runtime.now().saturating_add(timeout),
            timeout,
            runtime: Arc::clone(runtime),
        });
        (!fills_cache || until.is_some()).then_some(ReadTerms { fills_cache, until })
    }

    /// Reads as these terms say, if there are any.
    pub(crate) fn within<T>(terms: Option<&ReadTerms>, read: impl FnOnce() -> T) -> T {
        let Some(terms) = terms else {
            return read();
        };
        let _before = Before(replace(Some(terms.clone())));
        read()
    }
}

impl fmt::Debug for ReadTerms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadTerms")
            .field("fills_cache", &self.fills_cache)
            .field("timeout", &self.until.as_ref().map(|until| until.timeout))
            .finish()
    }
}

/// A thread that ends has none any more.
fn replace(terms: Option<ReadTerms>) -> Option<ReadTerms> {
    HAS_TERMS.set(terms.is_some());
    let replaced = TERMS.try_with(|of_thread| mem::replace(&mut *of_thread.borrow_mut(), terms));
    replaced.ok().flatten()
}

/// Whether the cache keeps what this thread reads now.
#[inline]
pub(crate) fn fill_cache() -> bool {
    !HAS_TERMS.get() || of_thread(|terms| terms.fills_cache).unwrap_or(true)
}

/// Fails if the caller of this thread's read has given up.
///
/// # Errors
/// `TimedOut`.
#[inline]
pub(crate) fn check_time() -> Result<()> {
    if HAS_TERMS.get() {
        check_deadline()
    } else {
        Ok(())
    }
}

#[cold]
fn check_deadline() -> Result<()> {
    let until = of_thread(|terms| terms.until.clone()).flatten();
    match until.filter(|until| until.runtime.now() >= until.at) {
        None => Ok(()),
        Some(until) => Err(Error::timed_out(until.timeout)),
    }
}

/// What `say` says of this thread's terms, if there are any.
#[cold]
fn of_thread<T>(say: impl FnOnce(&ReadTerms) -> T) -> Option<T> {
    let asked = TERMS.try_with(|terms| terms.borrow().as_ref().map(say));
    asked.ok().flatten()
}
