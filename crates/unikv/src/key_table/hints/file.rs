//! The file of hints: replaced as a whole, read chunk by chunk.

use super::chunk::{Hint, MOST_CHUNK_BYTES, MOST_HINTS, decode, encode};
use crate::base::checksum::bound;
use crate::base::file_header::{FileHeader, FileKind, HEADER_LEN};
use crate::base::file_names;
use crate::base::keys::{DatabaseId, FileNumber, FileUid};
use crate::error::{Error, Result};
use crate::vfs::file_store::FileStore;
use crate::vfs::{Access, ReadFile, Vfs, WriteMode};
use std::mem;
use std::path::Path;
use std::sync::Arc;

const LEN_BYTES: usize = 4;
const CRC_BYTES: usize = 4;

/// What a file of hints holds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Written {
    pub(crate) hints: u64,
    pub(crate) bytes: u64,
}

/// Puts a file of these hints in the place of the one that was there: the hottest portion first,
/// each ascending. A power cut may leave either of them, or a damaged one: that costs a slow
/// beginning.
pub(crate) fn write_hints(
    store: &FileStore,
    portions: impl Iterator<Item = Vec<Hint>>,
) -> Result<Written> {
    let vfs = &store.env().vfs;
    let temp = store.dir().join(file_names::CACHE_HINTS_TEMP);
    let path = store.dir().join(file_names::CACHE_HINTS);
    // What a process that was killed has left.
    let _absent_mostly = vfs.remove(&temp);
    let written = write_file(store, &temp, portions).and_then(|written| {
        let renamed = vfs.rename(&temp, &path);
        renamed.map_err(|e| Error::io("replace this file", &path, e))?;
        Ok(written)
    });
    written.inspect_err(|_| {
        // What cannot be removed now is swept at the next opening.
        let _swept_later = vfs.remove(&temp);
    })
}

fn write_file(
    store: &FileStore,
    path: &Path,
    portions: impl Iterator<Item = Vec<Hint>>,
) -> Result<Written> {
    let header = FileHeader {
        kind: FileKind::CacheHints,
        database: store.database(),
        uid: store.new_uid(),
        number: FileNumber(0),
        required: 0,
    };
    let io = |e| Error::io("write this file", path, e);
    let mut file = store
        .env()
        .vfs
        .create(path, WriteMode::Bulk, 0)
        .map_err(io)?;
    file.append(&header.encode()).map_err(io)?;
    let mut written = Written::default();
    for portion in portions {
        for hints in portion.chunks(MOST_HINTS) {
            let body = encode(hints);
            let crc = bound(header.uid, file.len(), &body);
            file.append(&(body.len() as u32).to_le_bytes())
                .map_err(io)?;
            file.append(&body).map_err(io)?;
            file.append(&crc.to_le_bytes()).map_err(io)?;
            written.hints += hints.len() as u64;
        }
    }
    written.bytes = file.len();
    file.finish().map_err(io)?;
    Ok(written)
}

/// A reader of the hints that a process before this one has left. It ends at the first damage.
#[derive(Debug)]
pub(crate) struct HintReader {
    file: Arc<dyn ReadFile>,
    uid: FileUid,
    len: u64,
    /// Where the next chunk begins.
    at: u64,
    /// How many were read.
    hints: u64,
    /// Read, and given back.
    rest: Vec<Hint>,
}

impl HintReader {
    /// The hints of the database of `store`, if there are any that can be read.
    pub(crate) fn of(store: &FileStore) -> Option<HintReader> {
        let path = store.dir().join(file_names::CACHE_HINTS);
        HintReader::open(&*store.env().vfs, &path, Some(store.database()))
    }

    /// The hints in the file at `path`, if they can be read and are of `database`, if one is named.
    pub(crate) fn open(
        vfs: &dyn Vfs,
        path: &Path,
        database: Option<DatabaseId>,
    ) -> Option<HintReader> {
        let file = vfs.open(path, Access::Sequential).ok()?;
        let mut header = [0; HEADER_LEN];
        let got = file.read_at(&mut header, 0).ok()?;
        let kind = FileKind::CacheHints;
        let header = FileHeader::decode(header.get(..got)?, kind, database, path).ok()?;
        Some(HintReader {
            uid: header.uid,
            len: file.len().ok()?,
            at: HEADER_LEN as u64,
            hints: 0,
            rest: Vec::new(),
            file,
        })
    }

    /// The bytes of the file.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Where the next chunk begins.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// How many hints were read so far.
    pub(crate) fn hints(&self) -> u64 {
        self.hints
    }

    /// What is left of a chunk comes next.
    pub(crate) fn give_back(&mut self, rest: &[Hint]) {
        self.rest = rest.to_vec();
    }

    /// What was given back, or the hints of the next chunk.
    pub(crate) fn next(&mut self) -> Option<Vec<Hint>> {
        if !self.rest.is_empty() {
            return Some(mem::take(&mut self.rest));
        }
        let mut len = [0; LEN_BYTES];
        self.fill(&mut len, self.at)?;
        let len = u32::from_le_bytes(len) as usize;
        if len > MOST_CHUNK_BYTES {
            return None;
        }
        let mut bytes = vec![0; len + CRC_BYTES];
        self.fill(&mut bytes, self.at + LEN_BYTES as u64)?;
        let (body, crc) = bytes.split_last_chunk::<CRC_BYTES>()?;
        if u32::from_le_bytes(*crc) != bound(self.uid, self.at, body) {
            return None;
        }
        let hints = decode(body)?;
        self.at += (LEN_BYTES + bytes.len()) as u64;
        self.hints += hints.len() as u64;
        Some(hints)
    }

    fn fill(&self, bytes: &mut [u8], offset: u64) -> Option<()> {
        let got = self.file.read_at(bytes, offset).ok()?;
        (got == bytes.len()).then_some(())
    }
}
