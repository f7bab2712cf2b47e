//! Keyspaces: ordered spaces of keys beside each other in one database.

use crate::boundary::args::{
    Alone, Array, ArrayOut, Bytes, Ending, New, Optional, Shared, Text, end, objects, texts,
};
use crate::boundary::capi;
use crate::boundary::fault::{Fault, Kind, Outcome};
use crate::boundary::handles::{Cell, object, place};
use crate::boundary::memory::malloc_copy;
use crate::leveldb::batch::WriteBatch;
use crate::leveldb::database::{Database, is_followed};
use crate::leveldb::options::Options;
use crate::leveldb::reads_and_writes::{ReadOptions, Source, WriteOptions, foreign};
use std::ffi::c_char;
use std::sync::Arc;
use unikv::KeyspaceOptions;

/// A keyspace, and which database it is of.
pub(crate) struct KeyspaceOf {
    named: Named,
    database: u64,
}

enum Named {
    Written(unikv::Keyspace),
    /// In the state of a secondary that is shown when it is read.
    Followed(unikv::Secondary, String),
}

impl KeyspaceOf {
    /// The keyspace, to be written, if it is of this database.
    #[inline]
    pub(crate) fn of(&self, database: u64) -> Outcome<&unikv::Keyspace> {
        self.check(database)?;
        self.written()
    }

    /// The keyspace, to be written.
    pub(crate) fn written(&self) -> Outcome<&unikv::Keyspace> {
        match &self.named {
            Named::Written(keyspace) => Ok(keyspace),
            Named::Followed(..) => Err(is_followed()),
        }
    }

    /// The keyspace, to be read as it is now, if it is of this database.
    #[inline]
    pub(crate) fn source(&self, database: &Database) -> Outcome<Source<'_>> {
        self.check(database.id)?;
        match &self.named {
            Named::Written(keyspace) => Ok(Source::Keyspace(keyspace)),
            Named::Followed(secondary, name) => {
                let shown = secondary.find_keyspace(name).ok_or_else(|| is_gone(name))?;
                Ok(Source::Snapshot(shown))
            }
        }
    }

    /// The keyspace at the moment of a snapshot of its database.
    pub(crate) fn at(&self, snapshot: &unikv::Snapshot) -> Outcome<unikv::Snapshot> {
        match &self.named {
            Named::Written(keyspace) => Ok(snapshot.keyspace(keyspace)),
            Named::Followed(_, name) => snapshot.find_keyspace(name).ok_or_else(|| is_gone(name)),
        }
    }

    fn check(&self, database: u64) -> Outcome<()> {
        if self.database == database {
            Ok(())
        } else {
            Err(foreign("the keyspace"))
        }
    }
}

#[cold]
fn is_gone(name: &str) -> Fault {
    let what = format!("the database has no keyspace {name:?} any more");
    Fault::new(Kind::NoSuchKeyspace, &what, "close the handle")
}

/// What C has of a keyspace. Options that name it keep it.
pub struct Keyspace(pub(crate) Arc<KeyspaceOf>);

object!(Keyspace, "unikv_keyspace_t", b"ukv:keys");

fn handle(named: Named, database: &Database) -> Keyspace {
    let database = database.id;
    Keyspace(Arc::new(KeyspaceOf { named, database }))
}

/// The keyspace of this name, if there is one.
fn find(database: &Database, name: &str) -> Option<Named> {
    match database.source() {
        Source::Secondary(secondary) => {
            let is_there = secondary.find_keyspace(name).is_some();
            is_there.then(|| Named::Followed(secondary.clone(), name.to_owned()))
        }
        _ => database.db().ok()?.find_keyspace(name).map(Named::Written),
    }
}

fn options_of_keyspace(options: Option<&Options>) -> Outcome<KeyspaceOptions> {
    let Some(options) = options else {
        return Ok(KeyspaceOptions::default());
    };
    match options.not_for_keyspaces {
        None => Ok(options.keyspace.clone()),
        Some(name) => Err(Fault::misuse(
            &format!("`{name}` is not for a keyspace"),
            "set `inline_value_bytes`, `compression` and `default_ttl` alone",
        )),
    }
}

