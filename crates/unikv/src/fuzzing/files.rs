//! Readers of whole files, for the fuzz targets. No invariants and no locks of its own.

use crate::base::keys::{DatabaseId, FileNumber, FileUid, SeqNo};
use crate::codec::FileCompression;
use crate::engine::open::recovery;
use crate::error::Result;
use crate::fuzzing::figures::{ManifestFigures, ReplayFigures};
use crate::key_table::meta::KeyTableMeta;
use crate::key_table::{EntryValue, FileFacts, KeyIter, KeyTable, ReadCache, RecordPointer};
use crate::log::replay;
use crate::record::{Opened, Record, RecordFile, RecordFileMeta, ValueReader};
use crate::version::manifest::Manifest;
use crate::vfs::file_store::FileStore;
use crate::vfs::{Access, Env};
use std::path::Path;
use std::sync::Arc;

/// Memory of the cache beneath the readers.
const CACHE_BYTES: u64 = 64 << 10;

/// Parts of a value in chunks are not read in less than this.
const LEAST_PART: usize = 100;

/// The files of one database directory.
pub struct Files {
    store: Arc<FileStore>,
    cache: Arc<ReadCache>,
}

/// One version of a key in a key section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// With the keyspace id.
    pub key: Vec<u8>,
    /// Its number.
    pub seq: u64,
    /// What it says about the key.
    pub kind: u8,
    /// When it expires.
    pub expiry_ms: Option<u64>,
    /// Where its value is.
    pub value: Place,
}

/// Where a value is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// There is none.
    None,
    /// Here.
    Inline(Vec<u8>),
    /// At file, offset and length of a frame.
    Pointer(u64, u64, u32),
}

/// A record of a record file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Where it begins.
    pub offset: u64,
    /// How long it is.
    pub len: u32,
    /// With the keyspace id.
    pub key: Vec<u8>,
    /// Its number.
    pub seq: u64,
    /// What it says about the key.
    pub kind: u8,
    /// The value.
    pub value: Vec<u8>,
    /// When it expires.
    pub expiry_ms: Option<u64>,
    /// The host's byte.
    pub host_type: u8,
    /// Whether the next record is an older version of the key.
    pub older_follows: bool,
}

impl Files {
    /// The files of `database` in `dir`.
    pub fn new(env: Env, dir: &Path, database: [u8; 16]) -> Files {
        Files {
            store: FileStore::new(env, dir.to_owned(), DatabaseId(database), 8),
            cache: ReadCache::new(CACHE_BYTES),
        }
    }

    /// Replays the log. `sink` gets base sequence number, count, commit tag and operations of each
    /// write.
    pub fn replay(
        &self,
        segments: &[u64],
        low_water: u64,
        sink: &mut dyn FnMut(u64, u32, Option<&[u8]>, &[u8]),
    ) -> Result<ReplayFigures> {
        let segments: Vec<FileNumber> = segments.iter().map(|&n| FileNumber(n)).collect();
        replay::max_manifest_edits(&self.store, &segments)?;
        let needed = replay::NeededLog {
            low_water: FileNumber(low_water),
            durable: None,
        };
        let done = replay::replay(&self.store, &segments, needed, &mut |_, write| {
            sink(write.base_seq.0, write.count, write.commit_tag, write.ops);
            Ok(())
        })?;
        Ok(ReplayFigures {
            records: done.records,
            ops: done.ops,
            bytes: done.bytes,
            last: done.last.map(|last| (last.number.0, last.end)),
            cut: done.cut,
        })
    }

    /// Reads `CURRENT` and the manifest that it names, and builds the version.
    pub fn manifest(&self) -> Result<ManifestFigures> {
        let found = Manifest::recover(&*self.store.env().vfs, self.store.dir())?;
        let edits = found.edits.iter(&found.path);
        let version = recovery::build_version(&self.store, &self.cache, &found.path, edits)?;
        Ok(ManifestFigures {
            edits: found.edits.len(),
            edit_count: found.edit_count,
            end: found.end,
            snapshot: version.snapshot().encode(),
            cut: found.cut,
        })
    }

