//! Transactions through the public handle, on the simulated machine.

use crate::base::sorted::tests::COPIED;
use crate::engine::read::iter::overlay::STEPPED;
use crate::engine::tests::{Machine, Model, small};
use crate::engine::write::waits::Alone;
use crate::vfs::Runtime;
use crate::{
    Batch, Db, ErrorKind, Isolation, KeyspaceOptions, Readable, Result, Transaction, WriteOptions,
};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::ops::Bound;
use std::time::Duration;

fn value(n: u32) -> Vec<u8> {
    n.to_le_bytes().to_vec()
}

fn number(from: &impl Readable, key: &str) -> u32 {
    let value = from.get(key.as_bytes()).unwrap();
    value.map_or(0, |value| u32::from_le_bytes(value[..].try_into().unwrap()))
}

fn is_conflict(result: crate::Result<()>) -> bool {
    match result {
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
            true
        }
        Ok(()) => false,
    }
}

/// Two transactions that each read what the other one writes.
fn skew(db: &Db, isolation: Isolation) -> [bool; 2] {
    db.put("a", value(1)).unwrap();
    db.put("b", value(1)).unwrap();
    let (mut one, mut two) = (db.begin_with(isolation), db.begin_with(isolation));
    for (transaction, reads, writes) in [(&mut one, "a", "b"), (&mut two, "b", "a")] {
        let n = number(transaction, reads);
        transaction.put(writes, value(n + 1)).unwrap();
    }
    [is_conflict(one.commit()), is_conflict(two.commit())]
}

#[test]
fn write_skew_conflicts_where_transactions_are_serializable() {
    let machine = Machine::new(1);
    let (db, _) = machine.open(small());
    assert_eq!(skew(&db, Isolation::Serializable), [false, true]);
    assert_eq!(skew(&db, Isolation::Snapshot), [false, false]);
}

#[test]
fn an_update_is_never_lost() {
    let machine = Machine::new(2);
    let (db, _) = machine.open(small());
    for isolation in [Isolation::Serializable, Isolation::Snapshot] {
        db.put("n", value(7)).unwrap();
        let mut transaction = db.begin_with(isolation);
        let n = number(&transaction, "n");
        transaction.put("n", value(n + 1)).unwrap();
        db.put("n", value(n + 10)).unwrap();
        assert!(is_conflict(transaction.commit()));
        assert_eq!(number(&db, "n"), 17);
        // A key that is only read for update.
        let mut transaction = db.begin_with(isolation);
        transaction.get_for_update("n").unwrap();
        transaction.put("other", "value").unwrap();
        db.delete("n").unwrap();
        assert!(is_conflict(transaction.commit()));
        assert_eq!(db.get("other").unwrap(), None);
    }
    // What was written without a look at what was there may be written over.
    let mut blind = db.begin();
    blind.put("n", value(1)).unwrap();
    db.put("n", value(2)).unwrap();
    assert!(!is_conflict(blind.commit()));
    assert_eq!(number(&db, "n"), 1);
}

