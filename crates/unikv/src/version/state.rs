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

use super::edit::history::History;
use super::edit::{PartitionMeta, TablePlace, VersionEdit};
use super::generation::{Generation, TableRanges};
use super::keyspaces::Keyspaces;
use super::range::KeyRange;
use super::scan_run::ScanRun;
use crate::base::account::Account;
use crate::base::keys::{FileNumber, PartitionId, SeqNo};
use crate::base::seeded::slip;
use crate::base::sync::OnceLock;
use crate::hash_index::HashIndex;
use crate::key_table::{KeyTable, KeyTableMeta};
use crate::record::RecordFile;
use std::collections::{HashMap, HashSet};
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

/// Records and bytes of one record file that key tables point to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Live {
    pub(crate) count: u64,
    pub(crate) bytes: u64,
}

/// One state of the database's files.
#[derive(Clone, Default)]
pub(crate) struct Version {
    pub(super) partitions: Vec<Arc<Partition>>,
    /// All record files, by number: UnsortedStore tables and value logs.
    pub(super) record_files: Vec<Arc<RecordFile>>,
    pub(crate) keyspaces: Keyspaces,
    pub(crate) counters: Counters,
    /// The sums of [`Version::live`], shared by versions with the same pointers.
    pub(super) live: Arc<OnceLock<HashMap<FileNumber, Live>>>,
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
    pub(crate) clock_ms: u64,
    pub(crate) hash_seed: u64,
    pub(crate) options: Vec<u8>,
    /// The newest mark of a caller among the writes in the files.
    pub(crate) host_mark: Option<Vec<u8>>,
    /// As in [`VersionEdit::lifetime`].
    pub(crate) lifetime: Option<Vec<u8>>,
    /// What the change feed needs of the manifest, if there is one.
    pub(crate) history: Option<Arc<History>>,
}

impl Version {
    /// Whether anything in its files expires.
    pub(crate) fn expires(&self) -> bool {
        let mut records = self.record_files().iter();
        records.any(|file| file.meta().expiry.is_some())
            || self.key_tables().any(|table| table.meta().expiry.is_some())
    }

    /// The partitions in key order.
    pub(crate) fn partitions(&self) -> &[Arc<Partition>] {
        &self.partitions
    }

    /// The place of the partition whose range holds `key`.
    pub(crate) fn partition_index(&self, key: &[u8]) -> usize {
        let behind = self
            .partitions
            .partition_point(|p| p.start.as_slice() <= key);
        behind.saturating_sub(1)
    }

    /// The partition whose range holds `key`.
    pub(crate) fn partition_for(&self, key: &[u8]) -> Option<&Arc<Partition>> {
        self.partitions.get(self.partition_index(key))
    }

    /// The partitions whose ranges meet the keys from `first` to `last`.
    pub(crate) fn partitions_between(&self, first: &[u8], last: &[u8]) -> &[Arc<Partition>] {
        let from = self.partition_index(first);
        let to = self
            .partitions
            .partition_point(|p| p.start.as_slice() <= last);
        self.partitions.get(from..to).unwrap_or_default()
    }

    /// A partition by its id.
    pub(crate) fn partition(&self, id: PartitionId) -> Option<&Arc<Partition>> {
        self.partitions.iter().find(|p| p.id == id)
    }

    /// A record file by its number.
    pub(crate) fn record_file(&self, number: FileNumber) -> Option<&Arc<RecordFile>> {
        let at = self
            .record_files
            .binary_search_by_key(&number, |f| f.meta().number)
            .ok()?;
        self.record_files.get(at)
    }

    /// All record files, by ascending number.
    pub(crate) fn record_files(&self) -> &[Arc<RecordFile>] {
        &self.record_files
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
        for partition in &mut self.partitions {
            let mut lost = |g: &Generation| g.run.as_ref().is_some_and(|run| !kept(run));
            if !partition.generations.iter().any(&mut lost) {
                continue;
            }
            let generations = &mut Arc::make_mut(partition).generations;
            let of_lost = generations.iter_mut().filter(|g| lost(g));
            of_lost.for_each(|generation| generation.run = None);
        }
    }

