//! A reader applies the changes to a copy, which must be what the database holds.

use super::decode::of_write;
use super::{Change, ChangeKind, ChangeOp, ChangeToken, Changes, ChangesOptions, KeyspaceChange};
use crate::base::keys::SeqNo;
use crate::engine::tests::{Machine, small};
use crate::log::WalWrite;
use crate::vfs::Vfs;
use crate::vfs::sim::{Fault, Keep, SimRuntime};
use crate::{Batch, Db, Durability, ErrorKind, KeyspaceOptions, Options};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::io::ErrorKind as IoKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;
/// Of each keyspace by its number, the name and what it holds.
type Spaces = BTreeMap<u32, (String, Map)>;

#[derive(Clone, Debug)]
struct FeedReader {
    token: ChangeToken,
    spaces: Spaces,
    commit_tag: Option<Vec<u8>>,
    unsynced: bool,
    seen: u64,
}

fn state(db: &Db) -> Spaces {
    let space = |name: String| {
        let space = db.find_keyspace(&name).unwrap();
        let entries = space
            .iter()
            .map(|e| e.map(|(k, v)| (k.to_vec(), v.to_vec())));
        (
            space.number().unwrap(),
            (name, entries.collect::<crate::Result<_>>().unwrap()),
        )
    };
    db.keyspaces().into_iter().map(space).collect()
}

impl FeedReader {
    fn begin(db: &Db, unsynced: bool) -> FeedReader {
        db.sync().unwrap();
        FeedReader {
            token: db.change_token().unwrap(),
            spaces: state(db),
            commit_tag: db.commit_tag().map(Vec::from),
            unsynced,
            seen: 0,
        }
    }

    fn changes(&self, db: &Db) -> crate::Result<Changes> {
        let options = ChangesOptions::default().include_unsynced(self.unsynced);
        db.changes_with(self.token, options)
    }

    /// Applies all that there is.
    fn catch_up(&mut self, db: &Db) -> crate::Result<()> {
        let mut changes = self.changes(db)?;
        while let Some(change) = changes.try_next()? {
            assert!(change.token.seq() > self.token.seq());
            assert_eq!(changes.token(), change.token);
            self.apply(db, change);
        }
        Ok(())
    }

    fn apply(&mut self, db: &Db, change: Change) {
        self.token = change.token;
        self.seen += 1;
        if let Some(commit_tag) = change.commit_tag {
            self.commit_tag = Some(commit_tag.to_vec());
        }
        match change.kind {
            ChangeKind::Write(ops) => ops.into_iter().for_each(|op| self.apply_op(op)),
            ChangeKind::Ingest {
                keyspace,
                first,
                last,
            } => {
                let names = db.keyspaces().into_iter();
                let mut spaces = names.map(|name| db.find_keyspace(name.as_str()).unwrap());
                let now = spaces.find(|space| space.number().unwrap() == keyspace);
                let Some((_, map)) = self.spaces.get_mut(&keyspace) else {
                    return;
                };
                map.retain(|key, _| key[..] < first[..] || key[..] > last[..]);
                let within = now.map(|now| now.range(first..=last));
                for entry in within.into_iter().flatten() {
                    let (key, value) = entry.unwrap();
                    map.insert(key.to_vec(), value.to_vec());
                }
            }
            ChangeKind::Keyspace(KeyspaceChange::Created { number, name }) => {
                self.spaces.insert(number, (name, Map::new()));
            }
            ChangeKind::Keyspace(KeyspaceChange::Renamed { number, name }) => {
                self.spaces.get_mut(&number).unwrap().0 = name;
            }
            ChangeKind::Keyspace(KeyspaceChange::Truncated { number, now }) => {
                let (name, _) = self.spaces.remove(&number).unwrap();
                self.spaces.insert(now, (name, Map::new()));
            }
            ChangeKind::Keyspace(KeyspaceChange::Dropped { number }) => {
                self.spaces.remove(&number).unwrap();
            }
            ChangeKind::Keyspace(KeyspaceChange::Options { .. }) => {}
        }
    }

