//! Choosing what garbage collection reclaims (paper §III-C "Garbage collection", HashKV §3.3).
//!
//! Nobody decrements: the live bytes of a value log are the sum of what key tables say they point
//! to in it (see [`crate::version::Version::live`]). What is left of the file is dead. The victims
//! are the value logs with most dead bytes per byte to copy, several at a time, so that one pass
//! over the key tables pays. The pass itself is a merge that moves the victims' live records (see
//! [`super::merge`]): it rides on the merge of a generation when one is due, and runs alone when
//! space presses. It changes pointers, never sequence numbers.
//!
//! Versions that were kept for a snapshot which has gone are garbage that no value log shows: every
//! pass drops them in the key tables where they are worth it, and if need be one runs for nothing
//! else.
//!
//! Tables of an UnsortedStore are no victims: their merge decides what is live in them. Nor are
//! files of large values that such a table names: the pass would not find its pointers.

use crate::base::keys::{FileNumber, PartitionId};
use crate::jobs::space::garbage::{Pressure, record_bytes, section_worth_a_pass};
use crate::jobs::space::{Space, SpaceLimit, obsolete_bytes};
use crate::record::RecordFile;
use crate::version::{Partition, Version};
use std::collections::HashSet;
use std::sync::Arc;

/// Victims of one pass: they share its read buffers.
pub(crate) const MAX_VICTIMS: usize = 128;

/// The record files that are no tables of an UnsortedStore.
pub(crate) fn value_logs(version: &Version) -> impl Iterator<Item = &Arc<RecordFile>> {
    let tables = version.tables();
    let files = version.record_files().iter();
    files.filter(move |file| !tables.contains(&file.meta().number))
}

/// The value logs to be reclaimed under `pressure`, best first; none while space is in bounds.
pub(crate) fn victims(
    version: &Version,
    space: &Space,
    limit: SpaceLimit,
    pressure: Pressure,
) -> Vec<Arc<RecordFile>> {
    let excess = space.excess(limit, pressure);
    // Older versions come first: only the pass that drops them shows what is dead in value logs.
    if excess == 0 || (space.older_bytes > 0 && pressure == Pressure::Alone) {
        return Vec::new();
    }
    let pass_bytes = space.pass_bytes(limit);
    let mut files: Vec<(u64, u64, &Arc<RecordFile>)> = candidates(version).collect();
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
        if copied + live > pass_bytes && !chosen.is_empty() {
            continue;
        }
        reclaimed += dead;
        copied += live;
        chosen.push(Arc::clone(file));
    }
    chosen
}

/// The value logs that a pass can reclaim: dead bytes, live bytes, file.
pub(crate) fn candidates(version: &Version) -> impl Iterator<Item = (u64, u64, &Arc<RecordFile>)> {
    let live = version.live();
    let unmerged = named_by_tables(version);
    let files = value_logs(version).filter(move |file| !unmerged.contains(&file.meta().number));
    files.map(move |file| {
        let live = live.get(&file.meta().number).map_or(0, |live| live.bytes);
        let dead = record_bytes(file).saturating_sub(live);
        (dead + section_worth_a_pass(file), live, file)
    })
}

/// The record files in which tables of UnsortedStores have large values.
pub(crate) fn named_by_tables(version: &Version) -> HashSet<FileNumber> {
    let tables = version.tables();
    let files = version.record_files().iter();
    let refs = files
        .filter(|file| tables.contains(&file.meta().number))
        .flat_map(|file| &file.meta().refs);
    refs.map(|refs| refs.file).collect()
}

/// The partition, among those that are free, in which most of the victims' live records are;
/// without victims and with space out of bounds, the one whose key tables keep most obsolete
/// versions.
pub(crate) fn partition_of<'a>(
    version: &'a Version,
    space: &Space,
    limit: SpaceLimit,
    victims: &[Arc<RecordFile>],
    is_free: impl Fn(PartitionId) -> bool,
) -> Option<&'a Arc<Partition>> {
    let numbers: HashSet<FileNumber> = victims.iter().map(|file| file.meta().number).collect();
    let obsolete = numbers.is_empty() && space.excess(limit, Pressure::Alone) > 0;
    let bytes_in = |partition: &Partition| {
        let tables = partition.key_tables.iter().map(|t| t.meta());
        let refs = tables.clone().flat_map(|t| &t.refs);
        let refs = refs.filter(|refs| numbers.contains(&refs.file));
        let bytes = |t| {
            if obsolete {
                obsolete_bytes(t, limit.horizon)
            } else {
                0
            }
        };
        refs.map(|refs| refs.bytes).sum::<u64>() + tables.map(bytes).sum::<u64>()
    };
    let free = version.partitions().iter().filter(|p| is_free(p.id));
    let found = free
        .map(|p| (bytes_in(p), p))
        .max_by_key(|(bytes, _)| *bytes);
    found
        .filter(|(bytes, _)| *bytes > 0)
        .map(|(_, partition)| partition)
}
