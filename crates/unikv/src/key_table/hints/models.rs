//! Hints under loom: a reader beside one who notes, and two who note.

use super::*;
use crate::testing::loom_model::{beside, fails, holds};
use std::sync::Arc;

const HASH: u64 = 5 << 32;

fn place(table: u64) -> Option<(FileNumber, u64)> {
    Some((FileNumber(10 * table), 100 * table))
}

fn note(hints: &Hints, table: u64) {
    hints.note(FileNumber(table), HASH, FileNumber(10 * table), 100 * table);
}

/// A hint for another table comes to the slot; all that is read of either belongs together.
fn noted_beside_a_reader() {
    let hints = Arc::new(Hints::new(0));
    note(&hints, 1);
    let (writer, reader) = (Arc::clone(&hints), Arc::clone(&hints));
    beside(
        move || note(&writer, 2),
        move || {
            for table in [2, 1] {
                let hint = reader.get(FileNumber(table), HASH);
                assert!(
                    hint.is_none_or(|hint| Some(hint) == place(table)),
                    "{hint:?}"
                );
            }
        },
    );
    assert_eq!(hints.get(FileNumber(2), HASH), place(2));
}

#[test]
fn what_is_read_of_a_hint_belongs_together() {
    holds(noted_beside_a_reader);
    fails(Weakness::HintRead, noted_beside_a_reader);
    fails(Weakness::HintWrite, noted_beside_a_reader);
}

/// Two note at once: one of them may give up, and the slot is whole in the end.
fn noted_twice_at_once() {
    let hints = Arc::new(Hints::new(0));
    let (one, other) = (Arc::clone(&hints), Arc::clone(&hints));
    beside(move || note(&one, 1), move || note(&other, 2));
    let told = [1, 2].map(|table| hints.get(FileNumber(table), HASH));
    let [one, two] = [1, 2].map(place);
    assert!(told == [one, None] || told == [None, two], "{told:?}");
}

#[test]
fn a_slot_has_one_writer_at_a_time() {
    holds(noted_twice_at_once);
}
