//! Batches of operations. Their [encoding](super::ops) is also the payload of a WAL record.

mod collect;
pub(super) mod lifetime;
mod lifetimes;
pub(super) mod limits;
mod moved;
pub(super) mod operation;
pub(super) mod ranges;
mod savepoints;

use self::lifetime::Lifetime;
use self::limits::{check_batch_len, check_commit_tag, check_limits};
use self::operation::Operation;
use super::ops::{BatchOp, EXPIRY_LEN, OP_HEADER_LEN, OpsIter, encode_op, encode_op_in};
use crate::base::keys::{DatabaseId, EXTERNAL_LEN, KEYSPACE_PREFIX_LEN, KeyspaceId, Kind};
use crate::error::Error;
use savepoints::Savepoint;
use std::fmt;
use std::time::Duration;

/// Several writes that are applied together: after a crash either all of them are there or none.
///
/// Later operations on a key win over earlier ones. An operation beyond the limits (64 KiB for a
/// key, 1 GiB for a value, 3 GiB for all together, 64 KiB for a commit tag) is left out and
/// reported when the batch is written, which then changes nothing.
///
/// A batch of any size within these limits is accepted, whatever
/// [`Options::memory_budget`](crate::Options::memory_budget) is. Large values are written to files
/// of their own; of a batch that takes more memory than a memtable these are all values of 256
/// bytes and more. Where keys and small values take more than an eighth of the budget (and more
/// than 1 MiB), the batch is sorted and written to tables instead of the log: it is then durable
/// when the call returns, may not delete ranges, and is refused if it may not wait.
///
/// ```
/// # use unikv::Batch;
/// let mut batch = Batch::new();
/// batch.put("from", "90").put("to", "110").delete("pending");
/// assert_eq!(batch.len(), 3);
/// ```
#[derive(Clone, Default)]
pub struct Batch {
    ops: Vec<u8>,
    sums: Sums,
    /// Of the operations in other keyspaces than the default one, without repetitions in a row.
    keyspaces: Vec<KeyspaceId>,
    /// The operations that name the default keyspace, by their places.
    in_default: Vec<usize>,
    /// The database of these keyspaces.
    owner: Option<DatabaseId>,
    commit_tag: Option<Vec<u8>>,
    violation: Option<Error>,
    savepoints: Vec<Savepoint>,
}

/// What is known of all operations.
#[derive(Clone, Copy, Default)]
struct Sums {
    len: usize,
    deletes: usize,
    range_deletes: usize,
    /// Bytes of the longest value.
    longest_value: usize,
    /// Bytes of values that stand elsewhere, and how many they are.
    external_bytes: usize,
    externals: usize,
    /// How many say when they expire.
    expiring: usize,
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Sets `key` to `value`.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> &mut Batch {
        self.put_at(KeyspaceId::DEFAULT, key.as_ref(), value.as_ref())
    }

