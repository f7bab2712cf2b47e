//! The engine as a whole, through its public handle, on the simulated machine.

mod closing;
pub(crate) mod common;
mod compression;
mod damage;
mod directories;
mod events;
mod expiry;
mod idle;
mod in_memory;
mod long_keys;

use crate::engine::catalog::indexes_of;
use crate::jobs::Needs;
use crate::jobs::flush::flush;
use crate::jobs::flush::placing::{PlacingContext, place};
use crate::partition::View;
use crate::testing::{MOST_WAIT, limit, wait_for};
use crate::version::edit::VersionEdit;
use crate::vfs::Env;
use crate::vfs::sim::{Fault, Op, SimRuntime, SimVfs};
use crate::{Batch, Clustering, Db, Durability, ErrorKind, Options, Tuning};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

pub(crate) fn small() -> Options {
    Options::default()
        .clustering(Clustering::LeastWriting)
        .tuning(
            Tuning::default()
                .memtable_bytes(4 << 10)
                .unsorted_bytes(16 << 10)
                .key_table_bytes(4 << 10)
                .block_bytes(512),
        )
        .memory_budget(1 << 20)
}

pub(crate) struct Machine {
    pub(crate) disk: SimVfs,
    pub(crate) seed: u64,
}

impl Machine {
    pub(crate) fn new(seed: u64) -> Machine {
        Machine {
            disk: SimVfs::new(),
            seed,
        }
    }

    pub(crate) fn env(&self) -> Env {
        Env {
            vfs: Arc::new(self.disk.clone()),
            runtime: SimRuntime::new(self.seed),
        }
    }

    pub(crate) fn open(&self, options: Options) -> (Db, Arc<SimRuntime>) {
        let runtime = SimRuntime::new(self.seed);
        let env = Env {
            vfs: Arc::new(self.disk.clone()),
            runtime: runtime.clone(),
        };
        (Db::open("/db", options.env(env)).unwrap(), runtime)
    }

    /// After this many more calls that change the disk, the power goes.
    pub(crate) fn cut_power_after(&self, calls: u64) {
        let at = self.disk.calls() + calls;
        self.disk.set_fault(Box::new(move |call| {
            if call.index >= at {
                Fault::PowerCut
            } else {
                Fault::None
            }
        }));
    }

    /// Kills the process, opens with each beginning of the last file whose name contains `name`,
    /// and asserts that each is found damaged or `holds`. How many were opened, and how many
    /// refused.
    pub(crate) fn cut_file(&self, name: &str, holds: impl Fn(&Db, usize)) -> (usize, usize) {
        let disk = self.disk.process_kill();
        let is_it = |path: &PathBuf| path.to_string_lossy().contains(name);
        let file = disk.file_names().into_iter().filter(is_it).max().unwrap();
        let bytes = disk.read_file(&file).unwrap();
        let (mut opened, mut refused) = (0, 0);
        for len in 0..=bytes.len() {
            let disk = disk.process_kill();
            let seed = self.seed + 1;
            let machine = Machine { disk, seed };
            machine.disk.write_file(&file, &bytes[..len]);
            match Db::open("/db", small().env(machine.env())) {
                Ok(db) => {
                    holds(&db, len);
                    opened += 1;
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corruption, "{len}: {error}");
                    refused += 1;
                }
            }
        }
        (opened, refused)
    }

    pub(crate) fn check(&self) {
        let runtime = SimRuntime::new(self.seed);
        let env = Env {
            vfs: Arc::new(self.disk.clone()),
            runtime,
        };
        let report = env.check("/db").unwrap();
        assert!(report.is_clean(), "{:#?}", report.problems);
    }
}

pub(crate) type Model = BTreeMap<Vec<u8>, Vec<u8>>;

