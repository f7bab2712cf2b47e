//! Replays the write-ahead log: judges its tail and feeds the surviving writes in order.
//!
//! # The tail rule
//! The log is the chain of segments above the manifest's low-water mark. Its newest readable
//! segment is the tip; each segment's first record links to its predecessor's number, uid, end and
//! chain checksum. Replay feeds the records from the chain's front. At the first place that does
//! not verify (a bad record, a segment without readable beginning, a missing segment, a segment
//! that ends before the end its successor names) it *breaks*, and the greatest durable mark found
//! anywhere, also after the break, decides:
//! - the mark lies above the break: bytes that were durable have changed. That is corruption; open
//!   refuses and names the place.
//! - otherwise nothing after the break was ever known to be durable: the log ends there, whatever
//!   follows, and the cut is reported. Later segments are *abandoned*.
//!
//! # Why no acknowledged durable write is lost silently
//! A crash of process or machine changes only bytes that were not durable. A write is acknowledged
//! as durable when its segment up to its end, all earlier segments of the chain, and the names of
//! all of them were durable. So after any crash every place before that write verifies, a break can
//! only lie after it, and replay reaches it. When a medium damages durable bytes, the marks that
//! later records carry (or the marks that stand alone after a sync) lie above the damage and turn
//! it into an error; only damage above the last mark that survived looks like a torn
//! write, and it is reported as a cut. The uid in a file header stands for all checksums of the
//! file. Where the header is damaged it is taken from a link or from the damaged header itself, one
//! byte of it, or its number, mended; when more of it is lost, the marks in that file are lost with
//! it.
//!
//! # Why nothing after a cut comes back
//! - Recovered segments are never appended to or changed, or written over. As long as nothing links
//!   after the cut, replay is a function of the same bytes and cuts at the same place.
//! - The segment begun after recovery has a higher number than every file present and links the
//!   exact end at which replay stopped. Once it is readable it is the tip, and the chain runs past
//!   everything else: bytes after a linked end are not read, abandoned segments are not on the
//!   chain, whether or not they have been removed, and however often the machine crashes in
//!   between.
//! - If that segment is itself lost before it was durable, nothing in it was durable, and the
//!   older bytes give the older cut again.
//! - Records in recycled blocks carry another uid and do not verify.
//!
//! # Segments written over old ones
//! A segment may begin in the file of one that is below the durable low-water mark and so is read
//! by nobody any more, whatever becomes of it. The beginning is written under the old name; then
//! the file is renamed. What a crash can leave:
//! - the old name: it is below the low-water mark. If the segment has a successor, it is missing.
//! - the new name with the old file header: a segment without readable beginning. The header's uid
//!   is not the segment's, so nothing that it verifies is taken for a claim of this segment.
//! - old bytes after or between new ones: they verify under another uid only. Where the log ended
//!   a record says so; after it no record of the log may verify, or writes are missing in between.
//!
//! # What the caller owes
//! - It numbers a new segment above every file in the directory.
//! - A segment is sealed when the creation of its successor is *attempted*, also if that fails: the
//!   successor's first record may have become durable, with a link that ends the log there. After a
//!   failure the next attempt takes a new number and links the same end; nothing is appended to the
//!   old segment meanwhile.
//! - The name of a segment is durable (the directory synced) before a record claims anything about
//!   it, and, where the manifest names it as the low-water mark, before it has a successor.
//!   [`wal::WalWriter::create`] sees to that for a segment without predecessor, and the sync of the
//!   directory that precedes every edit for the others. Opening does not raise the mark to a
//!   recovered segment: an earlier process may have failed to make its name durable.
//! - A mark never lies after the linked end of its segment: what was cut is not claimed.
//! - It claims a mark, or acknowledges as durable, in a segment begun after recovery only when the
//!   recovered segments have been made durable too or have fallen below the low-water mark: a
//!   killed process leaves bytes that replay reads from the page cache and a power cut still takes.
//! - It discards what the sink was fed when replay fails.
//!
//! No locks; nothing is written.

use super::wal::{self, BadPayload, SegmentEnd, WalWrite};
use super::{LogItem, LogReader, TailCut};
use crate::base::file_header::FileKind;
use crate::base::keys::{FileNumber, SeqNo};
use crate::base::seeded::seeded;
use crate::error::{Error, Result};
use crate::vfs::file_store::FileStore;
pub(crate) use linked::{Linked, linked_before};
use segments::{Break, Link, Segment};
pub(crate) use segments::{lacks_segment, max_manifest_edits};

mod linked;
pub(crate) mod live;
mod segments;

/// What is wrong with a segment whose beginning a power cut has taken from over an old one's.
pub(crate) const OLDER_SEGMENT: &str =
    "what stands here is an older segment, over which this one was begun";

/// Receives each surviving write and the segment that holds it.
pub(crate) type Sink<'a> = dyn FnMut(FileNumber, &WalWrite<'_>) -> Result<()> + 'a;

