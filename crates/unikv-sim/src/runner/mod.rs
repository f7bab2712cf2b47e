//! Plays a history against an engine on a simulated disk and checks every answer at once.
//!
//! The engine, its background workers and this runner share one thread; who runs when follows
//! from the seed, so the n-th call to the disk is the same call in every run of a history.

mod failing;
mod reads;

use crate::config::Config;
use crate::history::{Exit, History, Key, Op, SLOTS};
use crate::oracle::{Change, Ending, Oracle, State};
use crate::story;
use crate::value::{Bytes, Value};
use crate::verify;
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use unikv::vfs::Env;
use unikv::vfs::sim::{Keep, SimRuntime, SimVfs};
use unikv::{Batch, Clustering, Db, Durability, Error, ErrorKind, Iter, Snapshot};

/// Where the database is on every simulated disk.
pub const DIR: &str = "/db";

/// How a run takes errors.
#[derive(Clone, Debug)]
pub enum Tolerance {
    /// None may happen.
    None,
    /// Once the flag is up the machine is gone: any error ends the run.
    UntilCut(Arc<AtomicBool>),
    /// Once the flag is up, writes may fail once and must then come back: after a flush, or, if
    /// `reopens`, because the database is opened again at once.
    AfterFault {
        /// Whether something has failed.
        hit: Arc<AtomicBool>,
        /// Whether to open again instead of waiting for the engine.
        reopens: bool,
    },
    /// While the flag is up there is little space: writes may fail, and those that fail with
    /// `DiskFull` have written nothing. After some operations there is space again, and writing comes
    /// back by itself.
    ShortOfSpace(Arc<AtomicBool>),
}

/// The run ended because the machine went away.
#[derive(Debug)]
pub struct MachineGone;

/// An iterator and what it has yet to yield.
struct Held {
    iter: Iter,
    rest: VecDeque<(Vec<u8>, Bytes)>,
}

/// An engine under test beside its model.
pub struct Runner {
    /// The disk.
    pub vfs: SimVfs,
    /// The scheduler of this incarnation.
    pub runtime: Arc<SimRuntime>,
    /// The model.
    pub oracle: Oracle,
    tolerance: Tolerance,
    config: Config,
    db: Option<Db>,
    snapshots: [Option<(Snapshot, State)>; SLOTS],
    iterators: [Option<Held>; SLOTS],
    seed: u64,
    incarnation: u64,
    faults_seen: Cell<u64>,
    /// Operations since space became short.
    short_ops: u32,
    coverage: Coverage,
}

/// What the engine did during a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Coverage {
    /// Memtables that became tables.
    pub flushes: u64,
    /// Merges into the SortedStore.
    pub merges: u64,
    /// Splits.
    pub splits: u64,
    /// Joins.
    pub joins: u64,
    /// Merges of keys for scans.
    pub scan_merges: u64,
    /// Values written to record files of their own.
    pub large: u64,
    /// Ingests.
    pub ingests: u64,
    /// Garbage collections that ran alone.
    pub gcs: u64,
    /// Bytes that merges copied where they do not cluster values: survivors of collections that rode
    /// on them.
    pub ridden_bytes: u64,
}

impl Coverage {
    /// Adds what another run did.
    pub fn add(&mut self, other: Coverage) {
        self.flushes += other.flushes;
        self.merges += other.merges;
        self.splits += other.splits;
        self.joins += other.joins;
        self.scan_merges += other.scan_merges;
        self.large += other.large;
        self.ingests += other.ingests;
        self.gcs += other.gcs;
        self.ridden_bytes += other.ridden_bytes;
    }
}

/// An environment of a simulated disk and scheduler.
pub fn env(vfs: &SimVfs, runtime: &Arc<SimRuntime>) -> Env {
    Env {
        vfs: Arc::new(vfs.clone()),
        runtime: runtime.clone(),
    }
}

fn short(op: &Op) -> String {
    let mut text = format!("{op:?}");
    if text.len() > 240 {
        let cut = (0..=240)
            .rev()
            .find(|&i| text.is_char_boundary(i))
            .unwrap_or(0);
        text.truncate(cut);
        text += " ..";
    }
    text
}

