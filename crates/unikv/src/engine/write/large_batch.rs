//! Large batches: each becomes a memtable of its own (Pebble calls it a flushable batch).
//!
//! Its writer waits for memory, copies and sorts the operations, and estimates what they delete
//! before it takes the commit lock. Under the lock the batch gets its sequence numbers, is appended
//! to the log and is linked into the view: so other writers wait for the append, and for nothing
//! else that grows with the batch.
//!
//! Invariants: the batch is the last record of its segment, and is sealed with what the segment
//! held before it. No other batch is in its group. Its memory is counted before it is taken.
//!
//! Lock: `commit`, as the leader of a group. Nothing is held while memory is waited for.

use crate::base::keys::{FileNumber, SeqNo};
use crate::base::range_tombstones::lists::MOST_MERGED;
use crate::base::seeded::seeded;
use crate::base::sync::atomic::Ordering;
use crate::engine::backpressure::Written;
use crate::engine::memory::LargeBatchTurn;
use crate::engine::space::estimates::Freed;
use crate::engine::write::blobs::files_of;
use crate::engine::write::group::Answers;
use crate::engine::write::queue::{Lead, Write, WriteMode};
use crate::engine::write::{Commit, WritePath};
use crate::error::{Error, Result};
use crate::memtable::{Batch, Memtable, Reserved, SortedBatch};
use crate::partition::MemtableHandle;

/// A large batch that is ready to be committed.
pub(crate) struct LargeBatch<'a> {
    sorted: SortedBatch,
    /// Those of its large values.
    files: Vec<FileNumber>,
    /// Bytes that it frees, about.
    freed: Freed,
    turn: LargeBatchTurn<'a>,
}

impl WritePath {
    /// Commits a large batch, which takes no other along.
    pub(super) fn lead_large(
        &self,
        lead: Lead<'_>,
        own: Write<'_>,
        large: LargeBatch<'_>,
    ) -> Result<()> {
        let mut commit = self.commit.lock();
        let guard = Answers::of(&self.core, Vec::new());
        let committed = self
            .admit(&commit, &mut Vec::new(), own)
            .and_then(|()| self.commit_large(&mut commit, own, large));
        guard.end(committed.as_ref().map(drop).map_err(Error::clone));
        drop(commit);
        drop(lead);
        self.backpressure.pace(committed?, !own.mode.no_wait);
        Ok(())
    }

    /// Whether a batch becomes a memtable of its own.
    pub(super) fn is_large(&self, batch: &Batch) -> bool {
        SortedBatch::is_large(
            batch.byte_len(),
            batch.len(),
            self.core.memory.plan.group_bytes,
        ) || batch.range_deletes() >= MOST_MERGED
    }

