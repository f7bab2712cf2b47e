//! What scans pay because the values of neighbours lie apart, and when they have paid for *clustering*.
//!
//! Neighbours in key order were written at different times, so a merge that moves keys alone leaves their
//! values in as many files, and a scan reads them in as many pieces. (The paper copies all values at every
//! merge, §III-C; a store that is never scanned then pays for nothing.) Clustering copies the values of a
//! key table behind one another.
//!
//! **Cost.** Counted per key table, in quarters of what it costs to copy a record of 1 KB: each piece
//! beyond the first of a batch costs a scan [`PIECE_COST`], and one that is not in memory
//! [`COLD_PIECE_COST`]. When the sum has reached what it costs to copy the values that lie apart, the scans
//! have paid for that, and by then they have lost no more than it costs. Nothing decays: what was paid
//! stays paid until the table is written anew. What lies in the UnsortedStore is not counted, for its merge
//! comes anyway.

use crate::base::keys::FileNumber;
use crate::base::sync::atomic::Ordering;
use crate::key_table::{KeyTable, KeyTableMeta};
use crate::version::Version;

/// What a piece costs a scan that finds it in memory: a system call.
const PIECE_COST: u64 = 1;
/// What it costs a scan that waits for the device. Several are waited for together, so this is less than
/// a read takes.
const COLD_PIECE_COST: u64 = 32;
/// Copying costs one unit per record and one for so many bytes of it.
const BYTES_PER_UNIT: u64 = 340;
/// Values of a table that lie apart are worth copying from this part of its values on.
const WORTH_PART: u64 = 64;

/// In how many pieces a scan has read values of the SortedStore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pieces {
    /// All.
    pub(crate) all: u64,
    /// Of these, those that were not in memory.
    pub(crate) cold: u64,
}

impl Pieces {
    fn cost(self) -> u64 {
        let cold = self.cold.saturating_sub(1);
        self.all.saturating_sub(1) * PIECE_COST + cold * COLD_PIECE_COST
    }
}

/// What of a key table's values lies apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scattered {
    /// The file that has most of the values: they stay there.
    pub(crate) stays: Option<FileNumber>,
    /// Bytes and number of the records in other files.
    pub(crate) bytes: u64,
    records: u64,
}

impl Scattered {
    /// `None`: a scan finds the values together, or nearly all of them. Two files are as good as one,
    /// where one batch ends and the next one goes on.
    pub(crate) fn of(table: &KeyTableMeta) -> Option<Scattered> {
        let (bytes, records) = table
            .refs
            .iter()
            .fold((0, 0), |sum, refs| (sum.0 + refs.bytes, sum.1 + refs.count));
        let most = table.refs.iter().max_by_key(|refs| refs.bytes)?;
        let stays = (most.bytes > bytes / 2).then_some(most);
        let apart = Scattered {
            stays: stays.map(|refs| refs.file),
            bytes: bytes - stays.map_or(0, |refs| refs.bytes),
            records: records - stays.map_or(0, |refs| refs.count),
        };
        let few = table.refs.len() <= 2;
        (!few && apart.bytes > bytes / WORTH_PART).then_some(apart)
    }

    /// What it costs to copy them.
    fn cost(self) -> u64 {
        self.records + self.bytes / BYTES_PER_UNIT
    }
}

/// Charges the table of `key` with what a scan has paid there. True if with it, clustering has become
/// worth its cost.
pub(crate) fn charge(version: &Version, key: &[u8], pieces: Pieces) -> bool {
    let paid = pieces.cost();
    if paid == 0 {
        return false;
    }
    let partition = version.partition_for(key);
    let Some(table) = partition.and_then(|partition| partition.key_table_for(key)) else {
        return false;
    };
    let before = table.scan_cost.fetch_add(paid, Ordering::Relaxed);
    let cost = Scattered::of(table.meta()).map_or(u64::MAX, Scattered::cost);
    before < cost && before.saturating_add(paid) >= cost
}

/// What scans have paid for to be copied together in `table`.
pub(crate) fn paid_for(table: &KeyTable) -> Option<Scattered> {
    let apart = Scattered::of(table.meta())?;
    (table.scan_cost.load(Ordering::Relaxed) >= apart.cost()).then_some(apart)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::keys::{FileUid, SeqNo};
    use crate::key_table::RecordFileRefs;

    fn table(bytes: &[u64]) -> KeyTableMeta {
        let refs = bytes.iter().enumerate().map(|(i, bytes)| RecordFileRefs {
            file: FileNumber(i as u64),
            count: bytes / 100,
            bytes: *bytes,
        });
        KeyTableMeta {
            number: FileNumber(9),
            uid: FileUid(0),
            len: 1000,
            count: 10,
            min_key: b"a".to_vec(),
            max_key: b"z".to_vec(),
            min_seq: SeqNo(1),
            max_seq: SeqNo(9),
            checksum: 0,
            refs: refs.collect(),
            inline_bytes: 0,
            older_bytes: 0,
            expiry: None,
            has_range_deletes: false,
            clip: None,
        }
    }

    #[test]
    fn what_lies_apart_is_all_but_the_file_with_most() {
        let apart = |bytes: &[u64]| Scattered::of(&table(bytes));
        // In one or two files: a scan changes over once.
        assert_eq!(apart(&[]), None);
        assert_eq!(apart(&[1000]), None);
        assert_eq!(apart(&[1000, 1000]), None);
        let found = |stays: Option<u64>, bytes, records| {
            Some(Scattered {
                stays: stays.map(FileNumber),
                bytes,
                records,
            })
        };
        // None has more than half: all of them move.
        assert_eq!(apart(&[1000, 1000, 1000]), found(None, 3000, 30));
        assert_eq!(apart(&[500, 4000, 300]), found(Some(1), 800, 8));
        // A trifle is left where it is.
        assert_eq!(apart(&[100, 200_000, 300]), None);
    }

    #[test]
    fn one_piece_costs_nothing_and_a_cold_one_much() {
        let cost = |all, cold| Pieces { all, cold }.cost();
        assert_eq!([cost(0, 0), cost(1, 0), cost(1, 1)], [0; 3]);
        assert_eq!(cost(5, 0), 4);
        assert_eq!(cost(5, 3), 4 + 2 * COLD_PIECE_COST);
    }
}
