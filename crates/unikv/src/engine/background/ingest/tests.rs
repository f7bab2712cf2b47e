//! Ingests through the public handle, on the simulated machine.

use super::Ingest;
use crate::base::keys::KeyspaceId;
use crate::engine::tests::{Machine, Model, churn, same, small};
use crate::jobs::ingest::IngestPlan;
use crate::record::RecordFile;
use crate::testing::limit;
use crate::vfs::sim::{Call, Fault, Keep, Op, SimVfs};
use crate::vfs::{Runtime, Vfs};
use crate::{Db, Error, ErrorKind, Expiry, KeyspaceOptions, Options, Result, Ttl, Tuning};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

type Entry = (Vec<u8>, Option<Vec<u8>>);

/// Splits and merges again and again.
fn tiny() -> Options {
    let options = small().tuning(Tuning::default().key_table_bytes(1 << 10));
    options
        .tuning(Tuning::default().partition_bytes(12 << 10))
        .inline_value_bytes(16)
}

/// A sorted stream over the keys of `churn`, with removals.
fn stream(rng: &mut SmallRng, every: u32) -> Vec<Entry> {
    let mut entries = Vec::new();
    for key in 0..300 {
        if rng.random_range(0..every) == 0 {
            let value = vec![rng.random::<u8>(); rng.random_range(0..400)];
            let value = (rng.random_range(0..4) > 0).then_some(value);
            entries.push((format!("key{key:04}").into_bytes(), value));
        }
    }
    entries
}

fn ingest(db: &Db, entries: &[Entry], commit_tag: Option<&[u8]>) -> Result<u64> {
    let entries = entries.iter().map(|(k, v)| (k, v.as_ref()));
    db.ingest_sorted(entries.map(Result::Ok), commit_tag)
}

fn apply(model: &mut Model, entries: &[Entry]) {
    for (key, value) in entries {
        match value {
            Some(value) => drop(model.insert(key.clone(), value.clone())),
            None => drop(model.remove(key)),
        }
    }
}

#[test]
fn what_is_ingested_is_newer_than_before_and_older_than_after() {
    for seed in 0..6 {
        let machine = Machine::new(seed);
        let (mut model, mut rng) = (Model::new(), SmallRng::seed_from_u64(seed));
        let mut options = if seed % 2 == 0 { tiny() } else { small() };
        if seed % 3 == 0 {
            options = options.clustering(crate::Clustering::Automatic);
        }
        for round in 0..4 {
            let (db, runtime) = machine.open(options.clone());
            same(&db, &model);
            for _ in 0..6 {
                churn(&db, &mut model, &mut rng, 150);
                let before = (db.snapshot(), model.clone());
                let every = rng.random_range(1..6);
                let entries = stream(&mut rng, every);
                let count = ingest(&db, &entries, None).unwrap();
                assert_eq!(count, entries.len() as u64);
                apply(&mut model, &entries);
                same(&db, &model);
                churn(&db, &mut model, &mut rng, 5);
                same(&db, &model);
                let at_that_time: Model = (before.0.iter())
                    .map(|e| e.map(|(k, v)| (k.to_vec(), v.to_vec())).unwrap())
                    .collect();
                assert_eq!(at_that_time, before.1);
                for key in (0..300).map(|n| format!("key{n:04}").into_bytes()) {
                    let value = before.0.get(&key).unwrap();
                    assert_eq!(value.as_deref(), before.1.get(&key).map(|v| &v[..]));
                    let value = db.get(&key).unwrap();
                    assert_eq!(value.as_deref(), model.get(&key).map(|v| &v[..]));
                }
                for _ in 0..rng.random_range(0..5) {
                    runtime.run_one();
                }
            }
            if round == 2 {
                db.compact().unwrap();
                same(&db, &model);
            }
            let stats = db.stats();
            assert!(stats.ingests == 6 && stats.ingest_bytes > 0, "{stats:?}");
            db.close().unwrap();
            machine.check();
        }
    }
}

