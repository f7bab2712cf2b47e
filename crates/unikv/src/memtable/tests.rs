//! The memtable against a model, and its readers beside its writer.

use super::*;
use crate::testing::limit;
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

const SCALE: usize = if cfg!(miri) { 100 } else { 1 };

type Place = (Vec<u8>, Reverse<SeqNo>);
type Content = (Kind, Option<u64>, Vec<u8>);
type Model = BTreeMap<Place, Content>;

const SEED: u64 = 0x5eed;

fn memtable() -> Arc<Memtable> {
    Arc::new(Memtable::new(&ArenaPool::new(16 << 20, 32 << 20), SEED))
}

fn get<'a>(table: &'a Memtable, key: &[u8], snapshot: SeqNo) -> Option<MemEntry<'a>> {
    table.get(key, key_hash(SEED, key), snapshot)
}

/// Keys of many lengths which share prefixes and differ in trailing zeros.
fn random_key(rng: &mut SmallRng) -> Vec<u8> {
    let mut key = vec![0, 0, 0, rng.random_range(0..2)];
    let len = rng.random_range(0..24);
    let alphabet = [0, 1, b'a', 0xff];
    key.extend((0..len).map(|i| {
        if i < 10 {
            b'p'
        } else {
            alphabet[rng.random_range(0..4)]
        }
    }));
    key
}

fn check(entry: Option<MemEntry<'_>>, expected: Option<(&Place, &Content)>) {
    let expected = expected.map(|((key, seq), (kind, expiry_ms, value))| MemEntry {
        key,
        seq: seq.0,
        kind: *kind,
        expiry_ms: *expiry_ms,
        value,
    });
    assert_eq!(entry, expected);
}

/// A memtable that is scanned for the first time when it holds `scanned_at` of `count` entries.
fn filled(seed: u64, count: u64, scanned_at: u64) -> (Arc<Memtable>, Model) {
    fill(memtable(), seed, count, scanned_at)
}

fn fill(table: Arc<Memtable>, seed: u64, count: u64, scanned_at: u64) -> (Arc<Memtable>, Model) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut model = Model::new();
    for seq in 1..=count {
        if seq == scanned_at {
            table.iter().seek_to_first();
        }
        let key = random_key(&mut rng);
        let kind = if rng.random_ratio(1, 5) {
            Kind::Delete
        } else {
            Kind::Put
        };
        let expiry_ms = rng.random_ratio(1, 4).then(|| rng.random());
        let mut value = vec![
            0;
            if kind == Kind::Put {
                rng.random_range(0..200)
            } else {
                0
            }
        ];
        rng.fill_bytes(&mut value);
        table.insert(&key, SeqNo(seq), kind, expiry_ms, &value);
        model.insert((key, Reverse(SeqNo(seq))), (kind, expiry_ms, value));
    }
    (table, model)
}

#[test]
fn an_empty_memtable_finds_nothing() {
    let table = memtable();
    assert!(table.is_empty());
    assert_eq!(table.max_seq(), None);
    assert_eq!(get(&table, b"", SeqNo::MAX), None);
    let mut iter = table.iter();
    for go in [
        MemtableIter::seek_to_first,
        MemtableIter::seek_to_last,
        MemtableIter::next,
    ] {
        go(&mut iter);
        assert_eq!(iter.entry(), None);
    }
    iter.seek(b"", SeqNo::MAX);
    iter.prev();
    assert_eq!(iter.entry(), None);
}

#[test]
fn gets_see_the_newest_version_of_their_snapshot() {
    let count = 5_000 / SCALE as u64;
    let many_buckets = memtable();
    // So that each chain has many keys.
    let few_buckets = Arc::new(Memtable::new(&ArenaPool::new(4 << 10, 0), SEED));
    for table in [many_buckets, few_buckets] {
        let (table, model) = fill(table, 1, count, count / 2);
        assert_eq!(table.len(), count as usize);
        assert_eq!(table.max_seq(), Some(SeqNo(count)));
        look_up(&table, &model, count);
    }
}

