use crate::db::Db;
use crate::engine::background::Ended;
use crate::engine::tests::common::{flush_around, scan_beside_writers, version};
use crate::engine::tests::{Machine, Model, churn, same, small};
use crate::partition::Horizon;
use crate::testing::limit;
use crate::vfs::sim::{Keep, ReadCall};
use crate::{Options, Tuning};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::io::ErrorKind;
use std::sync::Arc;

/// Never splits by itself.
fn whole() -> Options {
    small().tuning(
        Tuning::default()
            .key_table_bytes(1 << 10)
            .partition_bytes(1 << 40),
    )
}

/// Splits whatever can be split.
fn tiny() -> Options {
    whole().tuning(Tuning::default().partition_bytes(4 << 10))
}

/// Splits the partitions once each.
fn split_all(db: &Db) {
    let engine = &db.0.engine;
    for partition in version(db).partitions().iter() {
        engine.background.split_leased(partition).unwrap();
    }
}

/// A database of one partition with a SortedStore and an UnsortedStore.
fn filled(machine: &Machine, rng: &mut SmallRng) -> (Db, Model) {
    let (db, _) = machine.open(whole().inline_value_bytes(16));
    let mut model = Model::new();
    churn(&db, &mut model, rng, 1500);
    db.compact().unwrap();
    churn(&db, &mut model, rng, 30);
    db.flush().unwrap();
    churn(&db, &mut model, rng, 5);
    assert_eq!(version(&db).partitions().len(), 1);
    (db, model)
}

#[test]
fn partitions_split_as_they_grow_and_all_is_read_as_before() {
    let machine = Machine::new(21);
    let mut model = Model::new();
    let mut rng = SmallRng::seed_from_u64(21);
    for round in 0..4 {
        let (db, _) = machine.open(tiny());
        same(&db, &model);
        for _ in 0..3 {
            churn(&db, &mut model, &mut rng, 400);
            same(&db, &model);
        }
        db.wait_until_idle().unwrap();
        let stats = db.stats();
        assert!(stats.partitions.len() > 3, "{round}: {stats:#?}");
        let ends = stats.partitions.iter().map(|p| p.end.clone());
        let starts = stats.partitions.iter().map(|p| Some(p.start.clone()));
        assert!(ends.eq(starts.skip(1).chain([None])), "{round}");
        same(&db, &model);
        db.close().unwrap();
        machine.check();
    }
}

#[test]
fn a_partition_is_split_where_a_merge_would_write_too_much_of_it_again() {
    const LIMIT: u64 = 32 << 10;
    let machine = Machine::new(23);
    // Small values: key tables are nearly all that there is.
    let options = small().tuning(
        Tuning::default()
            .key_table_bytes(1 << 10)
            .partition_bytes(16 * LIMIT),
    );
    let (db, _) = machine.open(options);
    let mut model = Model::new();
    let put = |model: &mut Model, i: u32| {
        let (key, value) = (format!("{i:06}").into_bytes(), vec![i as u8; 40]);
        db.put(&key, &value).unwrap();
        model.insert(key, value);
    };
    (0..5000).for_each(|i| put(&mut model, i));
    db.compact().unwrap();
    db.wait_until_idle().unwrap();
    let partitions = db.stats().partitions;
    let data: u64 = partitions.iter().map(|p| p.data_bytes).sum();
    assert!(data < 16 * LIMIT, "{data}");
    let key_tables: Vec<u64> = partitions.iter().map(|p| p.key_table_bytes).collect();
    assert!(key_tables.len() > 1, "{key_tables:?}");
    assert!(key_tables.iter().all(|b| *b <= LIMIT), "{key_tables:?}");
    same(&db, &model);
    // What was split for this is not joined while it stays as large.
    let joins = db.stats().joins;
    (0..500).for_each(|i| put(&mut model, i * 10));
    db.wait_until_idle().unwrap();
    assert_eq!(db.stats().joins, joins);
    same(&db, &model);
    db.close().unwrap();
    machine.check();
}

