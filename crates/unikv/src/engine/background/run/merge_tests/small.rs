//! Merges of many small partitions.

use super::{MergePlan, freeze_all, version};
use crate::base::keys::PartitionId;
use crate::engine::background::Ended;
use crate::engine::background::choices::passes::MAX_MERGED;
use crate::engine::health::{COLLECT, MERGE};
use crate::engine::tests::{Machine, small};
use crate::jobs::compact::gc;
use crate::jobs::compact::parts::MergeInputs;
use crate::jobs::late_syncs::MOST_FILES;
use crate::jobs::plan::rules::merge::{MERGES, most_urgent};
use crate::jobs::plan::{Filter, Job, MOST_TOGETHER};
use crate::options::KeyspaceOptions;
use crate::testing::file_trace::{FileTrace, prefetches, reads};
use crate::version::Partition;
use crate::vfs::Runtime;
use crate::vfs::sim::{Fault, Keep, Op, Rule};
use crate::{Compression, Db, Keyspace, Options, SecondaryOptions, Tuning};
use std::io;
use std::sync::Arc;
use std::time::Duration;

fn roomy() -> Options {
    let options = small()
        .tuning(Tuning::default().memtable_bytes(1 << 20))
        .memory_budget(64 << 20);
    options.tuning(
        Tuning::default()
            .unsorted_bytes(4 << 20)
            .partition_bytes(64 << 20),
    )
}

fn keyspaces(db: &Db, count: usize) -> Vec<Keyspace> {
    let name = |n: usize| format!("keyspace {n:03}");
    let make = |n| db.keyspace(&name(n), KeyspaceOptions::default()).unwrap();
    (0..count).map(make).collect()
}

/// The partitions that hold something, in key order.
fn held(db: &Db) -> Vec<Arc<Partition>> {
    let version = version(db);
    let partitions = version.partitions().iter().cloned();
    partitions.filter(|p| p.data_bytes() > 0).collect()
}

fn put(keyspace: &Keyspace, keys: usize, len: usize) {
    for i in 0..keys {
        keyspace.put(format!("key{i:04}"), vec![7; len]).unwrap();
    }
}

/// The partitions of the merge that is due, in key order.
fn planned(db: &Db) -> Vec<PartitionId> {
    let background = &db.0.engine.background;
    let catalog = db.0.engine.catalog.lock();
    let found = background.find(&MERGES, &catalog, Filter::Waiter);
    drop(catalog);
    let Some((Job::Merge(ids), _)) = found else {
        panic!("no merge is due");
    };
    let plans = background.merge_plans(&ids);
    plans.iter().map(|plan| plan.partition.id).collect()
}

/// Takes the leases of all partitions, so that no worker merges.
fn hold_all(db: &Db) -> Vec<PartitionId> {
    let ids: Vec<_> = version(db).partitions().iter().map(|p| p.id).collect();
    let leases = &db.0.engine.background.scheduler.leases;
    leases.hold(ids.iter().copied());
    ids
}

#[test]
fn of_small_partitions_the_one_that_has_waited_longest_is_merged_next() {
    let machine = Machine::new(61);
    let (db, _) = machine.open(roomy());
    let all = keyspaces(&db, MOST_TOGETHER + 20);
    hold_all(&db);
    let (last, others) = all.split_last().unwrap();
    put(last, 1, 20);
    db.flush().unwrap();
    freeze_all(&db);
    for (i, keyspace) in others.iter().enumerate() {
        // The last of them has most.
        put(keyspace, 2 + 10 * (i / (others.len() - 1)), 20);
    }
    db.flush().unwrap();
    freeze_all(&db);

    let partitions = held(&db);
    assert_eq!(partitions.len(), all.len());
    let background = &db.0.engine.background;
    background.scheduler.leases.release_all();
    let planned = planned(&db);
    let largest = &partitions[partitions.len() - 2];
    let oldest = partitions.last().unwrap();
    assert_eq!(planned.len(), MOST_TOGETHER);
    // The others are of one age: neighbours. All of them are taken in key order.
    let neighbours = partitions.iter().map(|p| p.id).take(MOST_TOGETHER - 2);
    assert!(
        planned
            .into_iter()
            .eq(neighbours.chain([largest.id, oldest.id]))
    );
}

