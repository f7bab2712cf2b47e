//! Plays a history against an engine on a simulated disk and checks every answer at once.
//!
//! The engine, its background workers and this runner share one thread; which runs when follows
//! from the seed, so the n-th call to the disk is the same call in every run of a history.

mod copies;
mod coverage;
mod expiry;
mod failing;
mod feeds;
pub(crate) mod followers;
mod looks;
mod ranges;
mod reads;
mod spaces;
mod storms;
mod time;
mod transactions;
mod writes;

pub use copies::Copies;
pub use coverage::{Coverage, Outlived};
pub use storms::Storms;

use crate::config::Config;
use crate::feed;
use crate::history::{Exit, History, Op, SLOTS};
use crate::oracle::{Change, Ending, Oracle, State};
use crate::spaces as keyspaces;
use crate::story;
use crate::times::Clock;
use crate::value::Bytes;
use crate::verify;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use transactions::HeldTransaction;
use unikv::vfs::sim::{Keep, SimRuntime, SimVfs};
use unikv::vfs::{Env, Runtime};
use unikv::{Changes, Db, Error, ErrorKind, Iter, Snapshot};

/// Where the database is on every simulated disk.
pub const DIR: &str = "/db";

/// How often a call that fails because of a fault is made again.
const PATIENCE: usize = 12;

/// The changes and the mark of a write.
type UnderWay = (Vec<Change>, Option<Bytes>);

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
    /// Once the flag is up, some calls that only look at the disk have failed, and whatever the
    /// engine does may fail with them; done again, it works in the end.
    AfterReadFault(Arc<AtomicBool>),
    /// While the flag is up there is little space: writes may fail, and those that fail with
    /// `DiskFull` have written nothing. After some operations there is space again, and writing
    /// comes back by itself.
    ShortOfSpace(Arc<AtomicBool>),
    /// Storms in which errors come again and again: whatever the engine does may fail.
    Storms(Storms),
}

/// Why an operation ended early.
#[derive(Debug)]
pub enum Interrupt {
    /// The machine went away.
    MachineGone,
    /// A read failed because of the fault.
    ReadFailed,
}

/// An iterator, the pairs in its range at its moment, and which of them neither end has passed.
struct Held {
    iter: Iter,
    pairs: Vec<(Vec<u8>, Bytes)>,
    left: Range<usize>,
    /// What the engine had done when it was made.
    before: Outlived,
}

/// A snapshot, its time, what is there at its moment, and what the engine had done then.
struct HeldSnapshot {
    snapshot: Snapshot,
    time_ms: u64,
    state: State,
    spaces: Vec<keyspaces::Held>,
    before: Outlived,
}

/// An iterator of a keyspace.
struct HeldSpace {
    of: keyspaces::Held,
    held: Held,
}

/// Where a run stands, for the taker of images of its disk meanwhile.
#[derive(Clone, Debug)]
pub struct Standing {
    /// The oracle, to which the write under way is unknown.
    pub oracle: Arc<Oracle>,
    /// The options in effect.
    pub config: Arc<Config>,
    /// The number of the operation.
    pub step: usize,
    /// The checkpoints and backups so far, and that which is being made.
    pub copies: Copies,
    /// The copies that follow the changes.
    pub feeds: feed::Copies,
    /// The clock of the database, while it is open and the time matters.
    pub clock: Option<Clock>,
}

