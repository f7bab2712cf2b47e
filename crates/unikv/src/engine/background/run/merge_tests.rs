use super::*;
use crate::base::file_names;
use crate::base::keys::FileNumber;
use crate::base::keys::{KEYSPACE_PREFIX_LEN, SeqNo};
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::db::Db;
use crate::engine::catalog::CatalogState;
use crate::engine::tests::common::{delete, key, put, version};
use crate::engine::tests::{Machine, Model, common, small};
use crate::jobs::compact::gc;
use crate::jobs::flush::placing::MAX_GENERATIONS;
use crate::jobs::plan::rules::merge::most_urgent;
use crate::jobs::plan::{Filter, Why};
use crate::key_table::EntryValue;
use crate::record::RecordFile;
use crate::version::{Generation, Partition};
use crate::vfs::Access;
use crate::vfs::sim::{Fault, Keep, Op};
use crate::{Options, Snapshot, Tuning};
use std::collections::{BTreeMap, BTreeSet};

mod small;

const KEYS: u32 = 400;

/// Never splits by itself, nor joins what a test has split.
fn whole() -> Options {
    small().tuning(
        Tuning::default()
            .key_table_bytes(1 << 10)
            .partition_bytes(256 << 10),
    )
}

fn all_the_same(db: &Db, model: &Model) {
    common::all_the_same(db, model, KEYS);
}

/// Leaves a closed database with garbage in value logs that also hold live records, and returns its
/// content and the bound of which this garbage uses a part between the two thresholds.
fn littered(machine: &Machine) -> (Model, f64) {
    let (db, _) = machine.open(whole().max_space_amp(100.0));
    let mut model = Model::new();
    for round in 0..3 {
        // Ever fewer keys are overwritten, so that files keep live records.
        for i in (0..KEYS).step_by(1 + usize::from(round)) {
            put(&db, &mut model, i, round);
        }
        db.compact().unwrap();
    }
    for i in (0..KEYS).step_by(7) {
        delete(&db, &mut model, i);
    }
    db.compact().unwrap();
    let told = db.garbage();
    let user: usize = model.iter().map(|(k, v)| k.len() + v.len()).sum();
    let stored = 100.0 * user as f64 - told.allowed_bytes as f64;
    let stats = db.stats();
    assert_eq!((stats.gcs, stats.merge_copied_bytes), (0, 0));
    db.close().unwrap();
    (model, (told.dead_bytes as f64 / 0.5 + stored) / user as f64)
}

fn is_between_the_thresholds(db: &Db) -> bool {
    let told = db.garbage();
    (told.riding_from_bytes + 1..told.alone_from_bytes).contains(&told.dead_bytes)
}

/// What garbage collection would reclaim first.
fn victims(db: &Db) -> Vec<Arc<RecordFile>> {
    let background = &db.0.engine.background;
    background.choices.riding_victims(&version(db))
}

fn numbers(files: &[Arc<RecordFile>]) -> BTreeSet<FileNumber> {
    files.iter().map(|file| file.meta().number).collect()
}

/// The record files that the SortedStore points to: per key, versions newest first.
fn places(db: &Db) -> BTreeMap<Vec<u8>, Vec<(SeqNo, FileNumber)>> {
    let mut places = BTreeMap::<_, Vec<_>>::new();
    for table in version(db).key_tables() {
        let mut entries = table.iter(Access::Sequential);
        entries.seek_to_first().unwrap();
        while let Some(entry) = entries.entry() {
            if let EntryValue::Pointer(pointer) = entry.value {
                let key = entry.key[KEYSPACE_PREFIX_LEN..].to_vec();
                let versions = places.entry(key).or_default();
                versions.push((entry.seq, pointer.file));
            }
            entries.next().unwrap();
        }
    }
    places
}

/// Makes merges of all that is flushed due.
fn freeze_all(db: &Db) {
    assert!(db.0.engine.catalog.lock().freeze_all());
}

/// A copy of the disk of a closed database.
fn fork(machine: &Machine) -> Machine {
    Machine {
        disk: machine.disk.process_kill(),
        seed: machine.seed,
    }
}

