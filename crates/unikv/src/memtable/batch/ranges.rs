//! Range deletes in batches.

use super::Batch;
use crate::base::bounds::{KeyBounds, engine_bounds, prefix_bounds, prefix_bounds_of};
use crate::base::keys::{KEYSPACE_PREFIX_LEN, KeyspaceId, Kind, MAX_USER_KEY_LEN};
use crate::error::Error;
use crate::memtable::limits::check_batch_len;
use crate::memtable::ops::{BatchOp, OP_HEADER_LEN};
use std::borrow::Cow;

impl Batch {
    /// Removes all keys in `range`, in the time of one put however many there are: see
    /// [`Db::delete_range`](crate::Db::delete_range). A range that ends before it starts has no
    /// keys, and nothing is added.
    ///
    /// ```
    /// # use unikv::Batch;
    /// let mut batch = Batch::new();
    /// batch.delete_range("2025-01".."2025-07").put("2025-01-01", "after the others");
    /// assert_eq!(batch.len(), 2);
    /// ```
    pub fn delete_range(&mut self, range: impl KeyBounds) -> &mut Batch {
        self.delete_range_at(&engine_bounds(KeyspaceId::DEFAULT, &range))
    }

    /// Removes all keys that begin with `prefix`, as [`Batch::delete_range`].
    pub fn delete_prefix(&mut self, prefix: impl AsRef<[u8]>) -> &mut Batch {
        self.delete_range_at(&prefix_bounds(KeyspaceId::DEFAULT, prefix.as_ref()))
    }

    /// Number of operations that delete ranges.
    pub(crate) fn range_deletes(&self) -> usize {
        self.sums.range_deletes
    }

    /// Removes the keys between two engine keys of one keyspace.
    pub(crate) fn delete_range_at(&mut self, (start, end): &(Vec<u8>, Vec<u8>)) -> &mut Batch {
        if start >= end {
            return self;
        }
        let (Some(start), Some(end)) = (stored_bound(start), stored_bound(end)) else {
            let what = "a bound of a range is longer than any key";
            self.refuse(Error::invalid(what, "use at most 64 KiB"));
            return self;
        };
        let (start, end) = (&*start, &*end);
        let op_len = OP_HEADER_LEN + start.len() + end.len();
        match check_batch_len(self.ops.len() + op_len) {
            Ok(()) => self.push_op(&BatchOp {
                kind: Kind::RangeDelete,
                key: start,
                value: end,
                expiry_ms: None,
            }),
            Err(violation) => self.refuse(violation),
        }
        self
    }
}

/// A bound with the same keys before it, as long as a key at most; `None` if it is not that of a
/// range of keys. After the longest keys there is none that begins with one of them.
fn stored_bound(bound: &[u8]) -> Option<Cow<'_, [u8]>> {
    match bound
        .len()
        .checked_sub(KEYSPACE_PREFIX_LEN + MAX_USER_KEY_LEN)
    {
        None | Some(0) => Some(Cow::Borrowed(bound)),
        Some(1) if bound.last() == Some(&0) => {
            let (_, after) = prefix_bounds_of(bound.get(..bound.len() - 1)?.to_vec());
            Some(Cow::Owned(after))
        }
        Some(_) => None,
    }
}
