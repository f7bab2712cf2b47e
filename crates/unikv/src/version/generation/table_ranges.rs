//! The range tombstones of a partition's UnsortedStore, in one structure for all its tables.
//!
//! A partition without them has none of this. They are read from the tables when they are first
//! needed. Those of a table that is damaged are not known: then whatever they might hide is in
//! doubt, and reading it is an error, until the table can be read.
//!
//! No locks: what is known is set once, when all tables have been read.

use super::Generation;
use crate::base::keys::{FileNumber, SeqNo};
use crate::base::range_tombstones::{Piece, RangeTombstone, RangeTombstones};
use crate::base::seeded::seeded;
use crate::base::sync::OnceLock;
use crate::error::{Error, ErrorKind, Result};
use crate::record::RecordFile;
use crate::version::range::KeyRange;
use std::sync::Arc;

/// Why what is older than a number is in doubt.
type Doubt = (SeqNo, Error);

/// The range tombstones of some tables, as far as they reach into a partition.
pub(crate) struct TableRanges {
    start: Vec<u8>,
    end: Option<Vec<u8>>,
    tables: Vec<Arc<RecordFile>>,
    /// Once they have all been read.
    known: OnceLock<RangeTombstones>,
}

/// What the tables say.
enum Read<'a> {
    Sound(&'a RangeTombstones),
    Damaged(Known),
}

/// What is known where some tables are damaged.
struct Known {
    tombstones: RangeTombstones,
    /// The first of them, and the others.
    damaged: (Damaged, Vec<Damaged>),
}

type Damaged = (Arc<RecordFile>, Error);

impl TableRanges {
    /// Those of the tables of `generations`, if there are any.
    pub(crate) fn of<'a>(
        generations: impl IntoIterator<Item = &'a Generation>,
        range: KeyRange<'_>,
    ) -> Option<TableRanges> {
        let tables = generations.into_iter().flat_map(Generation::tables);
        let may_touch = |table: &&Arc<RecordFile>| {
            let ranges = table.meta().ranges.as_ref();
            ranges.is_some_and(|ranges| ranges.may_touch(range.start, range.end))
        };
        let tables: Vec<_> = tables
            .map(|(_, table)| table)
            .filter(may_touch)
            .cloned()
            .collect();
        (!tables.is_empty()).then(|| TableRanges {
            start: range.start.to_vec(),
            end: range.end.map(<[u8]>::to_vec),
            tables,
            known: OnceLock::new(),
        })
    }

    /// Whether it is of the same tables and the same keys.
    pub(in crate::version) fn is_like(&self, other: &TableRanges) -> bool {
        fn numbers(ranges: &TableRanges) -> impl Iterator<Item = FileNumber> {
            ranges.tables.iter().map(|table| table.meta().number)
        }
        (&self.start, &self.end) == (&other.start, &other.end) && numbers(self).eq(numbers(other))
    }

    /// Memory that it takes.
    pub(in crate::version) fn memory_bytes(&self) -> usize {
        let known = self.known.get();
        size_of::<TableRanges>()
            + self.tables.capacity() * size_of::<Arc<RecordFile>>()
            + known.map_or(0, RangeTombstones::memory_bytes)
    }

    /// The newest one at or below `snapshot` that covers `key`. An error, with the number below
    /// which it matters, where the tombstones of a table are damaged that may cover it.
    pub(crate) fn covering(
        &self,
        key: &[u8],
        snapshot: SeqNo,
    ) -> Result<(Option<SeqNo>, Option<Doubt>)> {
        Ok(match self.known()? {
            Read::Sound(tombstones) => (tombstones.covering(key, snapshot), None),
            Read::Damaged(known) => (
                known.tombstones.covering(key, snapshot),
                known.doubt(key, snapshot),
            ),
        })
    }

    /// As [`TableRanges::covering`], with the keys around `key` for which that is so. Where a table
    /// is damaged this is `key` alone.
    pub(crate) fn piece<'a>(
        &'a self,
        key: &'a [u8],
        snapshot: SeqNo,
    ) -> Result<(Piece<'a>, Option<Doubt>)> {
        match self.known()? {
            Read::Sound(tombstones) => Ok((tombstones.piece(key, snapshot), None)),
            Read::Damaged(known) => {
                let piece = Piece {
                    start: Some(key),
                    end: None,
                    seq: known.tombstones.covering(key, snapshot),
                    is_one_key: true,
                };
                Ok((piece, known.doubt(key, snapshot)))
            }
        }
    }

    /// All of them. Fails if one table is damaged: a job must not lose them.
    pub(crate) fn all(&self) -> Result<&RangeTombstones> {
        match self.known()? {
            Read::Sound(tombstones) => Ok(tombstones),
            Read::Damaged(known) => Err(known.damaged.0.1),
        }
    }

    fn known(&self) -> Result<Read<'_>> {
        if let Some(known) = self.known.get() {
            return Ok(Read::Sound(known));
        }
        let (mut tombstones, mut damaged) = (Vec::new(), Vec::new());
        for table in &self.tables {
            match table.range_tombstones() {
                Ok(of_table) => {
                    let end = self.end.as_deref();
                    let inside = |t: &RangeTombstone| t.clipped(&self.start, end);
                    tombstones.extend(of_table.iter().filter_map(inside));
                }
                Err(_) if seeded!(DamagedRangesAreEmpty) => {}
                Err(error) if error.kind() == ErrorKind::Corruption => {
                    damaged.push((Arc::clone(table), error));
                }
                Err(error) => return Err(error),
            }
        }
        let tombstones = RangeTombstones::new(&tombstones);
        let mut damaged = damaged.into_iter();
        Ok(match damaged.next() {
            None => Read::Sound(self.known.get_or_init(|| tombstones)),
            // The medium may give it right the next time: it is read again.
            Some(first) => Read::Damaged(Known {
                tombstones,
                damaged: (first, damaged.collect()),
            }),
        })
    }
}

impl Known {
    /// Why what is older than a number is in doubt, if it is.
    fn doubt(&self, key: &[u8], snapshot: SeqNo) -> Option<Doubt> {
        let may_cover = |(table, error): &Damaged| {
            let ranges = table.meta().ranges.as_ref()?;
            let matters = ranges.may_cover(key) && ranges.min_seq <= snapshot;
            matters.then(|| (ranges.max_seq, error.clone()))
        };
        let (first, others) = &self.damaged;
        let doubts = std::iter::once(first).chain(others).filter_map(may_cover);
        doubts.max_by_key(|(seq, _)| *seq)
    }
}
