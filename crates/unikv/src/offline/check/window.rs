//! Checking what is kept for those that follow the changes: segments of the log below the low-water
//! commit tag, and files of large values that only these name.
//!
//! Recovery needs none of it. Where it is damaged, or a crash has taken a part of what an earlier
//! process wrote, the change window begins later: that is a note and no problem.

use super::Check;
use crate::base::keys::{FileNumber, SeqNo};
use crate::error::{ErrorKind, Result};
use crate::key_table::ReadCache;
use crate::log::{ReplayOutcome, replay};
use crate::record::External;
use crate::version::{Version, file_names};
use crate::vfs::file_store::FileStore;
use std::sync::Arc;

impl Check {
    /// Reads all that the window has.
    ///
    /// # Errors
    /// Only where memory does not suffice: whatever else fails becomes a note.
    pub(super) fn window(
        &mut self,
        store: &Arc<FileStore>,
        cache: &Arc<ReadCache>,
        version: &Version,
        (segments, outcome): (&[FileNumber], &ReplayOutcome),
    ) -> Result<()> {
        let (Some(history), Some(last)) = (&version.counters.history, outcome.last) else {
            return Ok(());
        };
        let low_water = version.counters.wal_low_water;
        let (linked, _) = replay::linked_before(store, last, SeqNo(0), |n| segments.contains(&n))?;
        let oldest = linked.last().map_or(low_water, |it| it.end.number);
        let unlinked = segments.iter().filter(|n| **n < oldest.min(low_water));
        if let Some(number) = unlinked.max() {
            let name = file_names::wal(*number);
            self.note(&format!("nothing leads to the log segment {name}"));
        }
        for segment in linked.iter().filter(|it| it.end.number < low_water) {
            self.report.files += 1;
            self.report.bytes += segment.end.end;
            self.of_window(segment.verify(store))?;
        }
        for (_, number) in &history.files {
            if version.record_file(*number).is_none() {
                let read = self.large_values(store, cache, *number);
                self.of_window(read)?;
            }
        }
        Ok(())
    }

    /// Reads a file of large values that no version lists.
    fn large_values(
        &mut self,
        store: &Arc<FileStore>,
        cache: &Arc<ReadCache>,
        number: FileNumber,
    ) -> Result<()> {
        self.report.files += 1;
        let file = External::open_unlisted(store, cache, number)?;
        self.report.bytes += file.meta().len;
        let mut records = file.stream();
        while records.next_head()?.is_some() {
            self.report.records += 1;
        }
        Ok(())
    }

    fn of_window(&mut self, read: Result<()>) -> Result<()> {
        match read {
            Err(error) if error.kind() == ErrorKind::OutOfMemory => Err(error),
            Err(error) => {
                self.note(&error.to_string());
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    fn note(&mut self, what: &str) {
        let note = format!("the change window is not whole: {what}");
        self.report.notes.push(note);
    }
}
