//! What expires, against a model that knows the time.

use super::{Machine, small};
use crate::Tuning;
use crate::vfs::Runtime;
use crate::vfs::sim::{SimRuntime, SimVfs};
use crate::{
    Batch, Clustering, Db, ErrorKind, KeyspaceOptions, Readable, Result, Ttl, WriteOptions,
};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Values, and when they expire, in milliseconds since 1970.
#[derive(Clone, Default)]
struct Timed(BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>);

impl Timed {
    fn get(&self, key: &[u8], at_ms: u64) -> Option<(&[u8], Option<u64>)> {
        let (value, expiry_ms) = self.0.get(key)?;
        let is_there = expiry_ms.is_none_or(|expiry_ms| expiry_ms > at_ms);
        is_there.then_some((value, *expiry_ms))
    }

    fn at(&self, at_ms: u64) -> Vec<(Vec<u8>, Vec<u8>)> {
        let keys = self.0.keys();
        let there = keys.filter_map(|key| Some((key.clone(), self.get(key, at_ms)?.0.to_vec())));
        there.collect()
    }

    /// The value that is there now gets another expiry. Whether there is one.
    fn set_expiry(&mut self, key: &[u8], at_ms: u64, expiry_ms: Option<u64>) -> bool {
        if self.get(key, at_ms).is_none() {
            return false;
        }
        if let Some((_, expiry)) = self.0.get_mut(key) {
            *expiry = expiry_ms;
        }
        true
    }
}

fn key(i: u32) -> Vec<u8> {
    format!("key{i:03}").into_bytes()
}

const KEYS: u32 = 60;

fn owned(entry: Result<(crate::Bytes, crate::Bytes)>) -> (Vec<u8>, Vec<u8>) {
    let (key, value) = entry.unwrap();
    (key.to_vec(), value.to_vec())
}

/// What is read is what the model has at this time.
fn shows(from: &impl Readable, model: &Timed, at_ms: u64) {
    let expected = model.at(at_ms);
    assert_eq!(from.iter().map(owned).collect::<Vec<_>>(), expected);
    let mut backward: Vec<_> = from.iter().rev().map(owned).collect();
    backward.reverse();
    assert_eq!(backward, expected);
    let keys: Vec<_> = (0..KEYS).map(key).collect();
    let asked: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
    let values = from.multi_get(&asked).unwrap();
    for (key, value) in keys.iter().zip(values) {
        let there = model.get(key, at_ms);
        let expected = there.map(|(value, _)| value);
        assert_eq!(value.as_deref(), expected, "{key:?}");
        assert_eq!(from.get(key).unwrap().as_deref(), expected, "{key:?}");
        assert_eq!(from.contains_key(key).unwrap(), expected.is_some());
        let len = expected.map(<[u8]>::len);
        assert_eq!(from.value_len(key).unwrap(), len);
        let ttl = there.map(|(_, expiry_ms)| match expiry_ms {
            None => Ttl::Never,
            Some(ms) => Ttl::Remaining(Duration::from_millis(ms - at_ms)),
        });
        assert_eq!(from.ttl(key).unwrap(), ttl, "{key:?}");
    }
    let mut cursor = from.cursor();
    for (key, value) in &expected {
        assert!(cursor.next().unwrap());
        assert_eq!(cursor.key(), Some(&key[..]));
        assert_eq!(cursor.value().unwrap().as_deref(), Some(&value[..]));
    }
    assert!(!cursor.next().unwrap());
}

struct World {
    db: Db,
    runtime: Arc<SimRuntime>,
    model: Timed,
    rng: SmallRng,
}

impl World {
    fn now_ms(&self) -> u64 {
        self.db.0.engine.core.clock.now_ms()
    }

    fn ttl(&mut self) -> Duration {
        Duration::from_millis(self.rng.random_range(1..20_000))
    }

