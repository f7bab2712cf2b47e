use crate::base::file_header::HEADER_LEN;
use crate::db::Db;
use crate::engine::tests::common::{all_the_same, delete, flush_apart, key, put, version};
use crate::engine::tests::{Machine, Model, same, small};
use crate::jobs::compact::cluster;
use crate::key_table::STREAMED_BYTES;
use crate::partition::scan_sources::{self, MOST_FILES};
use crate::record::RecordFile;
use crate::vfs::sim::{Fault, Op};
use crate::{Batch, Clustering, Error, Options, Tuning};
use std::sync::Arc;
use std::time::Duration;

const KEYS: u32 = 400;

/// Key tables of some sixty keys, in one partition.
fn idle() -> Options {
    small()
        .clustering(Clustering::Automatic)
        .tuning(
            Tuning::default()
                .unsorted_bytes(1 << 20)
                .key_table_bytes(1 << 10)
                .partition_bytes(1 << 30),
        )
        .max_space_amp(4.0)
}

/// Writes neighbours at `rounds` different times, and merges.
fn scatter(db: &Db, model: &mut Model, rounds: u32, stamp: u8) {
    flush_apart(db, model, KEYS, rounds, stamp);
    db.compact().unwrap();
}

/// A database whose neighbours were written at eight different times, all merged.
fn scattered(seed: u64) -> (Machine, Db, Model) {
    let machine = Machine::new(seed);
    let (db, _) = machine.open(idle());
    let mut model = Model::new();
    scatter(&db, &mut model, 8, 0);
    (machine, db, model)
}

/// The database holds what the model holds, closes, and its files are in order.
fn ends_well(machine: &Machine, db: Db, model: &Model) {
    all_the_same(&db, model, KEYS);
    db.close().unwrap();
    machine.check();
}

/// What a failure has left apart lies together once the database was opened again; then it ends
/// well.
fn a_new_opening_tries_again(machine: &Machine, db: Db, model: &Model) {
    db.close().unwrap();
    let (db, _) = machine.open(idle());
    db.wait_until_idle().unwrap();
    assert_eq!(db.stats().clusterings, 1);
    // What was written since may stay apart, if that is little.
    assert!(most_files(&db) <= MOST_FILES);
    ends_well(machine, db, model);
}

/// Lets the background work for so long.
fn pass(db: &Db, time: Duration) {
    let nothing = db.0.engine.core.store.env().runtime.event();
    nothing.wait_past(nothing.epoch(), Some(time));
}

/// In how many files the key tables have their values, at most.
fn most_files(db: &Db) -> usize {
    let version = version(db);
    let files = version.key_tables().map(|table| table.meta().refs.len());
    files.max().unwrap()
}

#[test]
fn values_lie_together_when_the_background_is_quiet_and_are_copied_once() {
    let (machine, db, mut model) = scattered(71);
    assert!(most_files(&db) >= 8 && db.stats().clusterings == 0);
    db.wait_until_idle().unwrap();
    let stats = db.stats();
    assert_eq!((most_files(&db), stats.clusterings, stats.gcs), (1, 1, 0));
    assert_eq!(version(&db).record_files().len(), 1, "the others are gone");
    all_the_same(&db, &model, KEYS);

    // What stays as it is, is not copied again; what is rewritten makes a second stretch.
    for round in 0..5 {
        for i in (round..KEYS).step_by(20) {
            put(&db, &mut model, i, 90);
        }
        delete(&db, &mut model, 7 * round);
        db.flush().unwrap();
    }
    db.compact().unwrap();
    db.wait_until_idle().unwrap();
    let copied = db.stats().clustered_bytes - stats.clustered_bytes;
    assert!(copied < stats.clustered_bytes / 2, "{copied} bytes");
    assert_eq!((most_files(&db), db.stats().clusterings), (2, 2));
    same(&db, &model);
    db.close().unwrap();
    machine.check();
    let (db, _) = machine.open(idle());
    all_the_same(&db, &model, KEYS);
    db.close().unwrap();
}

