//! Waits of writers: for the background, and for one that is alone
//! ([`crate::engine::recent::Turns`]).
//!
//! Nothing is held during a wait for the background but what the caller holds: usually the commit
//! lock. No lock is held while another is alone.

use crate::base::sync::atomic::Ordering;
use crate::engine::catalog::FlushBlock;
use crate::engine::health::{FLUSH, MERGE};
use crate::engine::memory::MAX_SEALED;
use crate::engine::write::WritePath;
use crate::engine::write::queue::{Request, Turn, WriteMode};
use crate::error::{Error, Result};
use crate::events::{Event, StallCause, Wait};
use crate::vfs::wait_until;
use std::sync::Arc;

impl WritePath {
    /// Waits until what recovery read from the log of an earlier process is in tables.
    pub(crate) fn flush_recovered(&self, may_wait: bool) -> Result<()> {
        if !self.wal_sync.has_recovered() {
            return Ok(());
        }
        if !may_wait {
            return Err(Error::would_block());
        }
        let _delayed = self.queue.delay();
        self.core.work.notify();
        let flushed = || !self.wal_sync.has_recovered();
        self.core.wait_while(flushed, || self.check_flushes())
    }

    /// Whether the disk, which is full or small, keeps as many segments of the log as it may,
    /// however short the sealed memtables are.
    pub(super) fn is_tight(&self) -> bool {
        (self.space.full_disk.is_full() || self.space.full_disk.is_small())
            && self.read.view.load().sealed.len() >= MAX_SEALED
    }

    /// Whether one more memtable may be sealed.
    pub(crate) fn may_seal(&self) -> bool {
        !self.is_tight() && self.core.memory.may_seal(&self.read.view.load())
    }

    /// Waits while sealed memtables take all that they may. The caller has the commit lock.
    pub(crate) fn wait_for_flushes(&self, may_wait: bool) -> Result<()> {
        let has_room = || self.may_seal();
        if has_room() {
            return Ok(());
        }
        if !may_wait {
            return Err(Error::would_block());
        }
        let _delayed = self.queue.delay();
        self.wait_for(has_room)
    }

    /// Waits until it is ready, if it may: else that is `WouldBlock`. The caller has no lock.
    pub(crate) fn wait_without_lock(
        &self,
        may_wait: bool,
        mut is_ready: impl FnMut() -> bool,
    ) -> Result<()> {
        if is_ready() {
            return Ok(());
        }
        if !may_wait {
            return Err(Error::would_block());
        }
        self.wait_for(is_ready)
    }

    /// Waits for flushes until it is ready.
    fn wait_for(&self, mut is_ready: impl FnMut() -> bool) -> Result<()> {
        let runtime = &self.core.store.env().runtime;
        let begin = runtime.now();
        self.backpressure.take_blocked_flush();
        let events = &self.core.events;
        events.emit(|| Event::StallBegan {
            cause: self.likely_cause(),
        });
        // A flush that waits for a merge says so when it looks again.
        self.core.work.notify();
        let mut failed = None;
        wait_until(&*self.core.progress, || {
            failed = self.check_flushes().err();
            let closing = self.core.closing.load(Ordering::Acquire);
            failed.is_some() || closing || is_ready()
        });
        let cause = if self.backpressure.take_blocked_flush() {
            StallCause::MergeWait
        } else {
            StallCause::FlushWait
        };
        let took = runtime.now().saturating_sub(begin);
        self.core.counters.count_stall(cause, took);
        self.core.meter.waited(Wait::Stall, took);
        events.emit(|| Event::StallEnded {
            cause,
            elapsed: took,
        });
        failed
            .map_or(Ok(()), Err)
            .and_then(|()| self.core.check_open())
    }

    /// What a wait that begins now is for: at its end it is known.
    fn likely_cause(&self) -> StallCause {
        let catalog = self.catalog.lock();
        if self.catalog.flush_is_blocked(&catalog) {
            StallCause::MergeWait
        } else {
            StallCause::FlushWait
        }
    }

    /// Waits until no memtable is sealed.
    pub(crate) fn await_flushes(&self) -> Result<()> {
        let _delayed = self.queue.delay();
        let flushed = || self.read.view.load().sealed.is_empty();
        self.core.wait_while(flushed, || self.check_flushes())
    }

    /// Refuses to wait for a flush that is failing, or that waits for merges which are failing.
    pub(crate) fn check_flushes(&self) -> Result<()> {
        self.core.health.check_fatal()?;
        if !self.core.health.has_failures() {
            return Ok(());
        }
        let catalog = self.catalog.lock();
        let is_due = !self.read.view.load().sealed.is_empty();
        if let Some(failure) = self.core.health.failure(FLUSH, None).filter(|_| is_due) {
            return Err(failure.error);
        }
        let of_merge = |id| self.core.health.failure(MERGE, Some(id));
        match self.catalog.what_blocks_flushes(&catalog) {
            None => Ok(()),
            Some(FlushBlock::Partition(id)) => of_merge(id).map_or(Ok(()), |f| Err(f.error)),
            Some(FlushBlock::SharedLimit) => {
                // Any merge helps: only if all fail is there nothing to wait for.
                let mut failed = None;
                let all = catalog.frozen_partitions().all(|p| {
                    failed = of_merge(p.id);
                    failed.is_some()
                });
                match failed {
                    Some(failure) if all => Err(failure.error),
                    _ => Ok(()),
                }
            }
        }
    }
}

/// How often one that wants to be alone waits for others that are.
const MOST_WAITS: u32 = 100;

/// While this lives, other writers wait before they commit.
pub(crate) struct Alone(Arc<WritePath>);

impl Alone {
    /// Waits until nobody else is alone, and until the writers that came before have committed.
    /// `None`: others are alone all the time, or it is the same thread that is.
    pub(crate) fn begin(path: &Arc<WritePath>) -> Option<Alone> {
        let is_child = !path.core.process.is_this();
        if is_child {
            return None;
        }
        let turns = &path.recent.turns;
        let mut waits = 0;
        while !turns.try_begin() {
            waits += 1;
            if waits == MOST_WAITS {
                return None;
            }
            turns.wait(|| path.core.now());
        }
        let alone = Alone(Arc::clone(path));
        let runtime = &*path.core.store.env().runtime;
        let mode = WriteMode::default();
        let turn = path
            .queue
            .enter(runtime, mode, || None, || Request::to_lead(mode, runtime));
        if let Turn::Leads(lead) = turn {
            drop(lead);
        }
        Some(alone)
    }
}

impl WritePath {
    /// Waits while another one is alone, for as long as a writer waits. No lock is held.
    #[inline]
    pub(crate) fn await_turn(&self, is_alone: bool) {
        if self.recent.turns.is_taken() && !is_alone {
            self.recent.turns.wait(|| self.core.now());
        }
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        if self.0.core.process.is_this() {
            self.0.recent.turns.end();
        }
    }
}