    fn write(&mut self) {
        let key = key(self.rng.random_range(0..KEYS));
        let long = self.rng.random_range(0..8) == 0;
        let len = self.rng.random_range(0..if long { 1500 } else { 200 });
        let value = vec![self.rng.random::<u8>(); len];
        let (now_ms, ttl) = (self.now_ms(), self.ttl());
        let end_ms = now_ms + ttl.as_millis() as u64;
        let choice = self.rng.random_range(0..10);
        match choice {
            0 | 1 => {
                self.db.put(&key, &value).unwrap();
                self.model.0.insert(key, (value, None));
            }
            2 => {
                self.db.delete(&key).unwrap();
                self.model.0.remove(&key);
            }
            3..=5 => {
                let options = WriteOptions::default().ttl(ttl);
                self.db.put_with(&key, &value, options).unwrap();
                self.model.0.insert(key, (value, Some(end_ms)));
            }
            6 => {
                let mut batch = Batch::new();
                batch.put_with_ttl(&key, &value, ttl).put("key900", "other");
                batch.delete("key900");
                self.db.write(&batch).unwrap();
                self.model.0.insert(key, (value, Some(end_ms)));
            }
            7 => {
                let expected = self.model.set_expiry(&key, now_ms, Some(end_ms));
                assert_eq!(self.db.expire(&key, ttl).unwrap(), expected);
            }
            8 => {
                let there = self.model.get(&key, now_ms);
                let expires = there.is_some_and(|(_, expiry)| expiry.is_some());
                assert_eq!(self.db.clear_ttl(&key).unwrap(), expires);
                self.model.set_expiry(&key, now_ms, None);
            }
            _ => {
                let there = self.model.get(&key, now_ms);
                let (before, expiry_ms) = there.unwrap_or_default();
                let after = [before, &[1]].concat();
                let append =
                    |value: Option<&[u8]>| Some([value.unwrap_or_default(), &[1]].concat());
                let made = self.db.update(&key, append).unwrap();
                assert_eq!(made.as_deref(), Some(&after[..]));
                self.model.0.insert(key, (after, expiry_ms));
            }
        }
    }
}

fn history(seed: u64, clustering: Clustering) {
    let machine = Machine::new(seed);
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut model = Timed::default();
    let mut wall_ms = 0;
    for round in 0..4 {
        let (db, runtime) = machine.open(small().clustering(clustering));
        // The runtime begins at the same time in each round.
        runtime.set_wall_clock_ms(wall_ms.max(runtime.wall_clock_ms()));
        let mut world = World {
            db,
            runtime,
            model,
            rng,
        };
        let mut held = Vec::new();
        let mut walks = Vec::new();
        for _ in 0..300 {
            let pause = world.rng.random_range(0..1500);
            world.runtime.delay(Duration::from_millis(pause));
            for _ in 0..world.rng.random_range(1..6) {
                world.write();
            }
            match world.rng.random_range(0..30) {
                0 => held.push((world.db.snapshot(), world.model.clone(), world.now_ms())),
                1 => walks.push((world.db.iter(), world.model.at(world.now_ms()))),
                2 if !held.is_empty() => drop(held.remove(0)),
                3 => world.db.flush().unwrap(),
                4 if world.rng.random_bool(0.3) => world.db.compact().unwrap(),
                5 => shows(&world.db, &world.model, world.now_ms()),
                6 => {
                    for (snapshot, model, at_ms) in &held {
                        shows(snapshot, model, *at_ms);
                    }
                }
                7 => shows(&world.db.begin(), &world.model, world.now_ms()),
                8 if walks.len() > 2 => {
                    let (walk, expected) = walks.remove(0);
                    assert_eq!(walk.map(owned).collect::<Vec<_>>(), expected);
                }
                9 => drop(world.runtime.run_one()),
                10 => world.db.release_views(),
                _ => {}
            }
        }
        for (snapshot, model, at_ms) in &held {
            shows(snapshot, model, *at_ms);
        }
        for (walk, expected) in walks {
            assert_eq!(walk.map(owned).collect::<Vec<_>>(), expected);
        }
        drop(held);
        world.db.compact().unwrap();
        shows(&world.db, &world.model, world.now_ms());
        if round % 2 == 0 {
            world.db.wait_until_idle().unwrap();
        }
        world.db.close().unwrap();
        machine.check();
        wall_ms = world.runtime.wall_clock_ms();
        (model, rng) = (world.model, world.rng);
    }
}

