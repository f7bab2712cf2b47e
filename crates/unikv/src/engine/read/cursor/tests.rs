use crate::engine::tests::common::key;
use crate::engine::tests::{Machine, Model, small};
use crate::vfs::sim::ReadCall;
use crate::{Cursor, Db, ErrorKind, Options, Readable, Tuning};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const KEYS: u32 = 60;

/// Where a cursor is to be: before all keys, on one (which a refresh may have shown to be gone), or
/// after all.
#[derive(Clone, Debug, PartialEq)]
enum At {
    First,
    On(Vec<u8>),
    End,
}

fn next_of(shown: &Model, at: &At) -> Option<Vec<u8>> {
    let from = match at {
        At::First => Bound::Unbounded,
        At::On(key) => Bound::Excluded(key.clone()),
        At::End => return None,
    };
    let next = shown.range((from, Bound::Unbounded)).next();
    next.map(|(key, _)| key.clone())
}

fn prev_of(shown: &Model, at: &At) -> Option<Vec<u8>> {
    let to = match at {
        At::First => return None,
        At::On(key) => Bound::Excluded(key.clone()),
        At::End => Bound::Unbounded,
    };
    let prev = shown.range((Bound::Unbounded, to)).next_back();
    prev.map(|(key, _)| key.clone())
}

/// A move of the cursor and where the model says that it leads.
fn step(rng: &mut SmallRng, cursor: &mut Cursor, shown: &Model, at: &At) -> At {
    let target = key(rng.random_range(0..KEYS + 2));
    let (moved, found, end) = match rng.random_range(0..8) {
        0 => (cursor.first(), next_of(shown, &At::First), At::End),
        1 => (cursor.last(), prev_of(shown, &At::End), At::First),
        2 => {
            let found = shown.range(target.clone()..).next();
            let found = found.map(|(key, _)| key.clone());
            (cursor.seek(&target), found, At::End)
        }
        3 => {
            let found = shown.range(..=target.clone()).next_back();
            let found = found.map(|(key, _)| key.clone());
            (cursor.seek_for_prev(&target), found, At::First)
        }
        4 | 5 => (cursor.prev(), prev_of(shown, at), At::First),
        _ => (cursor.next(), next_of(shown, at), At::End),
    };
    assert_eq!(moved.unwrap(), found.is_some(), "from {at:?}");
    found.map_or(end, At::On)
}

fn change(rng: &mut SmallRng, db: &Db, model: &mut Model) {
    match rng.random_range(0..40) {
        0 => db.flush().unwrap(),
        1 => db.compact().unwrap(),
        2 => db.release_views(),
        3..10 => {
            let key = key(rng.random_range(0..KEYS));
            db.delete(&key).unwrap();
            model.remove(&key);
        }
        _ => {
            let (key, len) = (key(rng.random_range(0..KEYS)), rng.random_range(0..400));
            let value = vec![rng.random(); len];
            db.put(&key, &value).unwrap();
            model.insert(key, value);
        }
    }
}

#[test]
fn a_cursor_goes_where_the_model_says_whatever_happens_beside_it() {
    for seed in 0..20 {
        let machine = Machine::new(seed);
        let (db, _) = machine.open(small());
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut model = Model::new();
        (0..200).for_each(|_| change(&mut rng, &db, &mut model));
        let (mut cursor, mut shown, mut at) = (db.cursor(), model.clone(), At::First);
        let mut keys = Vec::new();
        for _ in 0..2000 {
            match rng.random_range(0..10) {
                0..3 => change(&mut rng, &db, &mut model),
                3 if rng.random_range(0..8) == 0 => {
                    cursor.refresh();
                    shown.clone_from(&model);
                }
                4 | 5 => {
                    let value = cursor.value().unwrap();
                    let wanted = match &at {
                        At::On(key) => shown.get(key),
                        At::First | At::End => None,
                    };
                    assert_eq!(value.as_deref(), wanted.map(Vec::as_slice), "at {at:?}");
                }
                _ => at = step(&mut rng, &mut cursor, &shown, &at),
            }
            let wanted = match &at {
                At::On(key) => Some(key.as_slice()),
                At::First | At::End => None,
            };
            assert_eq!(cursor.key(), wanted);
            keys.extend(cursor.key().map(<[u8]>::to_vec));
        }
        assert!(keys.len() > 1000);
    }
}

