//! Range deletes in batches.

use super::Batch;
use super::limits::check_batch_len;
use crate::base::bounds::{
    KeyBounds, are_of_a_range, engine_bounds, prefix_bounds, prefix_bounds_of,
};
use crate::base::keys::{KEYSPACE_PREFIX_LEN, KeyspaceId, Kind, MAX_USER_KEY_LEN};
use crate::error::{Error, Result};
use crate::memtable::ops::{BatchOp, OP_HEADER_LEN};

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
        self.delete_range_at(engine_bounds(KeyspaceId::DEFAULT, &range))
    }

    /// Removes all keys that begin with `prefix`, as [`Batch::delete_range`].
    pub fn delete_prefix(&mut self, prefix: impl AsRef<[u8]>) -> &mut Batch {
        self.delete_range_at(prefix_bounds(KeyspaceId::DEFAULT, prefix.as_ref()))
    }

    /// Number of operations that delete ranges.
    pub(crate) fn range_deletes(&self) -> usize {
        self.sums.range_deletes
    }

    /// Removes the keys between two engine keys of one keyspace.
    pub(crate) fn delete_range_at(&mut self, bounds: (Vec<u8>, Vec<u8>)) -> &mut Batch {
        let (start, end) = match deletable(bounds) {
            Ok(Some(bounds)) => bounds,
            Ok(None) => return self,
            Err(violation) => {
                self.refuse(violation);
                return self;
            }
        };
        let op_len = OP_HEADER_LEN + start.len() + end.len();
        match check_batch_len(self.ops.len() + op_len) {
            Ok(()) => self.push_op(&BatchOp {
                kind: Kind::RangeDelete,
                key: &start,
                value: &end,
                expiry_ms: None,
            }),
            Err(violation) => self.refuse(violation),
        }
        self
    }
}

/// The bounds of a range delete as they are logged: `None` if the range has no keys, an error if
/// they are not those of a range of keys of one keyspace, which no log may hold.
pub(crate) fn deletable((start, end): (Vec<u8>, Vec<u8>)) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
    if start >= end {
        return Ok(None);
    }
    let (start, end) = (stored_bound(start)?, stored_bound(end)?);
    // Between two bounds longer than a key there may be none.
    if start == end {
        return Ok(None);
    }
    if !are_of_a_range(&start, &end) {
        return Err(Error::internal("a range of more than one keyspace"));
    }
    Ok(Some((start, end)))
}

/// A bound with the same keys before it, as long as a key at most. After the longest keys there is
/// none that begins with one of them.
fn stored_bound(mut bound: Vec<u8>) -> Result<Vec<u8>> {
    const LONGEST: usize = KEYSPACE_PREFIX_LEN + MAX_USER_KEY_LEN;
    if bound.len() <= LONGEST {
        return Ok(bound);
    }
    if bound.len() == LONGEST + 1 && bound.pop() == Some(0) {
        let (_, after) = prefix_bounds_of(bound);
        return Ok(after);
    }
    let what = "a bound of a range is longer than any key";
    Err(Error::invalid(what, "use at most 64 KiB"))
}
