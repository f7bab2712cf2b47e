//! Counting the memory of indexes: as long as an index lives, whoever holds it.

use crate::base::sync::OnceLock;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// What of an index is counted, and where.
#[derive(Default)]
pub(super) struct Counted {
    sum: OnceLock<Arc<AtomicU64>>,
    bytes: AtomicU64,
}

impl Counted {
    /// From now on `sum` has these bytes of it, in the place of those that it has.
    pub(super) fn set(&self, sum: &Arc<AtomicU64>, bytes: u64) {
        let sum = self.sum.get_or_init(|| Arc::clone(sum));
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        // It wraps where that is less.
        sum.fetch_add(bytes.wrapping_sub(before), Ordering::Relaxed);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if let Some(sum) = self.sum.get() {
            sum.fetch_sub(self.bytes.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}