#[test]
fn where_a_merge_has_failed_it_is_tried_again_alone() {
    let machine = Machine::new(71);
    let (db, _) = machine.open(roomy());
    to_be_merged(&db, 8);
    let partitions = held(&db);
    let background = &db.0.engine.background;
    let planned = || planned(&db);
    let all: Vec<_> = partitions.iter().map(|p| p.id).collect();
    assert_eq!(planned(), all);
    let first = {
        let catalog = db.0.engine.catalog.lock();
        let facts = background.facts_of(&catalog);
        most_urgent(&facts, Filter::Waiter).unwrap().0
    };
    let other = all.iter().copied().find(|id| *id != first).unwrap();
    let error = crate::Error::internal("made up");
    background.note_failure(MERGE, Some(other), &error);
    let without: Vec<_> = all.iter().copied().filter(|id| *id != other).collect();
    assert_eq!(planned(), without);
    background.note_failure(MERGE, Some(first), &error);
    assert_eq!(planned(), [first]);
}

/// The one that fails is the most urgent, and not the first of the job by its key.
#[test]
fn a_failure_of_one_of_many_merges_is_noted_though_the_others_are_committed() {
    let machine = Machine::new(75);
    let (db, runtime) = machine.open(roomy());
    let all = keyspaces(&db, 3);
    all.iter().for_each(|keyspace| put(keyspace, 20, 20));
    db.compact().unwrap();
    hold_all(&db);
    all.iter().for_each(|keyspace| put(keyspace, 20, 30));
    db.flush().unwrap();
    freeze_all(&db);
    let last = Arc::clone(held(&db).last().unwrap());
    let table = last.key_tables[0].path().file_name().unwrap();
    let name = format!("*{}", table.to_str().unwrap());
    let rule = Rule::new(Fault::Fail(io::ErrorKind::Other)).on(&[Op::Read]);
    machine.disk.set_rules(vec![rule.path(&name)]);
    let background = &db.0.engine.background;
    background.scheduler.leases.release_all();
    assert!(background.merge_one().unwrap());
    let unmerged = |p: &Arc<Partition>| p.unsorted_bytes() > 0;
    let left: Vec<_> = held(&db).into_iter().filter(unmerged).collect();
    assert_eq!(left.iter().map(|p| p.id).collect::<Vec<_>>(), [last.id]);
    let failure = background.core.health.failure(MERGE, Some(last.id));
    assert_eq!(failure.map(|failure| failure.failures), Some(1));
    assert!(!background.merge_one().unwrap(), "it is in backoff");
    machine.disk.clear_faults();
    runtime.delay(Duration::from_secs(2));
    assert!(background.merge_one().unwrap());
    db.wait_until_idle().unwrap();
    assert!(db.stats().job_errors.is_empty());
    drop((last, left, db));
    machine.check();
}

#[test]
fn a_merge_of_a_small_partition_takes_all_that_is_frozen_and_one_of_a_large_one_little() {
    for (len, left) in [(20, 0), (200_000, 1)] {
        let machine = Machine::new(62);
        let (db, _) = machine.open(roomy());
        hold_all(&db);
        for _ in 0..=MAX_MERGED {
            (0..10).for_each(|i| db.put([i], vec![7; len]).unwrap());
            db.flush().unwrap();
            freeze_all(&db);
        }
        let generations = |db: &Db| version(db).partitions()[0].generations.len();
        assert_eq!(generations(&db), MAX_MERGED + 1);
        db.0.engine.background.scheduler.leases.release_all();
        assert!(db.0.engine.background.merge_one().unwrap());
        assert_eq!((db.stats().merges, generations(&db)), (1, left));
        (0..10).for_each(|i| assert_eq!(db.get([i]).unwrap().unwrap(), vec![7; len]));
        db.close().unwrap();
        machine.check();
    }
}