pub(crate) fn same(db: &Db, model: &Model) {
    let pairs = |iter: &mut dyn Iterator<Item = crate::Result<(crate::Bytes, crate::Bytes)>>| {
        iter.map(|e| e.map(|(k, v)| (k.to_vec(), v.to_vec())).unwrap())
            .collect::<Vec<_>>()
    };
    let expected: Vec<_> = model.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
    assert_eq!(pairs(&mut db.iter()), expected);
    let mut backward = pairs(&mut db.iter().rev());
    backward.reverse();
    assert_eq!(backward, expected);
    for (key, value) in model {
        assert_eq!(db.get(key).unwrap().as_deref(), Some(value.as_slice()));
    }
}

pub(crate) fn churn(db: &Db, model: &mut Model, rng: &mut SmallRng, ops: usize) {
    for _ in 0..ops {
        let key = format!("key{:04}", rng.random_range(0..300)).into_bytes();
        if rng.random_range(0..5) == 0 {
            db.delete(&key).unwrap();
            model.remove(&key);
        } else {
            let value = vec![rng.random::<u8>(); rng.random_range(0..400)];
            db.put(&key, &value).unwrap();
            model.insert(key, value);
        }
    }
}

#[test]
fn what_is_put_is_read_across_flushes_merges_and_reopening() {
    for clustering in [Clustering::LeastWriting, Clustering::Automatic] {
        let machine = Machine::new(7);
        let mut model = Model::new();
        let mut rng = SmallRng::seed_from_u64(7);
        for _ in 0..4 {
            let (db, runtime) = machine.open(small().clustering(clustering));
            same(&db, &model);
            for _ in 0..4 {
                churn(&db, &mut model, &mut rng, 300);
                runtime.run_one();
                same(&db, &model);
            }
            let stats = db.stats();
            assert!(stats.flushes >= 10 && stats.merges >= 3, "{stats:#?}");
            db.close().unwrap();
            machine.check();
        }
    }
}

#[test]
fn compacting_leaves_only_what_is_visible() {
    let machine = Machine::new(1);
    let (db, _) = machine.open(small());
    let mut model = Model::new();
    churn(&db, &mut model, &mut SmallRng::seed_from_u64(1), 3000);
    db.compact().unwrap();
    let stats = db.stats();
    assert_eq!(stats.unsorted_bytes, 0);
    assert_eq!(stats.partitions[0].sorted_keys, model.len() as u64);
    same(&db, &model);
    for key in model.keys() {
        db.delete(key).unwrap();
    }
    db.compact().unwrap();
    let stats = db.stats();
    assert_eq!(
        (stats.partitions[0].sorted_keys, stats.record_files),
        (0, 0)
    );
    assert_eq!(db.iter().count(), 0);
}

#[test]
fn a_snapshot_keeps_its_moment_while_keys_are_overwritten_and_merged() {
    let machine = Machine::new(2);
    let (db, _) = machine.open(small());
    let mut rng = SmallRng::seed_from_u64(2);
    let mut model = Model::new();
    churn(&db, &mut model, &mut rng, 500);
    let (snapshot, then) = (db.snapshot(), model.clone());
    let mut iter = db.iter();
    churn(&db, &mut model, &mut rng, 3000);
    db.compact().unwrap();
    churn(&db, &mut model, &mut rng, 3000);
    for (key, value) in &then {
        assert_eq!(
            snapshot.get(key).unwrap().as_deref(),
            Some(value.as_slice())
        );
    }
    let expected: Vec<_> = then.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
    let seen: Vec<_> = snapshot
        .iter()
        .map(|e| e.map(|(k, v)| (k.to_vec(), v.to_vec())).unwrap())
        .collect();
    assert_eq!(seen, expected);
    let seen: Vec<_> = iter
        .by_ref()
        .map(|e| e.map(|(k, v)| (k.to_vec(), v.to_vec())).unwrap())
        .collect();
    assert_eq!(seen, expected);
    drop((snapshot, iter));
    db.compact().unwrap();
    assert_eq!(db.stats().partitions[0].sorted_keys, model.len() as u64);
    same(&db, &model);
}

