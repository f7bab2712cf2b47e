//! Sums over partitions.
//!
//! A partition sums up its key tables once, when it is first asked, and shares that with its
//! successors, which flushes make by the hundred for readers to keep. The list of partitions sums
//! up chunks of them ([`super::chunked`]), so that a version with one changed partition looks at
//! its key tables, at the partitions beside it in the chunk, and at the sums of the other chunks;
//! once, as a version does not change when it is complete.

use super::chunked::Item;
use super::promise::Promise;
use super::{Partition, Partitions, Version};
use crate::key_table::{KeyTable, KeyTableMeta, OutlierSum};
use crate::version::generation::Generation;
use std::sync::Arc;

/// How near a partition is to as many generations as there may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fullest {
    pub(crate) generations: usize,
    /// Of the newest: slots that are used up, bytes, and whether it takes no more.
    pub(crate) slots: usize,
    pub(crate) bytes: u64,
    pub(crate) is_ingested: bool,
}

impl Fullest {
    fn of(generations: &[Generation]) -> Fullest {
        let Some(newest) = generations.first() else {
            return Fullest::default();
        };
        Fullest {
            generations: generations.len(),
            slots: usize::from(newest.high_water().0) + 1,
            bytes: newest.bytes(),
            is_ingested: newest.is_ingested(),
        }
    }

    /// The greater of both: the newest counts for one at most, so that more generations are more
    /// whatever the newest has.
    fn and(self, other: Fullest) -> Fullest {
        if self.generations != other.generations {
            let is_more = self.generations > other.generations;
            return if is_more { self } else { other };
        }
        Fullest {
            slots: self.slots.max(other.slots),
            bytes: self.bytes.max(other.bytes),
            is_ingested: self.is_ingested || other.is_ingested,
            ..self
        }
    }
}

/// Sums over partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PartitionSums {
    pub(crate) partitions: u64,
    /// Key tables, their bytes, and their entries.
    pub(crate) key_tables: u64,
    pub(crate) key_table_bytes: u64,
    pub(crate) entries: u64,
    /// Bytes that compression has saved in them.
    pub(crate) saved_bytes: u64,
    /// Bytes of them and of all records that they point to.
    pub(crate) referenced_bytes: u64,
    /// Records in them that are much longer than the others.
    pub(crate) outliers: OutlierSum,
    /// What users may expect of the disk for them, and bytes of their older versions with those of
    /// users.
    pub(crate) promise: Promise,
    pub(crate) older_bytes: u64,
    /// Whether versions may be obsolete in them at some time.
    pub(crate) may_be_obsolete: bool,
    /// Whether anything expires.
    pub(crate) expires: bool,
    /// Memory that all their pointer indexes take, and what making one takes meanwhile.
    pub(crate) pointer_index_bytes: u64,
    pub(crate) pointer_index_meanwhile: u64,
    /// Bytes and records of the UnsortedStores, and of the newest generations.
    pub(crate) unsorted_bytes: u64,
    pub(crate) unsorted_records: u64,
    pub(crate) open_bytes: u64,
    /// Bytes that were flushed, and the greatest of one partition.
    pub(crate) flushed_bytes: u64,
    pub(crate) most_flushed_bytes: u64,
    /// Tables of UnsortedStores in one partition, at most.
    pub(crate) most_tables: u64,
    pub(crate) fullest: Fullest,
    /// Records of a newest generation that was flushed, at most.
    pub(crate) most_open_records: u64,
    /// Bytes of scan runs.
    pub(crate) run_bytes: u64,
    /// What unmerged records may hide in the SortedStores.
    pub(crate) hidden_bytes: u64,
    /// Partitions with range tombstones in the UnsortedStore.
    pub(in crate::version) with_ranges: u64,
    /// Without those.
    pub(in crate::version) memory_bytes: usize,
    /// Memory of hash indexes, and of the largest.
    pub(crate) index_bytes: u64,
    pub(crate) largest_index_bytes: u64,
}

