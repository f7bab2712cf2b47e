//! An immutable version of the database's files.
//!
//! A [`Version`] lists every live data file, each through a shared handle; a holder of a version
//! keeps its files on disk. [`super::apply`] makes the next one from an edit.
//!
//! Invariants: partitions are sorted, disjoint and cover the key space. A partition's generations
//! are newest first; slots ascend within one and are never used twice. Key tables of a partition
//! are sorted and disjoint, and no key's versions span two of them. Every pointer of a key table
//! names a record file of the same version. A table may lie in several partitions; each serves and
//! counts the keys of its own range only. Key tables lie in one partition whole.

mod candidates;
mod check;
pub(crate) mod chunked;
mod files;
mod gone;
mod half_merged;
mod places;
mod promise;
mod sums;

pub(crate) use files::{FileSums, Listed, RecordFiles};
pub(crate) use half_merged::section_worth_a_pass;
pub(super) use places::Place;
pub(crate) use promise::Promise;
pub(crate) use sums::{Fullest, OBSOLETE_PART, PartitionSums};

use super::edit::history::History;
use super::edit::{PartitionMeta, TablePlace, VersionEdit};
use super::generation::{Generation, TableRanges};
use super::keyspaces::Keyspaces;
use super::range::KeyRange;
use super::scan_run::ScanRun;
use crate::base::account::Account;
use crate::base::keys::{FileNumber, PartitionId, SeqNo};
use crate::hash_index::HashIndex;
use crate::key_table::{KeyTable, KeyTableMeta};
use crate::log::DurableSegment;
use crate::log::replay::NeededLog;
use crate::record::RecordFile;
use chunked::{Chunked, Once};
use gone::Gone;
use std::sync::Arc;

/// A range of keys with its UnsortedStore and SortedStore.
#[derive(Clone)]
pub(crate) struct Partition {
    pub(crate) id: PartitionId,
    /// The first key of the range.
    pub(crate) start: Vec<u8>,
    /// The first key after the range; `None`: no end.
    pub(crate) end: Option<Vec<u8>>,
    /// The UnsortedStore: newest first.
    pub(crate) generations: Vec<Generation>,
    /// The SortedStore: ascending, disjoint.
    pub(crate) key_tables: Vec<Arc<KeyTable>>,
    /// Bytes of the key tables and of the newest records they point to.
    pub(super) sorted_bytes: u64,
    /// Those of the key tables alone.
    pub(super) key_table_bytes: u64,
    /// What scans have lost to fragmented values, in bytes of copying them together
    /// ([`crate::partition::scan_sources`]).
    pub(crate) scan_cost: Arc<Account>,
    /// The range tombstones of the UnsortedStore, if it has any.
    pub(crate) ranges: Option<Arc<TableRanges>>,
    /// What its key tables sum up to: the same for its successors as long as they have the same.
    pub(super) of_key_tables: Arc<Once<PartitionSums>>,
}

impl Partition {
    /// The keys that belong here.
    pub(crate) fn range(&self) -> KeyRange<'_> {
        KeyRange {
            start: &self.start,
            end: self.end.as_deref(),
        }
    }

    /// What counts towards the size at which a partition is split: key tables, the newest records
    /// they point to, and the UnsortedStore. What is kept for snapshots alone goes with them, but a
    /// split stays.
    pub(crate) fn data_bytes(&self) -> u64 {
        self.sorted_bytes + self.unsorted_bytes()
    }

    /// Bytes of the key tables: a merge writes them again, before it drops those it replaces.
    pub(crate) fn key_table_bytes(&self) -> u64 {
        self.key_table_bytes
    }

    /// The key table whose range may hold `key`.
    pub(crate) fn key_table_for(&self, key: &[u8]) -> Option<&Arc<KeyTable>> {
        let at = self
            .key_tables
            .partition_point(|t| t.meta().max_key.as_slice() < key);
        self.key_tables
            .get(at)
            .filter(|t| t.meta().min_key.as_slice() <= key)
    }

    /// Bytes of the newest versions in the key tables that lie from `start` to before `end`, whole.
    pub(crate) fn sorted_bytes_within(&self, start: &[u8], end: &[u8]) -> u64 {
        let is_all = self.end.as_ref().is_some_and(|e| e.as_slice() <= end);
        if start <= self.start.as_slice() && is_all {
            return self.sorted_bytes;
        }
        let tables = self.key_tables.iter().map(|table| table.meta());
        let lies_within =
            |t: &&KeyTableMeta| start <= t.min_key.as_slice() && t.max_key.as_slice() < end;
        tables
            .filter(lies_within)
            .map(KeyTableMeta::newest_bytes)
            .sum()
    }

    /// Whether it lists nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.key_tables.is_empty() && self.generations.is_empty()
    }

    /// Bytes of the UnsortedStore.
    pub(crate) fn unsorted_bytes(&self) -> u64 {
        self.generations.iter().map(Generation::bytes).sum()
    }
}

