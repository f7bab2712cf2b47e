//! What the write-ahead log still holds: its chain, and beyond gaps every batch that verifies.
//!
//! Invariants:
//! - Nothing is read of a segment that a link passes over (a recovery abandoned it), of one older
//!   than a segment without a link (flushed or cut), and after a linked end. Where a segment's link
//!   is lost, the segment below is its predecessor.
//! - A batch whose number a later segment gives again was cut by a recovery, and stays cut.
//! - What does not verify is a *gap*, unless no record follows and no durable point is above it.
//! - A batch is taken whole or not at all, unless the caller wants parts. One with a large value
//!   that is lost is left out, unless the keyspace of the value is gone.
//!
//! No locks; nothing is written.

mod pass;

use super::files::Files;
use super::keyspaces::KnownKeyspaces;
use super::range_deletes::RangeDeletes;
use super::report::{LogGap, RepairReport};
use crate::base::file_header::FileKind;
use crate::base::file_names;
use crate::base::keys::{FileNumber, FileUid, SeqNo};
use crate::error::Result;
use crate::log::replay::{NeededLog, OLDER_SEGMENT, each_sound};
use crate::log::wal::{KIND_START, KIND_WRITE, SegmentStart};
use crate::log::{DurablePoint, LogItem, LogReader, SegmentEnd, WalWrite};
use crate::offline::repair::files::header::{Header, header_of, refuse_newer};
use crate::offline::repair::resolve::sorter::Sorter;
use crate::vfs::file_store::FileStore;
use pass::Pass;
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

/// What a replay of the damaged log needs to know.
pub(super) struct Replay<'a> {
    pub(super) store: &'a Arc<FileStore>,
    /// What is at or below it is in tables.
    pub(super) flushed: SeqNo,
    /// Whether that is known, or only what the files say.
    pub(super) flushed_is_sure: bool,
    /// What the manifest says of the log, as far as it can be read.
    pub(super) needed: NeededLog,
    pub(super) partial_batches: bool,
    pub(super) keyspaces: KnownKeyspaces,
}

/// What came of it.
#[derive(Default)]
pub(super) struct Replayed {
    /// The last sequence number of the log.
    pub(super) last_seq: SeqNo,
    /// The newest commit tag before the first gap and the first batch that is not there whole.
    pub(super) commit_tag: Option<Vec<u8>>,
    pub(super) ranges: RangeDeletes,
}

struct Segment {
    number: FileNumber,
    path: PathBuf,
    name: String,
    len: u64,
    uid: FileUid,
    /// The file header is whole.
    has_header: bool,
    /// It was begun over an older one, of which the file header is left.
    is_unwritten: bool,
    start: Option<SegmentStart>,
    /// The sequence number of its first batch.
    first_seq: Option<SeqNo>,
    greatest_point: Option<DurablePoint>,
    /// Where its successor says that it ends.
    linked_end: Option<u64>,
}

/// What stands in the place of a segment.
enum Found {
    Segment(Box<Segment>),
    /// A later one that was begun over it and has not got its name: then nobody needs this one.
    Unnamed,
    Another,
}