/// What is written after an ingest never shows without it, wherever the manifest is cut.
#[test]
fn what_is_ingested_expires_as_its_entry_says_or_as_is_usual() {
    const SECOND: Duration = Duration::from_secs(1);
    let machine = Machine::new(3);
    let (db, runtime) = machine.open(small());
    let usual = KeyspaceOptions::default().default_ttl(20 * SECOND);
    let limited = db.keyspace("limited", usual).unwrap();
    for key in ["at", "past", "never", "usual"] {
        db.put(key, "before").unwrap();
        limited.put(key, "before").unwrap();
    }
    let now = UNIX_EPOCH + Duration::from_millis(db.0.engine.core.clock.now_ms());
    let entries = [
        ("at", Some("value"), Expiry::At(now + 10 * SECOND)),
        ("never", Some("value"), Expiry::Never),
        ("none", None, Expiry::At(now + SECOND)),
        ("past", Some("value"), Expiry::At(now - SECOND)),
        ("usual", Some("value"), Expiry::AsUsual),
    ];
    let remaining = |seconds| Some(Ttl::Remaining(seconds * SECOND));
    db.ingest_sorted(entries.map(Result::Ok), None).unwrap();
    limited
        .ingest_sorted(entries.map(Result::Ok), None)
        .unwrap();
    for step in 0..3 {
        for (key, here, there) in [
            ("at", remaining(10), remaining(10)),
            ("never", Some(Ttl::Never), Some(Ttl::Never)),
            ("none", None, None),
            ("past", None, None),
            ("usual", Some(Ttl::Never), remaining(20)),
        ] {
            assert_eq!(db.ttl(key).unwrap(), here, "{key}, {step}");
            assert_eq!(limited.ttl(key).unwrap(), there, "{key}, {step}");
        }
        match step {
            0 => db.compact().unwrap(),
            // What says nothing lives as is usual there.
            _ => drop(limited.ingest_sorted([Ok::<_, Error>(("usual", Some("v")))], None)),
        }
    }
    runtime.delay(15 * SECOND);
    runtime.run_until_idle();
    assert_eq!(db.get("at").unwrap(), None);
    assert_eq!(limited.ttl("usual").unwrap(), remaining(5));
    db.close().unwrap();
    machine.check();
}

#[test]
fn a_manifest_that_lost_an_ingest_is_found_out_by_later_writes() {
    let machine = Machine::new(1);
    let (db, _runtime) = machine.open(small());
    let mut model = Model::new();
    churn(&db, &mut model, &mut SmallRng::seed_from_u64(1), 10);
    let entries = stream(&mut SmallRng::seed_from_u64(2), 20);
    ingest(&db, &entries, Some(b"loaded")).unwrap();
    apply(&mut model, &entries);
    db.put(b"later", b"write").unwrap();
    model.insert(b"later".to_vec(), b"write".to_vec());
    let (opened, refused) = machine.cut_file("MANIFEST", |db, _| same(db, &model));
    assert!(opened > 1 && refused > 1000, "{opened} and {refused}");
}

