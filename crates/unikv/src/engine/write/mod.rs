//! The write path: group commit (paper §III-B, "WAL"; design §3 "put").
//!
//! Whoever holds the commit lock commits for everybody who waits: assign sequence numbers, append
//! to the WAL in one write, sync if one of them asks for it, insert into the memtable, publish.
//! Writers that wait leave their batch in `queue` first, so the next holder takes them along and a
//! sync is shared by all that arrived during the one before.
//!
//! Invariants: a record is in the WAL before it is in the memtable, and in the memtable before
//! `visible_seq` covers it. A batch is one WAL record in one segment. A memtable and the segments
//! that hold its writes are sealed together, under the commit lock, so every write of a sealed
//! memtable is published.

pub(crate) mod backpressure;
pub(crate) mod blobs;
pub(crate) mod marks;
pub(crate) mod stalls;
pub(crate) mod wal_sync;

use super::catalog::Indexes;
use crate::base::keys::{FileNumber, SeqNo};
use crate::base::seeded::seeded;
use crate::base::sync::atomic::Ordering;
use crate::base::sync::{Mutex, MutexGuard};
use crate::engine::Engine;
use crate::engine::write::marks::note_mark;
use crate::engine::write::wal_sync::{Begun, Segment};
use crate::error::{Error, Result};
use crate::log::{DurableMark, SegmentEnd, WalWrite, WalWriter};
use crate::memtable::{Batch, Memtable, OpsIter};
use crate::options::Durability;
use crate::partition::MemtableHandle;
use crate::version::edit::VersionEdit;
use std::sync::Arc;

/// What the commit lock protects.
pub(crate) struct Commit {
    /// The WAL segment being written; `None` while the WAL is poisoned.
    pub(crate) wal: Option<(WalWriter, Arc<Segment>)>,
    pub(crate) last_seq: SeqNo,
    pub(crate) memtable: MemtableHandle,
    /// Bytes that the writes in the memtable free, about.
    pub(crate) freed_bytes: u64,
    /// Whether the background knows that what is in the memtable may hide much.
    pub(crate) is_watched: bool,
    /// What writers owe to back-pressure; negative, they have paid more.
    pub(crate) pause_debt_ns: i64,
}

/// A batch that waits for the holder of the commit lock.
pub(crate) struct Request {
    pub(crate) batch: Batch,
    sync: bool,
    result: Mutex<Option<Result<()>>>,
}

impl Request {
    /// Gives the request its result.
    pub(crate) fn answer(&self, result: Result<()>) {
        *self.result.lock() = Some(result);
    }
}

/// Gives waiting requests their result when dropped, also if the thread that commits for them dies.
struct Answers<'a> {
    engine: &'a Engine,
    waiting: &'a [Arc<Request>],
    /// `None` until the group has been dealt with.
    result: Option<Result<()>>,
}

impl Drop for Answers<'_> {
    fn drop(&mut self) {
        let died = || {
            let remedy = "close and reopen the database to see whether it is there";
            Error::writes_suspended("the thread that wrote this batch panicked", remedy)
        };
        for request in self.waiting {
            let result = self.result.clone().unwrap_or_else(|| Err(died()));
            request.answer(result);
        }
        if self.result.is_none() {
            // A part of the group may be in the memtable: nothing may be published behind it.
            self.engine.suspend_after_panic();
        }
    }
}

impl Engine {
    /// Commits a batch without large values (see [`crate::engine::write::blobs`]). Returns once it is in the WAL as
    /// `durability` asks, and visible.
    pub(crate) fn commit(&self, batch: &Batch, durability: Durability) -> Result<()> {
        if batch.seq_count() == 0 {
            return Ok(());
        }
        self.refuse_at_once(batch)?;
        let sync = durability == Durability::Sync;
        // A large batch is not copied for the queue: it waits here.
        let is_large = batch.byte_len() as u64 > self.memory.plan.queued_bytes;
        let commit = match is_large {
            true => Some(self.commit.lock()),
            false => self.commit.try_lock(),
        };
        if let Some(mut commit) = commit {
            let waiting = self.take_waiting();
            let (waiting, own) = self.admit(&commit, waiting, Some(batch));
            let is_admitted = own.is_ok() || seeded!(RefusedAndWritten);
            let admitted = is_admitted.then_some((batch, sync));
            let committed = self.commit_group(&mut commit, admitted, &waiting);
            return own.and(committed);
        }
        let request = Arc::new(Request {
            batch: batch.clone(),
            sync,
            result: Mutex::new(None),
        });
        self.queue.lock().push(Arc::clone(&request));
        let mut commit = self.commit.lock();
        loop {
            if let Some(result) = request.result.lock().take() {
                return result;
            }
            let (waiting, _) = self.admit(&commit, self.take_waiting(), None);
            // Each waiting request gets its result; the own one is among them, now or next.
            let _no_own_batch = self.commit_group(&mut commit, None, &waiting);
        }
    }

