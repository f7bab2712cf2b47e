//! The current version, its manifest, and where the next tables go.
//!
//! (What a full disk does to the manifest, and its renewal:
//! [`manifest_renewal`].)
//!
//! Every change of the files goes through [`Catalog::commit_edit`]: check, sync the directory,
//! append to the manifest (the commit point), publish the view, and only then let dropped files go.
//!
//! Lock: [`Catalog`] is one mutex, taken under the commit lock or alone, held over the append to
//! the manifest and never while a job reads or writes data.

mod clearing;
mod freezing;
pub(crate) mod gone;
pub(crate) mod manifest_renewal;
mod partition_figures;
mod state;
mod targets;

pub(crate) use partition_figures::PartitionFigures;
pub(crate) use state::{CatalogState, FlushBlock};
pub(crate) use targets::{Targets, indexes_of};

use crate::base::keys::{GenerationId, PartitionId};
use crate::base::seeded::{seeded, slip};
use crate::base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::base::sync::{FairMutex, MutexGuard};
use crate::engine::core::Core;
use crate::engine::health::MERGE;
use crate::engine::read::ReadState;
use crate::engine::space::DiskSpace;
use crate::error::{Error, Result};
use crate::hash_index::HashIndex;
use crate::partition::View;
use crate::version::ApplyContext;
use crate::version::edit::VersionEdit;
use std::collections::HashMap;
use std::sync::Arc;

/// The hash indexes of generations of partitions.
pub(crate) type Indexes = HashMap<(PartitionId, GenerationId), Arc<HashIndex>>;

/// The component that commits changes of the files.
pub(crate) struct Catalog {
    core: Arc<Core>,
    space: Arc<DiskSpace>,
    read: Arc<ReadState>,
    state: FairMutex<CatalogState>,
    /// Edits in the manifest, counted over all manifests of the database.
    manifest_edits: AtomicU64,
    /// A recovered manifest stays in force, and says nothing of this opening.
    is_staying: AtomicBool,
}