fn look_up(table: &Memtable, model: &Model, count: u64) {
    let mut rng = SmallRng::seed_from_u64(2);
    let mut found = 0;
    for _ in 0..20_000 / SCALE {
        let key = random_key(&mut rng);
        let snapshot = SeqNo(rng.random_range(0..=count + 1));
        let expected = model
            .range((key.clone(), Reverse(snapshot))..)
            .next()
            .filter(|((k, _), _)| *k == key);
        found += usize::from(expected.is_some());
        check(get(table, &key, snapshot), expected);
    }
    assert!(found > 1_000 / SCALE, "{found}");
}

#[test]
fn iteration_matches_the_model_in_both_directions() {
    let count = 3_000 / SCALE as u64;
    // Ordered as they come, from the middle on, and only now.
    for scanned_at in [1, count / 2, count + 1] {
        iterate(&filled(3, count, scanned_at));
    }
}

fn iterate((table, model): &(Arc<Memtable>, Model)) {
    let mut iter = table.iter();
    iter.seek_to_first();
    for expected in model {
        check(iter.entry(), Some(expected));
        iter.next();
    }
    check(iter.entry(), None);
    iter.seek_to_last();
    for expected in model.iter().rev() {
        check(iter.entry(), Some(expected));
        iter.prev();
    }
    check(iter.entry(), None);

    let mut rng = SmallRng::seed_from_u64(4);
    for _ in 0..3_000 / SCALE {
        let place = (
            random_key(&mut rng),
            Reverse(SeqNo(rng.random_range(0..4_000))),
        );
        iter.seek(&place.0, place.1.0);
        check(iter.entry(), model.range(place.clone()..).next());
        if iter.entry().is_some() {
            iter.prev();
            check(iter.entry(), model.range(..place).next_back());
        }
    }
}

#[test]
fn versions_that_come_late_are_found_and_walked_in_order() {
    let table = memtable();
    let key = b"\0\0\0\0key";
    let put = |seq, value: &[u8]| table.insert(key, SeqNo(seq), Kind::Put, None, value);
    for seq in [30, 50, 10, 40, 20] {
        put(seq, &[seq as u8]);
    }
    put(20, b"again");
    put(50, b"last");
    let at = |seq| get(&table, key, SeqNo(seq)).map(|entry| entry.value);
    assert_eq!(at(9), None);
    let told: Vec<_> = (1..=6).filter_map(|ten| at(10 * ten + 5)).collect();
    let expected: [&[u8]; 6] = [&[10], b"again", &[30], &[40], b"last", b"last"];
    assert_eq!(told, expected);
    let mut iter = table.iter();
    iter.seek_to_first();
    let mut walked = Vec::new();
    while let Some(entry) = iter.entry() {
        walked.push(entry.value.to_vec());
        iter.next();
    }
    let expected: [&[u8]; 7] = [b"last", &[50], &[40], &[30], b"again", &[20], &[10]];
    assert_eq!(walked, expected);
}

#[test]
fn old_moments_of_a_key_that_was_written_often_are_found() {
    for is_scanned in [false, true] {
        let table = memtable();
        for seq in (2..=400).step_by(2) {
            table.insert(b"\0\0\0\0key", SeqNo(seq), Kind::Put, None, &[seq as u8]);
            table.insert(b"\0\0\0\0kez", SeqNo(seq + 1), Kind::Put, None, b"");
        }
        if is_scanned {
            table.iter().seek_to_first();
        }
        assert_eq!(get(&table, b"\0\0\0\0key", SeqNo(1)), None);
        for seq in 2..=401 {
            let entry = get(&table, b"\0\0\0\0key", SeqNo(seq)).unwrap();
            assert_eq!(
                (entry.seq.0, entry.value),
                (seq & !1, &[(seq & !1) as u8][..])
            );
        }
    }
}

