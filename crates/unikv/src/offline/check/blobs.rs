//! Checking large values: that what stands in their place leads to them.

use crate::base::keys::{FileNumber, Kind};
use crate::engine::stats::report::CheckReport;
use crate::error::{Error, Result};
use crate::key_table::{ReadCache, RecordPointer};
use crate::record::pointed::dangling;
use crate::record::{External, RecordFile, RecordHead, UNNUMBERED, ValueReader};
use crate::version::Version;
use crate::vfs::file_store::FileStore;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a record says that its large value stands. In a table it is followed there; the value is
/// verified with its file. In a value log the record has served, and the value may be gone.
pub(crate) fn named(
    version: &Version,
    is_table: bool,
    table: &RecordFile,
    record: &RecordHead,
) -> Result<RecordPointer> {
    let value = record.value.as_deref().unwrap_or_default();
    let external = decode(value, table.path(), record.offset)?;
    if !is_table {
        return Ok(external.pointer);
    }
    let file = version.record_file(external.pointer.file);
    let file = file.ok_or_else(|| dangling(table.path(), external.pointer))?;
    leads_to(&external, file, &record.key)?;
    Ok(external.pointer)
}

/// Verifies the files that only the log names, by the keys and the places of their values.
pub(crate) fn unlisted(
    store: &Arc<FileStore>,
    cache: &Arc<ReadCache>,
    values: &[(Vec<u8>, Vec<u8>, PathBuf)],
    report: &mut CheckReport,
) -> Result<()> {
    let mut files: BTreeMap<FileNumber, Arc<RecordFile>> = BTreeMap::new();
    for (key, value, path) in values {
        let external = decode(value, path, 0)?;
        let number = external.pointer.file;
        let file = match files.entry(number) {
            Entry::Occupied(found) => found.into_mut(),
            Entry::Vacant(place) => {
                let file = external.open_file(store, cache)?;
                file.verify()?;
                let mut records = file.stream();
                while records.next_head()?.is_some() {
                    report.records += 1;
                }
                report.files += 1;
                report.bytes += file.meta().len;
                place.insert(file)
            }
        };
        leads_to(&external, file, key)?;
        report.pointers += 1;
    }
    Ok(())
}

fn decode(value: &[u8], path: &Path, offset: u64) -> Result<External> {
    External::decode(value).ok_or_else(|| {
        let what = "what stands in the place of a large value is malformed";
        Error::corruption(path, offset, what)
    })
}

fn leads_to(external: &External, file: &Arc<RecordFile>, key: &[u8]) -> Result<()> {
    external.is_in(file)?;
    let record = ValueReader::open(file, external.pointer)?;
    if (record.key(), record.seq(), record.kind()) == (key, UNNUMBERED, Kind::Put) {
        return Ok(());
    }
    let what = "this is not the large value that stands elsewhere for this key";
    Err(Error::corruption(file.path(), record.offset(), what))
}
