//! Large values through the whole engine, on the simulated machine.

use crate::engine::tests::{Machine, Model, churn, same, small};
use crate::vfs::Vfs;
use crate::vfs::sim::{Fault, Keep, Op};
use crate::{Batch, Clustering, Db, Durability, ErrorKind, Options, Tuning};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::Ordering;

/// Of [`small`]'s memtable a quarter.
const LARGE: usize = 1 << 10;

fn value(stamp: u8, len: usize) -> Vec<u8> {
    (0..len)
        .map(|i| stamp ^ (i as u8) ^ (i >> 8) as u8)
        .collect()
}

fn record_files(machine: &Machine) -> BTreeSet<String> {
    let names = machine.disk.list("/db".as_ref()).unwrap();
    names.into_iter().filter(|n| n.ends_with(".rec")).collect()
}

fn put(db: &Db, model: &mut Model, key: &str, value: Vec<u8>) {
    db.put(key, &value).unwrap();
    model.insert(key.into(), value);
}

/// Large and small writes, single and in batches, which may name a key twice.
fn churn_large(db: &Db, model: &mut Model, rng: &mut SmallRng, ops: usize) {
    for _ in 0..ops {
        let mut batch = Batch::new();
        for _ in 0..rng.random_range(1..4) {
            let key = format!("key{:03}", rng.random_range(0..60)).into_bytes();
            let len = match rng.random_range(0..3) {
                0 => rng.random_range(0..LARGE),
                1 => LARGE - 1 + rng.random_range(0..3),
                _ => rng.random_range(LARGE..8 * LARGE),
            };
            let bytes = value(rng.random(), len);
            batch.put(&key, &bytes);
            model.insert(key, bytes);
        }
        if rng.random_range(0..4) == 0 {
            let key = format!("key{:03}", rng.random_range(0..60)).into_bytes();
            batch.delete(&key);
            model.remove(&key);
        }
        db.write(&batch).unwrap();
    }
}

#[test]
fn large_values_are_read_across_flushes_merges_splits_collection_and_reopening() {
    for clustering in [Clustering::LeastWriting, Clustering::Automatic] {
        let machine = Machine::new(31);
        let (mut model, mut rng) = (Model::new(), SmallRng::seed_from_u64(31));
        let options = small().clustering(clustering).max_space_amp(1.1);
        let options = options.tuning(
            Tuning::default()
                .partition_bytes(64 << 10)
                .key_table_bytes(1 << 10),
        );
        for round in 0..4 {
            let (db, runtime) = machine.open(options.clone());
            same(&db, &model);
            for _ in 0..3 {
                churn_large(&db, &mut model, &mut rng, 60);
                runtime.run_one();
                same(&db, &model);
            }
            let stats = db.stats();
            assert!(stats.large_values > 50 && stats.flushes > 3, "{stats:#?}");
            assert!(stats.large_bytes > stats.wal_bytes, "{stats:#?}");
            if round == 2 {
                db.compact().unwrap();
                db.wait_until_idle().unwrap();
                same(&db, &model);
                assert!(db.stats().splits > 0 || db.stats().partitions.len() > 1);
            }
            if round % 2 == 0 {
                db.close().unwrap();
                machine.check();
            }
        }
        machine.check();
    }
}

#[test]
fn a_large_value_passes_by_log_and_memtable() {
    let machine = Machine::new(1);
    let (db, _) = machine.open(small());
    let mut model = Model::new();
    put(&db, &mut model, "large", value(1, 100 * LARGE));
    let stats = db.stats();
    assert!(
        stats.wal_bytes < 1000 && stats.memtable_bytes < 1000,
        "{stats:#?}"
    );
    assert_eq!(stats.user_bytes_written, 5 + 100 * LARGE as u64);
    assert_eq!(stats.large_values, 1);
    same(&db, &model);
    put(&db, &mut model, "small", value(1, LARGE - 1));
    assert_eq!(db.stats().large_values, 1);
    let before = record_files(&machine);
    assert_eq!(before.len(), 1);
    db.compact().unwrap();
    same(&db, &model);
    assert!(
        record_files(&machine).is_superset(&before),
        "the value stays"
    );
    let live = db.stats().record_live_bytes;
    assert!(
        (live - 100 * LARGE as u64) < 2000 + 8 * 100 * LARGE as u64 / 256,
        "{live} bytes are pointed to"
    );
}

