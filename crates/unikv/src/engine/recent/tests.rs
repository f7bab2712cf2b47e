use super::comparing::{MOST_LEFT, MOST_TRIES};
use super::reads::ReadSet;
use crate::base::keys::SeqNo;
use crate::base::sync::atomic::Ordering;
use crate::engine::tests::{Machine, small};
use crate::memtable::Batch;
use crate::{Db, ErrorKind, Options, Result, Transaction};

/// Compares a read of these engine keys with what is in memory and with a batch of the same group.
fn check(
    db: &Db,
    since: u64,
    keys: &[&[u8]],
    ranges: &[(&[u8], &[u8])],
    batch: &Batch,
) -> Result<()> {
    let reads = ReadSet::uncharged(SeqNo(since));
    keys.iter().for_each(|key| reads.add_key(key));
    for (lower, upper) in ranges {
        let range = reads.begin_range(lower);
        reads.extend_up(range, upper);
    }
    reads.close(None);
    let engine = &db.0.engine;
    let view = || std::sync::Arc::clone(&engine.read.view.load());
    let recent = &engine.write.recent;
    recent.compare(&reads, &engine.read.visible_seq, view)?;
    let visible = SeqNo(engine.read.visible_seq.load(Ordering::Acquire));
    recent.check(&reads, &view(), visible, [batch].into_iter())
}

#[test]
fn what_comes_before_in_the_group_conflicts_as_what_is_in_memory_does() {
    let machine = Machine::new(1);
    let (db, _) = machine.open(small());
    db.put("b", "1").unwrap();
    let since = db.0.engine.read.read_point().1.0;
    db.put("d", "2").unwrap();
    let nothing = Batch::new();
    let conflicts = |since, keys: &[&[u8]], ranges: &[(&[u8], &[u8])], batch: &Batch| {
        let error = check(&db, since, keys, ranges, batch).err();
        error.is_some_and(|error| error.kind() == ErrorKind::Conflict)
    };
    let key = |key: &str| [&[0; 4][..], key.as_bytes()].concat();
    let [a, b, c, d, e] = ["a", "b", "c", "d", "e"].map(key);
    assert!(!conflicts(since, &[&b, &e], &[(&a, &d)], &nothing));
    assert!(conflicts(since, &[&d], &[], &nothing));
    assert!(conflicts(since, &[], &[(&c, &e)], &nothing));
    assert!(conflicts(since - 1, &[&b], &[], &nothing));
    let mut batch = Batch::new();
    batch.put("x", "3").delete("c");
    assert!(!conflicts(since, &[&b, &e], &[(&a, &c)], &batch));
    assert!(conflicts(since, &[&c], &[], &batch));
    assert!(conflicts(since, &[], &[(&b, &d)], &batch));
}

/// How many look-ups under the commit lock `run` makes.
fn looked_up(db: &Db, run: impl FnOnce()) -> u64 {
    let count = || db.0.engine.write.recent.looked_up.load(Ordering::Relaxed);
    let before = count();
    run();
    count() - before
}

/// A transaction that has read `reads` keys, and has something to commit.
fn reader(db: &Db, reads: u32) -> Transaction {
    let mut transaction = db.begin();
    for n in 0..reads {
        transaction.get(n.to_be_bytes()).unwrap();
    }
    transaction.put("result", "value").unwrap();
    transaction
}

#[test]
fn look_ups_under_the_commit_lock_are_as_many_as_the_writes_that_are_left() {
    let machine = Machine::new(2);
    let (db, _) = machine.open(small());
    for reads in [0, 10, 10_000] {
        for writes in [0, 1, 100] {
            let transaction = reader(&db, reads);
            // Some before the long comparison, and some while the commit is under way.
            db.put("other", "value").unwrap();
            let meanwhile =
                || (0..writes).for_each(|n: u8| db.put(["x", "y"][n as usize % 2], [n]).unwrap());
            let count = looked_up(&db, || {
                let txn = transaction.into_txn();
                txn.commit_after(meanwhile).unwrap();
            });
            let most = if reads > 16 { u64::from(writes) } else { 0 };
            assert_eq!(count, most, "{reads} reads, {writes} writes");
        }
    }
}

#[test]
fn more_writes_than_may_be_compared_under_the_lock_are_compared_outside() {
    let machine = Machine::new(3);
    let (db, _) = machine.open(Options::default());
    for (written, conflicts) in [
        (b"other".to_vec(), false),
        (7u32.to_be_bytes().to_vec(), true),
    ] {
        let txn = reader(&db, 1000).into_txn();
        let mut batch = Batch::new();
        batch.put(&written, "value");
        for n in 0..MOST_LEFT {
            batch.put(format!("other{n}"), "value");
        }
        let mut result = Ok(());
        let count = looked_up(&db, || {
            result = txn.commit_after(|| db.write(&batch).unwrap())
        });
        assert_eq!(count, 0, "they were compared before it came again");
        let is_conflict = |error: &crate::Error| error.kind() == ErrorKind::Conflict;
        assert_eq!(result.as_ref().err().is_some_and(is_conflict), conflicts);
        assert_eq!(result.is_ok(), !conflicts);
    }
}

