//! Identifiers and the order of keys.
//!
//! Below `db` a *key* is the keyspace id as four big-endian bytes followed by the user's key, so
//! one `memcmp` orders everything in the store. Versions of one key are ordered newest first: the
//! *internal order* is (key ascending, sequence number descending).

use std::cmp::Ordering;

/// Bytes of the keyspace id before every key below the `db` layer.
pub(crate) const KEYSPACE_PREFIX_LEN: usize = 4;

/// The longest user key, in bytes.
pub(crate) const MAX_USER_KEY_LEN: usize = 64 << 10;

/// The longest value, in bytes.
pub(crate) const MAX_VALUE_LEN: usize = 1 << 30;

/// What an external value leaves behind: where it stands.
pub(crate) const EXTERNAL_LEN: usize = 40;

/// Numbers of files, partitions and the like are less than this, so there is always a next one.
pub(crate) const MOST_NUMBERS: u64 = 1 << 62;

/// A 56-bit sequence number: the position of a write in the one write order of the database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SeqNo(pub(crate) u64);

impl SeqNo {
    /// The largest sequence number that fits beside the kind in eight bytes.
    pub(crate) const MAX: SeqNo = SeqNo((1 << 56) - 1);
}

/// What a record says about its key. The numbers are in the files and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum Kind {
    /// The key has this value.
    Put = 1,
    /// The key has no value (a tombstone).
    Delete = 2,
    /// All keys from this key to before the key in the value have no older value: a range
    /// tombstone.
    RangeDelete = 3,
    /// An operand to combine with the older value. Reserved.
    Merge = 4,
    /// The key has the value that stands elsewhere, in a record file of its own; what stands here
    /// is [`EXTERNAL_LEN`] bytes that say where.
    External = 5,
}

impl Kind {
    /// Decodes the byte of a file; `None` for a kind this version does not know.
    pub(crate) fn from_byte(byte: u8) -> Option<Kind> {
        Some(match byte {
            1 => Kind::Put,
            2 => Kind::Delete,
            3 => Kind::RangeDelete,
            4 => Kind::Merge,
            5 => Kind::External,
            _ => return None,
        })
    }
}

/// Packs a sequence number and a kind into the eight bytes that the files carry.
pub(crate) fn pack_seq_kind(seq: SeqNo, kind: Kind) -> u64 {
    debug_assert!(seq <= SeqNo::MAX);
    (seq.0 << 8) | kind as u64
}

/// Undoes [`pack_seq_kind`]; `None` for an unknown kind.
pub(crate) fn unpack_seq_kind(packed: u64) -> Option<(SeqNo, Kind)> {
    Some((SeqNo(packed >> 8), Kind::from_byte(packed as u8)?))
}

/// The internal order: key ascending, then newest (highest sequence number) first.
pub(crate) fn internal_cmp(a: (&[u8], SeqNo), b: (&[u8], SeqNo)) -> Ordering {
    a.0.cmp(b.0).then_with(|| b.1.cmp(&a.1))
}

/// The number in a file's name. Never reused within a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FileNumber(pub(crate) u64);

/// A random number drawn for each file, bound into each of its checksums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct FileUid(pub(crate) u64);

/// A partition's id. Never reused within a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PartitionId(pub(crate) u64);

/// A generation of an UnsortedStore. Ascending and never reused within a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct GenerationId(pub(crate) u64);

/// A table's place in its generation. Ascending in flush order; the higher slot is the newer table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Slot(pub(crate) u16);

/// A keyspace's id. Never reused within a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct KeyspaceId(pub(crate) u32);

impl KeyspaceId {
    /// The keyspace of the calls that name none.
    pub(crate) const DEFAULT: KeyspaceId = KeyspaceId(0);

    /// The id that an engine key begins with. Only borders of partitions may be shorter.
    pub(crate) fn of(engine_key: &[u8]) -> KeyspaceId {
        if let Some(id) = engine_key.first_chunk() {
            return KeyspaceId(u32::from_be_bytes(*id));
        }
        let mut id = [0; KEYSPACE_PREFIX_LEN];
        for (to, from) in id.iter_mut().zip(engine_key) {
            *to = *from;
        }
        KeyspaceId(u32::from_be_bytes(id))
    }
}

/// The first key of a keyspace, or the first one after the keyspace before.
pub(crate) fn border(id: KeyspaceId) -> Vec<u8> {
    id.0.to_be_bytes().to_vec()
}

/// The random id of a database, in the header of each of its files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct DatabaseId(pub(crate) [u8; 16]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_versions_of_a_key_sort_first() {
        let newer = (&b"a"[..], SeqNo(9));
        let older = (&b"a"[..], SeqNo(3));
        assert_eq!(internal_cmp(newer, older), Ordering::Less);
        assert_eq!(internal_cmp((b"b", SeqNo(9)), older), Ordering::Greater);
    }

    #[test]
    fn sequence_and_kind_survive_packing() {
        for kind in [
            Kind::Put,
            Kind::Delete,
            Kind::RangeDelete,
            Kind::Merge,
            Kind::External,
        ] {
            assert_eq!(
                unpack_seq_kind(pack_seq_kind(SeqNo::MAX, kind)),
                Some((SeqNo::MAX, kind))
            );
        }
        assert_eq!(unpack_seq_kind(6), None);
    }
}