#[test]
fn a_long_stream_is_many_tables_and_needs_no_index() {
    let machine = Machine::new(1);
    let (db, _runtime) = machine.open(small());
    let entries: Vec<Entry> = (0..5000)
        .map(|n| (format!("key{n:06}").into_bytes(), Some(vec![n as u8; 100])))
        .collect();
    ingest(&db, &entries, Some(b"loaded")).unwrap();
    let version = std::sync::Arc::clone(&db.0.engine.read.view.load().version);
    let run = &version.partitions()[0].generations[0];
    assert!(run.is_ingested() && run.tables().count() > 10);
    assert!(run.index.len() == 0 && run.index.memory_bytes() < 1024);
    let mut model = Model::new();
    apply(&mut model, &entries);
    same(&db, &model);
    assert_eq!(db.commit_tag().as_deref(), Some(&b"loaded"[..]));
    // A long run slows nobody, though it is larger than all flushed tables may be.
    assert!(version.partitions()[0].unsorted_bytes() > 16 * (16 << 10));
    assert_eq!(version.partitions()[0].flushed_bytes(), 0);
    // Estimates count what is ingested.
    let whole = db.approximate_size(..).unwrap();
    let half = db.approximate_size(.."key002500").unwrap();
    assert!(
        whole > 5000 * 100 && half.abs_diff(whole / 2) < whole / 20,
        "{half} of {whole}"
    );
    let middle = db.split_key(..).unwrap().unwrap();
    assert!(
        (&b"key0024"[..]..&b"key0026"[..]).contains(&&middle[..]),
        "{middle:?}"
    );
    drop(db);

    let disk = machine.disk.power_cut(Keep::Nothing);
    let machine = Machine { disk, seed: 2 };
    machine.check();
    let (db, _runtime) = machine.open(small());
    assert_eq!(db.recovery().index_records, 0);
    same(&db, &model);
    db.compact().unwrap();
    same(&db, &model);
    assert_eq!(db.stats().unsorted_bytes, 0);
    db.close().unwrap();
    machine.check();
}