#[test]
fn what_readers_had_in_memory_they_have_there_after_it_has_moved() {
    let (machine, db, model) = scattered(85);
    db.close().unwrap();
    let (db, _) = machine.open(idle().memory_budget(64 << 20));
    let reads = |keys: &[u32]| {
        let before = db.stats().reads;
        for key in keys.iter().map(|i| key(*i)) {
            assert_eq!(db.get(&key).unwrap().as_ref().unwrap(), &model[&key]);
        }
        db.stats().reads - before
    };
    let hot: Vec<u32> = (0..KEYS).step_by(2).collect();
    assert!(reads(&hot) > hot.len() as u64);
    assert_eq!(reads(&hot), 0);
    db.wait_until_idle().unwrap();
    assert_eq!((most_files(&db), db.stats().clusterings), (1, 1));
    // The keys stand in new blocks, and nothing else is to be read.
    let stands = version(&db);
    let blocks = stands.key_tables().map(|table| table.meta().len / 256 + 4);
    let blocks: u64 = blocks.sum();
    assert!(blocks < hot.len() as u64 / 2, "{blocks} blocks, at most");
    let (again, others) = (
        reads(&hot),
        reads(&(1..KEYS).step_by(2).collect::<Vec<_>>()),
    );
    assert!(
        again <= blocks && others >= hot.len() as u64,
        "{again} and {others} reads"
    );
    db.close().unwrap();
    machine.check();
}

#[test]
fn an_unsorted_store_of_many_tables_is_merged_and_clustered() {
    let machine = Machine::new(72);
    let (db, _) = machine.open(idle());
    let mut model = Model::new();
    flush_apart(&db, &mut model, KEYS, 8, 0);
    assert_eq!(db.stats().merges, 0);
    db.wait_until_idle().unwrap();
    let stats = db.stats();
    assert_eq!((most_files(&db), stats.merges, stats.gcs), (1, 1, 0));
    assert_eq!(version(&db).record_files().len(), 1);

    // A few records are not worth writing all keys again.
    for i in 0..5 {
        put(&db, &mut model, i, 50);
        db.flush().unwrap();
    }
    db.wait_until_idle().unwrap();
    assert_eq!(db.stats().merges, 1);
    // What merges now makes a stretch of its own, and so do the files of flushes that were merged
    // before.
    db.compact().unwrap();
    assert_eq!((most_files(&db), db.stats().merges), (1 + 5, 2));
    flush_apart(&db, &mut model, KEYS, 4, 100);
    db.wait_until_idle().unwrap();
    let stats = db.stats();
    assert!(most_files(&db) <= 3 && stats.merges == 3, "{stats:#?}");
    ends_well(&machine, db, &model);
}

#[test]
fn it_begins_when_nobody_has_written_for_a_second() {
    let (_machine, db, mut model) = scattered(73);
    for i in 0..20 {
        pass(&db, Duration::from_millis(700));
        put(&db, &mut model, i, 1);
    }
    assert_eq!(db.stats().clusterings, 0);
    pass(&db, Duration::from_secs(5));
    assert_eq!(db.stats().clusterings, 1);
    same(&db, &model);
    db.close().unwrap();
}

#[test]
fn garbage_leaves_room_for_it_or_it_waits() {
    // With 2.8 there is not as much room as a collection leaves, and enough before it is all used
    // up.
    for (max_space_amp, clusterings) in [(1.1, 0), (2.8, 1), (4.0, 1)] {
        let machine = Machine::new(74);
        let (db, _) = machine.open(idle().max_space_amp(max_space_amp));
        let mut model = Model::new();
        scatter(&db, &mut model, 8, 0);
        db.wait_until_idle().unwrap();
        assert_eq!(db.stats().clusterings, clusterings, "{max_space_amp}");
        same(&db, &model);
        db.close().unwrap();
    }
}

#[test]
fn several_partitions_have_their_passes_one_after_the_other() {
    let machine = Machine::new(75);
    let options = idle().tuning(Tuning::default().partition_bytes(32 << 10));
    let (db, _) = machine.open(options.clone());
    let mut model = Model::new();
    scatter(&db, &mut model, 12, 0);
    db.wait_until_idle().unwrap();
    let stats = db.stats();
    let partitions = version(&db).partitions().len();
    assert!(partitions >= 3, "{partitions} partitions");
    assert!(stats.clusterings >= partitions as u64 / 2, "{stats:#?}");
    assert!(most_files(&db) <= 3, "{}", most_files(&db));
    let flushed = |file: &Arc<RecordFile>| file.meta().key_section;
    assert!(!version(&db).record_files().iter().any(flushed));
    ends_well(&machine, db, &model);
    let (db, _) = machine.open(options);
    all_the_same(&db, &model, KEYS);
    db.close().unwrap();
}

