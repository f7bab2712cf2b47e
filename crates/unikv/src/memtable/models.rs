//! The memtable under loom: readers beside the writer, and memory that changes hands.

#![allow(unsafe_code, reason = "a wrong model keeps what it may not keep")]

use super::*;
use crate::base::sync::atomic::AtomicU64;
use crate::base::sync::{Weakness, order};
use crate::testing::loom_model::{beside, errs, fails, holds};

const KEYS: [&[u8]; 3] = [b"\0\0\0\0a", b"\0\0\0\0k", b"\0\0\0\0z"];

/// With this seed all keys are in one bucket.
fn seed() -> u64 {
    let bucket = |seed, key| buckets::number(key_hash(seed, key), buckets::LEAST_BUCKETS);
    let share = |seed: &u64| {
        KEYS.iter()
            .all(|key| bucket(*seed, key) == bucket(*seed, KEYS[0]))
    };
    (0..).find(share).unwrap()
}

fn table() -> Arc<Memtable> {
    Arc::new(Memtable::new(&ArenaPool::new(4 << 10, 64 << 10), seed()))
}

fn put(table: &Memtable, key: usize, seq: u64) {
    let value = [seq as u8; 3];
    table.insert(KEYS[key], SeqNo(seq), Kind::Put, Some(seq), &value);
}

fn get<'a>(table: &'a Memtable, key: usize, snapshot: SeqNo) -> Option<MemEntry<'a>> {
    table.get(KEYS[key], key_hash(table.hash_seed, KEYS[key]), snapshot)
}

fn assert_whole(entry: &MemEntry<'_>) {
    assert!(KEYS.contains(&entry.key));
    assert_eq!(entry.value, [entry.seq.0 as u8; 3]);
    assert_eq!(entry.expiry_ms, Some(entry.seq.0));
}

/// The sequence numbers met from where `iter` stands, all whole and in order.
fn walk(iter: &mut MemtableIter, step: fn(&mut MemtableIter), ascending: bool) -> Vec<u64> {
    let (mut met, mut last) = (Vec::new(), None);
    while let Some(entry) = iter.entry() {
        assert_whole(&entry);
        let place = (entry.key.to_vec(), std::cmp::Reverse(entry.seq));
        if let Some(last) = &last {
            assert!(if ascending {
                *last < place
            } else {
                *last > place
            });
        }
        last = Some(place);
        met.push(entry.seq.0);
        step(iter);
    }
    met
}

/// An entry stands between two that are inserted beside a reader, which walks both ways.
fn reader_beside_writer() {
    let table = table();
    put(&table, 1, 1);
    table.iter().seek_to_first();
    let (writer, reader) = (Arc::clone(&table), Arc::clone(&table));
    beside(
        move || {
            put(&writer, 2, 2);
            put(&writer, 0, 3);
        },
        move || {
            let mut iter = reader.iter();
            iter.seek_to_first();
            let met = walk(&mut iter, MemtableIter::next, true);
            assert!(met.contains(&1), "{met:?}");
            iter.seek_to_last();
            let back = walk(&mut iter, MemtableIter::prev, false);
            assert!(back.contains(&1), "{back:?}");
        },
    );
    let mut iter = table.iter();
    iter.seek_to_first();
    assert_eq!(walk(&mut iter, MemtableIter::next, true), [3, 1, 2]);
    iter.seek_to_last();
    assert_eq!(walk(&mut iter, MemtableIter::prev, false), [2, 1, 3]);
}

#[test]
fn a_reader_beside_the_writer_meets_whole_entries_in_order() {
    holds(reader_beside_writer);
    fails(Weakness::NodeLink, reader_beside_writer);
    fails(Weakness::NodePrev, reader_beside_writer);
}

/// A key gets a newer version, and another key comes, beside a reader of the first one.
fn look_up_beside_writer() {
    let table = table();
    put(&table, 1, 1);
    let (writer, reader) = (Arc::clone(&table), Arc::clone(&table));
    beside(
        move || {
            put(&writer, 1, 2);
            put(&writer, 0, 3);
        },
        move || {
            let newest = get(&reader, 1, SeqNo::MAX).unwrap();
            assert_whole(&newest);
            assert_eq!(get(&reader, 1, SeqNo(1)).unwrap().seq, SeqNo(1));
            if let Some(other) = get(&reader, 0, SeqNo::MAX) {
                assert_whole(&other);
                assert_eq!(get(&reader, 1, SeqNo::MAX).unwrap().seq, SeqNo(2));
            }
        },
    );
}

