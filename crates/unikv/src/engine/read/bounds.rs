//! Engine keys, and ranges of them.

use crate::base::keys::{KEYSPACE_PREFIX_LEN, KeyspaceId};
use crate::version::keyspaces;
use std::ops::{
    Bound, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive,
};

/// A range of keys: `..`, `"a".."c"`, `"a"..="c"`, `"a"..`, `.."c"`, `..="c"`, or a pair of
/// [`Bound`]s, whose ends are anything that is bytes.
///
/// It takes the place of [`RangeBounds`], for which `db.range(..)` would have to say of which type
/// the ends are that `..` does not have. A range that ends before it starts has no keys.
pub trait KeyBounds {
    /// Where the range begins and ends.
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>);
}

impl KeyBounds for RangeFull {
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (Bound::Unbounded, Bound::Unbounded)
    }
}

macro_rules! ranges {
    ($($range:ty),* $(,)?) => {$(
        impl<K: AsRef<[u8]>> KeyBounds for $range {
            fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
                let start = RangeBounds::<K>::start_bound(self).map(AsRef::as_ref);
                (start, RangeBounds::<K>::end_bound(self).map(AsRef::as_ref))
            }
        }
    )*};
}

ranges!(
    Range<K>,
    RangeFrom<K>,
    RangeTo<K>,
    RangeInclusive<K>,
    RangeToInclusive<K>,
    (Bound<K>, Bound<K>),
);

/// The key below `db`: the keyspace id, big-endian, then the user's key.
pub(crate) fn engine_key(keyspace: KeyspaceId, key: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(KEYSPACE_PREFIX_LEN + key.len());
    out.extend_from_slice(&keyspace.0.to_be_bytes());
    out.extend_from_slice(key);
    out
}

/// What a range of user keys is in engine keys, of the keyspace with this data id: from the first
/// key to the first key after.
pub(crate) fn engine_bounds(keyspace: KeyspaceId, range: &impl KeyBounds) -> (Vec<u8>, Vec<u8>) {
    let at = |key: &[u8]| engine_key(keyspace, key);
    let after = |key: &[u8]| {
        let mut key = at(key);
        key.push(0);
        key
    };
    let (start, end) = range.bounds();
    let lower = match start {
        Bound::Included(key) => at(key),
        Bound::Excluded(key) => after(key),
        Bound::Unbounded => at(b""),
    };
    let upper = match end {
        Bound::Included(key) => after(key),
        Bound::Excluded(key) => at(key),
        Bound::Unbounded => keyspaces::border(KeyspaceId(keyspace.0.saturating_add(1))),
    };
    (lower, upper)
}

/// The engine keys that begin with a user prefix, in the keyspace with this data id.
pub(crate) fn prefix_bounds(keyspace: KeyspaceId, prefix: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let lower = engine_key(keyspace, prefix);
    let mut upper = lower.clone();
    // The next string after all that begin with the prefix; the keyspace id leaves room to count
    // up.
    while upper.last() == Some(&u8::MAX) {
        upper.pop();
    }
    if let Some(last) = upper.last_mut() {
        *last += 1;
    }
    (lower, upper)
}

/// Calls `with` with the engine key; short keys are put together without an allocation.
pub(crate) fn with_engine_key<T>(
    keyspace: KeyspaceId,
    key: &[u8],
    with: impl FnOnce(&[u8]) -> T,
) -> T {
    const SHORT: usize = 128;
    let len = KEYSPACE_PREFIX_LEN + key.len();
    if len > SHORT {
        return with(&engine_key(keyspace, key));
    }
    let mut buffer = [0; SHORT];
    buffer[..KEYSPACE_PREFIX_LEN].copy_from_slice(&keyspace.0.to_be_bytes());
    buffer[KEYSPACE_PREFIX_LEN..len].copy_from_slice(key);
    with(&buffer[..len])
}
