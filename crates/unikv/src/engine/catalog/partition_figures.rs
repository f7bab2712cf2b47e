//! The figures of the partitions that decisions go by (`jobs/plan/partitions.rs`).
//!
//! Invariant: they are those of the present version and its targets. So whatever changes a target
//! notes its partition, and each edit notes the partitions that it has changed, and those before
//! them, as the figures of a join stand with its left side. Debug builds compare with the figures
//! of all partitions, made from scratch.
//!
//! Kept under the catalog's lock.

use super::CatalogState;
use super::targets::Targets;
use crate::base::keys::{KeyspaceId, PartitionId};
use crate::jobs::flush::placing::MAX_GENERATIONS;
use crate::jobs::partitioning::split::PartitionLimits;
use crate::jobs::partitioning::{join, split};
use crate::jobs::plan::partitions::{ForScans, Frozen, JoinFacts, PartitionFacts, Partitions};
use crate::partition::scan_sources;
use crate::version::edit::VersionEdit;
use crate::version::{Generation, KeyRange, Partition, Version};
use std::collections::BTreeSet;
use std::sync::Arc;

/// An UnsortedStore of no more tables is not merged for scans alone.
const FEW_TABLES: usize = 3;

/// The figures of all partitions.
pub(crate) struct PartitionFigures {
    limits: PartitionLimits,
    /// See [`Tuning::scan_merge_limit`](crate::Tuning::scan_merge_limit).
    scan_merge_limit: usize,
    partitions: Partitions,
}

impl PartitionFigures {
    pub(crate) fn new(
        version: &Version,
        targets: &Targets,
        limits: PartitionLimits,
        scan_merge_limit: usize,
    ) -> PartitionFigures {
        let mut figures = PartitionFigures {
            limits,
            scan_merge_limit,
            partitions: Partitions::default(),
        };
        for partition in version.partitions().iter() {
            let facts = figures.of(version, targets, partition);
            figures.partitions.set(partition.id, Some(facts));
        }
        figures
    }

    pub(crate) fn partitions(&self) -> &Partitions {
        &self.partitions
    }

    fn of(&self, version: &Version, targets: &Targets, partition: &Partition) -> PartitionFacts {
        let has_all = partition.generations.len() >= MAX_GENERATIONS;
        let is_split = |p: &Partition| self.limits.are_exceeded(p) && split::is_even(p);
        let (frozen, blocks_flushes) = PartitionFigures::of_target(targets, partition);
        PartitionFacts {
            start: partition.start.as_slice().into(),
            bytes: partition.data_bytes(),
            unsorted_bytes: partition.unsorted_bytes(),
            key_tables: partition.key_tables.len(),
            key_table_bytes: partition.key_table_bytes(),
            frozen,
            blocks_flushes,
            // At the limit of generations a merge goes first, so that both sides can begin another
            // one at once.
            is_to_be_split: !has_all && is_split(partition),
            join: self.join_of(version, partition),
            for_scans: self.for_scans(targets, partition),
        }
    }

    fn for_scans(&self, targets: &Targets, partition: &Partition) -> ForScans {
        let is_worth_merging = |newest: &Generation| {
            newest.tables().count() > FEW_TABLES && newest.bytes() >= partition.key_table_bytes()
        };
        let newest = partition.generations.first();
        ForScans {
            has_many_tables: targets.may_freeze(partition) && newest.is_some_and(is_worth_merging),
            is_charged: scan_sources::is_charged(partition),
            wants_scan_merge: scan_sources::is_merge_worth_it(partition, self.scan_merge_limit),
        }
    }

    /// The frozen generations of a partition, and whether it blocks flushes.
    fn of_target(targets: &Targets, partition: &Partition) -> (Option<Frozen>, bool) {
        let frozen = targets.frozen_of(partition);
        let tables = frozen.iter().flat_map(Generation::tables);
        let oldest = tables.map(|(_, table)| table.meta().number).min();
        let frozen = (!frozen.is_empty()).then_some(Frozen {
            oldest_file: oldest,
        });
        let has_all = partition.generations.len() >= MAX_GENERATIONS;
        let blocks_flushes = has_all && !targets.take_tables_in(partition.id);
        (frozen, blocks_flushes)
    }

    /// The join of a partition with the next, if both are of one keyspace and it is due.
    fn join_of(&self, version: &Version, left: &Partition) -> Option<JoinFacts> {
        let right = version.partition_after(left)?;
        let both = KeyRange {
            start: &left.start,
            end: right.end.as_deref(),
        };
        let keyspaces = &version.keyspaces;
        // One that is gone is joined once it is vacant, which no edit says: see `Gone`.
        let is_of_one = |range| keyspaces.count_in(range) == 1;
        let facts = join::facts(left, right, self.limits);
        facts.filter(|_| {
            [both, left.range(), right.range()]
                .into_iter()
                .all(is_of_one)
        })
    }

    /// Notes what a partition of the present version has become.
    fn note(&mut self, version: &Version, targets: &Targets, id: PartitionId) {
        let partition = version.partition(id);
        let facts = partition.map(|partition| self.of(version, targets, partition));
        self.partitions.set(id, facts);
    }

