//! The range tombstones of a partition's UnsortedStore: those of all its tables, in a few sets.
//!
//! A partition without them has none of this. Whoever publishes a version brings the sets of its
//! tables into memory before, so that no reader has to build one. Those of a table that is damaged
//! are not known: then whatever they might hide is in doubt, and reading it is an error, until the
//! table can be read.
//!
//! No locks: nothing here changes once it is built.

use super::Generation;
use crate::base::keys::SeqNo;
use crate::base::range_tombstones::lists::RangeLists;
use crate::base::range_tombstones::{Piece, RangeRef, RangeTombstones};
use crate::error::{Error, ErrorKind, Result};
use crate::key_table::range_section::RangeSection;
use crate::record::RecordFile;
use crate::version::range::KeyRange;
use std::sync::Arc;

/// Why what is older than a number is in doubt.
type Doubt = (SeqNo, Error);

/// The range tombstones of some tables.
pub(crate) struct TableRanges {
    /// Those that have some, oldest first.
    tables: Vec<Arc<RecordFile>>,
    /// The tombstones of all tables that were in memory when this was made.
    sets: RangeLists,
    /// The other tables.
    unread: Vec<Arc<RecordFile>>,
    /// Memory of the sets that are of no table alone.
    merged_bytes: usize,
    /// How many partitions were given this.
    partitions: usize,
}

/// Those of `generations` that may touch `range`, oldest first.
pub(in crate::version) fn tables_with_ranges<'a>(
    generations: impl IntoIterator<Item = &'a Generation>,
    range: KeyRange<'_>,
) -> Vec<Arc<RecordFile>> {
    let tables = generations.into_iter().flat_map(Generation::tables);
    let may_touch = |table: &&Arc<RecordFile>| {
        let ranges = table.meta().ranges.as_ref();
        ranges.is_some_and(|ranges| ranges.may_touch(range.start, range.end))
    };
    let tables = tables.map(|(_, table)| table).filter(may_touch);
    let mut tables: Vec<_> = tables.cloned().collect();
    let age = |table: &Arc<RecordFile>| table.meta().ranges.as_ref().map(|ranges| ranges.max_seq);
    tables.sort_by_key(|table| (age(table), table.meta().number));
    tables
}

/// Whether these are the same tables.
pub(in crate::version) fn are_same(some: &[Arc<RecordFile>], others: &[Arc<RecordFile>]) -> bool {
    let mut pairs = some.iter().zip(others);
    some.len() == others.len() && pairs.all(|(a, b)| Arc::ptr_eq(a, b))
}

impl TableRanges {
    /// Those of `tables`, oldest first, for as many `partitions`. What `before` knows of the first
    /// of them is not built again.
    pub(in crate::version) fn new(
        tables: Vec<Arc<RecordFile>>,
        partitions: usize,
        before: Option<&TableRanges>,
    ) -> TableRanges {
        let begins_with = |before: &&TableRanges| {
            let begin = tables.get(..before.tables.len());
            before.unread.is_empty() && begin.is_some_and(|begin| are_same(begin, &before.tables))
        };
        let (mut sets, known) = match before.filter(begins_with) {
            Some(before) => (before.sets.clone(), before.tables.len()),
            None => (RangeLists::default(), 0),
        };
        let mut unread = Vec::new();
        for table in tables.iter().skip(known) {
            match table.range_set_in_memory() {
                Some(set) => sets.push(set),
                None => unread.push(Arc::clone(table)),
            }
        }
        let is_merged = |set: &&Arc<RangeTombstones>| {
            let mut of_tables = tables.iter().filter_map(|t| t.range_set_in_memory());
            !of_tables.any(|other| Arc::ptr_eq(set, other))
        };
        let merged = sets.sets().iter().filter(is_merged);
        let merged_bytes = merged.map(|set| set.memory_bytes()).sum();
        TableRanges {
            tables,
            sets,
            unread,
            merged_bytes,
            partitions,
        }
    }

    /// Whether it is of these tables, and knows all of them that can be known now.
    pub(in crate::version) fn is_of(&self, tables: &[Arc<RecordFile>]) -> bool {
        let is_known = |table: &Arc<RecordFile>| table.range_set_in_memory().is_some();
        are_same(&self.tables, tables) && !self.unread.iter().any(is_known)
    }

    /// How many tables have to be read at each look-up, and how many sets there are.
    #[cfg(test)]
    pub(crate) fn unread_and_sets(&self) -> (usize, usize) {
        (self.unread.len(), self.sets.sets().len())
    }