/// Records and bytes of one record file that tables keep alive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Live {
    pub(crate) count: u64,
    pub(crate) bytes: u64,
}

/// The partitions of a version, in key order.
pub(crate) type Partitions = Chunked<Arc<Partition>>;

/// One state of the database's files.
#[derive(Clone, Default)]
pub(crate) struct Version {
    pub(super) partitions: Partitions,
    /// The partitions by id.
    pub(super) ids: Chunked<Place>,
    /// Those in whose range no keyspace is.
    gone: Chunked<Gone>,
    /// What all partitions sum up to.
    sums: Once<PartitionSums>,
    /// All record files: UnsortedStore tables and value logs.
    pub(super) files: RecordFiles,
    pub(crate) keyspaces: Keyspaces,
    pub(crate) counters: Counters,
}

/// What the manifest remembers beside files.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Counters {
    pub(crate) next_file: u64,
    pub(crate) next_partition: u64,
    /// The greatest number that a keyspace has had; 0: there has been none but the default one.
    pub(crate) last_keyspace: u32,
    /// Every write up to this sequence number is in the files of the version.
    pub(crate) flushed_seq: SeqNo,
    /// The first WAL segment that is still needed.
    pub(crate) wal_low_water: FileNumber,
    /// As in [`VersionEdit::wal_durable`].
    pub(crate) wal_durable: Option<DurableSegment>,
    pub(crate) clock_ms: u64,
    pub(crate) hash_seed: u64,
    pub(crate) options: Vec<u8>,
    /// The newest commit tag of a caller among the writes in the files.
    pub(crate) commit_tag: Option<Vec<u8>>,
    /// As in [`VersionEdit::lifetime`].
    pub(crate) lifetime: Option<Vec<u8>>,
    /// What the change feed needs of the manifest, if there is one.
    pub(crate) history: Option<Arc<History>>,
}

impl Version {
    /// Whether anything in its files expires.
    pub(crate) fn expires(&self) -> bool {
        self.file_sums().expires || self.partition_sums().expires
    }

    /// The partitions in key order.
    pub(crate) fn partitions(&self) -> &Partitions {
        &self.partitions
    }

    /// The place of the partition whose range holds `key`.
    #[inline]
    pub(crate) fn partition_index(&self, key: &[u8]) -> usize {
        let behind = self.partitions.partition_point(|start| start <= key);
        behind.saturating_sub(1)
    }

    /// The partition whose range holds `key`.
    #[inline]
    pub(crate) fn partition_for(&self, key: &[u8]) -> Option<&Arc<Partition>> {
        self.partitions.last_of(|start| start <= key)
    }