#[test]
fn a_merge_reads_no_more_of_a_shared_table_than_its_share() {
    let machine = Machine::new(63);
    let (db, _) = machine.open(roomy().inline_value_bytes(1000));
    let all = keyspaces(&db, 64);
    hold_all(&db);
    all.iter().for_each(|keyspace| put(keyspace, 20, 200));
    db.flush().unwrap();
    freeze_all(&db);
    let partitions = held(&db);
    let (_, table) = partitions[5].generations[0].shares().next().unwrap();
    let (whole, share) = (table.file.meta().len, table.share().bytes);
    assert!(whole > 300 << 10 && share < whole / 50, "{whole} {share}");

    let trace = FileTrace::begin(&machine.disk, table.file.path());
    let background = &db.0.engine.background;
    let merge = |p: &Arc<Partition>| {
        assert!(background.merge_leased(p.id).unwrap());
        let events = trace.take();
        let read: u64 = reads(&events).iter().map(|at| at.end - at.start).sum();
        (read, prefetches(&events))
    };
    for partition in &partitions[5..8] {
        let (read, prefetched) = merge(partition);
        assert!(read >= share && read < share * 3, "{read} of {share}");
        // The neighbours come next.
        assert_eq!(prefetched.len(), 1);
        assert!(prefetched[0].end - prefetched[0].start > 10 * share);
    }
    for keyspace in &all {
        assert_eq!(keyspace.iter().count(), 20);
    }
}

/// As many keyspaces with something to be merged, and no worker that does it.
fn to_be_merged(db: &Db, count: usize) {
    let all = keyspaces(db, count);
    hold_all(db);
    all.iter().for_each(|keyspace| put(keyspace, 20, 20));
    db.flush().unwrap();
    freeze_all(db);
    db.0.engine.background.scheduler.leases.release_all();
}

fn key_tables(machine: &Machine) -> usize {
    let files = machine.disk.file_names().into_iter();
    files
        .filter(|path| path.extension().is_some_and(|e| e == "key"))
        .count()
}

#[test]
fn small_merges_that_are_one_job_survive_a_power_cut() {
    let machine = Machine::new(64);
    let (db, _) = machine.open(roomy());
    let count = MOST_FILES + MOST_FILES / 2;
    to_be_merged(&db, count);
    assert!(db.0.engine.background.merge_one().unwrap());
    assert_eq!(
        (db.stats().merges, key_tables(&machine)),
        (count as u64, count)
    );
    for keep in [Keep::Nothing, Keep::Prefix(1), Keep::All] {
        let disk = machine.disk.power_cut(keep);
        let cut = Machine { disk, seed: 65 };
        let (db, _) = cut.open(roomy());
        for keyspace in keyspaces(&db, count) {
            assert_eq!(keyspace.iter().filter_map(Result::ok).count(), 20);
        }
        drop(db);
        cut.check();
    }
}

#[test]
fn of_small_merges_of_which_a_sync_fails_nothing_is_listed() {
    let count = MOST_FILES + MOST_FILES / 2;
    // Of those that are synced on the way, and of those at the end.
    for nth in [3, MOST_FILES as u64, MOST_FILES as u64 + 2] {
        let machine = Machine::new(66);
        let (db, _) = machine.open(roomy());
        to_be_merged(&db, count);
        let fails = Rule::new(Fault::Fail(io::ErrorKind::Other)).on(&[Op::Finish]);
        machine.disk.set_rules(vec![fails.path("*.key").nth(nth)]);
        assert!(db.0.engine.background.merge_one().unwrap());
        let failure = &db.stats().job_errors[0];
        assert!(
            failure.message.contains("finish a data file"),
            "{failure:?}"
        );
        assert_eq!((db.stats().merges, key_tables(&machine)), (0, 0), "{nth}");
        machine.disk.clear_faults();
        drop(db);
        machine.check();
        let (db, _) = machine.open(roomy());
        db.compact().unwrap();
        for keyspace in keyspaces(&db, count) {
            assert_eq!(keyspace.iter().filter_map(Result::ok).count(), 20);
        }
        db.close().unwrap();
        machine.check();
    }
}

