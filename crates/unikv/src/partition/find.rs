//! Look-ups that read no value: whether a key has one, and how long it is.
//!
//! They go the way of [`View::get`], and where that reads a record they read the block of keys that
//! points to it: its checksum covers the key, and that of a record covers the value, too. So a
//! value that is damaged is there for them.

use super::value_place::ValuePlace;
use super::view::{LOG, View};
use super::{ReadCounters, sorted_store, unsorted_store};
use crate::base::hash::key_hash;
use crate::base::keys::{Kind, SeqNo};
use crate::base::seeded::{seeded, slip};
use crate::base::sync::atomic::Ordering;
use crate::error::Result;
use std::path::Path;

impl View {
    /// Where the value is that `key` has as of `snapshot`.
    pub(crate) fn find(
        &self,
        key: &[u8],
        snapshot: SeqNo,
        counters: &ReadCounters,
    ) -> Result<Option<ValuePlace<'_>>> {
        let snapshot = slip!(FindNewest, SeqNo::MAX, snapshot);
        let hash = key_hash(self.version.counters.hash_seed, key);
        for handle in std::iter::once(&self.memtable).chain(&self.sealed) {
            if let Some(entry) = handle.table.get(key, hash, snapshot) {
                return Ok(match entry.kind {
                    Kind::Delete if seeded!(FindTombstones) => Some(ValuePlace::Known(0)),
                    Kind::Delete => None,
                    Kind::External => Some(ValuePlace::External(entry.value)),
                    _ => Some(ValuePlace::Known(entry.value.len())),
                });
            }
        }
        let Some(partition) = self.version.partition_for(key) else {
            return Ok(None);
        };
        if !partition.generations.is_empty() {
            counters.index_lookups.fetch_add(1, Ordering::Relaxed);
            let found = unsorted_store::find(partition, key, hash, snapshot)?;
            if let Some((table, _, kind, pointer)) = found {
                return Ok(match kind {
                    Kind::Delete => None,
                    Kind::External => Some(ValuePlace::Named(table, pointer)),
                    _ => Some(ValuePlace::Record(table, pointer)),
                });
            }
        }
        sorted_store::find(&self.version, partition, key, hash, snapshot)
    }

    /// The length of a value that was found. Reads at most the header of its record.
    pub(crate) fn value_len(&self, place: ValuePlace<'_>) -> Result<usize> {
        let (file, pointer) = match place {
            ValuePlace::Known(len) => return Ok(len),
            ValuePlace::Record(file, pointer) => return file.value_len(pointer),
            ValuePlace::External(external) => self.external_place(external, Path::new(LOG))?,
            ValuePlace::Named(table, pointer) => {
                self.external_place(&table.get(pointer)?.into_value(), table.path())?
            }
        };
        file.value_len(pointer)
    }
}
