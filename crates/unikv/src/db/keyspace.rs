//! Keyspaces: ordered spaces of keys beside each other in one database.

use crate::base::bounds::{KeyBounds, engine_bounds, prefix_bounds};
use crate::base::keys::{DatabaseId, KeyspaceId};
use crate::db::Db;
use crate::db::reader::Reader;
use crate::db::snapshot::Snapshot;
use crate::db::writer::Writer;
use crate::engine::handle::Handle;
use crate::engine::read::source::Source;
use crate::error::{Error, Result};
use crate::memtable::{Batch, Lifetime};
use crate::options::KeyspaceOptions;
use crate::version::keyspaces::DEFAULT_NAME;
use bytes::Bytes;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A keyspace: an ordered space of keys of its own, with the log, the memory and the background of
/// its database. Cheap to clone; usable from any thread.
///
/// One [`Batch`] may write to several of them, and a [`Snapshot`] shows all of them at one moment.
/// They cost little: thousands are no trouble.
///
/// When a keyspace has been dropped, calls on its handles, and what was taken of it, fail with
/// [`ErrorKind::NoSuchKeyspace`](crate::ErrorKind::NoSuchKeyspace).
///
/// ```
/// # let db = unikv::Db::in_memory(unikv::Options::default())?;
/// use unikv::{Batch, KeyspaceOptions};
///
/// let users = db.keyspace("users", KeyspaceOptions::default())?;
/// let mails = db.keyspace("mails", KeyspaceOptions::default())?;
/// let mut batch = Batch::new();
/// batch.put_in(&users, "7", "Ada").put_in(&mails, "ada@example.org", "7");
/// db.write(&batch)?;
///
/// assert_eq!(users.get("7")?.as_deref(), Some(&b"Ada"[..]));
/// assert_eq!(db.get("7")?, None, "the default keyspace is another one");
/// users.drop_keyspace()?;
/// assert_eq!(db.keyspaces(), ["default", "mails"]);
/// # unikv::Result::Ok(())
/// ```
#[derive(Clone)]
pub struct Keyspace {
    handle: Arc<Handle>,
    id: KeyspaceId,
}

impl Db {
    /// The keyspace of this name, which is made if there is none; `default` is that of the calls of
    /// [`Db`] itself. Options that are set hold from now on, for what is written or merged later;
    /// `default` takes none, as it has those of the database.
    ///
    /// Making one, or changing its options, syncs the log: the change survives a power cut, and so
    /// does what was written before.
    ///
    /// # Errors
    /// `InvalidArgument` for a name that is not 1 to 255 bytes long, or options out of range. Else
    /// as [`Db::sync`], after which it is unknown whether it was made; `Closed`.
    pub fn keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        let id = self.0.engine.keyspaces.open(name, &options)?;
        Ok(self.keyspace_with(id))
    }

    /// The keyspaces of these names, in the same order. Those that are not there are made, all at
    /// once: a power cut leaves all or none, and the log is synced once. So ten thousand take about
    /// as long as ten. See [`Db::keyspace`] for options and errors; after `InvalidArgument` none
    /// was made.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("unikv-many-{}", std::process::id()));
    /// # use unikv::KeyspaceOptions;
    /// # let db = unikv::Db::open(&dir, unikv::Options::default())?;
    /// let spaces = db.create_keyspaces(["users", "mails"], KeyspaceOptions::default())?;
    /// assert_eq!(spaces[1].name()?, "mails");
    /// db.drop_keyspaces(&spaces)?;
    /// assert_eq!(db.keyspaces(), ["default"]);
    /// # db.close()?;
    /// # unikv::Db::destroy(&dir)?;
    /// # unikv::Result::Ok(())
    /// ```
    pub fn create_keyspaces<N: AsRef<str>>(
        &self,
        names: impl IntoIterator<Item = N>,
        options: KeyspaceOptions,
    ) -> Result<Vec<Keyspace>> {
        let names: Vec<N> = names.into_iter().collect();
        let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
        let ids = self.0.engine.keyspaces.open_all(&names, &options)?;
        Ok(ids.into_iter().map(|id| self.keyspace_with(id)).collect())
    }

    /// Removes keyspaces with all their keys, all at once: a power cut leaves all or none. See
    /// [`Keyspace::drop_keyspace`]; after an error of kind `InvalidArgument` or `NoSuchKeyspace`
    /// none is gone.
    pub fn drop_keyspaces<'a>(
        &self,
        keyspaces: impl IntoIterator<Item = &'a Keyspace>,
    ) -> Result<()> {
        let mut ids = Vec::new();
        for keyspace in keyspaces {
            if !Arc::ptr_eq(&keyspace.handle, &self.0) {
                let what = "a keyspace is one of another database";
                return Err(Error::invalid(what, "use the keyspaces of this database"));
            }
            ids.push(keyspace.id);
        }
        self.0.engine.keyspaces.drop(&ids)
    }

    /// The keyspace of this name, if there is one.
    pub fn find_keyspace(&self, name: &str) -> Option<Keyspace> {
        if name == DEFAULT_NAME {
            return Some(self.keyspace_with(KeyspaceId::DEFAULT));
        }
        let view = self.0.engine.read.view.load();
        let id = view.version.keyspaces.named(name)?.id;
        Some(self.keyspace_with(id))
    }

    /// The names of all keyspaces, in the order in which they were made; `default` is the first.
    pub fn keyspaces(&self) -> Vec<String> {
        let view = self.0.engine.read.view.load();
        let others = view.version.keyspaces.all();
        let others = others.map(|meta| meta.name.clone());
        std::iter::once(DEFAULT_NAME.to_owned())
            .chain(others)
            .collect()
    }

    fn keyspace_with(&self, id: KeyspaceId) -> Keyspace {
        Keyspace {
            handle: Arc::clone(&self.0),
            id,
        }
    }
}