#[test]
fn an_iterator_met_from_both_ends_shows_each_entry_once() {
    let machine = Machine::new(3);
    let (db, _) = machine.open(small());
    let mut model = Model::new();
    churn(&db, &mut model, &mut SmallRng::seed_from_u64(3), 1500);
    let mut iter = db.range("key0050"..="key0250");
    let (mut front, mut back) = (Vec::new(), Vec::new());
    loop {
        match iter.next() {
            Some(entry) => front.push(entry.unwrap().0.to_vec()),
            None => break,
        }
        if let Some(entry) = iter.next_back() {
            back.push(entry.unwrap().0.to_vec());
        }
    }
    assert!(iter.next_back().is_none());
    front.extend(back.into_iter().rev());
    let range = b"key0050".to_vec()..=b"key0250".to_vec();
    let expected: Vec<_> = model.range(range).map(|(k, _)| k.clone()).collect();
    assert_eq!(front, expected);
    let prefixed = db.prefix("key01").count();
    assert_eq!(
        prefixed,
        model.keys().filter(|k| k.starts_with(b"key01")).count()
    );
}

#[test]
fn writes_survive_a_killed_process_and_synced_ones_a_power_cut() {
    let machine = Machine::new(4);
    let (db, _) = machine.open(small());
    let mut batch = Batch::new();
    batch.put("a", "1").put("b", "2").delete("a");
    db.write_with(&batch, Durability::Sync).unwrap();
    db.put("c", "3").unwrap();
    let killed = Machine {
        disk: machine.disk.process_kill(),
        seed: 4,
    };
    let cut = Machine {
        disk: machine.disk.power_cut(crate::vfs::sim::Keep::Nothing),
        seed: 4,
    };
    let (db, _) = killed.open(small());
    assert_eq!(db.recovery().wal_ops, 4);
    assert_eq!(db.get("c").unwrap().as_deref(), Some(&b"3"[..]));
    assert_eq!(db.get("a").unwrap(), None);
    let (db, _) = cut.open(small());
    assert_eq!(db.get("b").unwrap().as_deref(), Some(&b"2"[..]));
    assert_eq!(db.get("c").unwrap(), None);
}

#[test]
fn limits_are_refused_before_anything_is_written() {
    let machine = Machine::new(5);
    let (db, _) = machine.open(small());
    let err = db.put(vec![b'k'; (64 << 10) + 1], "v").unwrap_err();
    assert_eq!(err.kind(), ErrorKind::InvalidArgument);
    let mut batch = Batch::new();
    batch.put("good", "1").put(vec![b'k'; (64 << 10) + 1], "v");
    assert!(db.write(&batch).is_err());
    assert_eq!(db.get("good").unwrap(), None);
    assert_eq!(db.iter().count(), 0);
    db.put(vec![b'k'; 64 << 10], "v").unwrap();
    db.put("", "empty key").unwrap();
    db.compact().unwrap();
    assert_eq!(db.get("").unwrap().as_deref(), Some(&b"empty key"[..]));
    assert_eq!(
        db.get(vec![b'k'; 64 << 10]).unwrap().as_deref(),
        Some(&b"v"[..])
    );
}

