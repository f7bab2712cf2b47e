//! Batches that are larger than memory allows, on the simulated machine.

use crate::engine::tests::{Machine, Model, same, small};
use crate::vfs::sim::Keep;
use crate::{Batch, ErrorKind, Keyspace, KeyspaceOptions};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// Enough short operations that they need several passes.
const MANY: u32 = 150_000;

fn key(n: u32) -> Vec<u8> {
    n.to_be_bytes().to_vec()
}

fn holds(space: &Keyspace, model: &Model) {
    let found = space
        .iter()
        .map(|e| e.map(|(k, v)| (k.to_vec(), v.to_vec())));
    let found: Model = found.collect::<crate::Result<_>>().unwrap();
    assert!(
        found == *model,
        "{} and {} entries",
        found.len(),
        model.len()
    );
}

#[test]
fn a_batch_beyond_memory_is_written_as_a_whole_and_the_last_operation_on_a_key_counts() {
    for seed in 0..2 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let machine = Machine::new(seed);
        let (db, _) = machine.open(small());
        let other = db.keyspace("other", KeyspaceOptions::default()).unwrap();
        let (mut model, mut of_other) = (Model::new(), Model::new());
        for n in (0..MANY).step_by(1000) {
            db.put(key(n), "before").unwrap();
            model.insert(key(n), b"before".to_vec());
        }
        let before = (db.snapshot(), model.clone());
        let mut batch = Batch::new();
        for n in 0..MANY {
            let at = key(rng.random_range(0..MANY));
            let value = vec![n as u8; if n % 1000 == 0 { 5000 } else { 3 }];
            match rng.random_range(0..8) {
                0 => {
                    batch.delete(&at);
                    model.remove(&at);
                }
                1 => {
                    batch.put_in(&other, &at, &value);
                    of_other.insert(at, value);
                }
                _ => {
                    batch.put(&at, &value);
                    model.insert(at, value);
                }
            }
        }
        batch.set_commit_tag("the mark");
        assert!(db.0.engine.write.exceeds_memory(&batch));
        db.write(&batch).unwrap();
        let stats = db.stats();
        assert_eq!(stats.memtable_bytes, 0, "it went past memory");
        same(&db, &model);
        holds(&other, &of_other);
        let earlier = before
            .0
            .iter()
            .map(|e| e.map(|(k, v)| (k.to_vec(), v.to_vec())));
        assert_eq!(earlier.collect::<crate::Result<Model>>().unwrap(), before.1);
        assert_eq!(db.commit_tag().as_deref(), Some(&b"the mark"[..]));
        db.put(key(1), "after").unwrap();
        model.insert(key(1), b"after".to_vec());
        drop(before);
        db.compact().unwrap();
        same(&db, &model);
        let disk = if seed == 0 {
            machine.disk.process_kill()
        } else {
            machine.disk.clone()
        };
        drop((db, other));
        let machine = Machine { disk, seed };
        let (db, _) = machine.open(small());
        same(&db, &model);
        holds(&db.find_keyspace("other").unwrap(), &of_other);
    }
}

#[test]
fn a_batch_beyond_memory_is_durable_or_not_there_at_all() {
    let batch = |value: &str| {
        let mut batch = Batch::new();
        for n in 0..MANY / 2 {
            batch.put(key(n), value);
        }
        batch
    };
    let machine = Machine::new(3);
    let (db, _) = machine.open(small());
    db.put("last", "of all").unwrap();
    db.write(&batch("the first value")).unwrap();
    let disk = machine.disk.power_cut(Keep::Nothing);
    drop(db);
    let (db, _) = Machine { disk, seed: 3 }.open(small());
    assert_eq!(
        db.get(key(7)).unwrap().as_deref(),
        Some(&b"the first value"[..])
    );
    assert_eq!(db.iter().count(), MANY as usize / 2 + 1);
}

#[test]
fn a_batch_beyond_memory_conflicts_as_any_other() {
    let machine = Machine::new(4);
    let (db, _) = machine.open(small());
    for conflicts in [true, false] {
        let mut transaction = db.begin();
        assert!(transaction.get("read").unwrap().is_none() || !conflicts);
        (0..MANY / 2).for_each(|n| transaction.put(key(n), "some value").unwrap());
        if conflicts {
            db.put("read", "meanwhile").unwrap();
            let error = transaction.commit().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Conflict);
            assert_eq!(db.iter().count(), 1);
        } else {
            transaction.commit().unwrap();
            assert_eq!(db.iter().count(), MANY as usize / 2 + 1);
        }
    }
    // What is written between the comparison and the tables conflicts, too.
    let mut transaction = db.begin();
    assert!(transaction.get("read").unwrap().is_some());
    (0..MANY / 2).for_each(|n| transaction.put(key(n), "a lost value").unwrap());
    let error = transaction
        .into_txn()
        .commit_after(|| db.put("read", "again").unwrap());
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(&db.get(key(3)).unwrap().unwrap()[..], b"some value");
    // One that had begun before the batch conflicts with it.
    let mut earlier = db.begin();
    assert!(earlier.get(key(3)).unwrap().is_some());
    let mut batch = Batch::new();
    (0..MANY / 2).for_each(|n| {
        batch.put(key(n), "another value");
    });
    db.write(&batch).unwrap();
    earlier.put("x", "y").unwrap();
    assert_eq!(earlier.commit().unwrap_err().kind(), ErrorKind::Conflict);
}

#[test]
fn range_deletes_of_a_batch_beyond_memory_are_refused() {
    let machine = Machine::new(5);
    let (db, _) = machine.open(small());
    let mut batch = Batch::new();
    (0..MANY / 2).for_each(|n| {
        batch.put(key(n), "some value");
    });
    batch.delete_range("a".."b");
    let error = db.write(&batch).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("range deletes"), "{error}");
    assert_eq!(db.iter().count(), 0);
}
