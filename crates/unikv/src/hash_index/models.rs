//! The hash index under loom: lookups beside the writer find every entry that was published to
//! them.

use super::*;
use crate::base::sync::Weakness;
use crate::base::sync::atomic::AtomicUsize;
use crate::testing::loom_model::{beside, errs, fails, holds};
use std::sync::Arc;

/// Two main buckets and one group: every key may stand in either, then in the one chain.
fn index() -> HashIndex {
    let index = HashIndex::with_capacity(0);
    assert_eq!(index.main.len(), 2);
    index
}

fn slots(index: &HashIndex, high_water: usize) -> Vec<u16> {
    let found = index.lookup(KEY, Slot(high_water as u16));
    found.iter().map(|candidate| candidate.slot.0).collect()
}

const KEY: u64 = 0x0123_4567_89ab_cdef;
const OTHER: u64 = 0x0fed_cba9_8765_4321;

fn enter(index: &HashIndex, hash: u64, slot: usize) {
    let entered = index.writer().insert(hash, Slot(slot as u16), 0, 100);
    assert_eq!(entered, Ok(()));
}

/// `before` entries of another key, then beside a reader one of `KEY` in each of two slots, after
/// each of which the high water rises, as it does with a view; or before each, which is wrong.
fn lookup_beside_writer(before: usize, too_early: bool) {
    let (index, high_water) = (Arc::new(index()), Arc::new(AtomicUsize::new(0)));
    for _ in 0..before {
        enter(&index, OTHER, 0);
    }
    let (written, published) = (Arc::clone(&index), Arc::clone(&high_water));
    let (read, seen) = (Arc::clone(&index), high_water);
    beside(
        move || {
            for slot in 1..=2 {
                if too_early {
                    published.store(slot, Ordering::Release);
                }
                enter(&written, KEY, slot);
                published.store(slot, Ordering::Release);
            }
        },
        move || {
            let seen = seen.load(Ordering::Acquire);
            let expected: Vec<u16> = (1..=seen as u16).rev().collect();
            assert_eq!(slots(&read, seen), expected);
        },
    );
    assert_eq!(slots(&index, 2), [2, 1]);
}

#[test]
fn a_lookup_beside_the_writer_finds_what_was_published_and_nothing_above() {
    holds(|| lookup_beside_writer(0, false));
    errs(|| lookup_beside_writer(0, true));
}

#[test]
fn so_it_does_where_full_buckets_begin_an_overflow_chain() {
    // The first entry takes the last place, the second begins the chain.
    holds(|| lookup_beside_writer(2 * BUCKET_PLACES - 1, false));
    errs(|| lookup_beside_writer(2 * BUCKET_PLACES - 1, true));
}

#[test]
fn and_where_an_overflow_bucket_is_full_and_another_put_in_front() {
    const FULL: usize = 2 * BUCKET_PLACES + BUCKET_PLACES - 1;
    holds(|| lookup_beside_writer(FULL - 1, false));
    fails(Weakness::OverflowHead, || {
        lookup_beside_writer(FULL - 1, false);
    });
}