#[test]
fn a_second_opener_a_foreign_directory_and_a_missing_database_differ() {
    let machine = Machine::new(6);
    let env = || Env {
        vfs: Arc::new(machine.disk.clone()),
        runtime: SimRuntime::new(6),
    };
    let (db, _) = machine.open(small());
    let kind = |result: crate::Result<Db>| result.unwrap_err().kind();
    assert_eq!(kind(Db::open("/db", small().env(env()))), ErrorKind::Locked);
    let clone = db.clone();
    db.close().unwrap();
    assert_eq!(clone.put("k", "v").unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(clone.get("k").unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(
        kind(Db::create_new("/db", small().env(env()))),
        ErrorKind::InvalidArgument
    );
    assert_eq!(
        kind(Db::open_existing("/none", small().env(env()))),
        ErrorKind::NotFound
    );
    env().vfs.create_dir_all("/foreign".as_ref()).unwrap();
    machine
        .disk
        .write_file("/foreign/letter.txt".as_ref(), b"dear");
    assert_eq!(
        kind(Db::open("/foreign", small().env(env()))),
        ErrorKind::Incompatible
    );
    env().destroy("/db").unwrap();
    assert_eq!(
        kind(Db::open_existing("/db", small().env(env()))),
        ErrorKind::NotFound
    );
}

#[test]
fn a_generation_never_takes_the_number_of_one_that_was_merged() {
    let machine = Machine::new(8);
    let (db, _) = machine.open(small());
    let newest = || {
        let catalog = db.0.engine.catalog.lock();
        let generations = &catalog.version.partitions()[0].generations;
        generations.first().map(|generation| generation.id)
    };
    let mut last = None;
    for _ in 0..3 {
        db.put("key", "value").unwrap();
        db.flush().unwrap();
        assert!(newest() > last, "{:?} after {last:?}", newest());
        last = newest();
        db.compact().unwrap();
        assert_eq!(newest(), None);
    }
}

#[test]
fn a_snapshot_taken_while_a_merge_begins_keeps_its_versions() {
    let machine = Machine::new(10);
    let (db, _) = machine.open(small());
    db.put("key", "old").unwrap();
    db.flush().unwrap();
    let engine = &db.0.engine;
    // The merge stands at the door; meanwhile a snapshot is taken and a newer version flushed.
    let mut catalog = engine.catalog.lock();
    let _limit = limit("a merge");
    let snapshot = std::thread::scope(|scope| {
        let merge = scope.spawn(|| engine.background.merge_one());
        std::thread::sleep(std::time::Duration::from_millis(20));
        let snapshot = db.snapshot();
        db.put("key", "new").unwrap();
        engine.write.seal(&mut engine.write.commit.lock()).unwrap();
        let sealed = engine.read.view.load().sealed[0].clone();
        let tables = flush(
            &engine
                .background
                .job_context(engine.background.until_closed(), Needs::default()),
            &[sealed.table],
        )
        .unwrap();
        let (version, targets) = catalog.reserve(&tables);
        let context = PlacingContext {
            limits: engine.space.generation_limits(&version),
            hash_seed: engine.core.hash_seed,
            last_generation: &Arc::clone(&catalog.last_generation),
        };
        let placed = place(&context, &tables, &version, &targets, Vec::new()).unwrap();
        let indexes = indexes_of(&placed);
        let edit = VersionEdit {
            record_files: tables.into_iter().map(|t| t.meta).collect(),
            tables: placed.iter().flat_map(|p| p.places.clone()).collect(),
            ..VersionEdit::default()
        };
        let publish = |view: &mut View| drop(view.sealed.pop());
        engine
            .catalog
            .commit_edit(&mut catalog, edit, &indexes, publish)
            .unwrap();
        catalog.end_targets();
        drop(catalog);
        assert!(merge.join().unwrap().unwrap(), "merged");
        snapshot
    });
    assert_eq!(snapshot.get("key").unwrap().as_deref(), Some(&b"old"[..]));
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"new"[..]));
}

