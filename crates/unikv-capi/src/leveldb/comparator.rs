//! Comparators of the program's own.
//!
//! The order of keys is bytewise here, and nothing else. A comparator that comes to the same is
//! accepted: at opening it is asked for the order of all pairs of fixed keys. Its name is stored in
//! the database, in a keyspace that only databases with such a name have, and an opening with
//! another name is refused.

use crate::boundary::args::{Compare, Destructor, Ending, Name, New, end};
use crate::boundary::capi;
use crate::boundary::fault::{Fault, Kind, Outcome};
use crate::boundary::handles::object;
use std::cmp::Ordering;
use std::ffi::{CStr, c_void};
use std::sync::{Arc, Weak};
use unikv::{Db, Durability, KeyspaceOptions};

/// The keyspace with the name of the comparator, and the key in it.
const KEYSPACE: &str = "leveldb.comparator";
const KEY: &str = "name";
/// The name of the order that LevelDB has by default.
const BYTEWISE: &[u8] = b"leveldb.BytewiseComparator";
/// A name is cut to this many bytes.
const LONGEST_NAME: usize = 1024;

/// What the program has given for a comparator.
pub(crate) struct Given {
    state: *mut c_void,
    destructor: Option<Destructor>,
    compare: Compare,
    name: Name,
}

#[expect(unsafe_code, reason = "the state is the program's")]
// SAFETY: the state is only passed on to the functions that came with it, and the header says that
// they may be called by any thread that opens a database.
unsafe impl Send for Given {}
#[expect(unsafe_code, reason = "the state is the program's")]
// SAFETY: as for `Send`.
unsafe impl Sync for Given {}

impl Drop for Given {
    fn drop(&mut self) {
        if let Some(destructor) = self.destructor {
            destructor.call(self.state);
        }
    }
}

/// What C has of a comparator. Options do not keep it.
pub struct Comparator(pub(crate) Arc<Given>);

object!(Comparator, "unikv_comparator_t", b"ukv:comp");

/// The bytes of a name that a program's function returns.
#[expect(unsafe_code, reason = "reads a string of the program's")]
pub(crate) fn read_name(name: Name, state: *mut c_void) -> Outcome<Vec<u8>> {
    let name = name.call(state);
    if name.is_null() {
        return Err(Fault::misuse("the comparator has no name", "return one"));
    }
    // SAFETY: it is not null, and the header says that it ends with a NUL.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    Ok(name.iter().copied().take(LONGEST_NAME).collect())
}

/// The name of the comparator of options, if it has one and orders as we do.
pub(crate) fn accepted(comparator: Option<&Weak<Given>>) -> Outcome<Option<Vec<u8>>> {
    let Some(comparator) = comparator else {
        return Ok(None);
    };
    let destroyed = || {
        let what = "the comparator of the options has been destroyed";
        Fault::misuse(what, "destroy it after the last opening with them")
    };
    let given = comparator.upgrade().ok_or_else(destroyed)?;
    let name = read_name(given.name, given.state)?;
    let keys = probes();
    for a in &keys {
        for b in &keys {
            let (at, with) = (a.as_ptr().cast(), b.as_ptr().cast());
            let order = given
                .compare
                .call(given.state, at, a.len(), with, b.len())
                .cmp(&0);
            if order != a.cmp(b) {
                return Err(other_order(&name, a, b, order));
            }
        }
    }
    Ok(Some(name))
}

#[cold]
fn other_order(name: &[u8], a: &[u8], b: &[u8], order: Ordering) -> Fault {
    let says = match order {
        Ordering::Less => "before",
        Ordering::Equal => "equal to",
        Ordering::Greater => "after",
    };
    let name = String::from_utf8_lossy(name);
    let what = format!(
        "the comparator `{name}` does not order keys bytewise: for it \"{}\" is {says} \"{}\"",
        a.escape_ascii(),
        b.escape_ascii()
    );
    let remedy = "keys are ordered by their bytes: store keys whose bytes have the order that you \
                  need, such as big-endian numbers, and use no comparator";
    Fault::new(Kind::InvalidArgument, &what, remedy)
}

