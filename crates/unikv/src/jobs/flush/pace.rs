//! How a flush compresses: never so that writers wait for it.
//!
//! The rule: the codec of the keyspace, but Zstandard at its usual level at most, and while another
//! sealed memtable waits, at a fast level and with the dictionary of an earlier flush. (LZ4 would
//! be twice as fast, and JSON would take twice the bytes, as nothing copies values for their
//! compression alone.) What a flush has compressed with less effort than the keyspace asks for is
//! compressed again when it is copied: by a merge, a clustering, a collection.
//!
//! No locks.

use crate::base::keys::Kind;
use crate::codec::dictionary::{MOST_SAMPLED, Samples};
use crate::codec::{Compression, Dictionary, Haste};
use crate::jobs::JobContext;
use crate::jobs::flush::merged::Merged;
use crate::memtable::Memtable;
use crate::record::RecordRef;
use std::sync::Arc;

/// How often it is looked whether another memtable waits, in bytes written.
const LOOK_EVERY: u64 = 1 << 20;

/// The compression of one table.
pub(super) struct Pace<'a> {
    context: &'a JobContext<'a>,
    haste: Haste,
    /// Where it is looked next, in bytes of the table.
    next_look: u64,
}

impl<'a> Pace<'a> {
    pub(super) fn new(context: &'a JobContext<'a>) -> Pace<'a> {
        Pace {
            context,
            haste: haste(context),
            next_look: LOOK_EVERY,
        }
    }

    /// How the value of a record is compressed when the table has `written` bytes.
    pub(super) fn compression(&mut self, record: &RecordRef<'_>, written: u64) -> Compression {
        let wanted = self.context.compressions.of(record.key);
        if wanted == Compression::None {
            return wanted;
        }
        if written >= self.next_look {
            self.next_look = written + LOOK_EVERY;
            self.haste = haste(self.context);
        }
        wanted.of_flush(self.haste)
    }

    /// A dictionary for a table of `memtables`: one that fits it, or where there is no time to
    /// look for that, or to learn one, the last one of a flush.
    pub(super) fn dictionary(&self, memtables: &[Arc<Memtable>]) -> Option<Arc<Dictionary>> {
        let compressions = &self.context.compressions;
        if !compressions.have_zstd() {
            return None;
        }
        let last = self.context.dictionaries.last_of_flushes();
        if self.haste != Haste::None && last.is_some() {
            return last;
        }
        self.of_samples(memtables)
    }

    fn of_samples(&self, memtables: &[Arc<Memtable>]) -> Option<Arc<Dictionary>> {
        let compressions = &self.context.compressions;
        let mut samples = Samples::default();
        // One in this many values, so that they come from all of them.
        let bytes: usize = memtables.iter().map(|memtable| memtable.bytes()).sum();
        let step = bytes / MOST_SAMPLED + 1;
        let (mut entries, mut at) = (Merged::new(memtables), 0_usize);
        while let Some(entry) = entries.entry() {
            let is_zstd = matches!(compressions.of(entry.key), Compression::Zstd { .. });
            if entry.kind == Kind::Put && is_zstd {
                if at.is_multiple_of(step) {
                    samples.add(entry.value);
                }
                at += 1;
            }
            entries.next();
        }
        self.context.dictionaries.of_flush(samples)
    }
}

fn haste(context: &JobContext<'_>) -> Haste {
    match context.waiting.map_or(0, |waiting| waiting()) {
        0 => Haste::None,
        _ => Haste::Some,
    }
}
