//! Large values: their writers put them into record files before the commit, so log, memtable and
//! table hold an [`External`] only. A value of 1 GiB takes no memory but its caller's.
//!
//! Invariants:
//! - File and name are durable before the WAL record is written, in every durability mode: no power
//!   cut can take a file that the log names.
//! - The file is with the memtable ([`LargeFiles`]) before the record is in the log. From then on
//!   only that memtable's flush decides about it, as a failed write may have left its record there:
//!   it lists the file if a kept version names it, else removes it once its edit has put the record
//!   below the log's low-water mark.
//! - Before that it is in `WritePath::staged_large`; the writer removes it if the write fails.
//! - What neither a flush lists nor the log names is swept at the next opening.

pub(crate) mod staging;

use crate::base::bounds::with_engine_key;
use crate::base::keys::{FileNumber, KeyspaceId, Kind};
use crate::engine::recent::reads::ReadSet;
use crate::engine::write::WritePath;
use crate::engine::write::blobs::staging::{Staged, Staging};
use crate::engine::write::queue::Write;
use crate::error::{Error, Result};
use crate::memtable::{Batch, BatchOp, Lifetime, OpsIter, check_put};
use crate::options::WriteOptions;
use crate::partition::{LargeFiles, MemtableHandle};
use crate::record::{External, RecordFile, RecordFileMeta};
use std::sync::Arc;

/// Values of a batch larger than a memtable that stay in it.
const LARGE_BATCH_VALUE_BYTES: usize = 256;
/// What is left of a batch takes at most this part of the memory budget, and may always take so
/// much.
const BATCH_PART: u64 = 8;
const LEAST_BATCH_BYTES: u64 = 1 << 20;
/// Values of this many memtables may be with one: then it is sealed.
const MEMTABLES_OF_LARGE: u64 = 8;

impl WritePath {
    /// Values of at least this many bytes are large.
    pub(super) fn large_value_bytes(&self) -> usize {
        usize::try_from(self.core.memory.plan.memtable_bytes / 4).unwrap_or(usize::MAX)
    }

    /// Whether the memtable is to be sealed for the large values that are with it.
    pub(crate) fn is_full_of_large(&self, memtable: &MemtableHandle) -> bool {
        memtable.large.bytes() >= MEMTABLES_OF_LARGE * self.core.memory.plan.memtable_bytes
    }

    /// Commits one put of a large value, which is not copied into a batch.
    pub(super) fn put_large(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        value: &[u8],
        options: WriteOptions,
    ) -> Result<()> {
        self.core.check_open()?;
        check_put(key.len(), value.len())?;
        let expiry_ms = if self.may_expire(options.ttl) {
            self.expiries(options.ttl)?.of(keyspace, Lifetime::AsUsual)
        } else {
            None
        };
        with_engine_key(keyspace, key, |key| {
            let op = BatchOp {
                kind: Kind::Put,
                key,
                value,
                expiry_ms,
            };
            self.write_without_large(std::iter::once(op), &Batch::new(), 0, options, None)
        })
    }

    /// Values of a batch of at least this many bytes are large.
    pub(super) fn least_large(&self, batch: &Batch) -> usize {
        let least = self.large_value_bytes();
        if batch.byte_len() as u64 > self.core.memory.plan.memtable_bytes {
            least.min(LARGE_BATCH_VALUE_BYTES)
        } else {
            least
        }
    }

    /// What keys and small values of a batch may take in memory.
    pub(crate) fn most_batch_bytes(&self) -> u64 {
        (self.core.memory.plan.budget_bytes / BATCH_PART).max(LEAST_BATCH_BYTES)
    }

    /// Whether the keys and small values of a batch are more than may be in memory.
    #[inline]
    pub(crate) fn exceeds_memory(&self, batch: &Batch) -> bool {
        batch.byte_len() as u64 > self.most_batch_bytes() && self.leaves_too_much(batch)
    }

