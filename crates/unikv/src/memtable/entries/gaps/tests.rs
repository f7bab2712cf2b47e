//! Gaps against a model of all versions.

use super::*;
use crate::base::hash::key_hash;
use crate::base::keys::Kind;
use crate::memtable::Memtable;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::sync::atomic::AtomicU64;
use std::thread;

const KEYS: usize = 40;
const SEEDS: u64 = if cfg!(miri) { 2 } else { 40 };

fn key(n: usize) -> Vec<u8> {
    format!("\0\0\0\0{n:03}").into_bytes()
}

/// All that was written, oldest first: the key, whether it is a value, when that expires.
#[derive(Default)]
struct History(Vec<(usize, bool, u64)>);

impl History {
    fn last(&self) -> SeqNo {
        SeqNo(self.0.len() as u64)
    }

    /// The keys that have a value at a number and a time.
    fn visible(&self, seq: SeqNo, time_ms: u64) -> Vec<bool> {
        let mut visible = vec![false; KEYS];
        for (key, is_value, expiry_ms) in &self.0[..seq.0 as usize] {
            visible[*key] = *is_value && *expiry_ms > time_ms;
        }
        visible
    }
}

struct Story {
    pool: Arc<ArenaPool>,
    table: Arc<Memtable>,
    history: History,
    /// The last number that is not in the memtable.
    others: SeqNo,
    time_ms: u64,
    /// Readers that go on for a while.
    readers: Vec<(GapReader, Arc<Memtable>)>,
    passed: usize,
}

impl Story {
    fn new() -> Story {
        let pool = ArenaPool::new(64 << 10, 0);
        Story {
            table: Arc::new(Memtable::new(&pool, 7)),
            pool,
            history: History::default(),
            others: SeqNo(0),
            time_ms: 0,
            readers: Vec::new(),
            passed: 0,
        }
    }

    fn write(&mut self, n: usize, is_value: bool, expiry_ms: u64) {
        self.history.0.push((n, is_value, expiry_ms));
        let kind = if is_value { Kind::Put } else { Kind::Delete };
        let seq = self.history.last();
        self.table.insert(&key(n), seq, kind, Some(expiry_ms), b"");
    }

    fn reader(&self) -> GapReader {
        GapReader {
            seq: self.history.last(),
            time_ms: self.time_ms,
            others: self.others,
        }
    }

    /// Leaves a gap wherever `reader` finds nothing from `start` on.
    fn leave(&self, reader: &GapReader, table: &Memtable, start: usize) {
        let visible = self.history.visible(reader.seq, reader.time_ms);
        let empty = visible[start..].iter().take_while(|v| !**v).count();
        let range = (key(start), key(start + empty));
        table.add_gap((&range.0, &range.1), reader, empty as u64);
    }

    /// Whatever `reader` is known to pass, it sees nothing there.
    fn check(&mut self, reader: &GapReader, table: &Memtable) {
        let visible = self.history.visible(reader.seq, reader.time_ms);
        for n in 0..KEYS {
            let end = table.end_of_gap(&key(n), reader).unwrap_or(key(n));
            let start = table.start_of_gap(&key(n), reader).unwrap_or(key(n));
            self.passed += usize::from(end > key(n)) + usize::from(start < key(n));
            for (other, visible) in visible.iter().enumerate() {
                let is_after = (key(n)..end.clone()).contains(&key(other));
                let is_before = (start.clone()..key(n)).contains(&key(other));
                let passed = is_after || is_before;
                assert!(!passed || !visible, "key {other} from {n} at {reader:?}");
            }
        }
    }