#[test]
fn the_memtable_after_a_scanned_one_is_ordered_from_its_beginning() {
    let pool = ArenaPool::new(16 << 20, 32 << 20);
    let table = Memtable::new(&pool, SEED);
    let next = table.next(&pool, SeqNo(0));
    assert!(!next.entries().unwrap().is_ordered() && !next.entries().unwrap().is_scanned());
    Arc::new(table.next(&pool, SeqNo(0)))
        .iter()
        .seek(b"", SeqNo::MAX);
    assert!(!table.entries().unwrap().is_scanned(), "it was another one");
    let scanned = Arc::new(next);
    scanned.iter().seek_to_last();
    let after = scanned.next(&pool, SeqNo(0));
    assert!(after.entries().unwrap().is_ordered() && !after.entries().unwrap().is_scanned());
    assert!(
        !after.next(&pool, SeqNo(0)).entries().unwrap().is_ordered(),
        "it was not scanned"
    );
}

/// However many entries there are, and however fast others come: a writer waits for few at a time.
#[test]
fn entries_that_come_while_others_are_put_in_order_are_in_order() {
    for (first, later) in [(10, 1), (3_000, 700), (3_000, 100), (0, 0), (500, 2_000)] {
        let (table, mut model) = (memtable(), Model::new());
        let mut rng = SmallRng::seed_from_u64(first);
        let mut seq = 0;
        let mut write = |count: u64| {
            for _ in 0..count.div_ceil(SCALE as u64) {
                seq += 1;
                let key = format!("\0\0\0\0{}", rng.random_range(0..2_000));
                let key = key.into_bytes();
                table.insert(&key, SeqNo(seq), Kind::Put, None, &key);
                model.insert((key.clone(), Reverse(SeqNo(seq))), (Kind::Put, None, key));
            }
        };
        write(first);
        let entries = table.entries().unwrap();
        let mut rounds = 0;
        let most = entries.put_in_order(|| {
            rounds += 1;
            if rounds < 40 {
                write(later);
            }
        });
        assert!(most <= 128, "{most}");
        assert_eq!(entries.put_in_order(|| ()), 0);
        write(100);
        let mut iter = table.iter();
        iter.seek_to_first();
        for expected in &model {
            check(iter.entry(), Some(expected));
            iter.next();
        }
        assert_eq!(iter.entry(), None);
    }
}

#[test]
fn sequential_loads_of_interleaved_runs_stay_in_order() {
    // Three runs, two ascending and one descending, in changing turns: inserts that continue at
    // the last place alternate with those that do not.
    let (table, mut model) = (memtable(), Model::new());
    table.iter().seek_to_first();
    let mut rng = SmallRng::seed_from_u64(5);
    let mut next = [0u32, 0, u32::MAX];
    for seq in 1..=4_000 / SCALE as u64 {
        let run = if rng.random_ratio(1, 10) {
            rng.random_range(0..3)
        } else {
            seq as usize / 400 % 3
        };
        let mut key = format!("\0\0\0\0run {run} of the test ").into_bytes();
        key.extend(next[run].to_be_bytes());
        next[run] = if run == 2 {
            next[run] - 1
        } else {
            next[run] + rng.random_range(0..2)
        };
        table.insert(&key, SeqNo(seq), Kind::Put, None, &key);
        model.insert((key.clone(), Reverse(SeqNo(seq))), (Kind::Put, None, key));
    }
    let mut iter = table.iter();
    iter.seek_to_first();
    for expected in &model {
        check(iter.entry(), Some(expected));
        iter.next();
    }
    assert_eq!(iter.entry(), None);
}

#[test]
fn the_longest_keys_and_large_values_are_kept_whole() {
    let table = memtable();
    let longest = vec![0xee; 4 + (64 << 10)];
    let large: Vec<u8> = (0..3_000_000 / SCALE).map(|i| (i % 251) as u8).collect();
    table.insert(&longest, SeqNo(1), Kind::Put, Some(9), &large);
    table.insert(
        &longest[..longest.len() - 1],
        SeqNo(2),
        Kind::Put,
        None,
        b"shorter",
    );
    table.insert(b"\0\0\0\0", SeqNo(3), Kind::Put, None, b"");
    assert!(table.bytes() >= large.len() + 2 * longest.len());
    let entry = get(&table, &longest, SeqNo::MAX).unwrap();
    assert!(entry.value == large && entry.expiry_ms == Some(9));
    assert_eq!(
        get(&table, &longest[..longest.len() - 1], SeqNo(2))
            .unwrap()
            .value,
        b"shorter"
    );
    assert_eq!(get(&table, b"\0\0\0\0", SeqNo(3)).unwrap().value, b"");
    assert_eq!(get(&table, b"\0\0\0\0", SeqNo(2)), None);
}

