//! Gaps of a view: where iterators have found nothing, and later ones need not look.
//!
//! They are in the open memtable, which says what they are and who may use them
//! (`memtable/entries/gaps.rs`). Here is what that asks of a reader's view.

use crate::base::keys::{Kind, SeqNo};
use crate::memtable::GapReader;
use crate::partition::{View, Visibility};

/// Steps in a row after which a run of hidden entries is worth a gap.
const WORTH_A_GAP: u32 = 32;
/// Each time this many steps have met no visible entry, a gap is looked for.
const LOOK_AFTER: u32 = 16;

/// Steps of an iterator since the last visible entry.
#[derive(Default)]
pub(crate) struct SteppedOver {
    steps: u32,
    /// Whether an entry was hidden that is no tombstone, and so may have expired.
    has_values: bool,
    /// Where the run begins, if a gap has been passed since the last visible entry.
    pub(crate) from: Option<Vec<u8>>,
}

impl SteppedOver {
    /// A run that begins where a gap ends.
    pub(crate) fn after(gap: Vec<u8>) -> SteppedOver {
        SteppedOver {
            from: Some(gap),
            ..SteppedOver::default()
        }
    }

    /// A step. True: it is time to look for a gap.
    #[inline(always)]
    pub(crate) fn step(&mut self) -> bool {
        self.steps = self.steps.wrapping_add(1);
        self.steps.is_multiple_of(LOOK_AFTER)
    }

    /// An entry of this kind is the newest of its key that the reader sees, and is no value for it.
    #[inline(always)]
    pub(crate) fn hides(&mut self, kind: Kind) {
        self.has_values |= kind != Kind::Delete;
    }

    /// An entry is visible.
    #[inline(always)]
    pub(crate) fn end(&mut self) {
        (self.steps, self.has_values) = (0, false);
        if self.from.is_some() {
            self.from = None;
        }
    }

    /// Whether the run is worth a gap.
    #[inline(always)]
    pub(crate) fn is_long(&self) -> bool {
        self.steps >= WORTH_A_GAP
    }
}

impl View {
    /// The greatest number that a table or a sealed memtable may have.
    pub(crate) fn others_seq(&self) -> SeqNo {
        let sealed = self
            .sealed
            .iter()
            .filter_map(|handle| handle.table.max_seq());
        sealed.fold(self.version.counters.flushed_seq, SeqNo::max)
    }

    #[cold]
    fn gap_reader(&self, at: Visibility) -> GapReader {
        GapReader {
            seq: at.seq,
            time_ms: at.time_ms(&self.clock),
            others: self.others_seq(),
        }
    }

    /// The end of what is known to be empty from `key` on.
    #[inline]
    pub(crate) fn end_of_gap(&self, key: &[u8], at: Visibility) -> Option<Vec<u8>> {
        let table = &self.memtable.table;
        if table.has_gaps() {
            table.end_of_gap(key, &self.gap_reader(at))
        } else {
            None
        }
    }

    /// The start of what is known to be empty up to before `upper`.
    #[inline]
    pub(crate) fn start_of_gap(&self, upper: &[u8], at: Visibility) -> Option<Vec<u8>> {
        let table = &self.memtable.table;
        if table.has_gaps() {
            table.start_of_gap(upper, &self.gap_reader(at))
        } else {
            None
        }
    }

    /// An iterator has found nothing that it sees from `start` to before `end`.
    #[cold]
    pub(crate) fn note_gap(&self, start: &[u8], end: &[u8], at: Visibility, run: &SteppedOver) {
        let mut reader = self.gap_reader(at);
        // Then nothing in it depends on the time. Where something expires, a merge may have made a
        // tombstone of it, which is none for the readers of another process.
        if !run.has_values && !self.clock.is_needed() {
            reader.time_ms = 0;
        }
        let table = &self.memtable.table;
        table.add_gap((start, end), &reader, u64::from(run.steps));
    }
}
