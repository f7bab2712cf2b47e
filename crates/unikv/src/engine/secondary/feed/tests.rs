//! The feed of a secondary beside the feed of the writer itself, on one simulated disk.
//!
//! What the writer shows with `include_unsynced` is noted after each of its steps: whatever a
//! secondary shows must be the next of that, one after the other. `UNIKV_FEED_SEED` is the first of
//! the seeds.

use crate::base::sync::Mutex;
use crate::engine::changes::tests::{change, options};
use crate::engine::tests::Machine;
use crate::vfs::Vfs;
use crate::vfs::sim::{Fault, Keep, Op, SimRuntime};
use crate::{
    Change, ChangeKind, ChangeOp, ChangeToken, Changes, ChangesOptions, Db, Durability, ErrorKind,
    KeyspaceOptions, Options, Secondary, SecondaryOptions,
};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

fn unsynced(yes: bool) -> ChangesOptions {
    ChangesOptions::default().include_unsynced(yes)
}

fn follow(machine: &Machine) -> Secondary {
    Db::open_secondary("/db", SecondaryOptions::default().env(machine.env())).unwrap()
}

/// All that there is, and the error at its end.
fn drain(changes: &mut Changes) -> (Vec<Change>, Option<crate::Error>) {
    let mut all = Vec::new();
    loop {
        match changes.try_next() {
            Ok(Some(change)) => all.push(change),
            end => return (all, end.err()),
        }
    }
}

/// What the writer has shown of itself.
struct Noted {
    all: BTreeMap<u64, Change>,
    token: ChangeToken,
}

impl Noted {
    fn begin(db: &Db) -> Noted {
        Noted {
            all: BTreeMap::new(),
            token: db.change_token().unwrap(),
        }
    }

    /// Notes what the writer shows now.
    fn note(&mut self, db: &Db) {
        let mut changes = db.changes_with(self.token, unsynced(true)).unwrap();
        let (all, error) = drain(&mut changes);
        assert!(error.is_none(), "{error:?}");
        for change in all {
            self.all.insert(change.token.seq(), change);
        }
        self.token = changes.token();
    }

    /// What comes after a number.
    fn next(&self, seq: u64) -> Option<&Change> {
        let after = (Bound::Excluded(seq), Bound::Unbounded);
        self.all.range(after).next().map(|(_, change)| change)
    }

    /// Asserts that these are the next after `seq`, and returns the last number.
    fn check(&self, mut seq: u64, shown: &[Change]) -> u64 {
        for change in shown {
            let next = self.next(seq).expect("the writer has shown it");
            assert_eq!(change.token.seq(), next.token.seq(), "{change:?} {next:?}");
            assert_eq!(
                (&change.kind, &change.commit_tag),
                (&next.kind, &next.commit_tag)
            );
            seq = change.token.seq();
        }
        seq
    }
}

/// One who reads at a secondary.
struct Reader {
    changes: Option<Changes>,
    token: ChangeToken,
    unsynced: bool,
}

#[derive(Debug, Default)]
struct Counts {
    shown: u64,
    gone: u64,
    cuts: u64,
    failed: u64,
}

impl Reader {
    fn new(token: ChangeToken, unsynced: bool) -> Reader {
        Reader {
            changes: None,
            token,
            unsynced,
        }
    }

    /// Reads all that there is. False: it is gone.
    fn read(&mut self, secondary: &Secondary, noted: &Noted, counts: &mut Counts) -> bool {
        let mut changes = match self.changes.take() {
            Some(changes) => changes,
            None => match secondary.changes_with(self.token, unsynced(self.unsynced)) {
                Ok(changes) => changes,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::HistoryGone, "{error}");
                    return false;
                }
            },
        };
        let (all, error) = drain(&mut changes);
        let last = noted.check(self.token.seq(), &all);
        assert_eq!(changes.token().seq(), last);
        self.token = changes.token();
        counts.shown += all.len() as u64;
        match error {
            Some(error) => {
                assert_eq!(error.kind(), ErrorKind::HistoryGone, "{error}");
                false
            }
            None => {
                self.changes = Some(changes);
                true
            }
        }
    }
}

/// What a power cut leaves in any case has all that the token knows of.
fn assert_durable(machine: &Machine, token: ChangeToken) {
    let disk = machine.disk.power_cut(Keep::Nothing);
    let seed = machine.seed + 1000;
    let (db, _runtime) = Machine { disk, seed }.open(options(1 << 20));
    match db.changes_since(token) {
        Ok(_) => {}
        // Its window may begin after it, but it has what the token knows of.
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::HistoryGone, "{error}");
            assert!(error.to_string().contains("not kept"), "{error}");
        }
    }
}