impl Keyspace {
    /// Its name. Errors: `NoSuchKeyspace`.
    pub fn name(&self) -> Result<String> {
        match self.id {
            KeyspaceId::DEFAULT => Ok(DEFAULT_NAME.to_owned()),
            id => {
                let view = self.handle.engine.read.view.load();
                Ok(view.version.keyspaces.existing(id)?.name.clone())
            }
        }
    }

    /// The options that were set for it; what is `None` is as the options of the database say.
    /// Errors: `NoSuchKeyspace`.
    pub fn options(&self) -> Result<KeyspaceOptions> {
        if self.id == KeyspaceId::DEFAULT {
            return Ok(KeyspaceOptions::default());
        }
        let view = self.handle.engine.read.view.load();
        let meta = view.version.keyspaces.existing(self.id)?;
        KeyspaceOptions::of(meta, Path::new(""))
    }

    /// The number by which batches and `unikv inspect` know it: 0 for the default keyspace, else
    /// one that no other keyspace of the database has had. It is another one after
    /// [`Keyspace::truncate`]. Errors: `NoSuchKeyspace`.
    pub fn number(&self) -> Result<u32> {
        Ok(self.data()?.0)
    }

    /// Gives it another name; handles stay as they are.
    ///
    /// # Errors
    /// `InvalidArgument` if the name is taken, or no name, or this is the default keyspace;
    /// `NoSuchKeyspace`; else as [`Db::keyspace`].
    pub fn rename(&self, name: &str) -> Result<()> {
        self.handle.engine.keyspaces.rename(self.id, name)
    }

    /// Removes all its keys at once, however many they are, and syncs the log. Handles stay as they
    /// are; iterators and snapshots from before fail with `NoSuchKeyspace`. The default keyspace
    /// cannot be emptied so. Errors as [`Keyspace::rename`].
    pub fn truncate(&self) -> Result<()> {
        self.handle.engine.keyspaces.truncate(self.id)
    }

    /// Removes the keyspace with all its keys at once, and syncs the log. Its files go soon after,
    /// in the background. The default keyspace cannot go. Errors as [`Keyspace::rename`].
    pub fn drop_keyspace(&self) -> Result<()> {
        self.handle.engine.keyspaces.drop(&[self.id])
    }

    fn database(&self) -> DatabaseId {
        self.handle.engine.core.store.database()
    }

    /// Its id in a database; in another one than its own, one that no keyspace has.
    pub(crate) fn id_in(&self, database: DatabaseId) -> KeyspaceId {
        if self.database() == database {
            self.id
        } else {
            KeyspaceId(u32::MAX)
        }
    }

    pub(crate) fn reader(&self) -> Reader<'_> {
        Reader {
            read: &self.handle.engine.read,
            source: self.source(),
            moment: None,
            handle: Some(&self.handle),
        }
    }

    fn source(&self) -> Source {
        Source {
            keyspace: self.id,
            at: None,
        }
    }

    pub(crate) fn writer(&self) -> Writer<'_> {
        Writer {
            handle: &self.handle,
            keyspace: self.id,
        }
    }

    /// What stands before its keys now.
    pub(super) fn data(&self) -> Result<KeyspaceId> {
        self.writer().data()
    }
}