#[test]
fn a_cursor_turns_round_on_its_entry_and_comes_back_from_both_ends() {
    let machine = Machine::new(1);
    let (db, _) = machine.open(small());
    (0..3).for_each(|n| db.put(key(n), [n as u8]).unwrap());
    let mut cursor = db.cursor();
    assert_eq!(cursor.value().unwrap(), None);
    assert_eq!(cursor.key(), None);
    assert!(!cursor.prev().unwrap());
    for n in [0, 1, 2] {
        assert!(cursor.next().unwrap());
        assert_eq!(cursor.key(), Some(&key(n)[..]));
    }
    assert!(cursor.prev().unwrap() && cursor.next().unwrap());
    assert_eq!(cursor.value().unwrap().as_deref(), Some(&[2][..]));
    assert!(!cursor.next().unwrap() && !cursor.next().unwrap());
    assert!(cursor.prev().unwrap());
    assert_eq!(cursor.key(), Some(&key(2)[..]));
    assert!(cursor.first().unwrap() && !cursor.prev().unwrap());
    assert!(cursor.next().unwrap());
    assert_eq!(cursor.key(), Some(&key(0)[..]));
}

#[test]
fn a_refresh_keeps_the_key_and_shows_what_is_there_now() {
    let machine = Machine::new(1);
    let (db, _) = machine.open(small());
    (0..3).for_each(|n| db.put(key(n), "old").unwrap());
    let snapshot = db.snapshot();
    let mut cursor = snapshot.cursor();
    assert!(cursor.seek(key(1)).unwrap());
    assert_eq!(cursor.value().unwrap().as_deref(), Some(&b"old"[..]));
    db.put(key(1), "new").unwrap();
    assert_eq!(cursor.value().unwrap().as_deref(), Some(&b"old"[..]));
    cursor.refresh();
    assert_eq!(cursor.value().unwrap().as_deref(), Some(&b"new"[..]));
    db.delete(key(1)).unwrap();
    cursor.refresh();
    assert_eq!(cursor.key(), Some(&key(1)[..]));
    assert_eq!(cursor.value().unwrap(), None);
    assert!(cursor.next().unwrap());
    assert_eq!(cursor.key(), Some(&key(2)[..]));
}