/// Opens a littered database and merges some overwritten and deleted keys of which a snapshot needs
/// the older versions. Returns the plan of a collection, too, which is not yet run.
fn with_a_collection_to_run(
    machine: &Machine,
    options: Options,
    model: &mut Model,
) -> (Db, Snapshot, MergePlan) {
    let (db, _) = machine.open(options);
    let snapshot = db.snapshot();
    for i in (1..KEYS).step_by(40) {
        put(&db, model, i, 9);
        delete(&db, model, i + 1);
    }
    db.flush().unwrap();
    freeze_all(&db);
    let engine = &db.0.engine;
    let partition = Arc::clone(&version(&db).partitions()[0]);
    let inputs = MergeInputs::merge(partition.generations.clone());
    let merge = MergePlan { partition, inputs };
    engine.background.run_passes(MERGE, &[merge]).unwrap();
    let inputs = MergeInputs::collect(victims(&db));
    let plan = MergePlan {
        partition: Arc::clone(&version(&db).partitions()[0]),
        inputs,
    };
    db.sync().unwrap();
    assert!(plan.inputs.victims.len() > 1);
    (db, snapshot, plan)
}

#[test]
fn a_power_cut_at_any_call_of_a_collection_leaves_all_or_nothing_of_it() {
    let littered_machine = Machine::new(41);
    let (before, max_space_amp) = littered(&littered_machine);
    let options = whole().max_space_amp(max_space_amp);
    let calls = {
        let machine = fork(&littered_machine);
        let mut model = before.clone();
        let (db, snapshot, plan) = with_a_collection_to_run(&machine, options.clone(), &mut model);
        let victims = numbers(&plan.inputs.victims);
        let older = |versions: &Vec<(SeqNo, FileNumber)>| {
            versions.len() > 1 && victims.contains(&versions[1].1)
        };
        assert!(places(&db).values().any(older), "for the snapshot alone");
        let begin = machine.disk.calls();
        db.0.engine.background.run_passes(MERGE, &[plan]).unwrap();
        let calls = machine.disk.calls() - begin;
        let stats = db.stats();
        assert!(stats.gcs == 1 && stats.gc_copied_bytes > 0, "{stats:#?}");
        all_the_same(&db, &model);
        let seen = snapshot.iter().map(|entry| entry.unwrap());
        let seen: Model = seen.map(|(k, v)| (k.to_vec(), v.to_vec())).collect();
        assert_eq!(seen, before);
        for (key, value) in &before {
            assert_eq!(snapshot.get(key).unwrap().as_deref(), Some(&value[..]));
        }
        calls
    };
    assert!(calls > 6, "files, the directory and the manifest: {calls}");
    let mut outcomes = [0, 0];
    for call in 0..calls {
        for keep in [
            Keep::Nothing,
            Keep::All,
            Keep::Prefix(call),
            Keep::Torn(call),
        ] {
            let machine = fork(&littered_machine);
            let mut model = before.clone();
            let (db, _snapshot, plan) =
                with_a_collection_to_run(&machine, options.clone(), &mut model);
            machine.cut_power_after(call);
            let committed =
                db.0.engine
                    .background
                    .run_passes(MERGE, std::slice::from_ref(&plan))
                    .is_ok();
            let after = Machine {
                disk: machine.disk.power_cut(keep),
                seed: 41,
            };
            after.check();
            let (db, _) = after.open(options.clone());
            all_the_same(&db, &model);
            let stands = version(&db);
            let is_left = |file: &&FileNumber| stands.record_file(**file).is_some();
            let victims = numbers(&plan.inputs.victims);
            let left = victims.iter().filter(is_left).count();
            assert!(
                left == 0 || left == victims.len(),
                "cut at {call}, {keep:?}"
            );
            assert!(left == 0 || !committed, "cut at {call}, {keep:?}");
            outcomes[usize::from(left == 0)] += 1;
            db.collect_garbage().unwrap();
            db.compact().unwrap();
            all_the_same(&db, &model);
            db.close().unwrap();
            after.check();
        }
    }
    assert!(outcomes.iter().all(|n| *n > 0), "{outcomes:?}");
}