/// Gives a type these methods, which are about one keyspace.
macro_rules! scoped {
    ($type:ty) => {
        impl $type {
            /// What is there now, for as long as the snapshot lives.
            pub fn snapshot(&self) -> Snapshot {
                let writer = self.writer();
                Snapshot::of_open(writer.handle, writer.keyspace)
            }

            /// Merges what the UnsortedStore holds of the partitions that the range meets, whole,
            /// and waits for that. Drops what is overwritten or deleted there and seen by no
            /// snapshot. Bytes of values come free with garbage collection. What is written
            /// meanwhile may stay in the UnsortedStore. Errors as for
            /// [`Db::flush`](crate::Db::flush).
            pub fn compact_range(&self, range: impl KeyBounds) -> Result<()> {
                let writer = self.writer();
                let bounds = engine_bounds(writer.data()?, &range);
                writer.handle.engine.background.compact(&bounds)
            }

            /// About how many bytes on disk serve the keys in `range`, estimated without reading a
            /// value: records that are overwritten but not yet merged count, what is only in memory
            /// does not.
            ///
            /// # Errors
            /// `Corruption` or `Io` if the fences or a key block of a table cannot be read;
            /// `NoSuchKeyspace`, `Closed`.
            pub fn approximate_size(&self, range: impl KeyBounds) -> Result<u64> {
                let writer = self.writer();
                let bounds = engine_bounds(writer.data()?, &range);
                writer.handle.engine.read.approximate_size(&bounds)
            }

            /// A key that cuts the data in `range` into two parts of about the same size; it need
            /// not be stored. `None` if there is too little to cut. Errors as for
            /// [`Keyspace::approximate_size`](crate::Keyspace::approximate_size).
            pub fn split_key(&self, range: impl KeyBounds) -> Result<Option<Bytes>> {
                let writer = self.writer();
                let bounds = engine_bounds(writer.data()?, &range);
                let key = writer.handle.engine.read.split_key(&bounds)?;
                Ok(key.map(Bytes::from))
            }
        }
    };
}

scoped!(Db);
scoped!(Keyspace);

impl Snapshot {
    /// The keyspace that has this name now, at the moment of the snapshot; `None` if none has it.
    pub fn find_keyspace(&self, name: &str) -> Option<Snapshot> {
        let id = match name {
            DEFAULT_NAME => KeyspaceId::DEFAULT,
            name => {
                let view = self.read().view.load();
                view.version.keyspaces.named(name)?.id
            }
        };
        Some(self.of(id))
    }

    /// Another keyspace of the same database, at the moment of this snapshot. One that was made
    /// later is empty.
    #[must_use]
    pub fn keyspace(&self, keyspace: &Keyspace) -> Snapshot {
        self.of(keyspace.id_in(self.database()))
    }
}

impl Batch {
    /// As [`Batch::put`], in the given keyspace. If that is dropped or emptied before the batch is
    /// written, writing fails with `NoSuchKeyspace` and changes nothing.
    pub fn put_in(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> &mut Batch {
        self.add_in(keyspace, |batch, data| {
            batch.put_at(data, key.as_ref(), value.as_ref());
        })
    }

    /// As [`Batch::delete`], in the given keyspace: see [`Batch::put_in`].
    pub fn delete_in(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> &mut Batch {
        self.add_in(keyspace, |batch, data| {
            batch.delete_at(data, key.as_ref());
        })
    }

    pub(super) fn add_in(
        &mut self,
        keyspace: &Keyspace,
        add: impl FnOnce(&mut Batch, KeyspaceId),
    ) -> &mut Batch {
        match keyspace.data() {
            Ok(data) => {
                let before = self.len();
                add(self, data);
                if data == KeyspaceId::DEFAULT {
                    self.names_default(before);
                }
                self.belong_to(keyspace.database());
            }
            Err(error) => self.refuse(error),
        }
        self
    }

    /// As [`Batch::put_with_ttl`], in the given keyspace: see [`Batch::put_in`].
    pub fn put_with_ttl_in(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> &mut Batch {
        self.add_in(keyspace, |batch, data| {
            batch.put_for(data, key.as_ref(), value.as_ref(), Lifetime::of(ttl));
        })
    }

    /// As [`Batch::delete_range`], in the given keyspace: see [`Batch::put_in`].
    pub fn delete_range_in(&mut self, keyspace: &Keyspace, range: impl KeyBounds) -> &mut Batch {
        self.add_in(keyspace, |batch, data| {
            batch.delete_range_at(engine_bounds(data, &range));
        })
    }

    /// As [`Batch::delete_prefix`], in the given keyspace: see [`Batch::put_in`].
    pub fn delete_prefix_in(
        &mut self,
        keyspace: &Keyspace,
        prefix: impl AsRef<[u8]>,
    ) -> &mut Batch {
        self.add_in(keyspace, |batch, data| {
            batch.delete_range_at(prefix_bounds(data, prefix.as_ref()));
        })
    }
}

impl fmt::Debug for Keyspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyspace")
            .field("name", &self.name().ok())
            .finish_non_exhaustive()
    }
}