#[test]
fn what_has_expired_is_invisible_to_each_read_at_its_own_time() {
    for seed in 0..4 {
        history(100 + seed, Clustering::LeastWriting);
        history(200 + seed, Clustering::Automatic);
    }
}

const SECOND: Duration = Duration::from_secs(1);

fn ttl(ttl: Duration) -> WriteOptions {
    WriteOptions::default().ttl(ttl)
}

fn remaining(seconds: u64) -> Option<Ttl> {
    Some(Ttl::Remaining(Duration::from_secs(seconds)))
}

#[test]
fn a_value_expires_at_the_very_millisecond() {
    let machine = Machine::new(1);
    let (db, runtime) = machine.open(small());
    db.put_with("key", "value", ttl(SECOND)).unwrap();
    runtime.delay(SECOND - Duration::from_millis(1));
    assert!(db.get("key").unwrap().is_some());
    let snapshot = db.snapshot();
    runtime.delay(Duration::from_millis(1));
    assert_eq!(db.get("key").unwrap(), None);
    assert_eq!(db.ttl("key").unwrap(), None);
    assert!(snapshot.get("key").unwrap().is_some());
    let millisecond = Ttl::Remaining(Duration::from_millis(1));
    assert_eq!(snapshot.ttl("key").unwrap(), Some(millisecond));
}

#[test]
fn an_expired_value_shadows_the_one_before_it_wherever_that_is() {
    let machine = Machine::new(2);
    let (db, runtime) = machine.open(small());
    for key in ["merged", "flushed", "in memory"] {
        db.put(key, "before").unwrap();
        match key {
            "merged" => db.compact().unwrap(),
            "flushed" => db.flush().unwrap(),
            _ => {}
        }
    }
    // A snapshot keeps what is beneath.
    let snapshot = db.snapshot();
    for key in ["merged", "flushed", "in memory"] {
        db.put_with(key, "after", ttl(SECOND)).unwrap();
    }
    runtime.delay(SECOND);
    for step in 0..3 {
        assert_eq!(db.iter().count(), 0, "{step}");
        assert_eq!(snapshot.iter().count(), 3, "{step}");
        for key in ["merged", "flushed", "in memory"] {
            assert_eq!(db.get(key).unwrap(), None, "{step}");
            assert!(!db.contains_key(key).unwrap(), "{step}");
            let before = snapshot.get(key).unwrap();
            assert_eq!(before.as_deref(), Some(&b"before"[..]), "{step}");
        }
        match step {
            0 => db.flush().unwrap(),
            _ => db.compact().unwrap(),
        }
    }
    drop(snapshot);
    db.put("another", "key").unwrap();
    db.compact().unwrap();
    assert_eq!(db.iter().count(), 1);
}

#[test]
fn spans_of_zero_are_refused_and_those_without_end_never_end() {
    let machine = Machine::new(3);
    let (db, _) = machine.open(small());
    let refused = |result: Result<()>| {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::InvalidArgument);
    };
    db.put("key", "value").unwrap();
    refused(db.put_with("key", "other", ttl(Duration::ZERO)));
    refused(db.put_with("key", vec![0; 5000], ttl(Duration::ZERO)));
    refused(db.expire("key", Duration::ZERO).map(drop));
    let mut batch = Batch::new();
    batch.put_with_ttl("key", "other", Duration::ZERO);
    refused(db.write(&batch));
    let mut transaction = db.begin();
    refused(transaction.put_with_ttl("key", "other", Duration::ZERO));
    drop(transaction);
    let zero = KeyspaceOptions::default().default_ttl(Duration::ZERO);
    refused(db.keyspace("zero", zero).map(drop));
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"value"[..]));
    assert!(db.expire("key", Duration::MAX).is_ok());
    assert_eq!(db.ttl("key").unwrap(), Some(Ttl::Never));
    let never = SystemTime::now() + Duration::from_secs(1 << 60);
    db.expire("key", SECOND).unwrap();
    db.expire_at("key", never).unwrap();
    assert_eq!(db.ttl("key").unwrap(), Some(Ttl::Never));
    // What is past removes the key, and so does all time before 1970.
    assert!(db.expire_at("key", UNIX_EPOCH - SECOND).unwrap());
    assert_eq!(db.get("key").unwrap(), None);
    assert!(!db.expire_at("key", never).unwrap());
    assert!(!db.clear_ttl("key").unwrap());
}

