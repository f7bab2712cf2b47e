//! Judging what ranges return.

use crate::exit::Failure;
use crate::torture::model::{Effect, Record, prefix_range};
use crate::torture::oracle::{Found, in_words};
use crate::torture::worker::{found, mismatch};
use std::ops::Range;
use unikv::{Bytes, Iter};
use unikv_bench::workload::keys::mix as hash;

/// The keys of a thread from one index to before another.
pub fn key_range(thread: u64, indexes: &Range<u64>) -> Range<Vec<u8>> {
    let key = |index| Record { thread, index }.key();
    key(indexes.start)..key(indexes.end)
}

/// Reads a range of keys of one thread and compares it with the versions that it must have. Gives
/// the number of entries.
pub fn expect_range(
    iterate: impl FnOnce(Range<Vec<u8>>) -> Iter,
    thread: u64,
    indexes: Range<u64>,
    version: impl Fn(u64) -> u32,
    backwards: bool,
) -> Result<u64, Failure> {
    let iter = iterate(key_range(thread, &indexes));
    let expected = indexes.filter(|&index| {
        let record = Record { thread, index };
        record.effect(version(index)) != Effect::Absent
    });
    let expected = expected.map(|index| (Record { thread, index }, version(index)));
    if backwards {
        let expected: Vec<_> = expected.collect();
        expect_entries(iter.rev(), expected.into_iter().rev())
    } else {
        expect_entries(iter, expected)
    }
}

/// Compares entries with the records and versions that they must be.
fn expect_entries(
    mut entries: impl Iterator<Item = unikv::Result<(Bytes, Bytes)>>,
    expected: impl Iterator<Item = (Record, u32)>,
) -> Result<u64, Failure> {
    let mut count = 0;
    for (record, version) in expected {
        let entry = entries.next().transpose()?;
        expect_entry(entry, record, version)?;
        count += 1;
    }
    match entries.next().transpose()? {
        None => Ok(count),
        Some((key, _)) => Err(foreign(&key, "the end of the range")),
    }
}

/// Compares one entry with what it must be.
pub fn expect_entry(
    entry: Option<(Bytes, Bytes)>,
    record: Record,
    version: u32,
) -> Result<(), Failure> {
    let expected = || in_words(record, version);
    let Some((key, value)) = entry else {
        return Err(mismatch("scan", record, expected(), "the end"));
    };
    if key[..] != record.key()[..] {
        let found = format!("the key {}", key.escape_ascii());
        return Err(mismatch("scan", record, expected(), found));
    }
    match found(record, Some(&value))? {
        found if found == Found::Version(version) => Ok(()),
        found => Err(mismatch("scan", record, expected(), found)),
    }
}

/// Reads entries of any thread: in order, each a version of its key that is at most `newest`, and
/// one version in each batch. Gives the number of entries and a digest of keys and versions.
pub fn wide_scan(
    entries: impl Iterator<Item = unikv::Result<(Bytes, Bytes)>>,
    newest: impl Fn(Record) -> u32,
) -> Result<(u64, u64), Failure> {
    let (mut count, mut digest) = (0, 0_u64);
    let mut last: Option<Bytes> = None;
    // First key and version of the batch that the scan is in.
    let mut batch: Option<(Record, u32)> = None;
    for entry in entries {
        let (key, value) = entry?;
        let record = Record::of_key(&key).ok_or_else(|| foreign(&key, "keys of the load"))?;
        if last.as_ref().is_some_and(|last| *last >= key) {
            return Err(foreign(&key, "ascending keys"));
        }
        let Found::Version(version) = found(record, Some(&value))? else {
            continue;
        };
        if version > newest(record) {
            let expected = format!("at most version {}", newest(record));
            return Err(mismatch("scan", record, expected, version));
        }
        let first = record.unit().start;
        match batch {
            Some((of, seen)) if of.index == first && of.thread == record.thread => {
                if seen != version {
                    let expected = format!("version {seen}, as of its neighbour in the batch");
                    return Err(mismatch("scan", record, expected, version));
                }
            }
            _ => {
                let of = Record {
                    index: first,
                    ..record
                };
                batch = Some((of, version));
            }
        }
        digest = hash(digest ^ hash(record.thread << 40 ^ record.index) ^ u64::from(version));
        last = Some(key);
        count += 1;
    }
    Ok((count, digest))
}

/// All keys of one thread, as an iterator's bounds.
pub fn whole_thread(thread: u64) -> Range<Vec<u8>> {
    prefix_range(thread)
}

/// A key where another was expected.
#[cold]
pub fn foreign(key: &[u8], expected: &str) -> Failure {
    Failure::verification(format!(
        "scan: the key {} where {expected} was expected",
        key.escape_ascii()
    ))
}