    /// Brings the tombstones of all tables into memory. A table that cannot be read is left out:
    /// those who need it get the error.
    pub(in crate::version) fn read_tables(&self) {
        for table in &self.unread {
            let _ = table.range_set();
        }
    }

    /// Memory that it takes, beside that of its tables, for one of its partitions.
    pub(in crate::version) fn memory_bytes(&self) -> usize {
        let lists = self.tables.capacity() * size_of::<Arc<RecordFile>>();
        size_of::<TableRanges>() + lists + self.merged_bytes / self.partitions.max(1)
    }

    /// The newest one at or below `snapshot` that covers `key`. An error, with the number below
    /// which it matters, where the tombstones of a table are damaged that may cover it.
    pub(crate) fn covering(
        &self,
        key: &[u8],
        snapshot: SeqNo,
    ) -> Result<(Option<SeqNo>, Option<Doubt>)> {
        let (mut newest, mut doubt) = (self.sets.covering(key, snapshot), None);
        for table in self.unread.iter().filter(|table| may_cover(table, key)) {
            match sound(table)? {
                Ok(set) => newest = newest.max(set.covering(key, snapshot)),
                Err(error) => doubt = greater(doubt, doubt_of(table, key, snapshot, error)),
            }
        }
        Ok((newest, doubt))
    }

    /// As [`TableRanges::covering`], with the keys around `key` for which that is so: `each` is
    /// called with several pieces, and their intersection and their newest tombstone are meant.
    /// Where a table is damaged this is `key` alone.
    pub(crate) fn each_piece(
        &self,
        key: &[u8],
        snapshot: SeqNo,
        mut each: impl FnMut(Piece<'_>),
    ) -> Result<Option<Doubt>> {
        let mut doubt = None;
        self.sets.each_piece(key, snapshot, &mut each);
        for table in &self.unread {
            match sound(table) {
                Ok(Ok(set)) => each(set.piece(key, snapshot)),
                Err(error) if may_cover(table, key) => return Err(error),
                found => {
                    if let Ok(Err(error)) = found {
                        doubt = greater(doubt, doubt_of(table, key, snapshot, error));
                    }
                    each(Piece {
                        start: Some(key),
                        end: None,
                        seq: None,
                        is_one_key: true,
                    });
                }
            }
        }
        Ok(doubt)
    }
}

/// All range tombstones of `generations` as far as they reach into `range`, if there may be some.
/// Fails if one table is damaged: a job must not lose them.
pub(crate) fn all_within<'a>(
    generations: impl IntoIterator<Item = &'a Generation>,
    range: KeyRange<'_>,
) -> Result<Option<RangeTombstones>> {
    let tables = tables_with_ranges(generations, range);
    if tables.is_empty() {
        return Ok(None);
    }
    let sets = tables.iter().map(sound);
    let sets = sets.collect::<Result<Result<Vec<_>>>>()??;
    let all = sets.iter().flat_map(|set| set.iter());
    let all = all.filter_map(|t| t.clipped(range.start, range.end));
    let all: Vec<RangeRef<'_>> = all.collect();
    Ok(Some(RangeTombstones::of(&all)))
}

/// The tombstones of a table, or why they are damaged. The medium may give them right the next
/// time.
fn sound(table: &Arc<RecordFile>) -> Result<Result<Arc<RangeTombstones>>> {
    match table.range_set() {
        Err(error) if error.kind() != ErrorKind::Corruption => Err(error),
        read => Ok(read),
    }
}

/// Whether a tombstone of `table` may cover `key`, as far as the manifest says.
fn may_cover(table: &RecordFile, key: &[u8]) -> bool {
    let ranges = table.meta().ranges.as_ref();
    ranges.is_some_and(|ranges| ranges.may_cover(key))
}

/// Why what is older than a number is in doubt, if the tombstones of `table` may cover `key`.
fn doubt_of(table: &RecordFile, key: &[u8], snapshot: SeqNo, error: Error) -> Option<Doubt> {
    let ranges: &RangeSection = table.meta().ranges.as_ref()?;
    let matters = ranges.may_cover(key) && ranges.min_seq <= snapshot;
    matters.then_some((ranges.max_seq, error))
}

fn greater(some: Option<Doubt>, other: Option<Doubt>) -> Option<Doubt> {
    some.into_iter().chain(other).max_by_key(|(seq, _)| *seq)
}