/// Refuses the next call that writes to the log or syncs it.
fn fail_log(machine: &Machine, is_sync: bool) {
    machine.disk.set_fault(Box::new(move |call| {
        let is_log = call.path.extension().is_some_and(|it| it == "wal");
        if is_log && (call.op == Op::Sync) == is_sync {
            Fault::Fail(std::io::ErrorKind::Other)
        } else {
            Fault::None
        }
    }));
}

/// What a step leaves: the database, if it was not closed or killed.
struct World {
    machine: Machine,
    db: Option<(Db, Arc<SimRuntime>)>,
    secondary: Secondary,
    readers: Vec<Reader>,
    noted: Noted,
    counts: Counts,
    window: u64,
}

impl World {
    fn new(seed: u64, window: u64) -> World {
        let machine = Machine::new(seed);
        let db = machine.open(options(window));
        let secondary = follow(&machine);
        let noted = Noted::begin(&db.0);
        let token = noted.token;
        World {
            readers: vec![
                Reader::new(token, false),
                Reader::new(token, true),
                Reader::new(token, false),
            ],
            machine,
            db: Some(db),
            secondary,
            noted,
            counts: Counts::default(),
            window,
        }
    }

    fn reopen(&mut self) {
        self.machine.seed += 1;
        let db = self.machine.open(options(self.window));
        let token = self.noted.token;
        match db.0.changes_with(token, unsynced(true)) {
            Ok(_) => self.noted.note(&db.0),
            // A cut has taken the last of it.
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::HistoryGone, "{error}");
                let token = db.0.change_token().unwrap();
                self.noted.all.retain(|seq, _| *seq <= token.seq());
                self.noted.token = token;
            }
        }
        self.db = Some(db);
    }

    fn step(&mut self, rng: &mut SmallRng) {
        let Some((db, runtime)) = &self.db else {
            self.read(rng, 2);
            if self.db.is_none() && rng.random_range(0..3) == 0 {
                self.reopen();
            }
            return;
        };
        match rng.random_range(0..120) {
            0 => {
                db.clone().close().unwrap();
                self.db = None;
            }
            1 => self.db = None,
            2 => self.cut_power(rng),
            3 => {
                fail_log(&self.machine, rng.random());
                let _unknown = db.put_with("key00", "failed", Durability::Sync);
                let _is_refused = db.keyspace("space5", KeyspaceOptions::default());
                self.machine.disk.clear_faults();
                self.noted.note(db);
                self.read(rng, 2);
                let (db, _) = self.db.as_ref().unwrap();
                db.flush().unwrap();
                self.noted.note(db);
                self.counts.failed += 1;
            }
            _ => {
                change(db, rng).unwrap();
                if rng.random_range(0..4) == 0 {
                    runtime.run_one();
                }
                self.noted.note(db);
            }
        }
        self.read(rng, 6);
    }

    /// Some of the readers go on.
    fn read(&mut self, rng: &mut SmallRng, seldom: u32) {
        if rng.random_range(0..seldom) == 0 {
            self.secondary.refresh().unwrap();
        }
        // The last one lags.
        for nth in 0..self.readers.len() {
            if rng.random_range(0..seldom * if nth == 2 { 12 } else { 1 }) > 0 {
                continue;
            }
            self.go_on(nth, rng);
        }
    }

    fn go_on(&mut self, nth: usize, rng: &mut SmallRng) {
        let reader = &mut self.readers[nth];
        if rng.random_range(0..6) == 0 {
            reader.changes = None;
        }
        let before = reader.token;
        let is_there = reader.read(&self.secondary, &self.noted, &mut self.counts);
        if !reader.unsynced && rng.random_range(0..12) == 0 {
            assert_durable(&self.machine, reader.token);
        }
        let Some((db, _)) = &self.db else {
            if !is_there {
                self.begin_again(nth);
            }
            return;
        };
        let own = db.changes_with(before, unsynced(reader.unsynced));
        let own = own.map(|mut changes| drain(&mut changes));
        let kept = match own {
            Ok((shown, None)) => Some(shown),
            _ => None,
        };
        if !is_there {
            assert!(kept.is_none(), "the writer still has what comes after it");
            self.counts.gone += 1;
            self.begin_again(nth);
            return;
        }
        // Once it has looked, it shows no less than the writer.
        self.secondary.refresh().unwrap();
        let reader = &mut self.readers[nth];
        let is_there = reader.read(&self.secondary, &self.noted, &mut self.counts);
        if let Some(last) = kept.as_ref().and_then(|shown| shown.last()) {
            let seq = reader.token.seq();
            assert!(
                is_there && seq >= last.token.seq(),
                "{is_there} {seq} {last:?}"
            );
        }
        if !is_there {
            self.begin_again(nth);
        }
    }

    fn begin_again(&mut self, nth: usize) {
        if self.db.is_none() {
            self.reopen();
        }
        let reader = &mut self.readers[nth];
        let (db, _) = self.db.as_ref().unwrap();
        db.sync().unwrap();
        self.noted.note(db);
        *reader = Reader::new(self.noted.token, reader.unsynced);
    }

    fn cut_power(&mut self, rng: &mut SmallRng) {
        let nth = rng.random_range(0..100);
        let keeps = [Keep::Nothing, Keep::All, Keep::Prefix(nth), Keep::Torn(nth)];
        let keep = keeps[rng.random_range(0..4)];
        self.machine.disk = self.machine.disk.power_cut(keep);
        self.db = None;
        self.secondary = follow(&self.machine);
        self.readers.iter_mut().for_each(|it| it.changes = None);
        self.counts.cuts += 1;
        // As another process would find it: then somebody opens it.
        let durable = self.readers[0].token;
        self.read_after_cut();
        self.reopen();
        let (db, _) = self.db.as_ref().unwrap();
        match db.changes_since(durable) {
            Ok(_) => {}
            Err(error) => assert!(error.to_string().contains("not kept"), "{error}"),
        }
        let last = self.noted.token.seq();
        for reader in &mut self.readers {
            // What it has seen was taken.
            if db.changes_with(reader.token, unsynced(true)).is_err() || reader.token.seq() > last {
                assert!(reader.unsynced || reader.token.seq() <= last);
                *reader = Reader::new(self.noted.token, reader.unsynced);
            }
        }
    }

    /// What was durable is there, and nobody is shown what the writer has not shown.
    fn read_after_cut(&mut self) {
        for reader in &mut self.readers {
            reader.read(&self.secondary, &self.noted, &mut self.counts);
            reader.changes = None;
        }
    }

    /// All of it is durable, and seen.
    fn end(&mut self) {
        if self.db.is_none() {
            self.reopen();
        }
        let (db, _) = self.db.as_ref().unwrap();
        db.sync().unwrap();
        self.noted.note(db);
        self.secondary.refresh().unwrap();
        for reader in &mut self.readers[..2] {
            if reader.read(&self.secondary, &self.noted, &mut self.counts) {
                assert_eq!(reader.token.seq(), self.noted.token.seq());
            }
        }
    }
}

