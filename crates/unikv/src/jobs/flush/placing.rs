//! Placing: a flushed table becomes part of every partition that owns some of its keys.
//!
//! Invariants:
//! - A table has a slot of the partition's newest generation, whose hash index gets the keys before
//!   the version that lists the slot is published. Readers ignore slots above their version's high
//!   water. Slots are reserved before anything is entered: those of a failed flush stay burned.
//! - An index grows by a larger one, built from the generation's key sections and published with
//!   the table; readers of older views keep the old one. One that may not grow freezes its
//!   generation.
//! - Only one flush runs at a time, so nobody else enters keys. Partitions may be split and
//!   generations frozen meanwhile; then [`place`] is asked again and goes over those only.

use super::index_build::build_index;
use crate::base::keys::{GenerationId, PartitionId, Slot};
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::error::{Error, Result};
use crate::hash_index::{HashIndex, MAX_BYTES_PER_RECORD};
use crate::jobs::flush::FlushedTable;
use crate::jobs::space::hidden::{deleted_bytes, known_of};
use crate::record::RecordFileMeta;
use crate::version::edit::{TablePlace, TableShare};
use crate::version::{Generation, Partition, Version};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Slots after which a generation is frozen: scans merge its tables, and an entry of the index
/// holds ten bits of the slot.
pub(crate) const MAX_SLOTS: u16 = 128;
/// The records of the smallest index, if the budget for indexes has room for a few thousand such.
const LEAST_CAPACITY: std::ops::RangeInclusive<u64> = 32..=1024;
const LEAST_INDEXES: u64 = 2048;
/// Larger indexes that are tried for one table before it is given up.
const MAX_TRIES: usize = 32;

/// Where a partition's next table goes: its newest generation.
#[derive(Clone)]
pub(crate) struct FlushTarget {
    pub(crate) generation: GenerationId,
    pub(crate) index: Arc<HashIndex>,
    next_slot: u16,
    bytes: u64,
    ranges: u64,
}

/// Generations that a partition may have; the oldest is merged while newer ones fill.
pub(crate) const MAX_GENERATIONS: usize = 4;

/// How large generations may grow.
#[derive(Clone, Copy)]
pub(crate) struct GenerationLimits {
    /// Bytes of its tables (the paper's `UnsortedLimit`).
    pub(crate) unsorted_bytes: u64,
    /// Bytes of its hash index, and of those of all open generations together.
    pub(crate) index_bytes: u64,
    /// Bytes of the tables of all open generations together.
    pub(crate) shared_bytes: u64,
    /// Range tombstones of its tables, which readers have in memory.
    pub(crate) ranges: u64,
}

/// The range tombstones of a generation may take this part of the memory budget, at this many bytes
/// each, but no fewer than this many are worth a merge.
const RANGES_PART: u64 = 64;
const BYTES_PER_RANGE: u64 = 112;
const LEAST_RANGES: u64 = 8192;

impl GenerationLimits {
    /// A generation's index may take an eighth of the memory budget.
    pub(crate) fn of(unsorted_bytes: u64, memory_budget: u64) -> GenerationLimits {
        GenerationLimits {
            unsorted_bytes,
            index_bytes: memory_budget / 8,
            ranges: (memory_budget / RANGES_PART / BYTES_PER_RANGE).max(LEAST_RANGES),
            shared_bytes: unsorted_bytes,
        }
    }

    /// Lets the open generations hold `bytes` together. What a merge rewrites grows with a
    /// partition and not with the database, but only while every partition may gather as much as
    /// before.
    pub(crate) fn sharing(self, bytes: u64) -> GenerationLimits {
        GenerationLimits {
            shared_bytes: self.shared_bytes.max(bytes),
            ..self
        }
    }

    /// How much the UnsortedStores of all partitions may hold together: twice what their open
    /// generations may, and what one partition may in any case. Above that nothing is flushed until
    /// one is merged.
    pub(crate) fn most_unsorted_bytes(&self) -> u64 {
        let of_one = self.unsorted_bytes.saturating_mul(MAX_GENERATIONS as u64);
        self.shared_bytes.saturating_mul(2).max(of_one)
    }

    /// How much memory the hash indexes of all generations may take: twice what those of the open
    /// ones may. Above that nothing is flushed until a generation is merged.
    pub(crate) fn most_index_bytes(&self) -> u64 {
        self.index_bytes.saturating_mul(2)
    }

