//! Look-ups that read no value: whether a key has one, and how long it is.
//!
//! They go the way of [`View::get`], and where that reads a record they read the block of keys that
//! points to it: its checksum covers the key, and that of a record covers the value, too. So a
//! value that is damaged is there for them.

use super::hidden::Hidden;
use super::value_place::{Found, ValuePlace};
use super::view::{LOG, View};
use super::{ReadCounters, Visibility, sorted_store, unsorted_store};
use crate::base::hash::key_hash;
use crate::base::keys::{Kind, SeqNo};
use crate::base::seeded::{seeded, slip};
use crate::base::sync::atomic::Ordering;
use crate::error::Result;
use std::path::Path;

impl View {
    /// Where the value is that `key` has for a read.
    pub(crate) fn find(
        &self,
        key: &[u8],
        mut at: Visibility,
        counters: &ReadCounters,
    ) -> Result<Option<Found<'_>>> {
        at.seq = slip!(FindNewest, SeqNo::MAX, at.seq);
        let hash = key_hash(self.version.counters.hash_seed, key);
        let mut has_ranges = false;
        for handle in self.memtables() {
            has_ranges |= handle.table.has_ranges();
            if let Some(entry) = handle.table.get(key, hash, at.seq) {
                if has_ranges && self.is_hidden_in_memory(key, entry.seq, at.seq) {
                    return Ok(None);
                }
                let expiry_ms = entry.expiry_ms;
                let place = match entry.kind {
                    Kind::Delete if seeded!(FindTombstones) => ValuePlace::Known(0),
                    kind if !at.shows(kind, expiry_ms, &self.clock) => return Ok(None),
                    Kind::External => ValuePlace::External(entry.value),
                    _ => ValuePlace::Known(entry.value.len()),
                };
                return Ok(Some(Found { place, expiry_ms }));
            }
        }
        let Some(partition) = self.version.partition_for(key) else {
            return Ok(None);
        };
        let hidden = match has_ranges || partition.ranges.is_some() {
            true => self.hidden(partition, key, at.seq)?,
            false => Hidden::default(),
        };
        if !partition.generations.is_empty() {
            counters.index_lookups.fetch_add(1, Ordering::Relaxed);
            let found = unsorted_store::find(partition, key, hash, at.seq)?;
            if let Some((table, entry, pointer)) = found {
                if hidden.hides(entry.seq)? {
                    return Ok(None);
                }
                let expiry_ms = entry.expiry_ms;
                let place = match entry.kind {
                    kind if !at.shows(kind, expiry_ms, &self.clock) => return Ok(None),
                    Kind::External => ValuePlace::Named(table, pointer),
                    _ => ValuePlace::Record(table, pointer),
                };
                return Ok(Some(Found { place, expiry_ms }));
            }
        }
        sorted_store::find(self, partition, (key, hash), at, &hidden)
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
