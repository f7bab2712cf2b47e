//! Large batches through the public handle, on the simulated machine.

use crate::engine::tests::{Machine, Model, same, small};
use crate::memtable::MOST_OPERATIONS;
use crate::vfs::sim::{Fault, Keep, Op};
use crate::{Batch, Durability, WriteOptions};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::io;

fn key(n: u32) -> Vec<u8> {
    format!("key{n:05}").into_bytes()
}

/// A batch of as many operations, all kinds among them, and what it makes of the model.
fn batch(rng: &mut SmallRng, model: &mut Model, len: usize) -> Batch {
    let mut batch = Batch::new();
    for _ in 0..len {
        let at = key(rng.random_range(0..400));
        match rng.random_range(0..10) {
            0 => {
                let end = [at.as_slice(), &[0xff]].concat();
                let end = if rng.random() {
                    key(rng.random_range(0..400))
                } else {
                    end
                };
                if at < end {
                    batch.delete_range(at.clone()..end.clone());
                    model.retain(|key, _| *key < at || *key >= end);
                }
            }
            1 | 2 => {
                batch.delete(&at);
                model.remove(&at);
            }
            _ => {
                let value = vec![rng.random::<u8>(); rng.random_range(0..120)];
                batch.put(&at, &value);
                model.insert(at, value);
            }
        }
    }
    batch
}

fn at(snapshot: &crate::Snapshot) -> Model {
    let entries = snapshot
        .iter()
        .map(|e| e.map(|(k, v)| (k.to_vec(), v.to_vec())));
    entries.collect::<crate::Result<_>>().unwrap()
}

#[test]
fn large_batches_are_read_as_any_others_before_and_after_flushes_and_kills() {
    for seed in 0..12 {
        let mut machine = Machine::new(seed);
        let (mut model, mut rng) = (Model::new(), SmallRng::seed_from_u64(seed));
        for _ in 0..3 {
            let (db, runtime) = machine.open(small());
            same(&db, &model);
            let mut snapshots = Vec::new();
            for round in 0..6 {
                let sealed = db.stats().sealed_memtables;
                let len = rng.random_range(300..900);
                let large = batch(&mut rng, &mut model, len);
                assert!(db.0.engine.write.is_large(&large));
                db.write(&large).unwrap();
                assert!(db.stats().sealed_memtables > 0 || sealed > 0);
                same(&db, &model);
                snapshots.push((db.snapshot(), model.clone()));
                for _ in 0..rng.random_range(0..3) {
                    let few = batch(&mut rng, &mut model, 5);
                    db.write(&few).unwrap();
                }
                same(&db, &model);
                for (snapshot, model) in &snapshots {
                    assert_eq!(at(snapshot), *model);
                    for n in (0..400).step_by(7) {
                        let value = snapshot.get(key(n)).unwrap();
                        assert_eq!(value.as_deref(), model.get(&key(n)).map(|v| &v[..]));
                    }
                }
                if round % 3 == 1 {
                    runtime.run_one();
                }
            }
            drop(snapshots);
            let disk = machine.disk.process_kill();
            drop(db);
            machine = Machine { disk, seed };
        }
    }
}

