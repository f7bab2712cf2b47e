//! The index against a model, its memory and precision, and its readers beside its writer.

use super::*;
use crate::base::hash::key_hash;
use crate::testing::limit;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::AtomicU64;

const ALL: Slot = Slot(1023);

fn hash(key: u64) -> u64 {
    key_hash(0x5eed, &key.to_be_bytes())
}

fn places(candidates: &Candidates) -> Vec<(u16, u64)> {
    candidates.iter().map(|c| (c.slot.0, c.offset)).collect()
}

/// Ranks drawn about as zipf with exponent 1: probability falls with 1/rank.
fn zipf(rng: &mut SmallRng, keys: f64) -> u64 {
    keys.powf(rng.random::<f64>()) as u64
}

/// Unique keys up to the capacity.
fn full_index(records: u64) -> HashIndex {
    let index = HashIndex::with_capacity(records as usize);
    let mut writer = index.writer();
    for key in 0..records {
        writer
            .insert(
                hash(key),
                Slot((key / 16_000) as u16),
                key % 16_000 * 1064,
                1064,
            )
            .unwrap();
    }
    drop(writer);
    index
}

fn bytes_per_record(index: &HashIndex) -> f64 {
    index.memory_bytes() as f64 / index.len() as f64
}

#[test]
fn unique_keys_fill_it_to_capacity_within_its_memory() {
    for records in [2_000, 20_000, 500_000] {
        let index = full_index(records);
        assert_eq!(index.len(), records as usize);
        assert!(
            bytes_per_record(&index) <= 11.0,
            "{}",
            bytes_per_record(&index)
        );
        assert!(index.utilisation() >= 0.8, "{}", index.utilisation());
    }
}

#[test]
fn zipf_updates_fill_it_to_capacity_within_its_memory() {
    // 32 tables of 16,000 updates each; a table has one entry per key.
    let mut rng = SmallRng::seed_from_u64(1);
    let tables: Vec<HashSet<u64>> = (0..32)
        .map(|_| (0..16_000).map(|_| zipf(&mut rng, 6e6)).collect())
        .collect();
    let records = tables.iter().map(HashSet::len).sum();
    let index = HashIndex::with_capacity(records);
    for (slot, keys) in tables.iter().enumerate() {
        for &key in keys {
            index
                .writer()
                .insert(hash(key), Slot(slot as u16), key, 1064)
                .unwrap();
        }
    }
    assert_eq!(index.len(), records);
    assert!(
        bytes_per_record(&index) <= 11.0,
        "{}",
        bytes_per_record(&index)
    );
    assert!(index.utilisation() >= 0.8, "{}", index.utilisation());
    // The hottest key is in every table; all its versions are found, newest first.
    let slots: Vec<u16> = index
        .lookup(hash(1), ALL)
        .iter()
        .map(|c| c.slot.0)
        .collect();
    assert_eq!(slots, (0..32).rev().collect::<Vec<_>>());
}

#[test]
fn tags_hardly_ever_match_for_another_key() {
    let records = 500_000;
    let index = full_index(records);
    let (mut failed_hits, mut failed_misses) = (0, 0);
    for key in 0..records {
        let found = index.lookup(hash(key), ALL);
        assert!(
            found
                .iter()
                .any(|c| c.slot.0 == (key / 16_000) as u16 && c.offset == key % 16_000 * 1064)
        );
        failed_hits += found.iter().len() - 1;
        failed_misses += index.lookup(hash(key + records), ALL).iter().len();
    }
    assert!(
        (failed_hits as f64) < records as f64 * 1e-4,
        "{failed_hits}"
    );
    assert!(
        (failed_misses as f64) < records as f64 * 1e-4,
        "{failed_misses}"
    );
}

#[test]
fn any_interleaving_is_found_newest_first() {
    let mut rng = SmallRng::seed_from_u64(2);
    for round in 0..20 {
        let keys = [3, 50, 400][round % 3];
        let index = HashIndex::with_capacity(1_500);
        let mut model: BTreeMap<u64, Vec<(u16, u64)>> = BTreeMap::new();
        for _ in 0..1_500 {
            // Slots in any order, although a flush inserts them ascending.
            let (key, slot) = (rng.random_range(0..keys), rng.random_range(0..1024));
            let offset = rng.random_range(0..1 << 30);
            if index.writer().insert(hash(key), Slot(slot), offset, 100) == Err(IndexFull) {
                break;
            }
            model.entry(key).or_default().push((slot, offset));
        }
        for (&key, versions) in &mut model {
            versions.sort_unstable_by_key(|&(slot, offset)| (std::cmp::Reverse(slot), offset));
            let high_water = rng.random_range(0..1024);
            let expected: Vec<_> = versions
                .iter()
                .copied()
                .filter(|&(slot, _)| slot <= high_water)
                .collect();
            assert_eq!(places(&index.lookup(hash(key), Slot(high_water))), expected);
        }
    }
}