    /// The partitions whose ranges meet the keys from `first` to `last`.
    pub(crate) fn partitions_between<'a>(
        &'a self,
        first: &[u8],
        last: &[u8],
    ) -> impl Iterator<Item = &'a Arc<Partition>> + use<'a> {
        let from = self.partition_index(first);
        let to = self.partitions.partition_point(|start| start <= last);
        self.partitions.range(from..to.max(from))
    }

    /// A record file by its number.
    pub(crate) fn record_file(&self, number: FileNumber) -> Option<&Arc<RecordFile>> {
        self.files.get(number).map(|listed| &listed.file)
    }

    /// All record files, by ascending number.
    pub(crate) fn record_files(&self) -> &RecordFiles {
        &self.files
    }

    /// The sums over all record files.
    pub(crate) fn file_sums(&self) -> FileSums {
        self.files.sums()
    }

    /// All key tables.
    pub(crate) fn key_tables(&self) -> impl Iterator<Item = &Arc<KeyTable>> {
        self.partitions.iter().flat_map(|p| &p.key_tables)
    }

    /// All scan runs, damaged ones too.
    pub(crate) fn scan_runs(&self) -> impl Iterator<Item = &Arc<ScanRun>> {
        let generations = self.partitions.iter().flat_map(|p| &p.generations);
        generations.filter_map(|generation| generation.run.as_ref())
    }

    /// Forgets the scan runs that are not `kept`: they are derived.
    pub(crate) fn retain_scan_runs(&mut self, kept: impl Fn(&ScanRun) -> bool) {
        let lost = |g: &Generation| g.run.as_ref().is_some_and(|run| !kept(run));
        let changed = self.partitions.iter();
        let changed = changed.filter(|p| p.generations.iter().any(lost));
        let changed: Vec<PartitionId> = changed.map(|p| p.id).collect();
        for id in changed {
            let Ok(partition) = self.partition_mut(id) else {
                continue;
            };
            let of_lost = partition.generations.iter_mut().filter(|g| lost(g));
            of_lost.for_each(|generation| generation.run = None);
        }
    }

    /// What key tables point to in a record file, and large values of UnsortedStore tables there.
    pub(crate) fn live(&self, file: FileNumber) -> Live {
        let listed = self.files.get(file);
        listed.map(|listed| listed.used.live).unwrap_or_default()
    }

    /// The record files that are tables of UnsortedStores.
    #[cfg(test)]
    pub(crate) fn tables(&self) -> std::collections::HashSet<FileNumber> {
        let tables = self.files.listed().filter(|listed| listed.is_table());
        tables.map(|listed| listed.file.meta().number).collect()
    }

    /// Record files that are neither a table of a generation nor pointed to, by ascending number.
    pub(crate) fn dead_record_files(&self) -> Vec<FileNumber> {
        self.files.dead()
    }

    /// Takes the files of [`Version::dead_record_files`] out of the version.
    pub(crate) fn remove_dead_record_files(&mut self) -> Vec<Arc<RecordFile>> {
        let dead = self.dead_record_files().into_iter();
        dead.filter_map(|number| self.files.remove(number))
            .collect()
    }

    /// Puts freshly built hash indexes in the place of the empty ones of a recovered version.
    pub(crate) fn replace_indexes(
        &mut self,
        mut index: impl FnMut(&Partition, &Generation) -> crate::error::Result<Arc<HashIndex>>,
    ) -> crate::error::Result<()> {
        let mut changed = Vec::new();
        for partition in self.partitions.iter() {
            for (at, generation) in partition.generations.iter().enumerate() {
                let index = index(partition, generation)?;
                if !Arc::ptr_eq(&index, &generation.index) {
                    changed.push((partition.id, at, index));
                }
            }
        }
        for (id, at, index) in changed {
            let partition = self.partition_mut(id).ok();
            if let Some(generation) = partition.and_then(|p| p.generations.get_mut(at)) {
                generation.index = index;
            }
        }
        Ok(())
    }

    /// One edit that makes this version from nothing.
    pub(crate) fn snapshot(&self) -> VersionEdit {
        let mut edit = VersionEdit {
            keyspaces: self.keyspaces.all().cloned().collect(),
            ..self.counters.edit()
        };
        edit.record_files = self.files.iter().map(|f| f.meta().clone()).collect();
        for partition in self.partitions.iter() {
            let Partition {
                id,
                start,
                end,
                generations,
                key_tables,
                ..
            } = &**partition;
            let (start, end) = (start.clone(), end.clone());
            edit.partitions.push(PartitionMeta {
                id: *id,
                start,
                end,
            });
            // Oldest first, so that applying them in order makes the newest the first.
            for generation in generations.iter().rev() {
                edit.tables
                    .extend(generation.shares().rev().map(|(slot, table)| TablePlace {
                        partition: *id,
                        generation: generation.id,
                        slot,
                        file: table.file.meta().number,
                        share: table.share,
                        hidden_bytes: table.hidden_bytes,
                    }));
                let run = generation.run.as_ref();
                edit.scan_runs
                    .extend(run.map(|run| run.meta(*id, generation.id)));
            }
            edit.key_tables
                .extend(key_tables.iter().map(|t| (*id, t.meta().clone())));
        }
        edit
    }
}

impl Counters {
    /// What an opening has noted of the job clock; `None`: the database is new.
    pub(crate) fn job_clock_ms(&self) -> Option<u64> {
        (self.clock_ms > 0).then_some(self.clock_ms)
    }

    /// What recovery needs to know of the log.
    pub(crate) fn needed_log(&self) -> NeededLog {
        NeededLog {
            low_water: self.wal_low_water,
            durable: self.wal_durable,
        }
    }

    fn edit(&self) -> VersionEdit {
        VersionEdit {
            next_file: Some(self.next_file),
            next_partition: Some(self.next_partition),
            last_keyspace: Some(self.last_keyspace).filter(|last| *last > 0),
            last_seq: Some(self.flushed_seq),
            wal_low_water: Some(self.wal_low_water),
            wal_durable: self.needed_log().durable(),
            clock_ms: Some(self.clock_ms),
            hash_seed: Some(self.hash_seed),
            options: Some(self.options.clone()),
            commit_tag: self.commit_tag.clone(),
            lifetime: self.lifetime.clone(),
            history: self.history.clone(),
            ..VersionEdit::default()
        }
    }
}
