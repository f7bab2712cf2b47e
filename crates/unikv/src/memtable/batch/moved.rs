//! Batches for a keyspace that their operations do not name.
//!
//! An operation that names no keyspace is one of the default keyspace, unless the batch is written
//! to another. Those that name the default keyspace are listed beside them: they stay there.

use super::Batch;
use crate::base::keys::{KEYSPACE_PREFIX_LEN, KeyspaceId, Kind, border};
use crate::memtable::ops::{BatchOp, OpsIter};

impl Batch {
    /// The operations after the first `before` name the default keyspace.
    pub(crate) fn names_default(&mut self, before: usize) {
        self.in_default.extend(before..self.sums.len);
    }

    /// A copy whose operations without a keyspace are in the one with this data id.
    pub(crate) fn moved_to(&self, keyspace: KeyspaceId) -> Batch {
        let mut moved = self.without_ops();
        let mut stay = self.in_default.iter().peekable();
        let ops = OpsIter::new(&self.ops).map_while(Result::ok);
        for (nth, op) in ops.enumerate() {
            let stays = stay.next_if(|at| **at == nth).is_some();
            if stays || KeyspaceId::of(op.key) != KeyspaceId::DEFAULT {
                moved.push_op(&op);
            } else {
                moved.push_moved(&op, keyspace);
            }
        }
        moved
    }

    /// Adds an operation of the default keyspace in another one.
    fn push_moved(&mut self, op: &BatchOp<'_>, keyspace: KeyspaceId) {
        let at = |key: &[u8]| {
            let user = key.get(KEYSPACE_PREFIX_LEN..).unwrap_or_default();
            [&keyspace.0.to_be_bytes(), user].concat()
        };
        let key = at(op.key);
        let end = (op.kind == Kind::RangeDelete).then(|| match KeyspaceId::of(op.value) {
            KeyspaceId::DEFAULT => at(op.value),
            _ => border(KeyspaceId(keyspace.0.saturating_add(1))),
        });
        self.push_op(&BatchOp {
            key: &key,
            value: end.as_deref().unwrap_or(op.value),
            ..*op
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memtable::Operation;

    #[test]
    fn operations_that_name_no_keyspace_are_moved_and_others_stay() {
        let mut batch = Batch::new();
        batch.put("a", "1").delete("b").delete_range("c"..);
        batch.delete_range("d".."e").set_commit_tag("tag");
        batch.put_at(KeyspaceId(3), b"f", b"2");
        let before = batch.len();
        batch.put_at(KeyspaceId::DEFAULT, b"g", b"3");
        batch.names_default(before);
        batch.set_savepoint();
        let before = batch.len();
        batch.put_at(KeyspaceId::DEFAULT, b"h", b"4");
        batch.names_default(before);
        assert!(batch.rollback_to_savepoint());
        batch.put("h", "5");
        let moved = batch.moved_to(KeyspaceId(7));
        let ops: Vec<_> = moved.iter().map(|op| format!("{op:?}")).collect();
        let mut others = Batch::new();
        for (data, at) in [(7, "a"), (3, "f"), (0, "g"), (7, "h")] {
            let value = batch.iter().find_map(|op| match op {
                Operation::Put { key, value, .. } if key == at.as_bytes() => Some(value),
                _ => None,
            });
            others.put_at(KeyspaceId(data), at.as_bytes(), value.unwrap());
        }
        let puts = ops.iter().filter(|op| op.starts_with("Put"));
        let expected: Vec<_> = others.iter().map(|op| format!("{op:?}")).collect();
        assert_eq!(puts.cloned().collect::<Vec<_>>(), expected);
        let ranges: Vec<_> = moved
            .iter()
            .filter_map(|op| match op {
                Operation::DeleteRange {
                    keyspace,
                    start,
                    end,
                } => Some((keyspace, start.to_vec(), end.map(<[u8]>::to_vec))),
                _ => None,
            })
            .collect();
        let (c, d, e) = (b"c".to_vec(), b"d".to_vec(), b"e".to_vec());
        assert_eq!(ranges, [(7, c, None), (7, d, Some(e))]);
        assert_eq!(
            (moved.len(), moved.byte_len()),
            (batch.len(), batch.byte_len())
        );
        assert_eq!(moved.commit_tag(), batch.commit_tag());
        assert_eq!(moved.deletes(), batch.deletes());
        assert_eq!(
            moved.keyspaces(),
            [KeyspaceId(7), KeyspaceId(3), KeyspaceId(7)]
        );
    }
}
