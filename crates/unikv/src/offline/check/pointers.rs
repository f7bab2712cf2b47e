//! Following the pointers of keys to their records, when a database is checked.

use crate::base::keys::{FileNumber, Kind, SeqNo};
use crate::error::{Error, Result};
use crate::key_table::{EntryValue, KeyEntry, RecordFileRefs, RecordPointer};
use crate::record::{RecordFile, STREAMED_BYTES, UNNUMBERED, ValueReader};
use crate::version::Version;
use std::collections::BTreeMap;
use std::path::Path;

/// Pointers that are followed together, in file order: this many, or to this many bytes.
const POINTER_BATCH: usize = 4096;
const POINTER_BATCH_BYTES: u64 = 16 << 20;

/// A pointer that is still to be followed, and what its entry says of the record.
type Pending = (RecordPointer, Vec<u8>, SeqNo, Kind);

/// Refuses a record that is not the one a pointer of `path` was made for.
fn same_record(
    (key, seq, kind): (&[u8], SeqNo, Kind),
    expected: (&[u8], SeqNo, Kind),
    (file, offset): (&RecordFile, u64),
    path: &Path,
) -> Result<()> {
    // A large value's record has no sequence number of its own.
    let seq = if seq == UNNUMBERED { expected.1 } else { seq };
    if (key, seq, kind) == expected {
        return Ok(());
    }
    let what = format!("a pointer of {} leads to another record", path.display());
    Err(Error::corruption(file.path(), offset, what))
}

/// Pointers that are still to be followed, and the sums over all.
#[derive(Default)]
pub(crate) struct Pointers {
    pending: Vec<Pending>,
    /// Bytes of the records that they name.
    pending_bytes: u64,
    sums: BTreeMap<FileNumber, (u64, u64)>,
}

impl Pointers {
    pub(crate) fn add(&mut self, entry: &KeyEntry<'_>, path: &Path) -> Result<()> {
        match entry.value {
            EntryValue::Pointer(pointer) => {
                let sums = self.sums.entry(pointer.file).or_default();
                sums.0 += 1;
                sums.1 += u64::from(pointer.len);
                self.pending_bytes += u64::from(pointer.len);
                self.pending
                    .push((pointer, entry.key.to_vec(), entry.seq, entry.kind));
            }
            EntryValue::None if entry.kind == Kind::Put => {
                return Err(Error::corruption(path, 0, "a put has no value"));
            }
            EntryValue::None | EntryValue::Inline(_) => {}
        }
        Ok(())
    }

    /// Whether there are as many as are followed together.
    pub(crate) fn is_full(&self) -> bool {
        self.pending.len() >= POINTER_BATCH || self.pending_bytes >= POINTER_BATCH_BYTES
    }

    pub(crate) fn refs(&self) -> Vec<RecordFileRefs> {
        let sums = self.sums.iter();
        sums.map(|(file, (count, bytes))| RecordFileRefs {
            file: *file,
            count: *count,
            bytes: *bytes,
        })
        .collect()
    }

    /// Follows the pending pointers in file order and returns how many there were.
    pub(crate) fn follow(&mut self, version: &Version, path: &Path) -> Result<u64> {
        self.pending
            .sort_unstable_by_key(|(pointer, ..)| (pointer.file, pointer.offset));
        for run in self.pending.chunk_by(|a, b| a.0.file == b.0.file) {
            let Some((first, ..)) = run.first() else {
                continue;
            };
            let Some(file) = version.record_file(first.file) else {
                return Err(crate::record::pointed::dangling(path, *first));
            };
            let (large, small): (Vec<&Pending>, Vec<&Pending>) = run
                .iter()
                .partition(|(pointer, ..)| pointer.len >= STREAMED_BYTES);
            for (pointer, key, seq, kind) in large {
                // Its value is verified with its file.
                let record = ValueReader::open(file, *pointer)?;
                let found = (record.key(), record.seq(), record.kind());
                same_record(found, (key, *seq, *kind), (file, pointer.offset), path)?;
            }
            let wanted: Vec<RecordPointer> = small.iter().map(|(pointer, ..)| *pointer).collect();
            let (mut next, mut failed) = (small.iter(), None);
            // One by one: large values may take little when they are compressed.
            file.read_sorted(&wanted, |_, record, _| {
                let Some((pointer, key, seq, kind)) = next.next() else {
                    return;
                };
                let same = record.and_then(|record| {
                    let found = (record.key(), record.seq(), record.kind());
                    same_record(found, (key, *seq, *kind), (file, pointer.offset), path)
                });
                failed = failed.take().or(same.err());
            });
            if let Some(error) = failed {
                return Err(error);
            }
        }
        let followed = self.pending.len() as u64;
        self.pending.clear();
        self.pending_bytes = 0;
        Ok(followed)
    }
}