    fn apply_op(&mut self, op: ChangeOp) {
        let map = |spaces: &mut Spaces, number: u32, change: &dyn Fn(&mut Map)| {
            spaces.entry(number).and_modify(|(_, map)| change(map));
        };
        let spaces = &mut self.spaces;
        match op {
            ChangeOp::Put {
                keyspace,
                key,
                value,
                ..
            } => map(spaces, keyspace, &|map| {
                map.insert(key.to_vec(), value.to_vec());
            }),
            ChangeOp::Delete { keyspace, key } => map(spaces, keyspace, &|map| {
                map.remove(&key[..]);
            }),
            ChangeOp::DeleteRange {
                keyspace,
                start,
                end,
            } => map(spaces, keyspace, &|map| {
                let is_before_end = |key: &[u8]| end.as_ref().is_none_or(|end| *key < end[..]);
                map.retain(|key, _| key[..] < start[..] || !is_before_end(key));
            }),
        }
    }

    /// All is durable; then it must be what the database is.
    fn assert_same(&mut self, db: &Db) {
        db.sync().unwrap();
        self.catch_up(db).unwrap();
        assert_eq!(self.spaces, state(db));
        assert_eq!(self.commit_tag, db.commit_tag().map(Vec::from));
    }
}

pub(crate) fn options(window: u64) -> Options {
    small().change_window_bytes(window)
}

/// A random change of the database.
pub(crate) fn change(db: &Db, rng: &mut SmallRng) -> crate::Result<()> {
    let key = |rng: &mut SmallRng| format!("key{:02}", rng.random_range(0..60));
    let value = |rng: &mut SmallRng| {
        let most = if rng.random_range(0..8) == 0 {
            9000
        } else {
            200
        };
        vec![rng.random::<u8>(); rng.random_range(0..most)]
    };
    let names = db.keyspaces();
    let name = names[rng.random_range(0..names.len())].clone();
    let Some(space) = db.find_keyspace(&name) else {
        return Ok(());
    };
    match rng.random_range(0..30) {
        0 => db.flush(),
        1 => db.sync(),
        2 => db.compact(),
        3 => {
            let (a, b) = (key(rng), key(rng));
            space.delete_range(a..b)
        }
        4 => {
            let mut ingest = space.ingest()?;
            for n in 0..rng.random_range(1..20) {
                let key = format!("key{:02}", 3 * n);
                match rng.random_range(0..4) {
                    0 => ingest.delete(key)?,
                    _ => ingest.put(key, value(rng))?,
                }
            }
            if rng.random() {
                ingest.set_commit_tag(key(rng))?;
            }
            ingest.commit().map(drop)
        }
        5 => {
            let name = format!("space{}", rng.random_range(0..3));
            let inline = KeyspaceOptions::default().inline_value_bytes(rng.random_range(0..50));
            db.keyspace(&name, inline).map(drop)
        }
        6 if name != "default" => match rng.random_range(0..3) {
            0 => space.drop_keyspace(),
            1 => space.truncate(),
            _ => match space.rename(&format!("space{}", rng.random_range(3..5))) {
                Err(error) if error.kind() == ErrorKind::InvalidArgument => Ok(()),
                renamed => renamed,
            },
        },
        7 => {
            let mut batch = Batch::new();
            for _ in 0..rng.random_range(1..6) {
                batch.put_in(&space, key(rng), value(rng)).delete(key(rng));
            }
            batch.set_commit_tag(key(rng));
            db.write_with(&batch, Durability::Sync)
        }
        8..12 => space.delete(key(rng)),
        _ => space.put(key(rng), value(rng)),
    }
}

