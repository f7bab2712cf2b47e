//! What is hidden of a view: of one key, and of those around a cursor.

use super::Hidden;
use crate::base::keys::SeqNo;
use crate::base::range_tombstones::Piece;
use crate::base::seeded::slip;
use crate::error::Result;
use crate::key_table::KeyEntry;
use crate::partition::merging::{BlockAhead, MergingCursor};
use crate::partition::view::View;
use crate::version::{Generation, Partition};
use std::cell::{Cell, RefCell};

impl View {
    /// Whether a range tombstone in memory hides a version of `key` that is there, too.
    #[cold]
    pub(in crate::partition) fn is_hidden_in_memory(
        &self,
        key: &[u8],
        seq: SeqNo,
        snapshot: SeqNo,
    ) -> bool {
        let mut covering = self
            .memtables()
            .filter_map(|handle| handle.table.covering(key, snapshot));
        covering.any(|tombstone| seq < tombstone)
    }

    /// What of `key`, which belongs to `partition`, is hidden.
    #[cold]
    pub(in crate::partition) fn hidden(
        &self,
        partition: &Partition,
        key: &[u8],
        snapshot: SeqNo,
    ) -> Result<Hidden> {
        let mut hidden = Hidden::default();
        for handle in self.memtables() {
            hidden.add(handle.table.covering(key, snapshot));
        }
        if let Some(ranges) = &partition.ranges {
            let (tombstone, doubt) = ranges.covering(key, snapshot)?;
            hidden.add(tombstone);
            hidden.doubt = doubt.map(Box::new);
        }
        Ok(hidden)
    }
}

/// A stretch of keys of which the same is hidden.
#[derive(Debug)]
struct HiddenPiece {
    snapshot: SeqNo,
    start: Vec<u8>,
    /// `None`: to the end.
    end: Option<Vec<u8>>,
    hidden: Hidden,
}

impl HiddenPiece {
    /// That in which `key` lies, which belongs to `partition`.
    fn of(view: &View, partition: &Partition, key: &[u8], snapshot: SeqNo) -> Result<HiddenPiece> {
        let mut piece = HiddenPiece {
            snapshot,
            start: Vec::new(),
            end: None,
            hidden: Hidden::default(),
        };
        for handle in view.memtables() {
            if handle.table.has_ranges() {
                handle
                    .table
                    .each_piece(key, snapshot, |next| piece.meet(next));
            }
        }
        if let Some(ranges) = &partition.ranges {
            let doubt = ranges.each_piece(key, snapshot, |next| piece.meet(next))?;
            piece.hidden.doubt = doubt.map(Box::new);
        }
        Ok(piece)
    }

    fn meet(&mut self, next: Piece<'_>) {
        if let Some(start) = next.start.filter(|start| *start > self.start.as_slice()) {
            self.start = start.to_vec();
        }
        if next.is_one_key {
            self.end = Some([self.start.as_slice(), &[0]].concat());
        } else if let Some(end) = next.end
            && self.end.as_ref().is_none_or(|known| end < known.as_slice())
        {
            self.end = Some(end.to_vec());
        }
        self.hidden.add(next.seq);
    }

    /// Whether it says what is hidden of `key` at `snapshot`.
    fn holds(&self, key: &[u8], snapshot: SeqNo) -> bool {
        self.snapshot == snapshot
            && self.start.as_slice() <= key
            && self.end.as_ref().is_none_or(|end| key < end.as_slice())
    }

    /// Whether it goes on to the end of the block that the cursor stands in.
    fn outlasts_block(&self, merge: &MergingCursor) -> bool {
        let end = self.end.as_deref();
        end.is_none_or(|end| merge.block_ends_before(end))
    }
}

/// This many hidden entries in a row make it worth asking the sources again.
const WIDE: u32 = 8;

/// Whether range tombstones may hide something of a partition from who sees no more than is in the
/// view.
pub(in crate::partition) fn has_ranges(view: &View, partition: &Partition) -> bool {
    partition.ranges.is_some() || view.memtables().any(|handle| handle.table.has_ranges())
}