impl PartitionSums {
    pub(super) fn add(&mut self, other: &PartitionSums) {
        self.partitions += other.partitions;
        self.key_tables += other.key_tables;
        self.key_table_bytes = self.key_table_bytes.saturating_add(other.key_table_bytes);
        self.entries = self.entries.saturating_add(other.entries);
        self.saved_bytes = self.saved_bytes.saturating_add(other.saved_bytes);
        let referenced = other.referenced_bytes;
        self.referenced_bytes = self.referenced_bytes.saturating_add(referenced);
        self.outliers = self.outliers.and(other.outliers);
        self.promise = self.promise.and(other.promise);
        self.older_bytes = self.older_bytes.saturating_add(other.older_bytes);
        self.may_be_obsolete |= other.may_be_obsolete;
        self.expires |= other.expires;
        let index_bytes = other.pointer_index_bytes;
        self.pointer_index_bytes = self.pointer_index_bytes.saturating_add(index_bytes);
        let meanwhile = other.pointer_index_meanwhile;
        self.pointer_index_meanwhile = self.pointer_index_meanwhile.max(meanwhile);
        self.unsorted_bytes = self.unsorted_bytes.saturating_add(other.unsorted_bytes);
        self.unsorted_records = self.unsorted_records.saturating_add(other.unsorted_records);
        self.open_bytes = self.open_bytes.saturating_add(other.open_bytes);
        self.flushed_bytes = self.flushed_bytes.saturating_add(other.flushed_bytes);
        self.most_flushed_bytes = self.most_flushed_bytes.max(other.most_flushed_bytes);
        self.most_tables = self.most_tables.max(other.most_tables);
        self.most_open_records = self.most_open_records.max(other.most_open_records);
        self.fullest = self.fullest.and(other.fullest);
        self.run_bytes = self.run_bytes.saturating_add(other.run_bytes);
        self.hidden_bytes = self.hidden_bytes.saturating_add(other.hidden_bytes);
        self.with_ranges += other.with_ranges;
        self.memory_bytes += other.memory_bytes;
        self.index_bytes += other.index_bytes;
        self.largest_index_bytes = self.largest_index_bytes.max(other.largest_index_bytes);
    }

    fn add_table(&mut self, table: &KeyTableMeta) {
        self.key_tables += 1;
        self.key_table_bytes = self.key_table_bytes.saturating_add(table.len);
        self.entries = self.entries.saturating_add(table.count);
        let saved_bytes = table.compression.saved_bytes;
        self.saved_bytes = self.saved_bytes.saturating_add(saved_bytes);
        let referenced = table.referenced_bytes();
        self.referenced_bytes = self.referenced_bytes.saturating_add(referenced);
        self.outliers = self.outliers.and(table.outliers());
        self.promise = self.promise.and(Promise::of(table));
        self.older_bytes = self.older_bytes.saturating_add(table.older_bytes);
        let expiring = table.expiring.expired_bytes(u64::MAX);
        let obsolete = table.older_bytes.saturating_add(expiring);
        self.may_be_obsolete |= obsolete > table.len / OBSOLETE_PART;
        self.expires |= table.expiry.is_some();
    }

    /// What all partitions sum up to.
    pub(super) fn of_all(partitions: &Partitions) -> PartitionSums {
        let mut all = PartitionSums::default();
        partitions.sums().for_each(|sum| all.add(sum));
        for (left, right) in partitions.borders() {
            let shared = right.generations.iter().filter(|g| left.has_index_of(g));
            let bytes: u64 = shared.map(|g| g.index.memory_bytes() as u64).sum();
            all.index_bytes = all.index_bytes.saturating_sub(bytes);
        }
        all
    }