    /// Takes waiting requests, oldest first, up to a group's worth.
    fn take_waiting(&self) -> Vec<Arc<Request>> {
        let mut queue = self.queue.lock();
        let mut bytes = 0;
        let fits = |request: &&Arc<Request>| {
            bytes += request.batch.byte_len();
            bytes as u64 <= self.memory.plan.group_bytes
        };
        let count = queue.iter().take_while(fits).count();
        let count = count.max(1).min(queue.len());
        queue.drain(..count).collect()
    }

    /// Commits the waiting requests and then, if given, the holder's own batch.
    fn commit_group(
        &self,
        commit: &mut MutexGuard<'_, Commit>,
        own: Option<(&Batch, bool)>,
        waiting: &[Arc<Request>],
    ) -> Result<()> {
        let requests = waiting.iter().map(|r| (&r.batch, r.sync));
        let group: Vec<(&Batch, bool)> = requests.chain(own).collect();
        let mut answers = Answers {
            engine: self,
            waiting,
            result: None,
        };
        let result = self.commit_batches(commit, &group);
        answers.result = Some(result.clone());
        result
    }

    fn commit_batches(&self, commit: &mut Commit, group: &[(&Batch, bool)]) -> Result<()> {
        if group.is_empty() {
            return Ok(());
        }
        self.check_open()?;
        let bytes: usize = group.iter().map(|(batch, _)| batch.byte_len()).sum();
        self.make_room(commit, bytes)?;
        if group.iter().any(|(_, sync)| *sync) {
            // Before anything is written: should it fail, the log is as good as it was.
            self.flush_recovered()?;
        }
        self.adopt_large(&commit.memtable, group.iter().map(|(batch, _)| *batch))?;
        let first = self.append_to_wal(commit, group)?;
        if seeded!(PublishBeforeInsert) {
            self.visible_seq.store(commit.last_seq.0, Ordering::Release);
        }
        let freed_bytes = self.freed_by(&commit.memtable.table, group);
        let mut seq = first;
        for (batch, _) in group {
            seq = insert(&commit.memtable.table, batch, seq).inspect_err(|error| {
                // A part of the group is in the memtable: nothing may be published behind it.
                self.suspend_for_good(error);
            })?;
        }
        note_mark(commit, group, first);
        debug_assert_eq!(SeqNo(seq.0 - 1), commit.last_seq);
        commit.freed_bytes += freed_bytes;
        self.publish_seq(commit.last_seq);
        self.watch_memtable(commit);
        self.counters
            .count_writes(group.iter().map(|(batch, _)| *batch));
        if bytes as u64 > self.memory.plan.memtable_bytes {
            // More than was reckoned with.
            self.update_view(|_| ());
        }
        self.pace(commit, bytes as u64 + freed_bytes);
        Ok(())
    }

