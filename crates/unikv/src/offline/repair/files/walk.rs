//! Walking data files: every frame and every entry that verifies becomes a claim, every place that
//! does not is reported, and where neither records nor keys say what stood there, there is a hole.
//!
//! Memory: a buffer of a walk, and one index of a key section.
//!
//! No locks; nothing is written.

use super::holes::{Hole, past};
use super::range_walk::SeenRanges;
use super::vouch::Broken;
use crate::base::keys::{FileNumber, SeqNo};
use crate::error::{ErrorKind, Result};
use crate::key_table::block::walk::{BlockWalk, WalkedBlock, WalkedEntry};
use crate::key_table::{OwnedValue, RecordPointer};
use crate::offline::repair::files::Found;
use crate::offline::repair::range_deletes::RangeDeletes;
use crate::offline::repair::ranges::{Range, within};
use crate::offline::repair::report::RepairReport;
use crate::offline::repair::resolve::claims::{Claim, Place, Rank};
use crate::offline::repair::resolve::judge::Judge;
use crate::offline::repair::resolve::sorter::Sorter;
use crate::record::walk::{FrameWalk, Walked};
use crate::record::{RecordFileMeta, UNNUMBERED};
use std::collections::{BTreeMap, HashSet};

/// What is known of a key table before it is read.
pub(crate) struct TableBounds {
    pub(crate) min_key: Vec<u8>,
    /// `None`: not known.
    pub(crate) max_key: Option<Vec<u8>>,
    pub(crate) max_seq: SeqNo,
    pub(crate) count: Option<u64>,
    /// How many entries point into each file, if the manifest says so.
    pub(crate) pointers: Option<BTreeMap<FileNumber, u64>>,
}

/// Gathers what the files say.
pub(crate) struct Walk<'a, 'b> {
    pub(crate) judge: &'a Judge,
    pub(crate) sorter: &'a mut Sorter<'b>,
    pub(crate) report: &'a mut RepairReport,
    pub(crate) holes: Vec<Hole>,
    /// Key tables with damaged blocks.
    pub(crate) broken: Vec<Broken>,
    /// Record files with damaged frames.
    pub(crate) unsound: HashSet<FileNumber>,
    pub(crate) ranges: RangeDeletes,
}

/// Blocks that did not verify, next to each other.
type BadBlocks = (Vec<u8>, Option<Vec<u8>>);

/// The rank of each entry of a key section, the number that all of them have if they were ingested,
/// and whether it is that of a key table.
type Outcome<'a> = (&'a dyn Fn(&WalkedEntry) -> Rank, Option<SeqNo>, bool);

/// What a walk over a key section found.
#[derive(Default)]
struct Section {
    bad: Vec<BadBlocks>,
    entries: u64,
    pointers: BTreeMap<FileNumber, u64>,
}

impl Walk<'_, '_> {
    /// A key table.
    pub(crate) fn key_table(&mut self, found: &Found, bounds: &TableBounds) -> Result<()> {
        let (number, name) = (found.number, super::header::name_of(found.file.path()));
        let judge = self.judge;
        let rank = |entry: &WalkedEntry| judge.entry(number, &entry.key);
        let Some(section) = self.section(found, &name, (&rank, None, true))? else {
            self.hole_of_table(number, bounds, found.file.path().to_owned());
            return Ok(());
        };
        let missing = bounds.count.map(|n| n.saturating_sub(section.entries));
        let mut ranges = Vec::new();
        for (from, to) in section.bad {
            let from = from.max(bounds.min_key.clone());
            let is_last = to.is_none();
            let to = to.or_else(|| bounds.max_key.clone());
            ranges.extend(to.clone().map(|to| (from.clone(), to)));
            let to = if is_last { to.map(past) } else { to };
            self.add_hole((from, to), (true, bounds.max_seq), missing, found);
        }
        if let (Some(missing), Some(pointers), false) =
            (missing, &bounds.pointers, ranges.is_empty())
        {
            let mut pointers = pointers.clone();
            for (file, seen) in section.pointers {
                let left = pointers.entry(file).or_default();
                *left = left.saturating_sub(seen);
            }
            pointers.retain(|_, left| *left > 0);
            self.broken.push(Broken {
                table: number,
                ranges,
                missing,
                pointers,
            });
        }
        Ok(())
    }

    /// A key table of which nothing can be read.
    pub(crate) fn hole_of_table(
        &mut self,
        number: FileNumber,
        bounds: &TableBounds,
        path: std::path::PathBuf,
    ) {
        let (from, to) = (&bounds.min_key, bounds.max_key.as_deref());
        self.holes.push(Hole {
            from: bounds.min_key.clone(),
            to: bounds.max_key.clone().map(past),
            sorted: true,
            max_seq: bounds.max_seq,
            file: number,
            path,
            missing: bounds.count,
            of_range_deletes: false,
        });
        if let (Some(missing), Some(pointers), Some(to)) = (bounds.count, &bounds.pointers, to) {
            self.broken.push(Broken {
                table: number,
                ranges: vec![(from.clone(), to.to_vec())],
                missing,
                pointers: pointers.clone(),
            });
        }
    }

