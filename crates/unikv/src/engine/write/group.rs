//! Group commit (paper §III-B, "WAL").
//!
//! The leader of the [queue](super::queue) assigns sequence numbers to its batch and to those of
//! the writers that wait, appends all to the WAL in one write, syncs if one of them asks for it,
//! inserts into the memtable, and publishes. So a sync is shared by all that arrived during the one
//! before.
//!
//! Lock: the leader holds the commit lock, because jobs seal memtables, too. It gives the lock and
//! the lead back before the others get their results, and pauses for back-pressure last, so that no
//! writer waits for one that pauses.

use crate::base::keys::SeqNo;
use crate::base::seeded::seeded;
use crate::base::sync::atomic::Ordering;
use crate::engine::backpressure::Written;
use crate::engine::core::Core;
use crate::engine::recent::reads::ReadSet;
use crate::engine::write::admission::refuse_hasty;
use crate::engine::write::large_batch::LargeBatch;
use crate::engine::write::marks::note_mark;
use crate::engine::write::queue::{Lead, Request, Turn, Write};
use crate::engine::write::{Commit, WritePath};
use crate::error::{Error, ErrorKind, Result};
use crate::events::Wait;
use crate::log::{DurablePoint, WalWrite, WalWriter};
use crate::memtable::{Batch, Memtable, OpsIter};
use std::sync::Arc;

/// Gives waiting requests their result when dropped, also if the thread that commits for them dies.
struct Answers<'a> {
    core: &'a Core,
    waiting: Vec<Arc<Request>>,
    /// `None` until the group has been dealt with.
    result: Option<Result<()>>,
}