#[test]
fn a_split_writes_nothing_but_its_edit() {
    let machine = Machine::new(22);
    let (db, model) = filled(&machine, &mut SmallRng::seed_from_u64(22));
    let before = db.stats();
    split_all(&db);
    let after = db.stats();
    assert_eq!(after.partitions.len(), 2);
    let files = |s: &crate::Stats| (s.record_files, s.key_tables, s.index_bytes, s.flush_bytes);
    assert_eq!(files(&after), files(&before));
    // Both sides together count what the parent did, and neither is much larger.
    assert_eq!(after.unsorted_records, before.unsorted_records);
    assert!(
        before.unsorted_bytes - after.unsorted_bytes < 8,
        "{after:#?}"
    );
    let half = before.partitions[0].data_bytes / 2;
    for side in &after.partitions {
        assert!(side.data_bytes.abs_diff(half) < half / 2, "{after:#?}");
    }
    same(&db, &model);
    db.close().unwrap();
    machine.check();
    let (db, _) = machine.open(whole());
    assert_eq!(db.stats().partitions.len(), 2);
    same(&db, &model);
}

#[test]
fn a_table_flushed_while_a_split_reads_the_others_goes_to_both_sides() {
    let machine = Machine::new(31);
    let mut rng = SmallRng::seed_from_u64(31);
    let (db, mut model) = filled(&machine, &mut rng);
    let leased = Arc::clone(&version(&db).partitions()[0]);
    churn(&db, &mut model, &mut rng, 40);
    db.flush().unwrap();
    assert!(version(&db).partitions()[0].unsorted_bytes() > leased.unsorted_bytes());
    assert_eq!(
        db.0.engine.background.split_leased(&leased).unwrap(),
        Ended::Done
    );
    same(&db, &model);
    db.close().unwrap();
    machine.check();
    let (db, _) = machine.open(whole());
    assert_eq!(db.stats().partitions.len(), 2);
    same(&db, &model);
}

#[test]
fn a_split_that_cannot_read_a_table_changes_nothing() {
    let machine = Machine::new(28);
    let (db, model) = filled(&machine, &mut SmallRng::seed_from_u64(28));
    db.close().unwrap();
    let (db, _) = machine.open(whole());
    let engine = &db.0.engine;
    let partition = Arc::clone(&version(&db).partitions()[0]);
    let is_data = |call: &ReadCall<'_>| call.path.extension().is_some_and(|e| e == "rec");
    machine.disk.set_read_fault(Box::new(move |call| {
        is_data(call).then_some(ErrorKind::Other)
    }));
    let error = engine.background.split_leased(&partition).unwrap_err();
    assert_eq!(error.kind(), crate::ErrorKind::Io);
    machine.disk.clear_faults();
    assert_eq!(version(&db).partitions().len(), 1);
    assert_eq!(
        engine.background.split_leased(&partition).unwrap(),
        Ended::Done
    );
    same(&db, &model);
    db.close().unwrap();
    machine.check();
}

#[test]
fn no_slivers_are_split_off_where_a_key_table_points_to_more_than_a_partition() {
    const PARTITION: u64 = 64 << 10;
    let machine = Machine::new(27);
    let options = small()
        .tuning(Tuning::default().key_table_bytes(1 << 20))
        .inline_value_bytes(16);
    let (db, _) = machine.open(options.tuning(Tuning::default().partition_bytes(PARTITION)));
    let mut rng = SmallRng::seed_from_u64(27);
    let mut model = Model::new();
    for _ in 0..4000 {
        let key = format!("{:08}", rng.random_range(0..100_000_000)).into_bytes();
        let value = vec![rng.random(); 400];
        db.put(&key, &value).unwrap();
        model.insert(key, value);
    }
    db.wait_until_idle().unwrap();
    let partitions = db.stats().partitions;
    let most = 4 * model.len() as u64 * 400 / PARTITION;
    assert!(
        (8..most).contains(&(partitions.len() as u64)),
        "{partitions:#?}"
    );
    let slivers = partitions.iter().filter(|p| p.data_bytes < PARTITION / 8);
    assert_eq!(slivers.count(), 0, "{partitions:#?}");
    same(&db, &model);
    db.close().unwrap();
    machine.check();
}

