//! Keys that are longer than their bounds: what neighbours have in common, and where they end, is
//! drawn so that bounds are cut everywhere, while partitions split and join, tables are merged, and
//! the database is reopened.

use super::{Machine, Model, same, small};
use crate::Tuning;
use crate::{Db, ErrorKind};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// Keys in clusters: those of one have a long prefix in common and differ after it.
fn key(rng: &mut SmallRng, clusters: u32) -> Vec<u8> {
    let cluster = rng.random_range(0..clusters);
    let prefix = [0, 30, 62, 63, 64, 65, 250, 256, 300, 700][rng.random_range(0..10)];
    let fill = [0, b'k', 254, 255][(cluster % 4) as usize];
    let mut key = cluster.to_be_bytes().to_vec();
    key.resize(4 + prefix, fill);
    key.push([0, 1, 254, 255][rng.random_range(0..4)]);
    let tail = [0, 1, 200, 260, 600][rng.random_range(0..5)];
    key.resize(key.len() + tail, [0, 255][rng.random_range(0..2)]);
    key
}

fn churn(db: &Db, model: &mut Model, rng: &mut SmallRng, clusters: u32) {
    for _ in 0..150 {
        let key = key(rng, clusters);
        if rng.random_range(0..4) == 0 {
            db.delete(&key).unwrap();
            model.remove(&key);
        } else {
            let value = vec![rng.random::<u8>(); rng.random_range(0..900)];
            db.put(&key, &value).unwrap();
            model.insert(key, value);
        }
    }
}

#[test]
fn bounds_keep_tables_and_partitions_apart_whatever_keys_have_in_common() {
    let (mut splits, mut joins, mut merges, mut scan_merges) = (0, 0, 0, 0);
    for seed in 0..12 {
        let machine = Machine::new(seed);
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut model = Model::new();
        let options = small().tuning(
            Tuning::default()
                .key_table_bytes(2 << 10)
                .partition_bytes(24 << 10)
                .scan_merge_limit(1),
        );
        for round in 0..4 {
            let (db, runtime) = machine.open(options.clone());
            same(&db, &model);
            let clusters = [3, 40, 200, 8][round];
            for step in 0..3 {
                churn(&db, &mut model, &mut rng, clusters);
                for _ in 0..step {
                    runtime.run_one();
                }
                same(&db, &model);
                let absent = key(&mut rng, clusters);
                assert_eq!(
                    db.get(&absent).unwrap().as_deref(),
                    model.get(&absent).map(|v| &v[..])
                );
            }
            if round == 2 {
                // Partitions become small enough to be joined.
                for key in model.keys().cloned().collect::<Vec<_>>() {
                    if rng.random_range(0..8) > 0 {
                        db.delete(&key).unwrap();
                        model.remove(&key);
                    }
                }
                db.compact().unwrap();
            }
            db.wait_until_idle().unwrap();
            same(&db, &model);
            let stats = db.stats();
            splits += stats.splits;
            joins += stats.joins;
            merges += stats.merges;
            scan_merges += stats.scan_merges;
            db.close().unwrap();
            machine.check();
        }
    }
    assert!(splits > 10 && merges > 50, "{splits} {merges}");
    assert!(joins > 0 && scan_merges > 0, "{joins} {scan_merges}");
}

#[test]
fn an_iterator_for_which_there_is_no_memory_says_so() {
    let machine = Machine::new(2);
    let (db, _) = machine.open(small().memory_budget(4 << 20));
    let mut model = Model::new();
    for i in 0..40_u8 {
        let mut key = vec![b'k'; 60_000];
        key.push(i);
        db.put(&key, "value").unwrap();
        model.insert(key, b"value".to_vec());
    }
    let mut open = Vec::new();
    let error = loop {
        let mut iter = db.iter();
        match iter.next().unwrap() {
            Ok(_) => open.push(iter),
            Err(error) => break error,
        }
        assert!(open.len() < 400);
    };
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    assert!(error.to_string().contains("close some"), "{error}");
    assert!(open.len() > 10, "{}", open.len());
    // Those that are open go on, and there is room again when they have gone.
    assert!(open.iter_mut().all(|iter| iter.next().unwrap().is_ok()));
    drop(open);
    same(&db, &model);
}

#[test]
fn a_manifest_holds_short_bounds_of_long_keys() {
    let machine = Machine::new(1);
    let (db, _) = machine.open(small().tuning(Tuning::default().key_table_bytes(64 << 10)));
    for i in 0..60_u32 {
        let mut key = i.wrapping_mul(0x9e37_79b1).to_be_bytes().to_vec();
        key.resize(60_000, b'.');
        db.put(&key, [7; 100]).unwrap();
    }
    db.compact().unwrap();
    let stats = db.stats();
    assert!(stats.key_tables > 20, "{stats:?}");
    assert!(stats.manifest_bytes < 400_000, "{}", stats.manifest_bytes);
    assert!(stats.memory.metadata < 200_000, "{:?}", stats.memory);
    db.close().unwrap();
    machine.check();
}
