//! A put, from the call to its end: what a writer does, step by step. Large values branch off to
//! [`super::blobs`] and large batches to [`super::large_batch`]; both come back to `commit`.
//!
//! A group commit (paper §III-B, "WAL"): the leader of the [queue](super::queue) numbers its batch
//! and those of the writers that wait, appends all to the WAL in one write, syncs if one of them
//! asks for it, inserts, and publishes. So a sync is shared by all that came during the one before.
//!
//! Lock: the leader holds the commit lock, because jobs seal memtables, too. It gives the lock and
//! the lead back before the others get their results, and pauses for back-pressure last.

use crate::base::keys::{KeyspaceId, SeqNo};
use crate::base::seeded::seeded;
use crate::base::sync::atomic::Ordering;
use crate::engine::backpressure::Written;
use crate::engine::read::timed::{named, named_engine_key};
use crate::engine::recent::reads::ReadSet;
use crate::engine::write::admission::refuse_hasty;
use crate::engine::write::group::Answers;
use crate::engine::write::queue::{Lead, Request, Turn, Write, WriteMode};
use crate::engine::write::{Commit, WritePath};
use crate::error::{Error, ErrorKind, Result};
use crate::events::{TimedOperation, Wait};
use crate::memtable::{Batch, OpsIter};
use crate::options::{Durability, WriteOptions};
use std::sync::Arc;

impl WritePath {
    /// Commits one put to the keyspace with this data id. A large value is not copied into a batch.
    pub(crate) fn put(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        value: &[u8],
        options: WriteOptions,
    ) -> Result<()> {
        let at = || named(keyspace, key);
        self.read.timed(TimedOperation::Put, at, || {
            self.put_untimed(keyspace, key, value, options)
        })
    }

    #[inline(always)]
    fn put_untimed(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        value: &[u8],
        options: WriteOptions,
    ) -> Result<()> {
        if value.len() < self.large_value_bytes() {
            let mut batch = Batch::new();
            batch.put_at(keyspace, key, value);
            return self.write_untimed(&batch, options, None);
        }
        self.put_large(keyspace, key, value, options)
    }

    /// Commits a batch; its large values go to files first. With `reads` it is refused if what
    /// these hold was written since.
    pub(crate) fn write(
        &self,
        batch: &Batch,
        options: WriteOptions,
        reads: Option<&Arc<ReadSet>>,
    ) -> Result<()> {
        let at = || {
            let mut ops = OpsIter::new(batch.ops_bytes());
            let first = ops.next().and_then(|op| op.ok());
            first.map_or_else(Default::default, |op| named_engine_key(op.key))
        };
        self.read.timed(TimedOperation::Write, at, || {
            self.write_untimed(batch, options, reads)
        })
    }

    #[inline]
    fn write_untimed(
        &self,
        batch: &Batch,
        options: WriteOptions,
        reads: Option<&Arc<ReadSet>>,
    ) -> Result<()> {
        self.core.check_open()?;
        if let Some(violation) = batch.violation() {
            return Err(violation.clone());
        }
        if self.may_expire(options.ttl) || batch.has_lifetimes() {
            return self.write_expiring(batch, options, reads);
        }
        self.write_resolved(batch, options, reads)
    }

    /// The same of a batch in which each value has its expiry.
    #[inline]
    pub(super) fn write_resolved(
        &self,
        batch: &Batch,
        options: WriteOptions,
        reads: Option<&Arc<ReadSet>>,
    ) -> Result<()> {
        let least = self.least_large(batch);
        if batch.longest_value() < least {
            let mode = self.mode(options);
            return self.commit(Write { batch, mode, reads });
        }
        self.write_apart(batch, least, options, reads)
    }

    pub(super) fn mode(&self, options: WriteOptions) -> WriteMode {
        let durability = options.durability.unwrap_or(self.core.options.durability);
        WriteMode {
            sync: durability == Durability::Sync,
            no_wait: options.no_wait,
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
        let taken = lead.take(self.core.memory.plan.group_bytes);
        let mut answers = Answers::of(&self.core, taken);
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
        let answer = committed.clone().map(drop);
        drop(commit);
        drop(lead);
        answers.end(answer);
        // What was refused or failed costs nothing.
        if let Ok(written) = committed
            && written.bytes > 0
        {
            self.backpressure.pace(written, !own.mode.no_wait);
        }
        admitted.and(committed.map(drop))
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
        let may_wait = !group.iter().any(|write| write.mode.no_wait);
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
        // Looked up before the batches are there themselves.
        let freed = self.freed_by_group(commit, group);
        self.insert_group(commit, group, first)?;
        let freed = commit.freed.add(freed);
        self.count_ranges(commit, group);
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
}