#[test]
fn what_is_kept_for_snapshots_alone_splits_nothing() {
    let machine = Machine::new(26);
    let mut rng = SmallRng::seed_from_u64(26);
    let mut model = Model::new();
    let (db, _) = machine.open(whole());
    churn(&db, &mut model, &mut rng, 1500);
    db.compact().unwrap();
    let size = db.stats().partitions[0].data_bytes;
    let mut held = Vec::new();
    for _ in 0..6 {
        held.push((db.snapshot(), model.clone()));
        churn(&db, &mut model, &mut rng, 1500);
        db.compact().unwrap();
    }
    let stats = &db.stats().partitions[0];
    assert!(stats.sorted_keys as usize > 3 * model.len(), "{stats:#?}");
    assert!(stats.data_bytes < 2 * size, "{size}: {stats:#?}");
    for (snapshot, then) in held {
        let entries = snapshot.iter().map(|entry| {
            entry
                .map(|(key, value)| (key.to_vec(), value.to_vec()))
                .unwrap()
        });
        assert!(entries.eq(then));
    }
    same(&db, &model);
}

#[test]
fn another_partition_size_holds_from_the_next_opening() {
    let machine = Machine::new(23);
    let (db, model) = filled(&machine, &mut SmallRng::seed_from_u64(23));
    db.close().unwrap();
    let (db, _) = machine.open(tiny());
    db.wait_until_idle().unwrap();
    let many = db.stats().partitions.len();
    assert!(many > 2, "{many}");
    same(&db, &model);
    db.close().unwrap();
    // What a larger one makes of it: see the joins.
    let (db, _) = machine.open(whole());
    assert_eq!(db.stats().partitions.len(), many);
    db.wait_until_idle().unwrap();
    assert_eq!(db.stats().partitions.len(), 1);
    same(&db, &model);
}

#[test]
fn a_flush_goes_by_the_partitions_that_stand_when_it_commits() {
    let machine = Machine::new(24);
    let (db, mut model) = filled(&machine, &mut SmallRng::seed_from_u64(24));
    db.flush().unwrap();
    for key in ["key0000", "key0150", "key0299"] {
        db.put(key, "after").unwrap();
        model.insert(key.into(), "after".into());
    }
    let owners = flush_around(&db, || split_all(&db));
    assert_eq!(owners, (1, 2), "an open generation is to take the tables");
    same(&db, &model);
    churn(&db, &mut model, &mut SmallRng::seed_from_u64(1), 200);
    same(&db, &model);
    db.close().unwrap();
    machine.check();
    same(&machine.open(whole()).0, &model);
}

#[test]
fn iterators_and_snapshots_from_before_a_split_see_their_moment() {
    let machine = Machine::new(25);
    let mut rng = SmallRng::seed_from_u64(25);
    let (db, mut model) = filled(&machine, &mut rng);
    let then: Vec<_> = model.clone().into_iter().collect();
    let snapshot = db.snapshot();
    let (mut forward, mut backward) = (db.iter(), db.iter());
    let pair = |e: crate::Result<(crate::Bytes, crate::Bytes)>| {
        e.map(|(k, v)| (k.to_vec(), v.to_vec())).unwrap()
    };
    let mut ahead: Vec<_> = forward.by_ref().take(20).map(pair).collect();
    let mut back: Vec<_> = backward.by_ref().rev().take(20).map(pair).collect();
    for _ in 0..3 {
        split_all(&db);
        churn(&db, &mut model, &mut rng, 150);
    }
    assert!(db.stats().splits >= 3);
    db.compact().unwrap();
    ahead.extend(forward.map(pair));
    back.extend(backward.rev().map(pair));
    back.reverse();
    assert_eq!(ahead, then);
    assert_eq!(back, then);
    assert_eq!(snapshot.iter().map(pair).collect::<Vec<_>>(), then);
    let mut reversed: Vec<_> = snapshot.iter().rev().map(pair).collect();
    reversed.reverse();
    assert_eq!(reversed, then);
    for (key, value) in &then {
        assert_eq!(snapshot.get(key).unwrap().as_deref(), Some(&value[..]));
    }
    same(&db, &model);
}