#[test]
fn a_copy_that_follows_is_what_the_database_is() {
    let (mut seen, mut reopened) = (0, 0);
    for seed in 0..6 {
        let mut machine = Machine::new(seed);
        let mut rng = SmallRng::seed_from_u64(seed);
        let (mut db, mut runtime) = machine.open(options(64 << 20));
        let mut readers = [false, true].map(|unsynced| FeedReader::begin(&db, unsynced));
        let first = readers[0].clone();
        for step in 0..300 {
            change(&db, &mut rng).unwrap();
            if rng.random_range(0..4) == 0 {
                runtime.run_one();
            }
            if rng.random_range(0..5) == 0 {
                readers.iter_mut().for_each(|it| it.catch_up(&db).unwrap());
                assert_eq!(readers[1].spaces, state(&db), "it sees all that is visible");
            }
            if step % 60 == 59 {
                readers.iter_mut().for_each(|it| it.assert_same(&db));
                // Another process goes on with the token.
                if rng.random() {
                    db.close().unwrap();
                    machine.check();
                } else {
                    drop(db);
                    machine.disk = machine.disk.process_kill();
                }
                (db, runtime) = machine.open(Options::default());
                reopened += 1;
            }
        }
        readers.iter_mut().for_each(|it| it.assert_same(&db));
        let mut late = first;
        late.assert_same(&db);
        assert_eq!(late.token, db.change_token().unwrap());
        seen += late.seen;
        assert!(db.stats().lifetime.flushes > 20);
    }
    assert!(seen > 1000 && reopened > 20, "{seen} {reopened}");
}

#[test]
fn a_reader_that_lags_too_much_is_refused_and_never_wrong() {
    let (mut gone, mut right, mut bytes) = (0, 0, 0);
    for seed in 0..4 {
        let machine = Machine::new(seed);
        let mut rng = SmallRng::seed_from_u64(seed);
        let window = 20 << 10;
        let (mut db, mut runtime) = machine.open(options(window));
        let mut reader = FeedReader::begin(&db, false);
        for step in 0..400 {
            change(&db, &mut rng).unwrap();
            runtime.run_one();
            if rng.random_range(0..40) == 0 {
                db.sync().unwrap();
                match reader.catch_up(&db) {
                    Ok(()) => {
                        reader.assert_same(&db);
                        right += 1;
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::HistoryGone, "{error}");
                        reader = FeedReader::begin(&db, false);
                        gone += 1;
                    }
                }
            }
            if step % 100 == 99 {
                db.close().unwrap();
                (db, runtime) = machine.open(Options::default());
            }
            let kept = db.0.engine.core.window_files.bytes().0;
            bytes = kept.max(bytes);
        }
        db.flush().unwrap();
        db.wait_until_idle().unwrap();
        let stats = db.stats();
        let log = db.0.engine.write.wal_sync.bytes();
        assert!(log < window + (64 << 10), "{log} bytes of log");
        drop(stats);
    }
    assert!(gone > 3 && right > 3 && bytes > 0, "{gone} {right} {bytes}");
}

#[test]
fn large_values_of_the_window_are_there_after_they_were_overwritten() {
    let machine = Machine::new(3);
    let (db, _runtime) = machine.open(options(1 << 20));
    let token = db.change_token().unwrap();
    for fill in 0..20 {
        db.put("large", vec![fill; 5000]).unwrap();
        if fill % 3 == 0 {
            db.flush().unwrap();
        }
    }
    db.delete("large").unwrap();
    db.compact().unwrap();
    db.collect_garbage().unwrap();
    db.sync().unwrap();
    let values = |db: &Db| {
        let (values, error) = values_of(&mut db.changes_since(token).unwrap());
        assert!(error.is_none(), "{error:?}");
        values
    };
    let expected: Vec<u8> = (0..20).collect();
    assert_eq!(values(&db), expected);
    let files = || {
        let names = machine.disk.file_names().into_iter();
        names
            .filter(|name| name.to_string_lossy().ends_with(".rec"))
            .count()
    };
    assert!(files() >= 20);
    // Across openings, too, until nobody is to follow.
    db.close().unwrap();
    a_check_reads_the_window(&machine);
    damage_of_the_window_is_no_change(&machine, token, &expected);
    let (db, _runtime) = machine.open(Options::default());
    assert_eq!(values(&db), expected);
    db.compact().unwrap();
    assert_eq!(values(&db), expected);
    db.close().unwrap();
    let (db, _runtime) = machine.open(options(0));
    let refused = db.changes_since(token).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    db.compact().unwrap();
    db.collect_garbage().unwrap();
    db.close().unwrap();
    assert!(files() < 5, "{}", files());
    machine.check();
    let (db, _runtime) = machine.open(options(1 << 20));
    let refused = db.changes_since(token).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::HistoryGone);
}