#[test]
fn a_look_up_beside_the_writer_finds_whole_entries() {
    holds(look_up_beside_writer);
    fails(Weakness::NodeChain, look_up_beside_writer);
}

/// Two scan for the first time; beside one of them an entry comes.
fn ordered_beside_writer() {
    let table = table();
    put(&table, 2, 1);
    put(&table, 1, 2);
    let (writer, reader) = (Arc::clone(&table), Arc::clone(&table));
    let scan = |table: &Arc<Memtable>| {
        let mut iter = table.iter();
        iter.seek_to_first();
        let met = walk(&mut iter, MemtableIter::next, true);
        assert!(met.ends_with(&[2, 1]), "{met:?}");
        iter.seek_to_last();
        let back = walk(&mut iter, MemtableIter::prev, false);
        assert!(back.starts_with(&[1, 2]), "{back:?}");
        met.len()
    };
    beside(
        move || {
            put(&writer, 0, 3);
            assert_eq!(scan(&writer), 3);
        },
        move || {
            scan(&reader);
        },
    );
    assert_eq!(scan(&table), 3);
}

#[test]
fn entries_are_put_in_order_once_beside_a_writer_and_a_reader() {
    holds(ordered_beside_writer);
    fails(Weakness::EntriesOrdered, ordered_beside_writer);
}

/// Two groups of two writes each; a reader that sees the number of a group finds all of it.
fn groups_become_visible() {
    let (table, visible) = (table(), Arc::new(AtomicU64::new(0)));
    let (written, published) = (Arc::clone(&table), Arc::clone(&visible));
    beside(
        move || {
            for first in [1, 3] {
                put(&written, 0, first);
                put(&written, 1, first + 1);
                let ordering = order(Weakness::Visible, Ordering::Release);
                published.store(first + 1, ordering);
            }
        },
        move || {
            let seq = visible.load(Ordering::Acquire);
            let newest = |key: usize| get(&table, key, SeqNo(seq)).map(|e| e.seq.0);
            let expected = match seq {
                0 => (None, None),
                2 => (Some(1), Some(2)),
                _ => (Some(3), Some(4)),
            };
            assert_eq!((newest(0), newest(1)), expected);
        },
    );
}

#[test]
fn whoever_sees_the_number_of_a_group_finds_the_group() {
    holds(groups_become_visible);
    fails(Weakness::Visible, groups_become_visible);
}

/// The memtable is dropped and its memory filled again beside a reader of the old one. It may not
/// keep an entry longer than its iterator.
fn memory_changes_hands(keeps_entry: bool) {
    let pool = ArenaPool::new(4 << 10, 64 << 10);
    let old = Memtable::new(&pool, seed());
    put(&old, 0, 7);
    let Contents::Growing(growing) = &old.contents else {
        return;
    };
    let mut iter = MemtableIter::growing(&growing.entries);
    let reader = move || {
        iter.seek_to_first();
        let entry = iter.entry().unwrap();
        // SAFETY: none if it is kept; then the pool holds the memory, so it may be read, but it may
        // be another memtable's by now.
        let entry = unsafe { std::mem::transmute::<MemEntry<'_>, MemEntry<'static>>(entry) };
        if keeps_entry {
            drop(iter);
        }
        assert_eq!(entry.seq, SeqNo(7));
        assert_whole(&entry);
    };
    let writer = move || {
        drop(old);
        let new = Memtable::new(&pool, seed());
        put(&new, 1, 9);
        assert_whole(&get(&new, 1, SeqNo::MAX).unwrap());
    };
    beside(writer, reader);
}

#[test]
fn memory_is_used_again_only_when_the_last_reader_has_released_it() {
    holds(|| memory_changes_hands(false));
    errs(|| memory_changes_hands(true));
}