    /// A record file. `count`: of its frames, where that is known.
    pub(crate) fn record_file(
        &mut self,
        found: &Found,
        meta: &RecordFileMeta,
        count: Option<u64>,
    ) -> Result<()> {
        let name = super::header::name_of(found.file.path());
        let (verified, faults, seen) = self.frames(found, meta, &name)?;
        if !seen.take(found, meta, self.judge, &mut self.ranges) {
            let offset = meta.plain_end().min(found.len);
            let what = "the range deletes are not those that are listed";
            self.report.file(&name).fault(offset, what);
        }
        // Without its end nothing says what it had.
        let is_whole = faults == 0 && count == Some(verified);
        // The frames of large values do not say how old they are.
        if !is_whole || meta.is_unnumbered() {
            self.unsound.insert(found.number);
        }
        let ranges = self.judge.unmerged_ranges(found.number);
        if is_whole || ranges.is_empty() {
            return Ok(());
        }
        // The keys show what the records were, and the other way round.
        let (number, judge) = (found.number, self.judge);
        let rank = |entry: &WalkedEntry| judge.frame(number, &entry.key, entry.seq);
        let section = if meta.key_section {
            self.section(found, &name, (&rank, meta.ingest_seq, false))?
        } else {
            None
        };
        match section {
            Some(section) if section.bad.is_empty() => {}
            Some(section) => {
                let in_bad = self.count_frames(found, meta, &section.bad)?;
                if count.is_some_and(|count| count == section.entries + in_bad) {
                    return Ok(());
                }
                let missing = count.map(|n| n.saturating_sub(section.entries + in_bad));
                for bad in section.bad {
                    self.holes_within(&ranges, bad, missing, (found, meta));
                }
            }
            None => {
                let max_key = count.map(|_| past(meta.max_key.clone()));
                let missing = count.map(|count| count.saturating_sub(verified));
                self.holes_within(
                    &ranges,
                    (meta.min_key.clone(), max_key),
                    missing,
                    (found, meta),
                );
            }
        }
        Ok(())
    }

    /// A table of which nothing can be read, where it is unmerged.
    pub(crate) fn hole_of_records(&mut self, meta: &RecordFileMeta, path: std::path::PathBuf) {
        let ranges = self.judge.unmerged_ranges(meta.number);
        if let Some(lost) = &meta.ranges {
            self.ranges.lose(lost, &ranges, (meta.number, &path));
        }
        for range in ranges.iter().filter(|_| meta.count > 0) {
            let bad = (meta.min_key.clone(), Some(past(meta.max_key.clone())));
            if let Some((from, to)) = within(range, bad) {
                self.holes.push(Hole {
                    from,
                    to,
                    sorted: false,
                    max_seq: meta.max_seq,
                    file: meta.number,
                    path: path.clone(),
                    missing: Some(meta.count),
                    of_range_deletes: false,
                });
            }
        }
    }

    /// Walks the frames; how many records verified, how many places did not, and what was seen of
    /// range tombstones.
    fn frames(
        &mut self,
        found: &Found,
        meta: &RecordFileMeta,
        name: &str,
    ) -> Result<(u64, u64, SeenRanges)> {
        let (mut verified, mut faults, mut seen) = (0, 0, SeenRanges::default());
        let mut frames = FrameWalk::new(&found.file, meta.records_end.min(found.len));
        while let Some(walked) = frames.next()? {
            if let Some(fault) = &walked.fault {
                self.report.file(name).fault(walked.offset, fault);
                if walked.offset < meta.plain_end() {
                    faults += 1
                } else {
                    seen.faults += 1
                }
                continue;
            }
            self.report.file(name).items += 1;
            let Some(frame) = walked.frame else {
                continue;
            };
            if let Some(tombstone) = &frame.range {
                seen.add(tombstone, walked.offset);
                continue;
            }
            verified += 1;
            let seq = meta.ingest_seq.unwrap_or(frame.seq);
            let rank = self.judge.frame(found.number, &frame.key, seq);
            let place = Place::Frame(RecordPointer {
                file: found.number,
                offset: walked.offset,
                len: u32::try_from(walked.len).unwrap_or(u32::MAX),
            });
            let claim = Claim::new((&frame.key, seq, frame.kind), (rank, false), place);
            self.sorter.push(&claim.expiring(frame.expiry_ms))?;
        }
        if found.len < meta.records_end {
            let what = "the file ends early";
            self.report.file(name).fault(found.len, what);
            faults += u64::from(found.len < meta.plain_end());
            seen.faults += u64::from(meta.ranges.is_some());
        }
        Ok((verified, faults, seen))
    }