    /// Removes `key`, if it is there.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> &mut Batch {
        self.delete_at(KeyspaceId::DEFAULT, key.as_ref())
    }

    /// Gives the batch a commit tag: opaque bytes, at most 64 KiB, that are committed with it.
    /// After any crash the commit tag is there if and only if the batch is;
    /// [`Db::commit_tag`](crate::Db::commit_tag) says the newest one. A batch with a commit tag is
    /// written also if it has no operation.
    ///
    /// ```
    /// # use unikv::Batch;
    /// let mut batch = Batch::new();
    /// batch.put("balance", "90").set_commit_tag("position 17 of the queue");
    /// assert_eq!(batch.commit_tag(), Some(&b"position 17 of the queue"[..]));
    /// ```
    pub fn set_commit_tag(&mut self, commit_tag: impl AsRef<[u8]>) -> &mut Batch {
        match check_commit_tag(commit_tag.as_ref()) {
            Ok(()) => self.commit_tag = Some(commit_tag.as_ref().to_vec()),
            Err(violation) => drop(self.violation.get_or_insert(violation)),
        }
        self
    }

    /// The commit tag of the batch.
    pub fn commit_tag(&self) -> Option<&[u8]> {
        self.commit_tag.as_deref()
    }

    /// Removes all operations, the commit tag and the savepoints (and forgets violated limits), for
    /// use as a new batch.
    pub fn clear(&mut self) {
        self.ops.clear();
        self.keyspaces.clear();
        self.in_default.clear();
        self.owner = None;
        self.sums = Sums::default();
        self.commit_tag = None;
        self.violation = None;
        self.savepoints.clear();
    }

    /// The operations, in their order.
    ///
    /// ```
    /// # use unikv::{Batch, Operation};
    /// let mut batch = Batch::new();
    /// batch.put("apple", "red").delete("pear");
    /// let deleted = batch.iter().filter(|op| matches!(op, Operation::Delete { .. }));
    /// assert_eq!(deleted.count(), 1);
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = Operation<'_>> {
        let ops = OpsIter::new(&self.ops).map_while(Result::ok);
        ops.map(
            |BatchOp {
                 kind,
                 key,
                 value,
                 expiry_ms,
             }| {
                let keyspace = KeyspaceId::of(key).0;
                let key = key.get(KEYSPACE_PREFIX_LEN..).unwrap_or_default();
                match kind {
                    Kind::RangeDelete => Operation::DeleteRange {
                        keyspace,
                        start: key,
                        end: value
                            .get(KEYSPACE_PREFIX_LEN..)
                            .filter(|_| KeyspaceId::of(value).0 == keyspace),
                    },
                    Kind::Delete => Operation::Delete { keyspace, key },
                    _ => Operation::Put {
                        keyspace,
                        key,
                        value,
                        ttl: match Lifetime::decode(expiry_ms) {
                            Lifetime::For(ms) => Some(Duration::from_millis(ms)),
                            Lifetime::Never => Some(Duration::MAX),
                            Lifetime::AsUsual | Lifetime::Until(_) => None,
                        },
                    },
                }
            },
        )
    }

    /// Adds the operations of another batch after those of this one. Its commit tag, if it has one,
    /// takes the place of that of this one. The limits are those of [`Batch::put`].
    pub fn append(&mut self, other: &Batch) -> &mut Batch {
        if let Some(violation) = &other.violation {
            self.violation.get_or_insert_with(|| violation.clone());
        }
        if let Err(violation) = check_batch_len(self.ops.len() + other.ops.len()) {
            self.violation.get_or_insert(violation);
            return self;
        }
        self.ops.extend_from_slice(&other.ops);
        self.keyspaces.extend_from_slice(&other.keyspaces);
        let places = other.in_default.iter().map(|at| self.sums.len + at);
        self.in_default.extend(places);
        if let Some(owner) = other.owner {
            self.belong_to(owner);
        }
        let (sums, more) = (&mut self.sums, &other.sums);
        sums.len += more.len;
        sums.deletes += more.deletes;
        sums.range_deletes += more.range_deletes;
        sums.longest_value = sums.longest_value.max(more.longest_value);
        sums.external_bytes += more.external_bytes;
        sums.externals += more.externals;
        sums.expiring += more.expiring;
        if other.commit_tag.is_some() {
            self.commit_tag.clone_from(&other.commit_tag);
        }
        self
    }

    /// Number of operations.
    pub fn len(&self) -> usize {
        self.sums.len
    }

    /// Whether there is no operation.
    pub fn is_empty(&self) -> bool {
        self.sums.len == 0
    }

    /// How many sequence numbers the batch takes: one for each operation, or one for a commit tag
    /// alone.
    pub(crate) fn seq_count(&self) -> u64 {
        self.sums.len.max(usize::from(self.commit_tag.is_some())) as u64
    }

    /// Number of operations that are deletes, of keys or of ranges.
    pub(crate) fn deletes(&self) -> usize {
        self.sums.deletes
    }

    /// Bytes of the users' keys and values.
    pub(crate) fn user_bytes(&self) -> usize {
        self.user_bytes_here() + self.sums.external_bytes
    }

    /// Bytes of the users' keys, and of the values that do not stand elsewhere.
    pub(crate) fn user_bytes_here(&self) -> usize {
        let overhead = self.len() * (OP_HEADER_LEN + KEYSPACE_PREFIX_LEN);
        let expiries = self.sums.expiring * EXPIRY_LEN;
        self.byte_len() - overhead - expiries - self.sums.externals * EXTERNAL_LEN
    }

    /// Bytes of the longest value.
    pub(crate) fn longest_value(&self) -> usize {
        self.sums.longest_value
    }

    /// Number of operations whose values stand elsewhere.
    pub(crate) fn externals(&self) -> usize {
        self.sums.externals
    }

    /// Bytes that the operations take in the write-ahead log.
    pub fn byte_len(&self) -> usize {
        self.ops.len()
    }

    /// [`put`](Batch::put) in the keyspace with this data id.
    pub(crate) fn put_at(&mut self, keyspace: KeyspaceId, key: &[u8], value: &[u8]) -> &mut Batch {
        self.push(Kind::Put, keyspace, key, value, Lifetime::AsUsual)
    }

    /// [`delete`](Batch::delete) in the keyspace with this data id.
    pub(crate) fn delete_at(&mut self, keyspace: KeyspaceId, key: &[u8]) -> &mut Batch {
        self.push(Kind::Delete, keyspace, key, &[], Lifetime::AsUsual)
    }

    /// Bytes that an operation takes in the log; `external`: when its value stands elsewhere.
    pub(crate) fn op_len(op: &BatchOp<'_>, external: bool) -> usize {
        let value_len = if external {
            EXTERNAL_LEN
        } else {
            op.value.len()
        };
        let expiry_len = op.expiry_ms.map_or(0, |_| EXPIRY_LEN);
        OP_HEADER_LEN + expiry_len + op.key.len() + value_len
    }

    /// Adds an operation of another batch.
    pub(crate) fn push_op(&mut self, op: &BatchOp<'_>) {
        encode_op(&mut self.ops, op.kind, op.expiry_ms, op.key, op.value);
        self.note_keyspace(KeyspaceId::of(op.key));
        self.sums.expiring += usize::from(op.expiry_ms.is_some());
        self.sums.len += 1;
        let is_delete = matches!(op.kind, Kind::Delete | Kind::RangeDelete);
        self.sums.deletes += usize::from(is_delete);
        match op.kind {
            Kind::RangeDelete => self.sums.range_deletes += 1,
            _ => self.sums.longest_value = self.sums.longest_value.max(op.value.len()),
        }
    }

    /// Sets `key`, an engine key, to a value of `value_len` bytes that stands where `external`
    /// says.
    pub(crate) fn push_external(
        &mut self,
        key: &[u8],
        expiry_ms: Option<u64>,
        external: &[u8; EXTERNAL_LEN],
        value_len: usize,
    ) {
        encode_op(&mut self.ops, Kind::External, expiry_ms, key, external);
        self.note_keyspace(KeyspaceId::of(key));
        self.sums.expiring += usize::from(expiry_ms.is_some());
        self.sums.len += 1;
        self.sums.externals += 1;
        self.sums.external_bytes += value_len;
    }

    /// The encoded operations.
    pub(crate) fn ops_bytes(&self) -> &[u8] {
        &self.ops
    }

    /// Cuts the last operation short, as no caller can.
    #[cfg(test)]
    pub(crate) fn damage(&mut self) {
        self.ops.pop();
    }

    /// The first limit that was violated.
    pub(crate) fn violation(&self) -> Option<&Error> {
        self.violation.as_ref()
    }

    /// The batch cannot be written, for this reason or an earlier one.
    pub(crate) fn refuse(&mut self, violation: Error) {
        self.violation.get_or_insert(violation);
    }

    /// The keyspaces of the operations, by their data ids, but the default one. Some may come
    /// again.
    pub(crate) fn keyspaces(&self) -> &[KeyspaceId] {
        &self.keyspaces
    }

    /// The database of the keyspaces, where it is known.
    pub(crate) fn owner(&self) -> Option<DatabaseId> {
        self.owner
    }

    /// The operations in keyspaces are for this database, and none but this.
    pub(crate) fn belong_to(&mut self, owner: DatabaseId) {
        if *self.owner.get_or_insert(owner) != owner {
            let what = "the batch has keys in keyspaces of several databases";
            self.refuse(Error::invalid(what, "write a batch for each database"));
        }
    }

    fn note_keyspace(&mut self, keyspace: KeyspaceId) {
        let is_noted = self.keyspaces.last() == Some(&keyspace);
        if keyspace != KeyspaceId::DEFAULT && !is_noted {
            self.keyspaces.push(keyspace);
        }
    }

    #[inline]
    fn push(
        &mut self,
        kind: Kind,
        keyspace: KeyspaceId,
        key: &[u8],
        value: &[u8],
        lifetime: Lifetime,
    ) -> &mut Batch {
        match check_limits(self.ops.len(), key.len(), value.len()) {
            Ok(op_len) => {
                self.ops.reserve(op_len);
                let prefix = keyspace.0.to_be_bytes();
                let expiry_ms = lifetime.encode();
                encode_op_in(&mut self.ops, kind, expiry_ms, &[&prefix, key], value);
                self.sums.expiring += usize::from(expiry_ms.is_some());
                self.sums.len += 1;
                self.sums.deletes += usize::from(kind == Kind::Delete);
                self.sums.longest_value = self.sums.longest_value.max(value.len());
                self.note_keyspace(keyspace);
            }
            Err(violation) => {
                self.violation.get_or_insert(violation);
            }
        }
        self
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("len", &self.sums.len)
            .field("byte_len", &self.byte_len())
            .field("violation", &self.violation)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::limits::MAX_BATCH_LEN;
    use super::*;
    use crate::base::keys::{MAX_USER_KEY_LEN, MAX_VALUE_LEN};
    use crate::error::ErrorKind;

    #[test]
    fn operations_survive_encoding_in_order() {
        let mut batch = Batch::new();
        assert!(batch.is_empty());
        batch.put("a", "1").delete(b"b\0c").put([], vec![0; 300]);
        batch.put_at(KeyspaceId(0x0102_0304), b"k", b"");
        let ops: Vec<_> = OpsIter::new(batch.ops_bytes())
            .map(Result::unwrap)
            .collect();
        let op = |kind, key, value| BatchOp {
            kind,
            key,
            value,
            expiry_ms: None,
        };
        assert_eq!(
            ops,
            [
                op(Kind::Put, b"\0\0\0\0a", b"1"),
                op(Kind::Delete, b"\0\0\0\0b\0c", b""),
                op(Kind::Put, b"\0\0\0\0", &[0; 300]),
                op(Kind::Put, b"\x01\x02\x03\x04k", b""),
            ]
        );
        assert_eq!(batch.len(), 4);
        assert_eq!(batch.byte_len(), 4 * (OP_HEADER_LEN + 4) + 2 + 3 + 300 + 1);
        batch.clear();
        assert_eq!((batch.len(), batch.byte_len()), (0, 0));
    }

    #[test]
    fn a_savepoint_brings_back_what_the_batch_was() {
        let mut batch = Batch::new();
        batch.put("a", "1").set_commit_tag("one").set_savepoint();
        let mut other = Batch::new();
        other
            .delete("b")
            .put("c", vec![7; 300])
            .set_commit_tag("two");
        batch.append(&other).set_savepoint();
        batch.delete(vec![1; MAX_USER_KEY_LEN + 1]);
        assert!(batch.violation().is_some());
        assert!(batch.rollback_to_savepoint() && batch.violation().is_none());
        let all = [
            Operation::Put {
                keyspace: 0,
                key: b"a",
                value: b"1",
                ttl: None,
            },
            Operation::Delete {
                keyspace: 0,
                key: b"b",
            },
            Operation::Put {
                keyspace: 0,
                key: b"c",
                value: &[7; 300],
                ttl: None,
            },
        ];
        assert_eq!(batch.iter().collect::<Vec<_>>(), all);
        assert_eq!((batch.len(), batch.deletes()), (3, 1));
        assert_eq!(
            (batch.longest_value(), batch.commit_tag()),
            (300, Some(&b"two"[..]))
        );
        assert!(batch.rollback_to_savepoint());
        assert_eq!(batch.iter().collect::<Vec<_>>(), all[..1]);
        assert_eq!(
            (batch.len(), batch.deletes(), batch.user_bytes()),
            (1, 0, 2)
        );
        assert_eq!(
            (batch.longest_value(), batch.commit_tag()),
            (1, Some(&b"one"[..]))
        );
        assert!(!batch.rollback_to_savepoint() && !batch.pop_savepoint());
        batch.set_savepoint().put("d", "4");
        assert!(batch.pop_savepoint());
        assert!(!batch.rollback_to_savepoint());
        assert_eq!(batch.len(), 2);
    }

    #[test]
    fn what_is_wrong_with_a_batch_is_wrong_with_what_it_is_appended_to() {
        let (mut batch, mut bad) = (Batch::new(), Batch::new());
        bad.put("k", "v").delete(vec![1; MAX_USER_KEY_LEN + 1]);
        batch.append(&bad);
        assert!(batch.violation().unwrap().to_string().contains("65537"));
    }

    #[test]
    fn a_batch_counts_values_that_stand_elsewhere() {
        let mut batch = Batch::new();
        batch.push_external(b"\0\0\0\0key", None, &[7; EXTERNAL_LEN], 1 << 20);
        let op = OpsIter::new(batch.ops_bytes()).next().unwrap().unwrap();
        assert_eq!((op.kind, op.key), (Kind::External, &b"\0\0\0\0key"[..]));
        assert_eq!(op.value, [7; EXTERNAL_LEN]);
        assert_eq!((batch.externals(), batch.user_bytes()), (1, 3 + (1 << 20)));
        batch.put("k", "v");
        assert_eq!(
            (batch.externals(), batch.len(), batch.user_bytes()),
            (1, 2, 5 + (1 << 20))
        );
        batch.clear();
        assert_eq!((batch.externals(), batch.user_bytes()), (0, 0));
    }

    #[test]
    fn a_violated_limit_is_remembered_and_encodes_nothing() {
        let mut batch = Batch::new();
        batch.put(vec![1; MAX_USER_KEY_LEN], "longest");
        assert!(batch.violation().is_none());
        let before = batch.byte_len();
        batch.delete(vec![1; MAX_USER_KEY_LEN + 1]);
        assert_eq!((batch.len(), batch.byte_len()), (1, before));
        let violation = batch.violation().unwrap();
        assert_eq!(violation.kind(), ErrorKind::InvalidArgument);
        assert!(violation.to_string().contains("65537"), "{violation}");
        batch.put("k", "v");
        assert!(batch.violation().unwrap().to_string().contains("65537"));
        let shown = format!("{batch:?}");
        assert!(
            shown.contains("len: 2") && shown.contains("65537"),
            "{shown}"
        );
        batch.clear();
        assert!(batch.violation().is_none());
    }

    #[test]
    fn values_and_batches_have_limits() {
        let full = MAX_BATCH_LEN - OP_HEADER_LEN - KEYSPACE_PREFIX_LEN;
        assert!(check_limits(0, 0, MAX_VALUE_LEN).is_ok());
        let err = check_limits(0, 0, MAX_VALUE_LEN + 1).unwrap_err();
        assert!(err.to_string().contains("value"), "{err}");
        assert!(check_limits(full, 0, 0).is_ok());
        let err = check_limits(full + 1, 0, 0).unwrap_err();
        assert!(err.to_string().contains("too large"), "{err}");
    }
}
