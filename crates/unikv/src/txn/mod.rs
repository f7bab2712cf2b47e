//! Transactions, on the engine: optimistic, validated when they commit.
//!
//! A transaction reads as of one moment and keeps its writes to itself, in the memory of its
//! caller. Its commit is one batch, which the leader of the commit group admits if nothing that the
//! transaction depends on was written since its moment ([`crate::engine::recent`]). So it takes
//! place at one point of the write order: when it commits. Under [`Isolation::Serializable`] it
//! depends on all that it has read, so that it might as well have begun at that point; under
//! [`Isolation::Snapshot`] on the keys that it writes or has read for update.
//!
//! A transaction that writes nothing took place at its moment, and never conflicts.
//!
//! Locks: none but those of what it calls.

mod emptied;
mod lifetime;
pub(crate) mod single;

use crate::base::bounds::{KeyBounds, engine_bounds, engine_key, prefix_bounds};
use crate::base::keys::{KEYSPACE_PREFIX_LEN, KeyspaceId, MAX_USER_KEY_LEN};
use crate::engine::background::ingest::batch::write;
use crate::engine::handle::Handle;
use crate::engine::read::cursor::Cursor;
use crate::engine::read::iter::Iter;
use crate::engine::read::iter::emptied::Emptied;
use crate::engine::read::iter::overlay::OfTransaction;
use crate::engine::read::moment::Owned;
use crate::engine::read::value_reader::ValueReader;
use crate::engine::recent::OpenTransaction;
use crate::engine::recent::own_writes::{OwnWrite, OwnWrites, Undo};
use crate::engine::recent::reads::ReadSet;
use crate::engine::snapshots::Holder;
use crate::engine::write::waits::Alone;
use crate::error::{Error, Result};
use crate::memtable::{Batch, Lifetime, check_put, deletable};
use crate::options::WriteOptions;
use crate::partition::value_place::OpenValue;
use crate::record::part_of;
use bytes::Bytes;
use std::ops::Range;
use std::sync::Arc;

/// What a transaction is protected from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Isolation {
    /// All transactions that commit might as well have run one after the other: the keys and
    /// ranges that one has read must not have been written by others since it began.
    #[default]
    Serializable,
    /// It reads one moment, and the keys that it writes, or has read with
    /// [`Transaction::get_for_update`](crate::Transaction::get_for_update), must not have been
    /// written by others since then. Two transactions that each read what the other writes may both
    /// commit (write skew).
    Snapshot,
}

/// A transaction that is open.
pub(crate) struct Txn {
    isolation: Isolation,
    own: Arc<OwnWrites>,
    /// Where it shows nothing, as far as its iterators have found out.
    emptied: Arc<Emptied>,
    /// What was before each write, so that a savepoint can come back.
    undo: Vec<Undo>,
    savepoints: Vec<usize>,
    reads: Arc<ReadSet>,
    /// The keyspaces that it writes to.
    written: Vec<KeyspaceId>,
    /// Nobody else commits until this has ended.
    alone: Option<Alone>,
    _open: OpenTransaction,
    moment: Owned,
    /// Comes last, as its end may close the database.
    pub(crate) handle: Arc<Handle>,
}

impl Txn {
    pub(crate) fn begin(handle: &Arc<Handle>, isolation: Isolation) -> Txn {
        let read = &handle.engine.read;
        let open = handle.engine.write.recent.begin(&read.visible_seq);
        let moment = Owned::take(read, Holder::Transaction, handle.kept_open());
        Txn {
            handle: Arc::clone(handle),
            isolation,
            own: Arc::default(),
            emptied: Arc::default(),
            undo: Vec::new(),
            savepoints: Vec::new(),
            reads: Arc::new(ReadSet::new(moment.seq(), &read.core.memory)),
            written: Vec::new(),
            alone: None,
            moment,
            _open: open,
        }
    }

    /// The key below `db`, in the keyspace as it was at the moment.
    fn engine_key(&self, keyspace: KeyspaceId, key: &[u8]) -> Result<Vec<u8>> {
        if key.len() > MAX_USER_KEY_LEN {
            check_put(key.len(), 0)?;
        }
        let read = &self.handle.engine.read;
        read.core.check_open()?;
        if keyspace == KeyspaceId::DEFAULT {
            return Ok(engine_key(keyspace, key));
        }
        Ok(engine_key(self.data_of(keyspace)?, key))
    }

    /// What it has read, and whether it has met a keyspace that was emptied since it began.
    pub(crate) fn reads(&self) -> &Arc<ReadSet> {
        &self.reads
    }

