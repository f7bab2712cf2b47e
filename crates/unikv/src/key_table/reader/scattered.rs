//! Which of a key table's values lie apart, as far as its counts of pointers tell.

use crate::base::keys::FileNumber;
use crate::key_table::meta::KeyTableMeta;
use crate::key_table::pointer::STREAMED_BYTES;

/// Copying costs a unit per record and one for so many bytes, of values or of the key table.
const BYTES_PER_UNIT: u64 = 340;
/// What it costs to begin files and commit an edit: little, or small databases would never be clustered.
const COMMIT_COST: u64 = 1 << 5;
/// Values that lie apart are worth copying from this part of the table's values on.
const WORTH_PART: u64 = 64;
/// In so many files the values may stay.
const MOST_FILES: usize = 3;

/// Values of a key table that lie apart from the others. Large ones are as good alone, and do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scattered {
    /// The files in which values stay: each has as many bytes of them as all smaller ones together. So what
    /// is copied once more is little against what was copied before.
    stays: [Option<FileNumber>; MOST_FILES],
    /// Bytes of the records in other files.
    pub(crate) bytes: u64,
    /// What it costs to copy them.
    pub(crate) cost: u64,
}

impl Scattered {
    /// `None`: a scan finds the values together, or nearly all of them.
    pub(crate) fn of(table: &KeyTableMeta) -> Option<Scattered> {
        let is_large = |bytes: u64, count: u64| bytes / count.max(1) >= u64::from(STREAMED_BYTES);
        let small = table
            .refs
            .iter()
            .filter(|refs| !is_large(refs.bytes, refs.count));
        let mut files: Vec<_> = small.collect();
        files.sort_unstable_by_key(|refs| std::cmp::Reverse((refs.bytes, refs.file)));
        let all = files
            .iter()
            .fold(0, |sum: u64, refs| sum.saturating_add(refs.bytes));
        let (mut stays, mut bytes) = ([None; MOST_FILES], all);
        for (slot, refs) in stays.iter_mut().zip(&files) {
            let smaller = bytes.saturating_sub(refs.bytes);
            if refs.bytes < smaller {
                break;
            }
            *slot = Some(refs.file);
            bytes = smaller;
        }
        let moves = files.iter().skip(stays.iter().flatten().count());
        let records = moves.fold(0, |sum: u64, refs| sum.saturating_add(refs.count));
        let written = bytes.saturating_add(table.len) / BYTES_PER_UNIT;
        let apart = Scattered {
            stays,
            bytes,
            cost: records.saturating_add(written).saturating_add(COMMIT_COST),
        };
        (bytes > all / WORTH_PART).then_some(apart)
    }

    /// Whether the values in `file` stay where they are.
    pub(crate) fn stays(&self, file: FileNumber) -> bool {
        self.stays.contains(&Some(file))
    }

    /// Whether there is a file in which values stay.
    pub(crate) fn has_home(&self) -> bool {
        self.stays.iter().any(Option::is_some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::keys::{FileUid, SeqNo};
    use crate::key_table::RecordFileRefs;

    /// Of a table whose pointers keep so many records of so many bytes in each file.
    fn apart(files: &[(u64, u64)]) -> Option<Scattered> {
        let refs = files
            .iter()
            .zip(1..)
            .map(|((count, len), file)| RecordFileRefs {
                file: FileNumber(file),
                count: *count,
                bytes: count * len,
            });
        Scattered::of(&KeyTableMeta {
            number: FileNumber(9),
            uid: FileUid(0),
            len: 340 * 7,
            count: 10,
            min_key: b"a".to_vec(),
            max_key: b"z".to_vec(),
            min_seq: SeqNo(1),
            max_seq: SeqNo(9),
            checksum: 0,
            refs: refs.collect(),
            inline_bytes: 0,
            older_bytes: 0,
            newest: None,
            expiry: None,
            has_range_deletes: false,
            clip: None,
        })
    }

    #[test]
    fn values_stay_in_files_that_outweigh_all_smaller_ones() {
        let found = |files: &[(u64, u64)]| {
            apart(files).map(|it| (it.stays.into_iter().flatten().collect(), it.bytes))
        };
        let stays = |files: &[u64], bytes| {
            Some((
                files.iter().map(|n| FileNumber(*n)).collect::<Vec<_>>(),
                bytes,
            ))
        };
        assert_eq!(found(&[]), None);
        assert_eq!(found(&[(10, 100)]), None);
        assert_eq!(found(&[(80, 100), (30, 100), (10, 100)]), None);
        assert_eq!(found(&[(10, 100); 3]), stays(&[], 3000));
        assert_eq!(found(&[(10, 100); 20]), stays(&[], 20 * 1000));
        assert_eq!(
            found(&[(5, 100), (90, 100), (6, 100), (7, 100)]),
            stays(&[2], 1800)
        );
        // Three files are as many as may stay.
        let tiers = [(800, 100), (400, 100), (200, 100), (100, 100)];
        assert_eq!(found(&tiers), stays(&[1, 2, 3], 10_000));
        // A trifle is left where it is.
        assert_eq!(
            found(&[(2000, 100), (1, 100), (1, 100), (1, 100), (1, 100)]),
            None
        );
    }

    #[test]
    fn large_values_are_as_good_alone() {
        let large = (2, 2 * u64::from(STREAMED_BYTES));
        assert_eq!(apart(&[large, large, large, (100, 100)]), None);
        let it = apart(&[large, (10, 100), (10, 100), (10, 100)]).unwrap();
        assert!(it.bytes == 3000 && !it.has_home());
    }

    #[test]
    fn the_cost_counts_records_bytes_the_table_and_the_commit() {
        let it = apart(&[(100, 340), (100, 340), (100, 340)]).unwrap();
        assert_eq!(it.cost, 300 + 300 + 7 + COMMIT_COST);
    }
}
