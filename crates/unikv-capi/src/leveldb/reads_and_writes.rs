//! The options of reads and of writes, and what they mean.

use super::database::{Database, Snapshot, SnapshotOf, range};
use crate::boundary::args::{Alone, Ending, New, Optional, end};
use crate::boundary::capi;
use crate::boundary::fault::{Fault, Outcome};
use crate::boundary::handles::object;
use crate::more::keyspaces::KeyspaceOf;
use std::sync::{Arc, Weak};
use std::time::Duration;
use unikv::{Db, Durability, Keyspace, Secondary};

/// How reads are done.
#[derive(Default)]
pub struct ReadOptions {
    /// Does not keep the snapshot: reading after its release is an error.
    snapshot: Option<Weak<SnapshotOf>>,
    keyspace: Option<Arc<KeyspaceOf>>,
    pub(crate) lower: Option<Vec<u8>>,
    pub(crate) upper: Option<Vec<u8>>,
    /// Whether iterators leave values where they are until they are asked for.
    pub(crate) values_on_demand: bool,
    /// Whether the cache keeps nothing of what is read.
    leaves_cache: bool,
    pub(crate) timeout: Option<Duration>,
    pub(crate) read_ahead: Option<usize>,
}

object!(ReadOptions, "unikv_readoptions_t", b"ukv:read");