    fn is_serializable(&self) -> bool {
        self.isolation == Isolation::Serializable
    }

    /// What the transaction itself has made of a key, if it has written it; else the key is noted
    /// as read, where reads count.
    fn own_or_note(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        for_update: bool,
    ) -> Result<Option<OwnWrite>> {
        let key = self.engine_key(keyspace, key)?;
        let own = self.own.get(&key);
        if for_update || (self.is_serializable() && own.is_none()) {
            self.reads.add_key(&key);
        }
        Ok(own)
    }

    pub(crate) fn get(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        for_update: bool,
    ) -> Result<Option<Bytes>> {
        match self.own_or_note(keyspace, key, for_update)? {
            Some(own) => Ok(own.value),
            None => self.moment.read().get(self.moment.source(keyspace), key),
        }
    }

    pub(crate) fn multi_get<K: AsRef<[u8]>>(
        &self,
        keyspace: KeyspaceId,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Bytes>>> {
        let (mut values, mut asked, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for (place, key) in keys.into_iter().enumerate() {
            let own = self.own_or_note(keyspace, key.as_ref(), false)?;
            if own.is_none() {
                asked.push(key);
                places.push(place);
            }
            values.push(own.and_then(|own| own.value));
        }
        let read = self.moment.read();
        let found = read.multi_get(self.moment.source(keyspace), asked)?;
        for (place, value) in places.into_iter().zip(found) {
            if let Some(slot) = values.get_mut(place) {
                *slot = value;
            }
        }
        Ok(values)
    }

    pub(crate) fn contains(&self, keyspace: KeyspaceId, key: &[u8]) -> Result<bool> {
        match self.own_or_note(keyspace, key, false)? {
            Some(own) => Ok(own.value.is_some()),
            None => {
                let source = self.moment.source(keyspace);
                self.moment.read().contains(source, key)
            }
        }
    }

    pub(crate) fn value_len(&self, keyspace: KeyspaceId, key: &[u8]) -> Result<Option<usize>> {
        match self.own_or_note(keyspace, key, false)? {
            Some(own) => Ok(own.value.map(|value| value.len())),
            None => {
                let source = self.moment.source(keyspace);
                self.moment.read().value_len(source, key)
            }
        }
    }

    pub(crate) fn get_range(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        range: &Range<usize>,
    ) -> Result<Option<Bytes>> {
        match self.own_or_note(keyspace, key, false)? {
            Some(own) => Ok(own.value.map(|value| part_of(value, range.clone()))),
            None => {
                let source = self.moment.source(keyspace);
                self.moment.read().get_range(source, key, range)
            }
        }
    }

    pub(crate) fn get_reader(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
    ) -> Result<Option<ValueReader>> {
        let read = self.moment.read();
        match self.own_or_note(keyspace, key, false)? {
            Some(own) => {
                let value = own.value.map(OpenValue::Memory);
                Ok(value.map(|value| ValueReader::new(read, value)))
            }
            None => read.get_reader(self.moment.source(keyspace), key),
        }
    }

    /// What it has written so far, over which iterators read.
    fn as_it_is(&self) -> OfTransaction {
        OfTransaction {
            own: Arc::clone(&self.own),
            emptied: Arc::clone(&self.emptied),
            reads: self.is_serializable().then(|| Arc::clone(&self.reads)),
        }
    }

    pub(crate) fn range(&self, keyspace: KeyspaceId, range: &impl KeyBounds) -> Iter {
        let moment = Arc::clone(&self.moment);
        let iter = Iter::new(moment, keyspace, |data| engine_bounds(data, range));
        iter.over(self.as_it_is().overlay())
    }

    pub(crate) fn prefix(&self, keyspace: KeyspaceId, prefix: &[u8]) -> Iter {
        let moment = Arc::clone(&self.moment);
        let iter = Iter::new(moment, keyspace, |data| prefix_bounds(data, prefix));
        iter.over(self.as_it_is().overlay())
    }

    pub(crate) fn cursor(&self, keyspace: KeyspaceId) -> Cursor {
        Cursor::new(Arc::clone(&self.moment), keyspace).over(self.as_it_is())
    }

    /// Writes a value, or removes the key.
    pub(crate) fn write(
        &mut self,
        keyspace: KeyspaceId,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<()> {
        self.write_for(keyspace, key, value, Lifetime::AsUsual)
    }

    /// The same of a value that lives as long as this.
    pub(crate) fn write_for(
        &mut self,
        keyspace: KeyspaceId,
        key: &[u8],
        value: Option<&[u8]>,
        lifetime: Lifetime,
    ) -> Result<()> {
        check_put(key.len(), value.map_or(0, <[u8]>::len))?;
        let key = self.engine_key(keyspace, key)?;
        self.note_written(keyspace);
        let write = OwnWrite {
            value: value.map(Bytes::copy_from_slice),
            lifetime,
        };
        let (key, is_put) = (Bytes::from(key), value.is_some());
        let own = Arc::make_mut(&mut self.own);
        let undo = own.write(key.clone(), write);
        if is_put {
            self.emptied.put(&key, own.changes());
        }
        self.note_undo(undo);
        Ok(())
    }

    /// Removes the keys between two engine keys of the keyspace.
    pub(crate) fn delete_range(
        &mut self,
        keyspace: KeyspaceId,
        bounds: impl FnOnce(KeyspaceId) -> (Vec<u8>, Vec<u8>),
    ) -> Result<()> {
        let read = &self.handle.engine.read;
        read.core.check_open()?;
        let data = self.data_of(keyspace)?;
        self.note_written(keyspace);
        if let Some((start, end)) = deletable(bounds(data))? {
            let undo = Arc::make_mut(&mut self.own).delete_range(start, end);
            self.note_undo(undo);
        }
        Ok(())
    }

    fn note_undo(&mut self, undo: Undo) {
        if !self.savepoints.is_empty() {
            self.undo.push(undo);
        }
    }

    pub(crate) fn set_savepoint(&mut self) {
        self.savepoints.push(self.undo.len());
    }

    /// Undoes what was written since the newest savepoint, and removes that; whether there was one.
    pub(crate) fn rollback_to_savepoint(&mut self) -> bool {
        let Some(len) = self.savepoints.pop() else {
            return false;
        };
        let own = Arc::make_mut(&mut self.own);
        self.undo.drain(len..).rev().for_each(|undo| own.undo(undo));
        self.emptied.clear(own.changes());
        true
    }

    pub(crate) fn pop_savepoint(&mut self) -> bool {
        let popped = self.savepoints.pop().is_some();
        if self.savepoints.is_empty() {
            self.undo.clear();
        }
        popped
    }

    /// Where it is alone, nobody else commits a transaction until this one has ended.
    pub(crate) fn stay_alone_if(&mut self, alone: Option<Alone>) {
        if alone.is_some() {
            self.reads.stay_alone();
        }
        self.alone = alone;
    }

    /// Commits what was written.
    pub(crate) fn commit(self, options: WriteOptions) -> Result<()> {
        self.commit_with(options, || ())
    }

    /// The same with something that happens after the long comparison.
    #[cfg(test)]
    pub(crate) fn commit_after(self, meanwhile: impl FnOnce()) -> Result<()> {
        self.commit_with(WriteOptions::default(), meanwhile)
    }

    fn commit_with(self, options: WriteOptions, compared: impl FnOnce()) -> Result<()> {
        self.handle.engine.core.check_open()?;
        if self.own.is_empty() {
            return Ok(());
        }
        let is_written_read = self.isolation == Isolation::Snapshot;
        self.reads
            .close(is_written_read.then(|| Arc::clone(&self.own)));
        let mut batch = Batch::new();
        for (start, end) in self.own.deleted() {
            batch.delete_range_at((start.to_vec(), end.to_vec()));
        }
        for (key, OwnWrite { value, lifetime }) in self.own.writes() {
            let (prefix, key) = key
                .split_first_chunk::<KEYSPACE_PREFIX_LEN>()
                .ok_or_else(|| Error::internal("a key without a keyspace"))?;
            let data = KeyspaceId(u32::from_be_bytes(*prefix));
            match value {
                Some(value) => batch.put_for(data, key, value, Ok(*lifetime)),
                None => batch.delete_at(data, key),
            };
        }
        let engine = &self.handle.engine;
        // Most of the comparison is done here, where nobody waits for it, and before large values
        // are written.
        let _comparing = engine.write.recent.comparing(&self.reads);
        engine.write.compare(&self.reads)?;
        compared();
        let written = write(&engine.background, &batch, options, Some(&self.reads));
        written.inspect_err(|error| self.note_if_emptied(error))
    }
}

impl Drop for Txn {
    fn drop(&mut self) {
        if self.handle.engine.core.process.is_this() {
            self.reads.end();
        }
    }
}

#[cfg(test)]
mod tests;
