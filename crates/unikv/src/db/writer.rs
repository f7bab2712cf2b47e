//! The writes that databases and keyspaces have in common, to one keyspace.

use crate::base::bounds::KeyBounds;
use crate::base::keys::KeyspaceId;
use crate::engine::background::ingest::{Ingest, batch};
use crate::engine::handle::Handle;
use crate::engine::read::source::Source;
use crate::error::{Error, ErrorKind, Result};
use crate::memtable::{Batch, Lifetime};
use crate::options::WriteOptions;
use crate::txn::single::{self, Mismatch};
use bytes::Bytes;
use std::io::Read;
use std::sync::Arc;

/// What a handle writes to.
pub(crate) struct Writer<'a> {
    pub(crate) handle: &'a Arc<Handle>,
    pub(crate) keyspace: KeyspaceId,
}

impl<'a> Writer<'a> {
    /// What stands before the keys of the keyspace now.
    pub(crate) fn data(&self) -> Result<KeyspaceId> {
        if self.keyspace == KeyspaceId::DEFAULT {
            // It is never emptied, so its keys begin always with the same.
            return Ok(KeyspaceId::DEFAULT);
        }
        let source = Source {
            keyspace: self.keyspace,
            at: None,
        };
        Ok(self.handle.engine.read.point(source)?.data)
    }

    /// Calls `write` with the data id, and again if the keyspace has been emptied meanwhile.
    fn in_data(&self, mut write: impl FnMut(KeyspaceId) -> Result<()>) -> Result<()> {
        let mut data = self.data()?;
        loop {
            let written = write(data);
            let is_gone = |error: &Error| error.kind() == ErrorKind::NoSuchKeyspace;
            if !written.as_ref().is_err_and(is_gone) {
                return written;
            }
            match self.data()? {
                now if now == data => return written,
                now => data = now,
            }
        }
    }

    pub(crate) fn put(&self, key: &[u8], value: &[u8], options: WriteOptions) -> Result<()> {
        let write = &self.handle.engine.write;
        self.in_data(|data| write.put(data, key, value, options))
    }

    /// Writes what `fill` puts into a batch.
    pub(crate) fn write_one(
        &self,
        options: WriteOptions,
        fill: impl Fn(&mut Batch, KeyspaceId),
    ) -> Result<()> {
        let write = &self.handle.engine.write;
        self.in_data(|data| {
            let mut batch = Batch::new();
            fill(&mut batch, data);
            write.write(&batch, options, None)
        })
    }

    /// Writes a batch; its operations without a keyspace go to this one.
    pub(crate) fn write(&self, batch: &Batch, options: WriteOptions) -> Result<()> {
        let background = &self.handle.engine.background;
        if self.keyspace == KeyspaceId::DEFAULT {
            return batch::write(background, batch, options, None);
        }
        self.in_data(|data| batch::write(background, &batch.moved_to(data), options, None))
    }

    /// The reader's bytes come once, so nothing is tried again where the keyspace is emptied.
    pub(crate) fn put_reader(
        &self,
        key: &[u8],
        reader: &mut dyn Read,
        len: Option<u64>,
        options: WriteOptions,
    ) -> Result<()> {
        let write = &self.handle.engine.write;
        write.put_reader(self.data()?, key, reader, len, options)
    }

    pub(crate) fn compare_and_swap(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<std::result::Result<(), Mismatch>> {
        single::compare_and_swap(self.handle, self.keyspace, key, expected, new)
    }

    pub(crate) fn update(
        &self,
        key: &[u8],
        change: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<Option<Bytes>> {
        single::update(self.handle, self.keyspace, key, change)
    }

    pub(crate) fn increment(&self, key: &[u8], by: i64) -> Result<i64> {
        single::increment(self.handle, self.keyspace, key, by)
    }

    pub(crate) fn pop(&self, range: &impl KeyBounds, last: bool) -> Result<Option<(Bytes, Bytes)>> {
        single::pop(self.handle, self.keyspace, range, last)
    }

    pub(crate) fn clear_ttl(&self, key: &[u8]) -> Result<bool> {
        single::clear_ttl(self.handle, self.keyspace, key)
    }

    pub(crate) fn set_lifetime(&self, key: &[u8], lifetime: Lifetime) -> Result<bool> {
        single::set_lifetime(self.handle, self.keyspace, key, lifetime)
    }

    pub(crate) fn ingest(&self) -> Result<Ingest<'a>> {
        Ingest::begin(&self.handle.engine.background, self.data()?)
    }
}
