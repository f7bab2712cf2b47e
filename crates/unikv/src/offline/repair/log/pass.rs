//! The pass over the segments of a damaged log: batches become claims, what does not verify a gap.

use super::{Replay, Replayed, Segment};
use crate::base::file_header::HEADER_LEN;
use crate::base::file_names;
use crate::base::keys::{FileUid, KeyspaceId, Kind, SeqNo};
use crate::base::range_tombstones::RangeTombstone;
use crate::engine::open::recovery::known_op;
use crate::error::{ErrorKind, Result};
use crate::key_table::RecordPointer;
use crate::key_table::range_section::RangeSection;
use crate::log::replay::OLDER_SEGMENT;
use crate::log::wal::{BadPayload, KIND_EDITS, KIND_POINT, KIND_START, KIND_WRITE};
use crate::log::{DurablePoint, LogItem, SegmentEnd, TailCut, WalWrite};
use crate::memtable::{BatchOp, OpsIter};
use crate::offline::repair::files::Files;
use crate::offline::repair::keyspaces::Standing;
use crate::offline::repair::report::{LogGap, RepairReport};
use crate::offline::repair::resolve::claims::{Claim, Place, Rank};
use crate::offline::repair::resolve::sorter::Sorter;
use crate::record::External;
use std::path::Path;

/// What one pass over the segments goes on with.
pub(super) struct Pass<'a, 'b> {
    pub(super) replay: &'a Replay<'a>,
    pub(super) files: &'a Files,
    pub(super) sorter: &'a mut Sorter<'b>,
    pub(super) report: &'a mut RepairReport,
    pub(super) out: Replayed,
    /// The last sequence number seen.
    pub(super) at_seq: SeqNo,
    /// The greatest durable point of the whole log.
    pub(super) durable: Option<DurablePoint>,
}

