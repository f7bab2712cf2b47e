//! Compressed databases.

use super::common::{key, rewrite_manifest, version};
use super::{Machine, Model, same, small};
use crate::codec::tests::built_in;
use crate::codec::{Codec, Compression};
use crate::jobs::Needs;
use crate::jobs::flush::flush;
use crate::vfs::Vfs;
use crate::{Clustering, Db, ErrorKind, KeyspaceOptions, Options, Tuning};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// Such as compresses well.
fn document(rng: &mut SmallRng, i: u32) -> Vec<u8> {
    let (a, b) = (rng.random_range(0..1000), rng.random_range(0..1000));
    format!(
        "{{\"id\":{i},\"first name\":\"name {a}\",\"second name\":\"name {b}\",\"tags\":[\"one\",\"two\",\"three\"],\
         \"first street\":\"street {b}\",\"second street\":\"street {a}\",\"note\":\"nothing to say of {i}\"}}"
    )
    .into_bytes()
}

fn fill(db: &Db, model: &mut Model, rng: &mut SmallRng, keys: std::ops::Range<u32>) {
    for i in keys {
        let value = match i % 9 {
            0 => (0..400).map(|_| rng.random()).collect(),
            1 => b"short".to_vec(),
            2 => document(rng, i).repeat(40),
            _ => document(rng, i),
        };
        db.put(key(i), &value).unwrap();
        model.insert(key(i), value);
    }
}

/// Roomy enough for dictionaries.
fn roomy() -> Options {
    small()
        .tuning(
            Tuning::default()
                .memtable_bytes(64 << 10)
                .unsorted_bytes(256 << 10)
                .key_table_bytes(16 << 10),
        )
        .memory_budget(8 << 20)
}

fn files_bytes(db: &Db) -> (u64, u64) {
    let version = version(db);
    let files = version.record_files().iter();
    let tables = version.partitions().iter().flat_map(|p| &p.key_tables);
    (
        files.map(|file| file.meta().len).sum(),
        tables.map(|table| table.meta().len).sum(),
    )
}

#[test]
fn what_is_written_comes_back_through_flush_merge_collection_and_reopening() {
    let mut plain_bytes = (0, 0);
    for compression in [Compression::None].into_iter().chain(built_in()) {
        let mut rng = SmallRng::seed_from_u64(1);
        let (machine, mut model) = (Machine::new(1), Model::new());
        let options = roomy().compression(compression);
        let (db, _) = machine.open(options);
        assert_eq!(db.options().compression, compression);
        for round in 0..4 {
            fill(&db, &mut model, &mut rng, round * 100..round * 100 + 300);
            db.flush().unwrap();
            same(&db, &model);
        }
        let snapshot = db.snapshot();
        let before = model.clone();
        fill(&db, &mut model, &mut rng, 0..200);
        db.compact().unwrap();
        same(&db, &model);
        for (key, value) in &before {
            assert_eq!(snapshot.get(key).unwrap().as_deref(), Some(&value[..]));
            assert_eq!(snapshot.value_len(key).unwrap(), Some(value.len()));
        }
        drop(snapshot);
        db.collect_garbage().unwrap();
        db.wait_until_idle().unwrap();
        same(&db, &model);
        let bytes = files_bytes(&db);
        match compression {
            Compression::None => plain_bytes = bytes,
            _ => {
                assert!(bytes.0 < plain_bytes.0 * 3 / 4, "{bytes:?} {plain_bytes:?}");
                let stats = db.stats();
                assert!(stats.compression_saved_bytes > bytes.0 / 4);
                assert!(stats.compression_ratio() > 1.2);
            }
        }
        db.close().unwrap();
        machine.check();
        let (db, _) = machine.open(Options::default());
        assert_eq!(db.options().compression, compression);
        same(&db, &model);
    }
}

/// The codecs of all values and of all blocks.
fn codecs(db: &Db) -> (u64, u64) {
    let version = version(db);
    let files = version.record_files().iter();
    let tables = version.partitions().iter().flat_map(|p| &p.key_tables);
    (
        files.fold(0, |all, f| all | f.meta().compression.codecs.bits()),
        tables.fold(0, |all, t| all | t.meta().compression.codecs.bits()),
    )
}

