//! The live snapshots.
//!
//! A snapshot is a sequence number, registered under the lock where jobs read the list. A job
//! chooses its inputs and then reads the list, so it is right about a snapshot taken later, too: that
//! one sees the newest version of everything in the inputs, which is always kept.

use crate::base::keys::SeqNo;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug, Default)]
pub(crate) struct Snapshots(Mutex<BTreeMap<SeqNo, usize>>);

impl Snapshots {
    /// Registers a snapshot of what is visible now.
    pub(crate) fn take(&self, visible: &AtomicU64) -> SeqNo {
        let mut live = self.0.lock();
        let seq = SeqNo(visible.load(Ordering::Acquire));
        *live.entry(seq).or_default() += 1;
        seq
    }

    /// Releases a registered snapshot.
    pub(crate) fn release(&self, seq: SeqNo) {
        let mut live = self.0.lock();
        if let Some(count) = live.get_mut(&seq) {
            *count -= 1;
            if *count == 0 {
                live.remove(&seq);
            }
        }
    }

    /// The live snapshots, ascending.
    pub(crate) fn list(&self) -> Vec<SeqNo> {
        self.0.lock().keys().copied().collect()
    }
}