capi! { functions:
    /// The keyspace of this name, which is made if there is none; `default` is that of calls whose
    /// options name none. What is set in the options by name holds from now on:
    /// `inline_value_bytes`, `compression`, `default_ttl`. NULL on failure.
    fn unikv_keyspace_open(
        db: Shared<Database>, name: Text, options: Optional<Options>; errptr
    ) -> New<Keyspace> {
        let options = options_of_keyspace(options)?;
        New::of(handle(Named::Written(db.db()?.keyspace(name.str()?, options)?), db))
    }

    /// The keyspaces of `count` names into `keyspaces`, as `unikv_keyspace_open` gives one. Those
    /// that are not there are made, all at once: a power cut leaves all or none, and ten thousand
    /// take about as long as ten. On failure NULL is in each place.
    fn unikv_create_keyspaces(
        db: Shared<Database>, options: Optional<Options>, count: usize,
        names: Array<*const c_char>, keyspaces: ArrayOut<*mut Cell<Keyspace>>; errptr
    ) {
        keyspaces.write(std::iter::repeat_n(std::ptr::null_mut(), count))?;
        let (names, options) = (texts(count, &names)?, options_of_keyspace(options)?);
        let all = db.db()?.create_keyspaces(names, options)?;
        let handles = all.into_iter().map(|keyspace| place(handle(Named::Written(keyspace), db)));
        keyspaces.write(handles)?;
    }

    /// Removes `count` keyspaces with all their keys, all at once: a power cut leaves all or none.
    /// The handles are still to be closed.
    fn unikv_drop_keyspaces(
        db: Shared<Database>, count: usize, keyspaces: Array<*const Cell<Keyspace>>; errptr
    ) {
        let keyspaces = objects(count, &keyspaces)?.into_iter();
        let keyspaces = keyspaces.map(|keyspace| keyspace.0.of(db.id));
        db.db()?.drop_keyspaces(keyspaces.collect::<Outcome<Vec<_>>>()?)?;
    }

    /// The keyspace of this name; NULL if there is none, and on failure.
    fn unikv_keyspace_find(db: Shared<Database>, name: Text; errptr) -> New<Keyspace> {
        match find(db, name.str()?) {
            Some(keyspace) => New::of(handle(keyspace, db)),
            None => New::null(),
        }
    }

    /// Its number, by which changes and the operations of batches name it; 0 is the default one.
    fn unikv_keyspace_number(keyspace: Shared<Keyspace>) -> u32 {
        keyspace.0.written()?.number()?
    }

    /// Ends the handle. Options that name the keyspace go on.
    fn unikv_keyspace_close(keyspace: Ending<Keyspace>) {
        end(keyspace);
    }

    /// Gives it another name.
    fn unikv_keyspace_rename(keyspace: Shared<Keyspace>, name: Text; errptr) {
        keyspace.0.written()?.rename(name.str()?)?;
    }

    /// Removes all its keys at once, however many they are.
    fn unikv_keyspace_truncate(keyspace: Shared<Keyspace>; errptr) {
        keyspace.0.written()?.truncate()?;
    }

    /// Removes the keyspace with all its keys.
    fn unikv_keyspace_drop(keyspace: Shared<Keyspace>; errptr) {
        keyspace.0.written()?.drop_keyspace()?;
    }

    /// The names of all keyspaces, as a JSON array of strings, to be freed.
    fn unikv_keyspaces_json(db: Shared<Database>; errptr) -> *mut c_char {
        let names = match db.source() {
            Source::Secondary(secondary) => secondary.keyspaces(),
            _ => db.db()?.keyspaces(),
        };
        malloc_copy(serde_json::json!(names).to_string().as_bytes())?
    }

    /// Has reads be of a keyspace; NULL stands for the default one.
    fn unikv_readoptions_set_keyspace(
        options: Alone<ReadOptions>, keyspace: Optional<Keyspace>
    ) {
        options.set_keyspace(keyspace.map(|keyspace| Arc::clone(&keyspace.0)));
    }

    /// Has writes go to a keyspace; NULL stands for the default one.
    fn unikv_writeoptions_set_keyspace(
        options: Alone<WriteOptions>, keyspace: Optional<Keyspace>
    ) {
        options.set_keyspace(keyspace.map(|keyspace| Arc::clone(&keyspace.0)));
    }

    /// Adds a put to a batch, in the keyspace and with the time to live of the options.
    fn unikv_writebatch_put_with(
        batch: Alone<WriteBatch>, options: Optional<WriteOptions>,
        key[keylen]: Bytes, val[vallen]: Bytes
    ) {
        let of_batch = options.map(WriteOptions::of_batch).transpose()?;
        let (keyspace, ttl) = of_batch.unwrap_or_default();
        match (keyspace, ttl) {
            (None, None) => batch.0.put(key, val),
            (None, Some(ttl)) => batch.0.put_with_ttl(key, val, ttl),
            (Some(keyspace), None) => batch.0.put_in(keyspace, key, val),
            (Some(keyspace), Some(ttl)) => batch.0.put_with_ttl_in(keyspace, key, val, ttl),
        };
    }

    /// Adds a delete to a batch, in the keyspace of the options.
    fn unikv_writebatch_delete_with(
        batch: Alone<WriteBatch>, options: Optional<WriteOptions>, key[keylen]: Bytes
    ) {
        match options.map(WriteOptions::of_batch).transpose()?.unwrap_or_default().0 {
            None => batch.0.delete(key),
            Some(keyspace) => batch.0.delete_in(keyspace, key),
        };
    }
}