#[test]
fn a_changed_setting_holds_for_what_is_written_later_and_for_what_is_copied() {
    let mut rng = SmallRng::seed_from_u64(2);
    let (machine, mut model) = (Machine::new(2), Model::new());
    for compression in built_in().into_iter().chain([Compression::None]) {
        let (db, _) = machine.open(roomy().max_space_amp(1.1).compression(compression));
        same(&db, &model);
        fill(&db, &mut model, &mut rng, 0..300);
        db.compact().unwrap();
        db.collect_garbage().unwrap();
        db.wait_until_idle().unwrap();
        same(&db, &model);
        db.close().unwrap();
        machine.check();
    }
    let (db, _) = machine.open(Options::default());
    same(&db, &model);
    fill(&db, &mut model, &mut rng, 0..300);
    db.compact().unwrap();
    db.collect_garbage().unwrap();
    db.wait_until_idle().unwrap();
    assert_eq!(
        codecs(&db),
        (0, 0),
        "nothing is left of what was compressed"
    );
    // A release that knows none of it reads such a database again.
    db.close().unwrap();
    let (store, snapshot) = super::common::listed_by_manifest(&machine);
    drop(store);
    let options = snapshot.options.unwrap();
    let number = u64::from(Compression::Zstd { level: 19 }.number() as u32).to_le_bytes();
    assert!(!options.windows(8).any(|window| window == number));
}

#[test]
fn keyspaces_have_settings_of_their_own() {
    let Some(compression) = built_in().pop() else {
        return;
    };
    let mut rng = SmallRng::seed_from_u64(3);
    let machine = Machine::new(3);
    let (db, _) = machine.open(roomy());
    let packed = KeyspaceOptions::default().compression(compression);
    let packed = db.keyspace("packed", packed).unwrap();
    let plain = db.keyspace("plain", KeyspaceOptions::default()).unwrap();
    let values: Vec<_> = (0..300).map(|i| document(&mut rng, i)).collect();
    for (i, value) in values.iter().enumerate() {
        for keyspace in [&packed, &plain] {
            keyspace.put(key(i as u32), value).unwrap();
        }
        db.put(key(i as u32), value).unwrap();
    }
    db.compact().unwrap();
    let sizes = [&packed, &plain].map(|keyspace| keyspace.approximate_size(..).unwrap());
    assert!(sizes[0] < sizes[1] * 9 / 10, "{sizes:?}");
    assert_eq!(packed.options().unwrap().compression, Some(compression));
    assert_eq!(plain.options().unwrap().compression, None);
    // Switched off, it is off for what is written from then on.
    let off = KeyspaceOptions::default().compression(Compression::None);
    let packed = db.keyspace("packed", off).unwrap();
    for (i, value) in values.iter().enumerate() {
        packed.put(key(i as u32), value).unwrap();
    }
    db.compact().unwrap();
    db.collect_garbage().unwrap();
    db.wait_until_idle().unwrap();
    for keyspace in [&packed, &plain] {
        for (i, value) in values.iter().enumerate() {
            let found = keyspace.get(key(i as u32)).unwrap();
            assert_eq!(found.as_deref(), Some(&value[..]));
        }
    }
    let bad = Compression::Zstd { level: 99 };
    let refused = db.keyspace("packed", KeyspaceOptions::default().compression(bad));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
    db.close().unwrap();
    machine.check();
}

#[test]
fn whether_a_value_is_inline_depends_on_its_raw_length() {
    for compression in built_in() {
        let machine = Machine::new(4);
        let (db, _) = machine.open(roomy().inline_value_bytes(100).compression(compression));
        for i in 0..300 {
            db.put(key(i), vec![i as u8; 99 + i as usize % 2]).unwrap();
        }
        db.compact().unwrap();
        let version = version(&db);
        let tables = version.partitions().iter().flat_map(|p| &p.key_tables);
        let inline: u64 = tables.map(|table| table.meta().inline_bytes).sum();
        assert_eq!(inline, 150 * 99, "{compression:?}");
    }
}

#[test]
fn a_flush_that_others_wait_for_takes_a_fast_level_and_the_last_dictionary() {
    let slow = Compression::Zstd { level: 19 };
    if slow.check().is_err() {
        return;
    }
    let mut rng = SmallRng::seed_from_u64(5);
    let machine = Machine::new(5);
    let (db, _) = machine.open(
        roomy()
            .tuning(Tuning::default().memtable_bytes(1 << 20))
            .compression(slow),
    );
    let mut model = Model::new();
    fill(&db, &mut model, &mut rng, 0..400);
    let engine = &db.0.engine;
    engine.write.seal(&mut engine.write.commit.lock()).unwrap();
    let sealed = engine.read.view.load().sealed.last().unwrap().clone();
    let mut dictionaries = Vec::new();
    for (waiting, most_level) in [(0, 3), (1, 1), (3, 1)] {
        let until = engine.background.until_closed();
        let waiting_now = || waiting;
        let needs = Needs {
            waiting: Some(&waiting_now),
            ..Needs::default()
        };
        let context = engine.background.job_context(until, needs);
        let tables = flush(&context, std::slice::from_ref(&sealed.table)).unwrap();
        let found = tables.first().unwrap().meta.compression;
        assert!(found.codecs.holds(Codec::ZstdWithDictionary), "{found:?}");
        assert_eq!(found.level, most_level, "{found:?}");
        dictionaries.push(found.dictionary.unwrap().hash);
        let files = context.begun.take();
        files
            .iter()
            .for_each(|path| machine.disk.remove(path).unwrap());
    }
    dictionaries.dedup();
    assert_eq!(dictionaries.len(), 1);
}

