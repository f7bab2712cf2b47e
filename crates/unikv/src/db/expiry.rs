//! How long values live: what a caller asks of it and changes, one key at a time.

use crate::base::keys::KeyspaceId;
use crate::db::Db;
use crate::db::keyspace::Keyspace;
use crate::db::transaction::Transaction;
use crate::engine::read::lifetimes::Ttl;
use crate::error::Result;
use crate::memtable::{Batch, Lifetime};
use crate::txn::single;
use crate::vfs::clock::since_1970;
use std::time::{Duration, SystemTime};

impl Db {
    /// Has the value of `key` expire when `ttl` has passed; whether there is a value. Errors as
    /// [`Db::put`] and [`Db::get`]; `InvalidArgument` if `ttl` is zero.
    pub fn expire(&self, key: impl AsRef<[u8]>, ttl: Duration) -> Result<bool> {
        let lifetime = Lifetime::of(ttl)?;
        single::set_lifetime(&self.0, KeyspaceId::DEFAULT, key.as_ref(), lifetime)
    }

    /// Has the value of `key` expire at `time` of the wall clock; whether there is a value. If that
    /// is not later than now, the key is removed at once. The value is written again, so of a
    /// large one this takes as long as a put. Errors as [`Db::put`] and [`Db::get`].
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("unikv-expire-{}", std::process::id()));
    /// # let db = unikv::Db::open(&dir, unikv::Options::default())?;
    /// use std::time::{Duration, SystemTime};
    ///
    /// db.put("session", "Ada")?;
    /// let hour = Duration::from_secs(3600);
    /// assert!(db.expire_at("session", SystemTime::now() + hour)?);
    /// assert!(db.expire_at("session", SystemTime::now() - hour)?);
    /// assert_eq!(db.get("session")?, None);
    /// assert!(!db.expire("session", hour)?, "it is not there any more");
    /// # db.close()?;
    /// # unikv::Db::destroy(&dir)?;
    /// # unikv::Result::Ok(())
    /// ```
    pub fn expire_at(&self, key: impl AsRef<[u8]>, time: SystemTime) -> Result<bool> {
        let lifetime = Lifetime::until(since_1970(time));
        single::set_lifetime(&self.0, KeyspaceId::DEFAULT, key.as_ref(), lifetime)
    }

    /// Has the value of `key` never expire; whether it would have. Errors as [`Db::put`] and
    /// [`Db::get`].
    pub fn persist(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        single::persist(&self.0, KeyspaceId::DEFAULT, key.as_ref())
    }
}

impl Keyspace {
    /// As [`Db::expire`].
    pub fn expire(&self, key: impl AsRef<[u8]>, ttl: Duration) -> Result<bool> {
        let lifetime = Lifetime::of(ttl)?;
        single::set_lifetime(self.handle(), self.id(), key.as_ref(), lifetime)
    }

    /// As [`Db::expire_at`].
    pub fn expire_at(&self, key: impl AsRef<[u8]>, time: SystemTime) -> Result<bool> {
        let lifetime = Lifetime::until(since_1970(time));
        single::set_lifetime(self.handle(), self.id(), key.as_ref(), lifetime)
    }

    /// As [`Db::persist`].
    pub fn persist(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        single::persist(self.handle(), self.id(), key.as_ref())
    }
}

impl Transaction {
    /// As [`Transaction::put`]; the value expires when `ttl` has passed since the commit: see
    /// [`WriteOptions::ttl`](crate::WriteOptions::ttl). Errors as there; `InvalidArgument` if `ttl`
    /// is zero.
    pub fn put_with_ttl(
        &mut self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<()> {
        self.put_for(KeyspaceId::DEFAULT, key.as_ref(), value.as_ref(), ttl)
    }

    /// As [`Transaction::put_with_ttl`], in another keyspace. Errors as [`Transaction::put_in`].
    pub fn put_with_ttl_in(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<()> {
        let keyspace = self.id_of(keyspace);
        self.put_for(keyspace, key.as_ref(), value.as_ref(), ttl)
    }

    fn put_for(
        &mut self,
        keyspace: KeyspaceId,
        key: &[u8],
        value: &[u8],
        ttl: Duration,
    ) -> Result<()> {
        let lifetime = Lifetime::of(ttl)?;
        self.txn_mut()
            .write_for(keyspace, key, Some(value), lifetime)
    }

    /// Has the value of `key` expire when `ttl` has passed since the commit; whether there is a
    /// value. The key counts as read and written. Errors as [`Transaction::put_with_ttl`] and
    /// [`Db::get`].
    pub fn expire(&mut self, key: impl AsRef<[u8]>, ttl: Duration) -> Result<bool> {
        let lifetime = Lifetime::of(ttl)?;
        let txn = self.txn_mut();
        txn.set_lifetime(KeyspaceId::DEFAULT, key.as_ref(), lifetime)
    }

    /// Has the value of `key` expire at `time`, as [`Db::expire_at`]. Errors as
    /// [`Transaction::expire`].
    pub fn expire_at(&mut self, key: impl AsRef<[u8]>, time: SystemTime) -> Result<bool> {
        let lifetime = Lifetime::until(since_1970(time));
        let txn = self.txn_mut();
        txn.set_lifetime(KeyspaceId::DEFAULT, key.as_ref(), lifetime)
    }

    /// Has the value of `key` never expire; whether it would have. Errors as
    /// [`Transaction::expire`].
    pub fn persist(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        let before = self.txn_mut().persist(KeyspaceId::DEFAULT, key.as_ref())?;
        Ok(matches!(before, Some(Ttl::Remaining(_))))
    }
}

impl Batch {
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
}