    fn step(&mut self, rng: &mut SmallRng) {
        let n = rng.random_range(0..KEYS);
        match rng.random_range(0..20) {
            0..4 => {
                let expiry_ms = match rng.random_range(0..4) {
                    0 => self.time_ms + rng.random_range(0..30),
                    _ => u64::MAX,
                };
                self.write(n, true, expiry_ms);
            }
            4..8 => {
                for n in n..(n + rng.random_range(1..20)).min(KEYS) {
                    self.write(n, false, u64::MAX);
                }
            }
            8..12 => self.leave(&self.reader(), &self.table, n),
            12 => self.readers.push((self.reader(), Arc::clone(&self.table))),
            13..15 if !self.readers.is_empty() => {
                let (reader, table) = &self.readers[rng.random_range(0..self.readers.len())];
                self.leave(reader, table, n);
            }
            15 if !self.readers.is_empty() => {
                self.readers
                    .swap_remove(rng.random_range(0..self.readers.len()));
            }
            16 => {
                let next = Arc::new(self.table.next(&self.pool, self.others));
                self.others = self.history.last();
                self.table = next;
            }
            17 if self.table.is_empty() => {
                // What is ingested comes to the tables.
                self.history.0.push((n, true, u64::MAX));
                self.others = self.history.last();
            }
            _ => self.time_ms += rng.random_range(0..10),
        }
    }
}

#[test]
fn nothing_is_passed_that_a_reader_sees() {
    let mut passed = 0;
    for seed in 0..SEEDS {
        let (mut rng, mut story) = (SmallRng::seed_from_u64(seed), Story::new());
        for _ in 0..200 {
            story.step(&mut rng);
            let (now, table) = (story.reader(), Arc::clone(&story.table));
            story.check(&now, &table);
            for (reader, table) in story.readers.clone() {
                story.check(&reader, &table);
            }
        }
        passed += story.passed;
        let (pool, allocated) = (Arc::clone(&story.pool), story.pool.allocated_bytes());
        drop(story);
        assert!(allocated > 0 && pool.allocated_bytes() == 0);
    }
    assert!(passed as u64 > 100 * SEEDS, "{passed}");
}

#[test]
fn what_comes_beside_readers_is_not_passed() {
    const WRITES: u64 = if cfg!(miri) { 200 } else { 30_000 };
    const HASH_SEED: u64 = 7;
    let table = Arc::new(Memtable::new(&ArenaPool::new(1 << 20, 0), HASH_SEED));
    let visible = AtomicU64::new(0);
    let write = || {
        let mut rng = SmallRng::seed_from_u64(1);
        for seq in 1..=WRITES {
            let kind = if rng.random_ratio(1, 8) {
                Kind::Put
            } else {
                Kind::Delete
            };
            let key = key(rng.random_range(0..KEYS));
            table.insert(&key, SeqNo(seq), kind, None, b"");
            visible.store(seq, Ordering::Release);
        }
    };
    let read = &|seed| {
        let (mut rng, mut passed, mut rounds) = (SmallRng::seed_from_u64(seed), 0, 0);
        // Some of them at the end, should the writer have been faster.
        while rounds < 500 || visible.load(Ordering::Acquire) < WRITES {
            rounds += 1;
            let reader = GapReader {
                seq: SeqNo(visible.load(Ordering::Acquire)),
                time_ms: 0,
                others: SeqNo(0),
            };
            let is_empty = |n: &usize| {
                let key = key(*n);
                let found = table.get(&key, key_hash(HASH_SEED, &key), reader.seq);
                found.is_none_or(|entry| entry.kind == Kind::Delete)
            };
            let from = rng.random_range(0..KEYS);
            let end = (from..KEYS).find(|n| !is_empty(n)).unwrap_or(KEYS);
            table.add_gap((&key(from), &key(end)), &reader, 1);
            let from = rng.random_range(0..KEYS);
            let end = table.end_of_gap(&key(from), &reader).unwrap_or_default();
            let known = (from..KEYS).take_while(|n| key(*n) < end);
            assert!(known.inspect(|_| passed += 1).all(|n| is_empty(&n)));
        }
        passed
    };
    let passed = thread::scope(|scope| {
        let readers = [2, 3].map(|seed| scope.spawn(move || read(seed)));
        write();
        readers.map(|reader| reader.join().unwrap())
    });
    assert!(passed.iter().sum::<u64>() > 0, "{passed:?}");
}

