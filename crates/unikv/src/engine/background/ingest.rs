//! Ingesting a sorted stream: all of it becomes visible at one moment, by one edit.
//!
//! The tables are written and synced without any lock. To commit, everything written before must be
//! in tables, for what is newer stands in newer generations: memtables are flushed, at first beside
//! other writers, then, when little is left, under the commit lock, so that nothing slips in. With
//! that lock held and no memtable sealed the flush worker has nothing to do, and the ingest takes
//! the next sequence number. The open generations of the partitions it meets end with it: their
//! next flush begins another one, after the ingest's.
//!
//! The whole of an ingest is a use of the database, so that closing waits for its end before
//! another opener may come.

use crate::base::bounds::engine_key;
use crate::base::keys::{KEYSPACE_PREFIX_LEN, KeyspaceId, SeqNo};
use crate::base::seeded::seeded;
use crate::base::sync::atomic::Ordering;
use crate::engine::background::Background;
use crate::engine::recent::reads::ReadSet;
use crate::engine::uses::Use;
use crate::engine::write::streams::{SHORT_BYTES, Source, after_first};
use crate::error::{Error, Result};
use crate::jobs::ingest::{Content, IngestPlan, IngestWriter};
use crate::jobs::{JobContext, Needs};
use crate::memtable::{Batch, Lifetime, check_commit_tag, check_put};
use crate::options::Durability;
use crate::record::RecordFile;
use entry::{Expiry, SortedEntry};
use std::io::Read;
use std::sync::Arc;

pub(crate) mod batch;
mod commit;
pub(crate) mod entry;

/// Attempts to commit that let writers go on while something is waited for.
const PATIENT_ROUNDS: usize = 8;

/// An ingest under way. Dropped before it is committed it leaves nothing.
pub(crate) struct Ingest<'a> {
    background: &'a Background,
    /// The data ids of the keyspaces, in the order of their keys.
    keyspaces: Vec<KeyspaceId>,
    /// Of a transaction: nothing is committed if what it has read was written since.
    reads: Option<&'a Arc<ReadSet>>,
    context: JobContext<'a>,
    writer: IngestWriter,
    commit_tag: Option<Vec<u8>>,
    user_bytes: u64,
    /// The edit may be durable.
    commit_tried: bool,
    /// How long values live that say nothing.
    usual: Lifetime,
    /// Why nothing of it can be committed any more.
    failed: Option<Error>,
    /// An entry is being added; a reader of the caller may panic in the middle of it.
    is_writing: bool,
    _use: Use<'a>,
}