#[test]
fn a_keyspace_and_the_database_have_defaults_which_hold_for_new_writes() {
    let machine = Machine::new(4);
    let options = small().default_ttl(10 * SECOND);
    let (db, _) = machine.open(options.clone());
    let five = KeyspaceOptions::default().default_ttl(5 * SECOND);
    let fives = db.keyspace("fives", five.clone()).unwrap();
    assert_eq!(fives.options().unwrap(), five);
    db.put("usual", "value").unwrap();
    db.put_with("own", "value", ttl(3 * SECOND)).unwrap();
    db.put_with("stays", "value", ttl(Duration::MAX)).unwrap();
    db.put("large", vec![7; 5000]).unwrap();
    let mut batch = Batch::new();
    batch
        .put_in(&fives, "usual", "value")
        .put_with_ttl_in(&fives, "own", "value", 2 * SECOND)
        .put("batch", "value");
    db.write(&batch).unwrap();
    let mut transaction = db.begin();
    transaction.put("transaction", "value").unwrap();
    transaction.put_in(&fives, "transaction", "value").unwrap();
    assert_eq!(transaction.ttl("transaction").unwrap(), remaining(10));
    transaction.commit().unwrap();
    for key in ["usual", "large", "batch", "transaction"] {
        assert_eq!(db.ttl(key).unwrap(), remaining(10), "{key}");
    }
    assert_eq!(db.ttl("own").unwrap(), remaining(3));
    assert_eq!(db.ttl("stays").unwrap(), Some(Ttl::Never));
    assert_eq!(fives.ttl("usual").unwrap(), remaining(5));
    assert_eq!(fives.ttl("own").unwrap(), remaining(2));
    assert_eq!(fives.ttl("transaction").unwrap(), remaining(5));
    // What has no expiry gets none by a change.
    db.put_with("number", 1i64.to_le_bytes(), ttl(Duration::MAX))
        .unwrap();
    db.increment("number", 1).unwrap();
    assert_eq!(db.ttl("number").unwrap(), Some(Ttl::Never));
    db.increment("new number", 1).unwrap();
    assert_eq!(db.ttl("new number").unwrap(), remaining(10));
    // A changed default is for new writes.
    let none = KeyspaceOptions::default().default_ttl(Duration::MAX);
    let fives = db.keyspace("fives", none).unwrap();
    assert_eq!(fives.options().unwrap(), KeyspaceOptions::default());
    fives.put("later", "value").unwrap();
    assert_eq!(fives.ttl("later").unwrap(), Some(Ttl::Never));
    assert_eq!(fives.ttl("usual").unwrap(), remaining(5));
    drop(fives);
    db.close().unwrap();
    let (db, _) = machine.open(small());
    assert_eq!(db.options().default_ttl, Some(10 * SECOND));
    db.close().unwrap();
    let (db, _) = machine.open(small().default_ttl(Duration::MAX));
    assert_eq!(db.options().default_ttl, None);
    db.put("usual", "value").unwrap();
    assert_eq!(db.ttl("usual").unwrap(), Some(Ttl::Never));
}