    #[cold]
    fn leaves_too_much(&self, batch: &Batch) -> bool {
        let least = self.least_large(batch);
        let ops = OpsIter::new(batch.ops_bytes()).map_while(std::result::Result::ok);
        let left = |op: BatchOp<'_>| {
            let is_large = op.kind == Kind::Put && op.value.len() >= least;
            Batch::op_len(&op, is_large) as u64
        };
        ops.map(left).sum::<u64>() > self.most_batch_bytes()
    }

    /// Commits a batch, whose puts of at least `least` bytes go to files first.
    pub(super) fn write_apart(
        &self,
        batch: &Batch,
        least: usize,
        options: WriteOptions,
        reads: Option<&Arc<ReadSet>>,
    ) -> Result<()> {
        let ops = OpsIter::new(batch.ops_bytes()).map_while(std::result::Result::ok);
        debug_assert_eq!(ops.clone().count(), batch.len());
        self.write_without_large(ops, batch, least, options, reads)
    }

    /// Commits operations, whose puts of at least `least` bytes go to files first, with the commit
    /// tag of `batch`, and for its database.
    fn write_without_large<'a>(
        &self,
        ops: impl Iterator<Item = BatchOp<'a>> + Clone,
        batch: &Batch,
        least: usize,
        options: WriteOptions,
        reads: Option<&Arc<ReadSet>>,
    ) -> Result<()> {
        self.space.check_space()?;
        let ops = ops.map(|op| {
            let is_large = op.kind == Kind::Put && op.value.len() >= least;
            (op, is_large)
        });
        // The next opener of the directory may give the same numbers to files.
        let _use = self.staging.begin(&self.core)?;
        let mode = self.mode(options);
        let mut staged = self.stage(ops, mode.no_wait)?;
        if let Some(commit_tag) = batch.commit_tag() {
            staged.batch.set_commit_tag(commit_tag);
        }
        if let Some(owner) = batch.owner() {
            staged.batch.belong_to(owner);
        }
        let written = self.commit(Write {
            batch: &staged.batch,
            mode,
            reads,
        });
        if written.is_err() {
            // Those that are with a memtable may be named in the log, and stay.
            self.unstage(&staged.files);
        }
        written
    }

    /// Writes the large values of the operations to files, which are durable then.
    fn stage<'a>(
        &self,
        ops: impl Iterator<Item = (BatchOp<'a>, bool)> + Clone,
        no_wait: bool,
    ) -> Result<Staged> {
        let mut staging = Staging::begin(self, no_wait)?;
        let staged = staging.stage(ops);
        staged.inspect_err(|error| self.space.note_full(error))
    }

    /// Gives up files that are with no memtable.
    pub(super) fn unstage(&self, files: &[FileNumber]) {
        let staged = files.iter().filter_map(|n| self.staged_large.take(*n));
        self.core
            .store
            .remove_files(staged.map(|file| file.path().to_owned()));
    }

    /// Puts the files of the batches' large values with the memtable. From here on they may be
    /// named in the log.
    pub(crate) fn adopt_large<'a>(
        &self,
        memtable: &MemtableHandle,
        batches: impl Iterator<Item = &'a Batch>,
    ) -> Result<()> {
        batches
            .map(files_of)
            .try_for_each(|files| self.adopt_files(&memtable.large, &files))
    }

    /// Puts files of large values with those of a memtable.
    pub(super) fn adopt_files(&self, large: &LargeFiles, files: &[FileNumber]) -> Result<()> {
        for number in files {
            if let Some(file) = self.staged_large.take(*number) {
                large.insert(file);
            } else if large.get(*number).is_none() {
                let what = format!("the file {} of a large value is unknown", number.0);
                return Err(Error::internal(what));
            }
        }
        Ok(())
    }
}

/// The files of a batch's large values.
pub(super) fn files_of(batch: &Batch) -> Vec<FileNumber> {
    let mut files = Vec::new();
    if batch.externals() == 0 {
        return files;
    }
    let ops = OpsIter::new(batch.ops_bytes()).filter_map(std::result::Result::ok);
    for op in ops.filter(|op| op.kind == Kind::External) {
        let file = External::decode(op.value).map(|external| external.pointer.file);
        files.extend(file.filter(|file| files.last() != Some(file)));
    }
    files
}

/// Those of the files of large values that `tables` name, to be listed with them, and the others.
pub(crate) fn named_by(
    tables: &[RecordFileMeta],
    large: impl Iterator<Item = Arc<RecordFile>>,
) -> (Vec<RecordFileMeta>, Vec<Arc<RecordFile>>) {
    let named = |number: FileNumber| {
        let mut refs = tables.iter().flat_map(|table| &table.refs);
        refs.any(|refs| refs.file == number)
    };
    let (named, others): (Vec<_>, Vec<_>) = large.partition(|file| named(file.meta().number));
    let named = named.iter().map(|file| file.meta().clone()).collect();
    (named, others)
}

#[cfg(test)]
mod tests;