    /// The key table with this number and uid, which the manifest would list with `len` bytes.
    pub fn key_table(&self, number: u64, uid: u64, len: u64) -> Keys {
        let meta = KeyTableMeta {
            number: FileNumber(number),
            uid: FileUid(uid),
            len,
            count: 0,
            min_key: Vec::new(),
            max_key: Vec::new(),
            min_seq: SeqNo(0),
            max_seq: SeqNo(0),
            checksum: 0,
            refs: Vec::new(),
            inline_bytes: 0,
            older_bytes: 0,
            newest: None,
            expiry: None,
            expiring: Default::default(),
            has_range_deletes: false,
            clip: None,
            compression: FileCompression::default(),
        };
        Keys(Arc::new(KeyTable::open(&self.store, meta, &self.cache)))
    }

    /// The record file with this number and uid, which the manifest would list with `len` bytes, of
    /// which those before `records_end` are records, and with a key section.
    pub fn record_file(&self, number: u64, uid: u64, len: u64, records_end: u64) -> Records {
        let meta = RecordFileMeta {
            number: FileNumber(number),
            uid: FileUid(uid),
            len,
            records_end,
            count: 0,
            min_key: Vec::new(),
            max_key: Vec::new(),
            min_seq: SeqNo(0),
            max_seq: SeqNo(0),
            checksum: 0,
            expiry: None,
            has_range_deletes: false,
            ranges: None,
            key_section: true,
            refs: Vec::new(),
            ingest_seq: None,
            compression: FileCompression::default(),
        };
        let file = RecordFile::open(&self.store, meta, &self.cache);
        let meta = RecordFileMeta {
            compression: match file.facts() {
                Ok(facts) => facts.properties.compression,
                Err(_) => FileCompression::default(),
            },
            ..file.meta().clone()
        };
        let file = RecordFile::open(&self.store, meta, &self.cache);
        Records {
            file: Arc::new(file),
            number,
        }
    }

    /// The range tombstones of a record file, where its properties say that they stand: first key,
    /// first key after, and number of each.
    pub fn range_tombstones(&self, records: &Records) -> Result<Vec<(Vec<u8>, Vec<u8>, u64)>> {
        let mut meta = records.file.meta().clone();
        let ranges = records.file.facts()?.properties.ranges;
        meta.ranges = ranges.filter(|ranges| ranges.offset <= meta.records_end);
        let file = Arc::new(RecordFile::open(&self.store, meta, &self.cache));
        let all = file.range_tombstones()?.into_iter();
        Ok(all.map(|t| (t.start, t.end, t.seq.0)).collect())
    }
}

/// A key table.
pub struct Keys(Arc<KeyTable>);

impl Keys {
    /// The newest version of `key` that is not newer than `seq`: its number and kind.
    pub fn get(&self, key: &[u8], seq: u64) -> Result<Option<(u64, u8)>> {
        let found = self.0.get(key, SeqNo(seq))?;
        Ok(found.map(|entry| (entry.seq.0, entry.kind as u8)))
    }

    /// An iterator: around the cache if it is `sequential`, else through it.
    pub fn iter(&self, sequential: bool) -> Cursor {
        Cursor(self.0.iter(access(sequential)))
    }

    /// Which part of the entries lies before `key`.
    pub fn part_before(&self, key: &[u8]) -> Result<f64> {
        self.0.part_before(key)
    }

    /// What the file says of itself.
    pub fn facts(&self) -> Result<Facts> {
        self.0.facts().map(Facts::of)
    }
}

/// An iterator over a key section.
pub struct Cursor(KeyIter);

/// Where a [`Cursor`] goes.
#[derive(Clone, Copy, Debug)]
pub enum Go<'a> {
    /// To the first entry.
    First,
    /// To the last entry.
    Last,
    /// To the next entry.
    Next,
    /// To the entry before.
    Back,
    /// To the first entry at or after this position.
    To(&'a [u8], u64),
}

impl Cursor {
    /// Goes there and says where it is then.
    pub fn go(&mut self, step: Go<'_>) -> Result<Option<Entry>> {
        match step {
            Go::First => self.0.seek_to_first(),
            Go::Last => self.0.seek_to_last(),
            Go::Next => self.0.next(),
            Go::Back => self.0.prev(),
            Go::To(key, seq) => self.0.seek(key, SeqNo(seq)),
        }?;
        Ok(self.0.entry().map(|entry| Entry {
            key: entry.key.to_vec(),
            seq: entry.seq.0,
            kind: entry.kind as u8,
            expiry_ms: entry.expiry_ms,
            value: match entry.value {
                EntryValue::None => Place::None,
                EntryValue::Inline(value) => Place::Inline(value.to_vec()),
                EntryValue::Pointer(p) => Place::Pointer(p.file.0, p.offset, p.len),
            },
        }))
    }
}

