//! What the cache hands out, holds back and takes in.

use super::*;

const FILE: FileNumber = FileNumber(7);

fn frame(n: u64) -> Bytes {
    (0..1000).map(|i| (i * n) as u8).collect()
}

#[test]
fn a_record_that_is_handed_out_holds_none_of_the_cache() {
    let cache = ReadCache::new(4 << 20);
    for n in 0..1000 {
        cache.insert_record(FILE, n, frame(n), false);
    }
    let found = |n| cache.record(FILE, n, |frame| frame.part(0..1000));
    let all: Vec<_> = (0..900).map(|n| found(n).unwrap()).collect();
    for n in 1000..20_000 {
        cache.insert_record(FILE, n, frame(n), false);
    }
    let held = (10_000..20_000).filter(|n| cache.holds(FILE, *n));
    assert!(held.count() > 2500, "those that are held take room");
    let right = |(n, found): (usize, &Bytes)| *found == frame(n as u64);
    assert!(all.iter().enumerate().all(right));
}

#[test]
fn at_most_this_many_blocks_may_be_held_for_long() {
    let cache = ReadCache::new(32 << 20);
    let all = || -> Vec<_> { std::iter::from_fn(|| cache.hold_segment()).collect() };
    let first = all();
    assert!((20..40).contains(&first.len()), "{}", first.len());
    drop(first.into_iter().nth(3));
    assert!(all().len() >= 20);
    // Where there are no segments nobody holds one.
    let small = ReadCache::new(10_000);
    let held: Vec<_> = (0..1000).map(|_| small.hold_segment()).collect();
    assert!(held.iter().all(Option::is_some));
}

#[test]
fn what_is_written_is_kept_if_that_happens_again_soon() {
    let cache = ReadCache::new(4 << 20);
    let keeps = |hash, len, again| cache.keeps_written(hash, len, again);
    let slots = cache.written.len() as u64;
    // One takes the place of the other.
    let (one, other) = (5, 5 + (1 << 60) / slots * slots);
    assert!(!keeps(one, 1000, false) && !keeps(one, 1000, false));
    assert!(keeps(one, 1000, true));
    cache.note_written(one);
    assert!(keeps(one, 1000, false) && !keeps(other, 1000, false));
    assert!(!keeps(one, 1 << 20, true), "too large");
    cache.note_written(other);
    assert!(!keeps(one, 1000, false), "long ago");
}

#[test]
fn what_is_lent_is_for_items_alone() {
    let cache = ReadCache::new(4 << 20);
    cache.set_capacity(4 << 20);
    let (limit, pins) = (cache.pointer_index_limit(), cache.pins().limit());
    let items = cache.capacity();
    cache.lend(6 << 20, 2 << 20);
    assert_eq!(cache.pointer_index_limit(), limit);
    assert_eq!(cache.pins().limit(), pins);
    assert!(cache.capacity() > items + (7 << 18));
    cache.set_capacity(4 << 20);
    assert_eq!(cache.capacity(), items);
}