#[test]
fn garbage_between_the_thresholds_is_collected_when_a_merge_passes_by() {
    let machine = Machine::new(42);
    let (mut model, max_space_amp) = littered(&machine);
    let (db, _) = machine.open(whole().max_space_amp(max_space_amp));
    let engine = &db.0.engine;
    assert!(is_between_the_thresholds(&db));
    assert!(
        !engine.background.merge_one().unwrap(),
        "it is not collected alone"
    );
    for i in (1..KEYS).step_by(40) {
        put(&db, &mut model, i, 9);
    }
    db.flush().unwrap();
    freeze_all(&db);
    assert!(is_between_the_thresholds(&db));
    let victims = numbers(&victims(&db));
    assert!(engine.background.merge_one().unwrap());
    let stats = db.stats();
    assert_eq!((stats.merges, stats.gcs), (1, 0));
    assert!(stats.merge_copied_bytes > 0, "{stats:#?}");
    assert_eq!(stats.gc_copied_bytes, 0);
    let stands = version(&db);
    let mut left = victims.iter().filter_map(|file| stands.record_file(*file));
    assert!(!victims.is_empty() && left.next().is_none());
    all_the_same(&db, &model);
    db.close().unwrap();
    machine.check();
}

/// Leaves a closed database with garbage in two partitions.
fn in_two_partitions(machine: &Machine) -> Model {
    let (model, _) = littered(machine);
    let (db, _) = machine.open(whole().max_space_amp(100.0));
    let one = Arc::clone(&version(&db).partitions()[0]);
    assert_eq!(
        db.0.engine.background.split_leased(&one).unwrap(),
        Ended::Done
    );
    assert_eq!(version(&db).partitions().len(), 2);
    db.close().unwrap();
    model
}

/// Takes the lease of the left partition as a job does; returns it and the other one.
fn lease_left(db: &Db) -> (PartitionId, PartitionId) {
    let catalog = db.0.engine.catalog.lock();
    let partitions = catalog.version.partitions();
    let (left, right) = (partitions[0].id, partitions[1].id);
    db.0.engine.background.scheduler.leases.hold([left]);
    (left, right)
}

fn release(db: &Db, id: PartitionId) {
    assert!(
        db.0.engine.background.scheduler.leases.release(id),
        "the lease"
    );
}

#[test]
fn no_merge_takes_a_partition_whose_lease_is_held() {
    let machine = Machine::new(44);
    let mut model = in_two_partitions(&machine);
    let (db, _) = machine.open(whole().max_space_amp(100.0));
    let engine = &db.0.engine;
    let (left, right) = lease_left(&db);
    // There is more to merge in the one that is leased, so that it would be the first.
    (0..11).for_each(|i| put(&db, &mut model, i, 9));
    (KEYS - 4..KEYS).for_each(|i| put(&db, &mut model, i, 9));
    db.flush().unwrap();
    freeze_all(&db);
    let unmerged = |id| version(&db).partition(id).unwrap().unsorted_bytes();
    assert!(unmerged(left) > unmerged(right) && unmerged(right) > 0);
    let before = unmerged(left);
    assert!(engine.background.merge_one().unwrap());
    assert_eq!((unmerged(left), unmerged(right)), (before, 0));
    assert!(
        !engine.background.merge_one().unwrap(),
        "nothing else is free"
    );
    assert_eq!(unmerged(left), before);
    release(&db, left);
    assert!(engine.background.merge_one().unwrap());
    assert_eq!(unmerged(left), 0);
    all_the_same(&db, &model);
    db.close().unwrap();
    machine.check();
}

#[test]
fn no_collection_takes_a_partition_whose_lease_is_held() {
    let machine = Machine::new(45);
    let model = in_two_partitions(&machine);
    let (db, _) = machine.open(whole().max_space_amp(1.2));
    let engine = &db.0.engine;
    let (left, right) = lease_left(&db);
    let tables = |id| -> Vec<FileNumber> {
        let partition = Arc::clone(version(&db).partition(id).unwrap());
        let tables = partition.key_tables.iter();
        tables.map(|table| table.meta().number).collect()
    };
    let before = [tables(left), tables(right)];
    while engine.background.merge_one().unwrap() {}
    assert!(db.stats().gcs > 0);
    assert_eq!(tables(left), before[0]);
    assert_ne!(tables(right), before[1]);
    // A slice that holds it is to end; one that holds the other need not.
    assert!(engine.background.is_collection_due(&[left]));
    assert!(!engine.background.is_collection_due(&[right]));
    release(&db, left);
    assert!(engine.background.merge_one().unwrap());
    assert_ne!(tables(left), before[0]);
    all_the_same(&db, &model);
    db.close().unwrap();
    machine.check();
}