    /// Appends the group in one write and syncs it if one of the batches asks for that. Returns the
    /// first sequence number. A failure leaves the outcome of the group unknown.
    fn append_to_wal(&self, commit: &mut Commit, group: &[(&Batch, bool)]) -> Result<SeqNo> {
        let first = SeqNo(commit.last_seq.0 + 1);
        let ops: u64 = group.iter().map(|(batch, _)| batch.seq_count()).sum();
        if first.0 + ops > SeqNo::MAX.0 {
            let what = "the database has used up its 2^56 sequence numbers";
            return Err(Error::invalid(what, "copy it into a new database"));
        }
        let durable = self.wal_sync.durable_mark();
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
            let wal_bytes = &self.counters.wal_bytes;
            wal_bytes.fetch_add(end - begin, Ordering::Relaxed);
            if group.iter().any(|(_, sync)| *sync) && !seeded!(AckBeforeSync) {
                written = self.wal_sync.sync(&self.store);
            }
        }
        written.map_err(|error| self.unknown_outcome(error))?;
        Ok(first)
    }

    /// Makes sure that the memtable can take `bytes` and that there is a segment to write to.
    fn make_room(&self, commit: &mut Commit, bytes: usize) -> Result<()> {
        if self.health.is_suspended() {
            self.await_new_log(commit)?;
            self.resume(commit)?;
        }
        let filled = commit.memtable.table.bytes();
        let is_full = (filled + bytes) as u64 > self.memory.memtable_bytes()
            || self.is_full_of_large(&commit.memtable)
            || self.hides_too_much(commit);
        if filled > 0 && !commit.memtable.table.is_empty() && is_full {
            self.wait_for_flushes()?;
            self.seal(commit)?;
        }
        if bytes as u64 > self.memory.plan.group_bytes {
            self.wait_for_memory(bytes as u64)?;
        }
        Ok(())
    }

    /// Seals the memtable together with its WAL segment and begins new ones.
    pub(crate) fn seal(&self, commit: &mut Commit) -> Result<()> {
        let number = FileNumber(self.next_file.fetch_add(1, Ordering::Relaxed));
        let prev = commit.wal.as_ref().map(|(wal, _)| wal.segment_end());
        // A segment that was begun and failed may be on disk and link the end of this one, so that
        // nothing written here later would be replayed: this one is given up, too.
        let wal = self.new_segment(number, prev);
        commit.wal = Some(wal.inspect_err(|error| self.poison_wal(error))?);
        self.seal_memtable(commit, number);
        Ok(())
    }

    pub(crate) fn new_segment(
        &self,
        number: FileNumber,
        prev: Option<SegmentEnd>,
    ) -> Result<Begun> {
        let edits = self.manifest_edits.load(Ordering::Acquire);
        let begun = self.wal_sync.begin(&self.store, number, prev, edits)?;
        let wal_bytes = &self.counters.wal_bytes;
        wal_bytes.fetch_add(begun.0.end(), Ordering::Relaxed);
        Ok(begun)
    }

    /// Puts an empty memtable, whose writes go to segment `number`, in the place of the full one.
    fn seal_memtable(&self, commit: &mut Commit, number: FileNumber) {
        let memtable = commit.memtable.table.next(&self.pool);
        commit.memtable = MemtableHandle::new(memtable, number);
        self.reclaim.sealed(std::mem::take(&mut commit.freed_bytes));
        commit.is_watched = false;
        let memtable = commit.memtable.clone();
        self.update_view(|view| {
            let full = std::mem::replace(&mut view.memtable, memtable);
            view.sealed.insert(0, full);
        });
        self.work.notify();
    }

    /// Resumes writing after the WAL was poisoned: once everything acknowledged is in tables and
    /// the manifest no longer needs the old segments, a new segment takes over.
    pub(crate) fn resume(&self, commit: &mut Commit) -> Result<()> {
        self.health.check_fatal()?;
        let Some(cause) = self.health.poisoned() else {
            return Ok(());
        };
        self.seal_without_wal(commit);
        if !self.view.load().sealed.is_empty() {
            let remedy = "retry: writing resumes once the memtables have been flushed";
            return Err(Error::writes_suspended(&cause, remedy));
        }
        let number = FileNumber(self.next_file.fetch_add(1, Ordering::Relaxed));
        let mut catalog = self.catalog.lock();
        let edit = VersionEdit {
            wal_low_water: Some(number),
            ..VersionEdit::default()
        };
        self.commit_edit(&mut catalog, edit, &Indexes::new(), |view| {
            view.memtable.wal = number
        })?;
        drop(catalog);
        commit.memtable.wal = number;
        self.remove_files(self.wal_sync.restart());
        let wal = self.new_segment(number, None);
        commit.wal = Some(wal.inspect_err(|error| self.note_full(error))?);
        self.health.unpoison();
        Ok(())
    }

    /// Gives up a poisoned segment and seals what it was to protect.
    pub(crate) fn seal_without_wal(&self, commit: &mut Commit) {
        commit.wal = None;
        if !commit.memtable.table.is_empty() {
            let number = FileNumber(self.next_file.fetch_add(1, Ordering::Relaxed));
            self.seal_memtable(commit, number);
        }
    }

    /// Makes every acknowledged write durable.
    pub(crate) fn sync_wal(&self) -> Result<()> {
        self.flush_recovered()?;
        let synced = self.wal_sync.sync(&self.store);
        synced.inspect_err(|error| self.poison_wal(error))
    }

    /// Waits until what recovery read from the log of an earlier process is in tables.
    fn flush_recovered(&self) -> Result<()> {
        if !self.wal_sync.has_recovered() {
            return Ok(());
        }
        self.work.notify();
        let flushed = || !self.wal_sync.has_recovered();
        self.wait_while(flushed, Engine::check_flushes)
    }

    /// As [`Engine::sync_wal`], and notes in the log how far it is durable, so that damage below
    /// that point is told from a torn tail.
    pub(crate) fn sync_and_mark(&self) -> Result<()> {
        if self.health.is_suspended() {
            // What is acknowledged becomes durable in tables; then the log begins anew.
            self.flush_memtables()?;
        }
        self.sync_wal()?;
        let mut commit = self.commit.lock();
        let Some(mark) = self.wal_sync.durable_mark() else {
            return Ok(());
        };
        let Some((wal, segment)) = &mut commit.wal else {
            return Ok(());
        };
        let begin = wal.end();
        wal.stage_mark(mark);
        wal.write_staged()
            .inspect_err(|error| self.poison_wal(error))?;
        segment.written(wal.end());
        let wal_bytes = &self.counters.wal_bytes;
        wal_bytes.fetch_add(wal.end() - begin, Ordering::Relaxed);
        Ok(())
    }
}

/// Appends each batch as one record, all small ones in one write.
fn append_batches(
    wal: &mut WalWriter,
    group: &[(&Batch, bool)],
    mut seq: SeqNo,
    durable: Option<DurableMark>,
) -> Result<()> {
    for (batch, _) in group {
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
fn insert(memtable: &Memtable, batch: &Batch, first: SeqNo) -> Result<SeqNo> {
    let mut seq = first;
    for op in OpsIter::new(batch.ops_bytes()) {
        let op = op.map_err(|bad| Error::internal(format!("a batch in the log: {bad}")))?;
        memtable.insert(op.key, seq, op.kind, op.expiry_ms, op.value);
        seq.0 += 1;
    }
    Ok(SeqNo(first.0 + batch.seq_count()))
}
