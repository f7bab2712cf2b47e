//! A registered moment: a sequence number and a time that jobs know of, and the read state that
//! serves it.

use crate::base::keys::{KeyspaceId, SeqNo};
use crate::base::sync::atomic::Ordering;
use crate::engine::read::ReadState;
use crate::engine::read::source::Source;
use crate::engine::snapshots::Holder;
use crate::partition::{Moment, Visibility};
use std::mem;
use std::sync::Arc;
use std::time::Duration;

/// A sequence number and a time that jobs know of until this is dropped.
pub(crate) struct Registered {
    read: Arc<ReadState>,
    moment: Moment,
    holder: Holder,
    /// When it was registered, on the runtime's clock.
    since: Duration,
}

impl Registered {
    /// Registers what is visible now. Views loaded from here on serve it.
    pub(crate) fn take(read: &Arc<ReadState>, holder: Holder) -> Arc<Registered> {
        let core = &read.core;
        let mut since = Duration::ZERO;
        let moment = if core.process.is_this() {
            core.snapshots.take(&read.visible_seq, holder, || {
                let now = core.now();
                since = now;
                (now, core.clock.at_ms(now))
            })
        } else {
            Moment {
                seq: SeqNo(read.visible_seq.load(Ordering::Acquire)),
                time_ms: core.clock.now_ms(),
            }
        };
        Arc::new(Registered {
            read: Arc::clone(read),
            moment,
            holder,
            since,
        })
    }

    pub(crate) fn read(&self) -> &Arc<ReadState> {
        &self.read
    }

    pub(crate) fn seq(&self) -> SeqNo {
        self.moment.seq
    }

    /// Since when an iterator that is made of it now has been there, on the runtime's clock.
    pub(crate) fn held_since(&self) -> Duration {
        match self.holder {
            Holder::Iterator => self.since,
            Holder::Snapshot => self.read.core.now(),
        }
    }

    /// Its time, in milliseconds since 1970.
    pub(crate) fn time_ms(&self) -> u64 {
        self.moment.time_ms
    }

    /// What it sees.
    pub(crate) fn at(&self) -> Visibility {
        Visibility::at(self.moment)
    }

    /// A keyspace as of this moment.
    pub(crate) fn source(&self, keyspace: KeyspaceId) -> Source {
        Source {
            keyspace,
            at: Some(self.at()),
        }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        if !self.read.core.process.is_this() {
            mem::forget(Arc::clone(&self.read));
            return;
        }
        if self.read.core.snapshots.release(self.moment, self.holder) {
            self.read.space.snapshot_released();
        }
    }
}