#[test]
fn bytes_grow_with_what_is_stored_and_little_more() {
    let table = memtable();
    let count = 10_000 / SCALE;
    for i in 0..count {
        let key = format!("\0\0\0\0{i:024}");
        table.insert(key.as_bytes(), SeqNo(1), Kind::Put, None, &[7; 1000]);
    }
    let stored = count * 1028;
    assert!(table.bytes() > stored);
    assert!(
        table.bytes() < stored * 107 / 100,
        "{} for {stored}",
        table.bytes()
    );
}

#[test]
fn an_iterator_outlives_its_memtable() {
    let pool = ArenaPool::new(16 << 20, 32 << 20);
    let table = Arc::new(Memtable::new(&pool, SEED));
    table.insert(b"\0\0\0\0key", SeqNo(1), Kind::Put, None, b"value");
    let mut iter = table.iter();
    drop(table);
    iter.seek_to_first();
    assert_eq!(iter.entry().unwrap().value, b"value");
    assert_eq!(pool.idle_bytes(), 0);
    drop(iter);
    assert!(pool.idle_bytes() > 0, "the memory went back to the pool");
}

/// A value that proves itself: 8 bytes of sequence number and bytes that follow from it.
fn provable_value(seq: u64) -> Vec<u8> {
    let mut value = seq.to_le_bytes().to_vec();
    value.extend((0..seq % 90).map(|i| (seq.wrapping_mul(31) + i) as u8));
    value
}

fn assert_whole(entry: &MemEntry<'_>, max_seq: u64) {
    assert!(entry.seq.0 >= 1 && entry.seq.0 <= max_seq);
    assert_eq!(entry.value, provable_value(entry.seq.0));
    assert_eq!(
        entry.expiry_ms,
        entry.seq.0.is_multiple_of(3).then_some(entry.seq.0)
    );
}

#[test]
fn readers_beside_the_writer_see_whole_entries_in_order() {
    let count = 60_000 / SCALE as u64;
    let key_of = |n: u64| format!("\0\0\0\0a shared start {:06}", n % 5_000).into_bytes();
    let table = memtable();
    let published = AtomicU64::new(0);
    let _limit = limit("readers beside the writer");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut rng = SmallRng::seed_from_u64(6);
            for seq in 1..=count {
                let expiry_ms = seq.is_multiple_of(3).then_some(seq);
                let key = key_of(rng.random());
                table.insert(&key, SeqNo(seq), Kind::Put, expiry_ms, &provable_value(seq));
                published.store(seq, Ordering::Release);
            }
        });
        for reader in 0..3 {
            let (table, published) = (&table, &published);
            scope.spawn(move || {
                let mut rng = SmallRng::seed_from_u64(100 + reader);
                while published.load(Ordering::Acquire) < count {
                    read_around(table, &key_of(rng.random()), published, count);
                }
            });
        }
    });
    assert_eq!(table.len(), count as usize);
}

/// A get and a walk of some steps each way, with all that must hold beside a writer.
fn read_around(table: &Arc<Memtable>, key: &[u8], published: &AtomicU64, count: u64) {
    let snapshot = SeqNo(published.load(Ordering::Acquire));
    let first = get(table, key, snapshot);
    if let Some(entry) = first {
        assert_eq!(entry.key, key);
        assert!(entry.seq <= snapshot);
        assert_whole(&entry, count);
    }
    assert_eq!(
        get(table, key, snapshot),
        first,
        "what a snapshot sees does not change"
    );
    let mut iter = table.iter();
    iter.seek(key, snapshot);
    let mut last: Option<(Vec<u8>, Reverse<SeqNo>)> = None;
    for step in 0..20 {
        let Some(entry) = iter.entry() else { break };
        assert_whole(&entry, count);
        let place = (entry.key.to_vec(), Reverse(entry.seq));
        if let Some(last) = last {
            assert!(if step <= 10 {
                last < place
            } else {
                last > place
            });
        }
        last = Some(place);
        if step < 10 { iter.next() } else { iter.prev() }
    }
}