#[test]
fn a_range_that_was_read_may_get_no_key() {
    let machine = Machine::new(3);
    let (db, _) = machine.open(small());
    for i in 0..50 {
        db.put(format!("{i:03}"), [i]).unwrap();
    }
    type Read = fn(&Transaction);
    // What a transaction reads, a key that conflicts with it, and one that does not.
    let cases: [(Read, &str, &str); 8] = [
        (
            |t| assert!(t.range("010".."020").count() > 0),
            "0155",
            "020",
        ),
        (|t| assert!(t.range("010".."020").count() > 0), "010", "009"),
        (|t| drop(t.range("010".."020").next()), "010", "0105"),
        (|t| drop(t.iter().nth(5)), "0045", "0055"),
        (|t| drop(t.range(.."020").next_back()), "0195", "0185"),
        (|t| drop(t.keys("060"..).next()), "999", "0595"),
        (
            |t| {
                let mut iter = t.range("010"..);
                iter.seek("030");
                iter.next();
            },
            "030",
            "0105",
        ),
        (
            |t| {
                let mut cursor = t.cursor();
                cursor.seek("030").unwrap();
                cursor.prev().unwrap();
            },
            "0295",
            "0285",
        ),
    ];
    for (n, (read, inside, outside)) in cases.into_iter().enumerate() {
        for (written, conflicts) in [(inside, true), (outside, false)] {
            let before = db.get(written).unwrap();
            let mut transaction = db.begin();
            read(&transaction);
            transaction.put("result", "value").unwrap();
            db.put(written, "new").unwrap();
            assert_eq!(
                is_conflict(transaction.commit()),
                conflicts,
                "{n}: {written}"
            );
            match before {
                Some(value) => db.put(written, value).unwrap(),
                None => db.delete(written).unwrap(),
            }
        }
    }
    // A delete is a write, and so is one of a key that was not there.
    let mut transaction = db.begin();
    assert!(!transaction.contains_key("none").unwrap());
    transaction.put("result", "value").unwrap();
    db.delete("none").unwrap();
    assert!(is_conflict(transaction.commit()));
}

#[test]
fn what_has_been_flushed_and_merged_since_is_compared_from_memory() {
    let machine = Machine::new(4);
    let (db, _) = machine.open(small());
    let fill = |from: u32, to: u32| {
        for i in from..to {
            db.put(format!("key{i:05}"), [7; 100]).unwrap();
        }
    };
    fill(0, 100);
    let begin = || {
        let mut transaction = db.begin();
        transaction.get("key00005").unwrap();
        transaction.put("result", "value").unwrap();
        transaction
    };
    let (untouched, touched, lasting) = (begin(), begin(), begin());
    fill(50, 60);
    db.flush().unwrap();
    db.compact().unwrap();
    assert!(!is_conflict(untouched.commit()), "nothing that it has read");
    db.put("key00005", "new").unwrap();
    db.flush().unwrap();
    fill(60, 70);
    db.compact().unwrap();
    assert!(is_conflict(touched.commit()));
    // So much that of the older writes only the keys are kept, and more than may be of them.
    let patient = db.begin();
    fill(100, 3000);
    assert!(is_conflict(lasting.commit()));
    assert!(!is_conflict(patient.commit()), "it writes nothing");
    assert!(!is_conflict(begin().commit()));
    let budget = db.stats().memory;
    assert!(
        budget.total() <= budget.budget + budget.budget / 20,
        "{budget:?}"
    );
    let lasting = begin();
    fill(100, 20_000);
    let error = lasting.commit().unwrap_err();
    assert!(error.to_string().contains("more was written"), "{error}");
}

#[test]
fn what_writes_nothing_never_conflicts_and_shows_one_moment() {
    let machine = Machine::new(5);
    let (db, _) = machine.open(small());
    db.put("a", value(1)).unwrap();
    let reader = db.begin();
    assert_eq!(number(&reader, "a"), 1);
    assert!(reader.get_for_update("a").unwrap().is_some());
    db.put("a", value(2)).unwrap();
    db.put("b", value(2)).unwrap();
    assert_eq!((number(&reader, "a"), reader.iter().count()), (1, 1));
    assert!(!is_conflict(reader.commit()));
}

#[test]
fn savepoints_bring_back_what_was_written_before() {
    let machine = Machine::new(6);
    let (db, _) = machine.open(small());
    db.put("a", value(1)).unwrap();
    let mut transaction = db.begin();
    transaction.put("b", value(2)).unwrap();
    transaction.set_savepoint();
    transaction.put("b", value(3)).unwrap();
    transaction.delete("a").unwrap();
    transaction.set_savepoint();
    transaction.put("c", value(4)).unwrap();
    assert!(transaction.pop_savepoint());
    assert_eq!(transaction.iter().count(), 2);
    assert!(transaction.rollback_to_savepoint());
    assert_eq!(
        [number(&transaction, "a"), number(&transaction, "b")],
        [1, 2]
    );
    assert!(!transaction.contains_key("c").unwrap());
    assert!(!transaction.rollback_to_savepoint() && !transaction.pop_savepoint());
    transaction.commit().unwrap();
    assert_eq!(db.iter().count(), 2);
    // Dropped, it has done nothing.
    let mut undone = db.begin();
    undone.put("a", value(9)).unwrap();
    drop(undone);
    assert_eq!(number(&db, "a"), 1);
}

