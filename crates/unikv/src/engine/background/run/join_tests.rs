use super::*;
use crate::base::keys::{FileNumber, KEYSPACE_PREFIX_LEN};
use crate::db::Db;
use crate::engine::health::MERGE;
use crate::engine::tests::common::{delete, flush_around, key, put, scan_beside_writers, version};
use crate::engine::tests::{Machine, Model, churn, common, small};
use crate::jobs::ingest::IngestPlan;
use crate::jobs::partitioning::join;
use crate::testing::limit;
use crate::version::{Generation, Partition};
use crate::vfs::sim::{Fault, Keep, Op, ReadCall};
use crate::{ErrorKind, Options, Tuning};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

type Sides = [PartitionId; 2];

const KEYS: u32 = 300;

/// Never splits, and joins whatever there is.
fn whole() -> Options {
    small()
        .tuning(
            Tuning::default()
                .key_table_bytes(1 << 10)
                .partition_bytes(1 << 40),
        )
        .inline_value_bytes(16)
}

/// Splits what can be split.
fn tiny() -> Options {
    whole().tuning(Tuning::default().partition_bytes(4 << 10))
}

fn all_the_same(db: &Db, model: &Model) {
    common::all_the_same(db, model, KEYS);
}

/// The ids of the two partitions there are. Their leases are taken before a worker can join them.
fn lease_both(db: &Db) -> Sides {
    let catalog = db.0.engine.catalog.lock();
    let partitions = catalog.version.partitions().to_vec();
    let [left, right] = &partitions[..] else {
        panic!("there are not two partitions");
    };
    let sides = [left.id, right.id];
    db.0.engine.background.scheduler.leases.hold(sides);
    sides
}

fn release(db: &Db, sides: Sides) {
    let leases = &db.0.engine.background.scheduler.leases;
    for side in sides {
        leases.release(side);
    }
}

/// A database of two partitions that share tables of their UnsortedStores, and have SortedStores.
/// No job but the test's touches them.
fn halved(machine: &Machine, rng: &mut SmallRng) -> (Db, Model, Sides) {
    let (db, _) = machine.open(whole().tuning(Tuning::default().unsorted_bytes(64 << 10)));
    let mut model = Model::new();
    churn(&db, &mut model, rng, 1500);
    db.compact().unwrap();
    churn(&db, &mut model, rng, 30);
    db.flush().unwrap();
    churn(&db, &mut model, rng, 5);
    let one = Arc::clone(&version(&db).partitions()[0]);
    assert_eq!(
        db.0.engine.background.split_leased(&one).unwrap(),
        Ended::Done
    );
    let sides = lease_both(&db);
    (db, model, sides)
}

fn side(db: &Db, id: PartitionId) -> Arc<Partition> {
    Arc::clone(version(db).partition(id).unwrap())
}

/// The record files that are tables of a partition.
fn tables_of(partition: &Partition) -> BTreeSet<FileNumber> {
    let tables = partition.generations.iter().flat_map(Generation::tables);
    tables.map(|(_, table)| table.meta().number).collect()
}

/// Merges all that a side has.
fn merge_all(db: &Db, id: PartitionId) {
    db.0.engine.catalog.lock().freeze(&side(db, id));
    assert!(db.0.engine.background.merge_frozen(id).unwrap());
    assert!(side(db, id).generations.is_empty());
}

fn pair(entry: crate::Result<(crate::Bytes, crate::Bytes)>) -> (Vec<u8>, Vec<u8>) {
    entry.map(|(k, v)| (k.to_vec(), v.to_vec())).unwrap()
}

