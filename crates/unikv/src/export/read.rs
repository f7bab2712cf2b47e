//! Reading an export from front to back, every byte of it verified.
//!
//! Memory holds one block, which is not longer than the rest of the file nor than a MiB.

use super::Export;
use super::format::{
    BLOCK_HEADER_LEN, CHECKSUM_LEN, End, Entry, Head, MOST_PAYLOAD, damaged, kind,
};
use crate::base::checksum::Crc;
use crate::base::coding::Decoder;
use crate::base::file_header::{FileHeader, FileKind, HEADER_LEN};
use crate::base::keys::FileUid;
use crate::base::seeded::seeded;
use crate::error::{Error, Result};
use crate::jobs::ingest::Content;
use crate::vfs::{Access, ReadFile, Vfs};
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const CUT: &str = "the export is cut: it ends before its end block";

pub(super) struct Reader {
    file: Arc<dyn ReadFile>,
    path: PathBuf,
    uid: FileUid,
    len: u64,
    /// Where the next block begins.
    at: u64,
    /// Of the block that was read last.
    payload: Vec<u8>,
    checksums: Crc,
    head: Head,
    end: End,
    last_key: Vec<u8>,
}

impl Reader {
    /// Reads the beginning.
    ///
    /// # Errors
    /// As [`ExportFile::open`](super::ExportFile::open).
    pub(super) fn open(vfs: &dyn Vfs, path: &Path) -> Result<Reader> {
        let file = vfs.open(path, Access::Sequential);
        let file = file.map_err(|e| Error::io("open the file", path, e))?;
        let io = |e| Error::io("read the file", path, e);
        let mut header = [0; HEADER_LEN];
        let got = file.read_at(&mut header, 0).map_err(io)?;
        let header = header.get(..got).unwrap_or_default();
        if FileHeader::looks_foreign(header) {
            let what = "this is no export";
            return Err(Error::incompatible(
                path,
                what,
                "give the file that `export` made",
            ));
        }
        let header = FileHeader::decode(header, FileKind::Export, None, path);
        let header = header.map_err(|error| match error.offset() {
            Some(offset) => damaged(path, offset, "the header of the export is damaged"),
            None => error,
        })?;
        let len = file.len().map_err(io)?;
        let mut reader = Reader {
            file,
            path: path.to_owned(),
            uid: header.uid,
            len,
            at: HEADER_LEN as u64,
            payload: Vec::new(),
            checksums: Crc::default(),
            head: Head {
                keyspace: String::new(),
                options: Default::default(),
                seq: 0,
                time_ms: 0,
            },
            end: End::default(),
            last_key: Vec::new(),
        };
        let begin = reader.at;
        match reader.next_block()? {
            kind::HEAD => {}
            _ => {
                return Err(damaged(
                    path,
                    begin,
                    "the export does not begin with its head",
                ));
            }
        }
        reader.head = Head::decode(&reader.payload, path, begin)?;
        Ok(reader)
    }

    pub(super) fn head(&self) -> &Head {
        &self.head
    }