    /// The capacity of an index that holds `records` of a generation of `bytes`, so that it need
    /// not grow at once: twice as many, or as many as the generation will have when it is full.
    pub(crate) fn capacity_for(&self, records: usize, bytes: u64, table_bytes: u64) -> usize {
        let mean_bytes = (bytes / records.max(1) as u64).max(1);
        // The table that makes a generation full may overshoot the limit by its own size.
        let at_the_end = (self.unsorted_bytes.saturating_add(table_bytes) / mean_bytes) as usize;
        let doubled = (2 * records).max(self.least_capacity());
        let capacity = if doubled + doubled / 2 >= at_the_end {
            at_the_end.max(records + records / 8)
        } else {
            doubled
        };
        capacity.min(self.affordable()).max(self.least_capacity())
    }

    /// The records of the largest index that the budget allows.
    fn affordable(&self) -> usize {
        let records = self.index_bytes / MAX_BYTES_PER_RECORD as u64;
        (records as usize).max(self.least_capacity())
    }

    /// The records of the smallest index.
    fn least_capacity(&self) -> usize {
        let records = self.index_bytes / (LEAST_INDEXES * MAX_BYTES_PER_RECORD as u64);
        records.clamp(*LEAST_CAPACITY.start(), *LEAST_CAPACITY.end()) as usize
    }
}

impl FlushTarget {
    fn begin(context: &PlacingContext<'_>, records: usize, bytes: u64) -> FlushTarget {
        let capacity = context.limits.capacity_for(records, bytes, bytes);
        FlushTarget {
            generation: context.new_generation(),
            index: Arc::new(HashIndex::with_capacity(capacity)),
            next_slot: 0,
            bytes: 0,
            ranges: 0,
        }
    }

    /// A generation of a recovered version, to be continued.
    pub(crate) fn resume(generation: &Generation) -> FlushTarget {
        FlushTarget {
            generation: generation.id,
            index: Arc::clone(&generation.index),
            next_slot: generation.high_water().0 + 1,
            bytes: generation.bytes(),
            ranges: generation
                .tables()
                .map(|(_, table)| ranges_of(table.meta()))
                .sum(),
        }
    }

    /// Bytes of its tables.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the generation is to be merged before it takes more.
    pub(crate) fn is_full(&self, limits: GenerationLimits) -> bool {
        self.bytes >= limits.unsorted_bytes || !self.has_slots() || self.ranges >= limits.ranges
    }

    /// Whether there is a slot for one more table.
    pub(crate) fn has_slots(&self) -> bool {
        self.next_slot < MAX_SLOTS
    }

    /// Burns slots that a flush may use. The flush works on a copy from before.
    pub(crate) fn reserve(&mut self, slots: usize) {
        let slots = u16::try_from(slots).unwrap_or(u16::MAX);
        self.next_slot = self.next_slot.saturating_add(slots);
    }
}

/// What one partition gets of a flush.
pub(crate) struct Placed {
    pub(crate) partition: PartitionId,
    /// The generation that was open before.
    was: Option<GenerationId>,
    /// Where the next table goes.
    pub(crate) target: FlushTarget,
    pub(crate) places: Vec<TablePlace>,
    /// The generations that take tables, with their indexes from now on.
    pub(crate) indexes: Vec<(GenerationId, Arc<HashIndex>)>,
}

/// What placing needs beside the version.
pub(crate) struct PlacingContext<'a> {
    pub(crate) limits: GenerationLimits,
    pub(crate) hash_seed: u64,
    pub(crate) last_generation: &'a AtomicU64,
}

impl PlacingContext<'_> {
    fn new_generation(&self) -> GenerationId {
        GenerationId(self.last_generation.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// The partitions of `version` that own keys of `tables`, or of which `tables` delete ranges.
pub(crate) fn owners<'a>(
    tables: &'a [FlushedTable],
    version: &'a Version,
) -> impl Iterator<Item = &'a Arc<Partition>> {
    let ranges = || tables.iter().filter_map(|t| t.meta.ranges.as_ref());
    let with_keys = || tables.iter().filter(|t| t.meta.count > 0);
    let firsts = with_keys().map(|t| t.meta.min_key.as_slice());
    let first = firsts.chain(ranges().map(|r| r.start.as_slice())).min();
    let lasts = with_keys().map(|t| t.meta.max_key.as_slice());
    let last = lasts.chain(ranges().map(|r| r.end.as_slice())).max();
    let between = first
        .zip(last)
        .map(|(a, b)| version.partitions_between(a, b));
    let partitions = between.into_iter().flatten();
    partitions.filter(|p| tables.iter().any(|t| t.has_part_in(p.range())))
}

