//! Makes a small database by hand, with an oracle at its side.

mod keyspaces;

use super::specimen::{Specimen, Twin};
use super::window;
use crate::config::Config;
use crate::oracle::{Change, Oracle};
use crate::runner::{DIR, env};
use crate::times::{self, Times};
use crate::value::{Bytes, Value};
use crate::verify;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use unikv::vfs::Runtime;
use unikv::vfs::sim::{Keep, SimRuntime, SimVfs};
use unikv::{Batch, ChangeToken, Clustering, Compression, Db, Durability, Snapshot, WriteOptions};

/// How the database is left.
#[derive(Clone, Copy, Debug)]
pub(super) enum Exit {
    /// Closed.
    Close,
    /// Its process is killed.
    Kill,
    /// The power is cut, in such a way that a log has a torn end.
    Torn,
}

/// A database being made.
pub(super) struct Maker {
    vfs: SimVfs,
    db: Option<Db>,
    pub(super) runtime: Arc<SimRuntime>,
    pub(super) config: Config,
    oracle: Oracle,
    history: Oracle,
    stamp: u32,
    seed: u64,
    held: Vec<Snapshot>,
    /// Whether anything does, so that the time matters.
    expires: bool,
    /// The numbers that keyspaces have had, and their names.
    numbers: Vec<(u32, &'static str)>,
    /// After which the changes are read.
    tokens: Vec<ChangeToken>,
}

/// The least of everything, so that a few writes make many files.
pub(super) fn small() -> Config {
    Config {
        durability: Durability::Buffered,
        clustering: Clustering::LeastWriting,
        memtable_bytes: 4 << 10,
        unsorted_bytes: 1 << 20,
        partition_bytes: 1 << 40,
        inline_value_bytes: 0,
        max_space_amp: 3.0,
        key_table_bytes: 1 << 10,
        block_bytes: 256,
        memory_budget: 1 << 20,
        background_threads: 2,
        scan_merge_limit: 16,
        compression: Compression::None,
        default_ttl_ms: None,
        change_window_bytes: 0,
    }
}

/// The key of a number.
pub(super) fn key(n: u32) -> Vec<u8> {
    format!("key{n:02}").into_bytes()
}

impl Maker {
    /// An empty database. The seed decides its id and the uids of its files.
    pub(super) fn new(config: Config, seed: u64) -> Maker {
        let vfs = SimVfs::new();
        let (db, runtime) = verify::open(&vfs, &config, seed);
        Maker {
            vfs,
            db: Some(db),
            runtime,
            config,
            oracle: Oracle::new(),
            history: Oracle::new(),
            seed,
            // Databases of other seeds have other values, of the same lengths.
            stamp: seed as u32 * 10_000,
            held: Vec::new(),
            expires: false,
            numbers: Vec::new(),
            tokens: Vec::new(),
        }
    }

    /// Goes on with a copy of a database, as a process of another seed.
    pub(super) fn fork(&self, seed: u64) -> Maker {
        let vfs = self.vfs.process_kill();
        let (db, runtime) = verify::open_at(&vfs, &self.config, seed, &self.times());
        Maker {
            vfs,
            db: Some(db),
            runtime,
            config: self.config.clone(),
            oracle: self.oracle.clone(),
            history: self.history.clone(),
            seed,
            stamp: self.stamp + 1000 * seed as u32,
            held: Vec::new(),
            expires: self.expires,
            numbers: self.numbers.clone(),
            tokens: self.tokens.clone(),
        }
    }

    pub(super) fn db(&self) -> &Db {
        self.db.as_ref().expect("the database is open")
    }

    fn value(&mut self, len: usize) -> Value {
        self.stamp += 1;
        Value::new(self.stamp, len)
    }

    fn done(&mut self, changes: Vec<Change>, commit_tag: Option<&[u8]>) {
        let commit_tag = commit_tag.map(|commit_tag| Bytes::from(commit_tag.to_vec()));
        self.oracle
            .acknowledged_with(changes.clone(), commit_tag.clone());
        self.history.acknowledged_with(changes, commit_tag);
    }

    /// Puts values of `len` bytes that live so long, in milliseconds.
    pub(super) fn put_for(&mut self, keys: impl IntoIterator<Item = u32>, len: usize, ms: u64) {
        for n in keys {
            let value = self.value(len).living(Some(ms));
            let ttl = value.ttl().unwrap_or_default();
            let options = WriteOptions::default().ttl(ttl);
            self.expires = true;
            let put = self.db().put_with(key(n), value.bytes(), options);
            put.expect("a put that expires");
            let end = times::end(times::time_of(self.db()), value.ttl_ms);
            self.done(vec![(key(n), Some(value.bytes().until(end)))], None);
        }
    }

    /// Lets time pass, in milliseconds.
    pub(super) fn pass(&mut self, ms: u64) {
        let never = self.runtime.event();
        never.wait_past(never.epoch(), Some(Duration::from_millis(ms)));
    }

    /// What time it is, where anything expires.
    fn times(&self) -> Times {
        if self.expires {
            Times::of_wall_clock(self.runtime.wall_clock_ms())
        } else {
            Times::default()
        }
    }