#[test]
fn garbage_is_collected_while_keys_are_overwritten_and_nothing_is_lost() {
    for clustering in [Clustering::LeastWriting, Clustering::Automatic] {
        let machine = Machine::new(8);
        let options = small().max_space_amp(1.3).clustering(clustering);
        let (db, runtime) = machine.open(options.clone());
        let mut rng = SmallRng::seed_from_u64(8);
        let mut model = Model::new();
        churn(&db, &mut model, &mut rng, 500);
        let (snapshot, then) = (db.snapshot(), model.clone());
        for _ in 0..30 {
            churn(&db, &mut model, &mut rng, 400);
            runtime.run_one();
            if rng.random_range(0..3) == 0 {
                same(&db, &model);
            }
        }
        for (key, value) in &then {
            assert_eq!(
                snapshot.get(key).unwrap().as_deref(),
                Some(value.as_slice())
            );
        }
        drop(snapshot);
        db.compact().unwrap();
        db.wait_until_idle().unwrap();
        same(&db, &model);
        let stats = db.stats();
        assert!(
            stats.gcs > 0 || clustering == Clustering::Automatic,
            "{stats:#?}"
        );
        let user: usize = model.iter().map(|(k, v)| k.len() + v.len()).sum();
        let live = (stats.record_live_bytes + stats.key_table_bytes) as f64;
        assert!(live < 2.0 * user as f64, "{live} live bytes for {user}");
        db.close().unwrap();
        machine.check();
        let (db, _) = machine.open(options);
        same(&db, &model);
    }
}

#[test]
fn seeking_back_brings_back_what_the_front_had_passed_for_both_ends() {
    let machine = Machine::new(11);
    let (db, _) = machine.open(small());
    for i in 0..6 {
        db.put(format!("key{i}"), "value").unwrap();
    }
    let key = |entry: Option<crate::Result<(crate::Bytes, crate::Bytes)>>| {
        entry.map(|e| String::from_utf8(e.unwrap().0.to_vec()).unwrap())
    };
    let mut iter = db.iter();
    assert_eq!(key(iter.next_back()).as_deref(), Some("key5"));
    while iter.next().is_some() {}
    assert_eq!(key(iter.next_back()), None);
    iter.seek("key2");
    assert_eq!(key(iter.next_back()).as_deref(), Some("key4"));
    // The front passes key3 while the back has it at hand.
    for passed in ["key2", "key3"] {
        assert_eq!(key(iter.next()).as_deref(), Some(passed));
    }
    assert_eq!(key(iter.next_back()), None);
    iter.seek("key1");
    for left in ["key3", "key2", "key1"] {
        assert_eq!(key(iter.next_back()).as_deref(), Some(left));
    }
    assert_eq!(key(iter.next_back()), None);
}

#[test]
fn empty_and_inverted_ranges_and_bounds_at_the_edge_are_no_accident() {
    let machine = Machine::new(12);
    let (db, _) = machine.open(small());
    let edge = [0xff_u8; 3];
    db.put(edge, "edge").unwrap();
    db.put("", "empty").unwrap();
    db.flush().unwrap();
    assert_eq!(db.range("b".."a").count(), 0);
    assert_eq!(db.range("a".."a").rev().count(), 0);
    assert_eq!(db.range(&edge[..]..).count(), 1);
    assert_eq!(db.prefix([0xff, 0xff]).rev().count(), 1);
    assert_eq!(db.prefix("").count(), 2);
    let excluded = (
        std::ops::Bound::Excluded(&b""[..]),
        std::ops::Bound::Unbounded,
    );
    assert_eq!(db.range(excluded).count(), 1);
    let mut inverted = db.range("b".."a");
    inverted.seek("");
    assert!(inverted.next().is_none() && inverted.next_back().is_none());
}

#[test]
fn a_sync_that_cannot_flush_what_was_recovered_writes_nothing() {
    let machine = Machine::new(13);
    let (db, _) = machine.open(small());
    db.put("recovered", "1").unwrap();
    let killed = Machine {
        disk: machine.disk.process_kill(),
        seed: 13,
    };
    killed.disk.set_fault(Box::new(|call| match call.op {
        Op::Create if call.path.extension().is_some_and(|e| e == "rec") => {
            Fault::Fail(std::io::ErrorKind::Other)
        }
        _ => Fault::None,
    }));
    let (db, _) = killed.open(small());
    let mut batch = Batch::new();
    batch.put("key", "2");
    let error = db.write_with(&batch, Durability::Sync).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    // The log is as good as before: writes that need no sync go on.
    db.put("other", "3").unwrap();
    let (db, _) = Machine {
        disk: killed.disk.process_kill(),
        seed: 13,
    }
    .open(small());
    assert_eq!(db.get("key").unwrap(), None);
    assert_eq!(db.get("other").unwrap().as_deref(), Some(&b"3"[..]));
}

