//! Counts of what look-ups did.

use crate::base::sync::atomic::{AtomicBool, AtomicU64};

/// Counts of what lookups did.
#[derive(Debug, Default)]
pub(crate) struct ReadCounters {
    pub(crate) index_lookups: AtomicU64,
    pub(crate) index_failed_comparisons: AtomicU64,
    /// The pointer index of a key table has become worth its cost.
    pub(crate) pointer_index_wanted: AtomicBool,
}
