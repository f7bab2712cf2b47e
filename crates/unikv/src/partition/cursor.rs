//! One ordered source of entries: a memtable, the keys of a table, or a run of key tables: that of
//! a SortedStore, a scan run, or what was ingested at one moment.
//!
//! All present entries as [`KeyEntry`], in internal order.

use crate::base::keys::{Kind, SeqNo};
use crate::error::{ErrorKind, Result};
use crate::key_table::{EntryValue, KeyEntry, KeyIter, KeyTable};
use crate::memtable::MemtableIter;
use crate::record::RecordFile;
use crate::version::scan_run::ScanRun;
use crate::version::{Generation, Partition};
use crate::vfs::Access;
use std::path::Path;
use std::sync::Arc;

/// A position in one ordered source.
pub(crate) enum Cursor {
    Memtable(MemtableIter),
    Keys(KeyIter),
    Run(RunCursor),
}

impl Cursor {
    pub(crate) fn seek_to_first(&mut self) -> Result<()> {
        match self {
            Cursor::Memtable(it) => it.seek_to_first(),
            Cursor::Keys(it) => it.seek_to_first()?,
            Cursor::Run(it) => it.seek_to_first()?,
        }
        Ok(())
    }

    pub(crate) fn seek_to_last(&mut self) -> Result<()> {
        match self {
            Cursor::Memtable(it) => it.seek_to_last(),
            Cursor::Keys(it) => it.seek_to_last()?,
            Cursor::Run(it) => it.seek_to_last()?,
        }
        Ok(())
    }

    /// Moves to the first entry at or after (key, seq) in internal order.
    pub(crate) fn seek(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        match self {
            Cursor::Memtable(it) => it.seek(key, seq),
            Cursor::Keys(it) => it.seek(key, seq)?,
            Cursor::Run(it) => it.seek(key, seq)?,
        }
        Ok(())
    }

    /// Moves to the last entry before (key, seq) in internal order.
    pub(crate) fn seek_before(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        self.seek(key, seq)?;
        if self.entry().is_some() {
            self.prev()
        } else {
            self.seek_to_last()
        }
    }

    pub(crate) fn next(&mut self) -> Result<()> {
        match self {
            Cursor::Memtable(it) => it.next(),
            Cursor::Keys(it) => it.next()?,
            Cursor::Run(it) => it.next()?,
        }
        Ok(())
    }

    pub(crate) fn prev(&mut self) -> Result<()> {
        match self {
            Cursor::Memtable(it) => it.prev(),
            Cursor::Keys(it) => it.prev()?,
            Cursor::Run(it) => it.prev()?,
        }
        Ok(())
    }

    /// The entry at the position; `None` before the first and after the last.
    pub(crate) fn entry(&self) -> Option<KeyEntry<'_>> {
        match self {
            Cursor::Memtable(it) => it.entry().map(|e| KeyEntry {
                key: e.key,
                seq: e.seq,
                kind: e.kind,
                expiry_ms: e.expiry_ms,
                value: match e.kind {
                    Kind::Delete => EntryValue::None,
                    _ => EntryValue::Inline(e.value),
                },
            }),
            Cursor::Keys(it) => it.entry(),
            Cursor::Run(it) => it.entry(),
        }
    }

    /// The table and the block in it where the position is; `None`: in memory.
    #[inline]
    pub(super) fn block(&self) -> Option<(usize, usize)> {
        match self {
            Cursor::Memtable(_) => None,
            Cursor::Keys(it) => Some((0, it.block()?)),
            Cursor::Run(it) => Some((it.at, it.current.as_ref()?.block()?)),
        }
    }

    /// Whether all keys of that block are known to be before `end`.
    pub(super) fn block_ends_before(&self, end: &[u8]) -> bool {
        match self {
            Cursor::Memtable(_) => false,
            Cursor::Keys(it) => it.block_ends_before(end),
            Cursor::Run(it) => it
                .current
                .as_ref()
                .is_some_and(|it| it.block_ends_before(end)),
        }
    }

    /// Memory of the position, about.
    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            Cursor::Memtable(_) => 0,
            Cursor::Keys(it) => it.memory_bytes(),
            Cursor::Run(it) => it.current.as_ref().map_or(0, KeyIter::memory_bytes),
        }
    }

    /// The file that the entry at the position is from.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Cursor::Memtable(_) => None,
            Cursor::Keys(it) => Some(it.path()),
            Cursor::Run(it) => it.current.as_ref().map(KeyIter::path),
        }
    }
}

/// Disjoint tables in key order.
enum Tables {
    SortedStore(Arc<Partition>),
    ScanRun(Arc<ScanRun>),
    Ingested(Vec<Arc<RecordFile>>),
}