#[test]
fn what_is_due_is_listed_with_its_reason_and_when_it_is_tried_again() {
    let machine = Machine::new(73);
    let (db, _) = machine.open(roomy());
    assert_eq!(db.due_jobs(), []);
    to_be_merged(&db, 3);
    let ids: Vec<u64> = held(&db).iter().map(|p| p.id.0).collect();
    let [due] = &db.due_jobs()[..] else {
        panic!("{:?}", db.due_jobs());
    };
    // The most urgent one first.
    let listed = vec![ids[2], ids[0], ids[1]];
    assert_eq!((due.job.as_str(), &due.partitions), (MERGE, &listed));
    assert!(due.why.contains("bytes are not merged"), "{}", due.why);
    assert_eq!((due.partition_count, due.retry_in), (3, None));
    let background = &db.0.engine.background;
    let last = ids[2];
    let error = crate::Error::internal("made up");
    background.note_failure(MERGE, Some(PartitionId(last)), &error);
    let [due] = &db.due_jobs()[..] else {
        panic!("{:?}", db.due_jobs());
    };
    assert_eq!(due.partitions, [last]);
    assert!(due.retry_in.is_some());
}

/// To its secondaries, a database that is opened with smaller partitions has splits to do.
#[test]
fn what_an_opening_would_find_due_is_listed_by_the_files() {
    let machine = Machine::new(74);
    let (db, _) = machine.open(roomy().tuning(Tuning::default().key_table_bytes(1 << 10)));
    (0..2000_u32).for_each(|i| db.put(i.to_be_bytes(), vec![7; 300]).unwrap());
    db.compact().unwrap();
    let secondary =
        || Db::open_secondary("/db", SecondaryOptions::default().env(machine.env())).unwrap();
    assert_eq!(secondary().due_jobs(), []);
    db.close().unwrap();
    let (db, _) = machine.open(roomy().tuning(Tuning::default().partition_bytes(64 << 10)));
    let ids = hold_all(&db);
    let due = secondary().due_jobs();
    assert_eq!((due.len(), due[0].job.as_str()), (1, "split"), "{due:?}");
    assert_eq!(due[0].partitions, [ids[0].0]);
}

const LITTERED: usize = 8;
/// Records of each of them.
const RECORDS: usize = 80;

/// Keyspaces that share a value log with garbage, and the collections that move what lives there,
/// in key order. No worker moves it.
fn littered_keyspaces(db: &Db) -> Vec<MergePlan> {
    let put = |keyspace: &_, keys| put(keyspace, keys, 300);
    let plans = littered(db, &keyspaces(db, LITTERED), put);
    assert_eq!(plans[0].inputs.victims.len(), 1);
    plans
}

fn littered(db: &Db, all: &[Keyspace], put: impl Fn(&Keyspace, usize)) -> Vec<MergePlan> {
    all.iter().for_each(|keyspace| put(keyspace, RECORDS));
    db.compact().unwrap();
    all.iter().for_each(|keyspace| put(keyspace, RECORDS / 2));
    db.compact().unwrap();
    hold_all(db);
    let version = version(db);
    let dead = gc::candidates(&version).filter(|(dead, live, _)| *dead > 0 && *live > 0);
    let victims: Vec<_> = dead.map(|(.., file)| Arc::clone(file)).collect();
    let plan = |partition| MergePlan {
        partition,
        inputs: MergeInputs::collect(victims.clone()),
    };
    held(db).into_iter().map(plan).collect()
}

fn nothing_is_lost(db: &Db) {
    for keyspace in keyspaces(db, LITTERED) {
        let values = keyspace.iter().map(|record| record.unwrap().1.len());
        assert_eq!(values.filter(|len| *len == 300).count(), RECORDS);
    }
}

fn record_files(db: &Db) -> Vec<u64> {
    let version = version(db);
    let files = version.record_files().iter();
    files.map(|file| file.meta().number.0).collect()
}

#[test]
fn collections_of_small_partitions_share_a_file() {
    let machine = Machine::new(67);
    let (db, _) = machine.open(roomy().max_space_amp(100.0));
    let plans = littered_keyspaces(&db);
    let before = record_files(&db);
    let background = &db.0.engine.background;
    background.run_passes(COLLECT, &plans).unwrap();
    let after = record_files(&db);
    assert!(!after.contains(&plans[0].inputs.victims[0].meta().number.0));
    let new = after.iter().filter(|number| !before.contains(number));
    assert_eq!((new.count(), db.stats().gcs), (1, LITTERED as u64));
    nothing_is_lost(&db);
    for keep in [Keep::Nothing, Keep::Prefix(1), Keep::All] {
        let disk = machine.disk.power_cut(keep);
        let cut = Machine { disk, seed: 68 };
        let (db, _) = cut.open(roomy());
        nothing_is_lost(&db);
        drop(db);
        cut.check();
    }
}

