//! Fetching the values of a batch.
//!
//! File by file in the order of their offsets, neighbours in one read. What is not in memory is
//! prefetched first, so that the device reads it all at once; of a short iteration, some may be
//! read directly instead. A long iteration over what is not in memory also prefetches
//! what stands after the batch in each file, as flushes and merges write in key order: the device
//! reads on meanwhile.

use super::super::ahead::ahead_of;
use super::batch::Value;
use super::{End, LAST_BATCH};
use crate::base::keys::PartitionId;
use crate::error::Result;
use crate::key_table::RecordPointer;
use crate::partition::{View, scan_sources};
use crate::record::DirectReads;
use crate::record::pointed::dangling;
use std::mem;
use std::path::Path;

/// Batches that read ahead after one of which something was not in memory.
const BATCHES_AHEAD: usize = 16;

/// A value to be fetched.
struct Wanted {
    pointer: RecordPointer,
    /// Its entry's place in the batch.
    entry: usize,
}

impl AsRef<RecordPointer> for Wanted {
    fn as_ref(&self) -> &RecordPointer {
        &self.pointer
    }
}

/// How values are read.
enum Way<'a> {
    /// Those that are in memory; others are prefetched, or added to the direct_reads.
    Present(&'a mut DirectReads),
    /// Those that the direct_reads have read.
    Direct(&'a DirectReads),
    /// All of them.
    Wait,
}

impl End {
    /// Fetches the values of the batch, file by file. They pass by the cache: to look for each
    /// costs more than it finds, and to keep them drives out what gets want. Adds where scans may
    /// have made clustering worth its cost with it.
    pub(in crate::engine::read::iter) fn fetch(
        &mut self,
        view: &View,
        charged: &mut Vec<PartitionId>,
    ) -> Result<()> {
        let mut wanted: Vec<Wanted> = Vec::with_capacity(self.entries.len());
        wanted.extend(self.stored());
        wanted.sort_unstable_by_key(|Wanted { pointer, .. }| (pointer.file, pointer.offset));
        charged.extend(self.charge_places(view, &wanted));
        // A long iteration prefetches what it wants next: then that is in memory.
        let mut direct_reads = DirectReads::new(self.batch_len < LAST_BATCH);
        if wanted.len() > 1 {
            // What is not in memory is prefetched, so that the device reads it all at once.
            self.fetch_spans(view, &wanted, Way::Present(&mut direct_reads))?;
            let mut cold = wanted.iter().filter(|it| self.is_missing(it.entry));
            if cold.next().is_some() {
                self.ahead = BATCHES_AHEAD;
            }
            self.read_ahead(view, &wanted)?;
            wanted.retain(|it| self.is_missing(it.entry));
        }
        if !direct_reads.is_empty() {
            direct_reads.read();
            self.fetch_spans(view, &wanted, Way::Direct(&direct_reads))?;
            wanted.retain(|it| self.is_missing(it.entry));
        }
        self.fetch_spans(view, &wanted, Way::Wait)?;
        Ok(())
    }

    /// Charges the places that are to be visited, if they are many.
    fn charge_places(&self, view: &View, wanted: &[Wanted]) -> Option<PartitionId> {
        let places = wanted.chunk_by(are_together).count();
        let first = self.entries.first()?;
        scan_sources::charge_places(&view.version, first.key_in(&self.keys), places)
    }

    /// The values to be fetched.
    fn stored(&self) -> impl Iterator<Item = Wanted> {
        let entries = self.entries.iter().enumerate();
        entries.filter_map(|(i, entry)| match entry.value {
            Value::Stored { pointer, .. } => Some(Wanted { pointer, entry: i }),
            _ => None,
        })
    }

    fn is_missing(&self, i: usize) -> bool {
        let value = self.entries.get(i).map(|entry| &entry.value);
        matches!(value, Some(Value::Stored { .. }))
    }

    /// Prefetches what the next batch probably wants, when this is a long iteration over what is
    /// not in memory: in each file as much as this batch spans, after it in the direction of
    /// travel.
    fn read_ahead(&mut self, view: &View, wanted: &[Wanted]) -> Result<()> {
        let is_first = mem::take(&mut self.is_first);
        if is_first || !self.goes_on || self.ahead == 0 || self.batch_len < LAST_BATCH {
            return Ok(());
        }
        self.ahead -= 1;
        for span in wanted.chunk_by(are_together) {
            let number = span.first().map(|first| first.pointer.file);
            let file = number.and_then(|number| view.version.record_file(number));
            if let (Some(file), Some((from, len))) = (file, ahead_of(span, self.forward)) {
                file.prefetch(from, len)?;
            }
        }
        Ok(())
    }

    /// Reads what is `wanted`, sorted, with one call a file.
    fn fetch_spans(&mut self, view: &View, wanted: &[Wanted], mut way: Way<'_>) -> Result<()> {
        for span in wanted.chunk_by(are_together) {
            let Some(first) = span.first().map(|first| first.pointer) else {
                continue;
            };
            let file = view.version.record_file(first.file);
            let file = file.ok_or_else(|| dangling(Path::new("MANIFEST"), first))?;
            let take = |wanted: &Wanted, record, is_shared| {
                if let Some(entry) = self.entries.get_mut(wanted.entry) {
                    let (keys, room) = (&self.keys, &mut self.room);
                    entry.take_value(keys, record, is_shared, file.path(), room);
                }
            };
            match &mut way {
                Way::Present(direct_reads) => file.read_present(span, direct_reads, take),
                Way::Direct(direct_reads) => file.take_direct(span, direct_reads, take),
                Way::Wait => file.read_sorted(span, take),
            }
        }
        Ok(())
    }
}

fn are_together(a: &Wanted, b: &Wanted) -> bool {
    a.pointer.file == b.pointer.file
}