fn keeps(nth: u64) -> [Keep; 5] {
    let (sectors, torn) = (Keep::Sectors(nth), Keep::Torn(nth));
    [Keep::Nothing, Keep::All, Keep::Prefix(nth), sectors, torn]
}

/// Changes until a call fails, and follows.
fn live(db: &Db, readers: &mut [FeedReader; 2], seed: u64) -> bool {
    let mut rng = SmallRng::seed_from_u64(seed);
    for _ in 0..60 {
        if change(db, &mut rng).is_err() {
            return false;
        }
        if rng.random_range(0..3) == 0 {
            for reader in readers.iter_mut() {
                if reader.catch_up(db).is_err() {
                    return false;
                }
            }
        }
    }
    true
}

#[test]
fn no_power_cut_takes_what_a_reader_has_seen() {
    let (mut cuts, mut lost) = (0, 0);
    for seed in 0..3 {
        for nth in (seed..).step_by(7) {
            let machine = Machine::new(seed);
            let (db, runtime) = machine.open(options(1 << 20));
            let mut readers = [false, true].map(|unsynced| FeedReader::begin(&db, unsynced));
            machine.cut_power_after(nth);
            let lived = live(&db, &mut readers, seed);
            machine.disk.clear_faults();
            for keep in keeps(nth) {
                let disk = machine.disk.power_cut(keep);
                let machine = Machine { disk, seed: 9 };
                let (db, runtime) = machine.open(options(1 << 20));
                // Numbers are given again.
                for n in 0..4 {
                    db.put(format!("after{n}"), "cut").unwrap();
                }
                let [mut durable, mut unsynced] = readers.clone();
                durable.assert_same(&db);
                match unsynced.catch_up(&db) {
                    Ok(()) => unsynced.assert_same(&db),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::HistoryGone, "{error}");
                        lost += 1;
                    }
                }
                drop((db, runtime));
            }
            cuts += 1;
            drop((db, runtime));
            if lived {
                break;
            }
        }
    }
    assert!(cuts > 30 && lost > 5, "{cuts} {lost}");
}

#[test]
fn a_failure_of_any_call_shows_no_reader_what_is_not_there() {
    let mut failed = 0;
    for nth in (0..).step_by(5) {
        let machine = Machine::new(4);
        let (db, runtime) = machine.open(options(1 << 20));
        let mut readers = [false, true].map(|unsynced| FeedReader::begin(&db, unsynced));
        let at = machine.disk.calls() + nth;
        machine.disk.set_fault(Box::new(move |call| {
            if call.index == at {
                Fault::Fail(IoKind::Other)
            } else {
                Fault::None
            }
        }));
        let lived = live(&db, &mut readers, 4);
        machine.disk.clear_faults();
        let _as_far_as_it_goes = db.flush();
        // What they have seen is there, or they are refused; also after a restart.
        for reader in &mut readers {
            if db.sync().is_ok() {
                match reader.catch_up(&db) {
                    Ok(()) => assert_eq!(reader.spaces, state(&db)),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::HistoryGone, "{error}"),
                }
            }
        }
        drop((db, runtime));
        for keep in [Keep::Nothing, Keep::All] {
            let disk = machine.disk.power_cut(keep);
            let (db, _runtime) = Machine { disk, seed: 9 }.open(options(1 << 20));
            db.put("after", "restart").unwrap();
            db.sync().unwrap();
            for reader in &readers {
                let mut reader = reader.clone();
                match reader.catch_up(&db) {
                    Ok(()) => assert_eq!(reader.spaces, state(&db)),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::HistoryGone, "{error}"),
                }
            }
        }
        failed += 1;
        if lived && nth > 20 {
            break;
        }
    }
    assert!(failed > 5, "{failed}");
}

