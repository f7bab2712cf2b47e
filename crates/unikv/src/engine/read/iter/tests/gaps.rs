//! Iterators over long runs of what is deleted, against a model.

use crate::base::keys::SeqNo;
use crate::engine::tests::{Machine, Model, small};
use crate::partition::Visibility;
use crate::vfs::Runtime;
use crate::{Batch, Bytes, Db, Options, Result, Snapshot, Tuning, WriteOptions};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::ops::Bound;
use std::sync::atomic::Ordering;
use std::time::Duration;

const KEYS: usize = 240;

fn key(n: usize) -> Vec<u8> {
    format!("key{n:04}").into_bytes()
}

fn options() -> Options {
    small().memory_budget(8 << 20)
}

fn pair(entry: Result<(Bytes, Bytes)>) -> (Vec<u8>, Vec<u8>) {
    let (key, value) = entry.unwrap();
    (key.to_vec(), value.to_vec())
}

/// Compares, and names the first difference alone.
fn same(found: &[(Vec<u8>, Vec<u8>)], expected: &[(Vec<u8>, Vec<u8>)]) {
    let differs = |at: &usize| found.get(*at) != expected.get(*at);
    let Some(at) = (0..found.len().max(expected.len())).find(differs) else {
        return;
    };
    let name = |entries: &[(Vec<u8>, Vec<u8>)]| {
        let entry = entries.get(at);
        entry.map(|(key, value)| format!("{} = {}", key.escape_ascii(), value.escape_ascii()))
    };
    panic!("at {at}: {:?} for {:?}", name(found), name(expected));
}

/// The entries of a range, from one end or the other.
fn entries(model: &Model, from: usize, to: usize, back: bool) -> Pairs {
    let range = model.range((Bound::Included(key(from)), Bound::Excluded(key(to))));
    let mut entries: Vec<_> = range.map(|(k, v)| (k.clone(), v.clone())).collect();
    if back {
        entries.reverse();
    }
    entries
}

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

struct Story {
    db: Db,
    model: Model,
    snapshots: Vec<(Snapshot, Model)>,
    iters: Vec<(crate::Iter, Pairs)>,
    jumps: usize,
}

impl Story {
    fn put(&mut self, n: usize, rng: &mut SmallRng) {
        let value = vec![rng.random::<u8>(); rng.random_range(0..60)];
        self.db.put(key(n), &value).unwrap();
        self.model.insert(key(n), value);
    }

    fn delete(&mut self, n: usize) {
        self.db.delete(key(n)).unwrap();
        self.model.remove(&key(n));
    }

    /// A fresh iterator, over all of a range or its first entries.
    fn read(&mut self, rng: &mut SmallRng) {
        let view = self.db.0.engine.read.view.load_full();
        self.jumps += usize::from(view.memtable.table.has_gaps());
        let (a, b) = (rng.random_range(0..KEYS), rng.random_range(0..=KEYS));
        let (from, to) = match rng.random_range(0..3) {
            0 => (a.min(b), a.max(b)),
            _ => (0, KEYS),
        };
        let back = rng.random_bool(0.4);
        let most = if rng.random_bool(0.5) { 1 } else { KEYS };
        let bounds = key(from)..key(to);
        let (iter, model) = match self.snapshots.len() {
            0 => (self.db.range(bounds), &self.model),
            n if rng.random_bool(0.6) => {
                let (snapshot, model) = &self.snapshots[rng.random_range(0..n)];
                (snapshot.range(bounds), model)
            }
            _ => (self.db.range(bounds), &self.model),
        };
        let expected: Vec<_> = entries(model, from, to, back)
            .into_iter()
            .take(most)
            .collect();
        let found: Vec<_> = if back {
            iter.rev().take(most).map(pair).collect()
        } else {
            iter.take(most).map(pair).collect()
        };
        same(&found, &expected);
    }

    /// A transaction with writes of its own.
    fn transact(&mut self, rng: &mut SmallRng) {
        let mut tx = self.db.begin();
        let mut model = self.model.clone();
        for _ in 0..3 {
            let n = rng.random_range(0..KEYS);
            if rng.random() {
                tx.put(key(n), b"own").unwrap();
                model.insert(key(n), b"own".to_vec());
            } else {
                tx.delete(key(n)).unwrap();
                model.remove(&key(n));
            }
        }
        let expected = entries(&model, 0, KEYS, false);
        same(&tx.iter().map(pair).collect::<Vec<_>>(), &expected);
        if rng.random() {
            tx.commit().unwrap();
            self.model = model;
        }
    }