/// Each partition has little to move: an edit for each would take longer than the copying.
#[test]
fn small_partitions_have_their_slices_together() {
    let machine = Machine::new(79);
    let options = idle().tuning(Tuning::default().partition_bytes(8 << 10));
    let (db, _) = machine.open(options.clone().clustering(Clustering::LeastWriting));
    let mut model = Model::new();
    scatter(&db, &mut model, 12, 0);
    db.wait_until_idle().unwrap();
    db.close().unwrap();
    let (db, _) = machine.open(options);
    let edits = || db.0.engine.catalog.manifest_edits();
    let (before, partitions) = (edits(), version(&db).partitions().len() as u64);
    db.wait_until_idle().unwrap();
    let (made, moved) = (edits() - before, db.stats().clusterings);
    assert!(partitions >= 10, "{partitions} partitions");
    assert!(moved >= partitions / 2, "{moved} of {partitions}");
    assert!(made <= moved / 3, "{made} edits for {moved}");
    assert!(most_files(&db) <= 3, "{}", most_files(&db));
    ends_well(&machine, db, &model);
}

#[test]
fn a_failed_pass_harms_nothing_and_is_not_tried_again() {
    let (machine, db, model) = scattered(76);
    machine.disk.set_fault(Box::new(|call| {
        if call.path.to_string_lossy().ends_with(".key") {
            Fault::Fail(std::io::ErrorKind::Other)
        } else {
            Fault::None
        }
    }));
    let files = machine.disk.file_names();
    db.wait_until_idle().unwrap();
    let stats = db.stats();
    assert_eq!((stats.clusterings, stats.failed_clusterings), (0, 1));
    assert_eq!(machine.disk.file_names(), files, "what was begun is gone");
    machine.disk.clear_faults();
    db.wait_until_idle().unwrap();
    assert_eq!(db.stats().clusterings, 0);
    same(&db, &model);
    a_new_opening_tries_again(&machine, db, &model);
}

#[test]
fn snapshots_keep_their_versions() {
    let machine = Machine::new(77);
    let (db, _) = machine.open(idle());
    let mut model = Model::new();
    scatter(&db, &mut model, 6, 0);
    let (snapshot, then) = (db.snapshot(), model.clone());
    scatter(&db, &mut model, 6, 100);
    db.wait_until_idle().unwrap();
    assert!(db.stats().clusterings > 0);
    for (key, value) in &then {
        assert_eq!(snapshot.get(key).unwrap().as_deref(), Some(&value[..]));
    }
    same(&db, &model);
    drop(snapshot);
    db.close().unwrap();
    machine.check();
}

#[test]
fn a_damaged_value_stays_where_it_is_and_keeps_no_merge_from_its_work() {
    for is_merged in [false, true] {
        let machine = Machine::new(78);
        let (db, _) = machine.open(idle().clustering(Clustering::LeastWriting));
        let mut model = Model::new();
        flush_apart(&db, &mut model, KEYS, 8, 0);
        if is_merged {
            db.compact().unwrap();
        }
        let file = version(&db).record_files()[0].path().to_owned();
        db.close().unwrap();
        // In the midst of the first record after the header.
        assert!(machine.disk.flip_bit(&file, (HEADER_LEN as u64 + 100) * 8));
        let (db, _) = machine.open(idle());
        for round in 4..8 {
            for i in (round..KEYS).step_by(8) {
                put(&db, &mut model, i, 50);
            }
            db.flush().unwrap();
        }
        db.wait_until_idle().unwrap();
        let stats = db.stats();
        assert_eq!((stats.merges, stats.failed_clusterings), (1, 1));
        assert!(version(&db).tables().is_empty(), "all is merged");
        let mut damaged = 0;
        for (key, value) in &model {
            match db.get(key) {
                Ok(found) => assert_eq!(found.as_deref(), Some(&value[..])),
                Err(_) => damaged += 1,
            }
        }
        assert_eq!(damaged, 1);
        db.close().unwrap();
    }
}