#[test]
fn a_join_of_merged_neighbours_writes_nothing_but_its_edit() {
    let machine = Machine::new(61);
    let (db, model, sides) = halved(&machine, &mut SmallRng::seed_from_u64(61));
    db.flush().unwrap();
    sides.iter().for_each(|id| merge_all(&db, *id));
    let before = db.stats();
    let border = before.partitions[1].start.clone();
    let tables = |db: &Db| -> Vec<FileNumber> {
        let version = version(db);
        version.key_tables().map(|t| t.meta().number).collect()
    };
    let key_tables = tables(&db);
    assert_eq!(
        db.0.engine.background.join_leased(sides).unwrap(),
        Ended::Done
    );
    release(&db, sides);
    let after = db.stats();
    assert_eq!(after.partitions.len(), 1);
    assert_eq!(
        (after.partitions[0].start.clone(), &after.partitions[0].end),
        (Vec::new(), &None)
    );
    let whole_of = |stats: &crate::Stats| {
        let parts = stats.partitions.iter();
        let bytes: u64 = parts.clone().map(|p| p.data_bytes).sum();
        let keys: u64 = parts.map(|p| p.sorted_keys).sum();
        let written = stats.merge_bytes + stats.flush_bytes + stats.gc_bytes;
        (bytes, keys, written, stats.record_live_bytes)
    };
    assert_eq!(whole_of(&after), whole_of(&before));
    assert_eq!(tables(&db), key_tables);
    assert_eq!((after.joins, after.lifetime.joins), (1, 1));
    let manifest = after.manifest_bytes - before.manifest_bytes;
    assert!(
        manifest < 800 * key_tables.len() as u64 + 1000,
        "{manifest}"
    );
    all_the_same(&db, &model);
    // Across what was the border, both ways.
    let mut across = db.iter();
    across.seek(&border);
    assert_eq!(
        across.next().map(pair).map(|(k, _)| k),
        model.range(border.clone()..).next().map(|(k, _)| k.clone())
    );
    let last = db.range(..border.clone()).next_back().map(pair);
    assert_eq!(
        last.map(|(k, _)| k),
        model.range(..border).next_back().map(|(k, _)| k.clone())
    );
    db.close().unwrap();
    machine.check();
    let (db, _) = machine.open(whole());
    assert_eq!(db.stats().partitions.len(), 1);
    assert_eq!(db.stats().lifetime.joins, 1);
    all_the_same(&db, &model);
}

#[test]
fn what_is_unmerged_is_merged_before_a_join() {
    let machine = Machine::new(62);
    let mut rng = SmallRng::seed_from_u64(62);
    let (db, mut model, sides) = halved(&machine, &mut rng);
    for id in sides {
        assert!(!side(&db, id).generations.is_empty());
    }
    // Generations of their own, too, and what is in the memtable goes to the joined partition.
    churn(&db, &mut model, &mut rng, 60);
    db.flush().unwrap();
    churn(&db, &mut model, &mut rng, 20);
    assert_eq!(
        db.0.engine.background.join_leased(sides).unwrap(),
        Ended::Done
    );
    release(&db, sides);
    let stands = version(&db);
    let [one] = &stands.partitions().to_vec()[..] else {
        panic!("they are joined");
    };
    assert!(one.generations.is_empty() && !sides.contains(&one.id));
    assert!(db.0.engine.catalog.lock().targets.is_empty());
    all_the_same(&db, &model);
    churn(&db, &mut model, &mut rng, 200);
    db.flush().unwrap();
    all_the_same(&db, &model);
    db.close().unwrap();
    machine.check();
    all_the_same(&machine.open(whole()).0, &model);
}

#[test]
fn what_one_side_has_merged_of_a_shared_table_does_not_come_back() {
    let machine = Machine::new(63);
    let (db, mut model, sides) = halved(&machine, &mut SmallRng::seed_from_u64(63));
    let snapshot_of = |model: &Model| (db.snapshot(), model.clone());
    let [left, right] = sides;
    let border = side(&db, right).start[KEYSPACE_PREFIX_LEN..].to_vec();
    let is_left = |i: &u32| key(*i) < border;
    for i in 0..KEYS {
        put(&db, &mut model, i, 1);
    }
    db.flush().unwrap();
    let then = snapshot_of(&model);
    merge_all(&db, left);
    // The left side goes on: its keys are deleted or overwritten, and that is merged, too.
    for i in (0..KEYS).filter(is_left) {
        match i % 3 {
            0 => delete(&db, &mut model, i),
            1 => put(&db, &mut model, i, 2),
            _ => {}
        }
    }
    db.flush().unwrap();
    merge_all(&db, left);
    // The right side still lists tables in which the left side's keys have old values.
    let of_right = tables_of(&side(&db, right));
    let stands = version(&db);
    let first_left = |file: &FileNumber| {
        stands.record_file(*file).unwrap().meta().min_key < stands.partition(right).unwrap().start
    };
    assert!(of_right.iter().any(first_left), "shared tables");
    let id = PartitionId(stands.counters.next_partition);
    assert!(join::edit(&side(&db, left), &side(&db, right), id).is_none());
    assert_eq!(
        db.0.engine.background.join_leased(sides).unwrap(),
        Ended::Done
    );
    release(&db, sides);
    assert_eq!(version(&db).partitions().len(), 1);
    for round in 0..3 {
        all_the_same(&db, &model);
        let (snapshot, model_then) = &then;
        for i in 0..KEYS {
            let value = snapshot.get(key(i)).unwrap();
            assert_eq!(
                value.as_deref(),
                model_then.get(&key(i)).map(|v| &v[..]),
                "{round}"
            );
        }
        assert!(snapshot.iter().map(pair).eq(model_then.clone()));
        put(&db, &mut model, round, 9);
        db.compact().unwrap();
    }
    drop(then);
    db.close().unwrap();
    machine.check();
    all_the_same(&machine.open(whole()).0, &model);
}