    fn ingest(&mut self, rng: &mut SmallRng) {
        let from = rng.random_range(0..KEYS);
        let keys = (from..KEYS).step_by(rng.random_range(1..9)).take(12);
        let new: Vec<_> = keys.map(|n| (key(n), b"ingested".to_vec())).collect();
        let puts = new
            .iter()
            .cloned()
            .map(|(k, v)| Ok::<_, crate::Error>((k, Some(v))));
        self.db.ingest_sorted(puts, None).unwrap();
        self.model.extend(new);
    }

    fn step(&mut self, rng: &mut SmallRng) {
        let n = rng.random_range(0..KEYS);
        match rng.random_range(0..60) {
            0..8 => self.put(n, rng),
            8..11 => (n..(n + 50).min(KEYS)).for_each(|n| self.put(n, rng)),
            11..17 => (n..(n + rng.random_range(20..120)).min(KEYS)).for_each(|n| self.delete(n)),
            17 => {
                let mut batch = Batch::new();
                batch.delete_range(key(n)..key(n + 30));
                self.db.write(&batch).unwrap();
                (n..n + 30).for_each(|n| drop(self.model.remove(&key(n))));
            }
            18..22 => {
                let found = self.db.iter().next().map(pair);
                let first = self.model.first_key_value();
                assert_eq!(found, first.map(|(k, v)| (k.clone(), v.clone())));
                if let Some((key, _)) = found {
                    self.db.delete(&key).unwrap();
                    self.model.remove(&key);
                }
            }
            22..24 if self.snapshots.len() < 3 => {
                self.snapshots
                    .push((self.db.snapshot(), self.model.clone()));
            }
            24 if !self.snapshots.is_empty() => drop(self.snapshots.remove(0)),
            25..28 if self.iters.len() < 4 => {
                let mut left = entries(&self.model, 0, KEYS, false);
                let mut iter = self.db.iter();
                if rng.random() && !left.is_empty() {
                    assert_eq!(pair(iter.next().unwrap()), left.remove(0));
                }
                self.iters.push((iter, left));
            }
            28..32 if !self.iters.is_empty() => {
                let (mut iter, mut left) = self.iters.swap_remove(0);
                if rng.random() {
                    left.reverse();
                    same(&iter.rev().map(pair).collect::<Vec<_>>(), &left);
                } else {
                    if rng.random() {
                        iter.release();
                    }
                    same(&iter.map(pair).collect::<Vec<_>>(), &left);
                }
            }
            32 => self.db.flush().unwrap(),
            33 if rng.random() => self.db.compact().unwrap(),
            34 if rng.random() => self.ingest(rng),
            35..37 => self.transact(rng),
            _ => self.read(rng),
        }
    }
}

fn run(seed: u64, memtable_bytes: u64) -> usize {
    let machine = Machine::new(seed);
    let (db, runtime) =
        machine.open(options().tuning(Tuning::default().memtable_bytes(memtable_bytes)));
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut story = Story {
        db,
        model: Model::new(),
        snapshots: Vec::new(),
        iters: Vec::new(),
        jumps: 0,
    };
    (0..KEYS).for_each(|n| story.put(n, &mut rng));
    for step in 0..300 {
        story.step(&mut rng);
        if step % 7 == 0 {
            runtime.run_one();
        }
    }
    let Story { db, jumps, .. } = story;
    db.close().unwrap();
    machine.check();
    jumps
}

#[test]
fn iterators_pass_nothing_that_they_see() {
    let seeds = 16;
    let jumps: usize = (0..seeds)
        .map(|seed| run(seed, if seed % 3 == 0 { 8 << 10 } else { 256 << 10 }))
        .sum();
    assert!(jumps as u64 > 20 * seeds, "{jumps}");
}

