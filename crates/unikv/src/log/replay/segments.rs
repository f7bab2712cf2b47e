//! The segments of the log as they lie in the directory: their beginnings, the chain through them,
//! and the judgement of breaks by the durable points that are found in them.

use super::super::wal::{KIND_START, SegmentEnd, SegmentStart};
use super::super::{DurablePoint, DurableSegment, LogItem, LogReader};
use super::OLDER_SEGMENT;
use crate::base::file_header::{FileHeader, FileKind};
use crate::base::file_names;
use crate::base::keys::{FileNumber, FileUid};
use crate::base::seeded::seeded;
use crate::error::{Error, ErrorKind, Result};
use crate::vfs::file_store::FileStore;
use std::path::PathBuf;

/// A segment in the directory.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) number: FileNumber,
    pub(super) path: PathBuf,
    pub(super) len: u64,
    beginning: Beginning,
}

/// What the file header and the first record say.
#[derive(Debug)]
enum Beginning {
    Readable { uid: FileUid, start: SegmentStart },
    Unreadable(Break),
}

/// A segment of the chain.
#[derive(Debug)]
pub(super) struct Link<'a> {
    pub(super) segment: &'a Segment,
    /// Where its successor says that it ends.
    pub(super) successor: Option<SegmentEnd>,
}

/// A place where the chain does not verify.
#[derive(Clone, Debug)]
pub(super) struct Break {
    pub(super) file: FileNumber,
    pub(super) path: PathBuf,
    pub(super) offset: u64,
    pub(super) reason: String,
    /// A segment whose creation was interrupted before it held anything: nothing to report.
    pub(super) unfinished: bool,
}

impl Segment {
    /// Its uid and its first record, if they can be read.
    pub(super) fn begins(&self) -> Option<(FileUid, &SegmentStart)> {
        match &self.beginning {
            Beginning::Readable { uid, start } => Some((*uid, start)),
            Beginning::Unreadable(_) => None,
        }
    }
}

impl Break {
    pub(super) fn at(segment: &Segment, offset: u64, reason: &str) -> Break {
        Break {
            file: segment.number,
            path: segment.path.clone(),
            offset,
            reason: reason.to_owned(),
            unfinished: false,
        }
    }
}

/// Reads the beginnings of the segments from `low_water` on.
pub(super) fn survey(
    store: &FileStore,
    segments: &[FileNumber],
    low_water: FileNumber,
) -> Result<Vec<Segment>> {
    let mut numbers = segments.to_vec();
    numbers.retain(|&number| number >= low_water);
    numbers.sort_unstable();
    numbers.dedup();
    numbers
        .into_iter()
        .map(|n| read_beginning(store, n))
        .collect()
}

pub(super) fn read_beginning(store: &FileStore, number: FileNumber) -> Result<Segment> {
    let vfs = &*store.env().vfs;
    let path = store.dir().join(file_names::wal(number));
    let len = vfs
        .len(&path)
        .map_err(|e| Error::io("open this log", &path, e))?;
    let unreadable = |offset, reason: String, unfinished| {
        Beginning::Unreadable(Break {
            file: number,
            path: path.clone(),
            offset,
            reason,
            unfinished,
        })
    };
    let segment = |beginning| Segment {
        number,
        path: path.clone(),
        len,
        beginning,
    };
    let opened = LogReader::open(vfs, &path, FileKind::Wal, Some(store.database()));
    let mut reader = match opened {
        Ok(reader) => reader,
        Err(error) if error.kind() == ErrorKind::Corruption => {
            let reason = "the segment's file header is damaged or was never written";
            return Ok(segment(unreadable(0, reason.to_owned(), len == 0)));
        }
        Err(error) => return Err(error),
    };
    if reader.number() < number {
        // A power cut may take the header that was written over the old one, and leave the new
        // name.
        return Ok(segment(unreadable(0, OLDER_SEGMENT.to_owned(), false)));
    }
    if reader.number() > number {
        let what = format!("this is segment {} under another name", reader.number().0);
        return Err(Error::corruption(&path, 0, what));
    }
    let uid = reader.uid();
    let beginning = match reader.next()? {
        LogItem::Record {
            kind: KIND_START,
            payload,
            offset,
            ..
        } => match SegmentStart::decode(payload) {
            Ok(start) => Beginning::Readable { uid, start },
            Err(bad) => return Err(bad.at(&path, offset)),
        },
        LogItem::Record { offset, .. } => {
            let what = "the segment does not begin with its link";
            return Err(Error::corruption(&path, offset, what));
        }
        LogItem::End { offset } => unreadable(offset, "the segment is empty".to_owned(), true),
        LogItem::Bad { offset, reason } => unreadable(offset, reason.to_owned(), false),
    };
    Ok(segment(beginning))
}