#[test]
fn only_merged_neighbours_that_meet_make_an_edit() {
    let machine = Machine::new(64);
    let (db, _, sides) = halved(&machine, &mut SmallRng::seed_from_u64(64));
    let [left, right] = sides.map(|id| side(&db, id));
    let id = PartitionId(99);
    assert!(join::edit(&left, &right, id).is_none(), "both have tables");
    merge_all(&db, left.id);
    let left = side(&db, left.id);
    assert!(join::edit(&left, &right, id).is_none(), "one has tables");
    merge_all(&db, right.id);
    let right = side(&db, right.id);
    assert!(
        join::edit(&right, &left, id).is_none(),
        "the wrong way round"
    );
    assert!(join::edit(&left, &left, id).is_none());
    let edit = join::edit(&left, &right, id).unwrap();
    assert_eq!(edit.dropped_partitions, sides);
    assert_eq!(
        edit.key_tables.len(),
        left.key_tables.len() + right.key_tables.len()
    );
    assert!(edit.tables.is_empty() && edit.record_files.is_empty());
}

#[test]
fn a_flush_goes_by_the_partition_that_stands_when_it_commits() {
    let machine = Machine::new(65);
    let (db, mut model, sides) = halved(&machine, &mut SmallRng::seed_from_u64(65));
    db.flush().unwrap();
    for i in [0, KEYS / 2, KEYS - 1] {
        put(&db, &mut model, i, 7);
    }
    let engine = &db.0.engine;
    // Both sides have an open generation that is to take the tables.
    churn(&db, &mut model, &mut SmallRng::seed_from_u64(1), 20);
    db.flush().unwrap();
    (0..KEYS)
        .step_by(30)
        .for_each(|i| put(&db, &mut model, i, 8));
    let owners = flush_around(&db, || {
        assert_eq!(engine.background.join_leased(sides).unwrap(), Ended::Done)
    });
    assert_eq!(owners, (2, 1), "open generations are to take the tables");
    release(&db, sides);
    all_the_same(&db, &model);
    churn(&db, &mut model, &mut SmallRng::seed_from_u64(2), 200);
    all_the_same(&db, &model);
    db.close().unwrap();
    machine.check();
    all_the_same(&machine.open(whole()).0, &model);
}

#[test]
fn what_is_flushed_between_the_merges_and_the_commit_is_merged_as_well() {
    let machine = Machine::new(66);
    let (db, mut model, sides) = halved(&machine, &mut SmallRng::seed_from_u64(66));
    let engine = &db.0.engine;
    for round in 0..3 {
        let attempt = engine.background.try_to_join(sides).unwrap();
        assert!(matches!(attempt, Attempt::ToBeMerged), "{round}");
        for id in sides {
            assert!(engine.background.merge_frozen(id).unwrap());
        }
        if round < 2 {
            // The first time on both sides, then on one.
            (0..KEYS)
                .step_by(40 << (8 * round))
                .for_each(|i| put(&db, &mut model, i, 3));
            db.flush().unwrap();
        }
    }
    assert!(matches!(
        engine.background.try_to_join(sides).unwrap(),
        Attempt::Joined
    ));
    release(&db, sides);
    all_the_same(&db, &model);
    db.close().unwrap();
    machine.check();
}