/// A database on the simulated disk with real threads.
fn threaded(disk: &SimVfs) -> Db {
    let env = Env {
        vfs: Arc::new(disk.clone()),
        runtime: Env::os().runtime,
    };
    Db::open("/db", small().env(env)).unwrap()
}

#[test]
fn a_worker_that_panics_makes_writers_fail_and_not_wait() {
    let disk = SimVfs::new();
    let db = threaded(&disk);
    disk.set_fault(Box::new(|call| {
        let table = call.path.extension().is_some_and(|e| e == "rec");
        assert!(!table || call.op != Op::Create, "a bug in a worker");
        Fault::None
    }));
    let failed = (0..1000).find_map(|i| db.put(format!("{i}"), [7; 300]).err());
    let failed = failed.expect("more writes than memtables hold");
    assert_eq!(failed.kind(), ErrorKind::WritesSuspended);
    assert_eq!(db.get("0").unwrap().as_deref(), Some(&[7; 300][..]));
    assert_eq!(db.flush().unwrap_err().kind(), ErrorKind::WritesSuspended);
    drop(db);
    disk.clear_faults();
    assert!(threaded(&disk).get("0").unwrap().is_some());
}

#[test]
fn a_writer_that_panics_releases_its_secondaries() {
    let disk = SimVfs::new();
    let db = threaded(&disk);
    db.put("before", "1").unwrap();
    let waiting = db.clone();
    let (leads, is_led) = std::sync::mpsc::channel();
    disk.set_fault(Box::new(move |call| {
        if call.op != Op::Sync {
            return Fault::None;
        }
        leads.send(()).unwrap();
        wait_for("a second writer in the queue", || {
            waiting.0.engine.write.queue.waiting() > 0
        });
        panic!("a bug in a writer");
    }));
    let mut batch = Batch::new();
    batch.put("key", "2");
    let _limit = limit("the writers");
    std::thread::scope(|scope| {
        let dies = scope.spawn(|| db.write_with(&batch, Durability::Sync));
        // Not "the commit lock is held": a worker holds it for a moment, too.
        is_led.recv_timeout(MOST_WAIT).expect("a write that syncs");
        let waits = scope.spawn(|| db.put("waiting", "3"));
        assert!(dies.join().is_err());
        assert_eq!(
            waits.join().unwrap().unwrap_err().kind(),
            ErrorKind::WritesSuspended
        );
    });
    assert_eq!(db.get("key").unwrap(), None);
    assert_eq!(db.get("before").unwrap().as_deref(), Some(&b"1"[..]));
}

#[test]
fn a_group_that_fails_after_the_log_is_never_shown_by_halves() {
    let machine = Machine::new(12);
    let (db, _) = machine.open(small());
    db.put("before", "1").unwrap();
    let mut batch = Batch::new();
    batch.put("first", "2").put("second", "3");
    batch.damage();
    assert_eq!(db.write(&batch).unwrap_err().kind(), ErrorKind::Internal);
    // Whatever is published after it would show the first half.
    let after = db.put("after", "4").unwrap_err();
    assert_eq!(after.kind(), ErrorKind::WritesSuspended);
    assert!(after.to_string().contains("a bug of UniKV"), "{after}");
    let keys: Vec<_> = db.iter().map(|entry| entry.unwrap().0).collect();
    assert_eq!(keys, ["before"]);
    assert_eq!(db.get("first").unwrap(), None);
}

