//! Writing an export.

use super::Export;
use super::format::{
    BLOCK_HEADER_LEN, CHECKSUM_LEN, ENTRIES_BYTES, End, Entry, Head, LARGE_BYTES, MOST_PAYLOAD,
    kind,
};
use super::new_file::NewFile;
use crate::base::bounds::KeyBounds;
use crate::base::checksum::Crc;
use crate::base::file_header::FileKind;
use crate::base::keys::{FileNumber, KeyspaceId};
use crate::db::reader::Reader;
use crate::db::snapshot::Snapshot;
use crate::engine::read::iter::Toward;
use crate::engine::read::value_reader::ValueReader;
use crate::error::{Error, Result};
use crate::key_table::OutputFile;
use crate::version::keyspaces::DEFAULT_NAME;
use std::path::Path;

/// Bytes of a part of a large value.
const PART_BYTES: usize = 256 << 10;

const _: () = assert!(PART_BYTES <= MOST_PAYLOAD);

/// Writes what a snapshot shows of a range to a new file.
pub(super) fn export(snapshot: &Snapshot, range: &impl KeyBounds, path: &Path) -> Result<Export> {
    // Also what only the wall clock hides: another one may show it where it is imported.
    let moment = snapshot.with_hidden();
    let shown = snapshot.reader();
    let reader = Reader {
        source: moment.source(shown.source.keyspace),
        moment: Some(&moment),
        ..shown
    };
    let (read, source) = (reader.read, reader.source);
    let core = &read.core;
    core.check_open()?;
    core.check_outside(path, "choose a place elsewhere")?;
    let head = head_of(snapshot)?;
    let new = NewFile::begin(&core.outside, path, core.store.database())?;
    let mut out = Writer::begin(&new, &head)?;
    // The clock is not needed where nothing expires.
    let expires = core.clock.is_needed();
    let mut entries = reader.range(range);
    while let Some(entry) = entries.next_key(Toward::Upper) {
        let (key, value) = entry?;
        let expiry_ms = if expires {
            match read.expiry(source, &key)? {
                Some(expiry_ms) => expiry_ms,
                // A job that began before has destroyed it, so it had expired by its time.
                None => continue,
            }
        } else {
            None
        };
        match value {
            Some(value) if value.len() < LARGE_BYTES => out.add(&key, expiry_ms, &value)?,
            _ => match reader.get_reader(&key)? {
                Some(value) => out.add_from(&key, expiry_ms, value)?,
                None if expiry_ms.is_some() => {}
                None => return Err(Error::internal("a snapshot has lost a key")),
            },
        }
    }
    let end = out.finish()?;
    new.finish()?;
    Ok(Export {
        records: end.0.records,
        bytes: end.0.bytes,
        file_bytes: end.1,
        seq: head.seq,
    })
}

/// What the export says of itself.
fn head_of(snapshot: &Snapshot) -> Result<Head> {
    let (seq, time_ms, keyspace) = snapshot.shows();
    let view = snapshot.reader().read.view.load();
    let name = match keyspace {
        KeyspaceId::DEFAULT => DEFAULT_NAME.to_owned(),
        id => view.version.keyspaces.existing(id)?.name.clone(),
    };
    Ok(Head {
        keyspace: name,
        options: snapshot.keyspace_options()?,
        seq,
        time_ms,
    })
}

struct Writer {
    file: OutputFile,
    entries: Vec<u8>,
    end: End,
    checksums: Crc,
}

impl Writer {
    fn begin(new: &NewFile, head: &Head) -> Result<Writer> {
        let header = OutputFile::header(&new.store, FileKind::Export, FileNumber(0));
        let name = new.temp().file_name().unwrap_or_default();
        let mut writer = Writer {
            file: OutputFile::create(&new.store, name, header, 0)?,
            entries: Vec::new(),
            end: End::default(),
            checksums: Crc::default(),
        };
        writer.block(kind::HEAD, &head.encode()?)?;
        Ok(writer)
    }

    fn add(&mut self, key: &[u8], expiry_ms: Option<u64>, value: &[u8]) -> Result<()> {
        self.add_entry(&Entry {
            key,
            expiry_ms,
            len: value.len(),
            value: Some(value),
        })
    }

    /// Adds a value that is read in parts.
    fn add_from(
        &mut self,
        key: &[u8],
        expiry_ms: Option<u64>,
        mut value: ValueReader,
    ) -> Result<()> {
        let len = usize::try_from(value.len()).unwrap_or(usize::MAX);
        let mut part = vec![0; len.min(PART_BYTES)];
        if len < LARGE_BYTES {
            fill(&mut value, &mut part)?;
            return self.add(key, expiry_ms, &part);
        }
        self.add_entry(&Entry {
            key,
            expiry_ms,
            len,
            value: None,
        })?;
        self.end_entries()?;
        let mut left = len;
        while left > 0 {
            let part = part.get_mut(..left.min(PART_BYTES)).unwrap_or_default();
            fill(&mut value, part)?;
            left -= part.len();
            self.block(kind::PART, part)?;
        }
        Ok(())
    }

    fn add_entry(&mut self, entry: &Entry<'_>) -> Result<()> {
        self.end.records += 1;
        self.end.bytes += (entry.key.len() + entry.len) as u64;
        entry.encode(&mut self.entries);
        if self.entries.len() >= ENTRIES_BYTES {
            self.end_entries()
        } else {
            Ok(())
        }
    }

    fn end_entries(&mut self) -> Result<()> {
        if self.entries.is_empty() {
            return Ok(());
        }
        let mut entries = std::mem::take(&mut self.entries);
        self.block(kind::ENTRIES, &entries)?;
        entries.clear();
        self.entries = entries;
        Ok(())
    }

    fn block(&mut self, kind: u8, payload: &[u8]) -> Result<()> {
        debug_assert!(payload.len() <= MOST_PAYLOAD);
        let mut header = [0; BLOCK_HEADER_LEN];
        let (checksum, rest) = header.split_at_mut(CHECKSUM_LEN);
        let (len, kind_at) = rest.split_at_mut(4);
        len.copy_from_slice(&(payload.len() as u32).to_le_bytes());
        kind_at.copy_from_slice(&[kind]);
        let crc = Crc::default().update(rest).update(payload);
        let crc = crc.bind(self.file.uid(), self.file.len()).to_le_bytes();
        checksum.copy_from_slice(&crc);
        self.checksums = self.checksums.update(&crc);
        self.file.append(&header)?;
        self.file.append(payload)
    }

    /// Ends it; its bytes are durable then. Returns also its length.
    fn finish(mut self) -> Result<(End, u64)> {
        self.end_entries()?;
        self.end.checksums = self.checksums.raw();
        let end = self.end;
        self.block(kind::END, &end.encode())?;
        let (len, _) = self.file.finish()?;
        Ok((end, len))
    }
}

fn fill(value: &mut ValueReader, mut out: &mut [u8]) -> Result<()> {
    while !out.is_empty() {
        let len = value.read_on(out)?;
        if len == 0 {
            return Err(Error::internal("a value is shorter than it says"));
        }
        out = out.split_at_mut(len).1;
    }
    Ok(())
}
