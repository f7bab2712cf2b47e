//! The current version, its manifest, and where the next tables go.
//!
//! Every change of the files goes through [`Engine::commit_edit`]: check, sync the directory, append
//! to the manifest (the commit point), publish the view, and only then let dropped files go.
//!
//! Lock: [`Catalog`] is one mutex, taken under the commit lock or alone, held over the append to
//! the manifest and never while a job reads or writes data.

use super::engine::Engine;
use crate::base::keys::{FileNumber, GenerationId, PartitionId};
use crate::error::{Error, Result};
use crate::hash_index::HashIndex;
use crate::jobs::flush::{FlushTarget, FlushedTable, GenerationLimits};
use crate::partition::View;
use crate::version::edit::{TablePlace, VersionEdit};
use crate::version::manifest::Manifest;
use crate::version::{ApplyContext, Version};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Generations that a partition may have; the oldest is merged while newer ones fill.
pub(crate) const MAX_GENERATIONS: usize = 4;
/// A manifest of this many times the length of its snapshot is replaced by a new one.
const MANIFEST_GROWTH: u64 = 8;
const MANIFEST_LEAST_BYTES: u64 = 4 << 20;

/// A generation of a partition.
pub(crate) type GenerationKey = (PartitionId, GenerationId);

pub(crate) struct Catalog {
    pub(crate) version: Arc<Version>,
    pub(crate) manifest: Manifest,
    /// Length of the manifest when it held only its snapshot.
    pub(crate) manifest_snapshot_len: u64,
    /// Per partition the generation that takes tables. A generation that is no target is frozen.
    pub(crate) targets: HashMap<PartitionId, FlushTarget>,
    /// Partitions in which a merge is running.
    pub(crate) merging: HashSet<PartitionId>,
    /// The highest number given to a generation so far. None is given twice: whoever waits
    /// for a generation to be merged must not meet a later one of its name.
    pub(crate) last_generation: GenerationId,
}

impl Catalog {
    /// Whether a flush must wait for a merge before it can begin another generation.
    pub(crate) fn flush_is_blocked(&self, limits: GenerationLimits) -> bool {
        self.version.partitions().iter().any(|p| {
            let open = self.targets.get(&p.id).is_some_and(|t| !t.is_full(limits));
            !open && p.generations.len() >= MAX_GENERATIONS
        })
    }

    /// The oldest generation of a partition, if it is frozen.
    pub(crate) fn frozen(&self, id: PartitionId) -> Option<GenerationId> {
        let oldest = self.version.partition(id)?.generations.last()?.id;
        let open = self
            .targets
            .get(&id)
            .is_some_and(|t| t.generation == oldest);
        (!open).then_some(oldest)
    }

    /// Gives tables their slots, beginning generations as needed. Returns the index of each
    /// generation that takes part.
    pub(crate) fn place(
        &mut self,
        tables: &[FlushedTable],
        limits: GenerationLimits,
    ) -> (Vec<TablePlace>, HashMap<GenerationKey, Arc<HashIndex>>) {
        let mut places = Vec::new();
        let mut indexes = HashMap::new();
        for table in tables {
            let id = table.partition;
            let place = loop {
                let open = self.targets.get_mut(&id).filter(|t| !t.is_full(limits));
                let target = match open {
                    Some(target) => target,
                    None => {
                        let generation = self.new_generation();
                        let target = FlushTarget::begin(generation, table, limits);
                        self.targets.entry(id).insert_entry(target).into_mut()
                    }
                };
                indexes.insert((id, target.generation), Arc::clone(&target.index));
                match target.place(table) {
                    Some(place) => break place,
                    None => drop(self.targets.remove(&id)),
                }
            };
            places.push(place);
        }
        (places, indexes)
    }

    fn new_generation(&mut self) -> GenerationId {
        self.last_generation.0 += 1;
        self.last_generation
    }
}