/// Places `tables` in the partitions of `version`, whose open generations are `targets`. What was
/// placed before and still holds is taken over from `known`.
pub(crate) fn place(
    context: &PlacingContext<'_>,
    tables: &[FlushedTable],
    version: &Version,
    targets: &HashMap<PartitionId, FlushTarget>,
    known: Vec<Placed>,
) -> Result<Vec<Placed>> {
    let mut known: HashMap<PartitionId, Placed> =
        known.into_iter().map(|p| (p.partition, p)).collect();
    let mut all = Vec::new();
    for partition in owners(tables, version) {
        let target = targets.get(&partition.id);
        let was = target.map(|t| t.generation);
        all.push(match known.remove(&partition.id) {
            Some(placed) if placed.was == was => placed,
            _ => place_in(context, tables, partition, target.cloned())?,
        });
    }
    Ok(all)
}

/// A table's share that is in a generation, or about to be.
struct Share<'a> {
    table: &'a FlushedTable,
    own: Range<usize>,
    slot: Slot,
}

impl Share<'_> {
    /// Enters the keys; false if the index is full.
    fn enter(&self, index: &HashIndex) -> bool {
        let mut index = index.writer();
        let entries = self.table.keys.entries(self.own.clone());
        entries.iter().all(|entry| {
            let len = u64::from(entry.len);
            index
                .insert(entry.hash, self.slot, entry.offset, len)
                .is_ok()
        })
    }
}

fn place_in(
    context: &PlacingContext<'_>,
    tables: &[FlushedTable],
    partition: &Partition,
    mut target: Option<FlushTarget>,
) -> Result<Placed> {
    let was = target.as_ref().map(|t| t.generation);
    let (mut places, mut indexes) = (Vec::new(), Vec::new());
    // The tables of this flush that are in the target's generation.
    let mut fresh: Vec<Share<'_>> = Vec::new();
    for table in tables {
        if !table.has_part_in(partition.range()) {
            continue;
        }
        let own = table.keys.within(partition.range());
        let share = table.share(own.clone());
        loop {
            let mut open = match target.take().filter(|t| !t.is_full(context.limits)) {
                Some(open) => open,
                None => {
                    fresh.clear();
                    FlushTarget::begin(context, own.len(), share.bytes)
                }
            };
            let slot = Slot(open.next_slot);
            open.next_slot += 1;
            fresh.push(Share {
                table,
                own: own.clone(),
                slot,
            });
            if open.take(context, partition, &fresh, share)? {
                indexes.retain(|(generation, _)| *generation != open.generation);
                indexes.push((open.generation, Arc::clone(&open.index)));
                places.push(TablePlace {
                    partition: partition.id,
                    generation: open.generation,
                    slot,
                    file: table.meta.number,
                    share: (share != table.whole()).then_some(share),
                    hidden_bytes: known_of(table, &own, partition)
                        + deleted_bytes(&table.ranges, partition),
                });
                target = Some(open);
                break;
            }
        }
    }
    let partition = partition.id;
    let target = target.unwrap_or_else(|| FlushTarget::begin(context, 0, 0));
    Ok(Placed {
        partition,
        was,
        target,
        places,
        indexes,
    })
}

/// How many range tombstones a table has.
fn ranges_of(table: &RecordFileMeta) -> u64 {
    table.ranges.as_ref().map_or(0, |ranges| ranges.count)
}

impl FlushTarget {
    /// Enters the last of `fresh`, into a larger index if need be. False: the index may not grow.
    fn take(
        &mut self,
        context: &PlacingContext<'_>,
        partition: &Partition,
        fresh: &[Share<'_>],
        share: TableShare,
    ) -> Result<bool> {
        let Some(last) = fresh.last() else {
            return Ok(true);
        };
        let records = self.index.len() + last.own.len();
        self.bytes += share.bytes;
        self.ranges += ranges_of(&last.table.meta);
        if records <= self.index.capacity() && last.enter(&self.index) {
            return Ok(true);
        }
        let limits = context.limits;
        let mut capacity = limits.capacity_for(records, self.bytes, share.bytes);
        let listed = partition
            .generations
            .iter()
            .find(|g| g.id == self.generation);
        let is_new = listed.is_none() && fresh.len() == 1;
        for _ in 0..MAX_TRIES {
            // A generation's first table must fit, whatever the budget says.
            if (capacity < records || capacity > limits.affordable()) && !is_new {
                return Ok(false);
            }
            capacity = capacity.max(records);
            let grown = match listed {
                Some(generation) => {
                    build_index(generation, partition.range(), context.hash_seed, capacity)?
                }
                None => Some(HashIndex::with_capacity(capacity)),
            };
            let grown = grown.filter(|index| fresh.iter().all(|share| share.enter(index)));
            if let Some(index) = grown {
                self.index = Arc::new(index);
                return Ok(true);
            }
            // Keys that share their buckets: more room helps.
            capacity += capacity / 4;
        }
        let what = "a table does not fit into any hash index";
        Err(Error::internal(what))
    }
}