#[test]
fn a_stream_that_fails_leaves_nothing() {
    let machine = Machine::new(3);
    let (db, _runtime) = machine.open(small());
    db.put("b", "old").unwrap();
    let files = |disk: &SimVfs| disk.list(std::path::Path::new("/db")).unwrap().len();
    let before = files(&machine.disk);
    let good = |n: u32| (format!("k{n:06}").into_bytes(), Some(vec![1; 100]));
    let mut unsorted: Vec<Entry> = (0..2000).map(good).collect();
    unsorted.push(good(7));
    let mut twice: Vec<Entry> = (0..2000).map(good).collect();
    twice.push(good(1999));
    let mut long_key: Vec<Entry> = (0..2000).map(good).collect();
    long_key.push((vec![b'z'; (64 << 10) + 1], None));
    for bad in [unsorted, twice, long_key] {
        let refused = ingest(&db, &bad, Some(b"mark")).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
        assert_eq!(files(&machine.disk), before);
    }
    let long_mark = vec![0; (64 << 10) + 1];
    let refused = ingest(&db, &[good(1)], Some(&long_mark)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");

    // The stream's own error comes back as it is.
    #[derive(Debug)]
    enum Mine {
        Source(&'static str),
        Engine(Error),
    }
    impl From<Error> for Mine {
        fn from(error: Error) -> Mine {
            Mine::Engine(error)
        }
    }
    let broken = (0..2000).map(|n| match n {
        1999 => Err(Mine::Source("gone")),
        _ => Ok(good(n)),
    });
    match db.ingest_sorted(broken, None) {
        Err(Mine::Source(what)) => assert_eq!(what, "gone"),
        other => panic!("{other:?}"),
    }
    let bad = [good(2), good(1)].into_iter().map(Ok);
    let Err(Mine::Engine(refused)) = db.ingest_sorted(bad, None) else {
        panic!("a bad order is accepted");
    };
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert_eq!(files(&machine.disk), before);
    assert_eq!((db.iter().count(), db.commit_tag()), (1, None));

    // An empty stream commits its commit tag, or nothing.
    assert_eq!(ingest(&db, &[], None).unwrap(), 0);
    assert_eq!(ingest(&db, &[], Some(b"only")).unwrap(), 0);
    drop(db);
    let disk = machine.disk.power_cut(Keep::Nothing);
    let (db, _runtime) = Machine { disk, seed: 4 }.open(small());
    assert_eq!(db.commit_tag().as_deref(), Some(&b"only"[..]));
    let clone = db.clone();
    db.close().unwrap();
    let closed = ingest(&clone, &[good(1)], None).unwrap_err();
    assert_eq!(closed.kind(), ErrorKind::Closed);
}

/// A database with a SortedStore, an UnsortedStore and a memtable, cut or hurt at call `at` of an
/// ingest. Returns its content after the last sync and after each write since, and what the ingest
/// returned if it met the fault.
fn disturbed(
    machine: &Machine,
    at: u64,
    fault: Fault,
) -> (Db, Vec<Model>, Vec<Entry>, Option<Result<u64>>) {
    let mut rng = SmallRng::seed_from_u64(9);
    let mut model = Model::new();
    let (db, runtime) = machine.open(tiny());
    churn(&db, &mut model, &mut rng, 400);
    db.sync().unwrap();
    let mut moments = vec![model.clone()];
    for _ in 0..10 {
        churn(&db, &mut model, &mut rng, 1);
        moments.push(model.clone());
    }
    let entries = stream(&mut rng, 2);
    let met = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (mut calls, flag) = (0, met.clone());
    machine.disk.set_fault(Box::new(move |_| {
        calls += 1;
        if calls != at {
            return Fault::None;
        }
        flag.store(true, std::sync::atomic::Ordering::SeqCst);
        fault
    }));
    let result = ingest(&db, &entries, Some(b"mark"));
    if result.is_ok() {
        runtime.run_until_idle();
    }
    let met = met.load(std::sync::atomic::Ordering::SeqCst);
    (db, moments, entries, met.then_some(result))
}

fn content(db: &Db) -> Model {
    let pairs = db.iter().map(|e| e.map(|(k, v)| (k.to_vec(), v.to_vec())));
    pairs.collect::<Result<_>>().unwrap()
}

#[test]
fn a_crash_at_any_call_leaves_all_of_an_ingest_or_nothing() {
    let mut seen = [0, 0];
    let mut cut_off = std::collections::BTreeSet::new();
    for at in 1.. {
        let machine = Machine::new(5);
        let (db, moments, entries, met) = disturbed(&machine, at, Fault::PowerCut);
        let Some(result) = met else {
            break;
        };
        drop(db);
        let mut after = moments.last().unwrap().clone();
        apply(&mut after, &entries);
        for keep in [Keep::Nothing, Keep::All, Keep::Prefix(at), Keep::Torn(at)] {
            let disk = machine.disk.power_cut(keep);
            let machine = Machine { disk, seed: 6 };
            machine.check();
            let (db, _runtime) = machine.open(tiny());
            let found = content(&db);
            let all = db.commit_tag().is_some();
            seen[usize::from(all)] += 1;
            if all {
                assert_eq!(found, after, "cut at {at}, {keep:?}");
            } else {
                assert!(
                    result.is_err(),
                    "acknowledged and lost: cut at {at}, {keep:?}"
                );
                // Unsynced writes before it may be lost from the end, and nothing else.
                let left = moments.iter().rposition(|moment| *moment == found);
                assert!(left.is_some(), "cut at {at}, {keep:?}: {found:?}");
                cut_off.insert(left);
            }
            same(&db, &found);
            db.compact().unwrap();
            same(&db, &found);
            db.close().unwrap();
            machine.check();
        }
    }
    assert!(seen[0] > 20 && seen[1] > 3, "{seen:?}");
    assert!(cut_off.len() > 2, "{cut_off:?}");
}

/// Gives a value of which the end does not come.
struct Panics(usize);

impl std::io::Read for Panics {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        assert!(self.0 > 0, "the source has failed");
        let len = out.len().min(self.0);
        self.0 -= len;
        Ok(len)
    }
}

#[test]
fn nothing_is_committed_of_an_ingest_whose_source_has_panicked() {
    let machine = Machine::new(17);
    let (db, _runtime) = machine.open(small());
    let before = machine.disk.file_names();
    let mut ingest = db.ingest().unwrap();
    ingest.put("a", "value").unwrap();
    let write = || ingest.put_reader("b", &mut Panics(1 << 20), None);
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(write)).unwrap_err();
    assert!(ingest.put("c", "value").is_err());
    let error = ingest.commit().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert_eq!((db.iter().count(), machine.disk.file_names()), (0, before));
}

