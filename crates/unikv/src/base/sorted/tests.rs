use super::*;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Bound;

thread_local! {
    /// Entries and children that this thread has copied, because another map had them, too.
    pub(crate) static COPIED: Cell<usize> = const { Cell::new(0) };
}

fn key(n: u32) -> Bytes {
    Bytes::copy_from_slice(&n.to_be_bytes())
}

fn same(map: &Map<u32>, model: &BTreeMap<Bytes, u32>, rng: &mut SmallRng, keys: u32) {
    assert_eq!((map.len(), map.is_empty()), (model.len(), model.is_empty()));
    assert!(map.iter().eq(model.iter()));
    for _ in 0..20 {
        let at = key(rng.random_range(0..keys));
        assert_eq!(map.get(&at), model.get(&at));
        let next = model.range(at.clone()..).next();
        assert_eq!(map.first_from(&at), next);
        assert_eq!(map.last_before(&at), model.range(..at.clone()).next_back());
        let upto = (Bound::Unbounded, Bound::Included(at.clone()));
        assert_eq!(map.last_upto(&at), model.range(upto).next_back());
    }
}

#[test]
fn it_does_what_a_map_does_and_its_copies_stay_as_they_were() {
    for seed in 0..if cfg!(miri) { 2 } else { 40 } {
        let mut rng = SmallRng::seed_from_u64(seed);
        let keys = [50, 3000][seed as usize % 2];
        let (mut map, mut model) = (Map::default(), BTreeMap::new());
        let mut copies: Vec<(Map<u32>, BTreeMap<Bytes, u32>)> = Vec::new();
        for step in 0..3000 {
            // Now it grows, now it shrinks until nothing is left.
            let grows = step / 1000 != 1;
            let n = key(rng.random_range(0..keys));
            if rng.random_range(0..4) < if grows { 3 } else { 1 } {
                let value = rng.random();
                assert_eq!(map.insert(n.clone(), value), model.insert(n, value));
            } else {
                let n = map.first_from(&n).map_or(n, |(found, _)| found.clone());
                let removed = model.remove_entry(&n);
                assert_eq!(map.remove(&n), removed);
            }
            if step % 97 == 0 {
                same(&map, &model, &mut rng, keys);
                copies.push((map.clone(), model.clone()));
            }
        }
        for (copy, as_it_was) in &copies {
            same(copy, as_it_was, &mut rng, keys);
        }
        for n in 0..keys {
            assert_eq!(map.remove(&key(n)), model.remove_entry(&key(n)));
        }
        same(&map, &model, &mut rng, keys);
    }
}

#[test]
fn a_change_beside_a_copy_copies_one_way_down() {
    let mut map = Map::default();
    COPIED.set(0);
    for n in 0..10_000 {
        map.insert(key(n), n);
    }
    assert_eq!(COPIED.get(), 0, "nobody else has it");
    for n in 0..1000 {
        let copy = map.clone();
        map.insert(key(n * 10), 7);
        drop(copy);
    }
    let most = 1000 * 4 * (MOST_IN_NODE + 1);
    assert!(COPIED.get() <= most, "{}", COPIED.get());
    COPIED.set(0);
    // As long as the same copy is there, a way is copied once.
    let copy = map.clone();
    for _ in 0..1000 {
        map.insert(key(5), 8);
    }
    assert!(COPIED.get() <= 4 * (MOST_IN_NODE + 1));
    assert_eq!(copy.get(&key(5)), Some(&5));
}
