//! Choosing what garbage collection reclaims (paper §III-C "Garbage collection", HashKV §3.3): the
//! value logs with most dead bytes per byte to copy. [`super::merge`] is the pass.
//!
//! Invariants:
//! - The live bytes of a value log are what key tables say they point to
//!   ([`crate::version::Version::live`]); nobody decrements. A pass changes pointers, never
//!   sequence numbers.
//! - No victims are: tables of an UnsortedStore, whose merge decides what is live; files of large
//!   values that such a table names, as the pass would not find its pointers; and what an earlier
//!   pass could not read ([`super::left_alone`]).
//!
//! No locks.

use crate::base::keys::{FileNumber, PartitionId};
use crate::jobs::compact::left_alone::LeftAlone;
use crate::jobs::space::garbage::Pressure;
use crate::jobs::space::{Space, SpaceLimit, obsolete_bytes};
use crate::partition::Horizon;
use crate::record::RecordFile;
use crate::version::state::section_worth_a_pass;
use crate::version::{Partition, Version};
use std::collections::HashSet;
use std::sync::Arc;

/// Victims of one pass: they share its read buffers.
pub(crate) const MAX_VICTIMS: usize = 128;
/// The live records of all victims may take this part of what is free on the disk: beside them the
/// passes write key tables, and writers go on.
pub(crate) const FREE_PART: u64 = 4;

/// By what garbage is chosen.
pub(crate) struct Scope<'a> {
    pub(crate) version: &'a Version,
    pub(crate) space: Space,
    pub(crate) limit: SpaceLimit,
    pub(crate) pressure: Pressure,
    pub(crate) left_alone: LeftAlone,
    /// What can be written to the disk. Asked only if there is something to reclaim.
    pub(crate) free_bytes: Box<dyn Fn() -> u64 + 'a>,
    /// Whether a pass could begin in this partition now.
    pub(crate) can_run: &'a dyn Fn(PartitionId) -> bool,
}

/// What a collection does in a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Gain {
    /// Bytes that the partition has in the victims.
    pub(crate) moved_bytes: u64,
    /// Bytes of obsolete versions that are dropped.
    pub(crate) dropped_bytes: u64,
}

impl<'a> Scope<'a> {
    /// Bytes of garbage that are to be reclaimed in value logs; zero while space is in bounds.
    pub(crate) fn excess(&self) -> u64 {
        let mut excess = self.space.excess(self.limit, self.pressure);
        if self.space.older_bytes > 0 && self.pressure == Pressure::Alone {
            // Older versions come first: only the pass that drops them shows what is dead in value
            // logs. What no pass can drop now is not waited for.
            let obsolete = self.runnable().map(|p| self.obsolete_in(p));
            excess = excess.saturating_sub(obsolete.sum());
        }
        excess
    }

    /// Whether a pass is due that drops obsolete versions alone.
    pub(crate) fn is_obsolete_due(&self) -> bool {
        self.space.excess(self.limit, Pressure::Alone) > 0
    }

    /// Bytes of live records that all victims may have together: not even the best of them may fill
    /// the disk, as nothing is freed before all of it is copied.
    pub(crate) fn most_live_bytes(&self) -> u64 {
        (self.free_bytes)() / FREE_PART
    }

    /// The value logs to be reclaimed, best first; none while space is in bounds.
    pub(crate) fn victims(&self) -> Vec<Arc<RecordFile>> {
        let excess = self.excess();
        if excess == 0 {
            return Vec::new();
        }
        let pass_bytes = self.space.pass_bytes(self.limit);
        let most_bytes = self.most_live_bytes();
        let candidates = candidates(self.version);
        let candidates =
            candidates.filter(|(.., file)| !self.left_alone.contains(file.meta().number));
        let mut files: Vec<(u64, u64, &Arc<RecordFile>)> = candidates.collect();
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
            let fits = copied + live <= pass_bytes || chosen.is_empty();
            if !fits || copied + live > most_bytes {
                continue;
            }
            reclaimed += dead;
            copied += live;
            chosen.push(Arc::clone(file));
        }
        chosen
    }

    /// The partitions, of those that can run, in which live records of the victims are; without any
    /// of them and with space out of bounds, those whose key tables keep obsolete versions.
    pub(crate) fn partitions_of(
        &self,
        victims: &[Arc<RecordFile>],
    ) -> Vec<(Gain, &'a Arc<Partition>)> {
        let is_obsolete_due = self.is_obsolete_due();
        if victims.is_empty() && !is_obsolete_due {
            return Vec::new();
        }
        let files = numbers(victims);
        let gain_in = |partition: &Partition| Gain {
            moved_bytes: bytes_in(partition, &files),
            dropped_bytes: if is_obsolete_due {
                self.obsolete_in(partition)
            } else {
                0
            },
        };
        let gains = self.runnable().map(|p| (gain_in(p), p));
        let mut found: Vec<_> = gains.filter(|(gain, _)| *gain > Gain::default()).collect();
        if found.iter().any(|(gain, _)| gain.moved_bytes > 0) {
            found.retain(|(gain, _)| gain.moved_bytes > 0);
        }
        found
    }

    /// The first of them: that with most records in the victims, or most obsolete versions.
    pub(crate) fn partition_of(&self, victims: &[Arc<RecordFile>]) -> Option<&'a Arc<Partition>> {
        let found = self.partitions_of(victims).into_iter();
        let most = found.max_by_key(|(gain, _)| *gain);
        most.map(|(_, partition)| partition)
    }

    /// Bytes of obsolete versions that a pass in the partition drops.
    pub(crate) fn obsolete_in(&self, partition: &Partition) -> u64 {
        let tables = partition.key_tables.iter().map(|table| table.meta());
        let tables = tables.filter(|table| !self.left_alone.contains(table.number));
        let bytes = tables.map(|table| obsolete_bytes(table, self.limit.horizon));
        bytes.sum()
    }

    fn runnable(&self) -> impl Iterator<Item = &'a Arc<Partition>> {
        let partitions = self.version.partitions().iter();
        partitions.filter(|p| (self.can_run)(p.id))
    }
}