#[test]
fn changes_that_depend_on_the_value_keep_how_long_it_lives() {
    let machine = Machine::new(5);
    let (db, runtime) = machine.open(small());
    db.put_with("key", 1i64.to_le_bytes(), ttl(10 * SECOND))
        .unwrap();
    runtime.delay(SECOND);
    assert_eq!(db.increment("key", 1).unwrap(), 2);
    assert_eq!(db.ttl("key").unwrap(), remaining(9));
    let (two, three) = (2i64.to_le_bytes(), 3i64.to_le_bytes());
    let swapped = db.compare_and_swap("key", Some(&two), Some(&three));
    assert!(swapped.unwrap().is_ok());
    db.update("key", |_| Some(two.to_vec())).unwrap();
    assert_eq!(db.ttl("key").unwrap(), remaining(9));
    let mut transaction = db.begin();
    runtime.delay(9 * SECOND);
    // It sees its moment, and what it writes begins to live when it commits.
    assert_eq!(transaction.ttl("key").unwrap(), remaining(9));
    assert!(transaction.expire("key", 5 * SECOND).unwrap());
    assert_eq!(transaction.ttl("key").unwrap(), remaining(5));
    assert_eq!(db.get("key").unwrap(), None);
    assert_eq!(db.increment("other", 7).unwrap(), 7);
    transaction.commit().unwrap();
    assert_eq!(db.ttl("key").unwrap(), remaining(5));
    runtime.delay(5 * SECOND);
    assert_eq!(db.increment("key", 5).unwrap(), 5, "it begins again");
    assert_eq!(db.ttl("key").unwrap(), Some(Ttl::Never));
    let mut transaction = db.begin();
    assert!(!transaction.clear_ttl("key").unwrap());
    assert!(transaction.expire("key", SECOND).unwrap());
    assert!(transaction.clear_ttl("key").unwrap());
    assert!(transaction.expire_at("key", UNIX_EPOCH).unwrap());
    assert_eq!(transaction.get("key").unwrap(), None);
    assert_eq!(transaction.iter().count(), 1);
    transaction.put_with_ttl("key", "new", SECOND).unwrap();
    transaction.commit().unwrap();
    assert_eq!(db.ttl("key").unwrap(), remaining(1));
}

#[test]
fn a_plain_write_ends_the_time_to_live_of_what_it_overwrites() {
    let machine = Machine::new(6);
    let (db, runtime) = machine.open(small());
    db.put_with("key", "short", ttl(SECOND)).unwrap();
    db.put("key", "long").unwrap();
    runtime.delay(2 * SECOND);
    db.compact().unwrap();
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"long"[..]));
}

#[test]
fn a_large_value_expires_too() {
    let machine = Machine::new(7);
    let (db, runtime) = machine.open(small());
    let value = vec![3; 20_000];
    db.put_with("key", &value, ttl(10 * SECOND)).unwrap();
    db.put("other", &value).unwrap();
    assert!(db.expire("other", 20 * SECOND).unwrap());
    for step in 0..3 {
        assert_eq!(
            db.get("key").unwrap().as_deref(),
            Some(&value[..]),
            "{step}"
        );
        assert_eq!(db.ttl("key").unwrap(), remaining(10 - step), "{step}");
        assert_eq!(db.iter().map(owned).next().unwrap().1, value);
        match step {
            0 => db.flush().unwrap(),
            _ => db.compact().unwrap(),
        }
        runtime.delay(SECOND);
    }
    runtime.delay(7 * SECOND);
    assert_eq!(db.get("key").unwrap(), None);
    assert_eq!(db.iter().count(), 1);
    db.compact().unwrap();
    runtime.delay(10 * SECOND);
    assert_eq!(db.iter().count(), 0);
}

/// Opens the database on a disk, at a machine whose wall clock says `wall_ms`.
fn opened_at(disk: SimVfs, seed: u64, wall_ms: u64) -> (Db, Arc<SimRuntime>) {
    let runtime = SimRuntime::new(seed);
    runtime.set_wall_clock_ms(wall_ms);
    let env = crate::vfs::Env {
        vfs: Arc::new(disk),
        runtime: runtime.clone(),
    };
    (Db::open("/db", small().env(env)).unwrap(), runtime)
}