    /// How many frames have keys in the blocks that did not verify.
    fn count_frames(&self, found: &Found, meta: &RecordFileMeta, bad: &[BadBlocks]) -> Result<u64> {
        let mut count = 0;
        let mut frames = FrameWalk::new(&found.file, meta.records_end.min(found.len));
        while let Some(walked) = frames.next()? {
            let Some(key) = key_of(&walked) else {
                continue;
            };
            let is_in = |(from, to): &BadBlocks| {
                from.as_slice() <= key && to.as_deref().is_none_or(|to| key < to)
            };
            count += u64::from(bad.iter().any(is_in));
        }
        Ok(count)
    }

    /// Walks a key section. `None`: nothing says where its blocks begin.
    fn section(
        &mut self,
        found: &Found,
        name: &str,
        reported: Outcome<'_>,
    ) -> Result<Option<Section>> {
        let blocks = match BlockWalk::open(&found.file, found.len) {
            Ok(blocks) => blocks,
            Err(error) if error.kind() == ErrorKind::Corruption => {
                let offset = error.offset().unwrap_or(0);
                self.report.file(name).fault(offset, error.to_string());
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let mut section = Section::default();
        for i in 0..blocks.len() {
            let fault = match blocks.block(i) {
                Ok(Some(block)) => match self.entries(block, reported, &mut section)? {
                    Ok(()) => continue,
                    Err(fault) => fault,
                },
                Ok(None) => break,
                Err(error) if error.kind() == ErrorKind::Corruption => {
                    (error.offset().unwrap_or(0), error.to_string())
                }
                Err(error) => return Err(error),
            };
            self.report.file(name).fault(fault.0, fault.1);
            let from = blocks.fence(i).to_vec();
            let to = (i + 1 < blocks.len()).then(|| blocks.fence(i + 1).to_vec());
            match section.bad.last_mut() {
                Some(last) if last.1.as_ref() == Some(&from) => last.1 = to,
                _ => section.bad.push((from, to)),
            }
        }
        self.report.file(name).items += section.entries;
        Ok(Some(section))
    }

    /// The claims of a block; or where and why it is damaged.
    fn entries(
        &mut self,
        block: WalkedBlock,
        (rank, ingest_seq, sorted): Outcome<'_>,
        section: &mut Section,
    ) -> Result<std::result::Result<(), (u64, String)>> {
        let entries = match block.entries {
            Ok(entries) => entries,
            Err(what) => return Ok(Err((block.offset, what.to_owned()))),
        };
        section.entries += entries.len() as u64;
        for mut entry in entries {
            // An ingested table has the number that its ingest was given.
            entry.seq = ingest_seq.unwrap_or(entry.seq);
            let rank = rank(&entry);
            let place = match entry.value {
                OwnedValue::None => Place::None,
                OwnedValue::Inline(value) => Place::Inline(value.to_vec()),
                OwnedValue::Pointer(pointer) => {
                    *section.pointers.entry(pointer.file).or_default() += 1;
                    Place::Frame(pointer)
                }
            };
            let said = (entry.key.as_slice(), entry.seq, entry.kind);
            let claim = Claim::new(said, (rank, sorted), place);
            self.sorter.push(&claim.expiring(entry.expiry_ms))?;
        }
        Ok(Ok(()))
    }

    fn holes_within(
        &mut self,
        ranges: &[Range],
        bad: BadBlocks,
        missing: Option<u64>,
        (found, meta): (&Found, &RecordFileMeta),
    ) {
        // Large values are older than what points to them, and so is nothing else.
        let max_seq = match meta.max_seq {
            UNNUMBERED => SeqNo::MAX,
            seq => seq,
        };
        for range in ranges {
            if let Some(hole) = within(range, bad.clone()) {
                self.add_hole(hole, (false, max_seq), missing, found);
            }
        }
    }

    fn add_hole(
        &mut self,
        (from, to): BadBlocks,
        (sorted, max_seq): (bool, SeqNo),
        missing: Option<u64>,
        found: &Found,
    ) {
        self.holes.push(Hole {
            from,
            to,
            sorted,
            max_seq,
            file: found.number,
            path: found.file.path().to_owned(),
            missing,
            of_range_deletes: false,
        });
    }
}

/// The key of a record that verified.
fn key_of(walked: &Walked) -> Option<&[u8]> {
    let frame = walked.frame.as_ref().filter(|_| walked.fault.is_none())?;
    frame.range.is_none().then_some(&frame.key)
}
