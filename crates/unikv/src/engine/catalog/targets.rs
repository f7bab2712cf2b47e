//! The generations that take tables, and the partitions that have frozen ones.
//!
//! Invariant: `frozen` has exactly the partitions of the present version of which
//! [`Targets::frozen_of`] gives any. So whatever changes a target goes through here, and each edit
//! is noted ([`CatalogState::note_edit`]); debug builds compare with a walk over all partitions.
//!
//! Kept under the catalog's lock.

use super::CatalogState;
use crate::base::keys::PartitionId;
use crate::base::seeded::seeded;
use crate::jobs::flush::placing::{FlushTarget, GenerationLimits};
use crate::version::edit::VersionEdit;
use crate::version::{Generation, Partition, Version};
use std::collections::{BTreeSet, HashMap};
use std::ops::Deref;
use std::sync::Arc;

/// Per partition the generation that takes tables. A generation that is no target is frozen.
pub(crate) struct Targets {
    open: HashMap<PartitionId, FlushTarget>,
    frozen: BTreeSet<PartitionId>,
}

impl Deref for Targets {
    type Target = HashMap<PartitionId, FlushTarget>;

    fn deref(&self) -> &HashMap<PartitionId, FlushTarget> {
        &self.open
    }
}

impl Targets {
    /// The targets `open` of a version.
    pub(crate) fn new(version: &Version, open: HashMap<PartitionId, FlushTarget>) -> Targets {
        let frozen = BTreeSet::new();
        let mut targets = Targets { open, frozen };
        let partitions = version.partitions().iter();
        partitions.for_each(|partition| targets.note(version, partition.id));
        targets
    }

    /// The frozen generations of a partition, newest first.
    fn frozen_of<'a>(&self, partition: &'a Partition) -> &'a [Generation] {
        let target = self.open.get(&partition.id);
        match partition.generations.split_first() {
            Some((newest, older)) if target.is_some_and(|t| t.generation == newest.id) => older,
            _ => &partition.generations,
        }
    }

    /// Must follow each change of a partition's generations or target.
    fn note(&mut self, version: &Version, id: PartitionId) {
        let partition = version.partition(id);
        if partition.is_some_and(|p| !self.frozen_of(p).is_empty()) {
            self.frozen.insert(id);
        } else {
            self.frozen.remove(&id);
        }
    }
}

impl CatalogState {
    /// The frozen generations of a partition, newest first: all but the one that takes tables.
    pub(crate) fn frozen<'a>(&self, partition: &'a Partition) -> &'a [Generation] {
        self.targets.frozen_of(partition)
    }

    /// The partitions that have frozen generations, by ascending id.
    pub(crate) fn frozen_partitions(&self) -> impl Iterator<Item = &Arc<Partition>> {
        let ids = self.targets.frozen.iter();
        ids.filter_map(|id| self.version.partition(*id))
    }

    /// These generations take tables from now on.
    pub(crate) fn begin_targets(
        &mut self,
        targets: impl IntoIterator<Item = (PartitionId, FlushTarget)>,
    ) {
        for (id, target) in targets {
            self.targets.open.insert(id, target);
            self.targets.note(&self.version, id);
        }
    }

    /// A partition's generation takes no more tables. Whether there was one that did.
    pub(crate) fn end_target(&mut self, id: PartitionId) -> bool {
        let was_open = self.targets.open.remove(&id).is_some();
        self.targets.note(&self.version, id);
        was_open
    }

    /// Ends the targets that are full.
    pub(super) fn end_full_targets(&mut self, limits: GenerationLimits) {
        let full = self.targets.open.iter();
        let full = full.filter(|(_, target)| target.is_full(limits));
        let full: Vec<PartitionId> = full.map(|(id, _)| *id).collect();
        for id in full {
            self.end_target(id);
        }
    }

    /// Reserves slots for this many tables in the open generation of a partition, if there is one,
    /// and returns what it was before.
    pub(super) fn reserve_in(&mut self, id: PartitionId, tables: usize) -> Option<FlushTarget> {
        let target = self.targets.open.get_mut(&id)?;
        let before = target.clone();
        target.reserve(tables);
        Some(before)
    }

    /// Notes an edit that has made the present version.
    pub(super) fn note_edit(&mut self, edit: &VersionEdit) {
        let dropped = edit.dropped_generations.iter().map(|(id, _)| *id);
        let filled = edit.tables.iter().map(|place| place.partition);
        let touched: BTreeSet<PartitionId> = dropped
            .chain(filled)
            .chain(edit.dropped_partitions.iter().copied())
            .collect();
        for id in touched.into_iter().filter(|_| !seeded!(FrozenUnnoted)) {
            self.targets.note(&self.version, id);
        }
    }

    /// Whether the set of partitions with frozen generations is as a walk makes it.
    #[cfg(any(test, debug_assertions))]
    pub(crate) fn check_frozen(&self) -> Result<(), String> {
        let all = self.version.partitions().iter();
        let frozen = all.filter(|p| !self.frozen(p).is_empty()).map(|p| p.id);
        if frozen.collect::<BTreeSet<_>>() == self.targets.frozen {
            Ok(())
        } else {
            Err("the partitions with frozen generations are others".to_owned())
        }
    }
}

#[cfg(test)]
impl CatalogState {
    /// Freezes all generations, whatever may be frozen.
    pub(crate) fn end_targets(&mut self) {
        let ids: Vec<PartitionId> = self.targets.open.keys().copied().collect();
        for id in ids {
            self.end_target(id);
        }
    }
}