#[test]
fn tokens_of_other_histories_are_refused() {
    let machine = Machine::new(5);
    let (db, _runtime) = machine.open(options(1 << 20));
    db.put("a", "1").unwrap();
    let token = db.change_token().unwrap();
    // A copy that goes on by itself.
    db.checkpoint("/copy").unwrap();
    let env = crate::vfs::Env {
        vfs: Arc::new(machine.disk.clone()),
        runtime: SimRuntime::new(8),
    };
    let copy = Db::open("/copy", Options::default().env(env)).unwrap();
    copy.put("b", "copy").unwrap();
    db.put("b", "original").unwrap();
    let (of_copy, of_original) = (copy.change_token().unwrap(), db.change_token().unwrap());
    let kind = |changes: crate::Result<Changes>| changes.map(drop).unwrap_err().kind();
    assert_eq!(kind(db.changes_since(of_copy)), ErrorKind::HistoryGone);
    assert_eq!(
        kind(copy.changes_since(of_original)),
        ErrorKind::HistoryGone
    );
    db.changes_since(token).unwrap();
    // One of the future, and one of another database.
    let future = ChangeToken {
        seq: of_original.seq + 1,
        ..of_original
    };
    assert_eq!(kind(db.changes_since(future)), ErrorKind::HistoryGone);
    let (other, _runtime) = Machine::new(6).open(options(1 << 20));
    assert_eq!(
        kind(db.changes_since(other.change_token().unwrap())),
        ErrorKind::HistoryGone
    );
    // Without a window there are none.
    let (off, _runtime) = Machine::new(7).open(small());
    assert_eq!(
        off.change_token().unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
    assert_eq!(kind(off.changes_since(token)), ErrorKind::InvalidArgument);
    let mut changes = db.changes_since(token).unwrap();
    db.close().unwrap();
    assert_eq!(changes.try_next().unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn a_record_that_says_more_operations_than_it_holds_is_damage() {
    let machine = Machine::new(31);
    let (db, _) = machine.open(options(1 << 20));
    let token = db.change_token().unwrap();
    let write = WalWrite {
        base_seq: SeqNo(1),
        count: u32::MAX,
        commit_tag: None,
        ops: &[],
    };
    let path = Path::new("/db/000001.wal");
    let error = of_write(&db.0.engine.core, path, token, &write).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert_eq!(error.file(), Some(path));
}

#[test]
fn a_reader_that_waits_is_woken() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), Options::default().change_window_bytes(1 << 20)).unwrap();
    let mut changes = db.changes_since(db.change_token().unwrap()).unwrap();
    assert_eq!(
        changes.next_timeout(Duration::from_millis(5)).unwrap(),
        None
    );
    let writer = db.clone();
    let thread = std::thread::spawn(move || {
        for n in 0..2000_u32 {
            let durability = match n % 2 {
                0 => Durability::Sync,
                _ => Durability::Buffered,
            };
            writer
                .put_with(n.to_be_bytes(), "value", durability)
                .unwrap();
        }
        writer.sync().unwrap();
    });
    for n in 0..2000_u32 {
        let change = changes.wait_next().unwrap();
        let ChangeKind::Write(ops) = change.kind else {
            panic!("{change:?}");
        };
        let is_next =
            |op: &ChangeOp| matches!(op, ChangeOp::Put { key, .. } if key[..] == n.to_be_bytes());
        assert!(is_next(&ops[0]) && ops.len() == 1, "{n}: {ops:?}");
    }
    thread.join().unwrap();
    let closer = std::thread::spawn(move || db.close());
    let ended = changes.wait_next().unwrap_err();
    assert_eq!(ended.kind(), ErrorKind::Closed);
    closer.join().unwrap().unwrap();
}

fn _assert_send(changes: Changes) -> impl Send {
    changes
}

#[test]
fn a_token_is_refused_although_only_a_later_crash_took_what_it_knows_of() {
    let mut machine = Machine::new(11);
    let (db, _runtime) = machine.open(options(1 << 20));
    db.put("first", "durable").unwrap();
    db.sync().unwrap();
    let durable = db.change_token().unwrap();
    db.put("second", "not durable").unwrap();
    let token = db.change_token().unwrap();
    drop(db);
    // The process dies, and the next one finds both writes and makes none of them durable.
    machine.disk = machine.disk.process_kill();
    let (db, _runtime) = machine.open(Options::default());
    assert!(db.changes_since(token).is_ok());
    drop(db);
    machine.disk = machine.disk.power_cut(Keep::Nothing);
    let (db, _runtime) = machine.open(Options::default());
    assert_eq!(db.get("second").unwrap(), None);
    assert!(db.changes_since(durable).is_ok());
    for _ in 0..2 {
        let refused = db.changes_since(token).map(drop).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::HistoryGone);
        // Its number is given again.
        db.put("another", "value").unwrap();
    }
}