impl Answers<'_> {
    fn end(mut self, result: Result<()>) {
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
    /// Commits a batch without large values (see [`crate::engine::write::blobs`]). Returns once it
    /// is in the WAL as its mode asks, and visible. A transaction with which too much is left to
    /// compare comes again.
    pub(crate) fn commit(&self, write: Write<'_>) -> Result<()> {
        loop {
            let committed = self.commit_at_once(write);
            match write.reads.filter(|reads| reads.take_postponed()) {
                Some(reads) => self.compare(reads)?,
                None => return committed,
            }
        }
    }

    /// Compares what a transaction has read with what is visible, under no lock of writers.
    pub(crate) fn compare(&self, reads: &ReadSet) -> Result<()> {
        let view = || Arc::clone(&self.read.view.load());
        self.recent.compare(reads, &self.read.visible_seq, view)
    }

    fn commit_at_once(&self, write: Write<'_>) -> Result<()> {
        let Write { batch, mode, .. } = write;
        if batch.seq_count() == 0 {
            return Ok(());
        }
        self.refuse_at_once(batch)?;
        let is_alone = write.reads.is_some_and(|reads| reads.is_alone());
        let may_go = is_alone || mode.no_wait;
        self.await_turn(may_go);
        let (bytes, plan) = (batch.byte_len() as u64, &self.core.memory.plan);
        let large = if self.is_large(batch) {
            let large = self.prepare_large(batch, mode)?;
            // That took a while: somebody may be alone by now.
            self.await_turn(may_go);
            Some(large)
        } else {
            None
        };
        let is_long = bytes > plan.queued_bytes || large.is_some();
        // Others are not to wait for a long batch, nor one that may not wait for them.
        let room = || (!is_long && !mode.no_wait).then(|| plan.group_bytes.saturating_sub(bytes));
        let runtime = &*self.core.store.env().runtime;
        let enter = || {
            self.queue.enter(runtime, mode, room, || {
                if is_long {
                    Request::to_lead(mode, runtime)
                } else {
                    Request::new(write, runtime)
                }
            })
        };
        let turn = self.core.counting_wait(Wait::Queue, enter);
        match turn {
            Turn::Leads(lead) => match large {
                Some(large) => self.lead_large(lead, write, large),
                None => self.lead(lead, write),
            },
            Turn::Ended(result) => result,
        }
    }

    /// Commits the leader's own batch and those of writers that wait.
    fn lead(&self, lead: Lead<'_>, own: Write<'_>) -> Result<()> {
        let mut commit = self.commit.lock();
        // From here on, whatever happens, those that are taken along get a result.
        let mut answers = Answers {
            core: &self.core,
            waiting: lead.take(self.core.memory.plan.group_bytes),
            result: None,
        };
        let mut admitted = self.admit(&commit, &mut answers.waiting, own);
        let mut committed = self.commit_group(&mut commit, &admitted, own, &answers.waiting);
        let would_block = |error: &Error| error.kind() == ErrorKind::WouldBlock;
        if committed.as_ref().is_err_and(would_block) {
            // Nothing has been written. The others wait.
            refuse_hasty(&mut answers.waiting);
            if own.mode.no_wait {
                admitted = admitted.and(Err(Error::would_block()));
            }
            committed = self.commit_group(&mut commit, &admitted, own, &answers.waiting);
        }
        answers.result = Some(committed.clone().map(drop));
        drop(commit);
        drop(lead);
        drop(answers);
        // What was refused or failed costs nothing.
        if let Ok(written) = committed
            && written.bytes > 0
        {
            self.backpressure.pace(written, !own.mode.no_wait);
        }
        admitted.and(committed.map(drop))
    }

    /// Commits a large batch, which takes no other along.
    fn lead_large(&self, lead: Lead<'_>, own: Write<'_>, large: LargeBatch<'_>) -> Result<()> {
        let mut commit = self.commit.lock();
        let guard = Answers {
            core: &self.core,
            waiting: Vec::new(),
            result: None,
        };
        let committed = self
            .admit(&commit, &mut Vec::new(), own)
            .and_then(|()| self.commit_large(&mut commit, own, large));
        guard.end(committed.as_ref().map(drop).map_err(Error::clone));
        drop(commit);
        drop(lead);
        self.backpressure.pace(committed?, !own.mode.no_wait);
        Ok(())
    }

    /// Commits the leader's own batch, if it is admitted, and those of `waiting`. `WouldBlock`: one
    /// of them may not wait and would have to, and nothing has been written.
    fn commit_group(
        &self,
        commit: &mut Commit,
        admitted: &Result<()>,
        own: Write<'_>,
        waiting: &[Arc<Request>],
    ) -> Result<Written> {
        let is_admitted = admitted.is_ok() || seeded!(RefusedAndWritten);
        let own = is_admitted.then_some(own);
        // Mostly nobody waits, and no memory is needed.
        if waiting.is_empty() {
            return self.commit_batches(commit, own.as_slice());
        }
        let requests = waiting.iter().map(|request| request.write());
        let group: Vec<Write<'_>> = own.into_iter().chain(requests).collect();
        self.commit_batches(commit, &group)
    }

    /// Commits the batches, and returns what back-pressure is to count.
    fn commit_batches(&self, commit: &mut Commit, group: &[Write<'_>]) -> Result<Written> {
        if group.is_empty() {
            return Ok(Written::default());
        }
        self.core.check_open()?;
        let bytes: usize = group.iter().map(|write| write.batch.byte_len()).sum();
        let may_wait = seeded!(HastyWaits) || !group.iter().any(|write| write.mode.no_wait);
        self.make_room(commit, bytes, may_wait)?;
        if group.iter().any(|write| write.mode.sync) {
            // Before anything is written: should it fail, the log is as good as it was.
            self.flush_recovered(may_wait)?;
        }
        let batches = || group.iter().map(|write| write.batch);
        self.adopt_large(&commit.memtable, batches())?;
        let first = self.append_to_wal(commit, group)?;
        if seeded!(PublishBeforeInsert) {
            self.read
                .visible_seq
                .store(commit.last_seq.0, Ordering::Release);
        }
        let is_first = |key: &[u8]| {
            let mut before = commit.memtable.table.iter();
            before.seek(key, SeqNo::MAX);
            before.entry().is_none_or(|entry| entry.key != key)
        };
        let freed = self.space.freed_by(is_first, batches(), || {
            Arc::clone(&self.read.view.load().version)
        });
        let mut seq = first;
        for Write { batch, .. } in group {
            seq = insert(&commit.memtable.table, batch, seq).inspect_err(|error| {
                // A part of the group is in the memtable: nothing may be published after it.
                self.core.suspend_for_good(error);
            })?;
        }
        note_mark(commit, group, first);
        debug_assert_eq!(SeqNo(seq.0 - 1), commit.last_seq);
        let freed = commit.freed.add(freed);
        if batches().any(|batch| batch.range_deletes() > 0) {
            let version = Arc::clone(&self.read.view.load().version);
            let deleted = self.space.deleted_by(batches(), &version);
            commit.freed.add_ranges(deleted);
        }
        let before = SeqNo(self.read.visible_seq.load(Ordering::Relaxed));
        self.recent.written(before, commit.last_seq, batches());
        self.read.publish_seq(commit.last_seq);
        self.core.counters.count_writes(batches());
        self.watch_memtable(commit);
        Ok(Written {
            bytes: bytes as u64,
            freed,
        })
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
                let sync = || self.wal_sync.sync(&self.core.store);
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
            host_mark: batch.mark(),
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