/// Lets writers never rest for a number of `tenths` of a second, and calls `meanwhile` in each.
fn busy(db: &Db, model: &mut Model, tenths: u32, mut meanwhile: impl FnMut(&Db)) {
    for tenth in 0..tenths {
        put(db, model, tenth % KEYS, 7);
        meanwhile(db);
        pass(db, Duration::from_millis(100));
    }
}

#[test]
fn scans_cause_it_beside_writers_that_never_rest() {
    let (machine, db, mut model) = scattered(79);
    busy(&db, &mut model, 100, |_| ());
    assert_eq!(db.stats().clusterings, 0, "nobody scans");
    let charged = |db: &Db| scan_sources::charged_in_all(&version(db));
    assert_eq!(charged(&db), 0);
    // Of its records an eighth lies in each of eight files.
    let most_of_a_scan = 50 * (4 << 10);
    let mut lost = 0;
    busy(&db, &mut model, 100, |db| {
        lost = lost.max(charged(db) + most_of_a_scan);
        let old = db.range(key(200)..).expecting(50).take(50);
        assert_eq!(old.count(), 50);
    });
    let stats = db.stats();
    assert_eq!((stats.clusterings, most_files(&db)), (1, 1), "{stats:#?}");
    assert!(lost >= stats.clustered_bytes, "{lost} {stats:#?}");
    assert!(charged(&db) < most_of_a_scan, "and they lose no more");
    ends_well(&machine, db, &model);
}

#[test]
fn slices_are_small_and_what_happens_between_them_changes_only_the_plan() {
    let machine = Machine::new(86);
    let small = idle().tuning(
        Tuning::default()
            .unsorted_bytes(8 << 10)
            .partition_bytes(64 << 10),
    );
    let (db, _) = machine.open(small.clone().clustering(Clustering::LeastWriting));
    let mut model = Model::new();
    scatter(&db, &mut model, 12, 0);
    db.close().unwrap();
    let (db, _) = machine.open(small);
    let mut last = db.stats();
    let mut seen = 0;
    // Somebody who waits makes each slice due, and merges, splits and deletes come between.
    for round in 0..12 {
        let copied = |db: &Db| db.stats().clustered_bytes;
        let before = copied(&db);
        pass(&db, Duration::from_secs(2));
        seen += u64::from(copied(&db) > before);
        for i in (round..KEYS).step_by(40) {
            put(&db, &mut model, i, 100 + round as u8);
        }
        delete(&db, &mut model, 3 * round);
        db.flush().unwrap();
        same(&db, &model);
        let stats = db.stats();
        let slices = stats.clusterings - last.clusterings;
        let bytes = stats.clustered_bytes - last.clustered_bytes;
        assert!(bytes <= slices * ((8 << 10) + 300), "{bytes} in {slices}");
        last = stats;
    }
    db.wait_until_idle().unwrap();
    let stats = db.stats();
    assert!(
        stats.clusterings > 8 && stats.merges > 3 && seen > 1,
        "{stats:#?}"
    );
    assert!(most_files(&db) <= MOST_FILES + 1, "{}", most_files(&db));
    ends_well(&machine, db, &model);
}

/// Of several megabytes it has copied one when it looks, and commits that.
#[test]
fn a_slice_ends_for_a_merge_that_waits() {
    const LEN: usize = 20 << 10;
    let machine = Machine::new(95);
    let (db, runtime) = machine.open(
        idle().tuning(
            Tuning::default()
                .memtable_bytes(4 << 20)
                .unsorted_bytes(64 << 20),
        ),
    );
    let mut model = Model::new();
    let mut write = |keys: &mut dyn Iterator<Item = u32>, fill: u8| {
        for key in keys.map(key) {
            let value = vec![fill; LEN];
            db.put(&key, &value).unwrap();
            model.insert(key, value);
        }
        db.flush().unwrap();
    };
    for part in 0..8 {
        write(&mut (part..KEYS).step_by(8), part as u8);
    }
    db.compact().unwrap();
    // Too little to be merged for scans alone.
    write(&mut (KEYS..KEYS + 2), 100);
    let (inside, mut began) = (db.clone(), false);
    machine.disk.set_fault(Box::new(move |call| {
        let is_first = !began && call.path.to_string_lossy().ends_with(".rec");
        began |= is_first;
        if is_first {
            let mut catalog = inside.0.engine.background.catalog.lock();
            let partition = Arc::clone(&catalog.version.partitions()[0]);
            assert!(catalog.freeze(&partition));
        }
        Fault::None
    }));
    let merges = db.stats().merges;
    let asked = db.0.engine.background.idle.asked.add();
    while db.stats().clusterings == 0 {
        assert!(runtime.run_one(), "nothing is copied");
    }
    drop(asked);
    machine.disk.clear_faults();
    let copied = db.stats().clustered_bytes;
    assert!(copied < (1 << 20) + 2 * LEN as u64, "{copied} bytes");
    assert_eq!(db.stats().merges, merges);
    db.wait_until_idle().unwrap();
    let stats = db.stats();
    assert!(stats.merges > merges && stats.clusterings > 1);
    assert!(stats.clustered_bytes as usize >= 7 * LEN * KEYS as usize / 8);
    ends_well(&machine, db, &model);
}