#[test]
fn a_value_overwritten_before_its_flush_goes_with_it() {
    let machine = Machine::new(1);
    let (db, runtime) = machine.open(small());
    let mut model = Model::new();
    put(&db, &mut model, "key", value(1, 9 * LARGE));
    let first = record_files(&machine);
    let iter = db.iter();
    let snapshot = db.snapshot();
    put(&db, &mut model, "key", value(2, 9 * LARGE));
    db.delete("gone").unwrap();
    put(&db, &mut model, "gone", value(2, 2 * LARGE));
    db.delete("gone").unwrap();
    model.remove(&b"gone"[..]);
    assert_eq!(record_files(&machine).len(), 3);
    db.flush().unwrap();
    runtime.run_until_idle();
    assert!(
        record_files(&machine).is_superset(&first),
        "a snapshot sees it"
    );
    assert_eq!(
        snapshot.get("key").unwrap().unwrap(),
        value(1, 9 * LARGE)[..]
    );
    let seen: Vec<_> = iter.map(|e| e.unwrap().1.to_vec()).collect();
    assert_eq!(seen, [value(1, 9 * LARGE)]);
    drop(snapshot);
    put(&db, &mut model, "key", value(2, 8 * LARGE));
    db.compact().unwrap();
    runtime.run_until_idle();
    assert!(record_files(&machine).is_disjoint(&first));
    assert_eq!(record_files(&machine).len(), 1, "the value alone");
    put(&db, &mut model, "key", value(3, 9 * LARGE));
    put(&db, &mut model, "key", value(4, 10));
    db.flush().unwrap();
    runtime.run_until_idle();
    same(&db, &model);
    db.close().unwrap();
    machine.check();
}

#[test]
fn an_old_view_reads_values_that_were_flushed_merged_and_dropped_since() {
    let machine = Machine::new(5);
    let (db, runtime) = machine.open(small());
    let mut model = Model::new();
    for n in 0..20 {
        put(&db, &mut model, &format!("key{n:03}"), value(n, 3 * LARGE));
    }
    let then: Vec<_> = model.clone().into_iter().collect();
    let mut iter = db.iter();
    let first = iter.next().unwrap().unwrap();
    assert_eq!(first.1, then[0].1);
    for round in 0..3 {
        for n in 0..20 {
            let stamp = 100 + round;
            put(
                &db,
                &mut model,
                &format!("key{n:03}"),
                value(stamp, 4 * LARGE),
            );
        }
        db.compact().unwrap();
        runtime.run_until_idle();
    }
    let rest: Vec<_> = iter
        .map(|e| e.map(|(k, v)| (k.to_vec(), v.to_vec())).unwrap())
        .collect();
    assert_eq!(rest, then[1..]);
    for n in 0..20 {
        put(&db, &mut model, &format!("key{n:03}"), value(99, 2 * LARGE));
    }
    db.compact().unwrap();
    runtime.run_until_idle();
    assert_eq!(record_files(&machine).len(), 20);
    same(&db, &model);
}

#[test]
fn a_file_with_live_and_dead_large_values_is_collected_piece_by_piece() {
    let machine = Machine::new(6);
    // Long enough to be streamed.
    let len = 3 << 20;
    let options = small().tuning(
        Tuning::default()
            .memtable_bytes(64 << 10)
            .unsorted_bytes(1 << 20),
    );
    let (db, runtime) = machine.open(options.max_space_amp(1.1));
    let mut model = Model::new();
    let mut batch = Batch::new();
    for n in 0..4 {
        let bytes = value(n, len + usize::from(n));
        batch.put(format!("key{n}"), &bytes);
        model.insert(format!("key{n}").into(), bytes);
    }
    db.write(&batch).unwrap();
    db.compact().unwrap();
    let before = record_files(&machine);
    for n in [0, 2, 3] {
        put(&db, &mut model, &format!("key{n}"), value(9, 10));
    }
    db.compact().unwrap();
    db.wait_until_idle().unwrap();
    runtime.run_until_idle();
    let stats = db.stats();
    assert!(
        stats.gc_copied_bytes + stats.merge_copied_bytes > len as u64,
        "{stats:#?}"
    );
    assert!(record_files(&machine).is_disjoint(&before));
    assert!(stats.record_file_bytes < 4 << 20, "{stats:#?}");
    same(&db, &model);
    db.close().unwrap();
    machine.check();
}

#[test]
fn collection_of_a_damaged_large_value_fails_and_leaves_no_file() {
    let machine = Machine::new(6);
    let options = small().tuning(
        Tuning::default()
            .memtable_bytes(64 << 10)
            .unsorted_bytes(1 << 20),
    );
    let (db, _) = machine.open(options.clone().max_space_amp(3.0));
    let mut batch = Batch::new();
    batch
        .put("a", value(1, 2 << 20))
        .put("b", value(2, 6 << 20));
    db.write(&batch).unwrap();
    db.compact().unwrap();
    db.put("b", "small").unwrap();
    db.compact().unwrap();
    db.close().unwrap();
    let files = record_files(&machine);
    let path = std::path::Path::new("/db").join(files.first().unwrap());
    assert!(machine.disk.flip_bit(&path, 8 * (1 << 20)));
    let (db, _) = machine.open(options.max_space_amp(1.1));
    let error = db.wait_until_idle().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert_eq!(error.file(), Some(path.as_path()));
    assert_eq!(
        record_files(&machine),
        files,
        "the half copy has been removed"
    );
    assert_eq!(db.get("a").unwrap_err().kind(), ErrorKind::Corruption);
    assert_eq!(db.get("b").unwrap().unwrap(), &b"small"[..]);
}