    /// Waits for the memory of a large batch, and sorts it.
    pub(super) fn prepare_large(&self, batch: &Batch, mode: WriteMode) -> Result<LargeBatch<'_>> {
        let (bytes, ranges) = (batch.byte_len(), batch.range_deletes());
        let bytes = SortedBatch::memory_bytes(bytes, batch.len(), ranges);
        let (reserved, turn) = self.reserve(bytes, !mode.no_wait)?;
        let bad = |bad| Error::internal(format!("a batch for the log: {bad}"));
        let sorted = SortedBatch::new(batch.ops_bytes(), batch.len(), reserved).map_err(bad)?;
        let version = || self.read.view.load().version.clone();
        let mut freed = Freed::default();
        // Of its operations on one key, all count.
        freed.add(
            self.space
                .freed_by(|_| true, std::iter::once(batch), version),
        );
        if batch.range_deletes() > 0 {
            freed.add_ranges(self.space.deleted_in(&sorted.deleted(), &version()));
        }
        Ok(LargeBatch {
            sorted,
            files: files_of(batch),
            freed,
            turn,
        })
    }

    /// Waits for memory that memtables leave.
    pub(crate) fn reserve(
        &self,
        bytes: usize,
        may_wait: bool,
    ) -> Result<(Reserved, LargeBatchTurn<'_>)> {
        let (memory, progress) = (&self.core.memory, &self.core.progress);
        let (mut reserved, mut waits) = (None, None);
        self.wait_without_lock(may_wait, || {
            if !self.is_tight() {
                reserved = memory.reserve(bytes, &self.read.view.load(), progress);
            }
            if reserved.is_none() && may_wait {
                waits.get_or_insert_with(|| memory.wait_for_large(bytes, progress));
            }
            reserved.is_some()
        })?;
        reserved.ok_or_else(|| Error::internal("a large batch has no memory"))
    }

    /// Commits a large batch, alone in its group.
    pub(super) fn commit_large(
        &self,
        commit: &mut Commit,
        write: Write<'_>,
        large: LargeBatch<'_>,
    ) -> Result<Written> {
        let (batch, mode) = (write.batch, write.mode);
        self.core.check_open()?;
        self.ready_log(commit, !mode.no_wait)?;
        if mode.sync {
            // Before anything is written: should it fail, the log is as good as it was.
            self.flush_recovered(!mode.no_wait)?;
        }
        let first = SeqNo(commit.last_seq.0 + 1);
        let seed = self.read.view.load().version.counters.hash_seed;
        let table = Memtable::of_batch(large.sorted, first, seed);
        let handle = MemtableHandle::new(table, commit.memtable.wal);
        self.adopt_files(&handle.large, &large.files)?;
        if let Err(error) = self.append_to_wal(commit, &[write]) {
            // A failed append may have left the record in the log.
            let files = handle.large.all().into_iter();
            files.for_each(|file| commit.memtable.large.insert(file));
            return Err(error);
        }
        if seeded!(PublishBeforeInsert) {
            self.read
                .visible_seq
                .store(commit.last_seq.0, Ordering::Release);
        }
        if let Some(commit_tag) = batch.commit_tag() {
            handle.table.note_commit_tag(commit.last_seq, commit_tag);
        }
        self.core.counters.count_writes(std::iter::once(batch));
        self.link(commit, handle, large.freed);
        let before = SeqNo(self.read.visible_seq.load(Ordering::Relaxed));
        self.recent
            .written(before, commit.last_seq, std::iter::once(batch));
        self.read.publish_seq(commit.last_seq);
        self.seal_linked(commit);
        drop(large.turn);
        Ok(Written {
            bytes: batch.byte_len() as u64,
            freed: large.freed.bytes(),
        })
    }

    /// Seals the memtable, and puts that of the large batch in its place. The batch is not sealed
    /// before its number is published: a flush that ran in between would not keep what a snapshot
    /// without the batch sees.
    fn link(&self, commit: &mut Commit, large: MemtableHandle, freed: Freed) {
        let full = std::mem::replace(&mut commit.memtable, large);
        let freed = std::mem::replace(&mut commit.freed, freed);
        let is_empty = full.table.is_empty();
        if is_empty {
            // Files of a write that failed may be with it.
            let files = full.large.all().into_iter();
            files.for_each(|file| commit.memtable.large.insert(file));
        } else {
            self.space.estimates.sealed(freed);
        }
        self.read.update_view(|view| {
            view.memtable = commit.memtable.clone();
            if !is_empty {
                view.sealed.insert(0, full);
            }
        });
    }

    /// Seals the large batch, whose record is the last of its segment.
    fn seal_linked(&self, commit: &mut Commit) {
        let number = self.core.next_file_number();
        let prev = commit.wal.as_ref().map(|(wal, _)| wal.segment_end());
        match self.new_segment(number, prev, commit.last_seq) {
            Ok(begun) => commit.wal = Some(begun),
            // The batch stands; the next write finds the log poisoned and resumes.
            Err(error) => {
                commit.wal = None;
                self.poison_wal(&error);
            }
        }
        self.seal_memtable(commit, number);
    }
}

#[cfg(test)]
mod tests;