    /// The length of the file.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Hands out all entries: key, when it expires, value. Nothing is to be relied on before this
    /// has returned.
    pub(super) fn visit(
        mut self,
        mut sink: impl FnMut(&[u8], Option<u64>, Content<'_>) -> Result<()>,
    ) -> Result<Export> {
        loop {
            let begin = self.at;
            if begin == self.len && seeded!(CutExportImported) {
                return Ok(self.summary());
            }
            match self.next_block()? {
                kind::ENTRIES => self.visit_block(begin, &mut sink)?,
                kind::END => {
                    self.check_end(begin)?;
                    return Ok(self.summary());
                }
                kind::HEAD | kind::PART => {
                    return Err(self.damaged(begin, "a block stands where none of its kind may"));
                }
                kind => return Err(self.unknown(kind)),
            }
        }
    }

    fn summary(&self) -> Export {
        Export {
            records: self.end.records,
            bytes: self.end.bytes,
            file_bytes: self.len,
            seq: self.head.seq,
        }
    }

    fn visit_block(
        &mut self,
        begin: u64,
        sink: &mut impl FnMut(&[u8], Option<u64>, Content<'_>) -> Result<()>,
    ) -> Result<()> {
        let payload = mem::take(&mut self.payload);
        let mut d = Decoder::new(&payload);
        while !d.is_empty() {
            let at = begin + (BLOCK_HEADER_LEN + payload.len() - d.remaining()) as u64;
            let entry = Entry::decode(&mut d);
            let entry = entry.ok_or_else(|| self.damaged(at, "an entry is malformed"))?;
            if self.end.records > 0 && entry.key <= &self.last_key[..] {
                return Err(self.damaged(at, "a key is not greater than the one before"));
            }
            self.last_key.clear();
            self.last_key.extend_from_slice(entry.key);
            self.end.records += 1;
            self.end.bytes += (entry.key.len() + entry.len) as u64;
            match entry.value {
                Some(value) => sink(entry.key, entry.expiry_ms, Content::Value(value))?,
                None => {
                    let mut parts = Parts {
                        left: entry.len,
                        used: 0,
                        reader: &mut *self,
                    };
                    let mut fill = |out: &mut [u8]| parts.fill(out);
                    let content = Content::Parts(Some(entry.len), &mut fill);
                    sink(entry.key, entry.expiry_ms, content)?;
                    parts.pass()?;
                }
            }
        }
        self.payload = payload;
        Ok(())
    }

    /// Reads the next block, verifies it, and returns its kind.
    fn next_block(&mut self) -> Result<u8> {
        let begin = self.at;
        let mut header = [0; BLOCK_HEADER_LEN];
        self.fill(&mut header, begin)?;
        let (checksum, rest) = header.split_at(CHECKSUM_LEN);
        let mut d = Decoder::new(rest);
        let (len, kind) = (d.u32().unwrap_or_default(), d.u8().unwrap_or_default());
        let payload_at = begin + BLOCK_HEADER_LEN as u64;
        let len = len as usize;
        if len > MOST_PAYLOAD {
            return Err(self.damaged(begin, "a block says that it is longer than any can be"));
        }
        if len as u64 > self.len.saturating_sub(payload_at) {
            return Err(self.damaged(begin, CUT));
        }
        let mut payload = mem::take(&mut self.payload);
        payload.resize(len, 0);
        self.fill(&mut payload, payload_at)?;
        let crc = Crc::default().update(rest).update(&payload);
        if crc.bind(self.uid, begin).to_le_bytes() != checksum {
            return Err(self.damaged(begin, "the checksum of a block does not match"));
        }
        if kind != kind::END {
            self.checksums = self.checksums.update(checksum);
        }
        self.payload = payload;
        self.at = payload_at + len as u64;
        Ok(kind)
    }

    fn check_end(&self, begin: u64) -> Result<()> {
        let expected = End {
            checksums: self.checksums.raw(),
            ..self.end
        };
        if End::decode(&self.payload) != Some(expected) {
            return Err(self.damaged(
                begin,
                "the export says at its end that it holds other entries",
            ));
        }
        if self.at == self.len {
            Ok(())
        } else {
            Err(self.damaged(self.at, "something stands after the end of the export"))
        }
    }

    fn fill(&self, out: &mut [u8], offset: u64) -> Result<()> {
        let got = self.file.read_at(out, offset);
        let got = got.map_err(|e| Error::io("read the file", &self.path, e))?;
        if got == out.len() {
            Ok(())
        } else {
            Err(self.damaged(offset, CUT))
        }
    }

    fn damaged(&self, offset: u64, what: &str) -> Error {
        damaged(&self.path, offset, what)
    }

    fn unknown(&self, kind: u8) -> Error {
        let what =
            format!("the export has a block of kind {kind}, which this release does not know");
        Error::incompatible(
            &self.path,
            what,
            "import it with the newer release that made it",
        )
    }
}

/// A large value whose parts come next.
struct Parts<'r> {
    reader: &'r mut Reader,
    /// Bytes that were not handed out.
    left: usize,
    /// Bytes of the reader's payload that were.
    used: usize,
}

impl Parts<'_> {
    /// Fills `out`, but for what comes after the end of the value.
    fn fill(&mut self, out: &mut [u8]) -> Result<usize> {
        let wanted = self.left.min(out.len());
        let mut out = out.get_mut(..wanted).unwrap_or_default();
        while !out.is_empty() {
            if self.used >= self.reader.payload.len() {
                self.next_part()?;
            }
            let part = self.reader.payload.get(self.used..).unwrap_or_default();
            let len = part.len().min(out.len());
            let (now, later) = out.split_at_mut(len);
            now.copy_from_slice(part.get(..len).unwrap_or_default());
            out = later;
            self.used += len;
            self.left -= len;
        }
        Ok(wanted)
    }

    /// Reads what nobody has asked for.
    fn pass(mut self) -> Result<()> {
        while self.left > 0 {
            if self.used >= self.reader.payload.len() {
                self.next_part()?;
            }
            let len = self.reader.payload.len() - self.used;
            self.used += len;
            self.left -= len;
        }
        Ok(())
    }

    /// The next part, which has bytes, and not more than are left.
    fn next_part(&mut self) -> Result<()> {
        let begin = self.reader.at;
        let kind = self.reader.next_block()?;
        let len = self.reader.payload.len();
        if kind != kind::PART || len == 0 || len > self.left {
            return Err(self
                .reader
                .damaged(begin, "this is not the part of a value that follows"));
        }
        self.used = 0;
        Ok(())
    }
}
