//! Split: a partition that has grown too large becomes two (paper §III-D).
//!
//! A split moves no byte. The border is the first key of a key table, so that key tables go whole
//! to one side; record files stay where they are and serve both sides, each its own keys. Merges
//! and garbage collection separate them later, which is the paper's lazy split of values. Both
//! sides keep the frozen hash indexes of their parent: entries of the other side's keys are never
//! looked up, and a comparison of keys would pass them over.
//!
//! The lease of the partition keeps its SortedStore as it is. Flushes go on meanwhile and may add
//! tables, so the edit is made for the version that stands at the commit.

use crate::base::keys::{FileNumber, PartitionId, SeqNo};
use crate::base::seeded::seeded;
use crate::error::Result;
use crate::version::edit::{PartitionMeta, TablePlace, TableShare, VersionEdit};
use crate::version::{KeyRange, Partition, Table};
use std::collections::HashMap;

/// How large a partition may grow before it is split.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PartitionLimits {
    /// Of [`Partition::data_bytes`].
    pub(crate) data_bytes: u64,
    /// Of its key tables. A merge of records from the whole range writes all of them again, beside
    /// those that are there: this bounds the space that it needs.
    pub(crate) key_table_bytes: u64,
}

impl PartitionLimits {
    /// The limits that follow from the options of these names. The promise on space allows a job
    /// twice `unsorted_bytes`; what is small beside a partition does not need a limit.
    pub(crate) fn new(partition_bytes: u64, unsorted_bytes: u64) -> PartitionLimits {
        let for_a_job = unsorted_bytes.saturating_mul(2);
        PartitionLimits {
            data_bytes: partition_bytes,
            key_table_bytes: for_a_job.max(partition_bytes / 16),
        }
    }

    /// Whether `partition` is larger than one of them.
    pub(crate) fn are_exceeded(self, partition: &Partition) -> bool {
        partition.data_bytes() > self.data_bytes
            || partition.key_table_bytes() > self.key_table_bytes
    }
}

/// What each side gets of a table; `None`: nothing.
type Sides = [Option<TableShare>; 2];

/// A split in the making.
pub(crate) struct Split {
    /// The first key of the right side.
    border: Vec<u8>,
    tables: HashMap<FileNumber, Sides>,
}

impl Split {
    /// Chooses the border nearest to the middle of the data; `None` if there is none.
    pub(crate) fn choose(partition: &Partition) -> Option<Split> {
        let (_, middle) = middle(partition, total_bytes(partition))?;
        let border = partition.key_tables.get(middle)?.meta().min_key.clone();
        let tables = HashMap::new();
        Some(Split { border, tables })
    }

    /// Finds out what each side gets of the tables that were not yet looked at. All of them must be
    /// readable: a table listed where it has no key would look damaged.
    pub(crate) fn divide_tables(&mut self, partition: &Partition) -> Result<()> {
        for table in tables(partition) {
            let number = table.file.meta().number;
            if !self.tables.contains_key(&number) {
                let sides = divide(table, partition.range(), &self.border)?;
                self.tables.insert(number, sides);
            }
        }
        Ok(())
    }

    /// Whether all tables of the partition have been looked at.
    pub(crate) fn is_complete(&self, partition: &Partition) -> bool {
        tables(partition).all(|t| self.tables.contains_key(&t.file.meta().number))
    }

    /// The edit that puts `ids` in the place of `partition`.
    pub(crate) fn edit(&self, partition: &Partition, ids: [PartitionId; 2]) -> VersionEdit {
        let [left, right] = ids;
        let mut edit = VersionEdit {
            next_partition: Some(right.0 + 1),
            dropped_partitions: vec![partition.id],
            partitions: vec![
                PartitionMeta {
                    id: left,
                    start: partition.start.clone(),
                    end: Some(self.border.clone()),
                },
                PartitionMeta {
                    id: right,
                    start: self.border.clone(),
                    end: partition.end.clone(),
                },
            ],
            ..VersionEdit::default()
        };
        for table in &partition.key_tables {
            let meta = table.meta();
            let side = if meta.min_key < self.border {
                left
            } else {
                right
            };
            edit.key_tables.push((side, meta.clone()));
        }
        // Oldest first, so that applying them in order makes the newest the first.
        for generation in partition.generations.iter().rev() {
            for (slot, table) in generation.shares().rev() {
                let file = table.file.meta().number;
                let sides = self.tables.get(&file).copied().unwrap_or_default();
                for (partition, share) in ids.into_iter().zip(sides) {
                    if let Some(part) = share {
                        let records = table.share().records.max(1);
                        let hidden = u128::from(table.hidden_bytes) * u128::from(part.records);
                        edit.tables.push(TablePlace {
                            hidden_bytes: (hidden / u128::from(records)) as u64,
                            partition,
                            generation: generation.id,
                            slot,
                            file,
                            share,
                        });
                    }
                }
            }
        }
        edit
    }
}