/// Keys whose order differs from the bytewise one in what programs usually order by: numbers of
/// either byte order, signed bytes, letters of either case, digits, lengths, from the back.
fn probes() -> Vec<Vec<u8>> {
    let texts = [
        "",
        "\0",
        "\0\0",
        "\0a",
        "a",
        "aa",
        "aaa",
        "ab",
        "b",
        "ba",
        "A",
        "B",
        "Z",
        "z",
        "9",
        "10",
        "2",
        "100",
        "-1",
        "-2",
        "+1",
        "0.5",
        ".5",
        " ",
        " a",
        "a ",
        "key1",
        "key10",
        "key2",
        "Key1",
        "user:7",
        "user/7",
        "ä",
        "z\u{e9}",
        "ze\u{301}",
        "Straße",
        "\u{ffff}",
        "\u{10000}",
    ];
    let mut keys: Vec<Vec<u8>> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    keys.extend([
        vec![0x7f],
        vec![0x80],
        vec![0xff],
        vec![0xff, 0xff],
        vec![0xff, 0],
    ]);
    for number in [1u64, 2, 255, 256, 257, 1 << 31, 1 << 63, u64::MAX] {
        keys.extend([number.to_be_bytes().to_vec(), number.to_le_bytes().to_vec()]);
        let half = number as u32;
        keys.extend([half.to_be_bytes().to_vec(), half.to_le_bytes().to_vec()]);
    }
    let long = |last: u8| [vec![b'x'; 300], vec![last]].concat();
    keys.extend([long(b'a'), long(b'b'), vec![b'x'; 300], vec![b'x'; 301]]);
    keys
}

/// Compares the name with the stored one, and stores it in a database that has nothing yet.
pub(crate) fn agree(db: &Db, name: Option<&[u8]>) -> Outcome<()> {
    let name = name.unwrap_or(BYTEWISE);
    let keyspace = db.find_keyspace(KEYSPACE);
    let stored = match &keyspace {
        Some(keyspace) => keyspace.get(KEY)?,
        None => None,
    };
    match stored.as_deref() {
        Some(stored) if stored == name => Ok(()),
        Some(stored) => Err(other_name(stored, name)),
        // Where no name is stored, the order is the usual one.
        None if name == BYTEWISE => Ok(()),
        None if is_empty(db)? => {
            let keyspace = db.keyspace(KEYSPACE, KeyspaceOptions::default())?;
            keyspace.put_with(KEY, name, Durability::Sync)?;
            Ok(())
        }
        None => Err(other_name(BYTEWISE, name)),
    }
}

/// Whether nothing is in the database: no key, and no other keyspace than that of the name.
fn is_empty(db: &Db) -> Outcome<bool> {
    let others = db
        .keyspaces()
        .into_iter()
        .filter(|name| name != KEYSPACE)
        .count();
    Ok(others <= 1 && db.keys(..).next().transpose()?.is_none())
}

#[cold]
fn other_name(stored: &[u8], name: &[u8]) -> Fault {
    let what = format!(
        "the database was made with the comparator `{}`, not `{}`",
        String::from_utf8_lossy(stored),
        String::from_utf8_lossy(name)
    );
    Fault::misuse(&what, "open it with a comparator of that name")
}

capi! { functions:
    /// A comparator. A database opens with it if it orders bytes as `memcmp` does, and a shorter
    /// key before a longer one that begins with it: fixed pairs of keys of all lengths are compared
    /// at each opening. Its name is stored, and must be the same at the next opening. The functions
    /// may be called by any thread, and must not throw.
    fn unikv_comparator_create(
        state: *mut c_void, destructor: Option<Destructor>,
        compare: Option<Compare>, name: Option<Name>
    ) -> New<Comparator> {
        let missing = || Fault::misuse("null was passed for a function of a comparator", "pass one");
        New::of(Comparator(Arc::new(Given {
            state,
            destructor,
            compare: compare.ok_or_else(missing)?,
            name: name.ok_or_else(missing)?,
        })))
    }

    /// Calls the destructor with the state. Databases that are open do not need it.
    fn unikv_comparator_destroy(comparator: Ending<Comparator>) {
        end(comparator);
    }
}