#[test]
fn a_join_that_flushes_foil_is_given_up_and_tried_again_later() {
    let machine = Machine::new(67);
    let (db, mut model, sides) = halved(&machine, &mut SmallRng::seed_from_u64(67));
    release(&db, sides);
    let engine = &db.0.engine;
    // Each merge meets a flush.
    let (writer, mut flushes) = (db.clone(), 0);
    machine.disk.set_fault(Box::new(move |call| {
        let is_key_table = call.path.extension().is_some_and(|e| e == "key");
        if call.op == Op::Create && is_key_table && flushes < 50 {
            flushes += 1;
            writer.put(key(flushes * 5), [5; 200]).unwrap();
            writer.put(key(KEYS - 1), [5; 200]).unwrap();
            writer.flush().unwrap();
        }
        Fault::None
    }));
    assert!(engine.background.join_one().unwrap());
    assert_eq!(version(&db).partitions().len(), 2);
    assert!(!engine.background.join_one().unwrap(), "it is left alone");
    assert!(engine.background.scheduler.forget_given_up());
    assert!(engine.background.scheduler.leases.are_free());
    machine.disk.clear_faults();
    for i in (1..=50).map(|i| i * 5).chain([KEYS - 1]) {
        if db
            .get(key(i))
            .unwrap()
            .is_some_and(|value| value[..] == [5; 200])
        {
            model.insert(key(i), vec![5; 200]);
        }
    }
    all_the_same(&db, &model);
    db.wait_until_idle().unwrap();
    assert_eq!(version(&db).partitions().len(), 1);
    assert_eq!(engine.core.counters.joins.load(Ordering::Relaxed), 1);
    all_the_same(&db, &model);
    db.close().unwrap();
    machine.check();
}

#[test]
fn an_ingest_that_was_divided_before_a_join_is_divided_again() {
    let machine = Machine::new(68);
    let (db, model, sides) = halved(&machine, &mut SmallRng::seed_from_u64(68));
    let files = version(&db).record_files().to_vec();
    let of_all: Vec<_> = files.into_iter().filter(|f| f.meta().key_section).collect();
    let mut plan = IngestPlan::new(of_all);
    plan.divide(&version(&db)).unwrap();
    assert!(plan.is_complete(&version(&db)));
    assert_eq!(
        db.0.engine.background.join_leased(sides).unwrap(),
        Ended::Done
    );
    assert!(!plan.is_complete(&version(&db)));
    release(&db, sides);
    // And one that comes after a join.
    let entries = (0..KEYS).map(|i| (key(i), Some(vec![4; 100])));
    let stream = entries.clone().map(Ok::<_, crate::Error>);
    db.ingest_sorted(stream, None).unwrap();
    let mut model = model;
    model.extend(entries.map(|(key, value)| (key, value.unwrap())));
    all_the_same(&db, &model);
    db.close().unwrap();
    machine.check();
    all_the_same(&machine.open(whole()).0, &model);
}

#[test]
fn iterators_and_snapshots_from_before_a_join_see_their_moment() {
    let machine = Machine::new(69);
    let mut rng = SmallRng::seed_from_u64(69);
    let (db, mut model, mut sides) = halved(&machine, &mut rng);
    let then: Vec<_> = model.clone().into_iter().collect();
    let snapshot = db.snapshot();
    let (mut forward, mut backward, mut released) = (db.iter(), db.iter(), db.iter());
    let mut ahead: Vec<_> = forward.by_ref().take(20).map(pair).collect();
    let mut back: Vec<_> = backward.by_ref().rev().take(20).map(pair).collect();
    let mut again: Vec<_> = released.by_ref().take(20).map(pair).collect();
    for _ in 0..4 {
        assert_eq!(
            db.0.engine.background.join_leased(sides).unwrap(),
            Ended::Done
        );
        released.release();
        again.extend(released.by_ref().take(20).map(pair));
        churn(&db, &mut model, &mut rng, 150);
        db.flush().unwrap();
        release(&db, sides);
        let one = Arc::clone(&version(&db).partitions()[0]);
        assert_eq!(
            db.0.engine.background.split_leased(&one).unwrap(),
            Ended::Done
        );
        sides = lease_both(&db);
    }
    assert_eq!(
        db.0.engine.background.join_leased(sides).unwrap(),
        Ended::Done
    );
    release(&db, sides);
    db.compact().unwrap();
    ahead.extend(forward.map(pair));
    back.extend(backward.rev().map(pair));
    again.extend(released.map(pair));
    back.reverse();
    assert_eq!(ahead, then);
    assert_eq!(back, then);
    assert_eq!(again, then);
    assert_eq!(snapshot.iter().map(pair).collect::<Vec<_>>(), then);
    for (key, value) in &then {
        assert_eq!(snapshot.get(key).unwrap().as_deref(), Some(&value[..]));
    }
    all_the_same(&db, &model);
    db.close().unwrap();
    machine.check();
}