#[test]
fn a_move_that_fails_leaves_the_cursor_where_it_was() {
    let machine = Machine::new(1);
    let (db, _) = machine.open(small());
    (0..40).for_each(|n| db.put(key(n), "value").unwrap());
    db.compact().unwrap();
    db.close().unwrap();
    let (db, _) = machine.open(small());
    let mut cursor = db.cursor();
    let fail = || {
        let failing = |_: &ReadCall<'_>| Some(std::io::ErrorKind::Other);
        machine.disk.set_read_fault(Box::new(failing));
    };
    fail();
    assert_eq!(cursor.next().unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(cursor.key(), None);
    machine.disk.clear_faults();
    assert!(cursor.next().unwrap());
    assert_eq!(cursor.key(), Some(&key(0)[..]));
    assert!(cursor.seek(key(7)).unwrap());
    db.close().unwrap();
    type Move = fn(&mut Cursor) -> crate::Result<bool>;
    let moves: [Move; 4] = [|c| c.seek(b""), Cursor::next, Cursor::prev, Cursor::last];
    for moved in moves {
        assert_eq!(moved(&mut cursor).unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(cursor.key(), Some(&key(7)[..]));
    }
}

#[test]
fn a_cursor_may_live_anywhere() {
    fn anywhere<T: Send + 'static>() {}
    anywhere::<Cursor>();
    anywhere::<crate::Keys>();
}

/// Keys, lengths, and whether a key is there, of a database of which nothing is in memory.
#[test]
fn keys_lengths_and_cursors_read_no_value() {
    const MANY: u32 = 100;
    const VALUE_LEN: usize = 30_000;
    let options = || {
        Options::default()
            .memory_budget(128 << 20)
            .tuning(Tuning::default().memtable_bytes(16 << 20))
    };
    for is_merged in [false, true] {
        let machine = Machine::new(2);
        let (db, _) = machine.open(options());
        (0..MANY).for_each(|n| db.put(key(n), vec![7; VALUE_LEN]).unwrap());
        db.flush().unwrap();
        if is_merged {
            db.compact().unwrap();
            db.wait_until_idle().unwrap();
        }
        db.close().unwrap();
        let (db, _) = machine.open(options());
        let bytes = Arc::new(AtomicU64::new(0));
        let sum = Arc::clone(&bytes);
        machine
            .disk
            .set_read_fault(Box::new(move |call: &ReadCall<'_>| {
                sum.fetch_add(call.bytes as u64, Ordering::Relaxed);
                None
            }));
        assert_eq!(db.keys(..).count(), MANY as usize);
        assert!(db.contains_key(key(70)).unwrap() && !db.contains_key(b"none").unwrap());
        assert_eq!(db.value_len(key(90)).unwrap(), Some(VALUE_LEN));
        let mut cursor = db.cursor();
        while cursor.next().unwrap() {}
        assert!(
            bytes.load(Ordering::Relaxed) < VALUE_LEN as u64,
            "{bytes:?}"
        );
        assert!(cursor.prev().unwrap());
        assert_eq!(
            cursor.value().unwrap().map(|value| value.len()),
            Some(VALUE_LEN)
        );
        assert!(
            bytes.load(Ordering::Relaxed) >= VALUE_LEN as u64,
            "{bytes:?}"
        );
    }
}

/// The values of one key after another: inline, pointed to, large; in memory, in both stores.
fn lengths(from: &impl Readable, model: &Model) {
    let mut buffer = b"what was there".to_vec();
    for n in 0..KEYS + 2 {
        let value = model.get(&key(n));
        let len = value.map(Vec::len);
        assert_eq!(from.value_len(&key(n)).unwrap(), len, "key {n}");
        assert_eq!(from.contains_key(&key(n)).unwrap(), len.is_some());
        assert_eq!(from.get_into(&key(n), &mut buffer).unwrap(), len.is_some());
        assert_eq!(buffer, value.map_or(&b""[..], Vec::as_slice));
    }
    let keys: Result<Vec<_>, _> = from.keys(&..).collect();
    assert!(keys.unwrap().iter().eq(model.keys()));
    let back: Result<Vec<_>, _> = from.keys(&(key(3)..=key(50))).rev().collect();
    let wanted = model.range(key(3)..=key(50)).rev();
    assert!(back.unwrap().iter().eq(wanted.map(|(key, _)| key)));
}

#[test]
fn lengths_and_keys_are_those_of_the_values_wherever_they_stand() {
    let machine = Machine::new(3);
    let (db, _) = machine.open(small());
    let large = 64 << 10;
    let mut rng = SmallRng::seed_from_u64(3);
    let mut model = Model::new();
    for round in 0..12 {
        for n in 0..KEYS {
            if rng.random_range(0..3) == 0 {
                let len = [0, 10, 300, large][rng.random_range(0..4)];
                db.put(key(n), vec![round; len]).unwrap();
                model.insert(key(n), vec![round; len]);
            } else if rng.random_range(0..4) == 0 {
                db.delete(key(n)).unwrap();
                model.remove(&key(n));
            }
        }
        let (snapshot, then) = (db.snapshot(), model.clone());
        lengths(&db, &model);
        for n in 0..KEYS / 2 {
            db.delete(key(n)).unwrap();
            model.remove(&key(n));
        }
        lengths(&snapshot, &then);
        match round % 3 {
            0 => db.flush().unwrap(),
            1 => db.compact().unwrap(),
            _ => {}
        }
        lengths(&snapshot, &then);
        lengths(&db, &model);
    }
    let long = vec![b'k'; (64 << 10) + 1];
    for refused in [db.contains_key(&long).err(), db.value_len(&long).err()] {
        assert_eq!(refused.unwrap().kind(), ErrorKind::InvalidArgument);
    }
}
