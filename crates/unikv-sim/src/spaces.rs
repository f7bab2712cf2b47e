//! How the oracle knows several keyspaces: as one content.
//!
//! A key of a keyspace other than the default one stands there behind a prefix that no key of a
//! history begins with, and the keyspace itself is a key: the prefix without its end. So making,
//! dropping and emptying keyspaces are writes like others, each with its place in the order. The
//! value of that key is how long values live in the keyspace by default.

use crate::oracle::{Change, State};
use crate::times::{as_ms, time_of};
use crate::value::Bytes;
use crate::verify::{scan, scan_back};
use std::ops::Bound;
use unikv::{Db, ErrorKind, Iter, Keyspace, Readable, Ttl};

/// No key of a history begins with it.
const PREFIX: u8 = 0xfe;
const END: u8 = b':';

/// The names that keyspaces have in histories, each of one character.
pub const NAMES: [&str; 3] = ["a", "b", "c"];

/// The key that says that there is a keyspace of this name.
pub fn presence(name: &str) -> Vec<u8> {
    let mut key = vec![PREFIX];
    key.extend_from_slice(name.as_bytes());
    key
}

/// What stands before the keys of a keyspace.
pub fn prefix(name: &str) -> Vec<u8> {
    let mut key = presence(name);
    key.push(END);
    key
}

/// A key of a keyspace.
pub fn key_in(name: &str, key: &[u8]) -> Vec<u8> {
    let mut whole = prefix(name);
    whole.extend_from_slice(key);
    whole
}

/// Whether it is a key of the default keyspace.
pub fn is_own(key: &[u8]) -> bool {
    key.first() != Some(&PREFIX)
}

/// Whether it says that there is a keyspace.
pub fn is_presence(key: &[u8]) -> bool {
    !is_own(key) && key.get(2) != Some(&END)
}

/// What stands before this key of the oracle and the others of its keyspace: nothing in the default
/// one.
pub fn prefix_of(key: &[u8]) -> &[u8] {
    if is_own(key) {
        &[]
    } else {
        key.get(..3).unwrap_or(key)
    }
}

/// The name of the keyspace of a key of the oracle; `None`: the default one.
pub fn name_of(key: &[u8]) -> Option<&str> {
    let name = key.get(1..2).filter(|_| !is_own(key))?;
    std::str::from_utf8(name).ok()
}

/// Whether there is a keyspace of this name.
pub fn is_there(state: &State, name: &str) -> bool {
    state.contains_key(&presence(name))
}

/// What the default keyspace holds at a time.
pub fn own(state: &State, time_ms: u64) -> State {
    let own = state.iter();
    let own = own.filter(|(key, value)| is_own(key) && value.is_there(time_ms));
    own.map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// What a keyspace holds at a time.
pub fn within(state: &State, name: &str, time_ms: u64) -> State {
    let prefix = prefix(name);
    let from = state.range::<[u8], _>((Bound::Included(&prefix[..]), Bound::Unbounded));
    let own = from.take_while(|(key, _)| key.starts_with(&prefix));
    let own = own.filter(|(_, value)| value.is_there(time_ms));
    own.map(|(key, value)| (key[prefix.len()..].to_vec(), value.clone()))
        .collect()
}

/// The changes that remove all that a keyspace holds.
pub fn emptied(state: &State, name: &str) -> Vec<Change> {
    let keys = within(state, name, 0).into_keys();
    keys.map(|key| (key_in(name, &key), None)).collect()
}

/// The change that makes a keyspace in which values live so long by default, or changes that.
pub fn present(name: &str, ttl_ms: Option<u64>) -> Change {
    (presence(name), Some(presence_value(ttl_ms)))
}

/// The change that drops a keyspace.
pub fn absent(name: &str) -> Change {
    (presence(name), None)
}

fn presence_value(ttl_ms: Option<u64>) -> Bytes {
    let ttl_ms = ttl_ms.map(u64::to_le_bytes);
    Bytes::from(ttl_ms.map_or(Vec::new(), Vec::from))
}

/// How long values live by default in a keyspace, as its options say.
///
/// # Errors
/// As `options`.
pub fn default_ttl(keyspace: &Keyspace) -> unikv::Result<Option<u64>> {
    Ok(keyspace.options()?.default_ttl.map(as_ms))
}

/// All that a database holds, by scans from front to back; with the expiry of each value, if these
/// are asked for.
///
/// # Errors
/// The first error of an iterator.
pub fn whole(db: &Db, with_expiries: bool) -> unikv::Result<State> {
    gather(db, scan, with_expiries)
}

/// As [`whole`], from back to front.
///
/// # Errors
/// The first error of an iterator.
pub fn whole_back(db: &Db) -> unikv::Result<State> {
    gather(db, scan_back, false)
}

fn gather(
    db: &Db,
    scan: fn(Iter) -> unikv::Result<State>,
    with_expiries: bool,
) -> unikv::Result<State> {
    let mut all = content_of(db, db, scan, with_expiries)?;
    for name in db.keyspaces().iter().skip(1) {
        let Some(keyspace) = db.find_keyspace(name) else {
            continue;
        };
        all.insert(presence(name), presence_value(default_ttl(&keyspace)?));
        for (key, value) in content_of(db, &keyspace, scan, with_expiries)? {
            all.insert(key_in(name, &key), value);
        }
    }
    Ok(all)
}

/// What the default keyspace or another one holds.
///
/// # Errors
/// The first error of an iterator or a read.
pub fn content_of(
    db: &Db,
    from: &impl Readable,
    scan: fn(Iter) -> unikv::Result<State>,
    with_expiries: bool,
) -> unikv::Result<State> {
    let mut found = scan(from.iter())?;
    if with_expiries {
        let time_ms = time_of(db);
        for (key, value) in &mut found {
            let ttl = from.ttl(key)?;
            value.expiry_ms = ttl.and_then(|ttl| expiry(ttl, time_ms));
        }
    }
    Ok(found)
}

/// When a value expires that has this left at a time.
pub fn expiry(ttl: Ttl, time_ms: u64) -> Option<u64> {
    match ttl {
        Ttl::Remaining(left) => Some(time_ms + as_ms(left)),
        _ => None,
    }
}

/// The keyspace of a key of the oracle that is not of the default one, and the key there; without
/// a key it says what the keyspace is. `None`: there is no such keyspace.
fn place_of<'k>(db: &Db, key: &'k [u8]) -> Option<(Keyspace, Option<&'k [u8]>)> {
    let name = key
        .get(1..2)
        .and_then(|name| std::str::from_utf8(name).ok());
    let keyspace = db.find_keyspace(name.expect("a name"))?;
    Some((keyspace, key.get(3..)))
}