/// The value logs that a pass can reclaim: dead bytes, live bytes, file.
pub(crate) fn candidates(version: &Version) -> impl Iterator<Item = (u64, u64, &Arc<RecordFile>)> {
    let listed = version.record_files().listed();
    let logs = listed.filter(|listed| !listed.is_table() && !listed.is_named_by_tables());
    logs.map(|listed| {
        let (live, file) = (listed.used.live.bytes, &listed.file);
        let dead = file.meta().record_bytes().saturating_sub(live);
        (dead + section_worth_a_pass(file.meta()), live, file)
    })
}

/// Bytes of garbage that stay with what passes leave alone.
pub(crate) fn stuck_bytes(version: &Version, horizon: Horizon, left_alone: &LeftAlone) -> u64 {
    if left_alone.is_empty() {
        return 0;
    }
    let logs = candidates(version).filter(|(.., file)| left_alone.contains(file.meta().number));
    let tables = version.key_tables().map(|table| table.meta());
    let tables = tables.filter(|table| left_alone.contains(table.number));
    let obsolete = tables.map(|table| obsolete_bytes(table, horizon));
    logs.map(|(dead, ..)| dead).chain(obsolete).sum()
}

/// The numbers of some files.
pub(crate) fn numbers(files: &[Arc<RecordFile>]) -> HashSet<FileNumber> {
    files.iter().map(|file| file.meta().number).collect()
}

/// Bytes of the records that a partition has in these files.
pub(crate) fn bytes_in(partition: &Partition, files: &HashSet<FileNumber>) -> u64 {
    if files.is_empty() {
        return 0;
    }
    let tables = partition.key_tables.iter().map(|table| table.meta());
    let refs = tables.flat_map(|table| &table.refs);
    let refs = refs.filter(|refs| files.contains(&refs.file));
    refs.map(|refs| refs.bytes).sum()
}

/// A log is worth it if at least one byte in this many is garbage.
const LEAST_GARBAGE: u64 = 8;

/// What garbage collection reclaims while the disk is full and `free_bytes` can be written: what
/// needs least space first. The live records of a victim are rewritten, one partition after the
/// other, before anything of it is freed. So the victims are the value logs with fewest live bytes,
/// as many as fit into a quarter of what is free; beside them a pass writes the key tables of its
/// partition that point to them. Where these do not fit, the pass fails, and the partition is
/// split. A log with hardly any garbage is left alone: each pass leaves less garbage than it found,
/// so this comes to an end.
pub(crate) fn victims_on_full_disk(
    version: &Version,
    free_bytes: u64,
    left_alone: &LeftAlone,
) -> Vec<Arc<RecordFile>> {
    let candidates = candidates(version);
    let candidates = candidates.filter(|(.., file)| !left_alone.contains(file.meta().number));
    let candidates = candidates.filter_map(|(_, live, file)| {
        let bytes = file.meta().record_bytes();
        let dead = bytes.saturating_sub(live);
        (live > 0 && dead >= bytes / LEAST_GARBAGE && dead > 0).then_some((live, file))
    });
    let mut candidates: Vec<(u64, &Arc<RecordFile>)> = candidates.collect();
    candidates.sort_by_key(|(live, _)| *live);
    let mut need = 0;
    let fits = |(live, _): &(u64, &Arc<RecordFile>)| {
        need += live;
        need <= free_bytes / FREE_PART
    };
    let chosen = candidates.into_iter().take(MAX_VICTIMS).take_while(fits);
    chosen.map(|(_, file)| Arc::clone(file)).collect()
}
