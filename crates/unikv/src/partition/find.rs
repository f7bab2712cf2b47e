//! Look-ups that read no value, or parts of one: whether a key has one, how long it is, and some of
//! its bytes.
//!
//! They go the way of [`View::get`], and where that reads a record they read the block of keys that
//! points to it: its checksum covers the key, and that of a record covers the value, too. So a
//! value that is damaged is there for them.

use super::hidden::Hidden;
use super::value_place::{Found, OpenValue, ValuePlace};
use super::view::{LOG, View};
use super::{ReadCounters, Visibility, sorted_store, unsorted_store};
use crate::base::hash::key_hash;
use crate::base::keys::{Kind, SeqNo};
use crate::base::seeded::{seeded, slip};
use crate::base::sync::atomic::Ordering;
use crate::error::Result;
use crate::record::pointed::{check_found, dangling};
use crate::record::{Opened, part_of, within};
use bytes::Bytes;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

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
                    Kind::Delete if seeded!(FindTombstones) => ValuePlace::Memory(&[]),
                    kind if !at.shows(kind, expiry_ms, &self.clock) => return Ok(None),
                    Kind::External => ValuePlace::External(entry.value),
                    _ => ValuePlace::Memory(entry.value),
                };
                return Ok(Some(Found {
                    place,
                    seq: entry.seq,
                    expiry_ms,
                }));
            }
        }
        let Some(partition) = self.version.partition_for(key) else {
            return Ok(None);
        };
        let hidden = if has_ranges || partition.ranges.is_some() {
            self.hidden(partition, key, at.seq)?
        } else {
            Hidden::default()
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
                return Ok(Some(Found {
                    place,
                    seq: entry.seq,
                    expiry_ms,
                }));
            }
        }
        sorted_store::find(self, partition, (key, hash), at, &hidden)
    }

    /// The length of a value that was found. Reads at most the header of its record.
    pub(crate) fn value_len(&self, place: ValuePlace<'_>) -> Result<usize> {
        let (file, pointer) = match place {
            ValuePlace::Memory(value) => return Ok(value.len()),
            ValuePlace::Inline(value) => return Ok(value.len()),
            ValuePlace::Record(file, pointer) => return file.value_len(pointer),
            ValuePlace::External(external) => self.external_place(external, Path::new(LOG))?,
            ValuePlace::Named(table, pointer) => {
                self.external_place(&table.get(pointer)?.into_value(), table.path())?
            }
        };
        file.value_len(pointer)
    }

    /// The bytes `range` of the value of `key` that was found, as far as it has them.
    pub(crate) fn part(&self, key: &[u8], found: Found<'_>, range: Range<usize>) -> Result<Bytes> {
        if let ValuePlace::Memory(value) = found.place {
            let part = value.get(within(range, value.len()));
            return Ok(Bytes::copy_from_slice(part.unwrap_or_default()));
        }
        match self.open(key, found)? {
            OpenValue::Memory(value) => Ok(part_of(value, range)),
            OpenValue::Chunked(value) => value.part(range),
        }
    }

    /// The value of `key` that was found, for reading parts of it.
    pub(crate) fn open(&self, key: &[u8], found: Found<'_>) -> Result<OpenValue> {
        let (file, pointer) = match found.place {
            ValuePlace::Memory(value) => {
                return Ok(OpenValue::Memory(Bytes::copy_from_slice(value)));
            }
            ValuePlace::Inline(value) => return Ok(OpenValue::Memory(value)),
            ValuePlace::Record(file, pointer) => {
                let listed = self.version.record_file(pointer.file);
                let listed = listed.ok_or_else(|| dangling(file.path(), pointer))?;
                (Arc::clone(listed), pointer)
            }
            ValuePlace::External(external) => self.external_place(external, Path::new(LOG))?,
            ValuePlace::Named(table, pointer) => {
                self.external_place(&table.get(pointer)?.into_value(), table.path())?
            }
        };
        let opened = file.open_record(pointer)?;
        let expected = (key, found.seq, Kind::Put);
        check_found(opened.found(), expected, file.path(), pointer)?;
        Ok(match opened {
            Opened::Whole(record) => OpenValue::Memory(record.into_value()),
            Opened::Chunked(value) => OpenValue::Chunked(value),
        })
    }
}