impl Runner {
    /// A runner on an empty disk; nothing is opened yet.
    pub fn new(history: &History, vfs: SimVfs, tolerance: Tolerance) -> Runner {
        story::begin();
        // Of some histories nothing is in memory, so that scans take their other way.
        vfs.set_cold(history.seed % 4 == 3);
        Runner {
            vfs,
            runtime: SimRuntime::new(history.seed),
            oracle: Oracle::new(),
            tolerance,
            config: history.config.clone(),
            db: None,
            snapshots: Default::default(),
            iterators: Default::default(),
            seed: history.seed,
            incarnation: 0,
            faults_seen: Cell::new(0),
            short_ops: 0,
            coverage: Coverage::default(),
        }
    }

    /// Opens the database and plays all of `ops`.
    ///
    /// # Errors
    /// The machine went away.
    pub fn play(&mut self, ops: &[Op]) -> Result<(), MachineGone> {
        self.open()?;
        for (number, op) in ops.iter().enumerate() {
            story::step(format!("{number}: {}", short(op)));
            self.exec(op)?;
            self.end_shortage(false)?;
            self.gone()?;
        }
        Ok(())
    }

    fn gone(&self) -> Result<(), MachineGone> {
        match &self.tolerance {
            Tolerance::UntilCut(cut) if cut.load(Ordering::SeqCst) => Err(MachineGone),
            _ => Ok(()),
        }
    }

    fn faulted(&self) -> bool {
        self.is_short_of_space()
            || matches!(&self.tolerance, Tolerance::AfterFault { hit, .. } if hit.load(Ordering::SeqCst))
    }

    fn db(&self) -> &Db {
        self.db.as_ref().expect("the database is open")
    }

    /// An error of a call that may fail only because the machine went away.
    fn must<T>(&self, what: &str, result: unikv::Result<T>) -> Result<T, MachineGone> {
        match result {
            Ok(value) => Ok(value),
            Err(err) => {
                self.gone()?;
                panic!("{what} failed: {err:?}")
            }
        }
    }

    /// An error of a call that may also fail because of the injected fault: `None` then.
    fn may<T>(&self, what: &str, result: unikv::Result<T>) -> Result<Option<T>, MachineGone> {
        match result {
            Err(err) if self.faulted() => {
                assert!(
                    is_typed(&err),
                    "{what} failed in a way that a fault does not explain: {err:?}"
                );
                story::step(format!("   {what} fails: {err}"));
                self.faults_seen.set(self.faults_seen.get() + 1);
                Ok(None)
            }
            other => self.must(what, other).map(Some),
        }
    }

    fn open(&mut self) -> Result<(), MachineGone> {
        let may_fail = matches!(
            self.tolerance,
            Tolerance::AfterFault { .. } | Tolerance::ShortOfSpace(_)
        );
        let mut tries = if may_fail { 2 } else { 1 };
        loop {
            tries -= 1;
            let opened = Db::open_in(env(&self.vfs, &self.runtime), DIR, self.config.options());
            let db = if tries > 0 {
                self.may("open", opened)?
            } else {
                Some(self.must("open", opened)?)
            };
            if let Some(db) = db {
                self.db = Some(db);
                return Ok(());
            }
            self.vfs.set_free_space(None);
            self.runtime = SimRuntime::new(self.seed ^ self.incarnation << 32 ^ 0xf);
        }
    }