#[test]
fn keyspaces_take_part_and_one_that_goes_ends_a_transaction() {
    let machine = Machine::new(7);
    let (db, _) = machine.open(small());
    let a = db.keyspace("a", KeyspaceOptions::default()).unwrap();
    let b = db.keyspace("b", KeyspaceOptions::default()).unwrap();
    a.put("key", "of a").unwrap();
    let mut transaction = db.begin();
    assert!(transaction.keyspace(&a).get("key").unwrap().is_some());
    assert!(!transaction.keyspace(&b).contains_key("key").unwrap());
    transaction.put_in(&b, "key", "of b").unwrap();
    transaction.delete_in(&a, "key").unwrap();
    assert_eq!(transaction.keyspace(&a).iter().count(), 0);
    assert_eq!(transaction.keyspace(&b).keys(..).count(), 1);
    assert_eq!(transaction.iter().count(), 0);
    transaction.commit().unwrap();
    assert_eq!((a.iter().count(), b.iter().count()), (0, 1));
    // The same key elsewhere does not conflict.
    let mut transaction = db.begin();
    transaction.keyspace(&a).get("key").unwrap();
    transaction.put_in(&a, "result", "value").unwrap();
    db.put("key", "other").unwrap();
    b.put("key", "other").unwrap();
    assert!(!is_conflict(transaction.commit()));
    for drops in [true, false] {
        let mut transaction = db.begin();
        transaction.put_in(&a, "key", "value").unwrap();
        if drops {
            a.truncate().unwrap()
        } else {
            a.drop_keyspace().unwrap()
        }
        let read = transaction.keyspace(&a).get("other");
        assert_eq!(read.unwrap_err().kind(), ErrorKind::NoSuchKeyspace);
        let error = transaction.commit().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSuchKeyspace);
    }
}

#[test]
fn an_ingest_conflicts_and_a_later_transaction_does_not() {
    let machine = Machine::new(8);
    let (db, _) = machine.open(small());
    let mut transaction = db.begin();
    transaction.get("a").unwrap();
    transaction.put("result", "value").unwrap();
    let entries = [crate::Result::Ok(("a", Some("ingested")))];
    db.ingest_sorted(entries, None).unwrap();
    assert!(is_conflict(transaction.commit()));
    let mut transaction = db.begin();
    assert!(transaction.get("a").unwrap().is_some());
    transaction.put("result", "value").unwrap();
    assert!(!is_conflict(transaction.commit()));
}

#[test]
fn what_was_read_in_a_keyspace_that_is_gone_conflicts() {
    let machine = Machine::new(11);
    let (db, _) = machine.open(small());
    let a = db.keyspace("a", KeyspaceOptions::default()).unwrap();
    a.put("key", "value").unwrap();
    for drops in [false, true] {
        let mut transaction = db.begin();
        transaction.keyspace(&a).get("key").unwrap();
        transaction.put("result", "value").unwrap();
        if drops {
            a.drop_keyspace().unwrap()
        } else {
            a.truncate().unwrap()
        }
        assert!(is_conflict(transaction.commit()));
    }
}