#[test]
fn a_batch_with_large_values_is_there_whole_or_not_at_all() {
    for keep in [Keep::Nothing, Keep::All, Keep::Prefix(3), Keep::Torn(4)] {
        let machine = Machine::new(8);
        let (db, _) = machine.open(small());
        let mut batch = Batch::new();
        batch.put("a", value(1, 5 * LARGE)).put("b", "small");
        batch
            .put("c", value(2, 3 * LARGE))
            .put("a", value(3, 2 * LARGE));
        db.write_with(&batch, Durability::Sync).unwrap();
        let mut second = Batch::new();
        second.delete("b").put("c", value(4, 9 * LARGE));
        second.set_commit_tag("second");
        db.write(&second).unwrap();
        let cut = Machine {
            disk: machine.disk.power_cut(keep),
            seed: 8,
        };
        cut.check();
        let (db, _) = cut.open(small());
        assert_eq!(db.get("a").unwrap().unwrap(), value(3, 2 * LARGE)[..]);
        if db.get("b").unwrap().is_some() {
            assert_eq!(db.get("c").unwrap().unwrap(), value(2, 3 * LARGE)[..]);
            assert_eq!(db.commit_tag(), None);
        } else {
            assert_eq!(db.get("c").unwrap().unwrap(), value(4, 9 * LARGE)[..]);
            assert_eq!(db.commit_tag().unwrap(), &b"second"[..]);
        }
        db.close().unwrap();
        cut.check();
    }
}

#[test]
fn a_value_that_the_log_names_and_that_is_missing_or_changed_is_reported() {
    let machine = Machine::new(8);
    let (db, _) = machine.open(small());
    db.put("key", value(1, 5 * LARGE)).unwrap();
    let name = record_files(&machine).pop_first().unwrap();
    let path = std::path::Path::new("/db").join(name);
    let killed = machine.disk.process_kill();
    drop(db);
    let open = |disk: &crate::vfs::sim::SimVfs| {
        let env = crate::vfs::Env {
            vfs: std::sync::Arc::new(disk.clone()),
            runtime: crate::vfs::sim::SimRuntime::new(1),
        };
        let report = env.check("/db").unwrap();
        assert!(report.problems.iter().any(|p| p.file == path), "{report:?}");
        Db::open("/db", small().env(env))
    };
    let bytes = killed.read_file(&path).unwrap();
    killed.remove(&path).unwrap();
    let error = open(&killed).unwrap_err();
    assert_eq!(
        (error.kind(), error.file()),
        (ErrorKind::Corruption, Some(&*path))
    );
    killed.write_file(&path, &bytes[..bytes.len() - 1]);
    assert_eq!(open(&killed).unwrap_err().kind(), ErrorKind::Corruption);
    // Damage in the value itself is found when it is read.
    killed.write_file(&path, &bytes);
    assert!(killed.flip_bit(&path, 8 * 1000));
    let db = open(&killed).unwrap();
    let error = db.get("key").unwrap_err();
    assert_eq!(
        (error.kind(), error.file()),
        (ErrorKind::Corruption, Some(&*path))
    );
    assert!(db.iter().next().unwrap().is_err());
}

