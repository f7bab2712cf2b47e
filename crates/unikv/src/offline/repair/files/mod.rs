//! The data files of the damaged database: which of them belong to it, and reading single records.
//!
//! A file belongs to the database if its header says so, or if the manifest knows its uid, to which
//! all its checksums are bound. A damaged header hides nothing else: the uid comes from the
//! manifest, or is the one that stands in the header, if anything in the file verifies with it.
//!
//! No locks; nothing is written.

pub(crate) mod from_files;
pub(crate) mod header;
pub(crate) mod holes;
mod range_walk;
pub(crate) mod source;
mod torn;
pub(crate) mod trust;
pub(crate) mod vouch;
pub(crate) mod walk;

use super::report::RepairedFile;
use crate::base::file_header::FileKind;
use crate::base::file_names;
use crate::base::keys::{FileNumber, FileUid, Kind, SeqNo};
use crate::codec::FileCompression;
use crate::error::{Error, Result};
use crate::key_table::block::walk::facts;
use crate::key_table::{FileFacts, ReadCache, RecordPointer};
use crate::offline::repair::files::header::{Header, header_of, refuse_newer};
use crate::record::walk::FrameWalk;
use crate::record::{External, Record, RecordFile, RecordFileMeta, UNNUMBERED};
use crate::vfs::Access;
use crate::vfs::file_store::{DataFile, FileStore};
use bytes::Bytes;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

/// A data file that belongs to the database.
pub(super) struct Found {
    pub(super) file: Arc<DataFile>,
    pub(super) number: FileNumber,
    /// Bytes that are there, and that belong to it.
    pub(super) len: u64,
    /// What it says of itself, where that can be read.
    pub(super) facts: Option<FileFacts>,
}

/// Looks at the data file `number` of `kind`. `listed`: its uid and length, as the manifest has
/// them. `None`: it is none of this database, or nothing in it can be read; `entry` says which.
pub(super) fn look_at(
    store: &Arc<FileStore>,
    kind: FileKind,
    number: FileNumber,
    listed: Option<(FileUid, u64)>,
    entry: &mut RepairedFile,
) -> Result<Option<Found>> {
    let uid = listed.map(|(uid, _)| uid);
    let path = path_of(store, kind, number);
    refuse_newer(store.env(), &path, kind)?;
    let header = header_of(store.env(), &path)?;
    let len = store.env().vfs.len(&path);
    let len = len.map_err(|e| Error::io("look at", &path, e))?;
    entry.bytes = len;
    // What a file ends with is found from its end.
    let end = listed.map_or(len, |(_, listed)| listed.min(len));
    if end < len {
        entry.fault(end, "the file goes on behind its end");
    }
    let len = end;
    let stated = header.as_ref().map(|header| header.raw.uid);
    if header.as_ref().is_none_or(|h| h.is_mended || !h.is_whole()) {
        entry.fault(0, "the file header is damaged");
    }
    let whole = header.filter(Header::is_whole);
    let found = |uid| {
        let file = Arc::new(store.data_file(path.clone(), number, uid, Access::Sequential));
        let facts = facts(&file, len).ok();
        Found {
            file,
            number,
            len,
            facts,
        }
    };
    if let Some(Header { raw, .. }) = whole {
        if raw.database != store.database() {
            entry.ignored = Some("the file belongs to another database".to_owned());
            return Ok(None);
        }
        let same_uid = uid.is_none_or(|uid| uid == raw.uid);
        if raw.number != number || raw.kind != kind as u8 || !same_uid {
            let what = "this is another file of the database under this name";
            entry.fault(0, what);
            if uid.is_none() {
                entry.ignored = Some(what.to_owned());
                return Ok(None);
            }
        }
        return Ok(Some(found(uid.unwrap_or(raw.uid))));
    }
    if let Some(uid) = uid {
        return Ok(Some(found(uid)));
    }
    if let Some(uid) = stated {
        let found = found(uid);
        if found.facts.is_some() || has_frames(&found, kind)? {
            return Ok(Some(found));
        }
    }
    entry.ignored = Some("nothing in it can be read".to_owned());
    Ok(None)
}

