//! Fetching the values of a batch.
//!
//! File by file in the order of their offsets, neighbours in one read. What is not in memory is announced
//! first, so that the device reads it all at once. A long iteration over what is not in memory also
//! announces what stands behind the batch in each file, as flushes and merges write in key order: the
//! device reads on meanwhile.

use super::super::ahead::ahead_of;
use super::{End, LAST_BATCH, Value};
use crate::error::Result;
use crate::key_table::RecordPointer;
use crate::partition::View;
use crate::partition::scatter::Pieces;
use crate::partition::sorted_store::dangling;
use crate::record::{COALESCE_GAP_BYTES, Record, RecordFile};
use std::path::Path;

/// Batches that read ahead after one of which something was not in memory.
const BATCHES_AHEAD: usize = 16;

/// A value to be fetched, and its entry's place in the batch.
type Wanted = (RecordPointer, usize);

impl End {
    /// Fetches the values of the batch, file by file, and tells in how many pieces those of the
    /// SortedStore lay. They pass by the cache: to look for each costs more than it finds, and to keep them
    /// drives out what gets want.
    pub(in crate::db::iter) fn fetch(&mut self, view: &View) -> Result<Pieces> {
        let stored = self.entries.iter().enumerate();
        let mut wanted: Vec<Wanted> = stored
            .filter_map(|(i, entry)| match entry.value {
                Value::Stored { pointer, .. } => Some((pointer, i)),
                Value::Ready(_) | Value::Large | Value::Failed(_) => None,
            })
            .collect();
        wanted.sort_unstable_by_key(|(pointer, _)| (pointer.file, pointer.offset));
        let mut found = Pieces::default();
        if wanted.len() > 1 {
            found.all = self.pieces(&wanted);
            // What is not in memory is announced, so that the device reads it all at once.
            let all_present = self.fetch_runs(view, &wanted, RecordFile::read_present)?;
            if !all_present {
                self.ahead = BATCHES_AHEAD;
            }
            self.read_ahead(view, &wanted)?;
            let is_missing = |i: usize| {
                let entry = self.entries.get(i);
                entry.is_some_and(|entry| matches!(entry.value, Value::Stored { .. }))
            };
            wanted.retain(|(_, i)| is_missing(*i));
            found.cold = self.pieces(&wanted);
        }
        self.fetch_runs(view, &wanted, |file, pointers, out| {
            let mut records = Vec::with_capacity(pointers.len());
            file.read_many(pointers, &mut records);
            out.extend(records.into_iter().map(Some));
        })?;
        Ok(found)
    }

    /// In how many pieces the values of the SortedStore lie among what is `wanted`, sorted.
    fn pieces(&self, wanted: &[Wanted]) -> u64 {
        let is_merged = |i: usize| {
            let value = self.entries.get(i).map(|entry| &entry.value);
            matches!(value, Some(Value::Stored { merged: true, .. }))
        };
        let (mut pieces, mut last) = (0, None);
        for (pointer, _) in wanted.iter().filter(|(_, i)| is_merged(*i)) {
            let goes_on = |last: RecordPointer| {
                last.file == pointer.file
                    && last
                        .end()
                        .is_some_and(|end| pointer.offset.saturating_sub(end) <= COALESCE_GAP_BYTES)
            };
            pieces += u64::from(!last.is_some_and(goes_on));
            last = Some(*pointer);
        }
        pieces
    }

    /// Announces what the next batch probably wants, when this is a long iteration over what is not in
    /// memory: in each file as much as this batch spans, behind it in the direction of travel.
    fn read_ahead(&mut self, view: &View, wanted: &[Wanted]) -> Result<()> {
        if !self.goes_on || self.ahead == 0 || self.batch_len < LAST_BATCH {
            return Ok(());
        }
        self.ahead -= 1;
        for run in wanted.chunk_by(|a, b| a.0.file == b.0.file) {
            let number = run.first().map(|(first, _)| first.file);
            let file = number.and_then(|number| view.version.record_file(number));
            if let (Some(file), Some((from, len))) = (file, ahead_of(run, self.forward)) {
                file.announce(from, len)?;
            }
        }
        Ok(())
    }

    /// Reads what is `wanted`, sorted, with one call a file. False: some entries are without a record.
    fn fetch_runs(
        &mut self,
        view: &View,
        wanted: &[Wanted],
        read: impl Fn(&RecordFile, &[RecordPointer], &mut Vec<Option<Result<Record>>>),
    ) -> Result<bool> {
        let (mut pointers, mut records) = (Vec::new(), Vec::new());
        let mut all = true;
        for run in wanted.chunk_by(|a, b| a.0.file == b.0.file) {
            pointers.clear();
            pointers.extend(run.iter().map(|(pointer, _)| *pointer));
            let Some(&first) = pointers.first() else {
                continue;
            };
            let file = view.version.record_file(first.file);
            let file = file.ok_or_else(|| dangling(Path::new("MANIFEST"), first))?;
            read(file, &pointers, &mut records);
            for (&(_, i), record) in run.iter().zip(records.drain(..)) {
                let (Some(entry), Some(record)) = (self.entries.get_mut(i), record) else {
                    all = false;
                    continue;
                };
                entry.take_value(&self.keys, record, file.path());
            }
        }
        Ok(all)
    }
}