    fn exec(&mut self, op: &Op) -> Result<(), MachineGone> {
        match op {
            Op::Set(key, value) => self.write(&[(key.clone(), *value)], None, true),
            Op::Write(changes, sync) => self.write(changes, *sync, false),
            Op::Get(key) => self.get(key),
            Op::MultiGet(keys) => self.multi_get(keys),
            Op::Scan(range, walk) => self.scan(range, *walk),
            Op::Snapshot(slot) => {
                if self.oracle.unknowns() == 0 {
                    let pair = (self.db().snapshot(), self.oracle.state().clone());
                    self.snapshots[*slot] = Some(pair);
                }
                Ok(())
            }
            Op::ReadSnapshot(slot, keys, range, walk) => {
                self.read_snapshot(*slot, keys, range, *walk)
            }
            Op::DropSnapshot(slot) => {
                self.snapshots[*slot] = None;
                Ok(())
            }
            Op::Iterate(slot, range, seek) => {
                self.iterate(*slot, range, seek.as_ref().map(AsRef::as_ref))
            }
            Op::Advance(slot, steps, walk) => self.advance(*slot, *steps, *walk),
            Op::DropIterator(slot) => {
                self.iterators[*slot] = None;
                Ok(())
            }
            Op::Release(slot) => {
                match slot {
                    None => self.db().release_views(),
                    Some(slot) => {
                        if let Some(held) = &mut self.iterators[*slot] {
                            held.iter.release();
                        }
                    }
                }
                Ok(())
            }
            Op::Sync => self.maintain("sync", Db::sync, true),
            Op::Flush => self.maintain("flush", Db::flush, true),
            Op::Compact => self.maintain("compact", Db::compact, true),
            Op::CompactRange(range) => {
                let bounds = range.bounds();
                self.maintain("compact_range", |db| db.compact_range(bounds), true)
            }
            Op::Ingest(changes, mark) => self.ingest(changes, *mark),
            Op::Quiesce => self.maintain("quiesce", Db::quiesce, false),
            Op::Step(steps) => {
                for _ in 0..*steps {
                    self.runtime.run_one();
                }
                Ok(())
            }
            Op::Reopen(exit, config) => self.reopen(*exit, config.as_deref()),
        }
    }

    /// A write of `changes`; a `single` one goes through `put` and `delete`.
    fn write(
        &mut self,
        changes: &[(Key, Option<Value>)],
        sync: Option<bool>,
        single: bool,
    ) -> Result<(), MachineGone> {
        let changes: Vec<Change> = changes
            .iter()
            .map(|(key, value)| (key.0.clone(), value.map(Value::bytes)))
            .collect();
        // Every other batch has a mark.
        let mark = (!single && changes.len().is_multiple_of(2)).then(|| self.oracle.next_mark());
        let result = match &changes[..] {
            [(key, Some(value))] if single => self.db().put(key, value),
            [(key, None)] if single => self.db().delete(key),
            _ => {
                let mut batch = Batch::new();
                for (key, value) in &changes {
                    match value {
                        Some(value) => batch.put(key, value),
                        None => batch.delete(key),
                    };
                }
                if let Some(mark) = &mark {
                    batch.set_mark(mark);
                }
                match sync {
                    None => self.db().write(&batch),
                    Some(true) => self.db().write_with(&batch, Durability::Sync),
                    Some(false) => self.db().write_with(&batch, Durability::Buffered),
                }
            }
        };
        match result {
            Ok(()) => {
                self.oracle.acknowledged_with(changes, mark);
                if sync.unwrap_or(self.config.syncs_every_write()) {
                    self.oracle.synced();
                }
                Ok(())
            }
            Err(err) if self.is_short_of_space() => {
                if err.kind() != ErrorKind::DiskFull {
                    self.oracle.unknown_with(changes, mark);
                }
                self.may::<()>("write", Err(err))?;
                self.check_all()
            }
            Err(err) => {
                self.oracle.unknown_with(changes, mark);
                self.may::<()>("write", Err(err))?;
                self.recover_from_fault()
            }
        }
    }

    /// Ingests sorted changes. All of them, and every write before, are then durable.
    fn ingest(
        &mut self,
        changes: &[(Key, Option<Value>)],
        with_mark: bool,
    ) -> Result<(), MachineGone> {
        let changes: Vec<Change> = changes
            .iter()
            .map(|(key, value)| (key.0.clone(), value.map(Value::bytes)))
            .collect();
        let mark = with_mark.then(|| self.oracle.next_mark());
        let entries = changes.iter().map(|(key, value)| (key, value.as_deref()));
        let result = self
            .db()
            .ingest_sorted(entries.map(unikv::Result::Ok), mark.as_deref());
        match result {
            Ok(count) => {
                assert_eq!(count, changes.len() as u64, "entries ingested");
                if !changes.is_empty() || mark.is_some() {
                    self.oracle.acknowledged_with(changes, mark);
                    self.oracle.synced();
                }
                Ok(())
            }
            Err(err) => {
                self.oracle.unknown_with(changes, mark);
                self.may::<()>("ingest", Err(err))?;
                self.recover_from_fault()
            }
        }
    }

