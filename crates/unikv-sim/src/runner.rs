//! Plays a history against an engine on a simulated disk and checks every answer at once.
//!
//! The engine, its background workers and this runner share one thread; who runs when follows
//! from the seed, so the n-th call to the disk is the same call in every run of a history.

use crate::config::Config;
use crate::history::{Bounds, Exit, History, Key, Op, Range, SLOTS, Walk};
use crate::oracle::{Change, Ending, Oracle, State};
use crate::story;
use crate::value::{Bytes, Value, show, show_option};
use crate::verify;
use std::cell::Cell;
use std::collections::VecDeque;
use std::ops::RangeBounds;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use unikv::vfs::Env;
use unikv::vfs::sim::{Keep, SimRuntime, SimVfs};
use unikv::{Batch, Db, Durability, Error, ErrorKind, Iter, Snapshot};

/// Where the database is on every simulated disk.
pub const DIR: &str = "/db";

/// How a run takes errors.
#[derive(Clone, Debug)]
pub enum Tolerance {
    /// None may happen.
    None,
    /// Once the flag is up the machine is gone: any error ends the run.
    UntilCut(Arc<AtomicBool>),
    /// Once the flag is up, writes may fail once and must then come back.
    AfterFault(Arc<AtomicBool>),
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
    coverage: Coverage,
}

/// What the engine did during a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Coverage {
    /// Memtables that became tables.
    pub flushes: u64,
    /// Merges into the SortedStore.
    pub merges: u64,
}

impl Coverage {
    /// Adds what another run did.
    pub fn add(&mut self, other: Coverage) {
        self.flushes += other.flushes;
        self.merges += other.merges;
    }
}

/// An environment of a simulated disk and scheduler.
pub fn env(vfs: &SimVfs, runtime: &Arc<SimRuntime>) -> Env {
    Env {
        vfs: Arc::new(vfs.clone()),
        runtime: runtime.clone(),
    }
}

