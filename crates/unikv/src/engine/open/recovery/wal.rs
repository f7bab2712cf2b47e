//! Replaying the write-ahead log into memtables, for openings and secondaries.
//!
//! No locks.

use super::super::progress::Progress;
use super::allowance::Allowance;
use super::wal_segments;
use crate::base::keys::{FileNumber, KeyspaceId, Kind, SeqNo};
use crate::error::{Error, Result};
use crate::events::{OpeningPhase, RecoveryReport};
use crate::key_table::ReadCache;
use crate::log::{ReplayOutcome, WalWrite, replay};
use crate::memtable::{
    ArenaPool, BadOp, BatchOp, BatchSorter, LEAST_OP_LEN, Memtable, OpsIter, Reserved, SortedBatch,
};
use crate::partition::{LargeFiles, MemtableHandle};
use crate::record::External;
use crate::version::Version;
use crate::version::file_names::{self, DirSurvey};
use crate::vfs::file_store::FileStore;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Writes of the WAL that no table holds yet, in memtables of the usual size.
#[derive(Default)]
pub(crate) struct Replayed {
    /// Oldest first.
    pub(crate) memtables: Vec<MemtableHandle>,
    /// Whether anything in them expires.
    pub(crate) expires: bool,
    pub(crate) outcome: ReplayOutcome,
}

impl Replayed {
    /// Puts into a report what was replayed.
    pub(crate) fn note(&self, report: &mut RecoveryReport) {
        let outcome = &self.outcome;
        report.wal_segments = outcome.segments;
        report.wal_records = outcome.records;
        report.wal_ops = outcome.ops;
        report.wal_bytes = outcome.bytes;
        report.wal_cut = outcome.cut.clone();
    }
}

/// What a replay of the WAL needs.
pub(crate) struct WalReplay<'a> {
    manifest: &'a Path,
    store: &'a Arc<FileStore>,
    cache: &'a Arc<ReadCache>,
    pool: &'a Arc<ArenaPool>,
    memtable_bytes: u64,
    /// The memory for all of them.
    allowance: RefCell<Allowance>,
}

