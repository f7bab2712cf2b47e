//! Checking scan runs: each holds what the key sections that it stands for hold, neither more nor
//! less, and nothing else. Where these lead is checked with their record files.

use super::Check;
use super::summary::{Summary, disagree};
use crate::base::keys::SeqNo;
use crate::error::{Error, Result};
use crate::partition::cursor::{Cursor, RunCursor};
use crate::partition::merging::MergingCursor;
use crate::version::scan_run::ScanRun;
use crate::version::{Generation, KeyRange, Partition};
use crate::vfs::Access;
use std::path::Path;
use std::sync::Arc;

impl Check {
    /// Checks the scan runs of a partition.
    pub(super) fn scan_runs(&mut self, partition: &Partition) -> Result<()> {
        for generation in &partition.generations {
            if let Some(run) = generation.sound_run() {
                let first = run.tables().first();
                let path = first.map_or(Path::new("MANIFEST"), |table| table.path());
                let checked = self.scan_run(partition.range(), generation, run);
                self.part(path, checked)?;
            }
        }
        Ok(())
    }

    fn scan_run(
        &mut self,
        range: KeyRange<'_>,
        generation: &Generation,
        run: &Arc<ScanRun>,
    ) -> Result<()> {
        for table in run.tables() {
            let meta = table.meta();
            self.report.files += 1;
            self.report.bytes += meta.len;
            table.verify()?;
            let mut keys = Summary::default();
            let mut entries = table.iter(Access::Sequential);
            entries.seek_to_first()?;
            while let Some(entry) = entries.entry() {
                self.report.keys += 1;
                keys.add(entry.key, entry.seq, table.path(), 0)?;
                entries.next()?;
            }
            keys.compare_key_table(meta, table.path())?;
            disagree(meta.agrees_with(&table.facts()?), table.path())?;
        }
        compare_with_sections(range, generation, run)
    }
}

fn compare_with_sections(
    range: KeyRange<'_>,
    generation: &Generation,
    run: &Arc<ScanRun>,
) -> Result<()> {
    let covered = generation.tables().filter(|(slot, _)| *slot < run.end());
    let sections = covered.map(|(_, table)| Ok(Cursor::Keys(table.keys(Access::Sequential)?)));
    let mut sections = MergingCursor::new(sections.collect::<Result<_>>()?);
    sections.seek(range.start, SeqNo::MAX)?;
    let merged = RunCursor::scan_run(Arc::clone(run), Access::Sequential);
    let mut merged = Cursor::Run(merged);
    merged.seek_to_first()?;
    loop {
        let expected = sections.entry().filter(|e| range.is_before_end(e.key));
        if merged.entry() != expected {
            let first = run.tables().first();
            let path = first.map_or(Path::new("MANIFEST"), |table| table.path());
            let what = "a scan run differs from the key sections that it was merged from";
            return Err(Error::corruption(path, 0, what));
        }
        if expected.is_none() {
            return Ok(());
        }
        sections.next()?;
        merged.next()?;
    }
}
