//! Choosing what garbage collection reclaims (paper §III-C "Garbage collection", HashKV §3.3).
//!
//! Nobody decrements: the live bytes of a value log are the sum of what key tables say they point to
//! in it (see [`crate::version::Version::live`]). What is left of the file is dead. The victims are
//! the value logs with most dead bytes per byte to copy, several at a time, so that one pass over
//! the key tables pays. The pass itself is a merge that moves the victims' live records (see
//! [`super::merge`]): it rides on the merge of a generation when one is due, and runs alone when
//! space presses. It changes pointers, never sequence numbers.
//!
//! Tables of an UnsortedStore are no victims: their merge decides what is live in them. Nor are files
//! of large values that such a table names: the pass would not find its pointers.

use crate::base::file_header::HEADER_LEN;
use crate::base::keys::{FileNumber, PartitionId};
use crate::record::RecordFile;
use crate::version::{Partition, Version};
use std::collections::HashSet;
use std::sync::Arc;

/// Victims of one pass: bounds its read buffers.
const MAX_VICTIMS: usize = 64;
/// Live bytes that one pass copies at most, beyond its first victim: bounds how long it runs and how
/// much space it needs beside its victims.
const MAX_COPIED_BYTES: u64 = 1 << 30;

/// What garbage collection is for: bytes on disk over live bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpaceLimit {
    pub(crate) max_space_amp: f64,
}

/// How hard space presses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pressure {
    /// Half of the allowed garbage is there: reclaim if a merge passes by anyway.
    Riding,
    /// Most of it is there: reclaim now.
    Alone,
}

impl Pressure {
    /// The share of the allowed garbage at which reclaiming begins.
    fn share(self) -> f64 {
        match self {
            Pressure::Riding => 0.5,
            Pressure::Alone => 0.8,
        }
    }
}

/// What the files of the SortedStores hold. Only records count: the key sections and footers of value
/// logs go with their files, and counting them would set garbage collection on files without
/// garbage, again and again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Space {
    /// Bytes of records in value logs.
    pub(crate) log_bytes: u64,
    /// Bytes of records in them that key tables point to.
    pub(crate) live_bytes: u64,
    /// Bytes of key tables, small values included.
    pub(crate) key_table_bytes: u64,
}

impl Space {
    /// The space of a version's SortedStores.
    pub(crate) fn of(version: &Version) -> Space {
        let live = version.live();
        let mut space = Space::default();
        for file in value_logs(version) {
            space.log_bytes += record_bytes(file);
            space.live_bytes += live.get(&file.meta().number).map_or(0, |live| live.bytes);
        }
        space.key_table_bytes = version.key_tables().map(|t| t.meta().len).sum();
        space
    }

    /// Bytes of garbage.
    pub(crate) fn dead_bytes(&self) -> u64 {
        self.log_bytes.saturating_sub(self.live_bytes)
    }

    /// Bytes of garbage within the limit.
    pub(crate) fn allowed_garbage(&self, limit: SpaceLimit) -> u64 {
        let live = self.live_bytes + self.key_table_bytes;
        (live as f64 * (limit.max_space_amp - 1.0)) as u64
    }

    /// Garbage at which reclaiming begins under `pressure`.
    pub(crate) fn begins_at(&self, limit: SpaceLimit, pressure: Pressure) -> u64 {
        (self.allowed_garbage(limit) as f64 * pressure.share()) as u64
    }

    /// Bytes to reclaim under `pressure`; zero while there is little enough garbage.
    fn excess(&self, limit: SpaceLimit, pressure: Pressure) -> u64 {
        let allowed = self.begins_at(limit, pressure);
        let dead = self.dead_bytes();
        if dead <= allowed {
            0
        } else {
            dead - allowed / 2
        }
    }
}

/// Bytes of a file's records.
fn record_bytes(file: &RecordFile) -> u64 {
    file.meta().records_end.saturating_sub(HEADER_LEN as u64)
}

