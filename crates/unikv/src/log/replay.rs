//! Replays the write-ahead log: judges its tail and feeds the surviving writes in order.
//!
//! Owns the tail rule. At the first place of the chain that does not verify, and at its end, the
//! greatest durable point decides, in the log or in the manifest: if it is above that place,
//! durable bytes have changed and opening refuses; else the log ends there and the cut is reported.
//! `docs/crashes.md`, "The end of the log", argues why no durable write is lost silently and
//! nothing after a cut comes back.
//!
//! Invariants: recovered segments are never appended to, changed or written over. Nothing after a
//! linked end is read. The doc of `replay` says what its callers must keep.
//!
//! No locks; nothing is written.

use super::wal::{self, BadPayload, SegmentEnd, WalWrite};
use super::{DurablePoint, DurableSegment, LogItem, LogReader, TailCut};
use crate::base::file_header::FileKind;
use crate::base::keys::{FileNumber, SeqNo};
use crate::base::seeded::seeded;
use crate::error::{Error, Result};
use crate::vfs::file_store::FileStore;
pub(crate) use edits::{manifest_edits_anywhere, max_manifest_edits};
pub(crate) use linked::{Linked, last_logged, linked_before, newest};
use segments::{Break, Link, Segment};
pub(crate) use segments::{each_sound, lacks_segment};

mod edits;
mod linked;
pub(crate) mod live;
mod segments;

/// What is wrong with a segment whose beginning a power cut has taken from over an old one's.
pub(crate) const OLDER_SEGMENT: &str =
    "what stands here is an older segment, over which this one was begun";

/// Receives each surviving write and the segment that holds it.
pub(crate) type Sink<'a> = dyn FnMut(FileNumber, &WalWrite<'_>) -> Result<()> + 'a;

/// What the manifest says of the log.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NeededLog {
    /// The first segment that is needed.
    pub(crate) low_water: FileNumber,
    /// Up to where the log was durable when an edit was made that came after its writes.
    pub(crate) durable: Option<DurableSegment>,
}

impl NeededLog {
    /// What was durable, unless the segment is not needed any more.
    pub(crate) fn durable(&self) -> Option<DurableSegment> {
        let is_needed = |segment: &DurableSegment| segment.point.file >= self.low_water;
        self.durable.filter(is_needed)
    }
}

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
    /// The greatest number of manifest edits that a record in between names.
    pub(crate) manifest_edits: u64,
    /// The greatest place below which a record in between says that all was durable.
    pub(crate) claimed: Option<DurablePoint>,
}

/// Replays the chain among `segments` (all that exist, ascending), from the low-water mark on.
///
/// # What callers keep
/// - A new segment has a number above every file in the directory.
/// - A segment is sealed when the creation of its successor is *attempted*, also if that fails: the
///   successor's first record may have become durable, with a link that ends the log there. After a
///   failure the next attempt takes a new number and links the same end; nothing is appended to the
///   old segment meanwhile.
/// - The name of a segment is durable (the directory synced) before a record claims anything about
///   it, and, where the manifest names it as the low-water mark, before it has a successor.
///   [`wal::WalWriter::create`] sees to that for a segment without predecessor, and the sync of the
///   directory that precedes every edit for the others. Opening does not raise the durable point to
///   a recovered segment: an earlier process may have failed to make its name durable.
/// - A durable point never lies after the linked end of its segment: what was cut is not claimed.
/// - In a segment begun after recovery a durable point is claimed, or a write acknowledged as
///   durable, only when the recovered segments have been made durable too or have fallen below the
///   low-water durable point: a killed process leaves bytes that replay reads from the page cache
///   and a power cut still takes.
/// - What the sink was fed is discarded when replay fails.
///
/// # Errors
/// Corruption where durable bytes have changed; incompatible where a later version wrote the log.
pub(crate) fn replay(
    store: &FileStore,
    segments: &[FileNumber],
    needed: NeededLog,
    sink: &mut Sink<'_>,
) -> Result<ReplayOutcome> {
    let present = segments::survey(store, segments, needed.low_water)?;
    let (chain, mut breaks) = segments::link(store, &present, needed.low_water)?;
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
    let durable = needed.durable();
    breaks.extend(durable.and_then(|it| segments::lacks(store, &present, outcome.last, it)));
    segments::judge(store, &present, &breaks, durable.map(|it| it.point))?;
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
    outcome.claimed = outcome.claimed.max(reader.greatest_point());
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
        wal::KIND_START | wal::KIND_POINT => Ok(()),
        wal::KIND_EDITS => {
            let edits = wal::decode_edits(payload).map_err(|bad| bad.at(&segment.path, offset))?;
            outcome.manifest_edits = outcome.manifest_edits.max(edits);
            Ok(())
        }
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