/// What a file says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Where its records end.
    pub records_end: u64,
    /// How many they are.
    pub records: u64,
    /// How many entries its key section has.
    pub entries: u64,
    /// The least and the greatest key.
    pub keys: (Vec<u8>, Vec<u8>),
    /// Record files that it points to: number, frames, bytes.
    pub refs: Vec<(u64, u64, u64)>,
}

impl Facts {
    fn of(facts: FileFacts) -> Facts {
        let found = facts.properties;
        let refs = found.refs.iter().map(|r| (r.file.0, r.count, r.bytes));
        Facts {
            records_end: facts.records_end,
            records: found.records,
            entries: found.entries,
            refs: refs.collect(),
            keys: (found.min_key, found.max_key),
        }
    }
}

/// A record file.
pub struct Records {
    file: Arc<RecordFile>,
    number: u64,
}

impl Records {
    /// All records from the front, and the error at which reading ends.
    pub fn stream(&self) -> (Vec<Frame>, Result<()>) {
        let mut stream = self.file.stream();
        let mut frames = Vec::new();
        loop {
            match stream.next() {
                Ok(Some(record)) => frames.push(frame(record)),
                Ok(None) => return (frames, Ok(())),
                Err(error) => return (frames, Err(error)),
            }
        }
    }

    /// The record that a pointer names.
    pub fn get(&self, offset: u64, len: u32) -> Result<Frame> {
        self.file.get(self.pointer(offset, len)).map(frame)
    }

    /// The record at `offset`, read with this guess of its length.
    pub fn read_hinted(&self, offset: u64, guess: usize) -> Result<Frame> {
        self.file.read_hinted(offset, guess).map(frame)
    }

    /// The records that pointers name.
    pub fn read_many(&self, pointers: &[(u64, u32)]) -> Vec<Result<Frame>> {
        let pointers = pointers
            .iter()
            .map(|&(offset, len)| self.pointer(offset, len));
        let (pointers, mut out): (Vec<_>, _) = (pointers.collect(), Vec::new());
        self.file.read_many(&pointers, &mut out);
        out.into_iter().map(|read| read.map(frame)).collect()
    }

    /// The value that a pointer names, read in pieces. `None`: it is compressed, and its pieces
    /// verify.
    pub fn read_in_pieces(&self, offset: u64, len: u32, piece: usize) -> Result<Option<Vec<u8>>> {
        let pointer = self.pointer(offset, len);
        let mut value = Vec::new();
        if let Opened::Chunked(chunked) = self.file.open_record(pointer)? {
            while value.len() < chunked.len() {
                let part = chunked.part(value.len()..value.len() + piece.max(LEAST_PART))?;
                value.extend_from_slice(&part);
            }
            return Ok(Some(value));
        }
        let mut reader = ValueReader::open(&self.file, pointer)?;
        while value.len() < reader.stored_len() {
            let at = value.len();
            value.resize((at + piece.max(1)).min(reader.stored_len()), 0);
            reader.read(value.get_mut(at..).unwrap_or_default())?;
        }
        let is_raw = reader.is_raw();
        reader.finish().map(|()| is_raw.then_some(value))
    }

    /// An iterator over the key section.
    pub fn keys(&self, sequential: bool) -> Result<Cursor> {
        self.file.keys(access(sequential)).map(Cursor)
    }

    /// What the file says of itself.
    pub fn facts(&self) -> Result<Facts> {
        self.file.facts().map(Facts::of)
    }

    fn pointer(&self, offset: u64, len: u32) -> RecordPointer {
        let file = FileNumber(self.number);
        RecordPointer { file, offset, len }
    }
}

fn frame(record: Record) -> Frame {
    Frame {
        offset: record.offset(),
        len: record.frame_len() as u32,
        key: record.key().to_vec(),
        seq: record.seq().0,
        kind: record.kind() as u8,
        value: record.value_slice().to_vec(),
        expiry_ms: record.expiry_ms(),
        host_type: record.host_type(),
        older_follows: record.older_follows(),
    }
}

fn access(sequential: bool) -> Access {
    if sequential {
        Access::Sequential
    } else {
        Access::Random
    }
}
