//! How a flush compresses: never so that writers wait for it.
//!
//! The rule: the codec of the keyspace, but Zstandard at its usual level at most; and as long as
//! another sealed memtable waits, LZ4 in its place, or Zstandard at a hasty level in a build
//! without LZ4, and no new dictionary. What a flush has compressed with less effort than the
//! keyspace asks for is compressed again when it is copied: by a merge, a clustering, a collection.

use crate::base::keys::Kind;
use crate::codec::dictionary::{MOST_SAMPLED, Samples};
use crate::codec::{Compression, Dictionary};
use crate::jobs::JobContext;
use crate::memtable::Memtable;
use crate::record::RecordRef;
use std::sync::Arc;

/// How often it is looked whether another memtable waits, in bytes written.
const LOOK_EVERY: u64 = 1 << 20;

/// The compression of one table.
pub(super) struct Pace<'a> {
    context: &'a JobContext<'a>,
    is_behind: bool,
    /// Where it is looked next, in bytes of the table.
    next_look: u64,
}

impl<'a> Pace<'a> {
    pub(super) fn new(context: &'a JobContext<'a>) -> Pace<'a> {
        Pace {
            context,
            is_behind: is_behind(context),
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
            self.is_behind = is_behind(self.context);
        }
        wanted.of_flush(self.is_behind)
    }

    /// A dictionary for a table of `memtable`, where there is time to learn one: it takes some 25
    /// ms for as many samples as there may be.
    pub(super) fn dictionary(&self, memtable: &Arc<Memtable>) -> Option<Arc<Dictionary>> {
        let compressions = &self.context.compressions;
        if self.is_behind || !compressions.have_zstd() {
            return None;
        }
        let mut samples = Samples::default();
        // One in this many values, so that they come from all of it.
        let step = memtable.bytes() / MOST_SAMPLED + 1;
        let (mut entries, mut at) = (memtable.iter(), 0);
        entries.seek_to_first();
        while let Some(entry) = entries.entry() {
            let is_zstd = matches!(compressions.of(entry.key), Compression::Zstd { .. });
            if entry.kind == Kind::Put && is_zstd {
                if at % step == 0 {
                    samples.add(entry.value);
                }
                at += 1;
            }
            entries.next();
        }
        samples.train().map(Arc::new)
    }
}

fn is_behind(context: &JobContext<'_>) -> bool {
    context.is_behind.is_some_and(|is_behind| is_behind())
}
