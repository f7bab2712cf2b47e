//! The current version, its manifest, and where the next tables go.
//!
//! (What a full disk does to the manifest, and its renewal:
//! [`crate::engine::catalog::manifest_renewal`].)
//!
//! Every change of the files goes through [`Engine::commit_edit`]: check, sync the directory,
//! append to the manifest (the commit point), publish the view, and only then let dropped files go.
//!
//! Lock: [`Catalog`] is one mutex, taken under the commit lock or alone, held over the append to
//! the manifest and never while a job reads or writes data.

pub(crate) mod manifest_renewal;

use crate::base::keys::{GenerationId, PartitionId};
use crate::base::seeded::{seeded, slip};
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::hash_index::HashIndex;
use crate::jobs::flush::placing::{FlushTarget, GenerationLimits};
use crate::jobs::flush::{FlushedTable, placing};
use crate::jobs::partitioning::split;
use crate::jobs::partitioning::split::PartitionLimits;
use crate::partition::View;
use crate::version::edit::VersionEdit;
use crate::version::manifest::Manifest;
use crate::version::{ApplyContext, Generation, Partition, Version};
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Generations that a partition may have; the oldest is merged while newer ones fill.
pub(crate) const MAX_GENERATIONS: usize = 4;

/// The hash indexes of generations of partitions.
pub(crate) type Indexes = HashMap<(PartitionId, GenerationId), Arc<HashIndex>>;

pub(crate) struct Catalog {
    pub(crate) version: Arc<Version>,
    pub(crate) manifest: Manifest,
    /// Length of the manifest when it held only its snapshot.
    pub(crate) manifest_snapshot_len: u64,
    /// Files to be removed once a new manifest is durable: outputs of edits that may or may not be
    /// in the present one, and manifests that `CURRENT` may or may not name.
    pub(crate) quarantined: Vec<PathBuf>,
    /// Per partition the generation that takes tables. A generation that is no target is frozen.
    pub(crate) targets: HashMap<PartitionId, FlushTarget>,
    /// Partitions in which a merge, a split or a join is running: the lease.
    pub(crate) merging: HashSet<PartitionId>,
    /// Left sides of joins that were given up, and until when they are left alone.
    pub(crate) given_up_joins: HashMap<PartitionId, Duration>,
    /// The highest number given to a generation so far. None is given twice: whoever waits
    /// for a generation to be merged must not meet a later one of its name.
    pub(crate) last_generation: Arc<AtomicU64>,
}

/// How much memory the hash indexes of all generations may take, in multiples of what those of the
/// open ones may: above that nothing is flushed until a generation is merged.
pub(crate) const INDEX_LIMIT_HARD: u64 = 2;

/// How much the UnsortedStores of all partitions may hold together: twice what their open
/// generations may, and what one partition may in any case. Above that nothing is flushed until one
/// is merged.
pub(crate) fn most_unsorted_bytes(limits: GenerationLimits) -> u64 {
    let of_one = limits.unsorted_bytes.saturating_mul(MAX_GENERATIONS as u64);
    limits.shared_bytes.saturating_mul(2).max(of_one)
}

/// Why flushes wait for merges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlushBlock {
    /// This partition has as many generations as it may have.
    Partition(PartitionId),
    /// All UnsortedStores together hold too much.
    SharedLimit,
}

impl Catalog {
    /// Whether a flush must wait for a merge before it can begin another generation.
    pub(crate) fn flush_is_blocked(&self, limits: GenerationLimits) -> bool {
        self.what_blocks_flushes(limits).is_some()
    }

    /// What a flush must wait for before it can begin another generation.
    pub(crate) fn what_blocks_flushes(&self, limits: GenerationLimits) -> Option<FlushBlock> {
        let (mut bytes, mut index_bytes, mut any_frozen) = (0u64, 0u64, false);
        // After a split neighbours share their parent's indexes.
        let mut neighbours: &[Generation] = &[];
        for partition in self.version.partitions() {
            if self.blocks_flushes(partition, limits) {
                return Some(FlushBlock::Partition(partition.id));
            }
            bytes = bytes.saturating_add(partition.flushed_bytes());
            for generation in &partition.generations {
                let is_shared = |g: &Generation| Arc::ptr_eq(&g.index, &generation.index);
                if !neighbours.iter().any(is_shared) {
                    index_bytes += generation.index.memory_bytes() as u64;
                }
            }
            neighbours = &partition.generations;
            any_frozen |= !self.frozen(partition).is_empty();
        }
        let too_much = bytes > most_unsorted_bytes(limits)
            || index_bytes > limits.index_bytes.saturating_mul(INDEX_LIMIT_HARD);
        (any_frozen && too_much).then_some(FlushBlock::SharedLimit)
    }

    /// Whether a flush would need one more generation of the partition than it may have.
    pub(crate) fn blocks_flushes(&self, partition: &Partition, limits: GenerationLimits) -> bool {
        let target = self.targets.get(&partition.id);
        let open = target.is_some_and(|t| !t.is_full(limits));
        !open && partition.generations.len() >= MAX_GENERATIONS
    }