#[test]
fn nothing_is_inserted_under_the_lock_and_later_writes_go_to_a_new_segment() {
    let machine = Machine::new(1);
    let (db, _) = machine.open(small());
    db.put("before", "1").unwrap();
    let segment = || db.0.engine.write.commit.lock().memtable.wal;
    let first = segment();
    let mut many = Batch::new();
    (0..=MOST_OPERATIONS as u32).for_each(|n| {
        many.put(n.to_be_bytes(), "");
    });
    db.write(&many).unwrap();
    let view = db.0.engine.read.view.load_full();
    let sealed: Vec<_> = view.sealed.iter().map(|m| (m.table.len(), m.wal)).collect();
    assert_eq!(sealed, [(MOST_OPERATIONS + 1, first), (1, first)]);
    assert!(view.memtable.table.is_empty() && segment() > first);
    db.put("after", "2").unwrap();
    assert_eq!(db.get("before").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(db.iter().count(), MOST_OPERATIONS + 3);
}

#[test]
fn a_large_batch_whose_record_fails_is_not_there_and_writing_resumes() {
    for sync in [false, true] {
        let machine = Machine::new(2);
        let (db, _) = machine.open(small());
        db.put("before", "1").unwrap();
        let mut large = Batch::new();
        (0..400).for_each(|n| {
            large.put(key(n), vec![7; 100]);
        });
        let fails = if sync { Op::Sync } else { Op::Append };
        machine.disk.set_fault(Box::new(move |call| {
            if call.op == fails && call.path.extension().is_some_and(|e| e == "wal") {
                Fault::Fail(io::ErrorKind::Other)
            } else {
                Fault::None
            }
        }));
        let durability = if sync {
            Durability::Sync
        } else {
            Durability::Buffered
        };
        let failed = db.write_with(&large, WriteOptions::default().durability(durability));
        assert!(failed.is_err());
        machine.disk.clear_faults();
        assert_eq!(db.get(key(3)).unwrap(), None);
        let _one_that_resumes = db.put("between", "2");
        db.wait_until_idle().unwrap();
        db.put("after", "3").unwrap();
        db.write(&large).unwrap();
        assert_eq!(
            db.iter().count(),
            if db.get("between").unwrap().is_some() {
                403
            } else {
                402
            }
        );
        let disk = machine.disk.power_cut(Keep::Nothing);
        drop(db);
        let (db, _) = Machine { disk, seed: 2 }.open(small());
        assert!(matches!(db.iter().count(), 0..=403));
    }
}

#[test]
fn short_memtables_are_flushed_together() {
    let machine = Machine::new(6);
    let (db, _) = machine.open(small());
    let seal = || {
        let write = &db.0.engine.write;
        write.seal(&mut write.commit.lock()).unwrap();
    };
    db.put("a", "1").unwrap();
    db.put("b", "1").unwrap();
    seal();
    let snapshot = db.snapshot();
    db.put("a", "2").unwrap();
    db.delete_range("b".."c").unwrap();
    seal();
    db.delete("a").unwrap();
    db.put("c", "3").unwrap();
    seal();
    assert_eq!(db.stats().sealed_memtables, 3);
    db.flush().unwrap();
    assert_eq!((db.stats().flushes, db.stats().sealed_memtables), (1, 0));
    let keys: Vec<_> = db.iter().map(|entry| entry.unwrap().0).collect();
    assert_eq!(keys, ["c"]);
    assert_eq!(at(&snapshot).len(), 2);
    assert_eq!(snapshot.get("a").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(snapshot.get("b").unwrap().as_deref(), Some(&b"1"[..]));
}

#[test]
fn other_writers_seal_less_while_a_large_batch_waits_for_memory() {
    let machine = Machine::new(31);
    let (db, _) = machine.open(small());
    let write = &db.0.engine.write;
    let fill = |sealed: usize| {
        for n in 0..u32::MAX {
            if db.0.engine.read.view.load().sealed.len() == sealed {
                break;
            }
            db.put(key(n % 90_000), [7; 500]).unwrap();
        }
    };
    fill(2);
    assert!(write.may_seal(), "there is room for one more");
    let core = &db.0.engine.core;
    let bytes = 2 * usize::try_from(core.memory.memtable_bytes()).unwrap();
    let waits = core.memory.wait_for_large(bytes, &core.progress);
    assert!(
        !write.may_seal(),
        "it would take the room of the large batch"
    );
    drop(waits);
    assert!(write.may_seal());
    let waits = core.memory.wait_for_large(100 * bytes, &core.progress);
    db.wait_until_idle().unwrap();
    assert!(
        write.may_seal(),
        "nothing is sealed: nothing would come of waiting"
    );
    drop(waits);
}