impl Tables {
    /// The tables, where they are key tables.
    fn key_tables(&self) -> &[Arc<KeyTable>] {
        match self {
            Tables::SortedStore(partition) => &partition.key_tables,
            Tables::ScanRun(run) => run.tables(),
            Tables::Ingested(_) => &[],
        }
    }

    fn len(&self) -> usize {
        match self {
            Tables::Ingested(files) => files.len(),
            _ => self.key_tables().len(),
        }
    }

    /// How many of them end before `key`.
    fn before(&self, key: &[u8]) -> usize {
        if let Tables::Ingested(files) = self {
            return files.partition_point(|f| f.meta().max_key.as_slice() < key);
        }
        let tables = self.key_tables();
        tables.partition_point(|t| t.meta().max_key.as_slice() < key)
    }

    fn keys(&self, at: usize, access: Access) -> Result<Option<KeyIter>> {
        if let Tables::Ingested(files) = self {
            return files.get(at).map(|file| file.keys(access)).transpose();
        }
        let table = self.key_tables().get(at);
        Ok(table.map(|table| table.iter(access)))
    }
}

/// A run of tables, one after the other: reads one at a time.
pub(crate) struct RunCursor {
    tables: Tables,
    access: Access,
    /// See [`KeyIter::reading`].
    buffer: Option<usize>,
    /// The table that `current` reads.
    at: usize,
    current: Option<KeyIter>,
}

impl RunCursor {
    /// The SortedStore of `partition`.
    pub(crate) fn sorted_store(partition: Arc<Partition>, access: Access) -> RunCursor {
        RunCursor::new(Tables::SortedStore(partition), access)
    }

    /// A scan run. Damage that the cursor meets is remembered in it.
    pub(crate) fn scan_run(run: Arc<ScanRun>, access: Access) -> RunCursor {
        RunCursor::new(Tables::ScanRun(run), access)
    }

    /// What was ingested at one moment: all tables of `generation`.
    pub(crate) fn ingested(generation: &Generation, access: Access) -> RunCursor {
        let in_key_order = generation.tables().rev();
        let files = in_key_order.map(|(_, file)| Arc::clone(file)).collect();
        RunCursor::new(Tables::Ingested(files), access)
    }

    fn new(tables: Tables, access: Access) -> RunCursor {
        RunCursor {
            tables,
            access,
            buffer: None,
            at: 0,
            current: None,
        }
    }

    /// The same, reading about `bytes` at once.
    pub(crate) fn reading(mut self, bytes: usize) -> RunCursor {
        self.buffer = Some(bytes);
        self
    }

    /// Passes the outcome of a move on. Whatever keeps a scan run from being read, it is not
    /// needed; a caller who has given up says nothing about it.
    #[inline]
    fn moved(&self, outcome: Result<()>) -> Result<()> {
        outcome.inspect_err(|error| {
            if let Tables::ScanRun(run) = &self.tables
                && error.kind() != ErrorKind::TimedOut
            {
                run.mark_damaged();
            }
        })
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.enter(0, |it| it.seek_to_first())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        match self.tables.len().checked_sub(1) {
            Some(last) => self.enter(last, |it| it.seek_to_last()),
            None => Ok(()),
        }
    }

    fn seek(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        let at = self.tables.before(key);
        self.enter(at, |it| it.seek(key, seq))?;
        // All versions of the key may be newer than `seq` and end this table.
        self.skip_forward()
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        if let Some(it) = &mut self.current {
            let moved = it.next();
            self.moved(moved)?;
        }
        self.skip_forward()
    }

    fn prev(&mut self) -> Result<()> {
        let Some(it) = &mut self.current else {
            return Ok(());
        };
        let moved = it.prev();
        self.moved(moved)?;
        while self.current.as_ref().is_some_and(|it| !it.is_on_entry()) {
            match self.at.checked_sub(1) {
                Some(before) => self.enter(before, |it| it.seek_to_last())?,
                None => self.current = None,
            }
        }
        Ok(())
    }

    #[inline]
    fn entry(&self) -> Option<KeyEntry<'_>> {
        self.current.as_ref()?.entry()
    }

    #[inline]
    fn skip_forward(&mut self) -> Result<()> {
        while self.current.as_ref().is_some_and(|it| !it.is_on_entry()) {
            self.enter(self.at + 1, |it| it.seek_to_first())?;
        }
        Ok(())
    }

    fn enter(&mut self, at: usize, go: impl FnOnce(&mut KeyIter) -> Result<()>) -> Result<()> {
        if self.at != at || self.current.is_none() {
            let keys = self.tables.keys(at, self.access)?;
            self.current = keys.map(|keys| match self.buffer {
                Some(bytes) => keys.reading(bytes),
                None => keys,
            });
        }
        self.at = at;
        let went = self.current.as_mut().map_or(Ok(()), go);
        self.moved(went)
    }
}