impl Engine {
    /// Commits an edit: the one append to the manifest before which nothing happened and after
    /// which everything did. `publish` changes the rest of the view together with the version.
    pub(crate) fn commit_edit(
        &self,
        catalog: &mut Catalog,
        mut edit: VersionEdit,
        indexes: &HashMap<GenerationKey, Arc<HashIndex>>,
        publish: impl FnOnce(&mut View),
    ) -> Result<()> {
        self.health.check_fatal()?;
        edit.next_file = Some(self.next_file.load(Ordering::Relaxed));
        let mut new_index = |partition, generation| {
            let known = indexes.get(&(partition, generation)).cloned();
            known.unwrap_or_else(|| Arc::new(HashIndex::with_capacity(0)))
        };
        let mut context = ApplyContext {
            store: &self.store,
            cache: &self.cache,
            new_index: &mut new_index,
        };
        let applied = catalog.version.apply(&edit, &mut context);
        let (next, dropped) = applied.map_err(|what| self.inconsistent(what))?;
        let durable = self
            .sync_directory()
            .and_then(|()| catalog.manifest.append(&edit));
        if let Err(error) = durable {
            // Whether the edit is durable is unknown: keep both its inputs and its outputs.
            self.health.set_fatal(&error);
            return Err(error);
        }
        self.manifest_edits
            .store(catalog.manifest.edits(), Ordering::Release);
        catalog.version = Arc::new(next);
        let version = Arc::clone(&catalog.version);
        self.update_view(|view| {
            view.version = version;
            publish(view);
        });
        dropped.mark_obsolete();
        self.renew_manifest_if_long(catalog)
    }

    /// Record files that no longer serve anything once `edit` is applied.
    pub(crate) fn dead_after(
        &self,
        version: &Version,
        edit: &VersionEdit,
    ) -> Result<Vec<FileNumber>> {
        let mut new_index = |_, _| Arc::new(HashIndex::with_capacity(0));
        let mut context = ApplyContext {
            store: &self.store,
            cache: &self.cache,
            new_index: &mut new_index,
        };
        let applied = version.apply(edit, &mut context);
        let (next, _) = applied.map_err(|what| self.inconsistent(what))?;
        Ok(next.dead_record_files())
    }

    /// Makes the names of new files durable.
    fn sync_directory(&self) -> Result<()> {
        let dir = self.store.dir();
        let synced = self.store.env().vfs.sync_dir(dir);
        synced.map_err(|e| Error::io("sync the directory", dir, e))
    }

    fn inconsistent(&self, what: String) -> Error {
        Error::corruption(
            self.store.dir(),
            0,
            format!("the new version is inconsistent: {what}"),
        )
    }

    /// Replaces a manifest that has grown long by one that holds a snapshot.
    fn renew_manifest_if_long(&self, catalog: &mut Catalog) -> Result<()> {
        let long = (catalog.manifest_snapshot_len * MANIFEST_GROWTH).max(MANIFEST_LEAST_BYTES);
        if catalog.manifest.len() < long {
            return Ok(());
        }
        let number = FileNumber(self.next_file.fetch_add(1, Ordering::Relaxed));
        let mut snapshot = catalog.version.snapshot();
        snapshot.next_file = Some(self.next_file.load(Ordering::Relaxed));
        snapshot.edits_before = Some(catalog.manifest.edits());
        let renewed = Manifest::create(&self.store, number, &snapshot);
        let renewed = renewed.inspect_err(|error| self.health.set_fatal(error))?;
        let old = std::mem::replace(&mut catalog.manifest, renewed);
        self.counters
            .retired_manifest_bytes
            .fetch_add(old.len(), Ordering::Relaxed);
        self.manifest_edits
            .store(catalog.manifest.edits(), Ordering::Release);
        catalog.manifest_snapshot_len = catalog.manifest.len();
        self.remove_files([old.path().to_owned()]);
        Ok(())
    }
}