/// The record files that are no tables of an UnsortedStore.
pub(crate) fn value_logs(version: &Version) -> impl Iterator<Item = &Arc<RecordFile>> {
    let tables = version.tables();
    let files = version.record_files().iter();
    files.filter(move |file| !tables.contains(&file.meta().number))
}

/// The value logs to be reclaimed under `pressure`, best first; none while space is in bounds.
pub(crate) fn victims(
    version: &Version,
    limit: SpaceLimit,
    pressure: Pressure,
) -> Vec<Arc<RecordFile>> {
    let excess = Space::of(version).excess(limit, pressure);
    if excess == 0 {
        return Vec::new();
    }
    let live = version.live();
    let live_bytes =
        |file: &Arc<RecordFile>| live.get(&file.meta().number).map_or(0, |live| live.bytes);
    let unmerged = named_by_tables(version);
    let mut files: Vec<(u64, u64, &Arc<RecordFile>)> = value_logs(version)
        .filter(|file| !unmerged.contains(&file.meta().number))
        .map(|file| {
            let live = live_bytes(file);
            (record_bytes(file).saturating_sub(live), live, file)
        })
        .collect();
    // Most dead bytes per live byte first, compared without division.
    files.sort_unstable_by(|a, b| {
        let ratio = |x: u64, y: u64| u128::from(x) * u128::from(y + 1);
        ratio(b.0, a.1).cmp(&ratio(a.0, b.1))
    });
    let (mut reclaimed, mut copied) = (0, 0);
    let mut chosen = Vec::new();
    for (dead, live, file) in files {
        if dead == 0 || reclaimed >= excess || chosen.len() >= MAX_VICTIMS {
            break;
        }
        if copied + live > MAX_COPIED_BYTES && !chosen.is_empty() {
            continue;
        }
        reclaimed += dead;
        copied += live;
        chosen.push(Arc::clone(file));
    }
    chosen
}

/// The record files in which tables of UnsortedStores have large values.
fn named_by_tables(version: &Version) -> HashSet<FileNumber> {
    let tables = version.tables();
    let files = version.record_files().iter();
    let refs = files
        .filter(|file| tables.contains(&file.meta().number))
        .flat_map(|file| &file.meta().refs);
    refs.map(|refs| refs.file).collect()
}

/// The partition, among those that are free, in which most of the victims' live records are.
pub(crate) fn partition_of<'a>(
    version: &'a Version,
    victims: &[Arc<RecordFile>],
    is_free: impl Fn(PartitionId) -> bool,
) -> Option<&'a Arc<Partition>> {
    let numbers: HashSet<FileNumber> = victims.iter().map(|file| file.meta().number).collect();
    let bytes_in = |partition: &Partition| {
        let refs = partition.key_tables.iter().flat_map(|t| &t.meta().refs);
        refs.filter(|refs| numbers.contains(&refs.file))
            .map(|refs| refs.bytes)
            .sum::<u64>()
    };
    let free = version.partitions().iter().filter(|p| is_free(p.id));
    let found = free
        .map(|p| (bytes_in(p), p))
        .max_by_key(|(bytes, _)| *bytes);
    found
        .filter(|(bytes, _)| *bytes > 0)
        .map(|(_, partition)| partition)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excess_begins_earlier_when_a_merge_passes_by() {
        let space = Space {
            log_bytes: 1300,
            live_bytes: 1000,
            key_table_bytes: 0,
        };
        let limit = SpaceLimit { max_space_amp: 1.5 };
        assert_eq!(space.dead_bytes(), 300);
        assert_eq!(space.excess(limit, Pressure::Alone), 0);
        assert!(space.excess(limit, Pressure::Riding) > 0);
        let space = Space {
            log_bytes: 1450,
            ..space
        };
        assert!(space.excess(limit, Pressure::Alone) > 0);
    }
}
