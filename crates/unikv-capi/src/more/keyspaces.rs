//! Keyspaces: ordered spaces of keys beside each other in one database.

use crate::boundary::args::{Alone, Bytes, Ending, New, Optional, Shared, Text, end};
use crate::boundary::capi;
use crate::boundary::fault::{Fault, Outcome};
use crate::boundary::handles::object;
use crate::boundary::memory::malloc_copy;
use crate::leveldb::batch::WriteBatch;
use crate::leveldb::database::Database;
use crate::leveldb::options::Options;
use crate::leveldb::reads_and_writes::{ReadOptions, WriteOptions, foreign};
use std::ffi::c_char;
use std::sync::Arc;
use unikv::KeyspaceOptions;

/// A keyspace, and which database it is of.
pub(crate) struct KeyspaceOf {
    keyspace: unikv::Keyspace,
    database: u64,
}

impl KeyspaceOf {
    /// The keyspace, if it is of this database.
    #[inline]
    pub(crate) fn of(&self, database: u64) -> Outcome<&unikv::Keyspace> {
        if self.database != database {
            return Err(foreign("the keyspace"));
        }
        Ok(&self.keyspace)
    }

    /// The keyspace, for a batch, which knows itself what it belongs to.
    pub(crate) fn of_any(&self) -> &unikv::Keyspace {
        &self.keyspace
    }
}

/// What C has of a keyspace. Options that name it keep it.
pub struct Keyspace(pub(crate) Arc<KeyspaceOf>);

object!(Keyspace, "unikv_keyspace_t", b"ukv:keys");

fn hand_out(keyspace: unikv::Keyspace, database: &Database) -> New<Keyspace> {
    let database = database.id;
    New::of(Keyspace(Arc::new(KeyspaceOf { keyspace, database })))
}

fn options_of_keyspace(options: Option<&Options>) -> Outcome<KeyspaceOptions> {
    let Some(options) = options else {
        return Ok(KeyspaceOptions::default());
    };
    match options.not_for_keyspaces {
        None => Ok(options.keyspace.clone()),
        Some(name) => Err(Fault::misuse(
            &format!("`{name}` is no option of a keyspace"),
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
        hand_out(db.db.keyspace(name.str()?, options)?, db)
    }

    /// The keyspace of this name; NULL if there is none, and on failure.
    fn unikv_keyspace_find(db: Shared<Database>, name: Text; errptr) -> New<Keyspace> {
        match db.db.find_keyspace(name.str()?) {
            Some(keyspace) => hand_out(keyspace, db),
            None => New::null(),
        }
    }

    /// Ends the handle. Options that name the keyspace go on.
    fn unikv_keyspace_close(keyspace: Ending<Keyspace>) {
        end(keyspace);
    }

    /// Gives it another name.
    fn unikv_keyspace_rename(keyspace: Shared<Keyspace>, name: Text; errptr) {
        keyspace.0.keyspace.rename(name.str()?)?;
    }

    /// Removes all its keys at once, however many they are.
    fn unikv_keyspace_truncate(keyspace: Shared<Keyspace>; errptr) {
        keyspace.0.keyspace.truncate()?;
    }

    /// Removes the keyspace with all its keys.
    fn unikv_keyspace_drop(keyspace: Shared<Keyspace>; errptr) {
        keyspace.0.keyspace.drop_keyspace()?;
    }

    /// The names of all keyspaces, as a JSON array of strings, to be freed.
    fn unikv_keyspaces_json(db: Shared<Database>; errptr) -> *mut c_char {
        malloc_copy(serde_json::json!(db.db.keyspaces()).to_string().as_bytes())?
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
        let (keyspace, ttl) = options.map_or((None, None), WriteOptions::of_batch);
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
        match options.and_then(|options| options.of_batch().0) {
            None => batch.0.delete(key),
            Some(keyspace) => batch.0.delete_in(keyspace, key),
        };
    }
}