#[test]
fn a_failed_call_fails_the_ingest_cleanly_or_leaves_it_whole() {
    let kinds = [std::io::ErrorKind::Other, std::io::ErrorKind::StorageFull];
    let (mut failed, mut done) = (0, 0);
    for at in 1.. {
        let machine = Machine::new(7);
        let fault = Fault::Fail(kinds[at as usize % 2]);
        let (db, moments, entries, met) = disturbed(&machine, at, fault);
        let Some(result) = met else {
            break;
        };
        let before = moments.last().unwrap();
        let mut after = before.clone();
        apply(&mut after, &entries);
        let found = content(&db);
        match &result {
            Ok(_) => {
                done += 1;
                assert_eq!(found, after, "fault at {at}");
            }
            Err(_) => {
                failed += 1;
                assert!(
                    found == *before || found == after,
                    "fault at {at}: {result:?}"
                );
            }
        }
        same(&db, &found);
        drop(db);
        let (db, _runtime) = machine.open(tiny());
        let now = content(&db);
        assert!(
            now == found || (result.is_err() && now == after),
            "fault at {at}"
        );
        assert_eq!(db.commit_tag().is_some(), now == after, "fault at {at}");
        assert_eq!(ingest(&db, &entries, None).unwrap(), entries.len() as u64);
        same(&db, &after);
        db.close().unwrap();
        machine.check();
    }
    assert!(failed > 10 && done > 0, "{failed} {done}");
}

#[test]
fn what_slips_in_before_the_commit_lock_is_older() {
    let machine = Machine::new(11);
    let (db, _runtime) = machine.open(small());
    let engine = &db.0.engine;
    let mut ingest = Ingest::begin(&engine.background, KeyspaceId::DEFAULT).unwrap();
    ingest
        .add(b"key", Some(b"ingested"), Expiry::Never)
        .unwrap();
    let metas = ingest.writer.finish().unwrap();
    let open = |meta| {
        Arc::new(RecordFile::open(
            &engine.core.store,
            meta,
            &engine.core.cache,
        ))
    };
    let mut plan = IngestPlan::new(metas.into_iter().map(open).collect());
    let snapshot = db.snapshot();
    db.put("key", "slipped in").unwrap();
    for n in 0..20 {
        db.put(format!("filler{n}"), vec![1; 100]).unwrap();
    }
    let second = db.snapshot();
    assert!(!ingest.try_commit(&mut plan, true).unwrap(), "others wait");
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"slipped in"[..]));
    assert!(ingest.try_commit(&mut plan, false).unwrap());
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"ingested"[..]));
    assert_eq!(snapshot.get("key").unwrap(), None);
    let seen = second.get("key").unwrap();
    assert_eq!(seen.as_deref(), Some(&b"slipped in"[..]));
    drop(ingest);
    db.put("key", "after").unwrap();
    db.flush().unwrap();
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"after"[..]));
    db.compact().unwrap();
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"after"[..]));
    let seen = second.get("key").unwrap();
    assert_eq!(seen.as_deref(), Some(&b"slipped in"[..]));
    drop((snapshot, second));
    db.close().unwrap();
    machine.check();
}