/// Kills the process and opens the database at a machine whose wall clock says `wall_ms`.
fn reopened_at(machine: &Machine, wall_ms: u64) -> (Db, Arc<SimRuntime>) {
    opened_at(machine.disk.process_kill(), machine.seed, wall_ms)
}

#[test]
fn a_crash_takes_a_minute_of_the_clock_of_jobs_at_most_and_a_close_nothing() {
    let machine = Machine::new(8);
    let (db, runtime) = machine.open(small());
    let begin_ms = runtime.wall_clock_ms();
    db.put_with("key", "value", ttl(10_000 * SECOND)).unwrap();
    // Of an opening that is far ahead: how far the clock of jobs has come.
    let reached_ms = |machine: &Machine| {
        let (db, _) = reopened_at(machine, begin_ms + 10 * YEAR_MS);
        db.0.engine.core.clock.job_ms()
    };
    let begun_ms = reached_ms(&machine);
    let least_ms = begin_ms + 50 * 60_000;
    assert!((least_ms..=begin_ms + 3_600_000).contains(&begun_ms));
    for round in 1..100 {
        runtime.delay(9 * SECOND);
        runtime.run_until_idle();
        let passed_ms = runtime.wall_clock_ms() - begin_ms;
        let lost_ms = begun_ms + passed_ms - reached_ms(&machine);
        assert!(lost_ms <= 70_000, "{round}: {lost_ms}");
    }
    let now_ms = runtime.wall_clock_ms();
    db.close().unwrap();
    assert_eq!(reached_ms(&machine), begun_ms + now_ms - begin_ms);
}

#[test]
fn who_uses_no_expiry_gets_no_marks() {
    let machine = Machine::new(9);
    let (db, runtime) = machine.open(small());
    db.put("key", "value").unwrap();
    db.flush().unwrap();
    let before = db.stats().manifest_bytes;
    runtime.delay(1000 * SECOND);
    runtime.run_until_idle();
    assert_eq!(db.stats().manifest_bytes, before);
}

const HOUR_MS: u64 = 3_600_000;
const YEAR_MS: u64 = 365 * 24 * HOUR_MS;

/// An opening of `machine`'s database at a wall clock, in which everything is merged.
fn merged_at(machine: &Machine, wall_ms: u64, act: impl FnOnce(&Db)) {
    let (db, _) = opened_at(machine.disk.clone(), machine.seed, wall_ms);
    act(&db);
    db.put("another", "key").unwrap();
    db.compact().unwrap();
    db.collect_garbage().unwrap();
    db.close().unwrap();
}

#[test]
fn after_openings_with_clocks_anywhere_a_right_clock_shows_what_has_as_many_hours_left() {
    let mut rng = SmallRng::seed_from_u64(1);
    for round in 0..60 {
        let machine = Machine::new(100 + round);
        let now_ms = 1_790_000_000_000;
        let anywhere = |rng: &mut SmallRng| match rng.random_range(0..6) {
            0 => 1,
            1 => now_ms + 100 * YEAR_MS,
            2 => now_ms + rng.random_range(0..YEAR_MS),
            3 => now_ms - rng.random_range(0..YEAR_MS),
            4 => now_ms - 20 * YEAR_MS,
            _ => now_ms,
        };
        // Made under any clock, written under a right one.
        merged_at(&machine, anywhere(&mut rng), |_| ());
        merged_at(&machine, now_ms, |db| {
            for hours in 0..30_u32 {
                let end_ms = now_ms + u64::from(hours) * HOUR_MS + 1000;
                let end = UNIX_EPOCH + Duration::from_millis(end_ms);
                db.put(key(hours), "value").unwrap();
                assert!(db.expire_at(key(hours), end).unwrap());
            }
            db.put("for ever", "value").unwrap();
        });
        let openings = rng.random_range(1..12);
        for _ in 0..openings {
            merged_at(&machine, anywhere(&mut rng), |_| ());
        }
        let passed_ms = rng.random_range(0..20 * HOUR_MS);
        merged_at(&machine, now_ms + passed_ms, |db| {
            for hours in 0..30 {
                let left_ms = u64::from(hours) * HOUR_MS + 1000;
                let shows = db.contains_key(key(hours)).unwrap();
                let must_show = left_ms > passed_ms && hours > openings;
                assert!(shows || !must_show, "{round}: {hours} of {openings}");
                assert!(
                    !shows || left_ms > passed_ms,
                    "{round}: {hours} has expired"
                );
            }
            assert!(db.contains_key("for ever").unwrap());
        });
    }
}