/// A closed database of two partitions with something to merge on both sides.
fn closed_in_halves(machine: &Machine) -> Model {
    let mut rng = SmallRng::seed_from_u64(70);
    let (db, mut model, _) = halved(machine, &mut rng);
    churn(&db, &mut model, &mut rng, 20);
    db.flush().unwrap();
    churn(&db, &mut model, &mut rng, 5);
    db.sync().unwrap();
    db.close().unwrap();
    model
}

/// Opens a copy of it; returns what is to be joined.
fn reopened(machine: &Machine) -> (Machine, Db, Sides) {
    let copy = Machine {
        disk: machine.disk.process_kill(),
        seed: machine.seed,
    };
    let (db, _) = copy.open(whole());
    let sides = lease_both(&db);
    (copy, db, sides)
}

/// Calls that change the disk while a join with its merges is made.
fn calls_of_a_join(machine: &Machine) -> u64 {
    let (copy, db, sides) = reopened(machine);
    let begin = copy.disk.calls();
    assert_eq!(
        db.0.engine.background.join_leased(sides).unwrap(),
        Ended::Done
    );
    copy.disk.calls() - begin
}

#[test]
fn a_power_cut_at_any_call_of_a_join_leaves_all_or_nothing_of_it() {
    let machine = Machine::new(70);
    let model = closed_in_halves(&machine);
    let calls = calls_of_a_join(&machine);
    assert!(calls >= 9, "two merges and a join: {calls}");
    let mut outcomes = [0, 0];
    for call in 0..calls {
        for keep in [
            Keep::Nothing,
            Keep::All,
            Keep::Prefix(call),
            Keep::Torn(call),
        ] {
            let (copy, db, sides) = reopened(&machine);
            copy.cut_power_after(call);
            let _may_fail = db.0.engine.background.join_leased(sides);
            let after = Machine {
                disk: copy.disk.power_cut(keep),
                seed: 70,
            };
            after.check();
            let (db, _) = after.open(whole());
            outcomes[version(&db).partitions().len() - 1] += 1;
            all_the_same(&db, &model);
            db.wait_until_idle().unwrap();
            assert_eq!(version(&db).partitions().len(), 1);
            all_the_same(&db, &model);
            db.close().unwrap();
            after.check();
        }
    }
    assert!(outcomes.iter().all(|n| *n > 0), "{outcomes:?}");
}

#[test]
fn a_failing_call_of_a_join_loses_nothing() {
    let machine = Machine::new(71);
    let model = closed_in_halves(&machine);
    let mut joined = 0;
    for call in 0..calls_of_a_join(&machine) {
        for kind in [std::io::ErrorKind::Other, std::io::ErrorKind::StorageFull] {
            let (copy, db, sides) = reopened(&machine);
            release(&db, sides);
            let engine = &db.0.engine;
            let at = copy.disk.calls() + call;
            copy.disk.set_fault(Box::new(move |c| {
                if c.index == at {
                    Fault::Fail(kind)
                } else {
                    Fault::None
                }
            }));
            let _noted = engine.background.join_one();
            copy.disk.clear_faults();
            assert!(engine.background.scheduler.leases.are_free());
            all_the_same(&db, &model);
            // Tried again, be it after a rest, unless writing is suspended until a reopening.
            let never = engine.core.store.env().runtime.event();
            let quiet = loop {
                match db.wait_until_idle() {
                    Ok(()) if !engine.space.full_disk.is_full() => break true,
                    Err(error) if error.kind() == ErrorKind::WritesSuspended => break false,
                    _ => never.wait_past(never.epoch(), Some(Duration::from_secs(1))),
                }
            };
            all_the_same(&db, &model);
            if quiet {
                assert_eq!(version(&db).partitions().len(), 1);
                joined += 1;
            }
            drop(db);
            copy.check();
            let (db, _) = copy.open(whole());
            all_the_same(&db, &model);
        }
    }
    assert!(joined > 10, "{joined}");
}

