//! The sources in which scans and merges find the keys of a generation, and what a scan loses to
//! their number ([`AccessCost`]) and to the places of its values ([`charge_places`]). See
//! `docs/mechanisms.md`, "Scan merge" and "Clustering".
//!
//! Invariants: a scan run is one source for all the tables that it covers; newer tables come beside
//! it, each with its key section. Damage found in a run is remembered in the run: the reader that
//! meets it gets an error or starts again, and later ones read the sections.
//!
//! No locks.

use super::cursor::{Cursor, RunCursor};
use crate::base::keys::PartitionId;
use crate::base::seeded::slip;
use crate::error::Result;
use crate::version::scan_run::ScanRun;
use crate::version::{Generation, Partition, Version};
use crate::vfs::Access;
use std::sync::Arc;

/// What positioning a source costs, in entries merged: a search among fences, and in a block. With
/// 39 tables in memory 5 were measured; where blocks are to be read it is many times that. The
/// figure lies between the two, near the first: to merge late costs scans, to merge early costs
/// writes too.
const SEEK_COST: u64 = 8;
/// Steps of a scan that cost as much as one entry merged, per match that each of them plays more.
const STEPS_PER_ENTRY: u64 = 8;

/// In this many files the values of a key table may stay: to copy them would save a scan little.
pub(crate) const MOST_FILES: usize = 4;
/// Bytes that are copied in the time that one place more takes a scan, which reads several at a
/// time.
const PLACE_BYTES: u64 = 4 << 10;
/// Each time these bytes, or this part of a partition, have been charged, the background looks
/// whether they are enough.
const LOOK_BYTES: u64 = 16 << 20;
const LOOK_PART: u64 = 16;

/// Charges the `places` in which a scan found the values of neighbours that begin with `key`, as
/// far as clustering could have spared them, in bytes that could be copied in the time: clustering
/// takes from the account what it copies. Says in which partition the background is to look.
pub(crate) fn charge_places(version: &Version, key: &[u8], places: usize) -> Option<PartitionId> {
    if places <= MOST_FILES {
        return None;
    }
    let partition = version.partitions().get(version.partition_index(key))?;
    let table = partition.key_table_for(key)?;
    // The others are in the UnsortedStore.
    let sorted = places.min(table.meta().refs.len());
    let lost = sorted.saturating_sub(MOST_FILES) as u64 * PLACE_BYTES;
    // No more is copied than all of it.
    if partition.scan_cost.charged() >= partition.data_bytes() {
        return None;
    }
    let is_full = partition.scan_cost.charge(lost, least_charge(partition));
    is_full.then_some(partition.id)
}

/// Whether copying some of a partition may be worth its cost: scans have charged enough.
pub(crate) fn is_charged(partition: &Partition) -> bool {
    partition.scan_cost.charged() >= least_charge(partition)
}

/// While less is charged in a partition, nothing is due in it, unless writers are idle.
fn least_charge(partition: &Partition) -> u64 {
    LOOK_BYTES.min(partition.data_bytes() / LOOK_PART).max(1)
}

/// What scans have charged in all partitions that is not spent.
pub(crate) fn charged_in_all(version: &Version) -> u64 {
    let accounts = version.partitions().iter();
    let charged = accounts.map(|p| p.scan_cost.charged());
    charged.fold(0, u64::saturating_add)
}

/// Divides what scans had charged before a database was closed between its partitions, by their
/// size.
pub(crate) fn hand_back(version: &Version, charged: u64) {
    let bytes: u64 = version.partitions().iter().map(|p| p.data_bytes()).sum();
    for partition in version.partitions().iter() {
        let part =
            u128::from(charged) * u128::from(partition.data_bytes()) / u128::from(bytes.max(1));
        let part = u64::try_from(part).unwrap_or(u64::MAX);
        partition.scan_cost.set(part);
    }
}

/// The keys of a generation for scans, newest first.
pub(super) fn for_scan(generation: &Generation) -> impl Iterator<Item = Result<Cursor>> {
    let (run, uncovered) = parts(generation);
    let tables = generation
        .tables()
        .filter(move |(slot, table)| slot.0 >= uncovered && table.meta().has_keys());
    let tables = tables.map(|(_, table)| Ok(Cursor::Keys(table.keys(Access::Random)?)));
    let ingested = generation
        .is_ingested()
        .then(|| Ok(Cursor::Run(RunCursor::ingested(generation, Access::Random))));
    tables.chain(ingested).chain(run.map(|run| {
        let run = RunCursor::scan_run(Arc::clone(run), Access::Random);
        Ok(Cursor::Run(run))
    }))
}

