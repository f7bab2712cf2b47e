//! Bringing a directory back to the state of its last acknowledged write (paper §III-G).
//!
//! CURRENT → manifest → version → WAL → hash indexes from the key sections. Nothing is written or
//! removed here: opening the database does that afterwards, so a recovery that fails or is
//! cut changes nothing.

mod allowance;
mod wal;

use super::progress::Progress;
use crate::base::keys::FileNumber;
use crate::base::seeded::seeded;
use crate::error::{Error, Result};
use crate::events::{OpeningPhase, RecoveryReport};
use crate::hash_index::HashIndex;
use crate::jobs::flush::index_build::build_index;
use crate::jobs::flush::placing::GenerationLimits;
use crate::key_table::{KeyTable, ReadCache};
use crate::version::edit::VersionEdit;
use crate::version::file_names::{DirSurvey, FileName};
use crate::version::{ApplyContext, Generation, Partition, Version};
use crate::vfs::file_store::FileStore;
use std::path::Path;
use std::sync::Arc;

pub(crate) use allowance::Allowance;
pub(crate) use wal::{Replayed, WalReplay, check_keyspace, known_op};

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