#[test]
fn a_wall_clock_that_is_ahead_hides_what_the_next_opening_shows_again() {
    let machine = Machine::new(10);
    let (db, runtime) = machine.open(small());
    let now_ms = runtime.wall_clock_ms();
    for i in 0..KEYS {
        db.put_with(key(i), vec![1; 500], ttl(3 * 3600 * SECOND))
            .unwrap();
    }
    db.compact().unwrap();
    db.close().unwrap();
    merged_at(&machine, now_ms + 10 * YEAR_MS, |db| {
        assert_eq!(db.iter().count(), 0);
        let stats = db.stats();
        assert!(
            stats.expired_kept_bytes >= u64::from(KEYS) * 500,
            "{stats:?}"
        );
        assert!(stats.job_clock_behind > Some(Duration::from_millis(9 * YEAR_MS)));
        // What is written now lives.
        let soon = UNIX_EPOCH + Duration::from_millis(now_ms + 10 * YEAR_MS + 5000);
        db.put("soon", "").unwrap();
        assert!(db.expire_at("soon", soon).unwrap());
        assert_eq!(db.ttl("soon").unwrap(), remaining(5));
    });
    merged_at(&machine, now_ms + HOUR_MS, |db| {
        assert_eq!(db.iter().count(), KEYS as usize + 2);
        assert_eq!(db.stats().expired_kept_bytes, 0);
        // An end that has passed by the wall clock hides, and another clock shows it.
        let past = UNIX_EPOCH + Duration::from_millis(now_ms);
        assert!(db.expire_at(key(1), past).unwrap());
        assert_eq!(db.get(key(1)).unwrap(), None);
    });
    // After a weekend, at the first read.
    merged_at(&machine, now_ms + 60 * HOUR_MS, |db| {
        assert_eq!(db.iter().count(), 2, "another and soon");
        assert!(db.stats().expired_kept_bytes >= u64::from(KEYS - 1) * 500);
        db.trust_wall_clock().unwrap();
        assert_eq!(db.stats().expired_kept_bytes, 0);
        assert_eq!(db.stats().job_clock_behind, None);
    });
    let (db, _) = reopened_at(&machine, now_ms);
    assert_eq!(db.iter().count(), 2, "an operator has said so");
    assert!(db.stats().record_file_bytes < u64::from(KEYS) * 500);
}

#[test]
fn within_an_opening_reads_follow_the_wall_clock_and_never_go_back() {
    let machine = Machine::new(12);
    let (db, runtime) = machine.open(small());
    db.put_with("key", "value", ttl(1000 * SECOND)).unwrap();
    runtime.set_wall_clock_ms(runtime.wall_clock_ms() + 600_000);
    assert_eq!(db.ttl("key").unwrap(), remaining(400));
    runtime.set_wall_clock_ms(0);
    assert_eq!(db.ttl("key").unwrap(), remaining(400));
    runtime.delay(10 * SECOND);
    assert_eq!(db.ttl("key").unwrap(), remaining(390));
}

#[test]
fn an_end_that_never_comes_is_set_on_what_has_none_already() {
    let machine = Machine::new(13);
    let (db, _) = machine.open(small());
    db.put("key", "value").unwrap();
    assert!(db.expire("key", Duration::MAX).unwrap(), "it is there");
    assert!(!db.clear_ttl("key").unwrap(), "it never expires");
    db.put_with("key", "value", ttl(SECOND)).unwrap();
    assert!(db.expire("key", Duration::MAX).unwrap());
    assert_eq!(db.ttl("key").unwrap(), Some(Ttl::Never));
    assert!(!db.expire("other", Duration::MAX).unwrap());
}