#[test]
fn a_side_that_cannot_be_merged_is_not_joined_until_it_can() {
    let machine = Machine::new(72);
    let model = closed_in_halves(&machine);
    let (copy, db, sides) = reopened(&machine);
    let engine = &db.0.engine;
    let is_data = |call: &ReadCall<'_>| call.path.extension().is_some_and(|e| e == "rec");
    copy.disk.set_read_fault(Box::new(move |call| {
        is_data(call).then_some(std::io::ErrorKind::Other)
    }));
    release(&db, sides);
    assert!(engine.background.join_one().unwrap());
    let failure = engine.core.health.failures();
    assert_eq!((failure.len(), failure[0].job), (1, MERGE));
    engine.background.scheduler.forget_given_up();
    assert!(
        !engine.background.join_one().unwrap(),
        "its merge has failed"
    );
    assert_eq!(db.wait_until_idle().unwrap_err().kind(), ErrorKind::Io);
    copy.disk.clear_faults();
    engine
        .core
        .health
        .job_succeeded(failure[0].job, failure[0].partition);
    db.wait_until_idle().unwrap();
    assert_eq!(version(&db).partitions().len(), 1);
    assert!(!engine.core.health.has_failures());
    all_the_same(&db, &model);
    db.close().unwrap();
    copy.check();
}

#[test]
fn no_join_takes_a_partition_whose_lease_is_held_nor_any_while_the_disk_is_full() {
    let machine = Machine::new(73);
    let (db, model, sides) = halved(&machine, &mut SmallRng::seed_from_u64(73));
    let engine = &db.0.engine;
    for held in sides {
        release(&db, sides);
        engine.background.scheduler.leases.hold([held]);
        assert!(!engine.background.join_one().unwrap());
    }
    release(&db, sides);
    let full = std::io::ErrorKind::StorageFull.into();
    let full = crate::Error::io("write", std::path::Path::new("/db"), full);
    assert!(engine.space.full_disk.begin(&engine.core.store, &full));
    assert!(!engine.background.join_one().unwrap());
    let never = engine.core.store.env().runtime.event();
    while engine.space.full_disk.is_full() {
        assert_eq!(version(&db).partitions().len(), 2);
        never.wait_past(never.epoch(), Some(Duration::from_millis(100)));
        engine.core.work.notify();
    }
    db.wait_until_idle().unwrap();
    assert_eq!(version(&db).partitions().len(), 1);
    assert!(!engine.background.join_one().unwrap(), "one is alone");
    all_the_same(&db, &model);
}

#[test]
fn another_partition_size_joins_what_was_split() {
    let machine = Machine::new(74);
    let mut model = Model::new();
    let mut rng = SmallRng::seed_from_u64(74);
    let (db, _) = machine.open(tiny());
    churn(&db, &mut model, &mut rng, 1500);
    db.wait_until_idle().unwrap();
    let many = version(&db).partitions().len();
    assert!(many > 6, "{many}");
    db.close().unwrap();
    let data: u64 = db_data(&machine);
    // Half of the data in each partition: they stay several, but fewer.
    let (db, _) = machine.open(whole().tuning(Tuning::default().partition_bytes(2 * data)));
    let snapshot = (db.snapshot(), model.clone());
    db.wait_until_idle().unwrap();
    let fewer = version(&db).partitions().len();
    assert!(fewer > 1 && fewer < many, "{many} to {fewer}");
    all_the_same(&db, &model);
    churn(&db, &mut model, &mut rng, 100);
    db.close().unwrap();
    machine.check();
    let (db, _) = machine.open(whole());
    all_the_same(&db, &model);
    db.wait_until_idle().unwrap();
    assert_eq!(version(&db).partitions().len(), 1);
    all_the_same(&db, &model);
    drop(snapshot);
    db.close().unwrap();
    machine.check();
}

/// Bytes of the partitions of a closed database.
fn db_data(machine: &Machine) -> u64 {
    let copy = Machine {
        disk: machine.disk.process_kill(),
        seed: machine.seed,
    };
    let (db, _) = copy.open(tiny());
    db.stats().partitions.iter().map(|p| p.data_bytes).sum()
}

