//! The memtables of a secondary: one or more for each segment of the log.
//!
//! # Invariants
//! - Together they hold the writes from some number on up to [`LogMemtables::last_seq`], but for
//!   those that were in tables when they were read. So whatever of them is in tables, too, is the
//!   newest there.
//! - None reaches from before what is flushed to after it: an ingest is newer than what a memtable
//!   held before, and a memtable is looked at first. Where a flush ends within a segment, as it may
//!   after a recovery, the log is read afresh.
//! - States share them: one that is older sees of a memtable what its number lets it see.

use super::files::Files;
use super::shared::Shared;
use crate::base::keys::{FileNumber, SeqNo};
use crate::base::seeded::seeded;
use crate::engine::open::recovery::{Allowance, WalReplay, wal_segments};
use crate::error::Result;
use crate::log::{DurablePoint, LogTail, WalWrite, Wanted};
use crate::memtable::Memtable;
use crate::partition::MemtableHandle;
use crate::record::RecordFile;
use crate::version::Version;
use crate::version::file_names;
use crate::version::manifest::ManifestTail;
use std::path::Path;
use std::sync::Arc;

struct Fed {
    handle: MemtableHandle,
    first: SeqNo,
    last: SeqNo,
}

#[derive(Default)]
pub(super) struct LogMemtables {
    tail: LogTail,
    /// Oldest first.
    fed: Vec<Fed>,
    expires: bool,
}

impl LogMemtables {
    /// The log is to be read afresh.
    pub(super) fn begin_again(&mut self) {
        *self = LogMemtables::default();
    }

    /// The last write that was read.
    pub(super) fn last_seq(&self) -> SeqNo {
        self.tail.last_seq()
    }

    /// The greatest place of which the log says that all was durable below it.
    pub(super) fn claimed(&self) -> Option<DurablePoint> {
        self.tail.claimed()
    }

    /// Where reading has ended.
    pub(super) fn place(&self) -> (&Path, u64) {
        self.tail.place()
    }

    /// Whether anything that was read expires.
    pub(super) fn expires(&self) -> bool {
        self.expires
    }

    /// A file of large values that the log names.
    pub(super) fn large_file(&self, number: FileNumber) -> Option<Arc<RecordFile>> {
        self.fed.iter().find_map(|fed| fed.handle.large.get(number))
    }

    /// A memtable in which nothing is.
    pub(super) fn empty(&self, shared: &Shared) -> MemtableHandle {
        let table = Memtable::new(&shared.core.pool, shared.core.hash_seed);
        MemtableHandle::new(table, FileNumber(0))
    }

    /// The newest memtable, and the others, newest first.
    pub(super) fn memtables(&self, shared: &Shared) -> (MemtableHandle, Vec<MemtableHandle>) {
        let mut all = self.fed.iter().rev().map(|fed| fed.handle.clone());
        let newest = all.next().unwrap_or_else(|| self.empty(shared));
        (newest, all.collect())
    }

    /// Drops what `version` has in tables, and reads the log up to the write `until`, as far as it
    /// is there. `edits` are those of `version`.
    pub(super) fn read_on(
        &mut self,
        shared: &Shared,
        files: &Files,
        version: &Version,
        edits: u64,
        until: SeqNo,
    ) -> Result<()> {
        let flushed = version.counters.flushed_seq;
        if !seeded!(SecondaryKeepsFlushed) {
            self.fed.retain(|fed| fed.last > flushed);
            if self.fed.iter().any(|fed| fed.first <= flushed) {
                self.begin_again();
            }
        }
        if self.last_seq().max(flushed) >= until {
            return Ok(());
        }
        let manifest = files
            .tail()
            .map(ManifestTail::path)
            .unwrap_or(Path::new(""));
        let read = self.feed(shared, version, edits, until, manifest);
        read.inspect_err(|_| self.begin_again())
    }

    fn feed(
        &mut self,
        shared: &Shared,
        version: &Version,
        edits: u64,
        until: SeqNo,
        manifest: &Path,
    ) -> Result<()> {
        let core = &shared.core;
        let (store, bytes) = (&core.store, core.memory.plan.memtable_bytes);
        let held = self.fed.iter().map(|fed| fed.handle.table.bytes() as u64);
        let allowance = Allowance::beside(shared.budget, version, held.sum());
        let replay = WalReplay::new(store, &core.cache, &core.pool, bytes, manifest);
        let replay = replay.within(allowance);
        let (flushed, keyspaces) = (version.counters.flushed_seq, version.counters.last_keyspace);
        let wanted = Wanted {
            store,
            low_water: version.counters.wal_low_water,
            until,
            edits,
        };
        let segments = || {
            Ok(wal_segments(&file_names::survey(
                &*store.env().vfs,
                store.dir(),
            )?))
        };
        let LogMemtables { tail, fed, expires } = self;
        let mut sink = |segment: FileNumber, write: &WalWrite<'_>| {
            // Flushes commit in write order: a record is in the tables whole or not at all.
            if write.last_seq() <= flushed {
                return Ok(());
            }
            if !replay.has_room(write) {
                fed.clear();
                return Ok(());
            }
            if replay.is_large(write) {
                let (handle, large_expires) = replay.large_memtable(segment, write, version)?;
                *expires |= large_expires;
                fed.push(Fed {
                    handle,
                    first: write.base_seq,
                    last: write.last_seq(),
                });
                return Ok(());
            }
            let is_next = |newest: &Fed| {
                let filled = newest.handle.table.bytes() + write.ops.len();
                let is_full = newest.handle.table.is_batch() || filled as u64 > bytes;
                newest.handle.wal != segment || is_full
            };
            if fed.last().is_none_or(is_next) {
                let table = Memtable::new(&core.pool, core.hash_seed);
                fed.push(Fed {
                    handle: MemtableHandle::new(table, segment),
                    first: write.base_seq,
                    last: write.base_seq,
                });
            }
            let Some(newest) = fed.last_mut() else {
                return Ok(());
            };
            *expires |= replay.insert_ops(segment, &newest.handle, write, keyspaces)?;
            if let Some(commit_tag) = write.commit_tag {
                newest
                    .handle
                    .table
                    .note_commit_tag(write.last_seq(), commit_tag);
            }
            newest.last = write.last_seq();
            Ok(())
        };
        tail.read_on(&wanted, segments, &mut sink)?;
        replay.check_room()
    }
}
