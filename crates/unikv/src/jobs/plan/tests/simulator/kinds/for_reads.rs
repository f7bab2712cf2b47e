//! Work that serves reads alone.

use super::{Ended, Kind, merge, takes_nothing};
use crate::jobs::plan::tests::simulator::oracle::Candidate;
use crate::jobs::plan::{Filter, rules};
use rand::Rng;

/// Due while hints are left and no job reads them back. A worker takes turns with merges that it
/// could run.
pub(super) const WARM_START: Kind = Kind {
    rule: rules::warm::WARM_START,
    is_flush: false,
    may_fail: false,
    candidates: |world, filter| {
        let is_due = world.hints_left > 0 && !world.are_hints_read;
        let is_turn_of_merges = is_due
            && filter == Filter::Worker
            && world.hints_had_turn
            && !merge::ready(world, filter).is_empty();
        Candidate::if_due(is_due && !is_turn_of_merges)
    },
    begin: |world, _| {
        world.hints_had_turn = true;
        world.are_hints_read = true;
    },
    end: |world, _, rng| {
        world.are_hints_read = false;
        world.hints_left -= rng.random_range(1..=world.hints_left);
        Ended::Done
    },
};

/// Due while a table is worth a pointer index.
pub(super) const POINTER_INDEX: Kind = Kind {
    rule: rules::for_reads::POINTER_INDEX,
    is_flush: false,
    may_fail: false,
    candidates: |world, _| Candidate::if_due(world.index_wishes > 0),
    begin: takes_nothing,
    end: |world, _, _| grant(&mut world.index_wishes),
};

/// Due while a table is worth reading all its key blocks.
pub(super) const KEY_BLOCKS: Kind = Kind {
    rule: rules::for_reads::KEY_BLOCKS,
    candidates: |world, _| Candidate::if_due(world.block_wishes > 0),
    end: |world, _, _| grant(&mut world.block_wishes),
    ..POINTER_INDEX
};

/// Another worker may have been faster.
fn grant(wishes: &mut usize) -> Ended {
    if *wishes == 0 {
        return Ended::Nothing;
    }
    *wishes -= 1;
    Ended::Done
}