#[test]
fn a_secondary_shows_what_the_writer_shows_whatever_becomes_of_log_and_writer() {
    let mut all = Counts::default();
    let from = std::env::var("UNIKV_FEED_SEED").map_or(0, |it| it.parse().unwrap());
    for seed in from..from + 12 {
        let window = [12 << 10, 20 << 10, 64 << 10, 1 << 20][seed as usize % 4];
        let mut world = World::new(seed, window);
        let mut rng = SmallRng::seed_from_u64(seed);
        for _ in 0..300 {
            world.step(&mut rng);
        }
        world.end();
        all.shown += world.counts.shown;
        all.gone += world.counts.gone;
        all.cuts += world.counts.cuts;
        all.failed += world.counts.failed;
    }
    let enough = all.shown > 2000 && all.gone > 10 && all.cuts > 5 && all.failed > 5;
    assert!(enough, "{all:?}");
}

/// What a writer does in the middle of a read. It calls the other function after each change.
type Act = fn(&Db, &mut dyn FnMut());

fn fill(db: &Db, from: u32, to: u32, note: &mut dyn FnMut()) {
    for n in from..to {
        db.put(format!("key{:02}", n % 40), vec![n as u8; 300])
            .unwrap();
        note();
    }
}

const ACTS: [(&str, Act); 6] = [
    ("a few writes", |db, note| fill(db, 0, 3, note)),
    ("the window passes all", |db, note| {
        fill(db, 0, 150, note);
        db.flush().unwrap();
        fill(db, 0, 2, note);
    }),
    ("one rotation", |db, note| {
        db.flush().unwrap();
        fill(db, 0, 1, note);
    }),
    ("large values and a merge", |db, note| {
        for n in 0..6 {
            db.put("large", vec![n; 7000]).unwrap();
            note();
        }
        db.compact().unwrap();
        db.collect_garbage().unwrap();
    }),
    ("changes of keyspaces", |db, note| {
        let space = db.keyspace("more", KeyspaceOptions::default()).unwrap();
        note();
        space.put("key", "value").unwrap();
        note();
        space.truncate().unwrap();
        note();
        db.flush().unwrap();
        space.drop_keyspace().unwrap();
        note();
    }),
    ("an ingest", |db, note| {
        let entries = (0..9).map(|n| (format!("key{n}"), Some("ingested")));
        db.ingest_sorted(entries.map(crate::Result::Ok), None)
            .unwrap();
        note();
        fill(db, 0, 30, note);
    }),
];

