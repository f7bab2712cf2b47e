//! The log of items against a table of what was put into it.

use super::*;
use bytes::Bytes;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::HashMap;

#[derive(Clone)]
struct Thing {
    bytes: Bytes,
    beside: usize,
}

impl LogItem for Thing {
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn set_bytes(&mut self, bytes: Bytes) {
        self.bytes = bytes;
    }

    fn beside_bytes(&self) -> usize {
        self.beside
    }
}

fn thing(n: u64, len: usize) -> Thing {
    let bytes = (0..len).map(|i| (n as usize * 31 + i) as u8).collect();
    let beside = if n.is_multiple_of(5) { 100 } else { 0 };
    Thing { bytes, beside }
}

fn log_of(shards: usize, capacity: u64) -> ItemLog<Thing> {
    ItemLog::new(shards, capacity)
}

#[test]
fn it_has_what_was_put_there_last_or_nothing_and_keeps_within_its_capacity() {
    for (shards, capacity, longest) in [(1, 1 << 10, 200), (1, 200 << 10, 3000), (4, 8 << 20, 9000)]
    {
        let mut rng = SmallRng::seed_from_u64(capacity);
        let log = log_of(shards, capacity);
        let mut model = HashMap::new();
        let mut held = Vec::new();
        let mut capacity = capacity;
        for step in 0..20_000u64 {
            let place = (7, rng.random_range(0..3000));
            match rng.random_range(0..20) {
                0..=9 => {
                    let new = thing(step, rng.random_range(0..longest));
                    log.insert(place, new.clone(), rng.random_bool(0.3));
                    assert!(log.memory_bytes() <= capacity || log.is_empty());
                    model.insert(place, new.bytes);
                }
                10 => {
                    log.remove(&place);
                    model.remove(&place);
                }
                11 if step.is_multiple_of(100) => {
                    capacity = capacity.saturating_add_signed(rng.random_range(-300..300));
                    log.set_capacity(capacity);
                    assert!(log.memory_bytes() <= capacity || log.is_empty());
                }
                12 => held.truncate(3),
                _ => {
                    let found = log.get(&place, |thing, _| match thing.bytes.len() % 2 {
                        0 => Bytes::copy_from_slice(&thing.bytes),
                        _ => thing.bytes.clone(),
                    });
                    assert_eq!(found.is_some(), log.contains(&place));
                    let Some(found) = found else { continue };
                    assert_eq!(Some(&found), model.get(&place), "{step}");
                    held.push((found.clone(), found.to_vec()));
                }
            }
            assert!(held.iter().all(|(bytes, copy)| bytes == copy));
        }
        assert!(model.keys().any(|place| log.contains(place)));
    }
}

#[test]
fn what_is_asked_for_stays_and_what_is_not_goes() {
    let log = log_of(1, 1 << 20);
    for n in 0..20_000 {
        log.insert((1, n), thing(n, 1000), false);
        for often in 0..100 {
            assert!(
                n < often || log.get(&(1, often), |_, _| ()).is_some(),
                "{often} of {n}"
            );
        }
    }
    assert!(!log.contains(&(1, 15_000)) && log.contains(&(1, 19_900)));
    // What comes as if it had been asked for outlives what came after it.
    log.insert((2, 0), thing(0, 1000), true);
    let gone = |n| {
        log.insert((3, n), thing(n, 1000), false);
        n > 100 && !log.contains(&(3, 0))
    };
    assert!((0..2000).any(gone));
    assert!(log.contains(&(2, 0)));
}

#[test]
fn pinned_memory_counts_until_it_is_released() {
    let log = log_of(1, 2 << 20);
    let fill = || {
        for n in 0..10_000 {
            log.insert((1, n), thing(n, 1000), false);
        }
        (0..10_000).filter(|n| log.contains(&(1, *n))).count()
    };
    let usual = fill();
    assert!(usual > 1500, "{usual}");
    // One item of each segment.
    let held: Vec<_> = (0..10_000).filter_map(|n| log.peek(&(1, n))).collect();
    assert!(fill() < usual / 3);
    assert!(log.memory_bytes() <= 2 << 20);
    drop(held);
    fill();
    assert!(fill() >= usual - 70);
}

#[test]
fn a_table_made_for_many_small_items_does_not_keep_large_ones_out() {
    let log = log_of(1, 1 << 20);
    for n in 0..20_000 {
        log.insert((1, n), thing(1, 10), false);
    }
    for n in 0..2000 {
        log.insert((2, n), thing(1, 4000), false);
    }
    let large = (0..2000).filter(|n| log.contains(&(2, *n))).count();
    assert!(large > 180, "{large}");
}

#[test]
fn what_leaves_no_room_for_others_is_not_kept_and_drives_nothing_out() {
    let log = log_of(1, 1 << 20);
    for n in 0..500 {
        log.insert((1, n), thing(n, 1000), false);
    }
    assert!(!log.insert((2, 0), thing(0, 100_000), false));
    assert!(!log.insert((2, 0), thing(0, 600_000), false));
    assert!((0..500).all(|n| log.contains(&(1, n))));
    assert!(!log.contains(&(2, 0)), "nor is what was there before");
}

#[test]
fn large_items_take_no_memory_of_segments() {
    let log = log_of(1, 4 << 20);
    // One in four is too large for a segment's memory.
    let len = |n: u64| if n.is_multiple_of(4) { 40_000 } else { 1000 };
    for n in 0..10_000 {
        log.insert((1, n), thing(n, len(n)), false);
    }
    let kept = (0..10_000).filter(|n| log.contains(&(1, *n)));
    let bytes: usize = kept.map(len).sum();
    assert!(bytes > 3 << 20, "{bytes}");
}
