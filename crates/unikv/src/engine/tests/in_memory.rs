//! Databases in memory: they work as others do, and leave nothing.

use super::{Model, churn, same, small};
use crate::vfs::sim::{SimRuntime, SimVfs};
use crate::vfs::{Env, MemoryVfs, Vfs};
use crate::{Batch, Db, Durability, ErrorKind, KeyspaceOptions, Options, SecondaryOptions, Tuning};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

fn env(vfs: impl Vfs + 'static, seed: u64) -> (Env, Arc<SimRuntime>) {
    let runtime = SimRuntime::new(seed);
    let env = Env {
        vfs: Arc::new(vfs),
        runtime: runtime.clone(),
    };
    (env, runtime)
}

#[test]
fn a_database_in_memory_touches_no_disk_and_keeps_nothing() {
    let disk = SimVfs::new();
    let (outside, runtime) = env(disk.clone(), 1);
    let options = small().tuning(Tuning::default().partition_bytes(24 << 10));
    let options = options.durability(Durability::Sync);
    let (mut model, mut rng) = (Model::new(), SmallRng::seed_from_u64(1));
    let calls = (disk.calls(), disk.looks());
    let db = Db::in_memory(options.clone().env(outside.clone())).unwrap();
    for _ in 0..60 {
        churn(&db, &mut model, &mut rng, 50);
        let (key, value) = (format!("large{}", rng.random_range(0..5)), vec![7; 3000]);
        db.put(&key, &value).unwrap();
        model.insert(key.into_bytes(), value);
        runtime.run_one();
    }
    let snapshot = db.snapshot();
    let then = model.clone();
    db.delete_range("key0000".."key0100").unwrap();
    model.retain(|key, _| !key.starts_with(b"key00"));
    db.compact().unwrap();
    db.collect_garbage().unwrap();
    same(&db, &model);
    for (key, value) in &then {
        assert_eq!(snapshot.get(key).unwrap().as_deref(), Some(&value[..]));
    }
    drop(snapshot);
    let stats = db.stats();
    assert!(
        stats.flushes > 5 && stats.merges > 1 && stats.splits > 0,
        "{stats:?}"
    );
    let (files, memory) = (stats.disk_bytes, stats.in_memory_bytes);
    assert!(
        files < memory && memory < 2 * files + (1 << 20),
        "{files} {memory}"
    );
    assert!(!stats.disk_full && stats.ballast_bytes < stats.disk_bytes);
    let error = Db::open_existing(db.path(), small().env(outside.clone()));
    assert_eq!(error.unwrap_err().kind(), ErrorKind::NotFound);
    db.close().unwrap();
    assert_eq!((disk.calls(), disk.file_names().len()), (calls.0, 0));
    // The next one is another.
    let next = Db::in_memory(options.env(outside)).unwrap();
    assert_eq!(next.iter().count(), 0);
}

#[test]
fn copies_of_a_database_in_memory_are_on_the_disk() {
    let disk = SimVfs::new();
    let (outside, runtime) = env(disk.clone(), 2);
    let db = Db::in_memory(small().env(outside.clone())).unwrap();
    let (mut model, mut rng) = (Model::new(), SmallRng::seed_from_u64(2));
    let repository = outside.clone().repository("/backups");
    for round in 0..3 {
        churn(&db, &mut model, &mut rng, 300);
        db.write(Batch::new().set_commit_tag(round.to_string()))
            .unwrap();
        let made = db.checkpoint(format!("/copy{round}")).unwrap();
        assert_eq!(made.linked_bytes(), 0);
        assert!(made.copied_because.unwrap().contains("in memory"));
        let point = repository.back_up(&db).unwrap();
        assert!(repository.verify(point.point.number).unwrap().is_sound());
        repository
            .restore(point.point.number, format!("/restored{round}"))
            .unwrap();
        let disk = disk.power_cut(crate::vfs::sim::Keep::Nothing);
        for dir in [format!("/copy{round}"), format!("/restored{round}")] {
            let (env, _runtime) = env(disk.clone(), 3);
            assert!(env.check(&dir).unwrap().is_clean());
            let own = Db::open(&dir, Options::default().env(env)).unwrap();
            same(&own, &model);
            assert_eq!(
                own.commit_tag().as_deref(),
                Some(round.to_string().as_bytes())
            );
        }
        runtime.run_one();
    }
    let made = db.export(.., "/export").unwrap();
    assert_eq!(made.records, model.len() as u64);
    let into = Db::in_memory(small().env(outside.clone())).unwrap();
    into.import(&outside.open_export("/export").unwrap())
        .unwrap();
    same(&into, &model);
}

#[test]
fn a_file_system_in_memory_that_is_kept_serves_like_a_disk() {
    let files = MemoryVfs::default();
    let open = |seed| {
        let (env, runtime) = env(files.clone(), seed);
        let db = Db::open("/db", small().env(env)).unwrap();
        (db, runtime)
    };
    let (mut model, mut rng) = (Model::new(), SmallRng::seed_from_u64(3));
    for round in 0..12 {
        let (db, runtime) = open(round);
        same(&db, &model);
        for _ in 0..4 {
            churn(&db, &mut model, &mut rng, 80);
            runtime.run_one();
        }
        let space = db.keyspace("more", KeyspaceOptions::default()).unwrap();
        space.put("round", round.to_string()).unwrap();
        let locked = Db::open("/db", small().env(env(files.clone(), 99).0)).unwrap_err();
        assert_eq!(locked.kind(), ErrorKind::Locked);
        assert!(locked.what().contains("in this process"), "{locked}");
        let followed = Db::open_secondary(
            "/db",
            SecondaryOptions::default().env(env(files.clone(), 98).0.clone()),
        );
        if round % 2 == 0 {
            assert_eq!(followed.unwrap_err().kind(), ErrorKind::Incompatible);
            db.close().unwrap();
        } else {
            // As if its process had died, but for the lock, which another one would not meet.
            drop((space, db));
        }
        let (env, _runtime) = env(files.clone(), 97);
        assert!(env.check("/db").unwrap().is_clean());
    }
    let (db, _) = open(50);
    let expires = crate::WriteOptions::default().ttl(Duration::from_secs(5));
    db.put_with("expires", "soon", expires).unwrap();
    db.checkpoint("/copy").unwrap();
    drop(db);
    let (env, _runtime) = env(files.clone(), 96);
    let copy = Db::open("/copy", small().env(env.clone())).unwrap();
    assert!(copy.ttl("expires").unwrap().is_some());
    copy.close().unwrap();
    env.destroy("/copy").unwrap();
    env.destroy("/db").unwrap();
    assert_eq!(files.list(Path::new("/")).unwrap(), Vec::<String>::new());
    assert_eq!(files.bytes(), 0);
}