    /// Per record file what key tables point to, and the large values of UnsortedStore tables.
    /// Nobody decrements: it is a sum. A large value of a table that is merged in one
    /// partition and not yet in another may count twice until then.
    pub(crate) fn live(&self) -> &HashMap<FileNumber, Live> {
        self.live.get_or_init(|| {
            let mut live: HashMap<FileNumber, Live> = HashMap::new();
            let has_refs = |file: &&Arc<RecordFile>| !file.meta().refs.is_empty();
            let with_refs = self.record_files.iter().filter(has_refs);
            let tables = match with_refs.clone().next() {
                Some(_) => self.tables(),
                None => HashSet::new(),
            };
            let with_refs = with_refs.filter(|f| tables.contains(&f.meta().number));
            let refs = self.key_tables().flat_map(|t| &t.meta().refs);
            for refs in refs.chain(with_refs.flat_map(|f| &f.meta().refs)) {
                let entry = live.entry(refs.file).or_default();
                entry.count = entry.count.saturating_add(refs.count);
                entry.bytes = entry.bytes.saturating_add(refs.bytes);
            }
            live
        })
    }

    /// The record files that are tables of UnsortedStores.
    pub(crate) fn tables(&self) -> HashSet<FileNumber> {
        let generations = self.partitions.iter().flat_map(|p| &p.generations);
        let tables = generations.flat_map(Generation::tables);
        tables.map(|(_, table)| table.meta().number).collect()
    }

    /// Record files that are neither a table of a generation nor pointed to, by ascending number.
    pub(crate) fn dead_record_files(&self) -> Vec<FileNumber> {
        let live = self.live();
        let tables = slip!(DropUnmergedTable, HashSet::new(), self.tables());
        let numbers = self.record_files.iter().map(|f| f.meta().number);
        numbers
            .filter(|n| !live.contains_key(n) && !tables.contains(n))
            .collect()
    }

    /// Takes the files of [`Version::dead_record_files`] out of the version.
    pub(crate) fn remove_dead_record_files(&mut self) -> Vec<Arc<RecordFile>> {
        let dead = self.dead_record_files();
        let is_dead = |file: &Arc<RecordFile>| dead.binary_search(&file.meta().number).is_ok();
        let (removed, kept) = std::mem::take(&mut self.record_files)
            .into_iter()
            .partition(is_dead);
        self.record_files = kept;
        removed
    }

    /// Puts freshly built hash indexes in the place of the empty ones of a recovered version.
    pub(crate) fn replace_indexes(
        &mut self,
        mut index: impl FnMut(&Partition, &Generation) -> crate::error::Result<Arc<HashIndex>>,
    ) -> crate::error::Result<()> {
        for partition in &mut self.partitions {
            let mut changed = Vec::new();
            for (at, generation) in partition.generations.iter().enumerate() {
                let index = index(partition, generation)?;
                if !Arc::ptr_eq(&index, &generation.index) {
                    changed.push((at, index));
                }
            }
            if changed.is_empty() {
                continue;
            }
            let generations = &mut Arc::make_mut(partition).generations;
            for (at, index) in changed {
                if let Some(generation) = generations.get_mut(at) {
                    generation.index = index;
                }
            }
        }
        Ok(())
    }

    /// One edit that makes this version from nothing.
    pub(crate) fn snapshot(&self) -> VersionEdit {
        let mut edit = VersionEdit {
            keyspaces: self.keyspaces.all().to_vec(),
            ..self.counters.edit()
        };
        edit.record_files = self.record_files.iter().map(|f| f.meta().clone()).collect();
        for partition in &self.partitions {
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
    fn edit(&self) -> VersionEdit {
        VersionEdit {
            next_file: Some(self.next_file),
            next_partition: Some(self.next_partition),
            last_keyspace: Some(self.last_keyspace).filter(|last| *last > 0),
            last_seq: Some(self.flushed_seq),
            wal_low_water: Some(self.wal_low_water),
            clock_ms: Some(self.clock_ms),
            hash_seed: Some(self.hash_seed),
            options: Some(self.options.clone()),
            host_mark: self.host_mark.clone(),
            lifetime: self.lifetime.clone(),
            history: self.history.clone(),
            ..VersionEdit::default()
        }
    }
}