/// What files may take beside the log when values of this many bytes are visible.
fn promised(visible_bytes: u64, memtable_bytes: u64) -> u64 {
    visible_bytes * 3 / 2 + (8 << 20) + 11 * memtable_bytes
}

/// Lets time pass while nobody does anything, second by second.
fn idle(runtime: &SimRuntime, seconds: u64) {
    for _ in 0..seconds {
        runtime.delay(SECOND);
        runtime.run_until_idle();
    }
}

#[test]
fn what_has_expired_gives_its_space_back_within_a_minute_without_reads() {
    const RECORDS: u64 = 30_000;
    const VALUE: usize = 1000;
    let memtable_bytes = 256 << 10;
    let options = |inline| {
        small()
            .memory_budget(16 << 20)
            .tuning(
                Tuning::default()
                    .memtable_bytes(memtable_bytes)
                    .unsorted_bytes(1 << 20)
                    .key_table_bytes(64 << 10),
            )
            .inline_value_bytes(inline)
    };
    // Evenly over 1,000 seconds, or all at once; values beside their keys, or apart.
    for (spread, inline) in [(true, 0), (false, 0), (true, 4096)] {
        let machine = Machine::new(11);
        let (db, runtime) = machine.open(options(inline));
        let begin_ms = db.0.engine.core.clock.now_ms();
        let life_ms = |i: u64| {
            if spread {
                600_000 + i * 1_000_000 / RECORDS
            } else {
                900_000
            }
        };
        for i in 0..RECORDS {
            let key = format!("key{:06}", i * 7919 % RECORDS);
            let end_ms = begin_ms + life_ms(i);
            let left = end_ms - db.0.engine.core.clock.now_ms();
            let options = ttl(Duration::from_millis(left));
            db.put_with(key, vec![i as u8; VALUE], options).unwrap();
        }
        db.flush().unwrap();
        let passed_ms = db.0.engine.core.clock.now_ms() - begin_ms;
        assert!(passed_ms < 600_000, "{passed_ms}");
        runtime.delay(Duration::from_millis(600_000 - passed_ms));
        for _ in 0..6 {
            idle(&runtime, 200);
            let minute_ago_ms = db.0.engine.core.clock.now_ms() - begin_ms - 60_000;
            let there = (0..RECORDS).filter(|i| life_ms(*i) > minute_ago_ms).count() as u64;
            let most = promised(there * (9 + VALUE as u64), memtable_bytes);
            let stats = db.stats();
            let bytes = stats.record_file_bytes + stats.key_table_bytes + stats.scan_run_bytes;
            assert!(
                bytes <= most,
                "{bytes} bytes for {there} records ({inline})"
            );
        }
        assert_eq!(db.iter().count(), 0);
        db.close().unwrap();
        machine.check();
    }
}

#[test]
fn a_snapshot_keeps_what_has_expired_since_and_gives_it_up_when_it_goes() {
    let machine = Machine::new(12);
    let (db, runtime) = machine.open(small());
    for i in 0..KEYS {
        db.put_with(key(i), vec![1; 500], ttl(10 * SECOND)).unwrap();
    }
    db.compact().unwrap();
    let snapshot = db.snapshot();
    idle(&runtime, 100);
    assert_eq!(db.iter().count(), 0);
    assert_eq!(snapshot.iter().count(), KEYS as usize);
    db.put("another", "key").unwrap();
    db.compact().unwrap();
    assert_eq!(snapshot.iter().count(), KEYS as usize);
    assert_eq!(snapshot.get(key(3)).unwrap().unwrap().len(), 500);
    drop(snapshot);
    db.put("another", "key").unwrap();
    db.compact().unwrap();
    let stats = db.stats();
    assert_eq!(stats.partitions[0].sorted_keys, 1, "{stats:?}");
}