impl<'a> Ingest<'a> {
    pub(crate) fn begin(background: &'a Background, keyspace: KeyspaceId) -> Result<Ingest<'a>> {
        let begun = background.ingesting.begin(&background.core)?;
        background.core.health.check_fatal()?;
        background.space.check_space()?;
        Ok(Ingest {
            background,
            keyspaces: vec![keyspace],
            reads: None,
            context: background.job_context(background.until_closed(), Needs::default()),
            writer: IngestWriter::default(),
            commit_tag: None,
            user_bytes: 0,
            commit_tried: false,
            usual: background.write.default_lifetime(keyspace)?,
            failed: None,
            is_writing: false,
            _use: begun,
        })
    }

    /// Commits a commit tag with it.
    pub(crate) fn set_commit_tag(&mut self, commit_tag: &[u8]) -> Result<()> {
        check_commit_tag(commit_tag)?;
        self.commit_tag = Some(commit_tag.to_vec());
        Ok(())
    }

    /// Adds a value, which expires as said, or the removal of the key.
    pub(crate) fn add(&mut self, key: &[u8], value: Option<&[u8]>, expiry: Expiry) -> Result<()> {
        let expiry = value.map_or(Expiry::Never, |_| expiry);
        self.add_content(key, value.into(), expiry)
    }

    /// Adds the value that a reader gives: `len` bytes, or all up to its end.
    pub(crate) fn add_reader(
        &mut self,
        key: &[u8],
        reader: &mut dyn Read,
        len: Option<u64>,
        expiry: Expiry,
    ) -> Result<()> {
        let left = len.map(|len| usize::try_from(len).unwrap_or(usize::MAX));
        check_put(key.len(), left.unwrap_or(0)).map_err(|error| self.fail(error))?;
        let mut source = Source { reader, left };
        let mut first = vec![0; left.unwrap_or(SHORT_BYTES).min(SHORT_BYTES)];
        let filled = source.fill(&mut first).map_err(|error| self.fail(error))?;
        let is_short = filled < SHORT_BYTES;
        first.truncate(filled);
        if is_short {
            return self.add_content(key, Content::Value(&first), expiry);
        }
        let mut fill = after_first(&first, |out| source.fill(out));
        self.add_content(key, Content::Parts(left, &mut fill), expiry)
    }

    /// Adds an entry. After an error nothing of the ingest can be committed.
    pub(crate) fn add_content(
        &mut self,
        key: &[u8],
        content: Content<'_>,
        expiry: Expiry,
    ) -> Result<()> {
        let lifetime = match expiry.lifetime() {
            Lifetime::AsUsual => self.usual,
            said => said,
        };
        let expiry_ms = match lifetime {
            Lifetime::Never => None,
            _ if seeded!(IngestPersists) => None,
            lifetime => lifetime.end(self.now_ms()),
        };
        self.add_until(key, content, expiry_ms)
    }

    /// The time, by which values expire.
    pub(crate) fn now_ms(&self) -> u64 {
        self.background.core.clock.now_ms()
    }

    /// As [`Self::add_content`], with the time at which the value expires.
    pub(crate) fn add_until(
        &mut self,
        key: &[u8],
        content: Content<'_>,
        expiry_ms: Option<u64>,
    ) -> Result<()> {
        self.check_failed()?;
        let clock = &self.background.core.clock;
        if expiry_ms.is_some() && clock.need() {
            self.background.core.work.notify();
        }
        self.is_writing = true;
        let added = self.write(key, content, expiry_ms);
        self.is_writing = false;
        added.map_err(|error| self.fail(error))
    }

    fn write(&mut self, key: &[u8], content: Content<'_>, expiry_ms: Option<u64>) -> Result<()> {
        let keyspace = self.keyspaces.first().copied().unwrap_or_default();
        self.write_engine_key(&engine_key(keyspace, key), content, expiry_ms)
    }

    fn write_engine_key(
        &mut self,
        key: &[u8],
        content: Content<'_>,
        expiry_ms: Option<u64>,
    ) -> Result<()> {
        self.background.core.check_open()?;
        let len = self.writer.add(&self.context, key, content, expiry_ms)?;
        self.user_bytes += (key.len() - KEYSPACE_PREFIX_LEN + len) as u64;
        Ok(())
    }

    /// Nothing of it can be committed any more.
    #[cold]
    fn fail(&mut self, error: Error) -> Error {
        self.failed.get_or_insert_with(|| error.clone());
        error
    }

    fn check_failed(&self) -> Result<()> {
        match &self.failed {
            Some(error) => Err(error.clone()),
            None if self.is_writing => {
                let what = "the reader of a value has panicked";
                Err(Error::invalid(what, "begin another ingest"))
            }
            None => Ok(()),
        }
    }

    /// Takes all entries, and commits them.
    pub(crate) fn commit_all<T: SortedEntry, E: From<Error>>(
        mut self,
        entries: impl IntoIterator<Item = std::result::Result<T, E>>,
        commit_tag: Option<&[u8]>,
    ) -> std::result::Result<u64, E> {
        commit_tag.map_or(Ok(()), |commit_tag| self.set_commit_tag(commit_tag))?;
        for entry in entries {
            let entry = entry?;
            self.add(entry.key(), entry.value(), entry.expiry())?;
        }
        Ok(self.commit()?)
    }

    /// Makes all of it visible and durable; says how many records there are.
    pub(crate) fn commit(mut self) -> Result<u64> {
        let background = self.background;
        background.core.check_open()?;
        self.check_failed()?;
        let metas = self.writer.finish()?;
        if metas.is_empty() {
            return self.commit_tag_alone();
        }
        let open = |meta| {
            Arc::new(RecordFile::open(
                &background.core.store,
                meta,
                &background.core.cache,
            ))
        };
        if metas.len() >= usize::from(u16::MAX) {
            let what = format!("the stream makes {} tables, more than slots", metas.len());
            return Err(Error::invalid(what, "ingest it in parts"));
        }
        let mut plan = IngestPlan::new(metas.into_iter().map(open).collect());
        // What a flush gives up can be compared no longer: most is compared before it.
        let reads = self.reads;
        let compare = || reads.map_or(Ok(()), |reads| background.write.compare(reads));
        let is_alone = reads.is_some_and(|reads| reads.is_alone());
        for round in 0.. {
            background.write.await_turn(is_alone);
            compare()?;
            background.write.flush_memtables()?;
            background.core.work.notify();
            let has_room = || self.has_room(&background.catalog.lock(), &plan);
            background
                .core
                .wait_while(has_room, || self.check_room(&plan))?;
            plan.divide(&Arc::clone(&background.read.view.load().version))?;
            compare()?;
            let patient = round < PATIENT_ROUNDS;
            if self.try_commit(&mut plan, patient)? {
                break;
            }
        }
        let counters = &background.core.counters;
        counters.ingests.fetch_add(1, Ordering::Relaxed);
        counters
            .ingest_bytes
            .fetch_add(plan.bytes(), Ordering::Relaxed);
        counters
            .user_bytes
            .fetch_add(self.user_bytes, Ordering::Relaxed);
        background.core.work.notify();
        Ok(self.writer.records())
    }

    fn commit_tag_alone(&self) -> Result<u64> {
        if let Some(commit_tag) = &self.commit_tag {
            let mut batch = Batch::new();
            batch.set_commit_tag(commit_tag);
            self.background
                .write
                .write(&batch, Durability::Sync.into(), None)?;
        }
        Ok(0)
    }

    /// Commits under the commit lock. False: something is to be waited for without it first.
    fn try_commit(&mut self, plan: &mut IngestPlan, patient: bool) -> Result<bool> {
        let background = self.background;
        // A writer that may not wait should not meet the lock.
        let _delayed = background.write.queue.delay();
        let mut commit = background.write.commit.lock();
        background.core.check_open()?;
        let filled = commit.memtable.table.bytes() as u64;
        let much = filled > background.core.memory.plan.memtable_bytes / 8;
        if patient && (background.core.health.is_suspended() || much) {
            return Ok(false);
        }
        self.empty_memtables(&mut commit)?;
        loop {
            let mut catalog = background.catalog.lock();
            if !self.has_room(&catalog, plan) {
                drop(catalog);
                if patient {
                    return Ok(false);
                }
                let has_room = || self.has_room(&background.catalog.lock(), plan);
                background
                    .core
                    .wait_while(has_room, || self.check_room(plan))?;
            } else if !plan.is_complete(&catalog.version) {
                // A partition was split. Its sides are looked at without the lock.
                let version = Arc::clone(&catalog.version);
                drop(catalog);
                plan.divide(&version)?;
            } else {
                let keyspaces = &catalog.version.keyspaces;
                if !self.keyspaces.iter().all(|data| keyspaces.holds(*data)) {
                    return Err(Error::no_such_keyspace("the keyspace is gone"));
                }
                if let Some(reads) = self.reads {
                    let visible = SeqNo(background.read.visible_seq.load(Ordering::Acquire));
                    let (view, recent) = (background.read.view.load(), &background.write.recent);
                    let checked = recent.check(reads, &view, visible, std::iter::empty());
                    if reads.take_postponed() {
                        return Ok(false);
                    }
                    checked?;
                }
                self.commit_tried = true;
                let commit_tag = self.commit_tag.take();
                self.commit_ingest(&mut commit, &mut catalog, plan, commit_tag)
                    .inspect_err(|_| background.catalog.quarantine(&mut catalog, &self.context))?;
                return Ok(true);
            }
        }
    }
}

impl Drop for Ingest<'_> {
    fn drop(&mut self) {
        if !self.background.core.process.is_this() {
            // The files are the parent's.
            std::mem::forget(std::mem::take(&mut self.writer));
            return;
        }
        if !self.commit_tried {
            self.background
                .core
                .store
                .remove_files(self.context.begun.take());
            self.background.space.probe_space();
        }
        // What was taken back for it can be lent again.
        self.background.core.work.notify();
    }
}

#[cfg(test)]
mod tests;
