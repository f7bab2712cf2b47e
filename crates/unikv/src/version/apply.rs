//! How an edit makes the next version.
//!
//! Applying an edit opens and deletes nothing. Files that an edit drops are returned; the committer
//! marks them obsolete once the manifest holds the edit. An edit that does not fit the version is
//! refused with the reason: a bug, or a manifest that contradicts itself.

mod partitions;
mod ranges;

use super::edit::{TablePlace, TableShare, VersionEdit};
use super::generation::{Generation, Table};
use super::scan_run::ScanRun;
use super::state::{Counters, Partition, Version};
use crate::base::keys::{FileNumber, GenerationId, PartitionId};
use crate::base::seeded::slip;
use crate::hash_index::HashIndex;
use crate::key_table::{KeyTable, ReadCache};
use crate::record::RecordFile;
use crate::vfs::file_store::FileStore;
use std::collections::HashMap;
use std::sync::Arc;

/// Slots that flushes may have burned between two tables: far more than there ever are, and few
/// enough to take no memory to speak of.
const MOST_BURNED_SLOTS: usize = 1 << 10;

/// Handles of key tables that an edit has taken out of a partition.
type Released = HashMap<FileNumber, Arc<KeyTable>>;

/// What applying an edit needs from outside.
pub(crate) struct ApplyContext<'a> {
    pub(crate) store: &'a Arc<FileStore>,
    pub(crate) cache: &'a Arc<ReadCache>,
    /// The hash index of a generation to which the edit adds tables. `None`: the one it has, or
    /// for a new generation an empty one.
    pub(crate) index: &'a mut dyn FnMut(PartitionId, GenerationId) -> Option<Arc<HashIndex>>,
    /// The handle of a record file that was read before any version listed it: a large value's.
    pub(crate) unlisted: &'a dyn Fn(FileNumber) -> Option<Arc<RecordFile>>,
}

/// Handles that an edit dropped from the version.
#[derive(Default)]
pub(crate) struct Dropped {
    pub(crate) record_files: Vec<Arc<RecordFile>>,
    pub(crate) key_tables: Vec<Arc<KeyTable>>,
}

impl Dropped {
    fn add_runs<'a>(&mut self, runs: impl IntoIterator<Item = &'a Arc<ScanRun>>) {
        let tables = runs.into_iter().flat_map(|run| run.tables());
        self.key_tables.extend(tables.cloned());
    }

    /// Lets the files be unlinked when the last reader releases them. Only after the edit is
    /// durable. `record_file` does it for a record file.
    pub(crate) fn mark_obsolete(&self, record_file: impl Fn(&RecordFile)) {
        self.record_files.iter().for_each(|file| record_file(file));
        self.key_tables.iter().for_each(|t| t.mark_obsolete());
    }
}

impl Version {
    /// The next version. A problem is a bug or a manifest that contradicts itself; the text says
    /// which.
    pub(crate) fn apply(
        &self,
        edit: &VersionEdit,
        context: &mut ApplyContext<'_>,
    ) -> Result<(Version, Dropped), String> {
        let mut next = self.clone();
        let dropped = next.apply_in_place(edit, context)?;
        Ok((next, dropped))
    }

    /// As [`Version::apply`], changing this version. After an error it is unusable.
    pub(crate) fn apply_in_place(
        &mut self,
        edit: &VersionEdit,
        context: &mut ApplyContext<'_>,
    ) -> Result<Dropped, String> {
        let mut dropped = Dropped::default();
        self.counters.apply(edit);
        let changed_data = self.keyspaces.apply(edit)?;
        for meta in &edit.record_files {
            let file = match (context.unlisted)(meta.number) {
                Some(file) if file.meta() == meta => file,
                Some(_) => return Err(format!("record file {} has changed", meta.number.0)),
                None => Arc::new(RecordFile::open(context.store, meta.clone(), context.cache)),
            };
            if !self.files.add(file) {
                return Err(format!("record file {} is added twice", meta.number.0));
            }
        }
        // Handles of key tables that the edit takes out of a partition. What it lists again, in
        // another partition, keeps its handle; the rest is dropped.
        let mut released = HashMap::new();
        let removed = self.apply_partitions(edit, &mut released, &mut dropped)?;
        self.find_gone(edit, &removed, &changed_data);
        self.apply_generations(edit, context, &mut dropped)?;
        self.apply_scan_runs(edit, context, &mut dropped)?;
        self.apply_key_tables(edit, context, &mut released)?;
        dropped.key_tables.extend(released.into_values());
        for number in &edit.dropped_record_files {
            let file = self.files.remove(*number);
            let file = file.ok_or_else(|| format!("record file {} is unknown", number.0))?;
            dropped.record_files.push(file);
        }
        Ok(dropped)
    }