#[test]
fn of_a_key_with_many_versions_little_is_looked_at() {
    const VERSIONS: u64 = 5000;
    let table = Memtable::new(&ArenaPool::new(4 << 20, 0), 7);
    let delete = |key: &[u8], seq| table.insert(key, SeqNo(seq), Kind::Delete, None, b"");
    (1..=VERSIONS).for_each(|seq| delete(b"key", seq));
    delete(b"later", VERSIONS + 1);
    let reader = |seq| GapReader {
        seq: SeqNo(seq),
        time_ms: 0,
        others: SeqNo(0),
    };
    // All of its versions are seen by the reader, and all but the last of the memtable's.
    table.add_gap((b"a", b"z"), &reader(VERSIONS), 1);
    let end = table.end_of_gap(b"a", &reader(VERSIONS + 1));
    assert_eq!(end.as_deref(), Some(&b"z"[..]));

    // Most of them have come since: nothing is known from there on.
    let table = Memtable::new(&ArenaPool::new(4 << 20, 0), 7);
    let delete = |key: &[u8], seq| table.insert(key, SeqNo(seq), Kind::Delete, None, b"");
    (1..=VERSIONS).for_each(|seq| delete(b"key", seq));
    table.add_gap((b"a", b"z"), &reader(10), 1);
    let end = table.end_of_gap(b"a", &reader(VERSIONS));
    assert_eq!(end.as_deref(), Some(&b"key"[..]));
}

#[test]
fn a_gap_cut_and_made_one_again_spares_no_more_steps_than_were_added() {
    const ROUNDS: u64 = 100;
    let gaps = Gaps::new(&ArenaPool::new(1 << 20, 0));
    let reader = GapReader {
        seq: SeqNo(1),
        time_ms: 0,
        others: SeqNo(0),
    };
    gaps.add((b"a", b"z"), &reader, 8);
    for _ in 0..ROUNDS {
        gaps.add((b"k", b"l"), &reader, 1);
    }
    let by_start = gaps.by_start.lock();
    let steps: Vec<u64> = by_start.gaps.values().map(|gap| gap.steps).collect();
    assert_eq!(steps.len(), 1);
    assert!(steps[0] <= 8 + ROUNDS, "{steps:?}");
}

#[test]
fn what_is_taken_from_the_front_is_few_gaps_that_meet() {
    let pool = ArenaPool::new(1 << 20, 0);
    let gaps = Gaps::new(&pool);
    let key = |n: u64| n.to_be_bytes();
    let reader = |n: u64| GapReader {
        seq: SeqNo(n),
        time_ms: 0,
        others: SeqNo(0),
    };
    for n in 0..5000 {
        gaps.add((&key(16 * n), &key(16 * (n + 1))), &reader(n), 16);
    }
    let all = reader(u64::MAX);
    assert_eq!(gaps.end_of(&key(0), &all).unwrap(), key(80_000));
    assert_eq!(gaps.start_of(&key(80_000), &all).unwrap(), key(0));
    assert!(gaps.by_start.lock().gaps.len() < 14);
    // Who comes late passes nearly all of it.
    let late = gaps.end_of(&key(0), &reader(4990)).unwrap();
    assert_eq!(late, key(16 * 4864));
    // A value cuts it in two.
    gaps.put(&key(40_000));
    assert_eq!(gaps.end_of(&key(0), &all).unwrap(), key(40_000));
    let after = [&key(40_000)[..], &[0]].concat();
    assert_eq!(gaps.end_of(&after, &all).unwrap(), key(80_000));
    assert_eq!(gaps.end_of(&key(40_000), &all), None);
}

#[test]
fn gaps_stay_within_their_part_of_the_memory_and_the_smallest_go_first() {
    let pool = ArenaPool::new(1 << 20, 0);
    let gaps = Gaps::new(&pool);
    let key = |n: u64| n.to_be_bytes();
    let reader = GapReader {
        seq: SeqNo(1),
        time_ms: 0,
        others: SeqNo(0),
    };
    let most = (1 << 20) / PART;
    gaps.add((&key(0), &key(10)), &reader, 1 << 20);
    for n in 1..10_000 {
        gaps.add((&key(20 * n), &key(20 * n + 10)), &reader, 40);
        assert!(pool.allocated_bytes() <= most);
    }
    assert_eq!(gaps.end_of(&key(3), &reader).unwrap(), key(10));
    drop(gaps);
    assert_eq!(pool.allocated_bytes(), 0);
}