/// What a read reads from.
pub(crate) enum Source<'a> {
    Database(&'a Db),
    Secondary(&'a Secondary),
    Keyspace(&'a Keyspace),
    Snapshot(unikv::Snapshot),
}

/// Reads from a [`Source`], whatever it is.
macro_rules! read {
    ($source:expr, $from:ident, $read:expr) => {
        match $source {
            $crate::leveldb::reads_and_writes::Source::Database($from) => $read,
            $crate::leveldb::reads_and_writes::Source::Secondary($from) => $read,
            $crate::leveldb::reads_and_writes::Source::Keyspace($from) => $read,
            $crate::leveldb::reads_and_writes::Source::Snapshot($from) => $read,
        }
    };
}
pub(crate) use read;

/// A keyspace that is named, which must be of this database.
fn keyspace_in(keyspace: Option<&Arc<KeyspaceOf>>, database: u64) -> Outcome<Option<&Keyspace>> {
    keyspace.map(|keyspace| keyspace.of(database)).transpose()
}

impl ReadOptions {
    /// Whether a get is of the default keyspace as it is now, as usual.
    #[inline]
    fn is_plain(&self) -> bool {
        let is_usual = !self.leaves_cache && self.timeout.is_none();
        is_usual && self.snapshot.is_none() && self.keyspace.is_none()
    }

    /// As the engine has it, for everything within the bounds; cursors keep to these by themselves.
    pub(crate) fn engine(&self) -> unikv::ReadOptions {
        let options = unikv::ReadOptions::default().fill_cache(!self.leaves_cache);
        let options = match self.timeout {
            Some(timeout) => options.timeout(timeout),
            None => options,
        };
        match self.read_ahead {
            Some(entries) => options.read_ahead(entries),
            None => options,
        }
    }

    /// The same, for the keys between the bounds.
    pub(crate) fn within_bounds(&self) -> unikv::ReadOptions {
        let bounds = range(self.lower.as_deref(), self.upper.as_deref());
        self.engine().range(bounds)
    }

    pub(crate) fn has_snapshot(&self) -> bool {
        self.snapshot.is_some()
    }

    pub(crate) fn set_keyspace(&mut self, keyspace: Option<Arc<KeyspaceOf>>) {
        self.keyspace = keyspace;
    }

    /// The keyspace, if one is named; it must be of this database.
    pub(crate) fn keyspace_of(&self, database: u64) -> Outcome<Option<&Keyspace>> {
        keyspace_in(self.keyspace.as_ref(), database)
    }

    pub(crate) fn keyspace(&self, database: &Database) -> Outcome<Option<&Keyspace>> {
        self.keyspace_of(database.id)
    }

    pub(crate) fn source<'a>(&'a self, database: &'a Database) -> Outcome<Source<'a>> {
        let named = self.keyspace.as_ref();
        let named = named
            .map(|keyspace| keyspace.source(database))
            .transpose()?;
        let Some(snapshot) = &self.snapshot else {
            return Ok(named.unwrap_or_else(|| database.source()));
        };
        let released = || Fault::misuse("the snapshot has been released", "take another one");
        let snapshot = snapshot.upgrade().ok_or_else(released)?;
        if snapshot.database != database.id {
            return Err(foreign("the snapshot"));
        }
        let snapshot = &snapshot.snapshot;
        Ok(Source::Snapshot(match &self.keyspace {
            Some(keyspace) => keyspace.at(snapshot)?,
            None => snapshot.clone(),
        }))
    }
}

/// The value of a key.
#[inline]
pub(crate) fn get(
    database: &Database,
    options: Option<&ReadOptions>,
    key: &[u8],
) -> Outcome<Option<unikv::Bytes>> {
    Ok(match options.filter(|options| !options.is_plain()) {
        None => read!(database.source(), from, from.get(key)?),
        Some(options) => {
            let reading = options.engine();
            read!(
                options.source(database)?,
                from,
                from.get_with(key, &reading)?
            )
        }
    })
}

/// What the call names is another database's.
#[cold]
pub(crate) fn foreign(what: &str) -> Fault {
    Fault::misuse(
        &format!("{what} is of another database"),
        "use it with its own",
    )
}

/// How writes are done.
#[derive(Default)]
pub struct WriteOptions {
    sync: Option<bool>,
    no_wait: bool,
    ttl: Option<Duration>,
    keyspace: Option<Arc<KeyspaceOf>>,
}

object!(WriteOptions, "unikv_writeoptions_t", b"ukv:writ");

impl WriteOptions {
    /// Whether writes are as the options of the database say, in the default keyspace.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.sync.is_none() && !self.no_wait && self.ttl.is_none() && self.keyspace.is_none()
    }

    /// As the engine has it.
    pub(crate) fn engine(&self) -> unikv::WriteOptions {
        let mut options = unikv::WriteOptions::default().no_wait(self.no_wait);
        if let Some(sync) = self.sync {
            let durability = if sync {
                Durability::Sync
            } else {
                Durability::Buffered
            };
            options = options.durability(durability);
        }
        self.ttl.map_or(options, |ttl| options.ttl(ttl))
    }

    /// The keyspace, if one is named; it must be of this database.
    pub(crate) fn keyspace_of(&self, database: u64) -> Outcome<Option<&Keyspace>> {
        keyspace_in(self.keyspace.as_ref(), database)
    }

    pub(crate) fn keyspace(&self, database: &Database) -> Outcome<Option<&Keyspace>> {
        self.keyspace_of(database.id)
    }

    /// What counts when operations are put into a batch: the keyspace and the time to live.
    pub(crate) fn of_batch(&self) -> Outcome<(Option<&Keyspace>, Option<Duration>)> {
        // A batch knows itself which database it belongs to.
        let keyspace = self.keyspace.as_ref();
        let keyspace = keyspace.map(|keyspace| keyspace.written()).transpose()?;
        Ok((keyspace, self.ttl))
    }

    pub(crate) fn ttl(&self) -> Option<Duration> {
        self.ttl
    }

    pub(crate) fn put(&self, database: &Database, key: &[u8], value: &[u8]) -> Outcome<()> {
        match self.keyspace(database)? {
            Some(keyspace) => keyspace.put_with(key, value, self.engine())?,
            None => database.db()?.put_with(key, value, self.engine())?,
        }
        Ok(())
    }

    pub(crate) fn delete(&self, database: &Database, key: &[u8]) -> Outcome<()> {
        match self.keyspace(database)? {
            Some(keyspace) => keyspace.delete_with(key, self.engine())?,
            None => database.db()?.delete_with(key, self.engine())?,
        }
        Ok(())
    }

    pub(crate) fn set_no_wait(&mut self, no_wait: bool) {
        self.no_wait = no_wait;
    }

    pub(crate) fn set_ttl(&mut self, ttl: Option<Duration>) {
        self.ttl = ttl;
    }

    pub(crate) fn set_keyspace(&mut self, keyspace: Option<Arc<KeyspaceOf>>) {
        self.keyspace = keyspace;
    }
}

capi! { functions:
    /// Options of reads: of the newest state, in the default keyspace.
    fn unikv_readoptions_create() -> New<ReadOptions> {
        New::of(ReadOptions::default())
    }

    /// Ends the options.
    fn unikv_readoptions_destroy(options: Ending<ReadOptions>) {
        end(options);
    }

    /// Accepted without a meaning: checksums are verified in any case.
    fn unikv_readoptions_set_verify_checksums(options: Alone<ReadOptions>, yes: u8) {
        let _ = (&options, yes);
    }

    /// Whether the read cache keeps what gets and iterators read: `unikv_get`, `unikv_get_into`,
    /// `unikv_transaction_get`, the first and the last entry, and iterators that are made with the
    /// options. Default: 1. With 0 a pass over more than the cache holds does not displace what
    /// other reads need.
    fn unikv_readoptions_set_fill_cache(options: Alone<ReadOptions>, yes: u8) {
        options.leaves_cache = yes == 0;
    }

    /// Has reads show a snapshot, until it is released or NULL is set.
    fn unikv_readoptions_set_snapshot(
        options: Alone<ReadOptions>, snapshot: Optional<Snapshot>
    ) {
        options.snapshot = snapshot.map(|snapshot| Arc::downgrade(&snapshot.0));
    }

    /// Options of writes: as the options of the database say, in the default keyspace.
    fn unikv_writeoptions_create() -> New<WriteOptions> {
        New::of(WriteOptions::default())
    }

    /// Ends the options.
    fn unikv_writeoptions_destroy(options: Ending<WriteOptions>) {
        end(options);
    }

    /// Whether writes survive a power cut when the call returns (1), or may be lost in one, but not
    /// by the end of the process (0).
    fn unikv_writeoptions_set_sync(options: Alone<WriteOptions>, yes: u8) {
        options.sync = Some(yes != 0);
    }
}