#[test]
fn no_split_takes_a_partition_whose_lease_is_held() {
    const PARTITION: u64 = 8 << 10;
    let machine = Machine::new(46);
    let model = in_two_partitions(&machine);
    let options = whole()
        .max_space_amp(100.0)
        .tuning(Tuning::default().partition_bytes(PARTITION));
    let (db, _) = machine.open(options);
    let engine = &db.0.engine;
    let (left, right) = lease_left(&db);
    while engine.background.split_one().unwrap() {}
    let stands = version(&db);
    let leased = stands.partition(left).unwrap();
    let is_to_be_split = |id| {
        let catalog = engine.catalog.lock();
        catalog.partitions().get(id).unwrap().is_to_be_split
    };
    assert!(is_to_be_split(leased.id));
    assert!(stands.partition(right).is_none() && stands.partitions().len() > 3);
    release(&db, left);
    assert!(engine.background.split_one().unwrap());
    assert!(version(&db).partition(left).is_none());
    all_the_same(&db, &model);
    db.close().unwrap();
    machine.check();
}

/// The record files that are tables of a partition.
fn tables_of(partition: &Partition) -> BTreeSet<FileNumber> {
    let tables = partition.generations.iter().flat_map(Generation::tables);
    tables.map(|(_, table)| table.meta().number).collect()
}

#[test]
fn a_table_that_a_split_shared_is_released_by_merges_and_collection() {
    let machine = Machine::new(47);
    let large = whole().tuning(
        Tuning::default()
            .memtable_bytes(128 << 10)
            .unsorted_bytes(1 << 20),
    );
    let large = large.memory_budget(16 << 20).max_space_amp(100.0);
    let (db, _) = machine.open(large);
    let mut model = Model::new();
    (0..KEYS).for_each(|i| put(&db, &mut model, i, 0));
    db.compact().unwrap();
    (0..KEYS).for_each(|i| put(&db, &mut model, i, 1));
    db.flush().unwrap();
    let one = Arc::clone(&version(&db).partitions()[0]);
    assert_eq!(
        db.0.engine.background.split_leased(&one).unwrap(),
        Ended::Done
    );
    let sides = || -> [BTreeSet<FileNumber>; 2] {
        [0, 1].map(|side| tables_of(&version(&db).partitions()[side]))
    };
    let [left, right] = sides();
    let shared: BTreeSet<FileNumber> = left.intersection(&right).copied().collect();
    assert!(!shared.is_empty());

    // The left side goes on alone; what it has merged is no victim while the right side needs it.
    let other = Arc::clone(&version(&db).partitions()[1]);
    db.0.engine.background.scheduler.leases.hold([other.id]);
    let border = other.start[KEYSPACE_PREFIX_LEN..].to_vec();
    for i in (0..KEYS).filter(|i| key(*i) < border) {
        put(&db, &mut model, i, 2);
    }
    db.compact_range(..border).unwrap();
    let [left, right] = sides();
    assert!(left.is_empty() && shared.is_subset(&right));
    assert!(gc::candidates(&version(&db)).all(|(.., file)| !shared.contains(&file.meta().number)));
    all_the_same(&db, &model);

    release(&db, other.id);
    db.compact().unwrap();
    let stands = version(&db);
    assert!(
        stands
            .tables()
            .is_disjoint(&shared.iter().copied().collect())
    );
    let is_listed = |file: &FileNumber| stands.record_file(*file).is_some();
    assert!(shared.iter().all(is_listed), "the right side points there");
    all_the_same(&db, &model);
    db.close().unwrap();
    machine.check();

    let (db, _) = machine.open(whole().max_space_amp(1.1));
    db.collect_garbage().unwrap();
    let stands = version(&db);
    assert!(
        shared
            .iter()
            .all(|file| stands.record_file(*file).is_none())
    );
    let mut sides = stands.partitions().iter().map(|partition| {
        let refs = partition.key_tables.iter().flat_map(|t| &t.meta().refs);
        refs.map(|refs| refs.file).collect::<BTreeSet<FileNumber>>()
    });
    let (left, right) = (sides.next().unwrap(), sides.next().unwrap());
    assert!(left.is_disjoint(&right), "{left:?} and {right:?}");
    all_the_same(&db, &model);
    db.close().unwrap();
    let names = machine.disk.file_names();
    for file in shared {
        let name = file_names::record(file);
        assert!(!names.iter().any(|path| path.ends_with(&name)), "{name}");
    }
    machine.check();
}