/// What is hidden around the position of a cursor.
pub(in crate::partition) struct HiddenAround {
    piece: RefCell<Option<HiddenPiece>>,
    /// How many entries of the piece have been hidden in a row.
    in_a_row: Cell<u32>,
    /// A block of which nothing is hidden from who sees this number, from the position on.
    clear: Cell<Option<(BlockAhead, SeqNo)>>,
    /// How new each source of the cursor can be.
    newest: Vec<Newest>,
}

/// The greatest sequence number of a source: of tables it is asked for when it is needed.
#[derive(Clone, Copy)]
pub(in crate::partition) enum Newest {
    Is(SeqNo),
    /// Of the generation in this place of the partition.
    OfGeneration(usize),
    OfSortedStore,
}

impl Newest {
    fn of(self, partition: &Partition) -> SeqNo {
        let newest = match self {
            Newest::Is(seq) => Some(seq),
            Newest::OfGeneration(number) => {
                let generation = partition.generations.get(number);
                let tables = generation.into_iter().flat_map(Generation::tables);
                tables.map(|(_, table)| table.meta().max_seq).max()
            }
            Newest::OfSortedStore => {
                let tables = partition.key_tables.iter();
                tables.map(|table| table.meta().max_seq).max()
            }
        };
        newest.unwrap_or(SeqNo::MAX)
    }
}

impl HiddenAround {
    /// Around a cursor over such sources.
    pub(in crate::partition) fn new(newest: Vec<Newest>) -> HiddenAround {
        HiddenAround {
            piece: RefCell::new(None),
            in_a_row: Cell::new(0),
            clear: Cell::new(None),
            newest,
        }
    }

    /// Whether nothing of the block that the cursor goes forward in is hidden from here on, which
    /// spares the comparison of each key with the ends of a piece.
    #[inline]
    pub(in crate::partition) fn is_clear(&self, merge: &MergingCursor, snapshot: SeqNo) -> bool {
        let Some((block, seen_by)) = self.clear.get() else {
            return false;
        };
        seen_by == snapshot && merge.block_ahead() == Some(block)
    }

    /// Before the cursor goes elsewhere than to the next entry.
    pub(in crate::partition) fn leave_block(&self) {
        self.clear.set(None);
    }

    /// Whether the entry at the position of the cursor `merge` is hidden.
    #[cold]
    pub(in crate::partition) fn hides(
        &self,
        view: &View,
        partition: &Partition,
        merge: &MergingCursor,
        entry: &KeyEntry<'_>,
        snapshot: SeqNo,
    ) -> Result<bool> {
        let mut piece = self.piece.borrow_mut();
        if !piece
            .as_ref()
            .is_some_and(|piece| piece.holds(entry.key, snapshot))
        {
            self.in_a_row.set(0);
            *piece = None;
            *piece = Some(HiddenPiece::of(view, partition, entry.key, snapshot)?);
        }
        let hides = match piece.as_ref() {
            Some(piece) if piece.hidden.is_nothing() => {
                let block = merge.block_ahead().filter(|_| piece.outlasts_block(merge));
                self.clear.set(block.map(|block| (block, snapshot)));
                false
            }
            Some(piece) => piece.hidden.hides(entry.seq)?,
            None => false,
        };
        let in_a_row = if hides { self.in_a_row.get() + 1 } else { 0 };
        self.in_a_row.set(in_a_row);
        Ok(hides)
    }

    /// Whether many entries in a row have been hidden.
    pub(in crate::partition) fn is_wide(&self) -> bool {
        self.in_a_row.get() >= WIDE
    }

    /// Moves the sources in which all is hidden past the piece.
    pub(in crate::partition) fn skip(
        &self,
        merge: &mut MergingCursor,
        partition: &Partition,
    ) -> Result<()> {
        self.in_a_row.set(0);
        self.leave_block();
        let piece = self.piece.borrow();
        let Some((piece, end)) = piece.as_ref().and_then(|p| Some((p, p.end.as_deref()?))) else {
            return Ok(());
        };
        let before = slip!(SkipUndeleted, SeqNo::MAX, piece.hidden.before);
        let newest: Vec<SeqNo> = self.newest.iter().map(|n| n.of(partition)).collect();
        let is_hidden = |source: usize| newest.get(source).is_some_and(|seq| *seq < before);
        merge.skip((&piece.start, end), is_hidden)
    }
}
