//! A registered moment: a sequence number and a time that jobs know of, and the read state that
//! serves it. It keeps the database open: with the last one, and the last handle of the database,
//! that is closed, on the thread that drops it. So no lock may be held where one is dropped.

use crate::base::keys::{KeyspaceId, SeqNo};
use crate::base::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::engine::read::ReadState;
use crate::engine::read::source::Source;
use crate::engine::snapshots::Holder;
use crate::partition::{Moment, Visibility};
use std::any::Any;
use std::mem;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

/// The handle of the database, which is closed when nothing keeps it any more. A secondary's states
/// have none.
pub(crate) type KeepsOpen = Option<Arc<dyn Any + Send + Sync>>;

/// A sequence number and a time that jobs know of until this is dropped.
pub(crate) struct Registered {
    read: Arc<ReadState>,
    moment: Moment,
    holder: Holder,
    /// When it was registered, on the runtime's clock.
    since: Duration,
    /// Whether its time is earlier than its number had.
    is_early: bool,
    /// Clones of the snapshot that this is of, or its transaction.
    owners: AtomicUsize,
    /// Whether iterators have been left by the last of these.
    is_disowned: AtomicBool,
    /// Comes last, as its end may close the database.
    keeps_open: KeepsOpen,
}

/// The moment of a snapshot or of a transaction. Iterators have it without this.
pub(crate) struct Owned(Arc<Registered>);

impl Registered {
    /// Registers what is visible now. Views loaded from here on serve it.
    pub(crate) fn take(
        read: &Arc<ReadState>,
        holder: Holder,
        keeps_open: KeepsOpen,
    ) -> Arc<Registered> {
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
            is_early: false,
            owners: AtomicUsize::new(0),
            is_disowned: AtomicBool::new(false),
            keeps_open,
        })
    }

    /// Registers what is visible now for an iterator over it.
    pub(crate) fn take_newest(&self) -> Arc<Registered> {
        Registered::take(&self.read, Holder::Iterator, self.keeps_open.clone())
    }

    /// The same number at the time of jobs: that sees what the wall clock hides and jobs keep.
    pub(crate) fn with_hidden(self: &Arc<Registered>) -> Arc<Registered> {
        let core = &self.read.core;
        if !core.clock.is_needed() || !core.process.is_this() {
            return Arc::clone(self);
        }
        let (holder, since) = (Holder::Iterator, core.now());
        let time_ms = || self.moment.time_ms.min(core.clock.job_ms());
        let moment = core
            .snapshots
            .take_earlier(self.moment.seq, holder, since, time_ms);
        Arc::new(Registered {
            read: Arc::clone(&self.read),
            moment,
            holder,
            since,
            is_early: true,
            owners: AtomicUsize::new(0),
            is_disowned: AtomicBool::new(false),
            keeps_open: self.keeps_open.clone(),
        })
    }

    /// Whether a snapshot or transaction has registered it.
    pub(crate) fn has_owner(&self) -> bool {
        self.holder != Holder::Iterator
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
            Holder::Snapshot | Holder::Transaction => self.read.core.now(),
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
            mem::forget(self.keeps_open.clone());
            return;
        }
        let is_disowned = self.is_disowned.load(Ordering::Relaxed);
        let snapshots = &self.read.core.snapshots;
        if snapshots.release(self.moment, self.holder, is_disowned) {
            self.read.space.snapshot_released();
        }
        if self.is_early {
            snapshots.released_earlier();
        }
    }
}

impl Owned {
    /// Registers what is visible now, for a snapshot or a transaction.
    pub(crate) fn take(read: &Arc<ReadState>, holder: Holder, keeps_open: KeepsOpen) -> Owned {
        let moment = Registered::take(read, holder, keeps_open);
        moment.owners.store(1, Ordering::Relaxed);
        Owned(moment)
    }
}

impl Deref for Owned {
    type Target = Arc<Registered>;

    fn deref(&self) -> &Arc<Registered> {
        &self.0
    }
}

impl Clone for Owned {
    fn clone(&self) -> Owned {
        self.0.owners.fetch_add(1, Ordering::Relaxed);
        Owned(Arc::clone(&self.0))
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        let moment = &self.0;
        // In the child of a fork no lock is taken.
        let is_child = !moment.read.core.process.is_this();
        if is_child || moment.owners.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        // Where this is alone, the moment ends with it.
        if Arc::strong_count(moment) > 1 {
            moment.is_disowned.store(true, Ordering::Relaxed);
            let snapshots = &moment.read.core.snapshots;
            snapshots.disown(moment.moment, moment.holder);
        }
    }
}