#[test]
fn whatever_a_writer_does_while_its_log_is_read_nothing_else_is_shown() {
    for (name, act) in ACTS {
        for is_lagging in [false, true] {
            let (mut at, mut gone) = (0, 0);
            while let Some(was_gone) = acts_during_a_read((name, act), is_lagging, at) {
                gone += u64::from(was_gone);
                at += 1;
            }
            assert!(at > 5, "{name}: {at}");
            let may_pass = name.contains("window") || name.contains("ingest");
            assert!(
                gone == 0 || may_pass || is_lagging,
                "{name}: {gone} of {at}"
            );
        }
    }
}

/// Does `act` before the look with this number of a read. Whether the reader was refused; `None`:
/// there is no such look.
fn acts_during_a_read((name, act): (&str, Act), is_lagging: bool, at: u64) -> Option<bool> {
    let machine = Machine::new(200 + at);
    let (db, _) = machine.open(options(16 << 10));
    let noted = Arc::new(Mutex::new(Noted::begin(&db)));
    let token = noted.lock().token;
    let secondary = follow(&machine);
    let mut reader = secondary.changes_with(token, unsynced(true)).unwrap();
    let mut note = || noted.lock().note(&db);
    fill(&db, 0, 20, &mut note);
    db.put("large", vec![9; 6000]).unwrap();
    note();
    if !is_lagging {
        secondary.refresh().unwrap();
        let (shown, error) = drain(&mut reader);
        assert!(shown.len() == 21 && error.is_none(), "{error:?}");
    }
    fill(&db, 20, 24, &mut note);
    // It is in no record of the log, and comes after records that must not be passed over.
    db.keyspace("late", KeyspaceOptions::default()).unwrap();
    note();
    secondary.refresh().unwrap();
    let before = reader.token().seq();

    let (mut looks, acted) = (0, Arc::new(Mutex::new(false)));
    let (acts, to_note, writer) = (Arc::clone(&acted), Arc::clone(&noted), db.clone());
    machine.disk.set_look_fault(Box::new(move |_| {
        looks += 1;
        if looks == at + 1 {
            *acts.lock() = true;
            act(&writer, &mut || to_note.lock().note(&writer));
        }
        Fault::None
    }));
    let (shown, error) = drain(&mut reader);
    machine.disk.clear_faults();
    let noted = noted.lock();
    let seq = noted.check(before, &shown);
    assert_eq!(seq, reader.token().seq());
    if let Some(error) = error {
        assert_eq!(
            error.kind(),
            ErrorKind::HistoryGone,
            "{name} at {at}: {error}"
        );
        let own = db.changes_with(reader.token(), unsynced(true));
        let own = own.map(|mut changes| drain(&mut changes).1);
        assert!(!matches!(own, Ok(None)), "{name} at {at}: it is not gone");
        return Some(true).filter(|_| *acted.lock());
    }
    secondary.refresh().unwrap();
    let (shown, error) = drain(&mut reader);
    let seq = noted.check(seq, &shown);
    match &error {
        None => assert_eq!(seq, noted.token.seq(), "{name} at {at}"),
        Some(error) => assert_eq!(
            error.kind(),
            ErrorKind::HistoryGone,
            "{name} at {at}: {error}"
        ),
    }
    Some(error.is_some()).filter(|_| *acted.lock())
}