/// The value of a key of the oracle.
///
/// # Errors
/// As `get`.
pub fn get(db: &Db, key: &[u8]) -> unikv::Result<Option<unikv::Bytes>> {
    if is_own(key) {
        return db.get(key);
    }
    let Some((keyspace, key)) = place_of(db, key) else {
        return Ok(None);
    };
    match key {
        None => {
            let value = presence_value(default_ttl(&keyspace)?);
            Ok(Some(unikv::Bytes::copy_from_slice(&value)))
        }
        Some(key) => keyspace.get(key),
    }
}

/// Some bytes of the value of a key of the oracle: as `get_range`. What a keyspace is has none.
///
/// # Errors
/// As `get_range`.
pub fn get_range(
    db: &Db,
    key: &[u8],
    range: std::ops::Range<usize>,
) -> unikv::Result<Option<unikv::Bytes>> {
    if is_own(key) {
        return db.get_range(key, range);
    }
    match place_of(db, key) {
        Some((keyspace, Some(key))) => keyspace.get_range(key, range),
        _ => Ok(None),
    }
}

/// The entries from one key of the oracle to another one of the same keyspace, both included;
/// `None`: there is no such keyspace.
pub fn range(db: &Db, first: &[u8], last: &[u8]) -> Option<Iter> {
    let prefix = prefix_of(first);
    assert_eq!(prefix, prefix_of(last), "keys of two keyspaces");
    let range = &first[prefix.len()..]..=&last[prefix.len()..];
    match name_of(first) {
        None => Some(db.range(range)),
        Some(name) => Some(db.find_keyspace(name)?.range(range)),
    }
}

/// How long the value of a key of the oracle lives: as `ttl`. What a keyspace is lives for ever.
///
/// # Errors
/// As `ttl`.
pub fn ttl(db: &Db, key: &[u8]) -> unikv::Result<Option<Ttl>> {
    if is_own(key) {
        return db.ttl(key);
    }
    let Some((keyspace, key)) = place_of(db, key) else {
        return Ok(None);
    };
    match key {
        None => Ok(Some(Ttl::Never)),
        Some(key) => keyspace.ttl(key),
    }
}

/// Whether a call fails because the keyspace is gone.
pub fn is_gone<T>(result: &unikv::Result<T>) -> bool {
    matches!(result, Err(error) if error.kind() == ErrorKind::NoSuchKeyspace)
}

/// A keyspace as it was at some moment.
#[derive(Clone, Debug)]
pub struct Held {
    /// Its handle.
    pub keyspace: Keyspace,
    /// Its name then.
    pub name: String,
    number: Option<u32>,
}

impl Held {
    /// All keyspaces as they are now.
    pub fn all(db: &Db) -> Vec<Held> {
        let names = NAMES.iter();
        names
            .filter_map(|name| {
                let keyspace = db.find_keyspace(name)?;
                Some(Held {
                    number: keyspace.number().ok(),
                    name: (*name).to_owned(),
                    keyspace,
                })
            })
            .collect()
    }

    /// Whether what it held then can be seen no more.
    pub fn is_gone(&self) -> bool {
        self.keyspace.number().ok() != self.number
    }
}
