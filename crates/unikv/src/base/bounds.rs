//! Engine keys, and ranges of them.

use crate::base::keys::{KEYSPACE_PREFIX_LEN, KeyspaceId, MAX_USER_KEY_LEN, border};
use std::ops::{
    Bound, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive,
};

/// A range of keys: `..`, `"a".."c"`, `"a"..="c"`, `"a"..`, `.."c"`, `..="c"`, or a pair of
/// [`Bound`]s, whose ends are anything that is bytes.
///
/// It takes the place of [`RangeBounds`], for which `db.range(..)` would have to say of which type
/// the ends are that `..` does not have. A range that ends before it starts has no keys. Types of
/// a program's own may implement it.
pub trait KeyBounds {
    /// Where the range begins and ends.
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>);
}

impl KeyBounds for RangeFull {
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (Bound::Unbounded, Bound::Unbounded)
    }
}

/// All keys that begin with some bytes, wherever a range of keys is taken.
///
/// ```
/// # let db = unikv::Db::in_memory(unikv::Options::default())?;
/// use unikv::Prefix;
///
/// db.put("user/1", "Ada")?;
/// db.put("user/2", "Bob")?;
/// db.put("visit/1", "Ada")?;
/// assert_eq!(db.keys(Prefix::new("user/")).count(), 2);
/// # unikv::Result::Ok(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix {
    start: Vec<u8>,
    /// The first key after; `None`: there is no greater one.
    end: Option<Vec<u8>>,
}

impl Prefix {
    /// The keys that begin with `prefix`.
    pub fn new(prefix: impl AsRef<[u8]>) -> Prefix {
        let start = prefix.as_ref().to_vec();
        let end = after_all_with(&start, 0);
        Prefix { start, end }
    }
}

impl KeyBounds for Prefix {
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        let end = self.end.as_deref();
        let end = end.map_or(Bound::Unbounded, Bound::Excluded);
        (Bound::Included(&self.start), end)
    }
}

impl<T: KeyBounds + ?Sized> KeyBounds for &T {
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (*self).bounds()
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
pub(crate) fn engine_bounds(keyspace: KeyspaceId, range: &dyn KeyBounds) -> (Vec<u8>, Vec<u8>) {
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
        Bound::Unbounded => border(KeyspaceId(keyspace.0.saturating_add(1))),
    };
    (lower, upper)
}

/// The engine keys that begin with a user prefix, in the keyspace with this data id.
pub(crate) fn prefix_bounds(keyspace: KeyspaceId, prefix: &[u8]) -> (Vec<u8>, Vec<u8>) {
    prefix_bounds_of(engine_key(keyspace, prefix))
}

/// As [`prefix_bounds`], with the prefix as an engine key.
pub(crate) fn prefix_bounds_of(lower: Vec<u8>) -> (Vec<u8>, Vec<u8>) {
    let upper = after_all_with(&lower, KEYSPACE_PREFIX_LEN).unwrap_or_else(|| {
        let keyspace = KeyspaceId::of(&lower).0;
        border(KeyspaceId(keyspace.saturating_add(1)))
    });
    (lower, upper)
}

/// The next string after all that begin with `prefix`, among those with the same first `kept`
/// bytes; `None`: there is none.
fn after_all_with(prefix: &[u8], kept: usize) -> Option<Vec<u8>> {
    let mut after = prefix.to_vec();
    while after.len() > kept && after.last() == Some(&u8::MAX) {
        after.pop();
    }
    if after.len() <= kept {
        return None;
    }
    *after.last_mut()? += 1;
    Some(after)
}

/// Whether these bound a range of keys of one keyspace: its first key and the first key after it,
/// as a range delete says them.
pub(crate) fn are_of_a_range(start: &[u8], end: &[u8]) -> bool {
    let is_key = |key: &[u8]| {
        let user_len = key.len().checked_sub(KEYSPACE_PREFIX_LEN);
        user_len.is_some_and(|len| len <= MAX_USER_KEY_LEN)
    };
    let (first, last) = (KeyspaceId::of(start).0, KeyspaceId::of(end).0);
    // The first key after the last of a keyspace is the border of the next one.
    let is_border = end.len() == KEYSPACE_PREFIX_LEN && first.checked_add(1) == Some(last);
    is_key(start) && is_key(end) && start < end && (first == last || is_border)
}

/// Calls `with` with the engine key; short keys are put together without an allocation.
#[inline(always)]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_a_prefix_end_within_their_keyspace_or_at_its_border() {
        for keyspace in [0, 1, 254, 255, 256, 0xffff, 0x00ff_ffff] {
            let keyspace = KeyspaceId(keyspace);
            for prefix in [&b""[..], b"a", b"a\xff", b"\xff", b"\xff\xff\xff"] {
                let (start, end) = prefix_bounds(keyspace, prefix);
                assert!(are_of_a_range(&start, &end), "{keyspace:?} {prefix:?}");
                let last = engine_key(keyspace, &[prefix, &[0xff; 9]].concat());
                assert!(last < end, "{keyspace:?} {prefix:?}");
            }
        }
    }

    #[test]
    fn bounds_of_no_range_are_refused() {
        let key = |id: u32, key: &[u8]| engine_key(KeyspaceId(id), key);
        assert!(are_of_a_range(&key(1, b"a"), &key(1, b"b")));
        assert!(are_of_a_range(&key(1, b"a"), &key(2, b"")));
        for (start, end) in [
            (key(1, b"b"), key(1, b"a")),
            (key(1, b"a"), key(1, b"a")),
            (key(1, b"a"), key(2, b"a")),
            (key(1, b"a"), key(3, b"")),
            (key(2, b"a"), key(1, b"b")),
            (key(1, b"a"), vec![0, 0, 2]),
            (vec![0, 0], key(1, b"a")),
            (key(1, b"a"), key(1, &vec![b'b'; MAX_USER_KEY_LEN + 1])),
            (key(u32::MAX, b"a"), key(0, b"")),
        ] {
            assert!(!are_of_a_range(&start, &end), "{start:?} {end:?}");
        }
    }
}
