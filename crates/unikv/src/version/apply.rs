//! How an edit makes the next version.
//!
//! Applying an edit opens and deletes nothing. Files that an edit drops are returned; the committer
//! marks them obsolete once the manifest holds the edit. An edit that does not fit the version is
//! refused with the reason: a bug, or a manifest that contradicts itself.

use super::edit::{PartitionMeta, TablePlace, VersionEdit};
use super::state::{Counters, Generation, Partition, Version};
use crate::base::keys::{GenerationId, PartitionId};
use crate::hash_index::HashIndex;
use crate::key_table::{KeyTable, ReadCache};
use crate::record::RecordFile;
use crate::vfs::file_store::FileStore;
use std::sync::Arc;

/// What applying an edit needs from outside.
pub(crate) struct ApplyContext<'a> {
    pub(crate) store: &'a Arc<FileStore>,
    pub(crate) cache: &'a Arc<ReadCache>,
    /// The hash index of a generation that the edit begins.
    pub(crate) new_index: &'a mut dyn FnMut(PartitionId, GenerationId) -> Arc<HashIndex>,
}

/// Handles that an edit dropped from the version.
#[derive(Default)]
pub(crate) struct Dropped {
    pub(crate) record_files: Vec<Arc<RecordFile>>,
    pub(crate) key_tables: Vec<Arc<KeyTable>>,
}

impl Dropped {
    /// Lets the files be unlinked when the last reader lets go. Only after the edit is durable.
    pub(crate) fn mark_obsolete(&self) {
        self.record_files.iter().for_each(|f| f.mark_obsolete());
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
        let same_key_tables = edit.key_tables.is_empty()
            && edit.dropped_key_tables.is_empty()
            && edit.dropped_partitions.is_empty();
        if !same_key_tables {
            self.live = Arc::default();
        }
        let mut dropped = Dropped::default();
        self.counters.apply(edit);
        self.keyspaces.extend(edit.keyspaces.iter().cloned());
        for meta in &edit.record_files {
            let file = Arc::new(RecordFile::open(context.store, meta.clone(), context.cache));
            match self
                .record_files
                .binary_search_by_key(&meta.number, |f| f.meta().number)
            {
                Ok(_) => return Err(format!("record file {} is added twice", meta.number.0)),
                Err(at) => self.record_files.insert(at, file),
            }
        }
        self.apply_partitions(edit)?;
        self.apply_generations(edit, context)?;
        self.apply_key_tables(edit, context, &mut dropped)?;
        for number in &edit.dropped_record_files {
            let found = self
                .record_files
                .binary_search_by_key(number, |f| f.meta().number);
            let at = found.map_err(|_| format!("record file {} is unknown", number.0))?;
            dropped.record_files.push(self.record_files.remove(at));
        }
        Ok(dropped)
    }

    fn apply_partitions(&mut self, edit: &VersionEdit) -> Result<(), String> {
        for id in &edit.dropped_partitions {
            let at = self.partitions.iter().position(|p| p.id == *id);
            self.partitions
                .remove(at.ok_or_else(|| format!("partition {} is unknown", id.0))?);
        }
        for meta in &edit.partitions {
            let PartitionMeta { id, start, end } = meta.clone();
            let at = self.partitions.partition_point(|p| p.start < start);
            let (generations, key_tables) = (Vec::new(), Vec::new());
            let partition = Partition {
                id,
                start,
                end,
                generations,
                key_tables,
            };
            self.partitions.insert(at, Arc::new(partition));
        }
        Ok(())
    }

    fn partition_mut(&mut self, id: PartitionId) -> Result<&mut Partition, String> {
        let found = self.partitions.iter_mut().find(|p| p.id == id);
        found
            .map(Arc::make_mut)
            .ok_or_else(|| format!("partition {} is unknown", id.0))
    }

    fn apply_generations(
        &mut self,
        edit: &VersionEdit,
        context: &mut ApplyContext<'_>,
    ) -> Result<(), String> {
        for (partition, id) in &edit.dropped_generations {
            let generations = &mut self.partition_mut(*partition)?.generations;
            let at = generations.iter().position(|g| g.id == *id);
            generations.remove(at.ok_or_else(|| format!("generation {} is unknown", id.0))?);
        }
        for place in &edit.tables {
            let TablePlace {
                partition,
                generation,
                slot,
                file,
            } = *place;
            let table = self.record_file(file).cloned();
            let table = table.ok_or_else(|| format!("record file {} is unknown", file.0))?;
            let generations = &mut self.partition_mut(partition)?.generations;
            if generations
                .first()
                .is_none_or(|newest| newest.id < generation)
            {
                let index = (context.new_index)(partition, generation);
                generations.insert(
                    0,
                    Generation {
                        id: generation,
                        tables: Vec::new(),
                        index,
                    },
                );
            }
            let found = generations.iter_mut().find(|g| g.id == generation);
            let found = found.ok_or_else(|| format!("generation {} is gone", generation.0))?;
            if found.tables.len() > usize::from(slot.0) {
                return Err(format!("slot {} is used twice", slot.0));
            }
            found.tables.resize(usize::from(slot.0), None);
            found.tables.push(Some(table));
        }
        Ok(())
    }

    fn apply_key_tables(
        &mut self,
        edit: &VersionEdit,
        context: &mut ApplyContext<'_>,
        dropped: &mut Dropped,
    ) -> Result<(), String> {
        for (partition, number) in &edit.dropped_key_tables {
            let tables = &mut self.partition_mut(*partition)?.key_tables;
            let at = tables.iter().position(|t| t.meta().number == *number);
            let at = at.ok_or_else(|| format!("key table {} is unknown", number.0))?;
            dropped.key_tables.push(tables.remove(at));
        }
        for (partition, meta) in &edit.key_tables {
            let table = Arc::new(KeyTable::open(context.store, meta.clone(), context.cache));
            let tables = &mut self.partition_mut(*partition)?.key_tables;
            let at = tables.partition_point(|t| t.meta().min_key < meta.min_key);
            let before = at.checked_sub(1).and_then(|i| tables.get(i));
            let overlaps = before.is_some_and(|t| t.meta().max_key >= meta.min_key)
                || tables
                    .get(at)
                    .is_some_and(|t| t.meta().min_key <= meta.max_key);
            if overlaps {
                return Err(format!("key table {} overlaps another", meta.number.0));
            }
            tables.insert(at, table);
        }
        Ok(())
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
        set(&mut self.flushed_seq, &edit.last_seq);
        set(&mut self.wal_low_water, &edit.wal_low_water);
        set(&mut self.clock_ms, &edit.clock_ms);
        set(&mut self.hash_seed, &edit.hash_seed);
        set(&mut self.options, &edit.options);
        set(&mut self.host_mark, &edit.host_mark);
    }
}