/// The pairs of `state` within `bounds`.
pub fn within(state: &State, bounds: &Bounds) -> VecDeque<(Vec<u8>, Bytes)> {
    let (low, high) = (
        bounds.0.as_ref().map(|k| &k[..]),
        bounds.1.as_ref().map(|k| &k[..]),
    );
    let inside = state
        .iter()
        .filter(|(key, _)| RangeBounds::<[u8]>::contains(&(low, high), &key[..]));
    inside
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
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
        matches!(&self.tolerance, Tolerance::AfterFault(hit) if hit.load(Ordering::SeqCst))
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
        let mut tries = if matches!(self.tolerance, Tolerance::AfterFault(_)) {
            2
        } else {
            1
        };
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
            Op::Sync => self.maintain("sync", Db::sync, true),
            Op::Flush => self.maintain("flush", Db::flush, true),
            Op::Compact => self.maintain("compact", Db::compact, false),
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
                match sync {
                    None => self.db().write(&batch),
                    Some(true) => self.db().write_with(&batch, Durability::Sync),
                    Some(false) => self.db().write_with(&batch, Durability::Buffered),
                }
            }
        };
        match result {
            Ok(()) => {
                self.oracle.acknowledged(changes);
                if sync.unwrap_or(self.config.syncs_every_write()) {
                    self.oracle.synced();
                }
                Ok(())
            }
            Err(err) => {
                self.oracle.unknown(changes);
                self.may::<()>("write", Err(err))?;
                self.recover_from_fault()
            }
        }
    }

    /// `sync` and its like; `syncs` if everything acknowledged is durable when it returns.
    fn maintain(
        &mut self,
        what: &str,
        call: fn(&Db) -> unikv::Result<()>,
        syncs: bool,
    ) -> Result<(), MachineGone> {
        let result = call(self.db());
        match self.may(what, result)? {
            Some(()) if syncs => self.oracle.synced(),
            Some(()) => {}
            None => self.recover_from_fault()?,
        }
        Ok(())
    }

    /// After a failed write: reads go on; writing comes back after a flush, or else a reopening.
    fn recover_from_fault(&mut self) -> Result<(), MachineGone> {
        self.check_all()?;
        // A full disk has room again from here on.
        self.vfs.set_free_space(None);
        self.runtime.run_until_idle();
        let flushed = self.db().flush();
        if self.may("flush after the fault", flushed)?.is_some() {
            self.oracle.synced();
        }
        if self.probe()? {
            return Ok(());
        }
        story::step("   writing does not resume; reopening".to_owned());
        self.reopen(Exit::Close, None)?;
        assert!(
            self.probe()?,
            "writing does not resume even after reopening"
        );
        Ok(())
    }

    /// Whether a write goes through.
    fn probe(&mut self) -> Result<bool, MachineGone> {
        let value = Value {
            stamp: 0xff_0000 + self.incarnation as u32,
            len: 20,
        }
        .bytes();
        let change = (b"probe".to_vec(), Some(value.clone()));
        let result = self.db().put(b"probe", &value);
        let done = self.may("a write after the fault", result)?.is_some();
        match done {
            true => self.oracle.acknowledged(vec![change]),
            false => self.oracle.unknown(vec![change]),
        }
        if done && self.config.syncs_every_write() {
            self.oracle.synced();
        }
        self.check_all()?;
        Ok(done)
    }

    fn get(&self, key: &[u8]) -> Result<(), MachineGone> {
        let got = self.must("get", self.db().get(key))?;
        self.check_key("get", key, got.as_deref());
        let there = self.must("contains_key", self.db().contains_key(key))?;
        if self.oracle.unknowns() == 0 {
            assert_eq!(there, got.is_some(), "contains_key of {}", show(key));
        }
        Ok(())
    }

    fn multi_get(&self, keys: &[Key]) -> Result<(), MachineGone> {
        let got = self.must("multi_get", self.db().multi_get(keys))?;
        assert_eq!(got.len(), keys.len());
        for (key, got) in keys.iter().zip(&got) {
            self.check_key("multi_get", key, got.as_deref());
        }
        Ok(())
    }

    fn check_key(&self, what: &str, key: &[u8], got: Option<&[u8]>) {
        assert!(
            self.oracle.allows(key, got),
            "{what} of {} answers {}, but {} was written last",
            show(key),
            show_option(got),
            show_option(self.oracle.state().get(key).map(|v| &v[..])),
        );
    }

    fn scan(&self, range: &Range, walk: Walk) -> Result<(), MachineGone> {
        if self.oracle.unknowns() > 0 {
            return self.check_all();
        }
        let mut rest = within(self.oracle.state(), &range.bounds());
        let mut iter = self.must("a scan", open_iter(self.db(), range))?;
        let most = rest.len() + 1;
        self.follow(&mut iter, &mut rest, most, walk)
    }

    /// Takes `steps` steps of `iter` and compares each with `rest`.
    fn follow(
        &self,
        iter: &mut Iter,
        rest: &mut VecDeque<(Vec<u8>, Bytes)>,
        steps: usize,
        walk: Walk,
    ) -> Result<(), MachineGone> {
        for n in 0..steps {
            let back = walk.is_back(n);
            let (got, want) = match back {
                true => (iter.next_back(), rest.pop_back()),
                false => (iter.next(), rest.pop_front()),
            };
            let got = self.must("a step of an iterator", got.transpose())?;
            let got = got.as_ref().map(|(key, value)| (&key[..], &value[..]));
            let want = want.as_ref().map(|(key, value)| (&key[..], &value[..]));
            assert!(
                got == want,
                "step {n} ({}) of a scan: got {}, want {}",
                if back { "back" } else { "forward" },
                verify::show_pair(got),
                verify::show_pair(want)
            );
        }
        Ok(())
    }

    fn read_snapshot(
        &self,
        slot: usize,
        keys: &[Key],
        range: &Range,
        walk: Walk,
    ) -> Result<(), MachineGone> {
        let Some((snapshot, state)) = &self.snapshots[slot] else {
            return Ok(());
        };
        for key in keys {
            let got = self.must("get of a snapshot", snapshot.get(key))?;
            let want = state.get(&key.0).map(|v| &v[..]);
            assert!(
                got.as_deref() == want,
                "get of {} in a snapshot answers {}, but its moment has {}",
                show(key),
                show_option(got.as_deref()),
                show_option(want)
            );
            let there = self.must("contains_key of a snapshot", snapshot.contains_key(key))?;
            assert_eq!(
                there,
                want.is_some(),
                "contains_key of {} in a snapshot",
                show(key)
            );
        }
        let many = self.must("multi_get of a snapshot", snapshot.multi_get(keys))?;
        for (key, got) in keys.iter().zip(&many) {
            let want = state.get(&key.0).map(|v| &v[..]);
            assert!(
                got.as_deref() == want,
                "multi_get of {} in a snapshot",
                show(key)
            );
        }
        let mut rest = within(state, &range.bounds());
        let most = rest.len() + 1;
        let opened = match range {
            Range::All => snapshot.iter(),
            Range::Within(bounds) => snapshot.range(bounds.clone()),
            Range::Prefix(prefix) => snapshot.prefix(prefix),
        };
        let mut iter = self.must("a scan of a snapshot", Ok(opened))?;
        self.follow(&mut iter, &mut rest, most, walk)
    }

    fn iterate(
        &mut self,
        slot: usize,
        range: &Range,
        seek: Option<&[u8]>,
    ) -> Result<(), MachineGone> {
        if self.oracle.unknowns() > 0 {
            return Ok(());
        }
        let mut iter = self.must("an iterator", open_iter(self.db(), range))?;
        let mut rest = within(self.oracle.state(), &range.bounds());
        if let Some(key) = seek {
            iter.seek(key);
            while rest.front().is_some_and(|(first, _)| &first[..] < key) {
                rest.pop_front();
            }
        }
        self.iterators[slot] = Some(Held { iter, rest });
        Ok(())
    }

    fn advance(&mut self, slot: usize, steps: usize, walk: Walk) -> Result<(), MachineGone> {
        let Some(mut held) = self.iterators[slot].take() else {
            return Ok(());
        };
        self.follow(&mut held.iter, &mut held.rest, steps, walk)?;
        self.iterators[slot] = Some(held);
        Ok(())
    }

    /// Every key by `get` and by a scan both ways, whatever is unknown.
    pub fn check_all(&self) -> Result<(), MachineGone> {
        for key in self.oracle.keys() {
            self.get(key)?;
        }
        let forward = self.must("a scan", verify::scan(self.db().iter()))?;
        let backward = self.must("a scan", verify::scan_back(self.db().iter()))?;
        verify::same_pairs("backward scan", &backward, &forward);
        for key in self.oracle.keys() {
            self.check_key("a scan", key, forward.get(key).map(|v| &v[..]));
        }
        let foreign = forward
            .keys()
            .find(|key| !self.oracle.keys().contains(*key));
        assert!(
            foreign.is_none(),
            "a scan yields {}, never written",
            show(foreign.unwrap())
        );
        Ok(())
    }

    /// How many calls have failed because of a fault.
    pub fn faults_seen(&self) -> u64 {
        self.faults_seen.get()
    }

    /// Reads while reads of the disk may fail: each answer is right or a typed error. So are the
    /// results of background jobs: they fail, and lose nothing.
    pub fn check_right_or_failed(&self) {
        let typed = |what: &str, err: &Error| {
            assert_eq!(
                err.kind(),
                ErrorKind::Io,
                "{what} fails with another kind: {err:?}"
            );
        };
        for round in 0..3 {
            for key in self.oracle.keys() {
                match self.db().get(key) {
                    Ok(got) => self.check_key("get", key, got.as_deref()),
                    Err(err) => typed("get", &err),
                }
                match self.db().multi_get([key]) {
                    Ok(got) => self.check_key("multi_get", key, got[0].as_deref()),
                    Err(err) => typed("multi_get", &err),
                }
            }
            for back in [false, true] {
                let mut iter = self.db().iter();
                let mut want = self.oracle.state().iter();
                loop {
                    let got = if back { iter.next_back() } else { iter.next() };
                    let want = if back { want.next_back() } else { want.next() };
                    match got {
                        Some(Err(err)) => {
                            typed("a scan", &err);
                            break;
                        }
                        Some(Ok((key, value))) => {
                            let (wanted_key, wanted) = want.expect("a scan goes beyond the end");
                            assert!(
                                key == wanted_key[..] && value == wanted[..],
                                "a scan is wrong"
                            );
                        }
                        None => {
                            assert!(want.is_none(), "a scan stops early without an error");
                            break;
                        }
                    }
                }
            }
            let job = if round == 0 {
                self.db().flush()
            } else {
                self.db().compact()
            };
            if let Err(err) = job {
                assert!(is_typed(&err), "a job fails with another kind: {err:?}");
            }
        }
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
                self.may("close", closed)?;
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
        if let Err(why) = self.oracle.settle(&found, ending) {
            panic!("after {ending:?}: {why}");
        }
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
        self.coverage.add(Coverage {
            flushes: stats.flushes,
            merges: stats.merges,
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

fn open_iter(db: &Db, range: &Range) -> unikv::Result<Iter> {
    Ok(match range {
        Range::All => db.iter(),
        Range::Within(bounds) => db.range(bounds.clone()),
        Range::Prefix(prefix) => db.prefix(prefix),
    })
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