#[test]
fn a_partition_that_keeps_flushes_waiting_is_merged_before_a_larger_one() {
    let machine = Machine::new(31);
    let (db, _) = machine.open(
        small().tuning(
            Tuning::default()
                .partition_bytes(1 << 40)
                .key_table_bytes(1 << 10),
        ),
    );
    let put = |key: u32, len: usize| db.put(key.to_be_bytes(), vec![1; len]).unwrap();
    (0..1000).for_each(|key| put(key, 20));
    db.compact().unwrap();
    let engine = &db.0.engine;
    let whole = engine.read.view.load().version.partitions()[0].clone();
    engine.background.split_leased(&whole).unwrap();
    // With all leases taken nothing is merged.
    let sides = || engine.read.view.load().version.partitions().to_vec();
    engine
        .background
        .scheduler
        .leases
        .hold(sides().iter().map(|p| p.id));
    for _ in 0..MAX_GENERATIONS {
        engine.catalog.lock().freeze_all();
        put(1, 20);
        db.flush().unwrap();
    }
    (900..1000).for_each(|key| put(key, 100));
    db.flush().unwrap();
    engine.catalog.lock().freeze_all();
    let [small, large] = &sides()[..] else {
        panic!("one split makes two sides");
    };
    assert_eq!(small.generations.len(), MAX_GENERATIONS);
    assert!(large.unsorted_bytes() > 5 * small.unsorted_bytes());
    let mut catalog = engine.catalog.lock();
    engine.background.scheduler.leases.release_all();
    let first = |catalog: &CatalogState| {
        let facts = engine.background.facts_of(catalog);
        most_urgent(&facts, Filter::Waiter).unwrap()
    };
    let bytes = large.unsorted_bytes();
    // One more table has its place.
    assert_eq!(first(&catalog), (large.id, Why::Unmerged { bytes }));
    catalog.end_target(small.id);
    assert_eq!(first(&catalog), (small.id, Why::BlocksFlushes));
}

#[test]
fn no_merge_runs_beside_a_collection_of_its_partition() {
    let machine = Machine::new(48);
    let (mut model, _) = littered(&machine);
    let (db, _) = machine.open(whole().max_space_amp(1.2));
    let engine = Arc::clone(&db.0.engine);
    let id = version(&db).partitions()[0].id;
    engine.background.scheduler.leases.hold([id]);
    (0..KEYS)
        .step_by(9)
        .for_each(|i| put(&db, &mut model, i, 8));
    db.flush().unwrap();
    release(&db, id);

    // As soon as the collection writes, there is something to merge, and somebody who would.
    let merged = Arc::new(AtomicU64::new(u64::MAX));
    let (told, other) = (Arc::clone(&merged), Arc::clone(&engine));
    machine.disk.set_fault(Box::new(move |call| {
        if call.op == Op::Create && told.load(Ordering::Relaxed) == u64::MAX {
            told.store(0, Ordering::Relaxed);
            assert!(other.catalog.lock().freeze_all());
            told.store(
                other.background.merge_one().unwrap().into(),
                Ordering::Relaxed,
            );
        }
        Fault::None
    }));
    assert!(engine.background.merge_one().unwrap());
    machine.disk.clear_faults();
    assert_eq!(merged.load(Ordering::Relaxed), 0, "1: it was merged");
    assert_eq!((db.stats().gcs, db.stats().merges), (1, 0));
    all_the_same(&db, &model);
    assert!(engine.background.merge_one().unwrap());
    assert_eq!(db.stats().merges, 1);
    all_the_same(&db, &model);
    db.close().unwrap();
    machine.check();
}