#[test]
fn a_range_ends_where_it_should_on_both_sides_of_a_border() {
    let machine = Machine::new(26);
    let (db, model) = filled(&machine, &mut SmallRng::seed_from_u64(26));
    split_all(&db);
    split_all(&db);
    let borders: Vec<Vec<u8>> = db.stats().partitions[1..]
        .iter()
        .map(|p| p.start.clone())
        .collect();
    assert_eq!(borders.len(), 3);
    for border in &borders {
        let before: Vec<_> = model.range(..border.clone()).map(|(k, _)| k).collect();
        let behind: Vec<_> = model.range(border.clone()..).map(|(k, _)| k).collect();
        let keys = |iter: &mut dyn Iterator<Item = crate::Result<(crate::Bytes, crate::Bytes)>>| {
            iter.map(|e| e.unwrap().0.to_vec()).collect::<Vec<_>>()
        };
        let mut last = keys(&mut db.range(..border.clone()).rev().take(3));
        last.reverse();
        assert_eq!(
            last,
            before[before.len() - 3..]
                .iter()
                .map(|k| k.to_vec())
                .collect::<Vec<_>>()
        );
        let first = keys(&mut db.range(border.clone()..).take(3));
        assert_eq!(
            first,
            behind[..3].iter().map(|k| k.to_vec()).collect::<Vec<_>>()
        );
        let mut across = db.iter();
        across.seek(before[before.len() - 2]);
        let seen = keys(&mut across.by_ref().take(4));
        let expected = model.range(before[before.len() - 2].clone()..).take(4);
        assert_eq!(seen, expected.map(|(k, _)| k.clone()).collect::<Vec<_>>());
    }
}

#[test]
fn a_power_cut_at_any_call_of_a_split_leaves_all_or_nothing_of_it() {
    let calls = {
        let machine = Machine::new(27);
        let (db, _) = filled(&machine, &mut SmallRng::seed_from_u64(27));
        let begin = machine.disk.calls();
        split_all(&db);
        machine.disk.calls() - begin
    };
    assert!(
        calls >= 3,
        "a directory sync, an append and a sync: {calls}"
    );
    let mut outcomes = [0, 0];
    for call in 0..calls {
        for keep in [
            Keep::Nothing,
            Keep::All,
            Keep::Prefix(call),
            Keep::Torn(call),
        ] {
            let machine = Machine::new(27);
            let (db, model) = filled(&machine, &mut SmallRng::seed_from_u64(27));
            db.sync().unwrap();
            machine.cut_power_after(call);
            let partition = Arc::clone(&version(&db).partitions()[0]);
            let _may_fail = db.0.engine.background.split_leased(&partition);
            let after = Machine {
                disk: machine.disk.power_cut(keep),
                seed: 27,
            };
            after.check();
            let (db, _) = after.open(whole());
            same(&db, &model);
            outcomes[version(&db).partitions().len() - 1] += 1;
            db.close().unwrap();
            after.check();
        }
    }
    assert!(outcomes.iter().all(|n| *n > 0), "{outcomes:?}");
}

#[test]
fn a_thousand_partitions_are_opened_scanned_and_updated() {
    const KEYS: u32 = 150_000;
    let machine = Machine::new(28);
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
    let load = |db: &Db, keys: &mut dyn Iterator<Item = u32>, value: &str| {
        let keys: Vec<u32> = keys.collect();
        for part in keys.chunks(1000) {
            let mut batch = crate::Batch::new();
            for i in part {
                batch.put(key(*i), format!("{value}{i}"));
            }
            db.write(&batch).unwrap();
        }
    };
    let (db, _) = machine.open(options());
    load(&db, &mut (0..KEYS), "first");
    db.compact().unwrap();
    db.wait_until_idle().unwrap();
    let partitions = db.stats().partitions.len();
    assert!(partitions >= 1000, "{partitions}");
    // Every partition takes part in one flush, which makes one file.
    let files = db.stats().record_files;
    load(&db, &mut (0..KEYS).step_by(50), "second");
    db.flush().unwrap();
    let stats = db.stats();
    assert!(
        stats.record_files <= files + 1,
        "{} and {files}",
        stats.record_files
    );
    assert!(stats.partitions.iter().filter(|p| p.tables > 0).count() > 900);
    db.close().unwrap();

    let (db, _) = machine.open(options());
    load(&db, &mut (0..KEYS).step_by(70), "third");
    let value = |i: u32| match (i % 70, i % 50) {
        (0, _) => format!("third{i}"),
        (_, 0) => format!("second{i}"),
        _ => format!("first{i}"),
    };
    for i in (0..KEYS).step_by(41) {
        assert_eq!(
            db.get(key(i)).unwrap().as_deref(),
            Some(value(i).as_bytes())
        );
    }
    let mut seen = 0;
    for (i, entry) in (0..KEYS).zip(db.iter()) {
        let (k, v) = entry.unwrap();
        assert_eq!((&k[..], &v[..]), (key(i).as_bytes(), value(i).as_bytes()));
        seen += 1;
    }
    assert_eq!(seen, KEYS);
    let mut from_behind = (0..KEYS).rev().zip(db.iter().rev());
    assert!(from_behind.all(|(i, e)| e.unwrap().0[..] == *key(i).as_bytes()));
    db.compact().unwrap();
    assert!(db.stats().partitions.len() >= partitions);
    db.close().unwrap();
    machine.check();
}

