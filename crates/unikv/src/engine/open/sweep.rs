//! Removes the files that an earlier process has left behind: outputs of jobs that did not commit,
//! old manifests, logs whose writes are in tables.
//!
//! Only under the lock, only names of this format with this database's id or a torn header, and
//! only after the new manifest is durable and everything it lists has been seen. While a recovered
//! manifest stays, what is to go waits in quarantine for the renewal.

use crate::base::keys::FileNumber;
use crate::base::seeded::seeded;
use crate::partition::MemtableHandle;
use crate::version::Version;
use crate::version::file_names::{self, DirSurvey, FileName};
use crate::vfs::file_store::FileStore;
use std::collections::HashSet;
use std::path::PathBuf;

/// What is still needed.
pub(super) struct Needed<'a> {
    pub(super) version: &'a Version,
    pub(super) manifest: FileNumber,
    /// The first segment of the log that is.
    pub(super) low_water: FileNumber,
    /// Segments after it that are not.
    pub(super) abandoned: &'a [FileNumber],
    pub(super) memtables: &'a [MemtableHandle],
    /// What those need that follow the changes: segments of the log, and record files.
    pub(super) window: (&'a [FileNumber], &'a [FileNumber]),
}

/// Removes the files of this database that nothing lists, and returns their names. What cannot be
/// removed stays for the next opening, and so does what belongs to another database.
pub(super) fn sweep(store: &FileStore, survey: &DirSurvey, needed: &Needed<'_>) -> Vec<String> {
    let names = unneeded(store, survey, needed).map(|name| name.to_string());
    names
        .filter(|name| store.env().vfs.remove(&store.dir().join(name)).is_ok())
        .collect()
}

/// What [`sweep`] would remove of the files with numbers, which no later file gets. Other names
/// may be those of new files by the time they can be removed.
pub(super) fn to_quarantine(
    store: &FileStore,
    survey: &DirSurvey,
    needed: &Needed<'_>,
) -> Vec<PathBuf> {
    unneeded(store, survey, needed)
        .filter(|name| name.number().is_some())
        .map(|name| store.dir().join(name.to_string()))
        .collect()
}

fn unneeded<'a>(
    store: &'a FileStore,
    survey: &'a DirSurvey,
    needed: &'a Needed<'_>,
) -> impl Iterator<Item = FileName> + 'a {
    let of_runs = needed.version.scan_runs().flat_map(|run| run.tables());
    let key_tables = needed.version.key_tables().chain(of_runs);
    let key_tables: HashSet<FileNumber> = key_tables.map(|t| t.meta().number).collect();
    let is_large = |n| needed.memtables.iter().any(|m| m.large.get(n).is_some());
    let (past, kept) = needed.window;
    let is_record =
        move |n| needed.version.record_file(n).is_some() || is_large(n) || kept.contains(&n);
    survey.names.iter().copied().filter(move |name| {
        let stays = match name {
            FileName::Current | FileName::Lock | FileName::Ballast => true,
            // Only a repair opens a directory that holds them, and it removes them itself.
            FileName::Repairing | FileName::Spill(_) => true,
            FileName::Manifest(n) => *n == needed.manifest,
            FileName::Wal(n) if seeded!(SweepNeededLog) => *n > needed.low_water,
            FileName::Wal(n) if past.contains(n) => true,
            FileName::Wal(n) => *n >= needed.low_water && !needed.abandoned.contains(n),
            FileName::Record(n) => is_record(*n),
            FileName::KeyTable(n) => key_tables.contains(n),
            // Replaced when there are better ones.
            FileName::CacheHints | FileName::Visible => true,
            // Those of a process that has died.
            FileName::Stats | FileName::StatsTemp => false,
            FileName::Temp | FileName::CacheHintsTemp | FileName::VisibleTemp => false,
        };
        let path = store.dir().join(name.to_string());
        let vfs = &*store.env().vfs;
        !stays && !file_names::is_of_another_database(vfs, &path, store.database())
    })
}