#[test]
fn a_transaction_is_run_again_until_it_commits() {
    let machine = Machine::new(9);
    let (db, _) = machine.open(small());
    let mut tries = 0;
    let result = db.transact(|transaction| {
        tries += 1;
        let n = number(transaction, "n");
        if tries < 5 {
            db.put("n", value(n + 1)).unwrap();
        }
        transaction.put("n", value(n + 100))?;
        crate::Result::Ok(n)
    });
    assert_eq!((result.unwrap(), tries, number(&db, "n")), (4, 5, 104));
    // An error of the caller's ends it.
    let failed = db.transact(|transaction| {
        transaction.put("n", value(0))?;
        Err::<(), _>(std::io::Error::other("no"))
            .map_err(|_| crate::Error::invalid("enough", "stop"))
    });
    assert_eq!(failed.unwrap_err().kind(), ErrorKind::InvalidArgument);
    // One that always conflicts with plain writes is given up.
    let mut tries = 0;
    let given_up = db.transact(|transaction| {
        tries += 1;
        db.put("n", value(tries)).unwrap();
        transaction.get("n")?;
        db.put("n", value(tries)).unwrap();
        transaction.put("n", value(0))
    });
    assert!(is_conflict(given_up) && tries == super::single::TRIES);
    // Another transaction inside of one that is alone does not hang.
    let mut tries = 0;
    let nested = db.transact(|transaction| {
        tries += 1;
        transaction.get("n")?;
        db.transact(|inner| inner.put("n", value(tries)))?;
        transaction.put("n", value(0))
    });
    assert!(is_conflict(nested));
}

#[test]
fn what_is_run_again_goes_on_in_a_keyspace_that_was_emptied_meanwhile() {
    let machine = Machine::new(17);
    let (db, _) = machine.open(small());
    let space = db.keyspace("space", KeyspaceOptions::default()).unwrap();
    for emptied_before_the_read in [true, false] {
        space.put("key", "before").unwrap();
        let mut tries = 0;
        let found = db.transact(|transaction| {
            tries += 1;
            if tries == 1 && emptied_before_the_read {
                space.truncate()?;
            }
            let found = transaction.keyspace(&space).get("key")?;
            if tries == 1 && !emptied_before_the_read {
                space.truncate()?;
            }
            transaction.put_in(&space, "key", "after")?;
            crate::Result::Ok(found)
        });
        assert_eq!((found.unwrap(), tries), (None, 2));
        assert_eq!(space.get("key").unwrap().as_deref(), Some(&b"after"[..]));
    }
    let mut calls = 0;
    let updated = space.update("key", |value| {
        calls += 1;
        if calls == 1 {
            space.truncate().unwrap();
        }
        Some([value.unwrap_or(b"none"), b"!"].concat())
    });
    assert_eq!(updated.unwrap().as_deref(), Some(&b"none!"[..]));
    // One that is dropped does not come back.
    let mut tries = 0;
    let error = db.transact(|transaction| {
        tries += 1;
        transaction.put_in(&space, "key", "value")?;
        db.find_keyspace("space")
            .map_or(Ok(()), |it| it.drop_keyspace())
    });
    assert_eq!(error.unwrap_err().kind(), ErrorKind::NoSuchKeyspace);
    assert_eq!(tries, 1);
}

#[test]
fn single_keys_are_swapped_updated_and_counted() {
    let machine = Machine::new(10);
    let (db, _) = machine.open(small());
    let space = db.keyspace("space", KeyspaceOptions::default()).unwrap();
    assert!(db.compare_and_swap("k", None, Some(b"1")).unwrap().is_ok());
    let actual = db.compare_and_swap("k", Some(b"0"), Some(b"2")).unwrap();
    assert_eq!(actual.unwrap_err().actual.as_deref(), Some(&b"1"[..]));
    assert!(db.compare_and_swap("k", Some(b"1"), None).unwrap().is_ok());
    assert!(
        space
            .compare_and_swap("k", Some(b"1"), None)
            .unwrap()
            .is_err()
    );
    assert_eq!(db.get("k").unwrap(), None);
    let twice = |v: Option<&[u8]>| Some(v.map_or(b"x".to_vec(), |v| [v, v].concat()));
    for wanted in ["x", "xx", "xxxx"] {
        let value = space.update("u", twice).unwrap();
        assert_eq!(value.as_deref(), Some(wanted.as_bytes()));
    }
    assert_eq!(space.update("u", |_| None).unwrap(), None);
    assert_eq!((space.iter().count(), db.iter().count()), (0, 0));
    assert_eq!(db.increment("n", i64::MAX).unwrap(), i64::MAX);
    let wrong =
        |result: crate::Result<i64>| result.unwrap_err().kind() == ErrorKind::InvalidArgument;
    assert!(wrong(db.increment("n", 1)));
    assert_eq!(db.increment("n", -1).unwrap(), i64::MAX - 1);
    db.put("n", "no number").unwrap();
    assert!(wrong(db.increment("n", 1)));
    assert_eq!(db.get("n").unwrap().as_deref(), Some(&b"no number"[..]));
    let mut transaction = db.begin();
    let long = vec![0; (64 << 10) + 1];
    assert!(transaction.put(&long, "value").is_err() && transaction.get(&long).is_err());
    transaction.put("fine", "value").unwrap();
    transaction
        .commit_with(WriteOptions::default().no_wait(true))
        .unwrap();
    assert!(db.get("fine").unwrap().is_some());
}