/// Whether the best border leaves a quarter of the SortedStore at least on either side. Where key
/// tables are too coarse for that, a split would make a sliver; merges make them finer.
pub(crate) fn is_even(partition: &Partition) -> bool {
    let total = total_bytes(partition);
    middle(partition, total).is_some_and(|(difference, _)| difference <= total / 2)
}

/// Bytes of the SortedStore's newest versions.
fn total_bytes(partition: &Partition) -> u64 {
    let tables = partition.key_tables.iter();
    tables.map(|t| t.meta().newest_bytes()).sum()
}

/// By how much the sides differ, and the key table that begins nearest to the middle of `total`
/// bytes.
fn middle(partition: &Partition, total: u64) -> Option<(u64, usize)> {
    let tables = partition.key_tables.iter();
    let ends = tables.scan(0, |before, table| {
        *before += table.meta().newest_bytes();
        Some(*before)
    });
    let borders = ends.zip(1..partition.key_tables.len());
    borders
        .map(|(before, i)| (before.abs_diff(total - before), i))
        .min()
}

fn tables(partition: &Partition) -> impl Iterator<Item = &Table> {
    let generations = partition.generations.iter();
    generations.flat_map(|g| g.shares().map(|(_, table)| table))
}

/// Whether each side has keys in `table` is found out for certain; how many is estimated.
fn divide(table: &Table, range: KeyRange<'_>, border: &[u8]) -> Result<Sides> {
    let meta = table.file.meta();
    let section = table.file.section()?;
    let (mut has_left, mut has_right) = (meta.min_key.as_slice() < border, false);
    let max_key = meta.max_key.as_slice();
    let loses_border = seeded!(SplitLosesBorderKey) && max_key == border;
    // A table that deletes ranges may be listed where none of its keys is.
    if (has_left && max_key >= border || meta.ranges.is_some()) && !loses_border {
        let mut keys = section.iter(crate::vfs::Access::Random);
        keys.seek(range.start, SeqNo::MAX)?;
        has_left = keys.entry().is_some_and(|e| e.key < border);
        keys.seek(border, SeqNo::MAX)?;
        has_right = keys.entry().is_some_and(|e| range.is_before_end(e.key));
    } else if !has_left {
        has_right = true;
    }
    let whole = table.share();
    if !(has_left && has_right) {
        let ranges = meta.ranges.as_ref();
        let ranges = ranges.filter(|_| !seeded!(SplitForgetsRanges));
        let share = |has_keys: bool, start, end| {
            let deletes = || ranges.is_some_and(|ranges| ranges.may_touch(start, end));
            if has_keys {
                Some(whole)
            } else {
                deletes().then(TableShare::default)
            }
        };
        let left = share(has_left, range.start, Some(border));
        return Ok([left, share(has_right, border, range.end)]);
    }
    let begin = section.part_before(range.start)?;
    let middle = section.part_before(border)?;
    let end = range.end.map_or(Ok(1.0), |end| section.part_before(end))?;
    let left = half(
        whole,
        (middle - begin) / (end - begin).max(f64::MIN_POSITIVE),
    );
    let right = TableShare {
        records: whole.records.saturating_sub(left.records).max(1),
        bytes: whole.bytes.saturating_sub(left.bytes),
    };
    Ok([Some(left), Some(right)])
}

/// This part of a share, with a record at least.
fn half(whole: TableShare, part: f64) -> TableShare {
    let part = part.clamp(0.0, 1.0);
    TableShare {
        records: ((whole.records as f64 * part) as u64).max(1),
        bytes: (whole.bytes as f64 * part) as u64,
    }
}