#[test]
fn splits_and_joins_come_to_rest() {
    for seed in 0..6 {
        let machine = Machine::new(seed);
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut model = Model::new();
        let (db, _) = machine.open(tiny().tuning(Tuning::default().partition_bytes(8 << 10)));
        let (mut splits, mut joins) = (0, 0);
        for _ in 0..4 {
            churn(&db, &mut model, &mut rng, 600);
            let from = rng.random_range(0..KEYS);
            (from..KEYS.min(from + 150)).for_each(|i| delete(&db, &mut model, i));
            db.compact().unwrap();
            db.wait_until_idle().unwrap();
            let stats = db.stats();
            let catalog = db.0.engine.catalog.lock();
            assert_eq!(catalog.partitions().joins().count(), 0, "{stats:#?}");
            drop(catalog);
            for _ in 0..3 {
                db.compact().unwrap();
                db.wait_until_idle().unwrap();
                let again = db.stats();
                assert_eq!((again.splits, again.joins), (stats.splits, stats.joins));
            }
            (splits, joins) = (stats.splits, stats.joins);
            all_the_same(&db, &model);
        }
        assert!(splits > 4 && joins > 4, "{splits} splits, {joins} joins");
        db.close().unwrap();
        machine.check();
    }
}

#[test]
fn an_emptied_partition_goes_to_a_neighbour_of_any_size() {
    let machine = Machine::new(75);
    let (db, _) = machine.open(tiny().tuning(Tuning::default().partition_bytes(32 << 10)));
    let mut model = Model::new();
    (0..KEYS).for_each(|i| put(&db, &mut model, i, 1));
    db.compact().unwrap();
    db.wait_until_idle().unwrap();
    let many = version(&db).partitions().len();
    assert!(many >= 3, "{many}");
    let middle = Arc::clone(&version(&db).partitions()[1]);
    let bounds = [Some(&middle.start), middle.end.as_ref()];
    let [from, to] = bounds.map(|key| key.unwrap()[KEYSPACE_PREFIX_LEN..].to_vec());
    let doomed = (0..KEYS).filter(|i| (&from..&to).contains(&&key(*i)));
    doomed.for_each(|i| delete(&db, &mut model, i));
    db.compact().unwrap();
    db.wait_until_idle().unwrap();
    let left = db.stats().partitions;
    assert_eq!(left.len(), many - 1, "{left:#?}");
    let sums = left
        .windows(2)
        .map(|two| two[0].data_bytes + two[1].data_bytes);
    assert!(sums.min() >= Some(8 << 10), "{left:#?}");
    all_the_same(&db, &model);
    db.close().unwrap();
    machine.check();
}

#[test]
fn a_window_that_moves_over_ascending_keys_leaves_no_trail_of_partitions() {
    const WINDOW: u32 = 500;
    const WRITES: u32 = 8000;
    let machine = Machine::new(76);
    let (db, runtime) = machine.open(tiny().tuning(Tuning::default().partition_bytes(16 << 10)));
    let key = |i: u32| format!("{i:08}");
    let mut most = 0;
    for i in 0..WRITES {
        db.put(key(i), [i as u8; 100]).unwrap();
        if let Some(old) = i.checked_sub(WINDOW) {
            db.delete(key(old)).unwrap();
        }
        // The background keeps up.
        if i % 100 == 0 {
            runtime.run_until_idle();
        }
        if i % 500 == 0 {
            most = most.max(db.stats().partitions.len());
        }
    }
    let stats = db.stats();
    let counts = (stats.splits, stats.joins, most);
    assert!(
        counts.0 > 50 && counts.1 > 50 && counts.2 < 40,
        "{counts:?}"
    );
    assert_eq!(db.iter().count(), WINDOW as usize);
    db.compact().unwrap();
    db.wait_until_idle().unwrap();
    let left = db.stats().partitions.len();
    assert!(left <= 16, "{left}");
    let expected = (WRITES - WINDOW..WRITES).map(|i| (key(i).into_bytes(), vec![i as u8; 100]));
    assert!(db.iter().map(pair).eq(expected));
    db.close().unwrap();
    machine.check();
}