/// Shows where a run stands.
pub type Watch = Arc<Mutex<Standing>>;

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
    /// Whether the next opening is to take the stored options.
    bare_options: bool,
    /// The memory budget of the last opening.
    budget: u64,
    db: Option<Db>,
    snapshots: [Option<HeldSnapshot>; SLOTS + 1],
    iterators: [Option<Held>; SLOTS + 1],
    space_iterator: Option<HeldSpace>,
    transactions: [Option<HeldTransaction>; SLOTS],
    seed: u64,
    incarnation: u64,
    faults_seen: Cell<u64>,
    /// Operations since space became short.
    short_ops: u32,
    coverage: Coverage,
    copies: Copies,
    feeds: feed::Copies,
    /// Where the changes of [`feed::Copies::eager`] are read.
    held_changes: Option<Changes>,
    followed: Option<followers::Followed>,
    may_follow: bool,
    watch: Option<Watch>,
    step: usize,
    answers: Cell<u64>,
    /// The clock of the database, where the time matters.
    clock: RefCell<Option<Clock>>,
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
        vfs.set_cold(history.cold);
        let mut oracle = Oracle::new();
        oracle.times.matters = history.expires;
        oracle.times.wall_ms = time::BEGIN_MS;
        Runner {
            vfs,
            runtime: SimRuntime::new(history.seed),
            oracle,
            tolerance,
            config: history.config.clone(),
            bare_options: false,
            budget: 0,
            db: None,
            snapshots: Default::default(),
            iterators: Default::default(),
            space_iterator: None,
            transactions: Default::default(),
            seed: history.seed,
            incarnation: 0,
            faults_seen: Cell::new(0),
            short_ops: 0,
            coverage: Coverage::default(),
            copies: Copies::default(),
            feeds: feed::Copies::default(),
            held_changes: None,
            followed: None,
            may_follow: true,
            watch: None,
            step: 0,
            answers: Cell::new(0),
            clock: RefCell::default(),
        }
    }

    /// Shows from now on where the run stands.
    pub fn watch(&mut self) -> Watch {
        let standing = self.standing(None);
        let watch = Arc::new(Mutex::new(standing));
        self.watch.insert(watch).clone()
    }

    fn standing(&self, under_way: Option<&UnderWay>) -> Standing {
        let time_ms = self.time();
        let mut oracle = self.oracle.clone();
        oracle.times.saw(time_ms);
        if let Some((changes, mark)) = under_way {
            oracle.unknown_with(changes.clone(), mark.clone());
        }
        Standing {
            oracle: Arc::new(oracle),
            config: Arc::new(self.config.clone()),
            step: self.step,
            copies: self.copies.clone(),
            feeds: self.feeds.clone(),
            clock: self.db.as_ref().and(self.clock.borrow().clone()),
        }
    }

    /// Says who watches what the oracle knows now, and which write is under way.
    fn tell(&self, under_way: Option<&UnderWay>) {
        if let Some(watch) = &self.watch {
            *watch.lock().expect("nobody panics with it") = self.standing(under_way);
        }
    }

    /// Opens the database and plays all of `ops`.
    ///
    /// # Errors
    /// The machine went away.
    pub fn play(&mut self, ops: &[Op]) -> Result<(), Interrupt> {
        self.tell(None);
        self.rage();
        self.open()?;
        for (number, op) in ops.iter().enumerate() {
            self.step = number;
            self.note_time();
            story::step(format!("{number}: {}", short(op)));
            self.tell(None);
            self.change_weather(number)?;
            let failed = self.faults_seen.get();
            self.exec_patiently(op)?;
            let has_failed = self.faults_seen.get() > failed;
            self.let_changes_follow(op, has_failed)?;
            self.let_follow()?;
            self.end_shortage(false)?;
            self.gone()?;
        }
        self.tell(None);
        Ok(())
    }

    /// Plays `op`, again where it failed because a read did.
    fn exec_patiently(&mut self, op: &Op) -> Result<(), Interrupt> {
        for tried in 0..PATIENCE {
            if tried > PATIENCE / 4 {
                self.calm();
            }
            match self.exec(op) {
                Err(Interrupt::ReadFailed) => story::step("   once more".to_owned()),
                done => return done,
            }
        }
        panic!("a read fails again and again");
    }

    /// A number made of all answers so far: equal for equal answers.
    pub fn answers(&self) -> u64 {
        self.answers.get()
    }

    fn gone(&self) -> Result<(), Interrupt> {
        match &self.tolerance {
            Tolerance::UntilCut(cut) if cut.load(Ordering::SeqCst) => Err(Interrupt::MachineGone),
            _ => Ok(()),
        }
    }

    fn faulted(&self) -> bool {
        let hit = match &self.tolerance {
            Tolerance::AfterFault { hit, .. } => hit,
            Tolerance::AfterReadFault(hit) => hit,
            Tolerance::Storms(_) => return true,
            _ => return self.is_short_of_space(),
        };
        hit.load(Ordering::SeqCst)
    }

    /// Whether an error of a read is explained by the fault.
    fn reads_may_fail(&self) -> bool {
        match &self.tolerance {
            Tolerance::AfterReadFault(hit) => hit.load(Ordering::SeqCst),
            _ => self.is_raging(),
        }
    }

    fn db(&self) -> &Db {
        self.db.as_ref().expect("the database is open")
    }

    /// An error of a call that may fail only because the machine went away, or a read failed.
    fn must<T>(&self, what: &str, result: unikv::Result<T>) -> Result<T, Interrupt> {
        match result {
            Ok(value) => Ok(value),
            Err(err) => {
                self.gone()?;
                if self.reads_may_fail() && is_typed(&err) {
                    story::step(format!("   {what} fails: {err}"));
                    self.faults_seen.set(self.faults_seen.get() + 1);
                    return Err(Interrupt::ReadFailed);
                }
                panic!("{what} failed: {err:?}")
            }
        }
    }

    /// An error of a call that may also fail because of the injected fault: `None` then.
    fn may<T>(&self, what: &str, result: unikv::Result<T>) -> Result<Option<T>, Interrupt> {
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

    fn open(&mut self) -> Result<(), Interrupt> {
        let may_fail = matches!(
            self.tolerance,
            Tolerance::AfterFault { .. }
                | Tolerance::AfterReadFault(_)
                | Tolerance::ShortOfSpace(_)
                | Tolerance::Storms(_)
        );
        let mut tries = if may_fail { PATIENCE } else { 1 };
        loop {
            let options = match self.bare_options {
                true => self.config.bare_options(),
                false => self.config.options(),
            };
            if self.oracle.times.matters {
                self.runtime.set_wall_clock_ms(self.oracle.times.wall_ms);
            }
            let opened = Db::open_in(env(&self.vfs, &self.runtime), DIR, options);
            let budget = self.config.memory_budget;
            if matches!(&opened, Err(err) if err.kind() == ErrorKind::InvalidArgument)
                && budget < self.budget
            {
                // The hash indexes need what the database had before.
                self.config.memory_budget = self.budget;
                continue;
            }
            self.budget = budget;
            tries -= 1;
            if tries < PATIENCE / 2 {
                self.calm();
            }
            let db = if tries > 0 {
                self.may("open", opened)?
            } else {
                Some(self.must("open", opened)?)
            };
            if let Some(db) = db {
                self.db = Some(db);
                self.begin_clock();
                return Ok(());
            }
            self.vfs.set_free_space(None);
            self.runtime = SimRuntime::new(self.seed ^ self.incarnation << 32 ^ 0xf);
        }
    }

    /// Plays one operation.
    fn exec(&mut self, op: &Op) -> Result<(), Interrupt> {
        match op {
            Op::Set(key, value) => self.write(&[(key.clone(), *value)], None, true),
            Op::Write(changes, sync) => self.write(changes, *sync, false),
            Op::Get(key) => self.get(key),
            Op::MultiGet(keys) => self.multi_get(keys),
            Op::Scan(range, walk) => self.scan(range, *walk),
            Op::Snapshot(slot) => {
                if self.oracle.unknowns() == 0 {
                    let time_ms = self.time();
                    self.snapshots[*slot] = Some(HeldSnapshot {
                        snapshot: self.db().snapshot(),
                        time_ms,
                        state: self.oracle.visible(time_ms),
                        spaces: keyspaces::Held::all(self.db()),
                        before: Outlived::events(self.db()),
                    });
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
            Op::Seek(slot, key) => {
                if let Some(held) = &mut self.iterators[*slot] {
                    held.seek(key);
                }
                Ok(())
            }
            Op::Expect(slot, entries) => {
                if let Some(mut held) = self.iterators[*slot].take() {
                    held.iter = held.iter.expecting(*entries);
                    self.iterators[*slot] = Some(held);
                }
                Ok(())
            }
            Op::IterateSnapshot(of, slot, range) => self.iterate_snapshot(*of, *slot, range),
            Op::DropIterator(slot) => {
                self.iterators[*slot] = None;
                Ok(())
            }
            Op::Measure(range) => self.measure(range),
            Op::Look => self.look(),
            Op::Refused(n) => self.refused(*n),
            Op::CollectGarbage => self.maintain("collect_garbage", Db::collect_garbage, false),
            Op::Clock {
                wall_ms,
                forward_ms,
            } if self.oracle.times.matters => self.pass(Some(*wall_ms), *forward_ms),
            Op::Clock {
                wall_ms,
                forward_ms,
            } => {
                self.runtime.set_wall_clock_ms(*wall_ms);
                self.runtime.delay(Duration::from_millis(*forward_ms));
                Ok(())
            }
            Op::Space(bytes) => self.set_space(*bytes),
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
            Op::DeleteRange(range, after) => self.delete_range(range, after),
            Op::Ingest(changes, mark) => self.ingest(changes, *mark),
            Op::Quiesce => self.maintain("quiesce", Db::quiesce, false),
            Op::Step(steps) => {
                for _ in 0..*steps {
                    self.runtime.run_one();
                }
                Ok(())
            }
            Op::Keyspaces(op) => self.space_op(op),
            Op::Copy(op) => self.copy_op(op),
            Op::Expiry(op) => self.expiry_op(op),
            Op::Transaction(slot, op) => self.transaction_op(*slot, op),
            Op::Reopen(exit, config) => self.reopen(*exit, config.as_deref()),
        }
    }

    /// Ends the database and opens it again.
    pub fn reopen(&mut self, exit: Exit, config: Option<&Config>) -> Result<(), Interrupt> {
        self.snapshots = Default::default();
        self.iterators = Default::default();
        self.space_iterator = None;
        self.transactions = Default::default();
        self.held_changes = None;
        self.note_time();
        self.incarnation += 1;
        let db = self.db.take().expect("the database is open");
        self.cover(&db);
        let mut ending = Ending::Kill;
        match exit {
            Exit::Close => {
                let clone = db.clone();
                let closed = db.close();
                match self.may("close", closed)? {
                    Some(()) => self.oracle.closed(),
                    None => self.oracle.times.unsure = true,
                }
                let late = clone.put(b"late", b"").map_err(|err| err.kind());
                assert_eq!(late, Err(ErrorKind::Closed), "a put after closing");
                self.tell(None);
            }
            Exit::Drop => drop(db),
            Exit::Kill => self.vfs = self.vfs.process_kill(),
            Exit::PowerCut(draw) => {
                self.vfs = self.vfs.power_cut(keep(draw, &self.vfs));
                ending = Ending::PowerCut;
            }
        }
        self.end_clock();
        self.draw_wall();
        self.tell(None);
        self.runtime = SimRuntime::new(self.seed ^ self.incarnation << 32);
        match config {
            Some(config) => self.config = config.clone(),
            // What is not set again is as it was.
            None => self.bare_options = self.incarnation.is_multiple_of(2),
        }
        // Without a window an opening forgets the history, however it ends.
        self.tell(None);
        let alone = self.follow_alone(matches!(exit, Exit::Close | Exit::Drop))?;
        let opened = self.open();
        self.bare_options = false;
        opened?;
        self.followed_into(alone);
        let disk = crate::crash::fork(&self.vfs, Ending::Kill);
        self.copies.verify(&disk);
        self.copies.resolve(&disk);
        self.settle(ending)?;
        self.changes_go_on(ending)
    }

    /// Compares the content with the oracle after an opening.
    fn settle(&mut self, ending: Ending) -> Result<(), Interrupt> {
        let matters = self.oracle.times.matters;
        let found = self.must("a scan", keyspaces::whole(self.db(), matters))?;
        let db = self.db.as_ref().expect("the database is open");
        verify::settle(db, &mut self.oracle, &found, ending);
        self.check_all()
    }

    /// Closes the database, checks it offline, opens it and checks everything.
    pub fn finish(mut self) -> Coverage {
        let mut checked = self.check_all();
        if let Err(Interrupt::ReadFailed) = checked {
            checked = self.check_all();
        }
        checked.expect("the machine is there");
        self.exec_patiently(&Op::Reopen(Exit::Close, None))
            .expect("the machine is there");
        let db = self.db.take().expect("the database is open");
        if let Err(err) = db.close() {
            panic!("close failed: {err:?}");
        }
        verify::check_clean(&self.vfs);
        if self.seed.is_multiple_of(4) {
            verify::destroys(&self.vfs);
        }
        self.vfs.clear_faults();
        self.coverage
    }
}

/// What a power cut leaves on a disk, by a drawn number.
fn keep(draw: u64, disk: &SimVfs) -> Keep {
    let rest = draw >> 3;
    match draw % 8 {
        0 | 4 => Keep::Nothing,
        1 | 5 => Keep::All,
        2 => Keep::Prefix(rest),
        6 => Keep::First(rest % disk.pending_changes().max(1)),
        3 => Keep::Torn(rest),
        _ => Keep::Sectors(rest),
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
    run_for_answers(history).0
}

/// As [`run`]; the number is equal for equal answers.
pub fn run_for_answers(history: &History) -> (Coverage, u64) {
    let mut runner = Runner::new(history, SimVfs::new(), Tolerance::None);
    runner.play(&history.ops).expect("the machine is there");
    let answers = runner.answers();
    (runner.finish(), answers)
}
