//! External values: large ones, in record files of their own. An [`External`] stands for the value
//! in log, memtable and flush (`docs/format.md`, "WAL"); a merge turns it into an ordinary pointer.
//!
//! Invariants: the file is written before its record of the write-ahead log. The frame does not
//! know its sequence number then, so it says [`UNNUMBERED`]; the number stands where the frame is
//! pointed to. An [`External`] has the file's length and checksum, which a reader of the log cannot
//! learn from the file itself.
//!
//! [`UNNUMBERED`]: super::meta::UNNUMBERED

use super::meta::RecordFileMeta;
use super::reader::RecordFile;
use crate::base::coding::Decoder;
use crate::base::file_header::{FileHeader, FileKind, HEADER_LEN};
use crate::base::file_names;
use crate::base::keys::{EXTERNAL_LEN, FileNumber, FileUid};
use crate::error::{Error, Result};
use crate::key_table::{FileFacts, ReadCache, RecordPointer};
use crate::vfs::Access;
use crate::vfs::file_store::FileStore;
use std::sync::Arc;

/// Where an external value stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct External {
    pub(crate) pointer: RecordPointer,
    pub(crate) uid: FileUid,
    pub(crate) file_len: u64,
    pub(crate) file_checksum: u32,
}

impl External {
    /// The value at `pointer` of the finished file that `meta` describes.
    pub(crate) fn new(pointer: RecordPointer, meta: &RecordFileMeta) -> External {
        External {
            pointer,
            uid: meta.uid,
            file_len: meta.len,
            file_checksum: meta.checksum,
        }
    }

    pub(crate) fn encode(&self) -> [u8; EXTERNAL_LEN] {
        let mut out = [0; EXTERNAL_LEN];
        out[0..8].copy_from_slice(&self.pointer.file.0.to_le_bytes());
        out[8..16].copy_from_slice(&self.uid.0.to_le_bytes());
        out[16..24].copy_from_slice(&self.file_len.to_le_bytes());
        out[24..28].copy_from_slice(&self.file_checksum.to_le_bytes());
        out[28..32].copy_from_slice(&self.pointer.len.to_le_bytes());
        out[32..40].copy_from_slice(&self.pointer.offset.to_le_bytes());
        out
    }

    /// Decodes what stands in the place of a value; `None` if it is none.
    pub(crate) fn decode(bytes: &[u8]) -> Option<External> {
        let mut d = Decoder::new(bytes);
        let file = FileNumber(d.u64()?);
        let uid = FileUid(d.u64()?);
        let (file_len, file_checksum) = (d.u64()?, d.u32()?);
        let (len, offset) = (d.u32()?, d.u64()?);
        let pointer = RecordPointer { file, offset, len };
        d.is_empty().then_some(External {
            pointer,
            uid,
            file_len,
            file_checksum,
        })
    }

    /// Opens the file of a value that the log names, and makes sure that it is that file, whole,
    /// and has room for the frame. Reads its header and what stands after its records.
    pub(crate) fn open_file(
        &self,
        store: &Arc<FileStore>,
        cache: &Arc<ReadCache>,
    ) -> Result<Arc<RecordFile>> {
        let number = self.pointer.file;
        let path = store.dir().join(file_names::record(number));
        let damaged = |what: &str| Err(Error::corruption(&path, 0, what));
        match store.env().vfs.len(&path) {
            Ok(len) if len == self.file_len => {}
            Ok(_) => {
                return damaged("the file of a large value has another length than was written");
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                return damaged("the log names this file of a large value, and it is missing");
            }
            Err(e) => return Err(Error::io("look at", &path, e)),
        }
        let file = store.data_file(path.clone(), number, self.uid, Access::Random);
        let mut header = [0; HEADER_LEN];
        file.read_exact_at(&mut header, 0)?;
        let kind = FileKind::Record;
        let header = FileHeader::decode(&header, kind, Some(store.database()), &path)?;
        if (header.uid, header.number) != (self.uid, number) {
            return damaged("this is another file than the log names");
        }
        let facts = FileFacts::read(&file, self.file_len)?;
        if facts.has_key_section {
            return damaged("the log names a table as the file of a large value");
        }
        let file = RecordFile::open(store, self.describe(facts), cache);
        file.check(self.pointer)?;
        Ok(Arc::new(file))
    }

