//! The group that a leader commits: its records in the log, its entries in the memtable, and the
//! results of those that were taken along.
//!
//! Lock: the caller holds the commit lock.

use crate::base::keys::SeqNo;
use crate::base::seeded::seeded;
use crate::base::sync::atomic::Ordering;
use crate::engine::core::Core;
use crate::engine::recent::reads::ReadSet;
use crate::engine::write::commit_tags::note_commit_tag;
use crate::engine::write::queue::{Request, Write};
use crate::engine::write::{Commit, WritePath};
use crate::error::{Error, Result};
use crate::events::Wait;
use crate::log::{DurablePoint, WalWrite, WalWriter};
use crate::memtable::{Batch, Memtable, OpsIter};
use std::sync::Arc;

/// Gives waiting requests their result when dropped, also if the thread that commits for them dies.
pub(super) struct Answers<'a> {
    core: &'a Core,
    pub(super) waiting: Vec<Arc<Request>>,
    /// `None` until the group has been dealt with.
    result: Option<Result<()>>,
}

impl<'a> Answers<'a> {
    pub(super) fn of(core: &'a Core, waiting: Vec<Arc<Request>>) -> Answers<'a> {
        Answers {
            core,
            waiting,
            result: None,
        }
    }

    pub(super) fn end(mut self, result: Result<()>) {
        self.result = Some(result);
    }
}

impl Drop for Answers<'_> {
    fn drop(&mut self) {
        let died = || {
            let remedy = "close and reopen the database to see whether it is there";
            Error::writes_suspended("the thread that wrote this batch panicked", remedy)
        };
        for request in &self.waiting {
            let result = self.result.clone().unwrap_or_else(|| Err(died()));
            request.answer(result);
        }
        if self.result.is_none() {
            // A part of the group may be in the memtable: nothing may be published after it.
            self.core.suspend_after_panic();
        }
    }
}

impl WritePath {
    /// Compares what a transaction has read with what is visible, under no lock of writers.
    pub(crate) fn compare(&self, reads: &ReadSet) -> Result<()> {
        let view = || Arc::clone(&self.read.view.load());
        self.recent.compare(reads, &self.read.visible_seq, view)
    }

    /// Bytes that the batches free, about.
    pub(super) fn freed_by_group(&self, commit: &Commit, group: &[Write<'_>]) -> i64 {
        let is_first = |key: &[u8]| {
            let mut before = commit.memtable.table.iter();
            before.seek(key, SeqNo::MAX);
            before.entry().is_none_or(|entry| entry.key != key)
        };
        let batches = group.iter().map(|write| write.batch);
        self.space.freed_by(is_first, batches, || {
            Arc::clone(&self.read.view.load().version)
        })
    }

    /// Inserts the batches, the first operation with `first`.
    #[inline]
    pub(super) fn insert_group(
        &self,
        commit: &Commit,
        group: &[Write<'_>],
        first: SeqNo,
    ) -> Result<()> {
        let mut seq = first;
        for Write { batch, .. } in group {
            seq = insert(&commit.memtable.table, batch, seq).inspect_err(|error| {
                // A part of the group is in the memtable: nothing may be published after it.
                self.core.suspend_for_good(error);
            })?;
        }
        note_commit_tag(commit, group, first);
        debug_assert_eq!(SeqNo(seq.0 - 1), commit.last_seq);
        Ok(())
    }

    /// Counts what the range deletes of the batches free.
    pub(super) fn count_ranges(&self, commit: &mut Commit, group: &[Write<'_>]) {
        let batches = || group.iter().map(|write| write.batch);
        if batches().any(|batch| batch.range_deletes() > 0) {
            let version = Arc::clone(&self.read.view.load().version);
            let deleted = self.space.deleted_by(batches(), &version);
            commit.freed.add_ranges(deleted);
        }
    }

    /// Appends the group in one write and syncs it if one of the batches asks for that. Returns the
    /// first sequence number. A failure leaves the outcome of the group unknown.
    pub(super) fn append_to_wal(&self, commit: &mut Commit, group: &[Write<'_>]) -> Result<SeqNo> {
        let first = SeqNo(commit.last_seq.0 + 1);
        let ops: u64 = group.iter().map(|write| write.batch.seq_count()).sum();
        if first.0 + ops > SeqNo::MAX.0 {
            let what = "the database has used up its 2^56 sequence numbers";
            return Err(Error::invalid(what, "copy it into a new database"));
        }
        let durable = self.wal_sync.durable_point();
        let Some((wal, segment)) = &mut commit.wal else {
            return Err(Error::writes_suspended("the log has no segment", "retry"));
        };
        let begin = wal.end();
        // From here on the numbers may be in the file: they are never given again.
        commit.last_seq = SeqNo(first.0 + ops - 1);
        let mut written = append_batches(wal, group, first, durable);
        if written.is_ok() {
            let end = wal.end();
            segment.written(end);
            let wal_bytes = &self.core.counters.wal_bytes;
            wal_bytes.fetch_add(end - begin, Ordering::Relaxed);
            if group.iter().any(|write| write.mode.sync) && !seeded!(AckBeforeSync) {
                let sync = || self.sync_log(commit.last_seq);
                written = self.core.counting_wait(Wait::Sync, sync);
            }
        }
        written.map_err(|error| self.unknown_outcome(error))?;
        Ok(first)
    }
}

/// Appends each batch as one record, all small ones in one write.
#[inline]
fn append_batches(
    wal: &mut WalWriter,
    group: &[Write<'_>],
    mut seq: SeqNo,
    durable: Option<DurablePoint>,
) -> Result<()> {
    for Write { batch, .. } in group {
        let write = WalWrite {
            base_seq: seq,
            count: batch.len() as u32,
            commit_tag: batch.commit_tag(),
            ops: batch.ops_bytes(),
        };
        if WalWriter::is_large(write.ops) {
            wal.write_large(&write, durable)?;
        } else {
            wal.stage(&write, durable);
        }
        seq.0 += batch.seq_count();
    }
    wal.write_staged()
}

/// Inserts the operations of a batch, the first with `first`; returns the number after the batch.
#[inline]
fn insert(memtable: &Memtable, batch: &Batch, first: SeqNo) -> Result<SeqNo> {
    let (mut seq, mut ranges) = (first, Vec::new());
    for op in OpsIter::new(batch.ops_bytes()) {
        let op = op.map_err(|bad| Error::internal(format!("a batch in the log: {bad}")))?;
        match op.as_range(seq) {
            Some(range) => ranges.push(range),
            None => memtable.insert(op.key, seq, op.kind, op.expiry_ms, op.value),
        }
        seq.0 += 1;
    }
    memtable.add_ranges(&ranges);
    Ok(SeqNo(first.0 + batch.seq_count()))
}