#[test]
fn iterators_of_a_transaction_show_it_as_it_was_when_they_were_made() {
    for seed in 0..300 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let machine = Machine::new(seed);
        let (db, _) = machine.open(small());
        let mut model = Model::new();
        let key = |rng: &mut SmallRng| format!("{:02}", rng.random_range(0..40)).into_bytes();
        for _ in 0..rng.random_range(0..40) {
            let (key, value) = (key(&mut rng), vec![rng.random(); rng.random_range(0..300)]);
            db.put(&key, &value).unwrap();
            model.insert(key, value);
        }
        if rng.random() {
            db.flush().unwrap();
        }
        let mut transaction = db.begin();
        for round in 0..6 {
            for _ in 0..rng.random_range(0..10) {
                let key = key(&mut rng);
                if rng.random() {
                    transaction.delete(&key).unwrap();
                    model.remove(&key);
                } else {
                    let value = vec![rng.random(); rng.random_range(0..300)];
                    transaction.put(&key, &value).unwrap();
                    model.insert(key, value);
                }
            }
            let (mut low, mut high) = (key(&mut rng), key(&mut rng));
            if low > high {
                std::mem::swap(&mut low, &mut high);
            }
            let bounds = (Bound::Included(low), Bound::Excluded(high));
            let mut iter = transaction.range(bounds.clone());
            let mut want: Vec<_> = model
                .range(bounds)
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect();
            // What is written later is not shown.
            let later = key(&mut rng);
            transaction.put(&later, "later").unwrap();
            model.insert(later, b"later".to_vec());
            let all = want.clone();
            for step in 0..60 {
                if rng.random_range(0..10) == 0 {
                    let to = key(&mut rng);
                    iter.seek(&to);
                    // What the back has handed out stays gone.
                    let end = want.last().map(|(key, _)| key.clone());
                    let left = all.iter().filter(|(key, _)| *key >= to);
                    want = match end {
                        Some(end) => left.filter(|(key, _)| *key <= end).cloned().collect(),
                        None => break,
                    };
                }
                let (got, wanted) = if rng.random() {
                    (iter.next(), (!want.is_empty()).then(|| want.remove(0)))
                } else {
                    (iter.next_back(), want.pop())
                };
                let got = got.map(|entry| entry.unwrap());
                let got = got.map(|(key, value)| (key.to_vec(), value.to_vec()));
                assert_eq!(got, wanted, "seed {seed}, round {round}, step {step}");
            }
            let mut cursor = transaction.cursor();
            let mut place = cursor.first().unwrap().then_some(0);
            let entries: Vec<_> = model.iter().collect();
            for _ in 0..20 {
                let Some(at) = place else { break };
                assert_eq!(cursor.key(), Some(&entries[at].0[..]), "seed {seed}");
                assert_eq!(cursor.value().unwrap().as_deref(), Some(&entries[at].1[..]));
                let (moved, next) = match rng.random_range(0..3) {
                    0 => (cursor.prev(), at.checked_sub(1)),
                    _ => (cursor.next(), Some(at + 1).filter(|at| *at < entries.len())),
                };
                assert_eq!(moved.unwrap(), next.is_some());
                place = next;
            }
            for (key, value) in &model {
                assert_eq!(transaction.get(key).unwrap().as_deref(), Some(&value[..]));
                assert_eq!(transaction.value_len(key).unwrap(), Some(value.len()));
            }
            let keys: Vec<_> = (0..40).map(|n| format!("{n:02}").into_bytes()).collect();
            let values = transaction.multi_get(&keys).unwrap();
            for (key, value) in keys.iter().zip(values) {
                assert_eq!(value.as_deref(), model.get(key).map(|value| &value[..]));
            }
        }
        transaction.commit().unwrap();
        crate::engine::tests::same(&db, &model);
    }
}

