//! What scans pay because the values of neighbours lie apart, and when they have paid for *clustering*.
//!
//! Neighbours in key order were written at different times, so a merge that moves keys alone leaves their
//! values in as many files, and a scan reads them in as many pieces. (The paper copies all values at every
//! merge, §III-C; a store that is never scanned then pays for nothing.) Clustering copies the values of a
//! key table that lie apart behind one another.
//!
//! **Cost.** Counted per key table, in quarters of what it costs to copy a record of 1 KB: each piece of a
//! batch that clustering would save costs a scan [`PIECE_COST`], and one that is not in memory
//! [`COLD_PIECE_COST`]. When the sum has reached what clustering costs ([`Scattered::cost`]), the scans have
//! paid for it, and by then they have lost no more than it costs. Nothing decays; but what was paid goes
//! with the table when a merge writes it anew. What lies in the UnsortedStore is not counted, for its merge
//! comes anyway.

use crate::base::sync::atomic::Ordering;
use crate::key_table::{KeyTable, RecordPointer, Scattered};
use crate::record::COALESCE_GAP_BYTES;
use crate::version::Version;

/// What a piece costs a scan that finds it in memory: a system call.
const PIECE_COST: u64 = 1;
/// What it costs a scan that waits for the device. Several are waited for together, so this is less than
/// a read takes.
const COLD_PIECE_COST: u64 = 32;

/// A value of the SortedStore that a scan has fetched.
pub(crate) struct Fetched<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) pointer: RecordPointer,
    /// Whether the device was waited for.
    pub(crate) cold: bool,
}

/// Charges the key tables of a batch, in key order or its reverse, with what a scan has paid. True if with
/// it, clustering has become worth its cost.
pub(crate) fn charge(version: &Version, mut batch: &[Fetched<'_>]) -> bool {
    let mut due = false;
    while let [first, ..] = batch {
        let partition = version.partition_for(first.key);
        let Some(table) = partition.and_then(|partition| partition.key_table_for(first.key)) else {
            return due;
        };
        let meta = table.meta();
        let holds = |key: &[u8]| meta.min_key.as_slice() <= key && key <= meta.max_key.as_slice();
        let end = batch.iter().take_while(|it| holds(it.key)).count();
        let (of_table, rest) = batch.split_at(end.max(1));
        due |= charge_table(table, of_table);
        batch = rest;
    }
    due
}

fn charge_table(table: &KeyTable, batch: &[Fetched<'_>]) -> bool {
    let Some(apart) = &table.scattered else {
        return false;
    };
    let moves = batch.iter().filter(|it| !apart.stays(it.pointer.file));
    let mut moves: Vec<_> = moves.map(|it| (it.pointer, it.cold)).collect();
    moves.sort_unstable_by_key(|(pointer, _)| (pointer.file, pointer.offset));
    // Clustered, they would be one piece, or a part of none where others are together already.
    let spare = u64::from(!apart.has_home());
    let all = pieces(moves.iter().map(|(pointer, _)| *pointer));
    let cold = moves.iter().filter(|(_, cold)| *cold);
    let cold = pieces(cold.map(|(pointer, _)| *pointer));
    let paid =
        all.saturating_sub(spare) * PIECE_COST + cold.saturating_sub(spare) * COLD_PIECE_COST;
    let before = table.scan_cost.fetch_add(paid, Ordering::Relaxed);
    before < apart.cost && before.saturating_add(paid) >= apart.cost
}

/// In how many reads sorted `pointers` are fetched.
fn pieces(pointers: impl Iterator<Item = RecordPointer>) -> u64 {
    let (mut pieces, mut last) = (0, None);
    for pointer in pointers {
        let goes_on = last.is_some_and(|last: RecordPointer| {
            let near = |end| pointer.offset.saturating_sub(end) <= COALESCE_GAP_BYTES;
            last.file == pointer.file && last.end().is_some_and(near)
        });
        pieces += u64::from(!goes_on);
        last = Some(pointer);
    }
    pieces
}

/// What scans have paid for to be copied together in `table`.
pub(crate) fn paid_for(table: &KeyTable) -> Option<&Scattered> {
    let paid = table.scan_cost.load(Ordering::Relaxed);
    table.scattered.as_ref().filter(|apart| paid >= apart.cost)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::keys::FileNumber;

    #[test]
    fn pieces_are_what_is_read_at_a_time() {
        let pointer = |(file, offset, len)| RecordPointer {
            file: FileNumber(file),
            offset,
            len,
        };
        let count = |places: &[(u64, u64, u32)]| pieces(places.iter().copied().map(pointer));
        assert_eq!(count(&[]), 0);
        assert_eq!(count(&[(1, 100, 50), (1, 150, 50), (1, 250, 50)]), 1);
        assert_eq!(count(&[(1, 100, 50), (1, 9000, 50), (2, 9050, 50)]), 3);
    }
}
