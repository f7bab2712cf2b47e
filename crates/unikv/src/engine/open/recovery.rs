//! Bringing a directory back to the state of its last acknowledged write (paper §III-G).
//!
//! CURRENT → manifest → version → WAL → hash indexes from the key sections. Nothing is written or
//! removed here: opening the database does that afterwards, so a recovery that fails or is
//! cut changes nothing.

use super::progress::Progress;
use crate::base::keys::{FileNumber, KeyspaceId, Kind, PartitionId, SeqNo};
use crate::base::seeded::seeded;
use crate::error::{Error, Result};
use crate::events::{OpeningPhase, RecoveryReport};
use crate::hash_index::HashIndex;
use crate::jobs::flush::index_build::build_index;
use crate::jobs::flush::placing::{FlushTarget, GenerationLimits};
use crate::key_table::{KeyTable, ReadCache};
use crate::log::{ReplayOutcome, WalWrite, replay};
use crate::memtable::{ArenaPool, BadOp, BatchOp, Memtable, OpsIter, Reserved, SortedBatch};
use crate::partition::{LargeFiles, MemtableHandle};
use crate::record::External;
use crate::version::edit::VersionEdit;
use crate::version::file_names::{self, DirSurvey, FileName};
use crate::version::{ApplyContext, Generation, Partition, Version};
use crate::vfs::file_store::FileStore;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const NEWER: &str = "open it with the newer release that wrote it";

/// Builds the version that the edits of a manifest describe. Its hash indexes are empty.
pub(crate) fn build_version(
    store: &Arc<FileStore>,
    cache: &Arc<ReadCache>,
    manifest: &Path,
    edits: impl IntoIterator<Item = Result<VersionEdit>>,
) -> Result<Version> {
    let mut context = ApplyContext {
        store,
        cache,
        index: &mut |_, _| None,
        unlisted: &|_| None,
    };
    let mut version = Version::default();
    for edit in edits {
        let applied = version.apply_in_place(&edit?, &mut context);
        applied.map_err(|what| Error::corruption(manifest, 0, what))?;
    }
    check_version(&version, manifest)?;
    Ok(version)
}

/// Refuses a version that contradicts itself, or that this release cannot read.
pub(crate) fn check_version(version: &Version, manifest: &Path) -> Result<()> {
    let sound = version
        .check_pointers()
        .and_then(|()| version.check_tables());
    sound.map_err(|what| Error::corruption(manifest, 0, what))?;
    check_features(version)
}

/// Refuses what the formats provide for and this release does not read.
fn check_features(version: &Version) -> Result<()> {
    let refuse = |path: &Path, what: &str| {
        Err(Error::incompatible(
            path,
            format!("the file uses {what}"),
            NEWER,
        ))
    };
    for file in version.record_files().iter() {
        if file.meta().has_range_deletes && file.meta().ranges.is_none() {
            return refuse(file.path(), "range deletes");
        }
    }
    let of_runs = version.scan_runs().flat_map(|run| run.tables());
    for table in version.key_tables().chain(of_runs) {
        if table.meta().has_range_deletes {
            return refuse(table.path(), "range deletes");
        }
        if table.meta().clip.is_some() {
            return refuse(table.path(), "tables shared by partitions");
        }
    }
    Ok(())
}

/// Forgets scan runs whose files are not there, whole: the key sections hold the same.
pub(crate) fn forget_lost_runs(store: &FileStore, version: &mut Version) {
    let is_there = |table: &Arc<KeyTable>| {
        let len = store.env().vfs.len(table.path());
        len.is_ok_and(|len| len == table.meta().len)
    };
    version.retain_scan_runs(|run| run.tables().iter().all(is_there));
}

/// Makes sure that every listed file is there, whole.
pub(crate) fn check_files(store: &FileStore, version: &Version, progress: &Progress) -> Result<()> {
    let records = version
        .record_files()
        .iter()
        .map(|f| (f.path(), f.meta().len));
    let keys = version.key_tables().map(|t| (t.path(), t.meta().len));
    let all = (version.record_files().len() + version.key_tables().count()) as u64;
    for (nth, (path, len)) in (0..).zip(records.chain(keys)) {
        progress.report(OpeningPhase::Files, nth, all);
        match store.env().vfs.len(path) {
            Ok(found) if found == len => {}
            Ok(found) => {
                let what = format!("the file has {found} bytes where the manifest lists {len}");
                return Err(Error::corruption(path, found.min(len), what));
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                let what = "the manifest lists this file, and it is missing";
                return Err(Error::corruption(path, 0, what));
            }
            Err(e) => return Err(Error::io("look at", path, e)),
        }
    }
    Ok(())
}