    /// The frozen generations of a partition, newest first: all but the one that takes tables.
    pub(crate) fn frozen<'a>(&self, partition: &'a Partition) -> &'a [Generation] {
        let target = self.targets.get(&partition.id);
        match partition.generations.split_first() {
            Some((newest, older)) if target.is_some_and(|t| t.generation == newest.id) => older,
            _ => &partition.generations,
        }
    }

    /// Whether a partition has outgrown its limits and can be split. At the limit of
    /// generations a merge goes first, so that both sides can begin another one at once.
    pub(crate) fn is_to_be_split(partition: &Partition, limits: PartitionLimits) -> bool {
        limits.are_exceeded(partition)
            && partition.generations.len() < MAX_GENERATIONS
            && split::is_even(partition)
    }

    /// Reserves slots for `tables` in every open generation that will take some of them, and
    /// returns these generations as they are before that.
    pub(crate) fn reserve(
        &mut self,
        tables: &[FlushedTable],
    ) -> (Arc<Version>, HashMap<PartitionId, FlushTarget>) {
        let mut before = HashMap::new();
        for partition in placing::owners(tables, &self.version) {
            if let Some(target) = self.targets.get_mut(&partition.id) {
                before.insert(partition.id, target.clone());
                target.reserve(tables.len());
            }
        }
        (Arc::clone(&self.version), before)
    }

    /// Freezes a partition's open generation, unless that would make it one too many.
    pub(crate) fn freeze(&mut self, partition: &Partition) -> bool {
        self.may_freeze(partition) && self.targets.remove(&partition.id).is_some()
    }

    /// Whether the partition has an open generation that may be frozen.
    pub(crate) fn may_freeze(&self, partition: &Partition) -> bool {
        partition.generations.len() < MAX_GENERATIONS && self.targets.contains_key(&partition.id)
    }

    /// Freezes every open generation that may be frozen; whether there was one.
    pub(crate) fn freeze_all(&mut self) -> bool {
        let version = Arc::clone(&self.version);
        let partitions = version.partitions().iter();
        partitions.filter(|p| self.freeze(p)).count() > 0
    }

    /// Freezes what is full; and while the open generations of all partitions together hold more
    /// than their share of bytes or index memory, the largest: one budget for all.
    pub(crate) fn freeze_full(&mut self, limits: GenerationLimits) {
        self.targets.retain(|_, target| !target.is_full(limits));
        let version = Arc::clone(&self.version);
        let open = |p: &Arc<Partition>| {
            let target = self.targets.get(&p.id)?;
            let bytes = target.bytes();
            let index_bytes = target.index.memory_bytes() as u64;
            Some((bytes, index_bytes, Arc::clone(p)))
        };
        let mut open: Vec<_> = version.partitions().iter().filter_map(open).collect();
        let mut bytes: u64 = open.iter().map(|(bytes, ..)| bytes).sum();
        let mut index_bytes: u64 = open.iter().map(|(_, index, _)| index).sum();
        let most_bytes = limits.shared_bytes;
        if open.len() < 2 || (bytes <= most_bytes && index_bytes <= limits.index_bytes) {
            return;
        }
        open.sort_unstable_by_key(|(bytes, ..)| std::cmp::Reverse(*bytes));
        for (its_bytes, its_index, partition) in open {
            if bytes <= most_bytes && index_bytes <= limits.index_bytes {
                return;
            }
            if self.freeze(&partition) {
                bytes -= its_bytes;
                index_bytes -= its_index;
            }
        }
    }
}

impl Engine {
    /// Commits an edit: the one append to the manifest before which nothing happened and after
    /// which everything did. `publish` changes the rest of the view together with the version. An
    /// edit that drops key tables or generations takes along the record files that only they used.
    pub(crate) fn commit_edit(
        &self,
        catalog: &mut Catalog,
        mut edit: VersionEdit,
        indexes: &Indexes,
        publish: impl FnOnce(&mut View),
    ) -> Result<()> {
        self.health.check_fatal()?;
        self.renew_full_manifest(catalog)?;
        edit.next_file = Some(self.next_file.load(Ordering::Relaxed));
        edit.lifetime = Some(self.lifetime(catalog.manifest.len()).encode());
        let mut index = |partition, generation| indexes.get(&(partition, generation)).cloned();
        let mut context = ApplyContext {
            store: &self.store,
            cache: &self.cache,
            index: &mut index,
            unlisted: &|number| self.view.load().unlisted_file(number),
        };
        let applied = catalog.version.apply(&edit, &mut context);
        let applied = applied.and_then(|next| next.0.check_pointers().map(|()| next));
        let (mut next, mut dropped) = applied.map_err(|what| self.inconsistent(what))?;
        let drops = !edit.dropped_key_tables.is_empty() || !edit.dropped_generations.is_empty();
        if drops && !seeded!(KeepDeadFiles) {
            // What nothing points to from now on goes with the same edit.
            let dead = next.remove_dead_record_files();
            let numbers = dead.iter().map(|file| file.meta().number);
            edit.dropped_record_files.extend(numbers);
            dropped.record_files.extend(dead);
        }
        if seeded!(DataRemovedBeforeEdit) {
            let (files, tables) = (&dropped.record_files, &dropped.key_tables);
            self.store
                .remove_files(files.iter().map(|file| file.path().to_owned()));
            self.store
                .remove_files(tables.iter().map(|table| table.path().to_owned()));
        }
        let named = slip!(DirectoryUnsynced, Ok(()), self.store.sync_directory());
        let durable = named.and_then(|()| catalog.manifest.append(&edit));
        if let Err(error) = durable {
            // Whether the edit is durable is unknown: both its inputs and its outputs are kept.
            self.manifest_failed(&error);
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
        self.renew_long_manifest(catalog);
        Ok(())
    }

    fn inconsistent(&self, what: String) -> Error {
        Error::internal(format!("the new version is inconsistent: {what}"))
    }
}