#[test]
fn copied_values_get_their_level_and_a_dictionary_that_goes_on() {
    let slow = Compression::Zstd { level: 9 };
    if slow.check().is_err() {
        return;
    }
    let mut rng = SmallRng::seed_from_u64(6);
    let machine = Machine::new(6);
    let options = roomy()
        .clustering(Clustering::Automatic)
        .tuning(
            Tuning::default()
                .unsorted_bytes(1 << 20)
                .key_table_bytes(1 << 10)
                .partition_bytes(1 << 30),
        )
        .max_space_amp(4.0)
        .compression(slow);
    let (db, _) = machine.open(options);
    let mut model = Model::new();
    let mut dictionaries = Vec::new();
    for round in 0..2 {
        // Neighbours that were written at other times are fragmented, and copied together.
        for part in 0..8 {
            for i in (0..100).map(|i| i * 8 + part) {
                fill(&db, &mut model, &mut rng, i..i + 1);
            }
            db.flush().unwrap();
        }
        db.compact().unwrap();
        db.wait_until_idle().unwrap();
        same(&db, &model);
        let version = version(&db);
        let files = version.record_files().iter();
        let copied: Vec<_> = files.filter(|file| !file.meta().key_section).collect();
        for file in copied {
            let compression = file.meta().compression;
            assert_eq!(compression.level, 9, "round {round}: {compression:?}");
            dictionaries.extend(compression.dictionary);
        }
    }
    assert!(!dictionaries.is_empty());
    same(&db, &model);
    db.close().unwrap();
    machine.check();
}

/// Of one kind of document each, in turns: flushes, merges, collections and clusterings.
#[test]
fn small_keyspaces_share_the_dictionaries_that_they_learn() {
    const KEYSPACES: usize = 30;
    let zstd = Compression::zstd(3);
    if zstd.check().is_err() {
        return;
    }
    let mut rng = SmallRng::seed_from_u64(77);
    let machine = Machine::new(77);
    let (db, _runtime) = machine.open(roomy().compression(zstd));
    let open = |i| db.keyspace(&format!("{i}"), KeyspaceOptions::default());
    let keyspaces: Vec<_> = (0..KEYSPACES).map(|i| open(i).unwrap()).collect();
    let mut models = vec![Model::new(); KEYSPACES];
    for i in 0..600 {
        for (keyspace, model) in keyspaces.iter().zip(&mut models) {
            let (key, value) = (key(i % 300), document(&mut rng, i % 300));
            keyspace.put(&key, &value).unwrap();
            model.insert(key, value);
        }
    }
    db.compact().unwrap();
    db.wait_until_idle().unwrap();
    db.collect_garbage().unwrap();
    let dictionaries = &db.0.engine.background.dictionaries;
    let (trainings, flushes) = (dictionaries.trainings(), db.stats().flushes);
    assert!(flushes > KEYSPACES as u64, "{flushes}");
    assert!((1..=10).contains(&trainings), "{trainings}, {flushes}");
    for (keyspace, model) in keyspaces.iter().zip(&models) {
        let all = keyspace.iter().map(Result::unwrap);
        let all: Model = all.map(|(k, v)| (k.to_vec(), v.to_vec())).collect();
        assert_eq!(all, *model);
    }
    db.close().unwrap();
    machine.check();
}

#[test]
fn an_unknown_codec_in_the_manifest_is_refused_with_its_number() {
    let Some(compression) = built_in().pop() else {
        return;
    };
    let machine = Machine::new(7);
    let (db, _) = machine.open(roomy().compression(compression));
    let mut rng = SmallRng::seed_from_u64(7);
    fill(&db, &mut Model::new(), &mut rng, 0..100);
    db.flush().unwrap();
    db.close().unwrap();
    rewrite_manifest(&machine, |edit| {
        for file in &mut edit.record_files {
            file.compression.codecs = crate::codec::Codecs::of_file(0x100);
        }
    });
    let error = Db::open("/db", Options::default().env(machine.env())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incompatible, "{error}");
    assert!(error.to_string().contains("0x100"), "{error}");
    assert!(error.file().is_some());
}