impl Catalog {
    pub(crate) fn new(
        core: &Arc<Core>,
        space: &Arc<DiskSpace>,
        read: &Arc<ReadState>,
        state: CatalogState,
    ) -> Arc<Catalog> {
        Arc::new(Catalog {
            core: Arc::clone(core),
            space: Arc::clone(space),
            read: Arc::clone(read),
            manifest_edits: AtomicU64::new(state.manifest.edits()),
            is_staying: AtomicBool::new(state.manifest.is_staying()),
            state: FairMutex::new(state),
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, CatalogState> {
        self.state.lock()
    }

    /// Edits in the manifest, counted over all manifests of the database.
    pub(crate) fn manifest_edits(&self) -> u64 {
        self.manifest_edits.load(Ordering::Acquire)
    }

    /// Whether the manifest of an earlier opening is in force, as there was no room for another.
    pub(crate) fn is_staying(&self) -> bool {
        self.is_staying.load(Ordering::Acquire)
    }

    /// Commits an edit: the one append to the manifest before which nothing happened and after
    /// which everything did. `publish` changes the rest of the view together with the version. An
    /// edit that drops key tables or generations takes along the record files that only they used.
    /// After an error [`CatalogState::append_tried`] says whether the edit may be durable.
    pub(crate) fn commit_edit(
        &self,
        catalog: &mut CatalogState,
        mut edit: VersionEdit,
        indexes: &Indexes,
        publish: impl FnOnce(&mut View),
    ) -> Result<()> {
        catalog.append_tried = false;
        #[cfg(any(test, debug_assertions))]
        let is_checked = catalog.is_checked_now();
        #[cfg(any(test, debug_assertions))]
        if is_checked {
            let figures = catalog.check_figures();
            figures.map_err(|what| self.inconsistent(what))?;
        }
        self.core.health.check_fatal()?;
        self.renew_full_manifest(catalog)?;
        edit.next_file = Some(self.core.next_file.load(Ordering::Relaxed));
        let (counters, manifest_len) = (&self.core.counters, catalog.manifest.len());
        let lifetime = counters.lifetime(&catalog.version, manifest_len);
        edit.lifetime = Some(lifetime.encode());
        let now = self.core.now();
        if self.core.clock.is_needed() {
            // An edit takes the place of the commit tag that would be due within a minute.
            edit.clock_ms = Some(self.core.clock.note_ms());
        }
        let mut index = |partition, generation| indexes.get(&(partition, generation)).cloned();
        let mut context = ApplyContext {
            store: &self.core.store,
            cache: &self.core.cache,
            index: &mut index,
            unlisted: &|number| self.read.view.load().unlisted_file(number),
        };
        let applied = catalog.version.apply(&edit, &mut context);
        let applied = applied.and_then(|next| next.0.check_pointers().map(|()| next));
        let (mut next, mut dropped) = applied.map_err(|what| self.inconsistent(what))?;
        let drops = !edit.dropped_key_tables.is_empty()
            || !edit.dropped_generations.is_empty()
            || !edit.dropped_partitions.is_empty();
        if drops {
            // What nothing points to from now on goes with the same edit.
            let dead = next.remove_dead_record_files();
            let numbers = dead.iter().map(|file| file.meta().number);
            edit.dropped_record_files.extend(numbers);
            dropped.record_files.extend(dead);
        }
        #[cfg(any(test, debug_assertions))]
        if is_checked {
            next.check_sums().map_err(|what| self.inconsistent(what))?;
        }
        if seeded!(DataRemovedBeforeEdit) {
            let (files, tables) = (&dropped.record_files, &dropped.key_tables);
            self.core
                .store
                .remove_files(files.iter().map(|file| file.path().to_owned()));
            self.core
                .store
                .remove_files(tables.iter().map(|table| table.path().to_owned()));
        }
        catalog.append_tried = true;
        let named = slip!(DirectoryUnsynced, Ok(()), self.core.store.sync_directory());
        let durable = named.and_then(|()| catalog.manifest.append(&edit));
        if let Err(error) = durable {
            // Whether the edit is durable is unknown: both its inputs and its outputs are kept.
            self.manifest_failed(&error);
            return Err(error);
        }
        if edit.clock_ms.is_some() {
            self.core.clock.noted(now);
        }
        self.manifest_edits
            .store(catalog.manifest.edits(), Ordering::Release);
        let before = std::mem::replace(&mut catalog.version, Arc::new(next));
        catalog.note_edit(&edit, &before);
        let version = Arc::clone(&catalog.version);
        self.read.update_view(|view| {
            view.version = version;
            publish(view);
        });
        self.core.visible_page.edits(catalog.manifest.edits());
        dropped.mark_obsolete(|file| self.core.window_files.mark_obsolete(file));
        self.core.note_changes();
        self.renew_long_manifest(catalog);
        Ok(())
    }

    /// What a flush must wait for before it can begin another generation.
    pub(crate) fn what_blocks_flushes(&self, catalog: &CatalogState) -> Option<FlushBlock> {
        let limits = self.space.generation_limits(&catalog.version);
        let health = &self.core.health;
        catalog.what_blocks_flushes(limits, || {
            let failures = health.failures().into_iter();
            let of_merges = failures.filter(|failure| failure.job == MERGE);
            of_merges.filter_map(|failure| failure.partition).collect()
        })
    }

    /// The partition for whose merge flushes wait, if they wait for that of one.
    pub(crate) fn blocking_partition(&self, catalog: &CatalogState) -> Option<PartitionId> {
        match self.what_blocks_flushes(catalog)? {
            FlushBlock::Partition(id) => Some(id),
            FlushBlock::SharedLimit => None,
        }
    }

    /// Whether a flush must wait for a merge before it can begin another generation.
    pub(crate) fn flush_is_blocked(&self, catalog: &CatalogState) -> bool {
        self.what_blocks_flushes(catalog).is_some()
    }

    fn inconsistent(&self, what: String) -> Error {
        Error::internal(format!("the new version is inconsistent: {what}"))
    }
}