    /// Opens the file of large values with this number, as it stands in the directory. Nothing says
    /// what its checksum is.
    pub(crate) fn open_unlisted(
        store: &Arc<FileStore>,
        cache: &Arc<ReadCache>,
        number: FileNumber,
    ) -> Result<Arc<RecordFile>> {
        let path = store.dir().join(file_names::record(number));
        let io = |e| Error::io("open the file", &path, e);
        let file = store.env().vfs.open(&path, Access::Random).map_err(io)?;
        let mut header = [0; HEADER_LEN];
        let got = file.read_at(&mut header, 0).map_err(io)?;
        let header = header.get(..got).unwrap_or_default();
        let kind = FileKind::Record;
        let header = FileHeader::decode(header, kind, Some(store.database()), &path)?;
        let external = External {
            pointer: RecordPointer {
                file: number,
                offset: 0,
                len: 0,
            },
            uid: header.uid,
            file_len: file.len().map_err(io)?,
            file_checksum: 0,
        };
        let file = store.data_file(path.clone(), number, header.uid, Access::Random);
        let facts = FileFacts::read(&file, external.file_len)?;
        Ok(Arc::new(RecordFile::open(
            store,
            external.describe(facts),
            cache,
        )))
    }

    fn describe(&self, facts: FileFacts) -> RecordFileMeta {
        let (min_seq, max_seq) = (facts.properties.min_seq(), facts.properties.max_seq());
        RecordFileMeta {
            number: self.pointer.file,
            uid: self.uid,
            len: self.file_len,
            records_end: facts.records_end,
            count: facts.properties.records,
            min_key: facts.properties.min_key,
            max_key: facts.properties.max_key,
            min_seq,
            max_seq,
            checksum: self.file_checksum,
            expiry: facts.properties.expiry,
            has_range_deletes: facts.properties.has_range_deletes,
            ranges: facts.properties.ranges,
            key_section: false,
            ingest_seq: None,
            compression: facts.properties.compression,
            refs: facts.properties.refs,
        }
    }

    /// Whether `file`, which has the number that this names, is the file meant, and has room for
    /// the frame.
    pub(crate) fn is_in(&self, file: &RecordFile) -> Result<()> {
        let meta = file.meta();
        let same =
            (meta.uid, meta.len, meta.checksum) == (self.uid, self.file_len, self.file_checksum);
        if !same {
            let what = "this is another file than the one that a large value was written to";
            return Err(Error::corruption(file.path(), 0, what));
        }
        file.check(self.pointer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::golden;

    #[test]
    fn what_stands_for_a_value_is_the_documented_bytes() {
        let external = External {
            pointer: RecordPointer {
                file: FileNumber(0x0102),
                offset: 0x60,
                len: 0x0102_0304,
            },
            uid: FileUid(0x1122_3344_5566_7788),
            file_len: 0x0a0b,
            file_checksum: 0xdead_beef,
        };
        let bytes = external.encode();
        let documented =
            b"\x02\x01\0\0\0\0\0\0\x88\x77\x66\x55\x44\x33\x22\x11\x0b\x0a\0\0\0\0\0\0\
            \xef\xbe\xad\xde\x04\x03\x02\x01\x60\0\0\0\0\0\0\0";
        assert_eq!(&bytes, documented);
        golden::check("external_value", &bytes);
        let stored = golden::load("external_value");
        assert_eq!(External::decode(&stored), Some(external));
        assert_eq!(External::decode(&bytes[1..]), None);
        assert_eq!(External::decode(&[bytes.as_slice(), b"x"].concat()), None);
    }
}