impl<'a> WalReplay<'a> {
    pub(crate) fn new(
        store: &'a Arc<FileStore>,
        cache: &'a Arc<ReadCache>,
        pool: &'a Arc<ArenaPool>,
        memtable_bytes: u64,
        manifest: &'a Path,
    ) -> WalReplay<'a> {
        WalReplay {
            store,
            manifest,
            cache,
            pool,
            memtable_bytes,
            allowance: RefCell::new(Allowance::boundless()),
        }
    }

    /// Refuses what takes more memory.
    pub(crate) fn within(self, allowance: Allowance) -> WalReplay<'a> {
        WalReplay {
            allowance: RefCell::new(allowance),
            ..self
        }
    }

    /// Whether there is room for a write. Without it those before it are not needed any more: in
    /// the end all are [refused](WalReplay::check_room).
    pub(crate) fn has_room(&self, write: &WalWrite<'_>) -> bool {
        self.allowance.borrow_mut().takes(write)
    }

    /// Refuses what had no room.
    pub(crate) fn check_room(&self) -> Result<()> {
        self.allowance.borrow().check()
    }

    /// Replays the WAL beyond what the version's tables hold.
    pub(crate) fn run(
        &self,
        survey: &DirSurvey,
        version: &Version,
        progress: &Progress,
    ) -> Result<Replayed> {
        let segments = wal_segments(survey);
        let all = if progress.is_heard() {
            self.bytes_of(&segments, version)
        } else {
            0
        };
        let mut done = 0;
        let flushed = version.counters.flushed_seq;
        let (mut memtables, mut newest, mut expires) = (Vec::new(), None, false);
        let mut sink = |segment: FileNumber, write: &WalWrite<'_>| {
            progress.report(OpeningPhase::Log, done, all);
            done += write.ops.len() as u64;
            // Flushes commit in write order: a record is in the tables whole or not at all.
            if write.last_seq() <= flushed {
                return Ok(());
            }
            if !self.has_room(write) {
                (memtables, newest) = (Vec::new(), None);
                return Ok(());
            }
            if self.is_large(write) {
                let (large, large_expires) = self.large_memtable(segment, write, version)?;
                memtables.extend(newest.take());
                memtables.push(large);
                expires |= large_expires;
                return Ok(());
            }
            let (more, limit) = (write.ops.len(), self.memtable_bytes);
            let full = |m: &mut MemtableHandle| (m.table.bytes() + more) as u64 > limit;
            memtables.extend(newest.take_if(full));
            let new = || Memtable::new(self.pool, version.counters.hash_seed);
            let memtable = newest.get_or_insert_with(|| MemtableHandle::new(new(), segment));
            expires |= self.insert_ops(segment, memtable, write, version.counters.last_keyspace)?;
            if let Some(commit_tag) = write.commit_tag {
                memtable.table.note_commit_tag(write.last_seq(), commit_tag);
            }
            Ok(())
        };
        let needed = version.counters.needed_log();
        let outcome = replay::replay(self.store, &segments, needed, &mut sink)?;
        self.check_room()?;
        memtables.extend(newest);
        Ok(Replayed {
            memtables,
            expires,
            outcome,
        })
    }

    /// Bytes of the segments that are replayed, as far as that can be seen.
    fn bytes_of(&self, segments: &[FileNumber], version: &Version) -> u64 {
        let low_water = version.counters.wal_low_water;
        let needed = segments.iter().filter(|number| **number >= low_water);
        let path = |number: &FileNumber| self.store.dir().join(file_names::wal(*number));
        let vfs = &self.store.env().vfs;
        needed
            .filter_map(|number| vfs.len(&path(number)).ok())
            .sum()
    }

    /// Whether a write becomes a memtable of its own, as a large batch.
    pub(crate) fn is_large(&self, write: &WalWrite<'_>) -> bool {
        let most_bytes = self.memtable_bytes / 4;
        SortedBatch::is_large(write.ops.len(), write.count as usize, most_bytes)
    }

    /// The memtable of a large write of `segment`, and whether some of it expires.
    pub(crate) fn large_memtable(
        &self,
        segment: FileNumber,
        write: &WalWrite<'_>,
        version: &Version,
    ) -> Result<(MemtableHandle, bool)> {
        let large = LargeFiles::default();
        let last_keyspace = version.counters.last_keyspace;
        // The count may be wrong, which is found out at the end.
        let len = (write.count as usize).min(write.ops.len() / LEAST_OP_LEN);
        // What ranges take beyond that is counted once they are built.
        let bytes = SortedBatch::memory_bytes(write.ops.len(), len, 0);
        let mut sorter = BatchSorter::new(len, Reserved::new(self.pool, bytes));
        let expires = self.each_op(segment, &large, write, last_keyspace, |_, op| {
            sorter.add(op);
        })?;
        let batch = sorter.finish(write.ops);
        let table = Memtable::of_batch(batch, write.base_seq, version.counters.hash_seed);
        if let Some(commit_tag) = write.commit_tag {
            table.note_commit_tag(write.last_seq(), commit_tag);
        }
        let handle = MemtableHandle {
            large: Arc::new(large),
            ..MemtableHandle::new(table, segment)
        };
        Ok((handle, expires))
    }

    /// Inserts the operations of a write. True: some expire.
    pub(crate) fn insert_ops(
        &self,
        segment: FileNumber,
        memtable: &MemtableHandle,
        write: &WalWrite<'_>,
        last_keyspace: u32,
    ) -> Result<bool> {
        let MemtableHandle { table, large, .. } = memtable;
        let mut ranges = Vec::new();
        let expires = self.each_op(segment, large, write, last_keyspace, |seq, op| {
            match op.as_range(seq) {
                Some(range) => ranges.push(range),
                None => table.insert(op.key, seq, op.kind, op.expiry_ms, op.value),
            }
        })?;
        table.add_ranges(&ranges);
        Ok(expires)
    }

    /// Checks the operations of a write and calls `each` with each and its number. Opens the files
    /// of large values. True: some expire.
    fn each_op<'w>(
        &self,
        segment: FileNumber,
        large: &LargeFiles,
        write: &WalWrite<'w>,
        last_keyspace: u32,
        mut each: impl FnMut(SeqNo, &BatchOp<'w>),
    ) -> Result<bool> {
        let (base, mut expires) = (write.base_seq, false);
        let path = || self.store.dir().join(file_names::wal(segment));
        let mut seq = base;
        for op in OpsIter::new(write.ops) {
            let op = known_op(op, &path)?;
            check_keyspace(op.key, last_keyspace, self.manifest)?;
            if op.kind == Kind::External {
                self.keep_large(op.value, large, &path)?;
            }
            expires |= op.expiry_ms.is_some();
            each(seq, &op);
            seq.0 += 1;
        }
        write.check_count(seq.0 - base.0, path)?;
        Ok(expires)
    }

    /// Puts the file of a large value with the memtable. It was durable before the log named it.
    fn keep_large(
        &self,
        external: &[u8],
        large: &LargeFiles,
        path: &dyn Fn() -> PathBuf,
    ) -> Result<()> {
        let Some(external) = External::decode(external) else {
            let what = "what stands in the place of a large value is malformed";
            return Err(Error::corruption(&path(), 0, what));
        };
        match large.get(external.pointer.file) {
            Some(file) => external.is_in(&file),
            None => {
                let file = external.open_file(self.store, self.cache)?;
                large.insert(file);
                Ok(())
            }
        }
    }
}

/// A keyspace is in the manifest before anything is written to it. One of a greater number than the
/// manifest knows was lost with its end.
pub(crate) fn check_keyspace(key: &[u8], last_keyspace: u32, manifest: &Path) -> Result<()> {
    let keyspace = KeyspaceId::of(key).0;
    if keyspace <= last_keyspace {
        return Ok(());
    }
    let what = format!("the manifest has lost edits: there are writes to keyspace {keyspace}");
    Err(Error::corruption(manifest, 0, what))
}

/// An operation of the log at `path`, unless it is damaged or of a newer release.
pub(crate) fn known_op<'a>(
    op: std::result::Result<BatchOp<'a>, BadOp>,
    path: &dyn Fn() -> PathBuf,
) -> Result<BatchOp<'a>> {
    op.map_err(|bad| bad.in_log(&path()))
}