#[test]
fn who_is_always_behind_is_compared_under_the_lock_at_last() {
    let reads = ReadSet::uncharged(SeqNo(1));
    assert!((0..MOST_TRIES).all(|_| reads.postpone(MOST_TRIES) && reads.take_postponed()));
    assert!(!reads.postpone(MOST_TRIES) && !reads.take_postponed());
}

#[test]
fn writes_left_by_writers_stand_for_all_since_only_without_a_gap() {
    let machine = Machine::new(4);
    let (db, _) = machine.open(small());
    // A range, so that it is compared with what writers leave.
    let open = || {
        let mut transaction = db.begin();
        assert_eq!(transaction.range("a".."c").count(), 0);
        transaction.put("result", "value").unwrap();
        transaction.into_txn()
    };
    let recent = &db.0.engine.write.recent;
    let txn = open();
    txn.commit_after(|| db.put("d", "1").unwrap()).unwrap();
    let conflict = open().commit_after(|| db.put("b", "1").unwrap());
    assert!(conflict.is_err());
    db.delete("b").unwrap();
    // Another one has them left, from after the write that conflicts.
    let txn = open();
    db.put("b", "2").unwrap();
    recent.want();
    db.put("d", "2").unwrap();
    assert!(txn.commit_after(|| ()).is_err());
    db.delete("b").unwrap();
    let txn = open();
    db.ingest_sorted([Result::Ok(("e", Some("1")))], None)
        .unwrap();
    assert!(txn.commit_after(|| ()).is_err(), "an ingest");
    let deleted = open().commit_after(|| db.delete_range("b".."d").unwrap());
    assert!(deleted.is_err());
    open()
        .commit_after(|| db.delete_range("c".."d").unwrap())
        .unwrap();
    recent.unwant();
}

#[test]
fn reads_beyond_their_share_of_the_memory_become_ranges() {
    let machine = Machine::new(5);
    let (db, _) = machine.open(small());
    let share = db.stats().memory.budget / 8;
    let reads = u32::try_from(share / 6).unwrap();
    let transaction = || {
        let mut transaction = db.begin();
        for n in 0..reads {
            transaction.get((2 * n).to_be_bytes()).unwrap();
        }
        transaction.put("result", "value").unwrap();
        transaction
    };
    let one = transaction();
    let memory = db.stats().memory;
    assert!(memory.transactions > share / 8 && memory.transactions <= share + share / 4);
    assert!(
        memory.total() <= memory.budget + memory.budget / 20,
        "{memory:?}"
    );
    let two = transaction();
    let memory = db.stats().memory;
    assert!(memory.transactions <= 2 * share, "{memory:?}");
    // Each key is still compared, those of the end too.
    db.put((2 * reads - 2).to_be_bytes(), "value").unwrap();
    assert!(one.commit().is_err());
    two.into_txn().commit_after(|| ()).unwrap_err();
    let three = transaction();
    // A key between two that were read may conflict; one beside all of them does not.
    db.put((2 * reads + 9).to_be_bytes(), "value").unwrap();
    three.commit().unwrap();
    assert!(
        transaction()
            .into_txn()
            .commit_after(|| db.put(4u32.to_be_bytes(), "1").unwrap())
            .is_err()
    );
    assert_eq!(db.stats().memory.transactions, 0);
}

#[test]
fn of_flushed_memtables_beyond_those_that_are_kept_the_keys_are_compared() {
    let machine = Machine::new(6);
    let (db, _) = machine.open(small());
    let begin = |read: &dyn Fn(&Transaction)| {
        let mut transaction = db.begin();
        read(&transaction);
        transaction.put("result", "value").unwrap();
        transaction
    };
    let key = |key: &'static str| begin(&|t| drop(t.get(key).unwrap()));
    let range =
        |from: &'static str, to: &'static str| begin(&|t| assert_eq!(t.range(from..to).count(), 0));
    // Many keys, so that all that is kept is looked up in them.
    let many = |last: &'static str| {
        begin(&|t| {
            (0..2000_u32).for_each(|n| drop(t.get(n.to_be_bytes()).unwrap()));
            t.get(last).unwrap();
        })
    };
    let conflict = [
        key("b"),
        key("c"),
        range("a", "b1"),
        range("c", "d"),
        many("b"),
    ];
    let no_conflict = [key("a"), key("e"), range("d", "k"), many("a")];
    db.put("b", "1").unwrap();
    db.delete_range("c".."d").unwrap();
    for n in 0..600 {
        db.put(format!("key{:02}", n % 50), [7; 100]).unwrap();
    }
    let recent = &db.0.engine.write.recent;
    let (lost_until, keys, _) = recent.kept();
    assert!(lost_until == SeqNo(0) && !keys.is_empty());
    assert!(keys.iter().map(|keys| keys.len()).sum::<usize>() < 200);
    assert!(db.stats().memory.transactions > 0);
    for (n, transaction) in conflict.into_iter().enumerate() {
        let error = transaction.commit().unwrap_err();
        assert!(error.to_string().contains("written since"), "{n}: {error}");
    }
    for (n, transaction) in no_conflict.into_iter().enumerate() {
        // They write one key, which none has read.
        assert!(transaction.commit().is_ok(), "{n}");
    }
    assert!(recent.kept().1.is_empty());
    assert_eq!(db.stats().memory.transactions, 0);
}