/// Whether any frame verifies, header and payload.
fn has_frames(found: &Found, kind: FileKind) -> Result<bool> {
    if kind != FileKind::Record {
        return Ok(false);
    }
    let mut walk = FrameWalk::new(&found.file, found.len);
    while let Some(walked) = walk.next()? {
        if walked.frame.is_some() && walked.fault.is_none() {
            return Ok(true);
        }
    }
    Ok(false)
}

pub(super) fn path_of(store: &FileStore, kind: FileKind, number: FileNumber) -> PathBuf {
    let name = match kind {
        FileKind::KeyTable => file_names::key_table(number),
        _ => file_names::record(number),
    };
    store.dir().join(name)
}

/// What a file of which no manifest says is taken for.
pub(super) fn describe(found: &Found) -> RecordFileMeta {
    let properties = found.facts.as_ref().map(|facts| &facts.properties);
    let records_end = found.facts.as_ref().map_or(found.len, |f| f.records_end);
    RecordFileMeta {
        number: found.number,
        uid: found.file.uid(),
        len: found.len,
        records_end,
        count: properties.map_or(0, |p| p.records),
        min_key: properties.map_or(Vec::new(), |p| p.min_key.clone()),
        max_key: properties.map_or(Vec::new(), |p| p.max_key.clone()),
        min_seq: properties.map_or(SeqNo(0), |p| p.min_seq()),
        max_seq: properties.map_or(SeqNo(0), |p| p.max_seq()),
        checksum: 0,
        expiry: None,
        has_range_deletes: properties.is_some_and(|p| p.has_range_deletes),
        ranges: properties.and_then(|p| p.ranges.clone()),
        key_section: found.facts.as_ref().is_some_and(|f| f.has_key_section),
        refs: properties.map_or(Vec::new(), |p| p.refs.clone()),
        ingest_seq: None,
        compression: properties.map_or(FileCompression::default(), |p| p.compression),
    }
}

/// A value that was read, or where it is.
pub(super) enum Fetched {
    Value(Bytes),
    /// It is large, and stands there.
    Elsewhere(RecordPointer),
}

/// A record that is pointed to, with the key and the sequence number that it must have.
pub(super) type Meant<'a> = (RecordPointer, &'a [u8], SeqNo);

/// The record files, for reading what claims point to.
pub(super) struct Files {
    store: Arc<FileStore>,
    cache: Arc<ReadCache>,
    open: RefCell<BTreeMap<FileNumber, Arc<RecordFile>>>,
    learned: RefCell<BTreeSet<FileNumber>>,
}

impl Files {
    pub(super) fn new(store: &Arc<FileStore>, cache: &Arc<ReadCache>) -> Files {
        Files {
            store: Arc::clone(store),
            cache: Arc::clone(cache),
            open: RefCell::default(),
            learned: RefCell::default(),
        }
    }

    /// Makes a file known.
    pub(super) fn add(&self, meta: RecordFileMeta) {
        let file = RecordFile::open(&self.store, meta, &self.cache);
        let number = file.meta().number;
        self.open.borrow_mut().insert(number, Arc::new(file));
    }

    /// Makes the file of a large value known, as the log reports it. False: another file has its
    /// name.
    pub(super) fn learn(&self, external: &External) -> bool {
        let number = external.pointer.file;
        self.learned.borrow_mut().insert(number);
        if let Some(known) = self.get(number) {
            return known.meta().uid == external.uid;
        }
        self.add(RecordFileMeta {
            number,
            uid: external.uid,
            len: external.file_len,
            records_end: external.file_len,
            count: 0,
            min_key: Vec::new(),
            max_key: Vec::new(),
            min_seq: UNNUMBERED,
            max_seq: UNNUMBERED,
            checksum: external.file_checksum,
            expiry: None,
            has_range_deletes: false,
            ranges: None,
            key_section: false,
            refs: Vec::new(),
            ingest_seq: None,
            compression: FileCompression::default(),
        });
        true
    }

    /// The files that hold the large values of the log.
    pub(super) fn learned(&self) -> Vec<FileNumber> {
        self.learned.borrow().iter().copied().collect()
    }

