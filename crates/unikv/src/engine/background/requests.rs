//! Callers that want something done now which would be done later by itself.

use crate::base::sync::atomic::{AtomicUsize, Ordering};

#[derive(Debug, Default)]
pub(crate) struct Requests(AtomicUsize);

/// Counts a caller for as long as it lives.
pub(crate) struct Requested<'a>(&'a AtomicUsize);

impl Drop for Requested<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Requests {
    pub(crate) fn add(&self) -> Requested<'_> {
        self.0.fetch_add(1, Ordering::AcqRel);
        Requested(&self.0)
    }

    /// Whether there is one.
    pub(crate) fn any(&self) -> bool {
        self.0.load(Ordering::Acquire) > 0
    }
}
