//! Fetching the values of a batch.
//!
//! File by file in the order of their offsets, neighbours in one read. What is not in memory is announced
//! first, so that the device reads it all at once; of a short iteration, some may be read around the page cache
//! instead. A long iteration over what is not in memory also announces what stands behind the batch in each
//! file, as flushes and merges write in key order: the device reads on meanwhile.

use super::super::ahead::ahead_of;
use super::{End, LAST_BATCH, Value};
use crate::error::Result;
use crate::key_table::RecordPointer;
use crate::partition::View;
use crate::partition::scatter::{Fetched, charge};
use crate::partition::sorted_store::dangling;
use crate::record::{Detours, Record, RecordFile};
use std::mem;
use std::path::Path;

/// Batches that read ahead after one of which something was not in memory.
const BATCHES_AHEAD: usize = 16;

/// A value to be fetched, and its entry's place in the batch.
type Wanted = (RecordPointer, usize);

impl End {
    /// Fetches the values of the batch, file by file. They pass by the cache: to look for each costs more
    /// than it finds, and to keep them drives out what gets want. With `clusters`, who scans is charged for
    /// values that lie apart; true: that has just paid for their clustering.
    pub(in crate::db::iter) fn fetch(&mut self, view: &View, clusters: bool) -> Result<bool> {
        let mut wanted: Vec<Wanted> = Vec::with_capacity(self.entries.len());
        wanted.extend(self.stored(false).map(|(i, it)| (it, i)));
        wanted.sort_unstable_by_key(|(pointer, _)| (pointer.file, pointer.offset));
        let mut merged = Vec::new();
        // A long iteration announces what it wants next: then that is in memory.
        let mut detours = Detours::new(self.batch_len < LAST_BATCH);
        if wanted.len() > 1 {
            if clusters {
                merged.extend(self.stored(true));
            }
            // What is not in memory is announced, so that the device reads it all at once.
            let all_present = self.fetch_runs(view, &wanted, |file, pointers, out| {
                file.read_present(pointers, &mut detours, out);
            })?;
            if !all_present {
                self.ahead = BATCHES_AHEAD;
            }
            self.read_ahead(view, &wanted)?;
            wanted.retain(|(_, i)| self.is_missing(*i));
        }
        let fetched = merged.into_iter().filter_map(|(i, pointer)| {
            let key = self.entries.get(i)?.key_in(&self.keys);
            let cold = self.is_missing(i);
            Some(Fetched { key, pointer, cold })
        });
        let fetched: Vec<_> = fetched.collect();
        let paid = charge(&view.version, &fetched);
        if !detours.is_empty() {
            detours.read();
            self.fetch_runs(view, &wanted, |file, pointers, out| {
                file.take_around(pointers, &detours, out);
            })?;
            wanted.retain(|(_, i)| self.is_missing(*i));
        }
        self.fetch_runs(view, &wanted, |file, pointers, out| {
            let mut records = Vec::with_capacity(pointers.len());
            file.read_many(pointers, &mut records);
            out.extend(records.into_iter().map(Some));
        })?;
        Ok(paid)
    }

    /// The entries whose values are to be fetched, with their places in the batch; if asked for, those of
    /// the SortedStore alone.
    fn stored(&self, merged_alone: bool) -> impl Iterator<Item = (usize, RecordPointer)> {
        let entries = self.entries.iter().enumerate();
        entries.filter_map(move |(i, entry)| match entry.value {
            Value::Stored {
                pointer, merged, ..
            } if merged || !merged_alone => Some((i, pointer)),
            _ => None,
        })
    }

    fn is_missing(&self, i: usize) -> bool {
        let value = self.entries.get(i).map(|entry| &entry.value);
        matches!(value, Some(Value::Stored { .. }))
    }

    /// Announces what the next batch probably wants, when this is a long iteration over what is not in
    /// memory: in each file as much as this batch spans, behind it in the direction of travel.
    fn read_ahead(&mut self, view: &View, wanted: &[Wanted]) -> Result<()> {
        let is_first = mem::take(&mut self.is_first);
        if is_first || !self.goes_on || self.ahead == 0 || self.batch_len < LAST_BATCH {
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
        mut read: impl FnMut(&RecordFile, &[RecordPointer], &mut Vec<Option<Result<Record>>>),
    ) -> Result<bool> {
        let mut pointers = Vec::with_capacity(wanted.len());
        let mut records = Vec::with_capacity(wanted.len());
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