fn keys(changes: &mut Changes) -> Vec<String> {
    let (all, error) = drain(changes);
    assert!(error.is_none(), "{error:?}");
    let keys = all.into_iter().map(|change| match change.kind {
        ChangeKind::Write(ops) => match &ops[..] {
            [ChangeOp::Put { key, .. }] => String::from_utf8(key.to_vec()).unwrap(),
            ops => panic!("{ops:?}"),
        },
        kind => panic!("{kind:?}"),
    });
    keys.collect()
}

#[test]
fn what_is_durable_is_shown_by_a_word_of_the_writer_by_tables_or_by_the_log() {
    let machine = Machine::new(31);
    let (db, _runtime) = machine.open(options(1 << 20));
    let secondary = follow(&machine);
    let token = secondary.change_token().unwrap();
    let mut durable = secondary.changes_since(token).unwrap();
    let mut visible = secondary.changes_with(token, unsynced(true)).unwrap();
    db.put("first", "1").unwrap();
    assert!(
        keys(&mut visible).is_empty(),
        "the secondary does not show it"
    );
    secondary.refresh().unwrap();
    assert_eq!(keys(&mut visible), ["first"]);
    assert!(keys(&mut durable).is_empty());
    // The page says so.
    db.sync().unwrap();
    assert_eq!(keys(&mut durable), ["first"]);
    // Tables have it.
    db.put("second", "2").unwrap();
    db.flush().unwrap();
    secondary.refresh().unwrap();
    assert_eq!(keys(&mut durable), ["second"]);
    // The process dies. What it has not synced is shown once another one has made it durable.
    db.put_with("third", "3", Durability::Sync).unwrap();
    db.put("fourth", "4").unwrap();
    db.put("fifth", "5").unwrap();
    drop(db);
    assert!(keys(&mut durable).is_empty(), "nothing before a refresh");
    secondary.refresh().unwrap();
    assert_eq!(keys(&mut durable), ["third"], "the log claims it");
    assert_eq!(keys(&mut visible), ["second", "third", "fourth", "fifth"]);
    let machine = Machine {
        seed: 32,
        ..machine
    };
    let (db, _runtime) = machine.open(Options::default());
    secondary.refresh().unwrap();
    assert!(keys(&mut durable).is_empty());
    db.sync().unwrap();
    secondary.refresh().unwrap();
    assert_eq!(keys(&mut durable), ["fourth", "fifth"]);
    assert_eq!(durable.token(), db.change_token().unwrap());
}

#[test]
fn tokens_are_those_of_the_writer() {
    let machine = Machine::new(33);
    let (db, _runtime) = machine.open(options(1 << 20));
    let secondary = follow(&machine);
    assert_eq!(
        secondary.change_token().unwrap(),
        db.change_token().unwrap()
    );
    db.put("a", "1").unwrap();
    db.sync().unwrap();
    // One that is ahead of what is shown.
    let token = db.change_token().unwrap();
    let mut changes = secondary.changes_since(token).unwrap();
    assert_eq!(
        (changes.try_next().unwrap(), changes.token()),
        (None, token)
    );
    assert_eq!(secondary.seq(), token.seq());
    let oldest = secondary.oldest_change_token().unwrap();
    assert_eq!(oldest, db.oldest_change_token().unwrap());
    for (incarnation, seq) in [(token.incarnation, token.seq + 1), (7, 0)] {
        let refused = secondary.changes_since(ChangeToken { incarnation, seq });
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::HistoryGone);
    }
    db.close().unwrap();
    let (db, _runtime) = Machine {
        seed: 34,
        ..machine
    }
    .open(options(0));
    secondary.refresh().unwrap();
    for refused in [secondary.change_token(), secondary.oldest_change_token()] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    assert_eq!(
        changes.try_next().unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
    drop(db);
}

#[test]
fn a_reader_of_a_secondary_waits_for_what_a_writer_does() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), Options::default().change_window_bytes(1 << 20)).unwrap();
    let secondary = Db::open_secondary(dir.path(), SecondaryOptions::default()).unwrap();
    let token = secondary.change_token().unwrap();
    let mut changes = secondary.changes_since(token).unwrap();
    let short = Duration::from_millis(5);
    assert_eq!(changes.next_timeout(short).unwrap(), None);
    let writer = std::thread::spawn(move || {
        for n in 0..300_u32 {
            db.put_with(n.to_be_bytes(), "value", Durability::Sync)
                .unwrap();
            if n % 100 == 99 {
                db.flush().unwrap();
            }
        }
        db.close().unwrap();
    });
    for n in 0..300_u32 {
        let change = changes.wait_next().unwrap();
        let ChangeKind::Write(ops) = change.kind else {
            panic!("{change:?}");
        };
        let is_next =
            |op: &ChangeOp| matches!(op, ChangeOp::Put { key, .. } if key[..] == n.to_be_bytes());
        assert!(is_next(&ops[0]) && ops.len() == 1, "{n}: {ops:?}");
    }
    writer.join().unwrap();
    assert_eq!(changes.next_timeout(short).unwrap(), None);
}

