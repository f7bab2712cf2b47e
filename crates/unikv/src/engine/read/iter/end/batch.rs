//! A batch of an iteration while it is gathered, and what it holds.

use crate::base::keys::{Kind, SeqNo};
use crate::error::Result;
use crate::key_table::{EntryValue, KeyEntry, RecordPointer};
use crate::record::pointed::check_pointed;
use crate::record::{Record, STREAMED_BYTES};
use bytes::Bytes;
use std::ops::Range;
use std::path::Path;

/// A batch ends early when its keys reach this many bytes: a caller that keeps one may keep them
/// all.
const KEYS_BYTES: u64 = 64 << 10;

/// A visible entry: where its engine key stands in the keys of its batch, and its value.
pub(super) struct Entry {
    pub(super) key: Range<usize>,
    pub(super) value: Value,
    /// Its value is a part of a buffer that counts by itself.
    pub(super) is_shared: bool,
}

pub(super) enum Value {
    Ready(Bytes),
    /// To be fetched with its batch.
    Stored {
        pointer: RecordPointer,
        seq: SeqNo,
    },
    /// A large one, to be looked up when it is handed out.
    Large,
    /// Nobody wants it.
    Left,
}

/// A batch that is being gathered.
pub(super) struct Batch {
    pub(super) entries: Vec<Entry>,
    pub(super) keys: Vec<u8>,
    pub(super) value_bytes: u64,
    pub(super) most_value_bytes: u64,
    /// How many entries it may have.
    pub(super) len: usize,
    /// Whether its last key is the one that the cursor has dealt with last.
    pub(super) ends_with_last: bool,
}

impl Batch {
    pub(super) fn is_full(&self) -> bool {
        self.entries.len() >= self.len
            || self.keys.len() as u64 >= self.most_value_bytes.min(KEYS_BYTES)
            || self.value_bytes >= self.most_value_bytes
    }

    pub(super) fn last_key(&self) -> Option<&[u8]> {
        self.keys.get(self.entries.last()?.key.clone())
    }

    pub(super) fn push(&mut self, key: &[u8], value: Value) {
        self.value_bytes += match &value {
            Value::Ready(value) => value.len() as u64,
            Value::Stored { pointer, .. } => u64::from(pointer.len),
            Value::Large | Value::Left => 0,
        };
        let start = self.keys.len();
        self.keys.extend_from_slice(key);
        let key = start..self.keys.len();
        self.entries.push(Entry {
            key,
            value,
            is_shared: false,
        });
    }
}

impl Entry {
    /// Bytes that its value takes at present, beside what counts by itself.
    pub(super) fn value_bytes(&self) -> usize {
        match &self.value {
            Value::Ready(value) if !self.is_shared => value.len(),
            _ => 0,
        }
    }

    pub(super) fn key_in<'a>(&self, keys: &'a Bytes) -> &'a [u8] {
        keys.get(self.key.clone()).unwrap_or_default()
    }

    /// Takes the value of the record that its pointer led to, if there is room for it. Else it is
    /// looked up when it is handed out.
    pub(super) fn take_value(
        &mut self,
        keys: &Bytes,
        record: Result<Record>,
        is_shared: bool,
        path: &Path,
        room: &mut u64,
    ) {
        if let Value::Stored { pointer, seq, .. } = self.value {
            let key = self.key_in(keys);
            let verified = record.and_then(|record| {
                check_pointed(&record, (key, seq, Kind::Put), path, pointer)?;
                let is_shared = is_shared && record.is_raw();
                Ok(if is_shared {
                    (true, record.into_part())
                } else {
                    (false, record.into_value())
                })
            });
            if let Ok((is_shared, value)) = verified {
                let left = room.checked_sub(value.len() as u64);
                *room = left.unwrap_or(*room);
                self.is_shared = is_shared;
                self.value = match left {
                    Some(_) => Value::Ready(value),
                    None => Value::Large,
                };
            }
        }
    }
}

impl Value {
    /// The value of an entry, which may be left where it is; `None` for a tombstone.
    pub(super) fn of(entry: &KeyEntry<'_>, leave: bool) -> Option<Value> {
        match (entry.kind, entry.value) {
            (Kind::Delete, _) | (_, EntryValue::None) => None,
            _ if leave => Some(Value::Left),
            (Kind::External, _) => Some(Value::Large),
            (_, EntryValue::Inline(value)) => Some(Value::Ready(Bytes::copy_from_slice(value))),
            (_, EntryValue::Pointer(pointer)) if pointer.len >= STREAMED_BYTES => {
                Some(Value::Large)
            }
            (_, EntryValue::Pointer(pointer)) => Some(Value::Stored {
                pointer,
                seq: entry.seq,
            }),
        }
    }
}

/// The first key after `key`.
pub(super) fn after(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}