    /// Puts values of `len` bytes.
    pub(super) fn put(&mut self, keys: impl IntoIterator<Item = u32>, len: usize) {
        for n in keys {
            let value = self.value(len).bytes();
            self.db().put(key(n), &value).expect("a put");
            self.done(vec![(key(n), Some(value))], None);
        }
    }

    pub(super) fn delete(&mut self, keys: impl IntoIterator<Item = u32>) {
        for n in keys {
            self.db().delete(key(n)).expect("a delete");
            self.done(vec![(key(n), None)], None);
        }
    }

    /// Deletes a range of keys in one write.
    pub(super) fn delete_range(&mut self, numbers: Range<u32>) {
        let (start, end) = (key(numbers.start), key(numbers.end));
        self.db()
            .delete_range(&start..&end)
            .expect("a range delete");
        let deleted = self.oracle.now().range(start..end);
        let changes = deleted.map(|(key, _)| (key.clone(), None)).collect();
        self.done(changes, None);
    }

    /// A batch that puts and deletes, with a commit tag.
    pub(super) fn batch(&mut self, puts: &[u32], deletes: &[u32], commit_tag: &[u8]) {
        let mut batch = Batch::new();
        let mut changes = Vec::new();
        for n in puts {
            let value = self.value(20).bytes();
            batch.put(key(*n), &value);
            changes.push((key(*n), Some(value)));
        }
        for n in deletes {
            batch.delete(key(*n));
            changes.push((key(*n), None));
        }
        batch.set_commit_tag(commit_tag);
        self.db().write(&batch).expect("a batch");
        self.done(changes, Some(commit_tag));
    }

    /// Ingests ascending keys, every fifth of which is deleted.
    pub(super) fn ingest(&mut self, keys: impl IntoIterator<Item = u32>, commit_tag: &[u8]) {
        let mut changes: Vec<Change> = Vec::new();
        for n in keys {
            let value = self.value(24).bytes();
            changes.push((key(n), (n % 5 != 0).then_some(value)));
        }
        let entries = changes.iter().map(|(key, value)| (key, value.as_deref()));
        let done = self
            .db()
            .ingest_sorted(entries.map(unikv::Result::Ok), Some(commit_tag));
        done.expect("an ingest");
        self.done(changes, Some(commit_tag));
        self.oracle.synced();
    }

    pub(super) fn sync(&mut self) {
        self.db().sync().expect("a sync");
        self.oracle.synced();
    }

    pub(super) fn flush(&mut self) {
        self.db().flush().expect("a flush");
        self.oracle.synced();
    }

    pub(super) fn compact(&mut self) {
        self.db().compact().expect("a compaction");
        self.oracle.synced();
    }

    /// The changes from here on are to be read from the change window.
    pub(super) fn note_token(&mut self) {
        self.tokens.push(self.db().change_token().expect("a token"));
    }

    /// Lets snapshots of now be alive until the end.
    pub(super) fn hold(&mut self) {
        self.held.push(self.db().snapshot());
    }

    /// Closes the database and opens it with other options.
    pub(super) fn reopen(&mut self, config: Config) {
        self.held.clear();
        let db = self.db.take().expect("the database is open");
        db.close().expect("a close");
        self.oracle.synced();
        self.config = config;
        let (seed, times) = (self.seed + 77, self.times());
        let (db, runtime) = verify::open_at(&self.vfs, &self.config, seed, &times);
        (self.db, self.runtime) = (Some(db), runtime);
    }

    /// The disk as it is left.
    fn leave(&mut self, exit: Exit) -> SimVfs {
        let db = self.db.take().expect("the database is open");
        match exit {
            Exit::Close => {
                self.held.clear();
                db.close().expect("a close");
                self.oracle.synced();
                self.vfs.process_kill()
            }
            Exit::Kill => self.vfs.process_kill(),
            Exit::Torn => {
                let torn = |seed: &u64| {
                    let disk = self.vfs.power_cut(Keep::Torn(*seed));
                    let runtime = SimRuntime::new(1);
                    if self.expires {
                        runtime.set_wall_clock_ms(self.runtime.wall_clock_ms());
                    }
                    let db = Db::open(DIR, self.config.options().env(env(&disk, &runtime)));
                    db.expect("an opening").recovery().wal_cut.is_some()
                };
                let seed = (0..200).find(torn).expect("a torn end");
                self.vfs.power_cut(Keep::Torn(seed))
            }
        }
    }

    /// The database as it is left. `twins`: others with files of the same kinds and names.
    pub(super) fn finish(mut self, name: &'static str, exit: Exit, twins: Vec<Twin>) -> Specimen {
        let disk = self.leave(exit);
        (self.oracle.times, self.history.times) = (self.times(), self.times());
        let (oracle, history) = (self.oracle, self.history);
        let mut specimen = Specimen::new(name, disk, self.config, oracle, history, twins);
        specimen.numbers = self.numbers;
        specimen.feeds = window::feeds_of(&specimen, &self.tokens);
        specimen
    }

    /// The files alone, to damage others with.
    pub(super) fn twin(mut self, what: &'static str, exit: Exit) -> Twin {
        let disk = self.leave(exit);
        Twin {
            what,
            disk,
            history: self.history,
        }
    }
}
