//! What the visible records of a key table may take on the disk: the formula of
//! [`Options::max_space_amp`](crate::Options::max_space_amp) (promise I7).
//!
//! That is the factor times the bytes of their keys and values, of these as they are stored. Beside
//! them stand a frame, a pointer, and in places the key once more; where keys are long, values
//! short or the factor small, that may be more than the factor leaves, so these records may take as
//! much beyond it.

use crate::base::keys::KEYSPACE_PREFIX_LEN;
use crate::key_table::{KeyTableMeta, Newest, Values};
use crate::record::frame_len;

/// What a record may take in frames, pointers and fences.
const FRAME_BYTES: u64 = 70;
/// The least factor that leaves enough for the frames of values of 256 bytes and more.
const LEAST_ROOMY_AMP: f64 = 1.5;

/// What the visible records of files may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Promise {
    /// Their keys and values.
    pub(crate) user_bytes: u64,
    /// What they may take beyond a roomy factor, and beyond a smaller one.
    frame_bytes: u64,
    tight_frame_bytes: u64,
}

impl Promise {
    pub(crate) fn of(table: &KeyTableMeta) -> Promise {
        let newest = table.newest.unwrap_or_else(|| at_least(table));
        let Newest { inline, apart, .. } = newest;
        let frame = frame_len(KEYSPACE_PREFIX_LEN, 0, false);
        let frames = |records, key_bytes| {
            let keys = without_prefixes(key_bytes, records);
            records * FRAME_BYTES + keys
        };
        let key_bytes = inline.key_bytes + apart.key_bytes;
        Promise {
            user_bytes: without_prefixes(inline.key_bytes, inline.count)
                + table.stored_part(inline.bytes)
                + apart.bytes.saturating_sub(apart.count * frame),
            frame_bytes: frames(newest.small, newest.small_key_bytes),
            tight_frame_bytes: frames(inline.count + apart.count, key_bytes),
        }
    }

    /// Both together.
    pub(super) fn and(self, other: Promise) -> Promise {
        let frames = self.tight_frame_bytes;
        Promise {
            user_bytes: self.user_bytes.saturating_add(other.user_bytes),
            frame_bytes: self.frame_bytes.saturating_add(other.frame_bytes),
            tight_frame_bytes: frames.saturating_add(other.tight_frame_bytes),
        }
    }

    /// What they may take beyond the factor that is promised.
    pub(crate) fn frame_bytes(&self, max_space_amp: f64) -> u64 {
        if max_space_amp < LEAST_ROOMY_AMP {
            self.tight_frame_bytes
        } else {
            self.frame_bytes
        }
    }
}

fn without_prefixes(key_bytes: u64, keys: u64) -> u64 {
    key_bytes.saturating_sub(keys * KEYSPACE_PREFIX_LEN as u64)
}

/// The least that the newest versions of a table can be of which an older release has not counted
/// them.
fn at_least(table: &KeyTableMeta) -> Newest {
    let refs = table.refs.iter();
    let (count, bytes) = refs.fold((0, 0), |(n, bytes), r| (n + r.count, bytes + r.bytes));
    let apart = Values {
        count,
        key_bytes: 0,
        bytes: bytes.saturating_sub(table.older_bytes),
    };
    let inline = Values {
        count: table.count.saturating_sub(count),
        key_bytes: 0,
        bytes: match count {
            0 => table.inline_bytes.saturating_sub(table.older_bytes),
            _ => table.inline_bytes,
        },
    };
    Newest {
        inline,
        apart,
        small: 0,
        small_key_bytes: 0,
        ..Newest::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::keys::{FileNumber, FileUid, SeqNo};
    use crate::key_table::{Expiring, RecordFileRefs};

    /// Ten values of 20 bytes inline and one record of 1,064 bytes, with keys of 24 bytes.
    fn table(newest: Option<Newest>) -> KeyTableMeta {
        KeyTableMeta {
            number: FileNumber(1),
            uid: FileUid(2),
            len: 600,
            count: 11,
            min_key: vec![0; 28],
            max_key: vec![1; 28],
            min_seq: SeqNo(1),
            max_seq: SeqNo(11),
            checksum: 0,
            refs: vec![RecordFileRefs {
                file: FileNumber(3),
                count: 1,
                bytes: 1064,
            }],
            inline_bytes: 200,
            older_bytes: 0,
            newest,
            expiry: None,
            expiring: Expiring::default(),
            has_range_deletes: false,
            clip: None,
            compression: crate::codec::FileCompression::default(),
        }
    }

    fn of(table: &KeyTableMeta, amp: f64) -> (u64, u64) {
        let promise = Promise::of(table);
        (promise.user_bytes, promise.frame_bytes(amp))
    }

    #[test]
    fn keys_and_values_count_and_frames_where_they_are_small() {
        let counted = table(Some([10, 280, 200, 1, 28, 1064, 10, 280, 0, 0, 0].into()));
        assert_eq!(of(&counted, 1.5), (240 + 200 + 1024, 700 + 240));
        assert_eq!(of(&counted, 1.1), (240 + 200 + 1024, 770 + 264));
    }

    #[test]
    fn what_an_older_release_has_not_counted_is_taken_for_the_least_that_it_can_be() {
        assert_eq!(of(&table(None), 1.5), (200 + 1024, 0));
        let older = KeyTableMeta {
            older_bytes: 2000,
            ..table(None)
        };
        assert_eq!(of(&older, 1.5), (200, 0));
    }
}