    /// What a partition sums up to, but for its hash indexes, which neighbours may share.
    fn of(partition: &Partition) -> PartitionSums {
        let generations = &partition.generations;
        let runs = generations.iter().filter_map(|g| g.run.as_ref());
        let tables = generations.iter().map(|g| g.tables().count() as u64);
        let open = generations.first().filter(|newest| !newest.is_ingested());
        let of_tables = partition.of_key_tables();
        PartitionSums {
            partitions: 1,
            unsorted_bytes: partition.unsorted_bytes(),
            unsorted_records: generations.iter().map(Generation::records).sum(),
            open_bytes: generations.first().map_or(0, Generation::bytes),
            flushed_bytes: partition.flushed_bytes(),
            most_flushed_bytes: partition.flushed_bytes(),
            most_tables: tables.sum(),
            most_open_records: open.map_or(0, Generation::records),
            fullest: Fullest::of(generations),
            run_bytes: runs.map(|run| run.bytes()).sum(),
            hidden_bytes: partition.hidden_by(generations),
            with_ranges: u64::from(partition.ranges.is_some()),
            memory_bytes: partition.own_bytes() + of_tables.memory_bytes,
            ..*of_tables
        }
    }

    /// What these key tables sum up to.
    pub(super) fn of_key_tables(tables: &[Arc<KeyTable>]) -> PartitionSums {
        let (all, meanwhile) = KeyTable::index_bytes_of(tables);
        let mut sums = PartitionSums {
            pointer_index_bytes: all,
            pointer_index_meanwhile: meanwhile,
            memory_bytes: tables.iter().map(|table| table.memory_bytes()).sum(),
            ..PartitionSums::default()
        };
        tables.iter().for_each(|table| sums.add_table(table.meta()));
        sums
    }

    /// Without the figures that change while nothing of the version does.
    pub(super) fn fixed(self) -> PartitionSums {
        PartitionSums {
            memory_bytes: 0,
            index_bytes: 0,
            largest_index_bytes: 0,
            ..self
        }
    }
}

/// Less than this part of a key table is not worth its rewriting.
pub(crate) const OBSOLETE_PART: u64 = 4;

impl Item for Arc<Partition> {
    type Key = [u8];
    type Sum = PartitionSums;

    #[inline(always)]
    fn key(&self) -> &[u8] {
        &self.start
    }

    fn add_to(&self, before: Option<&Arc<Partition>>, sum: &mut PartitionSums) {
        sum.add(&PartitionSums::of(self));
        for generation in &self.generations {
            let bytes = generation.index.memory_bytes() as u64;
            sum.largest_index_bytes = sum.largest_index_bytes.max(bytes);
            if !before.is_some_and(|before| before.has_index_of(generation)) {
                sum.index_bytes += bytes;
            }
        }
    }
}

impl Partition {
    /// Whether one of its generations has the same hash index, as after a split.
    fn has_index_of(&self, other: &Generation) -> bool {
        let mut own = self.generations.iter();
        own.any(|generation| Arc::ptr_eq(&generation.index, &other.index))
    }

    /// What its key tables sum up to.
    pub(super) fn of_key_tables(&self) -> &PartitionSums {
        let tables = &self.key_tables;
        self.of_key_tables
            .get_or(|| PartitionSums::of_key_tables(tables))
    }

    /// Bytes that unmerged records of `generations` may hide in the SortedStore: see
    /// `jobs/space/hidden.rs`.
    pub(crate) fn hidden_by<'a>(
        &self,
        generations: impl IntoIterator<Item = &'a Generation>,
    ) -> u64 {
        let (mut records, mut bytes, mut known) = (0, 0, 0);
        for generation in generations {
            records += generation.records();
            bytes += generation.bytes();
            known += generation.hidden_bytes();
        }
        let tables = self.of_key_tables();
        let sorted = tables.referenced_bytes;
        let alike = sorted.saturating_sub(tables.outliers.bytes);
        let entries = tables.entries.saturating_sub(tables.outliers.count);
        let mean = u64::checked_div(alike, entries).unwrap_or(0);
        let estimated = records.saturating_mul(mean).saturating_sub(bytes);
        estimated.saturating_add(known).min(sorted)
    }
}

impl Version {
    /// The sums over all partitions.
    pub(crate) fn partition_sums(&self) -> &PartitionSums {
        self.sums.get_or(|| PartitionSums::of_all(&self.partitions))
    }
}
