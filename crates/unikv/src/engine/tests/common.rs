//! What the tests of several jobs begin with.

use super::{Machine, Model, same};
use crate::Db;
use crate::base::keys::FileNumber;
use crate::engine::catalog::indexes_of;
use crate::engine::open::recovery::build_version;
use crate::jobs::Needs;
use crate::jobs::flush::flush;
use crate::jobs::flush::placing::{PlacingContext, place};
use crate::key_table::ReadCache;
use crate::partition::View;
use crate::version::Version;
use crate::version::edit::VersionEdit;
use crate::version::manifest::Manifest;
use crate::vfs::file_store::FileStore;
use std::path::Path;
use std::sync::Arc;

/// The newest version.
pub(crate) fn version(db: &Db) -> Arc<Version> {
    Arc::clone(&db.0.engine.read.view.load().version)
}

/// The key of a number, as [`churn`](super::churn) has them.
pub(crate) fn key(i: u32) -> Vec<u8> {
    format!("key{i:04}").into_bytes()
}

/// Stores a value that is too long to stand in a key table.
pub(crate) fn put(db: &Db, model: &mut Model, i: u32, fill: u8) {
    db.put(key(i), [fill; 200]).unwrap();
    model.insert(key(i), vec![fill; 200]);
}

pub(crate) fn delete(db: &Db, model: &mut Model, i: u32) {
    db.delete(key(i)).unwrap();
    model.remove(&key(i));
}

/// Writes the first `keys` keys at `rounds` different times, so that neighbours stand in other
/// tables.
pub(crate) fn flush_apart(db: &Db, model: &mut Model, keys: u32, rounds: u32, stamp: u8) {
    for round in 0..rounds {
        for i in (round..keys).step_by(rounds as usize) {
            put(db, model, i, stamp + round as u8);
        }
        db.flush().unwrap();
    }
}

/// What the manifest says, as one edit that says how many came before it.
pub(crate) fn listed_by_manifest(machine: &Machine) -> (Arc<FileStore>, VersionEdit) {
    let found = Manifest::recover(&machine.disk, Path::new("/db")).unwrap();
    let store = FileStore::new(machine.env(), "/db".into(), found.database, 16);
    let edits = found.edits.iter(&found.path);
    let built = build_version(&store, &ReadCache::new(1 << 20), &found.path, edits);
    let mut told = built.unwrap().snapshot();
    told.edits_before = Some(found.edit_count);
    (store, told)
}

/// Begins a new manifest for a closed database: what the old one says, with a change.
pub(crate) fn rewrite_manifest(
    machine: &Machine,
    change: impl FnOnce(&mut VersionEdit),
) -> Manifest {
    let (store, mut snapshot) = listed_by_manifest(machine);
    let number = FileNumber(snapshot.next_file.unwrap() + 100);
    change(&mut snapshot);
    Manifest::create(&store, number, snapshot).unwrap()
}

/// The database holds what the model holds, and of the first `keys` keys no others.
pub(crate) fn all_the_same(db: &Db, model: &Model, keys: u32) {
    same(db, model);
    for key in (0..keys).map(key) {
        let value = db.get(&key).unwrap();
        assert_eq!(value.as_deref(), model.get(&key).map(Vec::as_slice));
    }
}

/// Scans again and again beside writers; keys must ascend.
pub(crate) fn scan_beside_writers(db: &Db) {
    for _ in 0..30 {
        let mut last = Vec::new();
        for entry in db.iter() {
            let (k, _) = entry.unwrap();
            assert!(last.is_empty() || last[..] < k[..]);
            last = k.to_vec();
        }
    }
}

/// Flushes what is in memory as the flush worker does, with something else between the writing of
/// the files and the commit. Returns of how many partitions they were before, and then.
pub(crate) fn flush_around(db: &Db, meanwhile: impl FnOnce()) -> (usize, usize) {
    let engine = &db.0.engine;
    engine.write.seal(&mut engine.write.commit.lock()).unwrap();
    let sealed = engine.read.view.load().sealed.last().unwrap().clone();
    let tables = flush(
        &engine
            .background
            .job_context(engine.background.until_closed(), Needs::default()),
        std::slice::from_ref(&sealed.table),
    )
    .unwrap();
    let mut catalog = engine.catalog.lock();
    let (before, targets) = catalog.reserve(&tables);
    let owners = targets.len();
    let last_generation = Arc::clone(&catalog.last_generation);
    drop(catalog);
    let context = PlacingContext {
        limits: engine.space.generation_limits(&before),
        hash_seed: engine.core.hash_seed,
        last_generation: &last_generation,
    };
    let placed = place(&context, &tables, &before, &targets, Vec::new()).unwrap();
    meanwhile();
    let mut catalog = engine.catalog.lock();
    let now = Arc::clone(&catalog.version);
    let placed = place(&context, &tables, &now, &catalog.targets, placed).unwrap();
    let indexes = indexes_of(&placed);
    let edit = VersionEdit {
        record_files: tables.into_iter().map(|t| t.meta).collect(),
        tables: placed.iter().flat_map(|p| p.places.clone()).collect(),
        last_seq: sealed.table.max_seq(),
        ..VersionEdit::default()
    };
    let publish = |view: &mut View| drop(view.sealed.pop());
    engine
        .catalog
        .commit_edit(&mut catalog, edit, &indexes, publish)
        .unwrap();
    let owners_now = placed.len();
    let targets = placed.into_iter().map(|p| (p.partition, p.target));
    catalog.begin_targets(targets);
    (owners, owners_now)
}