/// The keys of a generation for a job that passes through all of the partition's, newest first, and
/// reads each file in pieces of about `buffer` bytes.
pub(crate) fn for_job(
    generation: &Generation,
    buffer: usize,
) -> impl Iterator<Item = Result<Cursor>> {
    let (run, uncovered) = parts(generation);
    let tables = generation
        .shares()
        .filter(move |(slot, _)| slot.0 >= uncovered);
    let tables = tables.map(move |(_, table)| Ok(Cursor::Keys(table.job_keys()?.reading(buffer))));
    let ingested = generation.is_ingested().then(|| {
        let run = RunCursor::ingested(generation, Access::Sequential);
        Ok(Cursor::Run(run.reading(buffer)))
    });
    tables.chain(ingested).chain(run.map(move |run| {
        let run = RunCursor::scan_run(Arc::clone(run), Access::Sequential);
        Ok(Cursor::Run(run.reading(buffer)))
    }))
}

/// The run to be read, and the first slot that it does not cover. What was ingested is read as one
/// source.
fn parts(generation: &Generation) -> (Option<&Arc<ScanRun>>, u16) {
    if generation.is_ingested() {
        return (None, u16::MAX);
    }
    let run = generation.sound_run();
    let end = |run: &Arc<ScanRun>| slip!(RunHidesNewer, u16::MAX, run.end().0);
    (run, run.map_or(0, end))
}

/// How many runs of a partition nobody has met damage in.
pub(super) fn sound_runs(partition: &Partition) -> usize {
    let generations = partition.generations.iter();
    generations.filter(|g| g.sound_run().is_some()).count()
}

/// What the scans of one cursor lose in one partition to the sources of its newest generation;
/// older ones are about to be merged anyway. It is counted in units of one entry that a merge
/// passes on: per positioning, [`SEEK_COST`] for each source beyond the first; per step, the
/// matches that the larger tree of the merge costs. When the sum has reached what it costs to merge
/// the generation's keys, the merge is worth its cost. A workload without scans has none.
#[derive(Default)]
pub(super) struct AccessCost {
    /// Sources beyond the first.
    excess: u64,
    seeks: u64,
    steps: u64,
}

impl AccessCost {
    /// Takes note of how many sources are merged in `partition`.
    pub(super) fn set_sources(&mut self, partition: &Partition) {
        let newest = partition.generations.first();
        let sources = newest.map_or(0, Generation::scan_sources);
        self.excess = sources.saturating_sub(1) as u64;
    }

    pub(super) fn seek(&mut self) {
        self.seeks += 1;
    }

    pub(super) fn step(&mut self) {
        self.steps += 1;
    }

    /// Charges what was lost to the account of the partition's newest generation. Says where a
    /// merge has become worth its cost with it.
    pub(super) fn settle(&mut self, partition: &Partition) -> Option<PartitionId> {
        let newest = partition.generations.first().filter(|_| self.excess > 0)?;
        let matches = u64::from(u64::BITS - self.excess.leading_zeros());
        let lost = self.seeks * self.excess * SEEK_COST + self.steps * matches / STEPS_PER_ENTRY;
        (self.seeks, self.steps) = (0, 0);
        let is_full = newest.scan_cost.charge(lost, merge_cost(newest).max(1));
        is_full.then_some(partition.id)
    }
}

/// What it costs to merge the keys of a generation: its records.
fn merge_cost(generation: &Generation) -> u64 {
    generation.records()
}

/// Whether scans have lost as much over the newest generation of a partition, if it has more than
/// `limit` sources, as a merge of its keys costs.
pub(crate) fn is_merge_worth_it(partition: &Partition, limit: usize) -> bool {
    let newest = partition.generations.first();
    newest.is_some_and(|newest| {
        newest.scan_sources() > limit && newest.scan_cost.charged() >= merge_cost(newest)
    })
}