/// As on a mount point whose snapshot was rolled back.
#[test]
fn the_log_of_another_history_in_the_same_place_is_not_read() {
    let machine = Machine::new(35);
    let (db, _runtime) = machine.open(options(1 << 20));
    let put = |db: &Db, from: u32, to: u32, value: &str| {
        for n in from..to {
            db.put(format!("key{n:02}"), value).unwrap();
        }
    };
    put(&db, 0, 10, "both");
    db.checkpoint("/copy").unwrap();
    let secondary = follow(&machine);
    let token = secondary.oldest_change_token().unwrap();
    let mut readers = [true, false].map(|yes| {
        let mut changes = secondary.changes_with(token, unsynced(yes)).unwrap();
        db.sync().unwrap();
        assert_eq!(keys(&mut changes).len(), 10);
        changes
    });
    // Shown, and read by one of them.
    put(&db, 10, 20, "first");
    db.sync().unwrap();
    secondary.refresh().unwrap();
    let mut knows_more = secondary.changes_since(token).unwrap();
    assert_eq!(keys(&mut knows_more).len(), 20);
    db.close().unwrap();
    let files = machine.disk.file_names().into_iter();
    let (copy, old): (Vec<_>, Vec<_>) = files.partition(|path| path.starts_with("/copy"));
    old.iter()
        .for_each(|path| machine.disk.remove(path).unwrap());
    for path in copy {
        let bytes = machine.disk.read_file(&path).unwrap();
        let to = Path::new("/db").join(path.file_name().unwrap());
        machine.disk.write_file(&to, &bytes);
    }
    let (db, _runtime) = Machine {
        seed: 36,
        ..machine
    }
    .open(Options::default());
    put(&db, 30, 50, "other");
    db.sync().unwrap();
    for changes in &mut readers {
        assert!(keys(changes).is_empty());
    }
    // Whoever knows of nothing else goes on in the other history.
    secondary.refresh().unwrap();
    for changes in &mut readers {
        let found = keys(changes);
        assert!(found.len() == 20 && found[0] == "key30", "{found:?}");
    }
    let refused = knows_more.try_next().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::HistoryGone);
}

#[test]
fn writes_that_only_tables_have_are_not_passed_over_without_a_writer() {
    let mut machine = Machine::new(14);
    let (db, _runtime) = machine.open(options(1 << 20));
    db.put("first", "durable").unwrap();
    db.sync().unwrap();
    let token = db.change_token().unwrap();
    for n in 0..24_u8 {
        db.put(format!("key{n:02}"), vec![n; 500]).unwrap();
    }
    machine.disk = machine.disk.process_kill();
    drop(db);
    // The next process puts into tables what it cannot sync, and the power goes meanwhile.
    let (mut gone, mut whole) = (0, 0);
    for (seed, calls) in (0..).zip((0..40).flat_map(|calls| [calls; 8])) {
        let disk = machine.disk.process_kill();
        let mut machine = Machine { disk, seed };
        let (db, _runtime) = machine.open(options(1 << 20));
        machine.cut_power_after(calls);
        let _as_far_as_it_goes = db.flush();
        machine.disk = machine.disk.power_cut(Keep::Torn(seed));
        drop(db);
        let secondary = follow(&machine);
        let changes = secondary.changes_with(token, unsynced(true));
        let (shown, error) = match changes {
            Ok(mut changes) => drain(&mut changes),
            Err(error) => (Vec::new(), Some(error)),
        };
        for (change, seq) in shown.iter().zip(token.seq() + 1..) {
            assert_eq!(change.token.seq(), seq, "seed {seed}: one is passed over");
        }
        match error {
            Some(error) => {
                assert_eq!(error.kind(), ErrorKind::HistoryGone, "{error}");
                gone += 1;
            }
            None => {
                assert_eq!(
                    token.seq() + shown.len() as u64,
                    secondary.seq(),
                    "seed {seed}"
                );
                whole += 1;
            }
        }
    }
    assert!(gone > 0 && whole > 0, "{gone} {whole}");
}