/// Runs something on new transactions over 0 to `keys` keys of the database and as many own ones;
/// returns by how many entries iterators stepped, and how many were copied.
fn counted(keys: u32, run: impl FnOnce(&mut Transaction)) -> (usize, usize) {
    let machine = Machine::new(11);
    let (db, _) = machine.open(small());
    for n in 0..keys {
        db.put(format!("key/{n:06}"), "value").unwrap();
    }
    let mut transaction = db.begin();
    for n in 0..keys {
        transaction.put(format!("own/{n:06}"), "value").unwrap();
    }
    COPIED.set(0);
    STEPPED.set(0);
    run(&mut transaction);
    transaction.commit().unwrap();
    (STEPPED.get(), COPIED.get())
}

#[test]
fn taking_and_deleting_the_first_key_again_and_again_takes_steps_in_proportion() {
    let keys = 1000;
    for prefix in ["key/", "own/"] {
        for backward in [false, true] {
            let (stepped, copied) = counted(keys, |transaction| {
                for n in 0..keys {
                    let mut iter = transaction.prefix(prefix);
                    let next = if backward {
                        iter.next_back()
                    } else {
                        iter.next()
                    };
                    let (key, _) = next.unwrap().unwrap();
                    let want = if backward { keys - 1 - n } else { n };
                    assert_eq!(key, format!("{prefix}{want:06}").as_bytes());
                    transaction.delete(&key).unwrap();
                }
                assert_eq!(transaction.prefix(prefix).count(), 0);
            });
            assert!(stepped < 20 * keys as usize, "{prefix}: {stepped} steps");
            assert!(copied < 200 * keys as usize, "{prefix}: {copied} copied");
        }
    }
    // While an iterator is open, each write copies no more than its way.
    let (_, copied) = counted(keys, |transaction| {
        let iter = transaction.prefix("own/");
        for (n, entry) in iter.enumerate() {
            transaction.delete(entry.unwrap().0).unwrap();
            transaction.put(format!("new/{n:06}"), "value").unwrap();
        }
    });
    assert!(copied < 200 * keys as usize, "{copied} copied");
}

#[test]
fn a_range_that_a_transaction_has_deleted_is_passed_at_once() {
    let keys = 1000;
    for rounds in [1, 50] {
        let (stepped, _) = counted(keys, |transaction| {
            transaction
                .delete_range("key/000010".."key/000990")
                .unwrap();
            transaction.delete_prefix("own/").unwrap();
            for _ in 0..rounds {
                assert_eq!(transaction.iter().count(), 20);
                assert_eq!(transaction.iter().rev().count(), 20);
            }
        });
        assert!(stepped < 200 * rounds, "{stepped} steps");
    }
    // Many of them, one beside the other.
    let (stepped, _) = counted(keys, |transaction| {
        for n in 0..keys {
            let key = format!("key/{n:06}");
            let next = transaction.prefix("key/").next().unwrap().unwrap();
            assert_eq!(next.0, key.as_bytes());
            transaction.delete_prefix(&key).unwrap();
        }
        assert_eq!(transaction.prefix("key/").count(), 0);
    });
    assert!(stepped < 20 * keys as usize, "{stepped} steps");
}