/// A large batch answers everything as a memtable into which its operations were inserted.
#[test]
fn a_sorted_batch_answers_as_a_memtable_with_the_same_operations() {
    let mut rng = SmallRng::seed_from_u64(58);
    let pool = ArenaPool::new(1 << 20, 4 << 20);
    for first in [1, 7, 1000] {
        for len in [1, 2, 40, 400] {
            let mut batch = Batch::new();
            for n in 0..len {
                let mut key = vec![b'k'; rng.random_range(0..12)];
                key.push(rng.random_range(0..6));
                match rng.random_range(0..8) {
                    0 => batch.delete_range(key.clone()..[key.as_slice(), &[9]].concat()),
                    1 => batch.delete(&key),
                    _ => batch.put(&key, [n as u8; 3]),
                };
            }
            let (ops, len) = (batch.ops_bytes(), batch.len());
            let growing = Arc::new(Memtable::new(&pool, SEED));
            for (seq, op) in (first..).zip(OpsIter::new(ops)) {
                let op = op.unwrap();
                growing.insert(op.key, SeqNo(seq), op.kind, op.expiry_ms, op.value);
            }
            let reserved = Reserved::new(&pool, 1);
            let sorted = SortedBatch::new(ops, len, reserved).unwrap();
            let batch = Arc::new(Memtable::of_batch(sorted, SeqNo(first), SEED));
            same_answers(&growing, &batch, first, len as u64);
        }
    }
    assert_eq!(
        pool.allocated_bytes(),
        pool.idle_bytes(),
        "all memory is given back"
    );
}

fn same_answers(growing: &Arc<Memtable>, batch: &Arc<Memtable>, first: u64, len: u64) {
    let (mut ours, mut theirs) = (batch.iter(), growing.iter());
    ours.seek_to_first();
    theirs.seek_to_first();
    let mut keys = vec![vec![0; 4], vec![0xff; 4]];
    while let Some(entry) = theirs.entry() {
        assert_eq!(ours.entry(), Some(entry));
        keys.push(entry.key.to_vec());
        keys.push(entry.key[..entry.key.len() - 1].to_vec());
        ours.next();
        theirs.next();
    }
    assert!(ours.entry().is_none());
    for key in &keys {
        for seq in (0..first + len + 2)
            .step_by(1 + len as usize / 9)
            .map(SeqNo)
        {
            let hash = key_hash(SEED, key);
            assert_eq!(batch.get(key, hash, seq), growing.get(key, hash, seq));
            assert_eq!(batch.covering(key, seq), growing.covering(key, seq));
            ours.seek(key, seq);
            theirs.seek(key, seq);
            assert_eq!(ours.entry(), theirs.entry());
            ours.prev();
            theirs.prev();
            if theirs.entry().is_some() {
                assert_eq!(ours.entry(), theirs.entry());
            }
        }
    }
    ours.seek_to_last();
    theirs.seek_to_last();
    assert_eq!(ours.entry(), theirs.entry());
    assert_eq!(
        (batch.len(), batch.key_bytes()),
        (growing.len(), growing.key_bytes())
    );
    assert_eq!(batch.max_seq(), growing.max_seq());
    let (after, until) = (SeqNo(first + len / 3), SeqNo(first + len / 2));
    let written = |memtable: &Memtable| {
        let mut all = Vec::new();
        let each = |entry: &MemEntry<'_>| {
            all.push((entry.seq, entry.key.to_vec(), entry.kind));
            Ok(())
        };
        memtable.each_written(after, until, each).unwrap();
        all
    };
    assert_eq!(written(batch), written(growing));
}