    /// `sync` and its like; `syncs` if everything acknowledged is durable when it returns.
    fn maintain(
        &mut self,
        what: &str,
        call: impl FnOnce(&Db) -> unikv::Result<()>,
        syncs: bool,
    ) -> Result<(), MachineGone> {
        let result = call(self.db());
        match self.may(what, result)? {
            Some(()) if syncs => self.oracle.synced(),
            Some(()) => {}
            None if self.is_short_of_space() => self.check_all()?,
            None => self.recover_from_fault()?,
        }
        Ok(())
    }

    /// Ends the database and opens it again.
    pub fn reopen(&mut self, exit: Exit, config: Option<&Config>) -> Result<(), MachineGone> {
        self.snapshots = Default::default();
        self.iterators = Default::default();
        self.incarnation += 1;
        let db = self.db.take().expect("the database is open");
        self.cover(&db);
        let mut ending = Ending::Kill;
        match exit {
            Exit::Close => {
                let closed = db.close();
                if self.may("close", closed)?.is_some() {
                    self.oracle.synced();
                }
            }
            Exit::Drop => drop(db),
            Exit::Kill => self.vfs = self.vfs.process_kill(),
            Exit::PowerCut(draw) => {
                self.vfs = self.vfs.power_cut(keep(draw));
                ending = Ending::PowerCut;
            }
        }
        self.runtime = SimRuntime::new(self.seed ^ self.incarnation << 32);
        if let Some(config) = config {
            self.config = config.clone();
        }
        self.open()?;
        self.settle(ending)
    }

    /// Compares the content with the oracle after an opening.
    fn settle(&mut self, ending: Ending) -> Result<(), MachineGone> {
        let found = self.must("a scan", verify::scan(self.db().iter()))?;
        let db = self.db.as_ref().expect("the database is open");
        verify::settle(db, &mut self.oracle, &found, ending);
        self.check_all()
    }

    /// Closes the database, checks it offline, opens it and checks everything.
    pub fn finish(mut self) -> Coverage {
        self.check_all().expect("the machine is there");
        self.reopen(Exit::Close, None)
            .expect("the machine is there");
        let db = self.db.take().expect("the database is open");
        if let Err(err) = db.close() {
            panic!("close failed: {err:?}");
        }
        verify::check_clean(&self.vfs);
        self.coverage
    }

    fn cover(&mut self, db: &Db) {
        let stats = db.stats();
        let clusters = self.config.clustering != Clustering::Never;
        self.coverage.add(Coverage {
            flushes: stats.flushes,
            merges: stats.merges,
            splits: stats.splits,
            joins: stats.joins,
            scan_merges: stats.scan_merges,
            large: stats.large_values,
            ingests: stats.ingests,
            gcs: stats.gcs,
            ridden_bytes: if clusters {
                0
            } else {
                stats.merge_copied_bytes
            },
        });
    }
}

/// What a power cut leaves, by a drawn number.
pub fn keep(draw: u64) -> Keep {
    match draw % 4 {
        0 => Keep::Nothing,
        1 => Keep::All,
        2 => Keep::Prefix(draw >> 2),
        _ => Keep::Torn(draw >> 2),
    }
}

/// Whether an error is of a kind that a failing disk explains.
fn is_typed(err: &Error) -> bool {
    matches!(
        err.kind(),
        ErrorKind::Io | ErrorKind::DiskFull | ErrorKind::WritesSuspended
    )
}

/// Plays a history to its end.
pub fn run(history: &History) -> Coverage {
    let mut runner = Runner::new(history, SimVfs::new(), Tolerance::None);
    runner.play(&history.ops).expect("the machine is there");
    runner.finish()
}