#[test]
fn a_queue_is_taken_from_without_a_walk_over_what_was_taken() {
    const LENGTH: u32 = 2000;
    let machine = Machine::new(1);
    let (db, runtime) = machine.open(options().tuning(Tuning::default().memtable_bytes(64 << 10)));
    let n_key = |n: u32| format!("queue{n:08}");
    (0..LENGTH).for_each(|n| db.put(n_key(n), [n as u8; 30]).unwrap());
    for first in 0..5000 {
        let last = first + LENGTH;
        db.put(n_key(last), [last as u8; 30]).unwrap();
        let (key, value) = pair(db.iter().next().unwrap());
        assert_eq!(
            (key, value),
            (n_key(first).into_bytes(), vec![first as u8; 30])
        );
        db.delete(n_key(first)).unwrap();
        if first % 50 == 0 {
            runtime.run_one();
        }
        // All but the last few are known to be gone, also to those who come back.
        let view = db.0.engine.read.view.load_full();
        let at = Visibility::now(SeqNo(db.0.engine.read.visible_seq.load(Ordering::Acquire)));
        let begin = [&[0; 4], &b"queue"[..]].concat();
        let end = view.end_of_gap(&begin, at);
        if first > 100 {
            let end = end.unwrap();
            let known = String::from_utf8(end[4..].to_vec()).unwrap();
            assert!(known >= n_key(first - 70), "{known} at {first}");
        }
    }
    let stats = db.stats();
    assert!(stats.flushes > 3 && stats.merges > 0, "{stats:?}");
}

#[test]
fn what_comes_while_an_iterator_passes_is_seen_by_the_next_one() {
    let machine = Machine::new(2);
    let (db, _) = machine.open(options().tuning(Tuning::default().memtable_bytes(64 << 10)));
    (0..100).for_each(|n| db.put(key(n), b"old").unwrap());
    let snapshot = db.snapshot();
    (0..100).for_each(|n| db.delete(key(n)).unwrap());
    // It sees nothing, and leaves a gap when it has passed all.
    let mut iter = db.iter();
    db.put(key(50), b"new").unwrap();
    assert!(iter.next().is_none());
    let keys = |iter: crate::Iter| iter.map(|e| pair(e).0).collect::<Vec<_>>();
    assert_eq!(keys(db.iter()), [key(50)]);
    assert_eq!(keys(db.range(..key(50))), Vec::<Vec<u8>>::new());
    assert_eq!(keys(db.range(key(51)..)), Vec::<Vec<u8>>::new());
    // And those that find a gap see what comes into it.
    db.put(key(20), b"new").unwrap();
    db.put(key(70), b"new").unwrap();
    assert_eq!(keys(db.iter()), [key(20), key(50), key(70)]);
    let mut back = keys(db.iter());
    back.reverse();
    assert_eq!(db.iter().rev().map(|e| pair(e).0).collect::<Vec<_>>(), back);
    assert_eq!(snapshot.iter().count(), 100);
    assert_eq!(snapshot.iter().rev().count(), 100);
}

#[test]
fn what_is_ingested_into_a_gap_is_seen() {
    let machine = Machine::new(3);
    let (db, _) = machine.open(options().tuning(Tuning::default().memtable_bytes(64 << 10)));
    (0..100).for_each(|n| db.put(key(n), b"old").unwrap());
    (0..100).for_each(|n| db.delete(key(n)).unwrap());
    db.flush().unwrap();
    assert!(db.iter().next().is_none());
    let new = [Ok::<_, crate::Error>((key(50), Some(b"new".to_vec())))];
    db.ingest_sorted(new, None).unwrap();
    assert_eq!(db.iter().count(), 1);
    db.put(b"other", b"").unwrap();
    db.flush().unwrap();
    assert_eq!(db.iter().count(), 2);
    assert_eq!(db.iter().rev().count(), 2);
}

#[test]
fn what_has_expired_for_one_is_there_for_another() {
    let machine = Machine::new(4);
    let (db, runtime) = machine.open(options().tuning(Tuning::default().memtable_bytes(64 << 10)));
    for n in 0..100 {
        let ttl = Duration::from_secs(if n == 50 { 100 } else { 10 });
        db.put_with(key(n), b"value", WriteOptions::default().ttl(ttl))
            .unwrap();
    }
    let before = db.snapshot();
    runtime.delay(Duration::from_secs(20));
    assert_eq!(db.iter().map(|e| pair(e).0).collect::<Vec<_>>(), [key(50)]);
    assert_eq!(db.iter().rev().count(), 1);
    // The same number, another time.
    assert_eq!(before.iter().count(), 100);
    assert_eq!(before.iter().rev().count(), 100);
    runtime.delay(Duration::from_secs(100));
    assert_eq!(db.iter().count(), 0);
    assert_eq!(before.iter().count(), 100);
}