impl Replay<'_> {
    /// Feeds the batches to the sorter.
    pub(super) fn run(
        &self,
        numbers: &[FileNumber],
        files: &Files,
        sorter: &mut Sorter<'_>,
        report: &mut RepairReport,
    ) -> Result<Replayed> {
        let mut segments = Vec::new();
        for &number in numbers.iter().filter(|n| **n >= self.needed.low_water) {
            match self.look_at(number, numbers, report)? {
                Found::Segment(segment) => segments.push(*segment),
                Found::Unnamed => {}
                Found::Another => {
                    self.lost_segment(number, "another file is in the place of a segment", report)
                }
            }
        }
        if segments.is_empty() && report.log.gaps.is_empty() {
            // Every database has a log.
            self.lost_segment(self.needed.low_water, "the log is missing", report);
        }
        let listed = self.needed.durable().map(|durable| durable.point);
        if let Some(point) = listed
            && !segments.iter().any(|segment| segment.number >= point.file)
            && report.log.gaps.is_empty()
        {
            self.lost_segment(point.file, "this segment of the log is missing", report);
        }
        let durable = segments.iter().filter_map(|s| s.greatest_point);
        let durable = durable.chain(listed).max();
        let missing = self.link(&mut segments, report);
        let mut pass = Pass {
            replay: self,
            files,
            sorter,
            report,
            out: Replayed::default(),
            at_seq: self.flushed,
            durable,
        };
        for (i, segment) in segments.iter().enumerate() {
            let later = segments.get(i + 1..).unwrap_or_default();
            let limit = later.iter().filter_map(|s| s.first_seq).min();
            let gone = missing.iter().filter(|end| end.0 == segment.number);
            gone.for_each(|(_, end)| pass.missing_segment(end, segment));
            let is_tip = later
                .iter()
                .all(|s| s.start.is_none() && s.first_seq.is_none());
            pass.segment(segment, limit, is_tip)?;
        }
        Ok(pass.out)
    }

    /// What a segment held is lost, and nothing says how much that was.
    fn lost_segment(&self, number: FileNumber, what: &str, report: &mut RepairReport) {
        report.log.gaps.push(LogGap {
            file: self.store.dir().join(file_names::wal(number)),
            offset: 0,
            bytes: None,
            after_seq: self.flushed.0,
            before_seq: None,
            what: what.to_owned(),
        });
    }

    /// Reads a segment once for what it says of itself.
    fn look_at(
        &self,
        number: FileNumber,
        numbers: &[FileNumber],
        report: &mut RepairReport,
    ) -> Result<Found> {
        let name = file_names::wal(number);
        let path = self.store.dir().join(&name);
        let env = self.store.env();
        refuse_newer(env, &path, FileKind::Wal)?;
        let entry = report.file(&name);
        entry.bytes = env.vfs.len(&path).unwrap_or(0);
        let mut segment = Segment {
            number,
            name,
            len: entry.bytes,
            uid: FileUid(0),
            has_header: false,
            is_unwritten: false,
            start: None,
            first_seq: None,
            greatest_point: None,
            linked_end: None,
            path,
        };
        let mut header = header_of(env, &segment.path)?;
        if header.as_ref().is_some_and(|h| self.is_older(h, number)) {
            entry.ignored = Some(OLDER_SEGMENT.to_owned());
            segment.is_unwritten = true;
            header = None;
        } else if header.as_ref().is_none_or(|h| h.is_mended || !h.is_whole()) {
            entry.fault(0, "the file header is damaged or was never written");
        }
        // Where more than the number is damaged it may be the header of an older segment.
        let stated = header.as_ref().and_then(|header| header.uid_of(number));
        if let Some(Header { raw, .. }) = header.filter(Header::is_whole) {
            if raw.database != self.store.database() {
                entry.ignored = Some("the file belongs to another database".to_owned());
                return Ok(Found::Another);
            }
            if raw.number != number || raw.kind != FileKind::Wal as u8 {
                let what = format!("this is file {} under another name", raw.number.0);
                entry.ignored = Some(what);
                let is_later = raw.kind == FileKind::Wal as u8 && raw.number > number;
                return Ok(if is_later && !numbers.contains(&raw.number) {
                    Found::Unnamed
                } else {
                    Found::Another
                });
            }
            let durable = self.needed.durable();
            if durable.is_some_and(|it| it.point.file == number && it.uid != raw.uid) {
                entry.ignored = Some("the manifest lists another file".to_owned());
                return Ok(Found::Another);
            }
            segment.uid = raw.uid;
            segment.has_header = true;
        } else {
            let candidates = stated.into_iter().chain(self.linked_uids(number, numbers)?);
            let mut found = None;
            for uid in candidates {
                if has_records(&mut self.reader(&segment, uid)?)? {
                    found = Some(uid);
                    break;
                }
            }
            let Some(uid) = found else {
                return Ok(Found::Segment(Box::new(segment)));
            };
            segment.uid = uid;
        }
        let mut reader = self.reader(&segment, segment.uid)?;
        each_sound(&mut reader, |offset, kind, payload| {
            match kind {
                KIND_START => {
                    let start = SegmentStart::decode(payload);
                    segment.start = pass::unless_newer(start, &segment.path, offset)?;
                }
                KIND_WRITE if segment.first_seq.is_none() => {
                    segment.first_seq = WalWrite::decode(payload).ok().map(|w| w.base_seq);
                }
                _ => {}
            }
            Ok(())
        })?;
        segment.greatest_point = reader.greatest_point();
        Ok(Found::Segment(Box::new(segment)))
    }

    /// Whether a header is that of an older segment of this database.
    fn is_older(&self, header: &Header, number: FileNumber) -> bool {
        let raw = &header.raw;
        let is_ours = raw.database == self.store.database() && raw.kind == FileKind::Wal as u8;
        header.is_whole() && is_ours && raw.number < number
    }

    fn reader(&self, segment: &Segment, uid: FileUid) -> Result<LogReader> {
        let vfs = &*self.store.env().vfs;
        LogReader::open_headless(vfs, &segment.path, segment.number, uid)
    }

    /// The uids that links in other segments give this one.
    fn linked_uids(&self, number: FileNumber, numbers: &[FileNumber]) -> Result<Vec<FileUid>> {
        let mut uids = Vec::new();
        for &other in numbers.iter().filter(|other| **other > number) {
            let path = self.store.dir().join(file_names::wal(other));
            let database = Some(self.store.database());
            let vfs = &*self.store.env().vfs;
            let opened = LogReader::open(vfs, &path, FileKind::Wal, database);
            let Ok(mut reader) = opened else { continue };
            if let LogItem::Record {
                kind: KIND_START,
                payload,
                ..
            } = reader.next()?
                && let Ok(start) = SegmentStart::decode(payload)
                && let Some(prev) = start.prev.filter(|prev| prev.number == number)
            {
                uids.push(prev.uid);
            }
        }
        Ok(uids)
    }

    /// Keeps the segments of the chain, oldest first. Returns the segments that are linked to and
    /// are not there, each with the segment that links to it.
    fn link(
        &self,
        segments: &mut Vec<Segment>,
        report: &mut RepairReport,
    ) -> Vec<(FileNumber, SegmentEnd)> {
        let (mut missing, mut dropped) = (Vec::new(), HashSet::new());
        for i in (0..segments.len()).rev() {
            let (number, start) = (segments[i].number, segments[i].start);
            let Some(start) = start.filter(|_| !dropped.contains(&number)) else {
                continue;
            };
            let Some(prev) = start.prev else {
                // Whatever came before is in tables, or was cut.
                dropped.extend(segments[..i].iter().map(|s| s.number));
                break;
            };
            for older in &mut segments[..i] {
                if older.number > prev.number {
                    dropped.insert(older.number);
                } else if older.number == prev.number && older.uid == prev.uid {
                    older.linked_end = Some(prev.end);
                }
            }
            let is_there = segments[..i]
                .iter()
                .any(|s| s.number == prev.number && s.uid == prev.uid);
            if !is_there && prev.number >= self.needed.low_water {
                missing.push((number, prev));
            }
        }
        for segment in segments.iter().filter(|s| dropped.contains(&s.number)) {
            let what = "the segment is not part of the log any more";
            report.file(&segment.name).ignored = Some(what.to_owned());
        }
        segments.retain(|s| !dropped.contains(&s.number));
        missing
    }
}

fn has_records(reader: &mut LogReader) -> Result<bool> {
    loop {
        match reader.next()? {
            LogItem::Record { .. } => return Ok(true),
            LogItem::End { .. } => return Ok(false),
            LogItem::Bad { .. } => {
                if !reader.resync()? {
                    return Ok(false);
                }
            }
        }
    }
}