#[test]
fn a_change_of_keyspaces_does_not_come_before_recovered_writes() {
    let machine = Machine::new(12);
    let (db, _runtime) = machine.open(options(1 << 20));
    let mut reader = FeedReader::begin(&db, false);
    db.put("key", "recovered from the log").unwrap();
    db.keyspace("space", KeyspaceOptions::default()).unwrap();
    db.put("key", "after it").unwrap();
    db.close().unwrap();
    let (db, _runtime) = machine.open(Options::default());
    // The put is durable, but of a log of an earlier process nobody knows it.
    reader.catch_up(&db).unwrap();
    let entries = [("other", Some("ingested"))];
    db.ingest_sorted(entries.into_iter().map(crate::Result::Ok), None)
        .unwrap();
    reader.catch_up(&db).unwrap();
    db.flush().unwrap();
    reader.assert_same(&db);
    assert_eq!(reader.seen, 4);
}

#[test]
fn the_number_of_a_change_is_not_given_again_when_it_is_forgotten() {
    let mut machine = Machine::new(13);
    let (db, runtime) = machine.open(options(1 << 20));
    db.put("key", "in a table").unwrap();
    let mut reader = FeedReader::begin(&db, false);
    db.flush().unwrap();
    // The log does not begin again after the change of keyspaces, and later with a new window.
    let is_log = |path: &Path| path.extension().is_some_and(|it| it == "wal");
    machine.disk.set_fault(Box::new(move |call| {
        if is_log(call.path) {
            Fault::Fail(IoKind::Other)
        } else {
            Fault::None
        }
    }));
    db.keyspace("space", KeyspaceOptions::default()).unwrap();
    let made = db.change_token().unwrap();
    machine.disk.clear_faults();
    runtime.run_until_idle();
    db.flush().unwrap();
    machine.disk = machine.disk.power_cut(Keep::Nothing);
    drop(db);
    for _ in 0..3 {
        let (db, _runtime) = machine.open(options(1 << 20));
        assert_eq!(db.change_token().unwrap().seq(), made.seq());
        match reader.catch_up(&db) {
            Ok(()) => reader.assert_same(&db),
            Err(error) => assert_eq!(error.kind(), ErrorKind::HistoryGone),
        }
        machine.disk = machine.disk.power_cut(Keep::Nothing);
    }
}

#[test]
fn writes_that_only_tables_have_are_not_left_out() {
    let mut machine = Machine::new(14);
    let (db, _runtime) = machine.open(options(1 << 20));
    db.put("first", "durable").unwrap();
    let reader = FeedReader::begin(&db, false);
    // Several segments, none of them in tables or durable.
    let mut rng = SmallRng::seed_from_u64(14);
    for n in 0..24 {
        let value: Vec<u8> = (0..500).map(|_| rng.random()).collect();
        db.put(format!("key{n}"), value).unwrap();
    }
    machine.disk = machine.disk.process_kill();
    drop(db);
    // Another process cannot sync what this one has written. It puts it into tables, and the power
    // goes meanwhile.
    let (mut gone, mut tables) = (0, 0);
    for (seed, calls) in (0..).zip((0..40).flat_map(|calls| [calls; 8])) {
        let disk = machine.disk.process_kill();
        let mut machine = Machine { disk, seed };
        let (db, _runtime) = machine.open(options(1 << 20));
        machine.cut_power_after(calls);
        let _as_far_as_it_goes = db.flush();
        machine.disk = machine.disk.power_cut(Keep::Torn(seed));
        drop(db);
        let (db, _runtime) = machine.open(options(1 << 20));
        tables += u64::from(db.contains_key("key1").unwrap());
        match reader.clone().catch_up(&db) {
            Ok(()) => {
                let mut reader = reader.clone();
                reader.unsynced = true;
                reader.catch_up(&db).unwrap();
                reader.assert_same(&db);
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::HistoryGone, "{error}");
                gone += 1;
            }
        }
    }
    assert!(gone > 0 && tables > 0, "{gone} {tables}");
}