/// What one step of a reader found, free of its buffer.
enum Step {
    Record,
    End(u64),
    Bad(u64, &'static str),
}

impl Pass<'_, '_> {
    pub(super) fn segment(
        &mut self,
        segment: &Segment,
        limit: Option<SeqNo>,
        is_tip: bool,
    ) -> Result<()> {
        if segment.uid == FileUid(0) {
            // After a power cut a segment may be empty that was just begun.
            if segment.is_unwritten {
                self.tail(segment, 0, OLDER_SEGMENT, is_tip);
            } else if segment.len > HEADER_LEN as u64 {
                self.gap(segment, (0, None), "no record of the segment can be read");
            } else {
                self.tail(segment, 0, "the segment is empty", is_tip);
            }
            return Ok(());
        }
        self.report.log.segments += 1;
        let mut reader = self.replay.reader(segment, segment.uid)?;
        loop {
            let at = reader.offset();
            if segment.linked_end.is_some_and(|end| at >= end) {
                return Ok(());
            }
            let step = match reader.next()? {
                LogItem::Record {
                    offset,
                    kind,
                    payload,
                    ..
                } => {
                    self.record(segment, (offset, kind, payload), limit)?;
                    Step::Record
                }
                LogItem::End { offset } => Step::End(offset),
                LogItem::Bad { offset, reason } => Step::Bad(offset, reason),
            };
            match step {
                Step::Record => {}
                Step::End(offset) => {
                    let what = "the segment ends before the end that its successor names";
                    if segment.linked_end.is_some() {
                        self.gap(segment, (offset, None), what);
                    } else if segment.start.is_none() && offset == HEADER_LEN as u64 {
                        self.tail(segment, offset, "the segment is empty", is_tip);
                    } else if self
                        .durable
                        .is_some_and(|point| point.covers(segment.number, offset))
                    {
                        self.tail(segment, offset, "the segment ends early", is_tip);
                    }
                    return Ok(());
                }
                Step::Bad(offset, reason) => {
                    let goes_on = reader.resync()?;
                    let next = reader.offset();
                    if goes_on && segment.linked_end.is_none_or(|end| next < end) {
                        self.gap(segment, (offset, Some(next - offset)), reason);
                    } else {
                        self.tail(segment, offset, reason, is_tip);
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Nothing that verifies follows in this segment.
    fn tail(&mut self, segment: &Segment, offset: u64, reason: &str, is_tip: bool) {
        let was_durable = self
            .durable
            .is_some_and(|m| m.covers(segment.number, offset));
        if was_durable || !is_tip || segment.linked_end.is_some() {
            self.gap(segment, (offset, None), reason);
            return;
        }
        self.report.log.cut.get_or_insert_with(|| TailCut {
            path: segment.path.clone(),
            offset,
            bytes: segment.len.saturating_sub(offset),
            reason: reason.to_owned(),
        });
    }

    fn gap(&mut self, segment: &Segment, (offset, bytes): (u64, Option<u64>), what: &str) {
        self.report.file(&segment.name).fault(offset, what);
        self.report.log.gaps.push(LogGap {
            file: segment.path.clone(),
            offset,
            bytes,
            after_seq: self.at_seq.0,
            before_seq: None,
            what: what.to_owned(),
        });
    }

    /// The segment that `by` links to is not there. Its batches may all be in tables.
    pub(super) fn missing_segment(&mut self, end: &SegmentEnd, by: &Segment) {
        let next = by.first_seq.unwrap_or(SeqNo::MAX);
        if self.at_seq.0 + 1 >= next.0 {
            return;
        }
        if by.first_seq.is_none() && !self.replay.flushed_is_sure {
            return;
        }
        let path = self.replay.store.dir().join(file_names::wal(end.number));
        self.report.log.gaps.push(LogGap {
            file: path,
            offset: 0,
            bytes: Some(end.end),
            after_seq: self.at_seq.0,
            before_seq: None,
            what: "this segment of the log is missing".to_owned(),
        });
    }

    fn record(
        &mut self,
        segment: &Segment,
        (offset, kind, payload): (u64, u8, &[u8]),
        limit: Option<SeqNo>,
    ) -> Result<()> {
        self.report.file(&segment.name).items += 1;
        match kind {
            KIND_WRITE => {}
            KIND_START | KIND_POINT | KIND_EDITS => return Ok(()),
            _ => return Err(BadPayload::of_kind(kind).at(&segment.path, offset)),
        }
        let write = WalWrite::decode(payload);
        let Some(write) = unless_newer(write, &segment.path, offset)? else {
            let what = "a record is malformed";
            self.gap(segment, (offset, Some(payload.len() as u64)), what);
            return Ok(());
        };
        if limit.is_some_and(|limit| write.base_seq >= limit) {
            return Ok(());
        }
        for gap in self.report.log.gaps.iter_mut().rev() {
            if gap.before_seq.is_some() {
                break;
            }
            gap.before_seq = Some(write.base_seq.0);
        }
        self.at_seq = self.at_seq.max(write.last_seq());
        self.out.last_seq = self.out.last_seq.max(write.last_seq());
        let in_tables = write.last_seq() <= self.replay.flushed;
        self.batch(segment, offset, &write, in_tables)
    }

    fn batch(
        &mut self,
        segment: &Segment,
        offset: u64,
        write: &WalWrite<'_>,
        in_tables: bool,
    ) -> Result<()> {
        let mut seq = write.base_seq;
        let (mut claims, mut lost, mut deleted) = (Vec::new(), Vec::new(), Vec::new());
        for op in OpsIter::new(write.ops) {
            let op = known_op(op, &|| segment.path.clone());
            let Some(op) = only_damage(op)? else {
                let what = "an operation of the batch is malformed";
                self.report.file(&segment.name).fault(offset, what);
                lost.push(None);
                break;
            };
            if op.kind == Kind::RangeDelete {
                deleted.push(RangeTombstone {
                    start: op.key.to_vec(),
                    end: op.value.to_vec(),
                    seq,
                });
                seq.0 += 1;
                continue;
            }
            match self.claim(&op, seq, in_tables)? {
                Some(claim) => claims.push(claim),
                None if self.replay.keyspaces.standing(KeyspaceId::of(op.key))
                    == Standing::Gone => {}
                None => lost.push(Some((op.key.to_vec(), seq))),
            }
            seq.0 += 1;
        }
        if !lost.is_empty() && !in_tables {
            self.report.log.batches_dropped += 1;
            let partial = self.replay.partial_batches;
            let left_out = claims.iter().filter(|_| !partial).map(|c| (&c.key, c.seq));
            let lost = lost.iter().flatten().map(|(key, seq)| (key, *seq));
            for (key, seq) in lost.chain(left_out) {
                let place = Place::Frame(RecordPointer {
                    file: segment.number,
                    offset,
                    len: 0,
                });
                let claim = (key.as_slice(), seq, Kind::Put);
                let claim = Claim::new(claim, (Rank::LeftOut, false), place);
                self.sorter.push(&claim)?;
            }
            if !partial {
                self.lose(&deleted, segment);
                return Ok(());
            }
        }
        if !in_tables {
            let log = &mut self.report.log;
            log.batches += 1;
            log.batches_behind_gaps += u64::from(!log.gaps.is_empty());
            let all_before = log.gaps.is_empty() && log.batches_dropped == 0;
            if let Some(tag) = write.commit_tag.filter(|_| all_before) {
                self.out.commit_tag = Some(tag.to_vec());
            }
        }
        self.out.ranges.found.append(&mut deleted);
        claims.iter().try_for_each(|claim| self.sorter.push(claim))
    }

    /// Range deletes of a batch that is left out.
    fn lose(&mut self, deletes: &[RangeTombstone], segment: &Segment) {
        for delete in deletes {
            let mut lost = RangeSection::begin(0);
            lost.add(delete.as_ref());
            let place = (segment.number, segment.path.as_path());
            self.out.ranges.lose(&lost, &[(Vec::new(), None)], place);
        }
    }

    /// What an operation says; `None` if its large value is lost.
    fn claim(&mut self, op: &BatchOp<'_>, seq: SeqNo, in_tables: bool) -> Result<Option<Claim>> {
        let rank = if in_tables { Rank::Copy } else { Rank::Live };
        let place = match op.kind {
            Kind::External => {
                let Some(external) = External::decode(op.value) else {
                    return Ok(None);
                };
                let is_it = self.files.learn(&external);
                let read = || self.files.read(external.pointer, op.key, seq);
                if !in_tables && (!is_it || read().is_err()) {
                    return Ok(None);
                }
                Place::Frame(external.pointer)
            }
            _ => Place::Inline(op.value.to_vec()),
        };
        let claim = Claim::new((op.key, seq, op.kind), (rank, false), place);
        Ok(Some(claim.expiring(op.expiry_ms)))
    }
}

/// `None` for damage: that is what a repair is for. What a newer release wrote is not.
fn only_damage<T>(found: Result<T>) -> Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == ErrorKind::Incompatible => Err(error),
        Err(_) => Ok(None),
    }
}

/// The same for the payload of the record at `offset`.
pub(super) fn unless_newer<T>(
    found: std::result::Result<T, BadPayload>,
    path: &Path,
    offset: u64,
) -> Result<Option<T>> {
    only_damage(found.map_err(|bad| bad.at(path, offset)))
}