/// A file each would have a dictionary each, too.
#[test]
fn collections_share_a_file_if_their_values_have_one_dictionary() {
    let zstd = Compression::zstd(3);
    if zstd.check().is_err() {
        return;
    }
    let machine = Machine::new(72);
    let (db, _) = machine.open(roomy().max_space_amp(100.0).compression(zstd));
    // Of 300 bytes, and with about twenty that differ.
    let document = |n: u64| {
        format!(
            "{n:020} {}",
            "one of many documents ".repeat(12) + &"x".repeat(15)
        )
    };
    let put = |keyspace: &Keyspace, keys: usize| {
        for i in 0..keys {
            let value = document((i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
            keyspace.put(format!("key{i:04}"), value).unwrap();
        }
    };
    let plans = littered(&db, &keyspaces(&db, LITTERED), put);
    let before = record_files(&db);
    let background = &db.0.engine.background;
    background.run_passes(COLLECT, &plans).unwrap();
    let version = version(&db);
    let new = version.record_files().iter().map(|file| file.meta());
    let new: Vec<_> = new
        .filter(|meta| !before.contains(&meta.number.0))
        .collect();
    assert_eq!((new.len(), db.stats().gcs), (1, LITTERED as u64));
    assert!(new[0].compression.dictionary.is_some());
    nothing_is_lost(&db);
    drop((version, db));
    machine.check();
}

#[test]
fn of_collections_that_share_a_file_none_is_listed_if_one_fails() {
    let machine = Machine::new(69);
    let (db, _) = machine.open(roomy().max_space_amp(100.0));
    let mut plans = littered_keyspaces(&db);
    let (before, files) = (record_files(&db), machine.disk.file_names());
    let failing = plans[3].partition.key_tables[0].path().to_owned();
    let rule = Rule::new(Fault::Fail(io::ErrorKind::Other)).on(&[Op::Read]);
    let name = failing.file_name().unwrap().to_str().unwrap();
    machine.disk.set_rules(vec![rule.path(&format!("*{name}"))]);
    let background = &db.0.engine.background;
    let ended = background.run_passes(COLLECT, &plans).unwrap();
    assert_eq!(ended, Ended::Discarded);
    let failed = |plan: &MergePlan| {
        let health = &background.core.health;
        health.failure(COLLECT, Some(plan.partition.id)).is_some()
    };
    assert!((0..LITTERED).all(|nth| failed(&plans[nth]) == (nth == 3)));
    assert_eq!((db.stats().gcs, record_files(&db)), (0, before));
    assert_eq!(machine.disk.file_names(), files, "nothing is left");
    machine.disk.clear_faults();
    // The others go on without it, and the file stays for that one.
    let last = plans.remove(3);
    background.run_passes(COLLECT, &plans).unwrap();
    nothing_is_lost(&db);
    background.run_passes(MERGE, &[last]).unwrap();
    assert_eq!(db.stats().gcs, LITTERED as u64);
    nothing_is_lost(&db);
    drop(db);
    machine.check();
}

/// More than one file may hold.
#[test]
fn of_collections_whose_first_file_cannot_be_ended_none_is_listed() {
    let machine = Machine::new(70);
    let (db, _) = machine.open(
        roomy()
            .max_space_amp(100.0)
            .tuning(Tuning::default().unsorted_bytes(64 << 10)),
    );
    let plans = littered_keyspaces(&db);
    let (before, files) = (record_files(&db), machine.disk.file_names());
    let rule = Rule::new(Fault::Fail(io::ErrorKind::Other)).on(&[Op::Finish]);
    machine.disk.set_rules(vec![rule.path("*.rec").nth(1)]);
    let background = &db.0.engine.background;
    background.run_passes(COLLECT, &plans).unwrap();
    assert_eq!((db.stats().gcs, record_files(&db)), (0, before));
    assert_eq!(machine.disk.file_names(), files, "nothing is left");
    machine.disk.clear_faults();
    nothing_is_lost(&db);
    background.run_passes(COLLECT, &plans).unwrap();
    assert_eq!(db.stats().gcs, LITTERED as u64);
    nothing_is_lost(&db);
    drop(db);
    machine.check();
}