/// What replay did.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReplayOutcome {
    pub(crate) segments: u64,
    /// Writes fed to the sink.
    pub(crate) records: u64,
    pub(crate) ops: u64,
    /// Bytes of log that were part of the chain.
    pub(crate) bytes: u64,
    /// Where the chain validly ends; what the next segment links to.
    pub(crate) last: Option<SegmentEnd>,
    pub(crate) cut: Option<TailCut>,
    /// Segments that are not part of the chain, now or since an earlier recovery.
    pub(crate) abandoned: Vec<FileNumber>,
    pub(crate) last_seq: SeqNo,
}

/// Replays the chain among `segments` (all that exist, ascending) from `low_water` on.
///
/// # Errors
/// Corruption where durable bytes have changed; incompatible where a later version wrote the log.
pub(crate) fn replay(
    store: &FileStore,
    segments: &[FileNumber],
    low_water: FileNumber,
    sink: &mut Sink<'_>,
) -> Result<ReplayOutcome> {
    let present = segments::survey(store, segments, low_water)?;
    let (chain, mut breaks) = segments::link(store, &present, low_water)?;
    let mut outcome = ReplayOutcome::default();
    let mut used = Vec::with_capacity(chain.len());
    for link in &chain {
        used.push(link.segment.number);
        let found = replay_segment(store, link, sink, &mut outcome)?;
        let is_broken = found.is_some();
        breaks.extend(found);
        if is_broken && !seeded!(ReplayBehindBreak) {
            break;
        }
    }
    segments::judge(store, &present, &breaks)?;
    outcome.abandoned = present.iter().map(|segment| segment.number).collect();
    outcome.abandoned.retain(|number| !used.contains(number));
    outcome.cut = report(&present, &breaks);
    Ok(outcome)
}

/// Feeds the records of one segment up to the end its successor names, or to its last whole one.
fn replay_segment(
    store: &FileStore,
    link: &Link<'_>,
    sink: &mut Sink<'_>,
    outcome: &mut ReplayOutcome,
) -> Result<Option<Break>> {
    let segment = link.segment;
    let vfs = &*store.env().vfs;
    let database = Some(store.database());
    let mut reader = LogReader::open(vfs, &segment.path, FileKind::Wal, database)?;
    let begin = reader.offset();
    outcome.segments += 1;
    let found = loop {
        let end = SegmentEnd {
            number: segment.number,
            uid: reader.uid(),
            end: reader.offset(),
            chain: reader.chain(),
        };
        outcome.last = Some(end);
        if let Some(expected) = link.successor.filter(|next| next.end <= end.end) {
            if expected != end {
                // No crash does this: each record verified, and yet they are not the records that
                // the successor's writer saw.
                let what = "the next segment says that this one ended elsewhere or differently";
                return Err(Error::corruption(&segment.path, end.end, what));
            }
            break None;
        }
        match reader.next()? {
            LogItem::Record {
                offset,
                kind,
                payload,
                ..
            } => apply(segment, offset, kind, payload, sink, outcome)?,
            LogItem::End { .. } if link.successor.is_none() => break None,
            LogItem::End { offset } => {
                let reason = "the segment ends before the end that its successor names";
                break Some(Break::at(segment, offset, reason));
            }
            LogItem::Bad { .. } if seeded!(ReplayBehindTorn) => drop(reader.resync()?),
            LogItem::Bad { offset, reason } => break Some(Break::at(segment, offset, reason)),
        }
    };
    outcome.bytes += reader.offset().saturating_sub(begin);
    Ok(found)
}

/// Feeds one record that verified.
fn apply(
    segment: &Segment,
    offset: u64,
    kind: u8,
    payload: &[u8],
    sink: &mut Sink<'_>,
    outcome: &mut ReplayOutcome,
) -> Result<()> {
    match kind {
        wal::KIND_START | wal::KIND_MARK => Ok(()),
        wal::KIND_WRITE => {
            let write = WalWrite::decode(payload).map_err(|bad| bad.at(&segment.path, offset))?;
            sink(segment.number, &write)?;
            outcome.records += 1;
            outcome.ops += u64::from(write.count);
            outcome.last_seq = outcome.last_seq.max(write.last_seq());
            Ok(())
        }
        _ => Err(BadPayload::of_kind(kind).at(&segment.path, offset)),
    }
}

/// The cut to report: at the break nearest to the front, which decided where the log ends.
fn report(present: &[Segment], breaks: &[Break]) -> Option<TailCut> {
    let first = breaks
        .iter()
        .min_by_key(|found| (found.file, found.offset))?;
    let behind = |segment: &Segment| {
        if segment.number == first.file {
            segment.len.saturating_sub(first.offset)
        } else if segment.number > first.file {
            segment.len
        } else {
            0
        }
    };
    let bytes = present.iter().map(behind).sum();
    let unfinished = breaks.iter().all(|found| found.unfinished);
    (!unfinished).then(|| TailCut {
        path: first.path.clone(),
        offset: first.offset,
        bytes,
        reason: first.reason.clone(),
    })
}

#[cfg(test)]
mod tests;