#[test]
fn what_was_emptied_is_shown_where_it_is_filled_again() {
    for seed in 0..200 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let machine = Machine::new(seed);
        let (db, _) = machine.open(small());
        let key = |n: u32| format!("{n:03}").into_bytes();
        let mut model = Model::new();
        for n in (0..200).filter(|n| n % 3 > 0) {
            db.put(key(n), "value").unwrap();
            model.insert(key(n), b"value".to_vec());
        }
        let mut transaction = db.begin();
        let (mut savepoint, mut held) = (None, Vec::new());
        for _ in 0..60 {
            let from = rng.random_range(0..200);
            let to = (from + rng.random_range(0..60)).min(200);
            match rng.random_range(0..8) {
                0 => {
                    transaction.delete_range(key(from)..key(to)).unwrap();
                    model.retain(|k, _| *k < key(from) || *k >= key(to));
                }
                1..4 => {
                    for n in from..to {
                        transaction.delete(key(n)).unwrap();
                        model.remove(&key(n));
                    }
                }
                4 => {
                    transaction.put(key(from), "own").unwrap();
                    model.insert(key(from), b"own".to_vec());
                }
                5 if savepoint.is_none() => {
                    transaction.set_savepoint();
                    savepoint = Some(model.clone());
                }
                6 => {
                    if let Some(before) = savepoint.take() {
                        assert!(transaction.rollback_to_savepoint());
                        model = before;
                    }
                }
                _ => held.push((transaction.iter(), model.clone())),
            }
            let entries = |iter: crate::Iter| -> Vec<_> {
                let entries = iter.map(|entry| entry.unwrap());
                entries.map(|(k, v)| (k.to_vec(), v.to_vec())).collect()
            };
            let want = |model: &Model| -> Vec<_> {
                model.iter().map(|(k, v)| (k.clone(), v.clone())).collect()
            };
            assert_eq!(entries(transaction.iter()), want(&model), "seed {seed}");
            let mut back: Vec<_> = transaction
                .range(key(from)..)
                .rev()
                .map(Result::unwrap)
                .collect();
            back.reverse();
            let left = model.range(key(from)..).map(|(k, v)| (&k[..], &v[..]));
            assert!(
                left.eq(back.iter().map(|(k, v)| (&k[..], &v[..]))),
                "seed {seed}"
            );
            if held.len() > 3 {
                let (iter, model) = held.remove(0);
                assert_eq!(entries(iter), want(&model), "seed {seed}: as it was");
            }
        }
        transaction.commit().unwrap();
        crate::engine::tests::same(&db, &model);
    }
}

#[test]
fn batches_that_become_tables_and_ingests_wait_for_what_is_alone() {
    let machine = Machine::new(8);
    let (db, runtime) = machine.open(small());
    let batch = |puts: u32| {
        let mut batch = Batch::new();
        for n in 0..puts {
            batch.put(format!("key{n:05}"), [7; 100]);
        }
        batch
    };
    let wait = |write: &dyn Fn()| {
        let alone = Alone::begin(&db.0.engine.write).unwrap();
        let begin = runtime.now();
        write();
        drop(alone);
        runtime.now() - begin
    };
    let longest = Duration::from_millis(100);
    let (large, huge) = (batch(300), batch(3000));
    assert!(wait(&|| db.write(&large).unwrap()) >= longest);
    assert!(wait(&|| db.write(&huge).unwrap()) >= longest);
    let entries = || [Result::Ok(("key", Some("value")))];
    let ingest = || assert_eq!(db.ingest_sorted(entries(), None).unwrap(), 1);
    assert!(wait(&ingest) >= longest);
    // One that is alone does not wait for itself.
    let mut transaction = db.begin();
    for n in 0..3000 {
        transaction.put(format!("key{n:05}"), [8; 100]).unwrap();
    }
    let mut txn = transaction.into_txn();
    txn.stay_alone_if(Alone::begin(&db.0.engine.write));
    let begin = runtime.now();
    txn.commit(WriteOptions::default()).unwrap();
    assert!(runtime.now() - begin < longest);
}
