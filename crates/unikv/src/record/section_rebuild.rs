//! Opening a record file; and what its key section says, from the records before it.

use super::reader::RecordFile;
use super::stream::RecordHead;
use crate::base::file_header::FileKind;
use crate::base::file_names;
use crate::base::keys::SeqNo;
use crate::error::Result;
use crate::key_table::reader::section::KeySection;
use crate::key_table::{EntryValue, KeyEntry, ReadCache, RecordPointer, SpareEntries, TakeEntry};
use crate::record::RecordFileMeta;
use crate::vfs::Access;
use crate::vfs::file_store::FileStore;
use std::sync::Arc;

impl RecordFile {
    /// The file that `meta` describes.
    pub(crate) fn open(
        store: &Arc<FileStore>,
        meta: RecordFileMeta,
        cache: &Arc<ReadCache>,
    ) -> RecordFile {
        let path = store.dir().join(file_names::record(meta.number));
        let file = Arc::new(store.data_file(path, meta.number, meta.uid, Access::Random));
        let kind = FileKind::Record;
        let bare = RecordFile {
            meta: Arc::new(meta),
            file,
            section: None,
            cache: Arc::clone(cache),
            dictionary: Arc::default(),
        };
        let section = bare.meta.key_section.then(|| {
            Arc::new(KeySection::new(
                store,
                Arc::clone(&bare.file),
                kind,
                bare.meta.len,
                bare.meta.ingest_seq,
                cache,
                Some(entries(bare.without_section())),
            ))
        });
        RecordFile { section, ..bare }
    }
}

/// The entries of the section of `file`, which is handed in without it.
pub(super) fn entries(file: RecordFile) -> SpareEntries {
    let file = Arc::new(file);
    SpareEntries::new(move |take| each_entry(&file, take))
}

/// Reads all records. They stand in the order of their keys: a table has them so.
fn each_entry(file: &Arc<RecordFile>, take: &mut TakeEntry<'_>) -> Result<()> {
    let meta = file.meta();
    let mut records = file.stream();
    while let Some(record) = records.next_head()? {
        let RecordHead {
            key,
            seq,
            kind,
            expiry_ms,
            offset,
            frame_len,
            ..
        } = record;
        take(&KeyEntry {
            key: &key,
            // As it was written.
            seq: meta.ingest_seq.map_or(seq, |_| SeqNo(0)),
            kind,
            expiry_ms,
            value: EntryValue::Pointer(RecordPointer {
                file: meta.number,
                offset,
                len: frame_len,
            }),
        })?;
    }
    Ok(())
}
