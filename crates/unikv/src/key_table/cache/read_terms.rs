//! What a caller asks of its own reads: that the cache keeps nothing of what they read, and when
//! they give up. The thread knows it while the call lasts, and only what is not in memory asks for
//! it. As a parameter it would go through every layer between the handle and the file, for what few
//! reads want. No locks.

use crate::error::{Error, Result};
use crate::vfs::Runtime;
use std::cell::RefCell;
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
    let replaced = TERMS.try_with(|of_thread| mem::replace(&mut *of_thread.borrow_mut(), terms));
    replaced.ok().flatten()
}

/// Whether the cache keeps what this thread reads now.
pub(crate) fn fill_cache() -> bool {
    let fills = |terms: &RefCell<Option<ReadTerms>>| {
        let terms = terms.borrow();
        terms.as_ref().is_none_or(|terms| terms.fills_cache)
    };
    TERMS.try_with(fills).unwrap_or(true)
}

/// Fails if the caller of this thread's read has given up.
///
/// # Errors
/// `TimedOut`.
pub(crate) fn check_time() -> Result<()> {
    let timeout = |terms: &RefCell<Option<ReadTerms>>| {
        let terms = terms.borrow();
        let until = terms.as_ref()?.until.as_ref()?;
        (until.runtime.now() >= until.at).then_some(until.timeout)
    };
    match TERMS.try_with(timeout).ok().flatten() {
        None => Ok(()),
        Some(timeout) => Err(Error::timed_out(timeout)),
    }
}