/// The files that are the window's alone: all with data but the newest segment of the log.
fn window_files(machine: &Machine) -> Vec<PathBuf> {
    let mut names = machine.disk.file_names();
    let ends = |name: &Path, with: &str| name.to_string_lossy().ends_with(with);
    let newest = names
        .iter()
        .filter(|name| ends(name, ".wal"))
        .max()
        .cloned();
    names.retain(|name| ends(name, ".wal") || ends(name, ".rec"));
    names.retain(|name| Some(name) != newest.as_ref());
    assert!(names.len() >= 25, "{names:?}");
    names
}

/// The machine with one bit of a file flipped.
fn flipped(machine: &Machine, path: &Path, at: usize) -> Machine {
    let disk = machine.disk.process_kill();
    let mut bytes = disk.read_file(path).unwrap();
    bytes[at] ^= 1 << (at % 8);
    disk.write_file(path, &bytes);
    Machine { disk, seed: 5 }
}

/// Each file of the window is read by a check, which notes the damage of any and calls none a
/// problem.
fn a_check_reads_the_window(machine: &Machine) {
    let check = |machine: &Machine| {
        let report = machine.env().check("/db").unwrap();
        assert!(report.is_clean(), "{:?}", report.problems);
        report
    };
    let sound = check(machine);
    assert!(sound.notes.is_empty(), "{:?}", sound.notes);
    let (mut noted, mut missed) = (0, 0);
    for path in window_files(machine) {
        // In the midst of what was written.
        let middle = machine.disk.read_file(&path).unwrap().len() / 2;
        let report = check(&flipped(machine, &path, middle));
        noted += u64::from(!report.notes.is_empty());
        assert!(report.bytes <= sound.bytes && report.files <= sound.files);

        let disk = machine.disk.process_kill();
        disk.remove(&path).unwrap();
        let report = check(&Machine { disk, seed: 5 });
        missed += u64::from(report.notes.is_empty());
    }
    assert!(noted >= 25, "{noted} files");
    // Nothing says that there was something before the oldest segment that is left.
    assert!(missed <= 1, "{missed} files are missing and not missed");
}

/// With any of their bytes changed, a reader gets what was written, up to where the damage is,
/// or is refused; and the database is what it was.
fn damage_of_the_window_is_no_change(machine: &Machine, token: ChangeToken, expected: &[u8]) {
    let (mut refused, mut corrupt) = (0, 0);
    for (nth, path) in window_files(machine).into_iter().enumerate() {
        let len = machine.disk.read_file(&path).unwrap().len();
        for at in (0..len)
            .step_by(41)
            .map(|at| at + nth % 41)
            .filter(|at| *at < len)
        {
            let damaged = flipped(machine, &path, at);
            let (db, _runtime) = damaged.open(Options::default());
            assert!(db.iter().next().is_none(), "{path:?} at {at}");
            let (found, error) = match db.changes_since(token) {
                Ok(mut changes) => values_of(&mut changes),
                Err(error) => (Vec::new(), Some(error)),
            };
            assert!(expected.starts_with(&found), "{path:?} at {at}: {found:?}");
            match error {
                None => assert_eq!(found, expected, "{path:?} at {at}"),
                Some(error) if error.kind() == ErrorKind::HistoryGone => refused += 1,
                Some(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
                    assert_eq!(error.file(), Some(&*path), "{error}");
                    corrupt += 1;
                }
            }
        }
    }
    assert!(refused > 20 && corrupt > 20, "{refused} {corrupt}");
}

/// The bytes of which the large values consist, up to where the feed ends or fails.
fn values_of(changes: &mut Changes) -> (Vec<u8>, Option<crate::Error>) {
    let mut values = Vec::new();
    loop {
        let change = match changes.try_next() {
            Ok(Some(change)) => change,
            end => return (values, end.err()),
        };
        let ChangeKind::Write(ops) = change.kind else {
            panic!("{change:?}");
        };
        for op in ops {
            if let ChangeOp::Put { value, .. } = op {
                assert!(value.len() == 5000 && value.iter().all(|byte| *byte == value[0]));
                values.push(value[0]);
            }
        }
    }
}