#[test]
fn what_scans_have_lost_outlives_the_process() {
    let (machine, db, model) = scattered(88);
    // Not enough by half.
    let scans = db.stats().record_live_bytes / (4 * (4 << 10)) / 2;
    for _ in 0..scans {
        let found = db.range(key(200)..).expecting(50).take(50);
        assert_eq!(found.count(), 50);
    }
    let charged = |db: &Db| scan_sources::charged_in_all(&version(db));
    let before = charged(&db);
    assert!(before > 0 && db.stats().clusterings == 0);
    db.close().unwrap();
    let (db, _) = machine.open(idle());
    assert!(
        charged(&db).abs_diff(before) < 8,
        "{} of {before}",
        charged(&db)
    );
    ends_well(&machine, db, &model);
}

/// Values of large batches stand in files of their own, which an unmerged table names.
#[test]
fn values_of_batches_move_when_nothing_unmerged_names_their_file() {
    let machine = Machine::new(89);
    let (db, _) = machine.open(idle());
    let mut model = Model::new();
    let mut batch_of = |part: u32| {
        let mut batch = Batch::new();
        for i in (part..KEYS).step_by(8) {
            let value = vec![part as u8; 300];
            batch.put(key(i), &value);
            model.insert(key(i), value);
        }
        db.write(&batch).unwrap();
        db.flush().unwrap();
    };
    (0..7).for_each(&mut batch_of);
    db.compact().unwrap();
    batch_of(7);
    let named = version(&db).tables().len();
    assert_eq!((named, most_files(&db)), (1, 7));
    db.wait_until_idle().unwrap();
    assert!(db.stats().clusterings > 0 && most_files(&db) <= MOST_FILES);
    assert_eq!(version(&db).tables().len(), 1, "it is not worth a merge");
    same(&db, &model);
    db.compact().unwrap();
    db.wait_until_idle().unwrap();
    ends_well(&machine, db, &model);
}

#[test]
fn no_more_is_copied_than_twice_what_was_written() {
    let (machine, db, mut model) = scattered(87);
    // Little by little, so that stretches would become one again and again.
    for round in 0..120 {
        for part in 0..5 {
            for i in (round % 7 + 7 * part..KEYS).step_by(35) {
                put(&db, &mut model, i, round as u8);
            }
            db.flush().unwrap();
        }
        db.compact().unwrap();
        db.wait_until_idle().unwrap();
        let life = db.stats().lifetime;
        let (copied, written) = (life.clustered_bytes, life.user_bytes_written);
        assert!(
            copied <= 2 * written,
            "{copied} of {written} in round {round}"
        );
    }
    let life = db.stats().lifetime;
    assert!(life.clustered_bytes > life.user_bytes_written, "{life:#?}");
    ends_well(&machine, db, &model);
}