    /// Notes that a partition has another target, or none.
    fn note_target(&mut self, version: &Version, targets: &Targets, id: PartitionId) {
        let known = self.partitions.get(id).zip(version.partition(id));
        let Some((facts, partition)) = known else {
            return;
        };
        let (frozen, blocks_flushes) = PartitionFigures::of_target(targets, partition);
        let facts = PartitionFacts {
            frozen,
            blocks_flushes,
            for_scans: self.for_scans(targets, partition),
            ..facts.clone()
        };
        self.partitions.set(id, Some(facts));
    }
}

impl CatalogState {
    /// What decisions go by of the partitions.
    pub(crate) fn partitions(&self) -> &Partitions {
        self.figures.partitions()
    }

    /// Must follow each change of a partition's target.
    pub(super) fn note_target(&mut self, id: PartitionId) {
        let (version, targets) = (&self.version, &self.targets);
        self.figures.note_target(version, targets, id);
    }

    /// Scans have charged much to a partition, or what they had charged is spent.
    pub(crate) fn note_charged(&mut self, id: PartitionId) {
        self.figures.note(&self.version, &self.targets, id);
    }

    /// The partitions that have frozen generations, the most urgent first.
    pub(crate) fn frozen_partitions(&self) -> impl Iterator<Item = &Arc<Partition>> {
        let ids = self.partitions().merges();
        ids.filter_map(|id| self.version.partition(id))
    }

    /// Notes an edit that has made the present version from `before`.
    pub(super) fn note_edit(&mut self, edit: &VersionEdit, before: &Version) {
        let version = &self.version;
        let mut touched = touched(edit, version, before);
        // The figures of a join stand with its left side.
        let ids = touched.iter().filter_map(|id| version.partition(*id));
        let lefts = ids.filter_map(|p| Some(version.partition_before(p)?.id));
        let lefts: Vec<_> = lefts.collect();
        touched.extend(lefts);
        for id in touched {
            self.figures.note(version, &self.targets, id);
        }
    }

    /// Whether this edit's sums and figures are compared with a walk over all partitions. With many
    /// partitions only some edits are, or the walks would grow with the square of the partitions.
    #[cfg(any(test, debug_assertions))]
    pub(crate) fn is_checked_now(&self) -> bool {
        const PARTITIONS_OF_EACH_EDIT: u64 = 64;
        let partitions = self.version.partitions().len() as u64;
        let one_in = 1 + partitions / PARTITIONS_OF_EACH_EDIT;
        self.manifest.len().is_multiple_of(one_in)
    }

    /// Whether the figures are those that all partitions come to.
    #[cfg(any(test, debug_assertions))]
    pub(crate) fn check_figures(&self) -> Result<(), String> {
        let known = &self.figures;
        let all = PartitionFigures::new(
            &self.version,
            &self.targets,
            known.limits,
            known.scan_merge_limit,
        );
        if all.partitions == known.partitions {
            return Ok(());
        }
        let mut ids = self.version.partitions().iter().map(|p| p.id);
        // Readers charge meanwhile, and report it later.
        let of = |figures: &PartitionFigures, id| {
            let facts = figures.partitions.get(id)?;
            let for_scans = ForScans {
                has_many_tables: facts.for_scans.has_many_tables,
                ..ForScans::default()
            };
            Some(PartitionFacts {
                for_scans,
                ..facts.clone()
            })
        };
        match ids.find(|id| of(&all, *id) != of(known, *id)) {
            Some(id) => Err(format!("the figures of {id:?} are others")),
            None if all.partitions.len() != known.partitions.len() => {
                Err("there are figures of partitions that are gone".to_owned())
            }
            None => Ok(()),
        }
    }
}

/// The partitions that an edit has changed, and those whose keyspaces it has.
fn touched(edit: &VersionEdit, after: &Version, before: &Version) -> BTreeSet<PartitionId> {
    let generations = edit.dropped_generations.iter().map(|(id, _)| *id);
    let tables = edit.tables.iter().map(|place| place.partition);
    let key_tables = edit.key_tables.iter().map(|(id, _)| *id);
    let old_tables = edit.dropped_key_tables.iter().map(|(id, _)| *id);
    let partitions = edit.partitions.iter().map(|partition| partition.id);
    let dropped = edit.dropped_partitions.iter().copied();
    let own = generations
        .chain(tables)
        .chain(key_tables)
        .chain(old_tables);
    let mut touched: BTreeSet<_> = own.chain(partitions).chain(dropped).collect();
    // The one before a partition that has gone has another neighbour.
    let gone = edit.dropped_partitions.iter();
    let gone = gone.filter_map(|id| before.partition(*id));
    touched.extend(gone.filter_map(|p| Some(after.partition_for(&p.start)?.id)));
    let ids = edit.keyspaces.iter().map(|keyspace| keyspace.id);
    for id in ids.chain(edit.dropped_keyspaces.iter().copied()) {
        let of = |version: &Version| version.keyspaces.get(id).map(|keyspace| keyspace.data);
        let (old, new): (Option<KeyspaceId>, _) = (of(before), of(after));
        if old != new {
            for data in old.into_iter().chain(new) {
                touched.extend(after.partitions_met_by(data).map(|p| p.id));
            }
        }
    }
    touched
}
