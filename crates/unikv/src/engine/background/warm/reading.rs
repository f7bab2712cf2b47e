//! Reading back what the cache of the process before held, the hottest first, in turns with merges.
//! What cannot be read is passed over.

use super::{MEMORY_PART, State, Warmth};
use crate::base::keys::FileNumber;
use crate::base::sync::atomic::Ordering;
use crate::key_table::{Hint, KeyTable, SPANS_AT_ONCE, Written};
use crate::record::{self, COALESCE_GAP_BYTES, RecordPointer};
use crate::version::Version;
use crate::vfs::DIRECT_EXTRA_BYTES;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Records that are read at a time; each may be a read of its own, and takes as many bytes more
/// than it has.
const RECORDS_AT_ONCE: usize = 8;
const BYTES_BESIDE: u64 = COALESCE_GAP_BYTES + DIRECT_EXTRA_BYTES as u64;
/// Who reads while something is read back waits longer for the device. Where look-ups miss
/// meanwhile, it takes one part in this many of the time; a pause is no longer than this.
const GIVES_WAY: u32 = 10;
const LONGEST_PAUSE: Duration = Duration::from_millis(20);
/// A job reads back hints for this long; then what is more urgent has its turn.
const TURN: Duration = Duration::from_millis(50);

impl Warmth {
    /// Reads back hints for a while. False: none was left.
    pub(crate) fn read_hints(&self) -> bool {
        let version = Arc::clone(&self.read.view.load().version);
        let Some(mut reader) = self.take_reader() else {
            return false;
        };
        let hints = if self.may_warm() { reader.next() } else { None };
        let Some(hints) = hints else {
            let (hints, bytes) = (reader.hints(), reader.len());
            let noted = State::noted(&self.core, Written { hints, bytes }, Duration::ZERO);
            self.put(noted);
            return true;
        };
        let begin = self.core.now();
        let tables = tables_of(&version, &hints);
        let mut left = &hints[..];
        while !left.is_empty() && self.may_warm() && self.core.now() < begin + TURN {
            left = self.warm_some(&version, &tables, left);
        }
        reader.give_back(left);
        self.put(State::Left(reader));
        true
    }

    /// Whether there is room, and nobody closes the database: what is less hot does not drive out
    /// what is hotter.
    fn may_warm(&self) -> bool {
        self.core.cache.has_room() && !self.core.closing.load(Ordering::Relaxed)
    }

    /// Brings to memory what the first of `hints`, ascending, name; says which are left.
    fn warm_some<'h>(
        &self,
        version: &Version,
        tables: &HashMap<FileNumber, &Arc<KeyTable>>,
        hints: &'h [Hint],
    ) -> &'h [Hint] {
        let memory = self.core.memory.plan.budget_bytes / MEMORY_PART;
        let [first, rest @ ..] = hints else {
            return hints;
        };
        match *first {
            Hint::Index { file } => {
                if let Some(table) = tables.get(&file) {
                    table.want_index();
                }
                rest
            }
            Hint::Block { file, .. } => {
                let blocks = hints.iter().map_while(|hint| match hint {
                    Hint::Block { file: of, offset } if *of == file => Some(*offset),
                    _ => None,
                });
                let offsets: Vec<u64> = blocks.collect();
                let section = match tables.get(&file) {
                    Some(table) => Some(table.section()),
                    None => version
                        .record_file(file)
                        .and_then(|file| file.section().ok().map(|section| &**section)),
                };
                if let Some(section) = section {
                    let span_bytes = memory as usize / SPANS_AT_ONCE;
                    self.giving_way(|| section.warm(&offsets, span_bytes, &|| self.may_warm()));
                }
                &hints[offsets.len()..]
            }
            Hint::Record(_) => {
                let records = at_once(hints, memory);
                self.giving_way(|| record::warm(&records, |number| version.record_file(number)));
                &hints[records.len()..]
            }
        }
    }

    /// Calls `read`, and pauses if somebody else may have waited for it.
    fn giving_way(&self, read: impl FnOnce()) {
        let ((), took, misses) = self.core.beside_look_ups(read);
        if misses > 0 {
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

/// The records with which `hints` begin, as many as are read together: at least one, and as many as
/// fit into `memory`.
fn at_once(hints: &[Hint], memory: u64) -> Vec<RecordPointer> {
    let records = hints.iter().map_while(|hint| match hint {
        Hint::Record(pointer) => Some(*pointer),
        _ => None,
    });
    let mut bytes = 0;
    let mut fits = |record: &RecordPointer| {
        let is_first = bytes == 0;
        bytes += u64::from(record.len) + BYTES_BESIDE;
        is_first || bytes <= memory
    };
    let records = records.take(RECORDS_AT_ONCE);
    records.take_while(|record| fits(record)).collect()
}