/// Whether one of the segments from `low_water` on links to another that is not there. What is
/// wrong with a segment is not judged here.
pub(crate) fn lacks_segment(
    store: &FileStore,
    segments: &[FileNumber],
    low_water: FileNumber,
) -> Result<bool> {
    let needed = segments.iter().filter(|&&number| number >= low_water);
    for segment in undamaged(store, needed) {
        let segment = segment?;
        let prev = segment.begins().and_then(|(_, start)| start.prev);
        if prev.is_some_and(|p| p.number >= low_water && !segments.contains(&p.number)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The beginnings of the segments, but for those that are no segments of these numbers.
pub(super) fn undamaged<'a>(
    store: &'a FileStore,
    segments: impl IntoIterator<Item = &'a FileNumber>,
) -> impl Iterator<Item = Result<Segment>> {
    let read = segments
        .into_iter()
        .map(|number| read_beginning(store, *number));
    read.filter(|read| !matches!(read, Err(error) if error.kind() == ErrorKind::Corruption))
}

/// Follows the links back from the newest readable segment to the low-water mark. Where a link
/// leads nowhere the chain breaks there, and the newest readable segment below is the next tip.
/// Returns the chain, oldest first, and the breaks.
pub(super) fn link<'a>(
    store: &FileStore,
    present: &'a [Segment],
    low_water: FileNumber,
) -> Result<(Vec<Link<'a>>, Vec<Break>)> {
    let mut breaks = Vec::new();
    let mut chain: Vec<Link<'a>> = Vec::new();
    let mut below = present;
    let mut expected: Option<SegmentEnd> = None;
    loop {
        let Some(next) = expected else {
            // Look for a tip.
            let Some((segment, rest)) = below.split_last() else {
                break;
            };
            below = rest;
            match &segment.beginning {
                Beginning::Unreadable(found) => breaks.push(found.clone()),
                Beginning::Readable { start, .. } => {
                    chain.push(Link {
                        segment,
                        successor: None,
                    });
                    expected = start.prev.filter(|prev| prev.number >= low_water);
                    if expected.is_none() {
                        break;
                    }
                }
            }
            continue;
        };
        let found = below.binary_search_by_key(&next.number, |segment| segment.number);
        let segment = found.ok().and_then(|index| below.get(index));
        below = &below[..below.partition_point(|segment| segment.number < next.number)];
        match segment.map(|segment| (segment, &segment.beginning)) {
            Some((segment, Beginning::Readable { uid, start })) if *uid == next.uid => {
                chain.push(Link {
                    segment,
                    successor: Some(next),
                });
                expected = start.prev.filter(|prev| prev.number >= low_water);
                if expected.is_none() {
                    break;
                }
                continue;
            }
            Some((_, Beginning::Unreadable(found))) => breaks.push(found.clone()),
            Some((segment, _)) => {
                let reason = "the next segment links to another file of this number";
                breaks.push(Break::at(segment, 0, reason));
            }
            None => breaks.push(missing(store, next.number, low_water)?),
        }
        chain.clear();
        expected = None;
    }
    chain.reverse();
    Ok((chain, breaks))
}

/// A segment that is linked to and not there. The low-water mark is named by a durable edit, and
/// the name of its segment was durable before that edit: no crash removes it.
fn missing(store: &FileStore, number: FileNumber, low_water: FileNumber) -> Result<Break> {
    let path = store.dir().join(file_names::wal(number));
    if number == low_water {
        let what = "this segment of the log is missing, and later ones need it";
        return Err(Error::corruption(&path, 0, what));
    }
    Ok(Break {
        file: number,
        path,
        offset: 0,
        reason: "this segment of the log is missing".to_owned(),
        unfinished: false,
    })
}

/// What the log lacks of what the manifest lists as durable: a log that ends between two records
/// looks whole, and so does that of another time.
pub(super) fn lacks(
    store: &FileStore,
    present: &[Segment],
    last: Option<SegmentEnd>,
    durable: DurableSegment,
) -> Option<Break> {
    let DurableSegment { point, uid } = durable;
    let is_other = |segment: &Segment| {
        let uids = segment.begins().map(|(own, _)| own != uid);
        segment.number == point.file && uids == Some(true)
    };
    let (file, offset, reason) = match last {
        _ if present.iter().any(is_other) => (point.file, 0, "the manifest lists another file"),
        None => (point.file, 0, "this segment of the log is missing"),
        Some(last) => (last.number, last.end, "the log ends here"),
    };
    point.covers(file, offset).then(|| Break {
        file,
        path: store.dir().join(file_names::wal(file)),
        offset,
        reason: reason.to_owned(),
        unfinished: false,
    })
}

/// Corruption if a durable point found anywhere, or `listed` in the manifest, lies above one of the
/// breaks.
pub(super) fn judge(
    store: &FileStore,
    present: &[Segment],
    breaks: &[Break],
    listed: Option<DurablePoint>,
) -> Result<()> {
    let Some(first) = breaks.iter().min_by_key(|found| (found.file, found.offset)) else {
        return Ok(());
    };
    // Records before a break in its file cannot claim what stands after them.
    let mut point = listed;
    for segment in present.iter().filter(|s| s.number >= first.file) {
        point = point.max(greatest_point(store, present, segment)?);
    }
    let Some(point) = point else {
        return Ok(());
    };
    let is_damage = |b: &&Break| point.covers(b.file, b.offset) && !seeded!(CutBelowMark);
    match breaks.iter().filter(is_damage).min_by_key(|b| b.file) {
        None => Ok(()),
        Some(damaged) => {
            let what = format!(
                "{}, although the log was durable up to offset {} of {}",
                damaged.reason,
                point.offset,
                file_names::wal(point.file)
            );
            Err(Error::corruption(&damaged.path, damaged.offset, what))
        }
    }
}

/// The greatest durable point in any record of a segment that verifies, wherever it stands.
fn greatest_point(
    store: &FileStore,
    present: &[Segment],
    segment: &Segment,
) -> Result<Option<DurablePoint>> {
    let vfs = &*store.env().vfs;
    let mut greatest = None;
    match &segment.beginning {
        Beginning::Readable { uid, .. } => {
            let mut reader = LogReader::open_headless(vfs, &segment.path, segment.number, *uid)?;
            greatest = scan_points(&mut reader)?;
        }
        Beginning::Unreadable(_) => {
            for uid in possible_uids(store, present, segment)? {
                let mut reader = LogReader::open_headless(vfs, &segment.path, segment.number, uid)?;
                greatest = greatest.max(scan_points(&mut reader)?);
            }
        }
    }
    Ok(greatest)
}

/// Calls `each` with the offset, kind and payload of every record that verifies up to the end of a
/// log, also behind bad places.
pub(crate) fn each_sound(
    reader: &mut LogReader,
    mut each: impl FnMut(u64, u8, &[u8]) -> Result<()>,
) -> Result<()> {
    loop {
        match reader.next()? {
            LogItem::Record {
                offset,
                kind,
                payload,
                ..
            } => each(offset, kind, payload)?,
            LogItem::End { .. } => return Ok(()),
            LogItem::Bad { .. } => {
                if !reader.resync()? {
                    return Ok(());
                }
            }
        }
    }
}

/// The greatest durable point in any record that `reader` finds.
fn scan_points(reader: &mut LogReader) -> Result<Option<DurablePoint>> {
    each_sound(reader, |_, _, _| Ok(()))?;
    Ok(reader.greatest_point())
}

/// The uids that a segment without readable beginning may have: the one in its header, the one that
/// was there before one byte of it changed, and those in links to it.
fn possible_uids(
    store: &FileStore,
    present: &[Segment],
    segment: &Segment,
) -> Result<Vec<FileUid>> {
    let vfs = &*store.env().vfs;
    let mut reader =
        LogReader::open_headless(vfs, &segment.path, segment.number, FileUid::default())?;
    let header = reader.header_bytes()?;
    // The header of an older segment, over which this one was begun, says nothing of this one.
    let said = FileHeader::uid_of(header, segment.number);
    let before = FileHeader::uid_before_damage(header).filter(|_| said.is_some());
    let mut uids: Vec<FileUid> = said.into_iter().chain(before).collect();
    for other in present {
        if let Beginning::Readable { start, .. } = &other.beginning
            && let Some(prev) = start.prev.filter(|prev| prev.number == segment.number)
            && !uids.contains(&prev.uid)
        {
            uids.push(prev.uid);
        }
    }
    Ok(uids)
}