/// Threads, on the real file system: batches write the same number to two keys, ingests to both and
/// to a third, and a reader of all at once sees one moment.
#[test]
fn ingests_beside_writers_and_readers_show_whole_moments() {
    let dir = tempfile::tempdir().unwrap();
    let options = small().tuning(
        Tuning::default()
            .memtable_bytes(64 << 10)
            .unsorted_bytes(256 << 10),
    );
    let db = Db::open(dir.path().join("db"), options).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let keys = ["a", "m", "z"];
    let stopped = || stop.load(std::sync::atomic::Ordering::SeqCst);
    let _limit = limit("writers, readers and ingests");
    std::thread::scope(|scope| {
        for writer in 0..2u64 {
            let db = &db;
            scope.spawn(move || {
                for n in 0..3000u64 {
                    let mut batch = crate::Batch::new();
                    for key in keys {
                        batch.put(key, format!("w{writer}.{n:08}"));
                    }
                    batch.put(format!("fill{writer}{n:06}"), [7; 100]);
                    db.write(&batch).unwrap();
                }
            });
        }
        let reader = scope.spawn(|| {
            let mut reads = 0u64;
            loop {
                let found = db.multi_get(keys).unwrap();
                assert!(found.iter().all(|v| *v == found[0]), "{found:?}");
                let seen: Vec<_> = db.iter().filter_map(|e| e.ok()).collect();
                let values = seen.iter().filter(|(k, _)| keys.iter().any(|key| k == key));
                let values: Vec<_> = values.map(|(_, v)| v).collect();
                assert!(values.iter().all(|v| *v == values[0]), "{values:?}");
                reads += 1;
                if stopped() {
                    break reads;
                }
            }
        });
        for n in 0..30u64 {
            let value = format!("i{n:08}");
            let entries = keys.map(|key| Result::Ok((key, Some(value.as_bytes()))));
            db.ingest_sorted(entries, Some(value.as_bytes())).unwrap();
            assert_eq!(db.commit_tag().as_deref(), Some(value.as_bytes()));
        }
        stop.store(true, std::sync::atomic::Ordering::SeqCst);
        assert!(reader.join().unwrap() > 0);
    });
    let value = b"at last";
    let entries = keys.map(|key| Result::Ok((key, Some(&value[..]))));
    db.ingest_sorted(entries, None).unwrap();
    for key in keys {
        assert_eq!(db.get(key).unwrap().as_deref(), Some(&value[..]));
    }
    db.close().unwrap();
    assert!(Db::check(dir.path().join("db")).unwrap().is_clean());
}

#[test]
fn names_that_a_failed_sync_may_have_lost_are_never_listed() {
    let machine = Machine::new(77);
    let (db, _) = machine.open(small());
    db.put("old", "value").unwrap();
    db.sync().unwrap();
    let fail_syncs = |call: &Call<'_>| match call.op {
        Op::SyncDir => Fault::Fail(std::io::ErrorKind::Other),
        _ => Fault::None,
    };
    // When a writer's sync of the directory fails, the first files of the ingest are there already.
    let entries = (0..2000u32).map(|n| {
        if n == 0 {
            // A segment of the log whose name is not known to be durable.
            db.flush().unwrap();
            db.put("new", "value").unwrap();
        }
        if n == 1900 {
            let names = machine.disk.file_names();
            let data = names
                .iter()
                .filter(|p| p.extension().is_some_and(|e| e == "rec"));
            assert!(data.count() > 1, "{names:?}");
            machine.disk.set_fault(Box::new(fail_syncs));
            db.sync().unwrap_err();
            machine.disk.clear_faults();
            let _the_log_begins_anew = db.put("newer", "value");
        }
        Result::Ok((format!("key{n:05}"), Some([7; 100])))
    });
    let ingested = db.ingest_sorted(entries, None);
    let refused = db.put("newest", "value").map_err(|e| e.kind());
    drop(db);
    let disk = machine.disk.power_cut(Keep::Nothing);
    let machine = Machine { disk, ..machine };
    let (db, _) = machine.open(small());
    assert_eq!(db.get("old").unwrap().as_deref(), Some(&b"value"[..]));
    assert_eq!(db.get("key00000").unwrap().is_some(), ingested.is_ok());
    assert_eq!(refused, Err(ErrorKind::WritesSuspended));
}