/// Rebuilds the hash index of each generation from its tables' key sections, and reads their range
/// tombstones.
pub(crate) fn rebuild_indexes(
    version: &mut Version,
    limits: GenerationLimits,
    report: &mut RecoveryReport,
    progress: &Progress,
) -> Result<()> {
    let seed = version.counters.hash_seed;
    let generations = version.partitions().iter().flat_map(|p| &p.generations);
    let to_index = generations.filter(|generation| !generation.is_ingested());
    let all = to_index.map(|generation| generation.records()).sum();
    version.read_ranges();
    version.replace_indexes(|partition, generation| {
        let newest = partition.generations.first();
        let is_forgotten =
            seeded!(FrozenUnindexed) && newest.is_some_and(|n| n.id != generation.id);
        if generation.is_ingested() || is_forgotten {
            return Ok(Arc::clone(&generation.index));
        }
        progress.report(OpeningPhase::Indexes, report.index_records, all);
        let index = index_generation(partition, generation, limits, seed)?;
        report.index_records += index.len() as u64;
        Ok(index)
    })
}

/// The newest generation of each partition goes on taking tables.
pub(crate) fn flush_targets(
    version: &Version,
    limits: GenerationLimits,
) -> HashMap<PartitionId, FlushTarget> {
    let newest = version
        .partitions()
        .iter()
        .filter_map(|p| Some((p.id, p.generations.first()?)))
        .filter(|(_, newest)| !newest.is_ingested());
    let targets = newest.map(|(id, newest)| (id, FlushTarget::resume(newest)));
    targets
        .filter(|(_, target)| !target.is_full(limits))
        .collect()
}

/// The hash index of a generation of `partition`, from its tables' key sections.
pub(crate) fn index_generation(
    partition: &Partition,
    generation: &Generation,
    limits: GenerationLimits,
    seed: u64,
) -> Result<Arc<HashIndex>> {
    let newest = partition.generations.first();
    let records = generation.records() as usize;
    // The newest generation goes on growing.
    let mut capacity = if newest.is_some_and(|newest| newest.id == generation.id) {
        limits.capacity_for(records, generation.bytes(), 0)
    } else {
        records + records / 8
    };
    // Full at the first try if keys share their buckets, or if shares are estimated too low; then
    // more room helps, for the records are known to have fitted before. Where it does not, a table
    // has a slot or a record has an offset that no index can hold.
    let most = 64 * (records + 1024).max(capacity);
    while capacity <= most {
        if let Some(index) = build_index(generation, partition.range(), seed, capacity)? {
            return Ok(Arc::new(index));
        }
        capacity = 2 * capacity.max(64);
    }
    let first = generation.tables().next().map(|(_, table)| table.path());
    let what = "the tables listed beside this one cannot be indexed";
    Err(Error::corruption(
        first.unwrap_or(Path::new("MANIFEST")),
        0,
        what,
    ))
}

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
        }
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
            if let Some(mark) = write.host_mark {
                memtable.table.note_mark(write.last_seq(), mark);
            }
            Ok(())
        };
        let low_water = version.counters.wal_low_water;
        let outcome = replay::replay(self.store, &segments, low_water, &mut sink)?;
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
        let (large, mut ranges) = (LargeFiles::default(), 0);
        let last_keyspace = version.counters.last_keyspace;
        let expires = self.each_op(segment, &large, write, last_keyspace, |_, op| {
            ranges += usize::from(op.kind == Kind::RangeDelete);
        })?;
        let len = write.count as usize;
        let bytes = SortedBatch::memory_bytes(write.ops.len(), len, ranges);
        let reserved = Reserved::new(self.pool, bytes);
        let path = || self.store.dir().join(file_names::wal(segment));
        let batch = SortedBatch::new(write.ops, len, reserved);
        let batch = batch.map_err(|bad| bad.in_log(&path()))?;
        let table = Memtable::of_batch(batch, write.base_seq, version.counters.hash_seed);
        if let Some(mark) = write.host_mark {
            table.note_mark(write.last_seq(), mark);
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

/// The numbers of the WAL segments in a directory, ascending.
pub(crate) fn wal_segments(survey: &DirSurvey) -> Vec<FileNumber> {
    let wal = |name: &FileName| match name {
        FileName::Wal(number) => Some(*number),
        _ => None,
    };
    let mut segments: Vec<FileNumber> = survey.names.iter().filter_map(wal).collect();
    segments.sort_unstable();
    segments
}

#[cfg(test)]
mod tests;