#[test]
fn a_thousand_emptied_partitions_become_few_and_what_is_known_of_them_shrinks() {
    const KEYS: u32 = 150_000;
    const LEFT: u32 = 1000;
    let machine = Machine::new(77);
    let options = || {
        Options::default()
            .tuning(
                Tuning::default()
                    .memtable_bytes(1 << 20)
                    .unsorted_bytes(1 << 20)
                    .key_table_bytes(1 << 10)
                    .partition_bytes(4 << 10),
            )
            .memory_budget(128 << 20)
    };
    let key = |i: u32| format!("{i:08}");
    let (db, _) = machine.open(options());
    let write = |fill: &dyn Fn(&mut crate::Batch, u32), keys: std::ops::Range<u32>| {
        for from in keys.clone().step_by(1000) {
            let mut batch = crate::Batch::new();
            (from..keys.end.min(from + 1000)).for_each(|i| fill(&mut batch, i));
            db.write(&batch).unwrap();
        }
    };
    write(
        &|batch, i| {
            batch.put(key(i), format!("value{i}"));
        },
        0..KEYS,
    );
    db.compact().unwrap();
    db.wait_until_idle().unwrap();
    let before = db.stats();
    assert!(before.partitions.len() >= 1000);
    write(
        &|batch, i| {
            batch.delete(key(i));
        },
        LEFT..KEYS,
    );
    db.compact().unwrap();
    db.wait_until_idle().unwrap();
    let after = db.stats();
    assert!(after.partitions.len() < 30, "{}", after.partitions.len());
    assert!(after.joins as usize > before.partitions.len() / 2);
    let metadata = (before.memory.metadata, after.memory.metadata);
    assert!(metadata.1 < metadata.0 / 20, "{metadata:?}");
    assert_eq!(db.iter().count(), LEFT as usize);
    db.close().unwrap();
    machine.check();
    let (db, _) = machine.open(options());
    // A new manifest holds one snapshot.
    let manifest = db.stats().manifest_bytes;
    assert!(manifest < 40 << 10, "{manifest}");
    let expected = (0..LEFT).map(|i| (key(i).into_bytes(), format!("value{i}").into_bytes()));
    assert!(db.iter().map(pair).eq(expected));
}

#[test]
fn threads_join_beside_writers_and_readers() {
    let dir = tempfile::tempdir().unwrap();
    let options = || {
        tiny().tuning(
            Tuning::default()
                .background_threads(4)
                .memtable_bytes(8 << 10),
        )
    };
    let db = Db::open(dir.path(), options()).unwrap();
    let key = |w: u32, i: u32| format!("{i:05}-{w}");
    const WINDOW: u32 = 200;
    const WRITES: u32 = 3000;
    let _limit = limit("writers, readers and joins");
    std::thread::scope(|scope| {
        for w in 0..3 {
            let db = &db;
            scope.spawn(move || {
                let mut rng = SmallRng::seed_from_u64(u64::from(w));
                for i in 0..WRITES {
                    db.put(key(w, i), format!("{i}-{}", "v".repeat(i as usize % 60)))
                        .unwrap();
                    if let Some(old) = i.checked_sub(WINDOW) {
                        db.delete(key(w, old)).unwrap();
                    }
                    let there = rng.random_range(i.saturating_sub(WINDOW - 1)..=i);
                    let found = db.get(key(w, there)).unwrap().unwrap();
                    assert!(found.starts_with(format!("{there}-").as_bytes()));
                    let gone = rng.random_range(0..=i);
                    let found = db.get(key(w, gone)).unwrap();
                    assert_eq!(found.is_some(), gone + WINDOW > i, "{gone} of {i}");
                }
            });
        }
        scope.spawn(|| scan_beside_writers(&db));
    });
    db.wait_until_idle().unwrap();
    let stats = db.stats();
    assert!(stats.splits > 3 && stats.joins > 3, "{stats:#?}");
    assert_eq!(db.iter().count(), 3 * WINDOW as usize);
    db.close().unwrap();
    let report = Db::check(dir.path()).unwrap();
    assert!(report.is_clean(), "{:#?}", report.problems);
    let db = Db::open(dir.path(), options()).unwrap();
    assert_eq!(db.iter().rev().count(), 3 * WINDOW as usize);
}