#[test]
fn threads_split_merge_and_flush_beside_writers_and_readers() {
    let dir = tempfile::tempdir().unwrap();
    let options = || {
        tiny().tuning(
            Tuning::default()
                .background_threads(4)
                .memtable_bytes(8 << 10),
        )
    };
    let db = Db::open(dir.path(), options()).unwrap();
    let writers: u32 = 3;
    let key = |w: u32, i: u32| format!("{:05}-{w}", (i * 7919) % 4000);
    let _limit = limit("writers, readers and splits");
    std::thread::scope(|scope| {
        for w in 0..writers {
            let db = &db;
            scope.spawn(move || {
                let mut rng = SmallRng::seed_from_u64(u64::from(w));
                for i in 0..4000 {
                    db.put(key(w, i), format!("{i}-{}", "v".repeat(i as usize % 60)))
                        .unwrap();
                    let past = rng.random_range(0..=i);
                    let found = db.get(key(w, past)).unwrap().unwrap();
                    assert!(found.starts_with(format!("{past}-").as_bytes()));
                }
            });
        }
        scope.spawn(|| scan_beside_writers(&db));
    });
    db.wait_until_idle().unwrap();
    let stats = db.stats();
    assert!(stats.splits > 3 && stats.partitions.len() > 3, "{stats:#?}");
    assert!(stats.partitions.iter().all(|p| p.generations <= 4));
    assert_eq!(db.iter().count(), 4000 * writers as usize);
    db.close().unwrap();
    let report = Db::check(dir.path()).unwrap();
    assert!(report.is_clean(), "{:#?}", report.problems);
    let db = Db::open(dir.path(), options()).unwrap();
    assert_eq!(db.iter().rev().count(), 4000 * writers as usize);
}

#[test]
fn the_stores_of_many_partitions_share_one_limit() {
    let machine = Machine::new(29);
    let mut model = Model::new();
    let (db, _) = machine.open(tiny().inline_value_bytes(1000));
    churn(&db, &mut model, &mut SmallRng::seed_from_u64(29), 1500);
    db.compact().unwrap();
    db.close().unwrap();
    let (db, _) = machine.open(whole().tuning(Tuning::default().unsorted_bytes(8 << 10)));
    let many = version(&db).partitions().len();
    assert!(many >= 6, "{many}");
    let mut rng = SmallRng::seed_from_u64(30);
    for _ in 0..30 {
        churn(&db, &mut model, &mut rng, 60);
        db.flush().unwrap();
        db.wait_until_idle().unwrap();
        // Four limits, and the flush that went beyond.
        let unsorted = db.stats().unsorted_bytes;
        assert!(unsorted <= 4 * (8 << 10) + (16 << 10), "{unsorted}");
    }
    assert!(db.stats().merges > 8);
    same(&db, &model);
}

#[test]
fn an_index_begins_small_and_is_well_filled_when_its_generation_is_full() {
    let machine = Machine::new(31);
    let (db, _) = machine.open(
        Options::default()
            .tuning(
                Tuning::default()
                    .memtable_bytes(128 << 10)
                    .unsorted_bytes(8 << 20),
            )
            .memory_budget(64 << 20),
    );
    let (mut i, mut fullest, mut begin) = (0u32, (0, 0, 0.0), None);
    while db.stats().merges == 0 {
        for _ in 0..200 {
            db.put(format!("{:08x}", i.wrapping_mul(0x9e37_79b1)), vec![7; 100])
                .unwrap();
            i += 1;
        }
        let stats = db.stats();
        let now = (
            stats.index_entries,
            stats.index_bytes,
            stats.index_utilisation,
        );
        if begin.is_none() && now.0 > 0 {
            begin = Some(now);
        }
        let generations: usize = stats.partitions.iter().map(|p| p.generations).sum();
        if generations == 1 && now.0 > fullest.0 {
            fullest = now;
        }
        for j in [i - 1, i / 2, 0] {
            let key = format!("{:08x}", j.wrapping_mul(0x9e37_79b1));
            assert!(db.contains_key(key).unwrap(), "{j} of {i}");
        }
    }
    let (_, first_bytes, _) = begin.unwrap();
    assert!(first_bytes < 24 << 10, "{begin:?}");
    let (entries, bytes, utilisation) = fullest;
    assert!(entries > 40_000, "{fullest:?}");
    assert!(bytes <= 11 * entries && utilisation >= 0.8, "{fullest:?}");
}

