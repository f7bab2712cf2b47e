//! The view that a read holds, and point lookups in it (paper §III-B, "Key lookup").
//!
//! Order of search, newest data first: memtable, sealed memtables, the UnsortedStore of the key's
//! partition through its hash indexes, the SortedStore. The first version at or below the snapshot
//! decides, also when it is a tombstone; see [`super::hidden`] for those of ranges.

use super::{LargeFiles, Visibility, sorted_store, unsorted_store};
use crate::base::hash::key_hash;
use crate::base::keys::{FileNumber, Kind, SeqNo};
use crate::base::sync::atomic::Ordering;
use crate::error::Result;
use crate::memtable::Memtable;
use crate::partition::counters::ReadCounters;
use crate::version::{Partition, Version};
use crate::vfs::clock::Clock;
use bytes::Bytes;
use std::path::Path;
use std::sync::Arc;

/// Where an entry of a memtable is said to stand: its segment is not known.
pub(super) const LOG: &str = "the write-ahead log";

/// A memtable, the first WAL segment that holds its writes, and the files of its large values.
#[derive(Clone)]
pub(crate) struct MemtableHandle {
    pub(crate) table: Arc<Memtable>,
    pub(crate) wal: FileNumber,
    pub(crate) large: Arc<LargeFiles>,
}

impl MemtableHandle {
    pub(crate) fn new(table: Memtable, wal: FileNumber) -> MemtableHandle {
        MemtableHandle {
            table: Arc::new(table),
            wal,
            large: Arc::default(),
        }
    }
}

/// Everything a read needs, immutable but for the growing memtable.
#[derive(Clone)]
pub(crate) struct View {
    pub(crate) memtable: MemtableHandle,
    /// Sealed memtables, newest first.
    pub(crate) sealed: Vec<MemtableHandle>,
    pub(crate) version: Arc<Version>,
    /// The time of the database.
    pub(crate) clock: Arc<Clock>,
}

impl View {
    /// All memtables, newest first.
    pub(crate) fn memtables(&self) -> impl Iterator<Item = &MemtableHandle> {
        std::iter::once(&self.memtable).chain(&self.sealed)
    }

    /// The newest commit tag of a caller among the writes up to `seq`.
    pub(crate) fn commit_tag(&self, seq: SeqNo) -> Option<Bytes> {
        let in_memory = self
            .commit_tag_in_memory(seq)
            .map(|(_, commit_tag)| commit_tag);
        let flushed = || self.version.counters.commit_tag.as_ref();
        in_memory.or_else(|| flushed().map(|commit_tag| Bytes::copy_from_slice(commit_tag)))
    }

    /// The newest commit tag of a caller among the writes up to `seq` that are in memtables, and
    /// the number of its write.
    pub(crate) fn commit_tag_in_memory(&self, seq: SeqNo) -> Option<(SeqNo, Bytes)> {
        let tables = self.memtables().map(|handle| &handle.table);
        tables
            .filter_map(|table| table.numbered_commit_tag(seq))
            .next()
    }

    /// The value that `key` has for a read. A tombstone says `None` as absence does.
    pub(crate) fn get(
        &self,
        key: &[u8],
        at: &Visibility,
        counters: &ReadCounters,
    ) -> Result<Option<Bytes>> {
        let hash = key_hash(self.version.counters.hash_seed, key);
        let mut has_ranges = false;
        // [`View::find`] has the same loop: one function for both makes this one 5 % slower.
        let (mut handle, mut sealed) = (&self.memtable, self.sealed.iter());
        loop {
            has_ranges |= handle.table.has_ranges();
            if let Some(entry) = handle.table.get(key, hash, at.seq) {
                if has_ranges && self.is_hidden_in_memory(key, entry.seq, at.seq) {
                    return Ok(None);
                }
                return match entry.kind {
                    Kind::Delete => Ok(None),
                    _ if at.has_expired(entry.expiry_ms, &self.clock) => Ok(None),
                    Kind::External => self
                        .external_value(key, entry.seq, entry.value, Path::new(LOG))
                        .map(Some),
                    _ => Ok(Some(Bytes::copy_from_slice(entry.value))),
                };
            }
            match sealed.next() {
                Some(next) => handle = next,
                None => break,
            }
        }
        let Some(partition) = self.version.partition_for(key) else {
            return Ok(None);
        };
        if (has_ranges || partition.ranges.is_some())
            && let Some(found) = self.get_among_ranges(partition, (key, hash), *at)?
        {
            return Ok(found);
        }
        if !partition.generations.is_empty() {
            counters.index_lookups.fetch_add(1, Ordering::Relaxed);
            let found = unsorted_store::get(partition, key, hash, at.seq, counters)?;
            if let Some((table, found)) = found {
                return match found.kind() {
                    kind if !at.shows(kind, found.expiry_ms(), &self.clock) => Ok(None),
                    Kind::External => self
                        .external_value(key, found.seq(), found.value(), table.path())
                        .map(Some),
                    _ => Ok(Some(found.into_value())),
                };
            }
        }
        sorted_store::get(self, partition, key, hash, *at, counters)
    }

    /// What is found of a key in tables, if something of it may be hidden. `None`: nothing is.
    #[cold]
    fn get_among_ranges(
        &self,
        partition: &Partition,
        (key, hash): (&[u8], u64),
        at: Visibility,
    ) -> Result<Option<Option<Bytes>>> {
        let hidden = self.hidden(partition, key, at.seq)?;
        if hidden.is_nothing() {
            return Ok(None);
        }
        // By the key sections: this is not to be compiled once more for a record by the index.
        let Some(listed) = unsorted_store::find(partition, key, hash, at.seq)? else {
            return sorted_store::get_visible(self, partition, key, at, &hidden).map(Some);
        };
        if hidden.hides(listed.1.seq)? {
            return Ok(Some(None));
        }
        let (table, found) = unsorted_store::read_listed(listed, key)?;
        Ok(Some(match found.kind() {
            kind if !at.shows(kind, found.expiry_ms(), &self.clock) => None,
            Kind::External => {
                let (seq, value) = (found.seq(), found.value());
                Some(self.external_value(key, seq, value, table.path())?)
            }
            _ => Some(found.into_value()),
        }))
    }
}
