//! Properties by name.

use super::database::Database;
use crate::boundary::args::{Shared, Text};
use crate::boundary::capi;
use crate::boundary::memory::malloc_copy;
use std::ffi::c_char;
use unikv::{Db, Stats};

/// LevelDB's levels, for those who ask by number.
const LEVELS: usize = 7;
const LEVEL_PREFIX: &str = "num-files-at-level";

/// The value of a property, if there is one of that name.
fn value(db: &Db, name: &str) -> Option<String> {
    let name = name.strip_prefix("leveldb.")?;
    if let Some(level) = name.strip_prefix(LEVEL_PREFIX) {
        let level = level.parse().ok().filter(|level| *level < LEVELS)?;
        return Some(files_at_level(&db.stats(), level).to_string());
    }
    match name {
        "stats" => Some(stats_in_words(&db.stats())),
        "sstables" => Some(tables_in_words(&db.stats())),
        "approximate-memory-usage" => Some(db.stats().memory.total().to_string()),
        _ => None,
    }
}

/// The UnsortedStore stands for level 0, the SortedStore for level 1.
fn files_at_level(stats: &Stats, level: usize) -> usize {
    match level {
        0 => stats
            .partitions
            .iter()
            .map(|partition| partition.tables)
            .sum(),
        1 => stats.key_tables,
        _ => 0,
    }
}

const MIB: f64 = 1048576.0;

fn stats_in_words(stats: &Stats) -> String {
    let mib = |bytes: u64| bytes as f64 / MIB;
    let lines = [
        format!(
            "UniKV: {} partitions, {:.1} MiB on disk",
            stats.partitions.len(),
            mib(stats.disk_bytes)
        ),
        format!(
            "UnsortedStore: {} tables, {:.1} MiB, {} records",
            files_at_level(stats, 0),
            mib(stats.unsorted_bytes),
            stats.unsorted_records
        ),
        format!(
            "SortedStore: {} key tables, {:.1} MiB",
            stats.key_tables,
            mib(stats.key_table_bytes)
        ),
        format!(
            "record files: {}, {:.1} MiB, of which {:.1} MiB are live",
            stats.record_files,
            mib(stats.record_file_bytes),
            mib(stats.record_live_bytes)
        ),
        format!(
            "flushes: {}, merges: {}, garbage collections: {}, splits: {}",
            stats.flushes, stats.merges, stats.gcs, stats.splits
        ),
        format!(
            "written: {:.1} MiB for {:.1} MiB of the user's, read: {:.1} MiB",
            mib(stats.written_bytes()),
            mib(stats.user_bytes_written),
            mib(stats.read_bytes)
        ),
        format!(
            "writers waited {} times, for {:.3} s in all",
            stats.pauses + stats.stalls,
            (stats.pause_time + stats.stall_time).as_secs_f64()
        ),
    ];
    lines.join("\n") + "\n"
}

fn tables_in_words(stats: &Stats) -> String {
    let lines = stats.partitions.iter().map(|part| {
        format!(
            "partition {} of {} from \"{}\": {} tables with {} bytes, {} key tables with {} bytes\n",
            part.id,
            part.keyspace.as_deref().unwrap_or("a dropped keyspace"),
            part.start.escape_ascii(),
            part.tables,
            part.unsorted_bytes,
            part.key_tables,
            part.key_table_bytes,
        )
    });
    lines.collect()
}

capi! { functions:
    /// The value of a property, to be freed; NULL if there is none of that name. There are
    /// `leveldb.stats` and `leveldb.sstables`, texts for a person; `leveldb.num-files-at-level<N>`,
    /// of which level 0 is the UnsortedStore and level 1 the SortedStore; and
    /// `leveldb.approximate-memory-usage`, in bytes.
    fn unikv_property_value(db: Shared<Database>, propname: Text) -> *mut c_char {
        match value(db.db()?, propname.str().unwrap_or_default()) {
            Some(value) => malloc_copy(value.as_bytes())?,
            None => std::ptr::null_mut(),
        }
    }
}