#[test]
fn sizes_and_middles_of_ranges_are_estimated_well() {
    let machine = Machine::new(32);
    let (db, _) = machine.open(
        tiny()
            .tuning(Tuning::default().partition_bytes(32 << 10))
            .memory_budget(16 << 20),
    );
    assert_eq!(db.approximate_size(..).unwrap(), 0);
    assert_eq!(db.split_key(..).unwrap(), None);
    for i in 0..2000 {
        db.put(format!("{i:05}"), vec![1; 150]).unwrap();
    }
    db.flush().unwrap();
    for merged in [false, true] {
        if merged {
            db.compact().unwrap();
            db.wait_until_idle().unwrap();
            assert!(db.stats().partitions.len() > 4);
        }
        let all = db.approximate_size(..).unwrap();
        assert!((300_000..600_000).contains(&all), "{all}");
        let tenth = db.approximate_size("01000".."01200").unwrap();
        assert!(tenth.abs_diff(all / 10) < all / 40, "{tenth} of {all}");
        assert_eq!(db.approximate_size("9".."99").unwrap(), 0);
        assert_eq!(db.approximate_size("5".."4").unwrap(), 0);
        for (range, middle) in [(0..2000, 1000), (500..1500, 1000), (100..300, 200)] {
            let bounds = format!("{:05}", range.start)..format!("{:05}", range.end);
            let key = db.split_key(bounds).unwrap().unwrap();
            let text = String::from_utf8(key.to_vec()).unwrap();
            let found: i32 = format!("{text:0<5}").parse().unwrap();
            let slack = (range.end - range.start) / 8 + 16;
            assert!((found - middle).abs() < slack, "{text} for {range:?}");
        }
    }
}

#[test]
fn a_partition_that_is_seldom_written_keeps_no_pile_of_tables() {
    let machine = Machine::new(28);
    let options = small()
        .tuning(Tuning::default().partition_bytes(256 << 10))
        .inline_value_bytes(16);
    let (db, _) = machine.open(options.tuning(Tuning::default().memtable_bytes(16 << 10)));
    let mut model = Model::new();
    let mut put = |key: u32, fill: u8| {
        let (key, value) = (format!("{key:08}").into_bytes(), vec![fill; 400]);
        db.put(&key, &value).unwrap();
        model.insert(key, value);
    };
    (0..2000).for_each(|key| put(key, 0));
    db.wait_until_idle().unwrap();
    assert!(db.stats().partitions.len() > 1);
    let engine = &db.0.engine;
    let mut most = 0;
    // Of each memtable one record goes to the last partition and the others to the first.
    for round in 0..120u32 {
        (0..30).for_each(|key| put(key, round as u8));
        put(1999, round as u8);
        db.flush().unwrap();
        let merged = || {
            let catalog = engine.catalog.lock();
            let mut partitions = catalog.version.partitions().iter();
            engine.background.scheduler.leases.are_free()
                && partitions.all(|p| catalog.frozen(p).is_empty())
        };
        engine
            .core
            .wait_while(merged, || engine.background.check_jobs())
            .unwrap();
        most = most.max(
            engine
                .space
                .space_of(&version(&db), Horizon::default())
                .half_merged_bytes,
        );
    }
    let space = engine.space.space_of(&version(&db), Horizon::default());
    let limit = space.allowed_garbage(engine.space.space_limit()) / 4;
    let limit = limit.max(engine.core.options.unsorted_bytes);
    // What merges after the flush that judges adds to it.
    assert!(
        most <= limit + 2 * engine.core.options.unsorted_bytes,
        "{most} beside {limit}: {space:#?}"
    );
    same(&db, &model);
    db.close().unwrap();
    machine.check();
}
