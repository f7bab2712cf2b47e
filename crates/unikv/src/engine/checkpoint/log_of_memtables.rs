//! A segment of the log with the writes that memtables hold, for copies that a secondary makes: the
//! segments that it has read are their writer's, who may write over them at any moment.
//!
//! # Invariants
//! - Each write that is wanted is in it, under its number, and no other. Writes that were made
//!   together may stand apart: the whole segment is durable before anybody can open the copy.
//! - The newest commit tag stands in the record that ends with the commit tag's number.
//!
//! No locks.

use crate::base::keys::{FileNumber, SeqNo};
use crate::error::{Error, Result};
use crate::log::{WalWrite, WalWriter};
use crate::memtable::{MemEntry, encode_op};
use crate::partition::MemtableHandle;
use crate::vfs::file_store::FileStore;
use bytes::Bytes;

/// A record is ended when its operations take this much.
const RECORD_BYTES: usize = 256 << 10;

/// What of memtables is wanted.
pub(crate) struct Wanted {
    /// Oldest first.
    pub(crate) memtables: Vec<MemtableHandle>,
    /// The writes after the first number, up to the second.
    pub(crate) numbers: (SeqNo, SeqNo),
    /// The newest commit tag of these, and its number.
    pub(crate) commit_tag: Option<(SeqNo, Bytes)>,
}

/// Writes the segment `number` in the directory of `store`: durable then, but for its name.
pub(super) fn write(store: &FileStore, number: FileNumber, wanted: &Wanted) -> Result<()> {
    let (after, until) = wanted.numbers;
    let commit_tag = wanted.commit_tag.clone();
    let mut records = Records {
        log: WalWriter::create(store, number, None, 0, None, None)?,
        ops: Vec::new(),
        base: SeqNo(0),
        count: 0,
        commit_tag: commit_tag.filter(|(seq, _)| *seq > after),
    };
    for MemtableHandle { table, .. } in &wanted.memtables {
        table.each_written(after, until, |entry| records.add(entry))?;
    }
    records.end_with_commit_tag()?;
    let synced = records.log.sync_handle().sync();
    synced.map_err(|e| Error::io("sync", records.log.path(), e))
}

struct Records {
    log: WalWriter,
    /// Of the record that is next.
    ops: Vec<u8>,
    base: SeqNo,
    count: u32,
    /// The commit tag that is still to be written.
    commit_tag: Option<(SeqNo, Bytes)>,
}

impl Records {
    /// The number after the operations of the record that is next.
    fn next(&self) -> u64 {
        self.base.0 + u64::from(self.count)
    }

    fn add(&mut self, entry: &MemEntry<'_>) -> Result<()> {
        if self
            .commit_tag
            .as_ref()
            .is_some_and(|(at, _)| *at < entry.seq)
        {
            self.end_with_commit_tag()?;
        } else if self.next() != entry.seq.0 || self.ops.len() >= RECORD_BYTES {
            self.end(None)?;
        }
        if self.count == 0 {
            self.base = entry.seq;
        }
        let MemEntry { key, value, .. } = entry;
        encode_op(&mut self.ops, entry.kind, entry.expiry_ms, key, value);
        self.count += 1;
        Ok(())
    }

    /// Ends the record, with the commit tag if that is of its last write, and else with one after
    /// it.
    fn end_with_commit_tag(&mut self) -> Result<()> {
        let Some((seq, commit_tag)) = self.commit_tag.take() else {
            return self.end(None);
        };
        if self.count == 0 || self.next() != seq.0 + 1 {
            self.end(None)?;
            self.base = seq;
            return self.write(Some(&commit_tag));
        }
        self.end(Some(&commit_tag))
    }

    fn end(&mut self, commit_tag: Option<&[u8]>) -> Result<()> {
        match self.count {
            0 => Ok(()),
            _ => self.write(commit_tag),
        }
    }

    fn write(&mut self, commit_tag: Option<&[u8]>) -> Result<()> {
        let write = WalWrite {
            base_seq: self.base,
            count: self.count,
            commit_tag,
            ops: &self.ops,
        };
        if WalWriter::is_large(write.ops) {
            self.log.write_large(&write, None)?;
        } else {
            self.log.stage(&write, None);
            self.log.write_staged()?;
        }
        self.ops.clear();
        self.count = 0;
        Ok(())
    }
}