#[test]
fn a_merge_that_is_late_takes_two_generations_along() {
    let machine = Machine::new(11);
    let (db, _) = machine.open(small());
    let engine = &db.0.engine;
    let mut model = Model::new();
    let mut rng = SmallRng::seed_from_u64(11);
    // No merge runs while the partition seems leased.
    let partition = engine.read.view.load().version.partitions()[0].id;
    engine.background.scheduler.leases.hold([partition]);
    for _ in 0..3 {
        churn(&db, &mut model, &mut rng, 20);
        db.flush().unwrap();
        engine.catalog.lock().end_targets();
    }
    let generations = || {
        engine.read.view.load().version.partitions()[0]
            .generations
            .len()
    };
    assert_eq!(generations(), 3);
    engine.background.scheduler.leases.release_all();
    assert!(engine.background.merge_one().unwrap());
    assert_eq!(
        generations(),
        1,
        "the two oldest are merged, the newest is left"
    );
    same(&db, &model);
}

#[test]
fn a_key_is_not_taken_for_another_with_its_tag() {
    let machine = Machine::new(41);
    let (db, _) = machine.open(
        small().tuning(
            Tuning::default()
                .memtable_bytes(64 << 10)
                .unsorted_bytes(1 << 20),
        ),
    );
    for i in 0..100 {
        db.put(format!("key{i:03}"), [7; 100]).unwrap();
    }
    db.flush().unwrap();
    // Of this many keys some have the tag of a key that stands in one of their buckets.
    for i in 0..300_000 {
        assert_eq!(db.get(format!("absent{i}")).unwrap(), None);
    }
    assert!(db.stats().index_failed_comparisons > 0);
}

#[test]
fn opening_reads_nothing_of_what_is_merged() {
    let machine = Machine::new(42);
    let (db, _) = machine.open(small());
    let mut model = Model::new();
    churn(&db, &mut model, &mut SmallRng::seed_from_u64(42), 1500);
    db.compact().unwrap();
    db.close().unwrap();
    let reads = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let count = Arc::clone(&reads);
    machine.disk.set_read_fault(Box::new(move |call| {
        let is_data = |ext| ext == "rec" || ext == "key";
        if call.path.extension().is_some_and(is_data) {
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
        None
    }));
    let (db, _) = machine.open(small());
    assert_eq!(reads.load(std::sync::atomic::Ordering::Relaxed), 0);
    same(&db, &model);
    assert!(reads.load(std::sync::atomic::Ordering::Relaxed) > 0);
}

#[test]
fn other_threads_see_a_batch_whole_or_not_at_all() {
    // So long a batch that its writer is interrupted in the middle of it again and again.
    const LAST: u32 = 20_000;
    let env = Env {
        vfs: Arc::new(SimVfs::new()),
        runtime: Env::os().runtime,
    };
    let options = Options::default().tuning(Tuning::default().memtable_bytes(32 << 20));
    let db = Db::open("/db", options.env(env)).unwrap();
    let ends = [0, LAST].map(u32::to_be_bytes);
    let over = std::sync::atomic::AtomicBool::new(false);
    let is_over = || over.load(std::sync::atomic::Ordering::SeqCst);
    let _limit = limit("readers beside a writer");
    std::thread::scope(|scope| {
        let readers = [0, 1].map(|_| {
            scope.spawn(|| {
                while !is_over() {
                    let snapshot = db.snapshot();
                    let [first, last] = ends.map(|key| snapshot.get(key).unwrap());
                    assert_eq!(first, last);
                    // What was not there is not there later.
                    assert_eq!(snapshot.get(ends[0]).unwrap(), first);
                }
            })
        });
        for round in 0..20u32 {
            let mut batch = Batch::new();
            for key in 0..=LAST {
                batch.put(key.to_be_bytes(), round.to_be_bytes());
            }
            db.write(&batch).unwrap();
        }
        over.store(true, std::sync::atomic::Ordering::SeqCst);
        for reader in readers {
            reader.join().unwrap();
        }
    });
    let last = 19u32.to_be_bytes();
    assert_eq!(db.get(ends[1]).unwrap().as_deref(), Some(&last[..]));
}