#[test]
fn a_failed_write_of_a_large_value_changes_nothing_and_leaves_no_file() {
    for call in 0..4 {
        let machine = Machine::new(8);
        let (db, runtime) = machine.open(small());
        let mut model = Model::new();
        put(&db, &mut model, "key", value(1, 5 * LARGE));
        let files = record_files(&machine);
        let mut count = 0;
        machine.disk.set_fault(Box::new(move |_| {
            count += 1;
            if count == call + 1 {
                Fault::Fail(io::ErrorKind::StorageFull)
            } else {
                Fault::None
            }
        }));
        let error = db.put("key", value(2, 5 * LARGE)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
        machine.disk.clear_faults();
        assert_eq!(record_files(&machine), files);
        same(&db, &model);
        runtime.run_until_idle();
        drop(db);
        let (db, _) = machine.open(small());
        same(&db, &model);
        put(&db, &mut model, "key", value(3, 5 * LARGE));
        same(&db, &model);
    }
}

#[test]
fn a_value_whose_log_record_has_an_unknown_outcome_is_kept_until_the_log_is_given_up() {
    let machine = Machine::new(8);
    let (db, runtime) = machine.open(small().durability(Durability::Sync));
    let mut model = Model::new();
    put(&db, &mut model, "other", value(1, 10));
    machine.disk.set_fault(Box::new(|call| {
        if call.op == Op::Sync && call.path.extension().is_some_and(|e| e == "wal") {
            Fault::Fail(io::ErrorKind::Other)
        } else {
            Fault::None
        }
    }));
    db.put("key", value(2, 5 * LARGE)).unwrap_err();
    machine.disk.clear_faults();
    assert_eq!(record_files(&machine).len(), 1, "the log may name it");
    let killed = Machine {
        disk: machine.disk.process_kill(),
        seed: 1,
    };
    let (survivor, _) = killed.open(small());
    let found = survivor.get("key").unwrap();
    assert!(found.is_none_or(|found| found == value(2, 5 * LARGE)[..]));
    drop(survivor);
    same(&db, &model);
    db.flush().unwrap();
    put(&db, &mut model, "key", value(3, 2 * LARGE));
    db.flush().unwrap();
    runtime.run_until_idle();
    same(&db, &model);
    db.close().unwrap();
    machine.check();
    let (db, _) = machine.open(small());
    same(&db, &model);
}

#[test]
fn a_large_batch_gives_up_small_values_and_one_that_stays_too_large_becomes_tables() {
    let machine = Machine::new(8);
    let (db, _) = machine.open(small());
    let mut model = Model::new();
    let mut batch = Batch::new();
    for n in 0..3000 {
        let key = format!("key{n:05}");
        let bytes = value(n as u8, 200 + n % 100);
        batch.put(&key, &bytes);
        model.insert(key.into(), bytes);
    }
    db.write(&batch).unwrap();
    let stats = db.stats();
    assert_eq!(stats.large_values, 1320);
    same(&db, &model);
    churn(&db, &mut model, &mut SmallRng::seed_from_u64(1), 500);
    db.compact().unwrap();
    same(&db, &model);
    let mut batch = Batch::new();
    for n in 0..6000 {
        let key = format!("key{n:05}");
        batch.put(&key, value(0, 255));
        model.insert(key.into(), value(0, 255));
    }
    db.write(&batch).unwrap();
    assert_eq!(db.stats().ingests, 1);
    same(&db, &model);
    db.close().unwrap();
    machine.check();
}

#[test]
fn a_large_batch_pauses_for_the_values_it_gives_up_however_short_each_is() {
    let machine = Machine::new(45);
    let (db, _) = machine.open(small().memory_budget(16 << 20));
    let engine = &db.0.engine;
    let cost = |ns| {
        engine
            .backpressure
            .state
            .ns_per_kib
            .store(ns, Ordering::Relaxed)
    };
    let time_of = |write: &dyn Fn()| {
        let begin = engine.core.now();
        write();
        (engine.core.now() - begin).as_millis()
    };
    let mut batch = Batch::new();
    for i in 0..64_u32 {
        batch.put(i.to_be_bytes(), value(1, 512));
    }
    cost(1_000_000);
    let of_batch = time_of(&|| db.write(&batch).unwrap());
    assert!((32..64).contains(&of_batch), "{of_batch}");
    cost(1_000_000);
    let of_value = time_of(&|| db.put("long", value(2, 3 << 20)).unwrap());
    assert!((3072..3200).contains(&of_value), "{of_value}");
    assert_eq!(db.stats().large_values, 65);
}

#[test]
fn a_closed_database_takes_no_large_value_and_makes_no_file() {
    let machine = Machine::new(8);
    let (db, _) = machine.open(small());
    db.clone().close().unwrap();
    let error = db.put("key", value(1, 2 * LARGE)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
    let mut batch = Batch::new();
    batch.put("key", value(1, 2 * LARGE));
    assert_eq!(db.write(&batch).unwrap_err().kind(), ErrorKind::Closed);
    assert!(record_files(&machine).is_empty());
}

#[test]
fn limits_hold_for_large_values_too() {
    let machine = Machine::new(8);
    let (db, _) =
        machine.open(Options::default().tuning(Tuning::default().memtable_bytes(4 << 10)));
    let error = db.put(vec![0; (64 << 10) + 1], value(1, 2000)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    db.put(vec![0; 64 << 10], value(1, 2000)).unwrap();
    assert_eq!(
        db.get(vec![0; 64 << 10]).unwrap().unwrap(),
        value(1, 2000)[..]
    );
    assert_eq!(record_files(&machine).len(), 1);
}
