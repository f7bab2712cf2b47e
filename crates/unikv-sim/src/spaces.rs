//! How the oracle knows several keyspaces: as one content.
//!
//! A key of a keyspace other than the default one stands there behind a prefix that no key of a
//! history begins with, and the keyspace itself is a key: the prefix without its end. So making,
//! dropping and emptying keyspaces are writes like others, each with its place in the order.

use crate::oracle::{Change, State};
use crate::value::Bytes;
use crate::verify::{scan, scan_back};
use std::ops::Bound;
use unikv::{Db, ErrorKind, Iter, Keyspace};

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

/// Whether there is a keyspace of this name.
pub fn is_there(state: &State, name: &str) -> bool {
    state.contains_key(&presence(name))
}

/// What the default keyspace holds.
pub fn own(state: &State) -> State {
    let own = state.iter().filter(|(key, _)| is_own(key));
    own.map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// What a keyspace holds.
pub fn within(state: &State, name: &str) -> State {
    let prefix = prefix(name);
    let from = state.range::<[u8], _>((Bound::Included(&prefix[..]), Bound::Unbounded));
    let own = from.take_while(|(key, _)| key.starts_with(&prefix));
    own.map(|(key, value)| (key[prefix.len()..].to_vec(), value.clone()))
        .collect()
}

/// The changes that remove all that a keyspace holds.
pub fn emptied(state: &State, name: &str) -> Vec<Change> {
    let keys = within(state, name).into_keys();
    keys.map(|key| (key_in(name, &key), None)).collect()
}

/// The change that makes a keyspace or drops it.
pub fn present(name: &str, yes: bool) -> Change {
    (presence(name), yes.then(|| Bytes::from(Vec::new())))
}

/// All that a database holds, by scans from front to back.
///
/// # Errors
/// The first error of an iterator.
pub fn whole(db: &Db) -> unikv::Result<State> {
    gather(db, scan)
}

/// As [`whole`], from back to front.
///
/// # Errors
/// The first error of an iterator.
pub fn whole_back(db: &Db) -> unikv::Result<State> {
    gather(db, scan_back)
}

fn gather(db: &Db, scan: fn(Iter) -> unikv::Result<State>) -> unikv::Result<State> {
    let mut all = scan(db.iter())?;
    for name in db.keyspaces().iter().skip(1) {
        let Some(keyspace) = db.find_keyspace(name) else {
            continue;
        };
        let (key, value) = present(name, true);
        all.extend(value.map(|value| (key, value)));
        for (key, value) in scan(keyspace.iter())? {
            all.insert(key_in(name, &key), value);
        }
    }
    Ok(all)
}

/// The value of a key of the oracle.
///
/// # Errors
/// As `get`.
pub fn get(db: &Db, key: &[u8]) -> unikv::Result<Option<unikv::Bytes>> {
    if is_own(key) {
        return db.get(key);
    }
    let name = key
        .get(1..2)
        .and_then(|name| std::str::from_utf8(name).ok());
    let Some(keyspace) = db.find_keyspace(name.expect("a name")) else {
        return Ok(None);
    };
    match key.get(3..) {
        None => Ok(Some(unikv::Bytes::new())),
        Some(key) => keyspace.get(key),
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
