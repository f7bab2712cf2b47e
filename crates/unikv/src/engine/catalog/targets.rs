//! The generations that take tables.
//!
//! Whatever changes a target goes through here, and notes its partition
//! ([`super::partition_figures`]).
//!
//! Kept under the catalog's lock.

use super::{Catalog, CatalogState, Indexes};
use crate::base::keys::PartitionId;
use crate::base::sync::MutexGuard;
use crate::error::Result;
use crate::jobs::flush::FlushedTable;
use crate::jobs::flush::placing::{
    FlushTarget, GenerationLimits, MAX_GENERATIONS, Placed, PlacingContext, place,
};
use crate::version::{Generation, Partition, Version};
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

/// Per partition the generation that takes tables. A generation that is no target is frozen.
pub(crate) struct Targets(HashMap<PartitionId, FlushTarget>);

impl Deref for Targets {
    type Target = HashMap<PartitionId, FlushTarget>;

    fn deref(&self) -> &HashMap<PartitionId, FlushTarget> {
        &self.0
    }
}

impl Targets {
    /// The newest generation of each partition goes on taking tables.
    pub(crate) fn resumed(version: &Version, limits: GenerationLimits) -> Targets {
        let newest = version.partitions().iter();
        let newest = newest.filter_map(|p| Some((p.id, p.generations.first()?)));
        let newest = newest.filter(|(_, newest)| !newest.is_ingested());
        let targets = newest.map(|(id, newest)| (id, FlushTarget::resume(newest)));
        Targets(targets.filter(|(_, t)| !t.is_full(limits)).collect())
    }

    /// The frozen generations of a partition, newest first.
    pub(super) fn frozen_of<'a>(&self, partition: &'a Partition) -> &'a [Generation] {
        let target = self.0.get(&partition.id);
        match partition.generations.split_first() {
            Some((newest, older)) if target.is_some_and(|t| t.generation == newest.id) => older,
            _ => &partition.generations,
        }
    }

    /// Whether the partition has an open generation that may be frozen.
    pub(super) fn may_freeze(&self, partition: &Partition) -> bool {
        partition.generations.len() < MAX_GENERATIONS && self.0.contains_key(&partition.id)
    }

    /// Whether a generation of the partition takes tables, unless it is too large for more.
    pub(super) fn take_tables_in(&self, id: PartitionId) -> bool {
        let target = self.0.get(&id);
        target.is_some_and(|target| target.has_slots())
    }
}

impl CatalogState {
    /// The frozen generations of a partition, newest first: all but the one that takes tables.
    pub(crate) fn frozen<'a>(&self, partition: &'a Partition) -> &'a [Generation] {
        self.targets.frozen_of(partition)
    }

    /// These generations take tables from now on.
    pub(crate) fn begin_targets(
        &mut self,
        targets: impl IntoIterator<Item = (PartitionId, FlushTarget)>,
    ) {
        for (id, target) in targets {
            self.targets.0.insert(id, target);
            self.note_target(id);
        }
    }

    /// A partition's generation takes no more tables. Whether there was one that did.
    pub(crate) fn end_target(&mut self, id: PartitionId) -> bool {
        let was_open = self.targets.0.remove(&id).is_some();
        self.note_target(id);
        was_open
    }

    /// Ends the targets that are full.
    pub(super) fn end_full_targets(&mut self, limits: GenerationLimits) {
        let full = self.targets.0.iter();
        let full = full.filter(|(_, target)| target.is_full(limits));
        let full: Vec<PartitionId> = full.map(|(id, _)| *id).collect();
        for id in full {
            self.end_target(id);
        }
    }

    /// Reserves slots for this many tables in the open generation of a partition, if there is one,
    /// and returns what it was before.
    pub(super) fn reserve_in(&mut self, id: PartitionId, tables: usize) -> Option<FlushTarget> {
        let target = self.targets.0.get_mut(&id)?;
        let before = target.clone();
        target.reserve(tables);
        self.note_target(id);
        Some(before)
    }
}

impl Catalog {
    /// Gives tables their places in the partitions. This may read key sections, so it is done
    /// without the lock; what was split or frozen meanwhile is gone over with it, and that reads no
    /// section, because new generations begin there, and little of key tables that a merge has just
    /// made.
    pub(crate) fn place_tables(
        &self,
        tables: &[FlushedTable],
    ) -> Result<(MutexGuard<'_, CatalogState>, Vec<Placed>)> {
        let mut catalog = self.lock();
        let (version, targets) = catalog.reserve(tables);
        let last_generation = Arc::clone(&catalog.last_generation);
        drop(catalog);
        let context = PlacingContext {
            limits: self.space.generation_limits(&version),
            hash_seed: self.core.hash_seed,
            last_generation: &last_generation,
        };
        let placed = place(&context, tables, &version, &targets, Vec::new())?;
        let catalog = self.lock();
        let (version, targets) = (&catalog.version, &catalog.targets);
        let placed = place(&context, tables, version, targets, placed)?;
        Ok((catalog, placed))
    }
}

/// The hash indexes that are published with placed tables.
pub(crate) fn indexes_of(placed: &[Placed]) -> Indexes {
    let each = placed.iter().flat_map(|p| {
        let of = p.partition;
        p.indexes
            .iter()
            .map(move |(g, index)| ((of, *g), Arc::clone(index)))
    });
    each.collect()
}

#[cfg(test)]
impl CatalogState {
    /// Freezes all generations, whatever may be frozen.
    pub(crate) fn end_targets(&mut self) {
        let ids: Vec<PartitionId> = self.targets.0.keys().copied().collect();
        for id in ids {
            self.end_target(id);
        }
    }
}
