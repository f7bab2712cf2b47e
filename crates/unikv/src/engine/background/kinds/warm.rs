//! Reading back what the cache of the process before held, the hottest first, in turns with merges.
//!
//! It is for speed alone: nothing is committed, and what cannot be read is passed over.

pub(crate) mod warmth;

use crate::base::keys::FileNumber;
use crate::base::sync::atomic::Ordering;
use crate::engine::background::kinds::merge;
use crate::engine::background::kinds::warm::warmth::State;
use crate::engine::background::scheduler::Ask;
use crate::engine::background::{Background, Ended, Job, JobKind};
use crate::engine::health::JobName;
use crate::key_table::{Hint, KeyTable, RUNS_AT_ONCE, Written};
use crate::record::{self, COALESCE_GAP_BYTES, RecordPointer};
use crate::version::Version;
use crate::vfs::AROUND_BYTES;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Records that are read at a time; each may be a read of its own, and takes as many bytes more
/// than it has.
const RECORDS_AT_ONCE: usize = 8;
const BYTES_BESIDE: u64 = COALESCE_GAP_BYTES + AROUND_BYTES as u64;
/// Who reads while something is read back waits longer for the device. Where look-ups miss
/// meanwhile, it takes one part in this many of the time; a pause is no longer than this.
const GIVES_WAY: u32 = 10;
const LONGEST_PAUSE: Duration = Duration::from_millis(20);
/// What is read at a time may take this part of the budget.
const MEMORY_PART: u64 = 128;

/// Reads back a chunk of hints.
pub(crate) struct WarmStart;

impl JobKind for WarmStart {
    fn name(&self) -> JobName {
        "warm start"
    }

    fn is_for_reads(&self) -> bool {
        true
    }

    fn find(&self, background: &Background, ask: &Ask<'_>) -> Option<Job> {
        let warmth = &background.warmth;
        if !warmth.is_left() {
            return None;
        }
        if ask.is_by_worker() {
            let mut partitions = ask.catalog.version.partitions().iter();
            let is_merge_due = partitions.any(|p| ask.is_free(p.id) && merge::is_ready(ask, p));
            if !warmth.takes_turn(is_merge_due) {
                return None;
            }
        }
        let version = ask.catalog.version.clone();
        Some(Job::new(None, move |background| {
            let went_on = background.read_hints(&version);
            Ok(if went_on { Ended::Done } else { Ended::Nothing })
        }))
    }
}

impl Background {
    /// Reads back the next chunk of hints. False: none was left.
    fn read_hints(&self, version: &Version) -> bool {
        let Some(mut reader) = self.warmth.take_reader() else {
            return false;
        };
        // What is less hot does not drive out what is hotter.
        let has_room = self.core.cache.has_room();
        match reader.next() {
            Some(hints) if has_room && !self.is_closing() => {
                self.warm(version, &hints);
                self.warmth.put(State::Left(reader));
            }
            _ => {
                let (hints, bytes) = (reader.hints(), reader.len());
                let noted = State::noted(&self.core, Written { hints, bytes }, Duration::ZERO);
                self.warmth.put(noted);
            }
        }
        true
    }

    fn is_closing(&self) -> bool {
        self.core.closing.load(Ordering::Relaxed)
    }

    /// Brings to memory what `hints`, ascending, name of `version`, as long as there is room for it
    /// and nobody closes the database.
    fn warm(&self, version: &Version, hints: &[Hint]) {
        let tables = tables_of(version, hints);
        let goes_on = || self.core.cache.has_room() && !self.is_closing();
        let memory = self.core.memory.plan.budget_bytes / MEMORY_PART;
        for of_file in hints.chunk_by(|a, b| a.place().0 == b.place().0) {
            let Some((number, _)) = of_file.first().map(Hint::place) else {
                continue;
            };
            let table = tables.get(&number);
            if of_file.contains(&Hint::Index { file: number })
                && let Some(table) = table
            {
                table.want_index();
            }
            let offsets = of_file.iter().filter_map(|hint| match hint {
                Hint::Block { offset, .. } => Some(*offset),
                _ => None,
            });
            let offsets: Vec<u64> = offsets.collect();
            if offsets.is_empty() || !goes_on() {
                continue;
            }
            let run_bytes = memory as usize / RUNS_AT_ONCE;
            self.giving_way(|| {
                if let Some(table) = table {
                    table.section().warm(&offsets, run_bytes, &goes_on);
                } else if let Some(file) = version.record_file(number)
                    && let Ok(section) = file.section()
                {
                    section.warm(&offsets, run_bytes, &goes_on);
                }
            });
        }
        let records = hints.iter().filter_map(|hint| match hint {
            Hint::Record(pointer) => Some(*pointer),
            _ => None,
        });
        let records: Vec<RecordPointer> = records.collect();
        let mut left = &records[..];
        while !left.is_empty() && goes_on() {
            let (now, later) = left.split_at(at_once(left, memory));
            self.giving_way(|| record::warm(now, |number| version.record_file(number)));
            left = later;
        }
    }

    /// Calls `read`, and pauses if somebody else may have waited for it.
    fn giving_way(&self, read: impl FnOnce()) {
        let (begin, misses) = (self.core.now(), self.core.cache.misses());
        read();
        if self.core.cache.misses() > misses {
            let took = self.core.now().saturating_sub(begin);
            let pause = (took * GIVES_WAY).min(LONGEST_PAUSE);
            self.core.store.env().runtime.delay(pause);
        }
    }
}

/// The key tables of `version` that `hints` name, those of scan runs, too.
fn tables_of<'a>(version: &'a Version, hints: &[Hint]) -> HashMap<FileNumber, &'a Arc<KeyTable>> {
    let mut named: Vec<FileNumber> = hints.iter().map(|hint| hint.place().0).collect();
    named.dedup();
    let of_runs = version.scan_runs().flat_map(|run| run.tables());
    let tables = version.key_tables().chain(of_runs);
    let tables = tables.map(|table| (table.meta().number, table));
    tables
        .filter(|(number, _)| named.binary_search(number).is_ok())
        .collect()
}

/// How many of `records` are read together: at least one, and as many as fit into `memory`.
fn at_once(records: &[RecordPointer], memory: u64) -> usize {
    let mut room = memory;
    let fit = records.iter().take(RECORDS_AT_ONCE).take_while(|record| {
        let bytes = u64::from(record.len) + BYTES_BESIDE;
        let fits = bytes <= room;
        room = room.saturating_sub(bytes);
        fits
    });
    fit.count().max(1)
}

#[cfg(test)]
mod tests;