    /// The path of a file, known or not.
    pub(super) fn path(&self, number: FileNumber) -> PathBuf {
        path_of(&self.store, FileKind::Record, number)
    }

    /// The path of a segment of the log.
    pub(super) fn segment(&self, number: FileNumber) -> PathBuf {
        self.store.dir().join(file_names::wal(number))
    }

    fn get(&self, number: FileNumber) -> Option<Arc<RecordFile>> {
        self.open.borrow().get(&number).cloned()
    }

    /// The value of `key` at `pointer`, verified.
    pub(super) fn read(&self, pointer: RecordPointer, key: &[u8], seq: SeqNo) -> Result<Bytes> {
        match self.fetch(pointer, key, seq)? {
            Fetched::Value(value) => Ok(value),
            Fetched::Elsewhere(pointer) => match self.fetch(pointer, key, seq)? {
                Fetched::Value(value) => Ok(value),
                Fetched::Elsewhere(_) => Err(self.other_record(pointer)),
            },
        }
    }

    fn fetch(&self, pointer: RecordPointer, key: &[u8], seq: SeqNo) -> Result<Fetched> {
        let mut read = self.read_many(&[(pointer, key, seq)]);
        read.pop().unwrap_or(Err(self.other_record(pointer)))
    }

    /// What stands at each of the pointers, for the given keys and sequence numbers.
    pub(super) fn read_many(&self, wanted: &[Meant<'_>]) -> Vec<Result<Fetched>> {
        let mut order: Vec<usize> = (0..wanted.len()).collect();
        order.sort_by_key(|&i| wanted.get(i).map(|(p, ..)| (p.file, p.offset)));
        let mut out: Vec<Option<Result<Fetched>>> = Vec::new();
        out.resize_with(wanted.len(), || None);
        let file_of = |i: &usize| wanted.get(*i).map(|(p, ..)| p.file);
        for run in order.chunk_by(|a, b| file_of(a) == file_of(b)) {
            let asked: Vec<_> = run.iter().filter_map(|&i| wanted.get(i)).collect();
            let pointers: Vec<RecordPointer> = asked.iter().map(|(p, ..)| *p).collect();
            let mut records = Vec::with_capacity(run.len());
            match run.first().and_then(file_of).and_then(|n| self.get(n)) {
                Some(file) => file.read_many(&pointers, &mut records),
                None => records.extend(pointers.iter().map(|p| Err(self.missing(*p)))),
            }
            for ((&i, (pointer, key, seq)), record) in run.iter().zip(asked).zip(records) {
                let fetched = record.and_then(|record| self.take(record, (*pointer, key, *seq)));
                if let Some(place) = out.get_mut(i) {
                    *place = Some(fetched);
                }
            }
        }
        let none = |i: usize| Err(self.other_record(wanted[i].0));
        let results = out.into_iter().enumerate();
        results
            .map(|(i, read)| read.unwrap_or_else(|| none(i)))
            .collect()
    }

    /// Makes sure that a record is the one that was meant.
    fn take(&self, record: Record, (pointer, key, seq): Meant<'_>) -> Result<Fetched> {
        let same_seq = record.seq() == seq || record.seq() == UNNUMBERED;
        if record.key() != key || !same_seq {
            return Err(self.other_record(pointer));
        }
        match record.kind() {
            Kind::Put => Ok(Fetched::Value(record.into_value())),
            Kind::External => {
                let external = External::decode(record.value_slice());
                let external = external.ok_or_else(|| self.other_record(pointer))?;
                if self.learn(&external) {
                    Ok(Fetched::Elsewhere(external.pointer))
                } else {
                    Err(self.other_record(external.pointer))
                }
            }
            _ => Err(self.other_record(pointer)),
        }
    }

    fn other_record(&self, pointer: RecordPointer) -> Error {
        let what = "another record stands here than is pointed to";
        Error::corruption(&self.path(pointer.file), pointer.offset, what)
    }

    fn missing(&self, pointer: RecordPointer) -> Error {
        let what = "the file that is pointed to is missing";
        Error::corruption(&self.path(pointer.file), pointer.offset, what)
    }
}
