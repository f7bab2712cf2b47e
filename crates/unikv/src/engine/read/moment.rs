//! A registered moment: a sequence number that jobs know of, and the read state that serves it.

use crate::base::keys::{KeyspaceId, SeqNo};
use crate::base::sync::atomic::Ordering;
use crate::engine::read::ReadState;
use crate::engine::read::source::Source;
use crate::engine::snapshots::Holder;
use std::mem;
use std::sync::Arc;

/// A sequence number that jobs know of until this is dropped.
pub(crate) struct Registered {
    read: Arc<ReadState>,
    seq: SeqNo,
    holder: Holder,
}

impl Registered {
    /// Registers what is visible now. Views loaded from here on serve it.
    pub(crate) fn take(read: &Arc<ReadState>, holder: Holder) -> Arc<Registered> {
        let seq = if read.core.process.is_this() {
            let now = read.core.store.env().runtime.now();
            read.core.snapshots.take(&read.visible_seq, holder, now)
        } else {
            SeqNo(read.visible_seq.load(Ordering::Acquire))
        };
        Arc::new(Registered {
            read: Arc::clone(read),
            seq,
            holder,
        })
    }

    pub(crate) fn read(&self) -> &Arc<ReadState> {
        &self.read
    }

    pub(crate) fn seq(&self) -> SeqNo {
        self.seq
    }

    /// A keyspace as of this moment.
    pub(crate) fn source(&self, keyspace: KeyspaceId) -> Source {
        Source {
            keyspace,
            at: Some(self.seq),
        }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        if !self.read.core.process.is_this() {
            mem::forget(Arc::clone(&self.read));
            return;
        }
        if self.read.core.snapshots.release(self.seq, self.holder) {
            self.read.space.snapshot_released();
        }
    }
}