/// Else stretches could take twice what users write before what flushes wrote is copied, as it is
/// in any case: three bytes for each of theirs.
#[test]
fn what_has_not_been_copied_yet_leaves_room_for_as_much_of_stretches() {
    let machine = Machine::new(92);
    let (db, _) = machine.open(idle());
    let mut model = Model::new();
    let room = || {
        let background = &db.0.engine.background;
        let view = db.0.engine.read.view.load();
        let in_memory = view.memtables().map(|it| it.table.bytes() as u64).sum();
        let copies = background.choices.most_copies(&view.version, in_memory);
        let most = copies.of_stretches;
        let life = db.stats().lifetime;
        (most, life.user_bytes_written, life.clustered_bytes)
    };
    let keeps_room = || {
        let (most, written, copied) = room();
        assert!(most + copied <= written, "{most} {copied} {written}");
    };
    for round in 0..8 {
        (round..KEYS)
            .step_by(8)
            .for_each(|i| put(&db, &mut model, i, 0));
        keeps_room();
        db.flush().unwrap();
        keeps_room();
    }
    db.compact().unwrap();
    keeps_room();
    db.wait_until_idle().unwrap();
    let (most, written, copied) = room();
    assert!(copied > 0 && most == 2 * written - copied, "{most}");
    ends_well(&machine, db, &model);
}

#[test]
fn large_values_stay_where_they_are() {
    let machine = Machine::new(93);
    // Key tables of more than four of them.
    let (db, _) = machine.open(idle().tuning(Tuning::default().partition_bytes(1 << 34)));
    let mut model = Model::new();
    // What is merged first has the later ones between its keys.
    for i in [0, 2, 4, 6, 1, 3, 5, 7] {
        let value = vec![i as u8; STREAMED_BYTES as usize];
        db.put(key(i), &value).unwrap();
        model.insert(key(i), value);
        db.flush().unwrap();
    }
    db.compact().unwrap();
    assert_eq!(most_files(&db), 8);
    db.wait_until_idle().unwrap();
    assert_eq!((db.stats().clusterings, most_files(&db)), (0, 8));
    same(&db, &model);
    db.close().unwrap();
    machine.check();
}

#[test]
fn what_was_ingested_stays_where_it_is_unless_many_streams_interleave() {
    for streams in [4, 9] {
        ingested(streams);
    }
}

fn ingested(streams: u32) {
    let machine = Machine::new(80);
    let (db, _) = machine.open(idle());
    let mut model = Model::new();
    for stream in 0..streams {
        let keys = (stream..KEYS).step_by(streams as usize).map(key);
        let value = vec![stream as u8; 200];
        model.extend(keys.clone().map(|key| (key, value.clone())));
        let entries = keys.map(|key| Ok::<_, Error>((key, Some(&value))));
        db.ingest_sorted(entries, None).unwrap();
    }
    db.compact().unwrap();
    let before = most_files(&db);
    db.wait_until_idle().unwrap();
    let stats = db.stats();
    assert_eq!(stats.merge_copied_bytes, 0);
    assert_eq!(stats.clusterings > 0, streams > 4);
    assert_eq!(most_files(&db) < before, streams > 4);
    ends_well(&machine, db, &model);
}

#[test]
fn a_full_disk_ends_a_pass_and_it_is_tried_again_when_the_database_is_opened_again() {
    let (machine, db, mut model) = scattered(81);
    let mut calls = 0;
    machine.disk.set_fault(Box::new(move |call| {
        let is_copying = call.path.to_string_lossy().ends_with(".key");
        calls += u32::from(is_copying);
        if is_copying && calls <= 1 {
            Fault::Fail(std::io::ErrorKind::StorageFull)
        } else {
            Fault::None
        }
    }));
    db.wait_until_idle().unwrap();
    pass(&db, Duration::from_secs(60));
    db.wait_until_idle().unwrap();
    let stats = db.stats();
    assert_eq!((stats.clusterings, stats.failed_clusterings), (0, 1));
    put(&db, &mut model, 1, 1);
    a_new_opening_tries_again(&machine, db, &model);
}

#[test]
fn writers_that_wait_for_a_flush_do_not_rest() {
    let (machine, db, mut model) = scattered(82);
    machine.disk.set_fault(Box::new(|call| {
        if call.op == Op::Create && call.path.to_string_lossy().ends_with(".rec") {
            Fault::Fail(std::io::ErrorKind::Other)
        } else {
            Fault::None
        }
    }));
    // The memtable is full, and its flush fails again and again.
    (0..30).for_each(|i| put(&db, &mut model, i, 9));
    pass(&db, Duration::from_secs(10));
    let stats = db.stats();
    assert_eq!((stats.clusterings, stats.failed_clusterings), (0, 0));
    machine.disk.clear_faults();
    pass(&db, Duration::from_secs(60));
    assert_eq!(db.stats().clusterings, 1);
    ends_well(&machine, db, &model);
}