    /// Every pointer names a record file of this version: of key tables, and of large values in
    /// tables.
    pub(crate) fn check_pointers(&self) -> Result<(), String> {
        self.files.check_pointers()
    }

    /// Every table of an UnsortedStore is a record file of this version.
    pub(crate) fn check_tables(&self) -> Result<(), String> {
        self.files.check_tables()
    }

    fn apply_generations(
        &mut self,
        edit: &VersionEdit,
        context: &mut ApplyContext<'_>,
        dropped: &mut Dropped,
    ) -> Result<(), String> {
        for (partition, id) in &edit.dropped_generations {
            let generations = &mut self.partition_mut(*partition)?.generations;
            let at = generations.iter().position(|g| g.id == *id);
            let at = at.ok_or_else(|| format!("generation {} is unknown", id.0))?;
            let generation = generations.remove(at);
            let tables = generation.shares();
            tables.for_each(|(_, table)| self.files.place_removed(table));
            dropped.add_runs(&generation.run);
        }
        for place in &edit.tables {
            let file = self.record_file(place.file).cloned();
            let file = file.ok_or_else(|| format!("record file {} is unknown", place.file.0))?;
            let index = (context.index)(place.partition, place.generation);
            let table = Table::placed(place, file);
            self.files.place_added(&table);
            let partition = self.partition_mut(place.partition)?;
            partition.add_table(place, table, index)?;
        }
        let dropped = edit.dropped_generations.iter().map(|(id, _)| *id);
        let added = edit.tables.iter().map(|place| place.partition);
        self.find_ranges(dropped.chain(added).collect());
        Ok(())
    }

    fn apply_scan_runs(
        &mut self,
        edit: &VersionEdit,
        context: &mut ApplyContext<'_>,
        dropped: &mut Dropped,
    ) -> Result<(), String> {
        for (partition, generation) in &edit.dropped_scan_runs {
            let partition = self.partition_mut(*partition)?;
            dropped.add_runs([&partition.drop_scan_run(*generation)?]);
        }
        for meta in &edit.scan_runs {
            let open = |meta| Arc::new(KeyTable::open(context.store, meta, context.cache));
            let tables = meta.tables.iter().cloned().map(open).collect();
            let run = ScanRun::new(tables, meta.end);
            let partition = self.partition_mut(meta.partition)?;
            dropped.add_runs(&partition.set_scan_run(meta.generation, run)?);
        }
        Ok(())
    }

    fn apply_key_tables(
        &mut self,
        edit: &VersionEdit,
        context: &mut ApplyContext<'_>,
        released: &mut Released,
    ) -> Result<(), String> {
        for (partition, number) in &edit.dropped_key_tables {
            let partition = self.partition_mut(*partition)?;
            let table = partition.remove_key_table(*number)?;
            self.files.key_table_removed(&table);
            released.insert(*number, table);
        }
        let replaced: Vec<_> = released.values().cloned().collect();
        for (partition, meta) in &edit.key_tables {
            let table = match released.remove(&meta.number) {
                Some(table) if table.meta() == meta => table,
                Some(_) => return Err(format!("key table {} has changed", meta.number.0)),
                None => {
                    let table = KeyTable::open(context.store, meta.clone(), context.cache);
                    table.succeed(&replaced);
                    Arc::new(table)
                }
            };
            self.files.key_table_added(&table);
            self.partition_mut(*partition)?.add_key_table(table)?;
        }
        Ok(())
    }
}