/// The paper's prototype takes the first matching bucket in a fixed order for the newest version
/// and returned 7,312 stale values of 500,000.
#[test]
fn stale_reads_of_the_paper_prototype_do_not_happen() {
    let mut rng = SmallRng::seed_from_u64(3);
    let (keys, tables) = (4_000u64, 24u16);
    let index = HashIndex::with_capacity(keys as usize * tables as usize / 3);
    let mut newest: BTreeMap<u64, (u16, u64)> = BTreeMap::new();
    for slot in 0..tables {
        // Filling buckets unevenly, by other keys that come and go, changes which of a key's two
        // buckets is the emptier one from table to table.
        for _ in 0..rng.random_range(0..800) {
            index
                .writer()
                .insert(rng.random(), Slot(slot), 1, 100)
                .unwrap();
        }
        for key in (0..keys)
            .filter(|_| rng.random_ratio(1, 4))
            .collect::<Vec<_>>()
        {
            let offset = rng.random_range(2..1 << 30);
            index
                .writer()
                .insert(hash(key), Slot(slot), offset, 100)
                .unwrap();
            newest.insert(key, (slot, offset));
        }
        for (&key, &place) in &newest {
            let matches = places(&index.lookup(hash(key), Slot(slot)));
            let own: Vec<_> = matches.iter().filter(|place| place.1 != 1).collect();
            assert_eq!(own.first(), Some(&&place), "key {key} after table {slot}");
        }
    }
    assert!(index.utilisation() > 0.5);
}

#[test]
fn one_hash_in_64_tables_keeps_every_entry() {
    let index = HashIndex::with_capacity(20_000);
    for slot in 0..64 {
        for hot in 0..20 {
            index
                .writer()
                .insert(hash(hot), Slot(slot), hot, 40_000)
                .unwrap();
        }
    }
    for hot in 0..20 {
        let expected: Vec<_> = (0..64).rev().map(|slot| (slot, hot)).collect();
        assert_eq!(places(&index.lookup(hash(hot), ALL)), expected);
        assert_eq!(places(&index.lookup(hash(hot), Slot(9))), expected[54..]);
    }
}

#[test]
fn a_full_index_refuses_and_keeps_what_it_has() {
    let index = HashIndex::with_capacity(1_000);
    let mut kept = 0;
    while index
        .writer()
        .insert(hash(kept), Slot(1), kept, 100)
        .is_ok()
    {
        kept += 1;
    }
    assert!(kept > 1_000);
    assert_eq!(index.len(), kept as usize);
    assert!(index.memory_bytes() <= 11 * 1_000 + 16 * 64);
    for key in 0..kept {
        assert!(places(&index.lookup(hash(key), ALL)).contains(&(1, key)));
    }
    let roomy = HashIndex::with_capacity(10);
    assert_eq!(roomy.writer().insert(1, Slot(1024), 0, 100), Err(IndexFull));
    assert_eq!(
        roomy.writer().insert(1, Slot(0), 1 << 30, 100),
        Err(IndexFull)
    );
    assert!(roomy.len() == 0 && roomy.lookup(1, ALL).iter().len() == 0);
}

#[test]
fn the_smallest_index_works() {
    for records in 0..4 {
        let index = HashIndex::with_capacity(records);
        for key in 0..20 {
            index.writer().insert(hash(key), Slot(3), key, 1).unwrap();
        }
        for key in 0..20 {
            assert!(places(&index.lookup(hash(key), ALL)).contains(&(3, key)));
        }
    }
}

#[test]
fn readers_beside_the_writer_find_all_that_was_published() {
    let (keys, tables) = (if cfg!(miri) { 20 } else { 2_000 }, 30u16);
    let index = HashIndex::with_capacity(3 * keys as usize * tables as usize);
    let published = AtomicU64::new(0);
    let _limit = limit("readers beside the writer");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for slot in 0..tables {
                for key in 0..keys {
                    index
                        .writer()
                        .insert(hash(key), Slot(slot), key, 1064)
                        .unwrap();
                    published.store(u64::from(slot) * keys + key + 1, Ordering::Release);
                }
            }
        });
        for reader in 0..3 {
            let (index, published) = (&index, &published);
            scope.spawn(move || {
                let mut rng = SmallRng::seed_from_u64(reader);
                let total = keys * u64::from(tables);
                loop {
                    let count = published.load(Ordering::Acquire);
                    let key = rng.random_range(0..keys);
                    // The versions of `key` among the first `count` entries.
                    let versions = (count + keys - 1 - key) / keys;
                    // Later ones may or may not be met, so a view's high water hides them.
                    let high_water = Slot(versions.saturating_sub(1) as u16);
                    let found = places(&index.lookup(hash(key), high_water));
                    let own = found
                        .iter()
                        .filter(|place| place.1 == key)
                        .map(|place| place.0);
                    if versions > 0 {
                        assert!(
                            own.eq((0..versions as u16).rev()),
                            "{found:?} of {versions}"
                        );
                    }
                    if count == total {
                        break;
                    }
                }
            });
        }
    });
}