#[test]
fn slices_give_way_to_look_ups_that_wait_for_the_device() {
    let (machine, db, model) = scattered(89);
    let engine = &db.0.engine;
    // A slice has taken a second, and look-ups have missed twice in each of its milliseconds.
    let (now, took) = (engine.core.now(), Duration::from_secs(1));
    engine.background.choices.ended(now, took, 2000, 0);
    pass(&db, Duration::from_secs(2));
    assert_eq!(db.stats().clusterings, 0);
    pass(&db, Duration::from_secs(2));
    assert!(db.stats().clusterings > 0 && most_files(&db) <= MOST_FILES);
    ends_well(&machine, db, &model);
}

#[test]
fn they_do_not_where_few_look_ups_miss_or_somebody_scans_or_waits() {
    let took = Duration::from_secs(60);
    for (misses, scans, waits) in [
        (50_000, false, false),
        (90_000, true, false),
        (90_000, false, true),
    ] {
        let (machine, db, model) = scattered(90);
        let engine = &db.0.engine;
        engine
            .background
            .choices
            .ended(engine.core.now(), took, misses, 0);
        if scans {
            assert_eq!(db.iter().count(), KEYS as usize);
        }
        if waits {
            db.wait_until_idle().unwrap();
        }
        pass(&db, Duration::from_secs(3));
        assert!(db.stats().clusterings > 0, "{misses} {scans} {waits}");
        ends_well(&machine, db, &model);
    }
}

#[test]
fn what_scans_have_lost_waits_until_somebody_scans_again() {
    let (machine, db, model) = scattered(90);
    let engine = &db.0.engine;
    let scan = || assert_eq!(db.range(key(200)..).expecting(50).take(50).count(), 50);
    let charged = || scan_sources::charged_in_all(&version(&db));
    scan();
    assert!(charged() > 0);
    let (now, took) = (engine.core.now(), Duration::from_secs(60));
    engine
        .background
        .choices
        .ended(now, took, 90_000, charged());
    pass(&db, Duration::from_secs(3));
    assert_eq!(db.stats().clusterings, 0);
    scan();
    pass(&db, Duration::from_secs(3));
    assert!(db.stats().clusterings > 0);
    ends_well(&machine, db, &model);
}

/// One file of each key table would give nothing to move.
#[test]
fn where_there_is_room_for_few_files_they_have_values_to_move() {
    let machine = Machine::new(91);
    let (db, _) = machine.open(idle().tuning(Tuning::default().partition_bytes(32 << 10)));
    let mut model = Model::new();
    scatter(&db, &mut model, 6, 0);
    db.wait_until_idle().unwrap();
    // Each round makes a stretch of values in each partition.
    for round in 0..3 {
        for flush in 0..5 {
            for i in (round + 5 * flush..KEYS).step_by(25) {
                put(&db, &mut model, i, 1);
            }
            db.flush().unwrap();
        }
        db.compact().unwrap();
        db.wait_until_idle().unwrap();
    }
    let version = version(&db);
    let partitions = version.partitions();
    assert!(
        partitions.len() >= 3 && most_files(&db) > 3,
        "{}",
        most_files(&db)
    );
    // The partitions in which values are to move.
    let to_move = |most_bytes: u64| {
        let files = cluster::choose(&version, most_bytes, 1);
        let numbers = files.iter().map(|file| file.meta().number).collect();
        let bytes = partitions.iter().map(|p| super::bytes_in(p, &numbers));
        let found = bytes.filter(|bytes| *bytes > 0).count();
        assert_eq!(files.is_empty(), found == 0, "{most_bytes} {found}");
        found
    };
    assert!(to_move(u64::MAX) > 2);
    // Room for two files of one key table, while there are older ones of others.
    let last = version.key_tables().last().unwrap();
    let mut files: Vec<_> = last.meta().refs.iter().map(|refs| refs.file).collect();
    files.sort_unstable();
    let room = files[..2]
        .iter()
        .map(|file| version.live(*file).bytes)
        .sum();
    assert!(to_move(room) > 0);
    ends_well(&machine, db, &model);
}