impl Partition {
    /// Adds a table to a generation, which begins with it if it is new. `index`: the generation's
    /// index from now on, where it is another one.
    fn add_table(
        &mut self,
        place: &TablePlace,
        table: Table,
        index: Option<Arc<HashIndex>>,
    ) -> Result<(), String> {
        let TablePlace {
            generation, slot, ..
        } = *place;
        let generations = &mut self.generations;
        if generations
            .first()
            .is_none_or(|newest| newest.id < generation)
        {
            let begun = Generation {
                id: generation,
                tables: Vec::new(),
                sum: TableShare::default(),
                is_ingested: table.file.meta().ingest_seq.is_some(),
                index: Arc::new(HashIndex::with_capacity(0)),
                run: None,
                scan_cost: Arc::default(),
            };
            let newest = slip!(OldGenerationFirst, generations.len(), 0);
            generations.insert(newest, begun);
        }
        let found = generations.iter_mut().find(|g| g.id == generation);
        let found = found.ok_or_else(|| format!("generation {} is gone", generation.0))?;
        if usize::from(slot.0) < found.tables.len() {
            return Err(format!("slot {} is used twice", slot.0));
        }
        let burned = usize::from(slot.0) - found.tables.len();
        if !found.is_ingested && burned > MOST_BURNED_SLOTS {
            return Err(format!("slot {} comes too early", slot.0));
        }
        found.check_ingested(&table.file, slot)?;
        if let Some(index) = index {
            found.index = index;
        }
        found.push(slot, table);
        Ok(())
    }

    fn add_key_table(&mut self, table: Arc<KeyTable>) -> Result<(), String> {
        let meta = table.meta();
        if meta.min_key < self.start || !self.range().is_before_end(&meta.max_key) {
            return Err(format!("key table {} leaves its partition", meta.number.0));
        }
        let tables = &self.key_tables;
        let at = tables.partition_point(|t| t.meta().min_key < meta.min_key);
        let before = at.checked_sub(1).and_then(|i| tables.get(i));
        let overlaps = before.is_some_and(|t| t.meta().max_key >= meta.min_key)
            || tables
                .get(at)
                .is_some_and(|t| t.meta().min_key <= meta.max_key);
        if overlaps {
            return Err(format!("key table {} overlaps another", meta.number.0));
        }
        self.sorted_bytes = self.sorted_bytes.saturating_add(meta.newest_bytes());
        self.key_table_bytes = self.key_table_bytes.saturating_add(meta.len);
        self.key_tables.insert(at, table);
        self.of_key_tables = Arc::default();
        Ok(())
    }

    fn remove_key_table(&mut self, number: FileNumber) -> Result<Arc<KeyTable>, String> {
        let at = self
            .key_tables
            .iter()
            .position(|t| t.meta().number == number);
        let at = at.ok_or_else(|| format!("key table {} is unknown", number.0))?;
        let table = self.key_tables.remove(at);
        self.of_key_tables = Arc::default();
        self.sorted_bytes = self
            .sorted_bytes
            .saturating_sub(table.meta().newest_bytes());
        self.key_table_bytes = self.key_table_bytes.saturating_sub(table.meta().len);
        Ok(table)
    }
}

impl Counters {
    pub(super) fn apply(&mut self, edit: &VersionEdit) {
        fn set<T: Clone>(target: &mut T, value: &Option<T>) {
            if let Some(value) = value {
                *target = value.clone();
            }
        }
        set(&mut self.next_file, &edit.next_file);
        set(&mut self.next_partition, &edit.next_partition);
        set(&mut self.last_keyspace, &edit.last_keyspace);
        set(&mut self.flushed_seq, &edit.last_seq);
        set(&mut self.wal_low_water, &edit.wal_low_water);
        set(&mut self.wal_durable, &edit.wal_durable.map(Some));
        set(&mut self.clock_ms, &edit.clock_ms);
        set(&mut self.hash_seed, &edit.hash_seed);
        set(&mut self.options, &edit.options);
        if edit.commit_tag.is_some() {
            self.commit_tag.clone_from(&edit.commit_tag);
        }
        if edit.lifetime.is_some() {
            self.lifetime.clone_from(&edit.lifetime);
        }
        if edit.history.is_some() {
            self.history.clone_from(&edit.history);
        }
        if let Some(later) = &edit.later {
            Arc::make_mut(self.history.get_or_insert_default()).add(later);
        }
    }
}

#[cfg(test)]
mod tests;
