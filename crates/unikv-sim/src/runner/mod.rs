//! Plays a history against an engine on a simulated disk and checks every answer at once.
//!
//! The engine, its background workers and this runner share one thread; which runs when follows
//! from the seed, so the n-th call to the disk is the same call in every run of a history.

mod clustering;
mod copies;
mod coverage;
mod expiry;
mod failing;
mod feeds;
mod full_disk;
mod lives;
mod looks;
mod ranges;
mod reads;
pub(crate) mod secondaries;
mod spaces;
mod storms;
mod time;
mod tolerance;
mod transactions;
mod writes;

pub use clustering::LARGE_BYTES;
pub use copies::Copies;
pub use coverage::{Coverage, Outlived};
pub use storms::Storms;
pub use tolerance::{Interrupt, Tolerance};

use crate::config::Config;
use crate::feed;
use crate::history::{History, Op, SLOTS};
use crate::oracle::{Change, Oracle, State};
use crate::spaces as keyspaces;
use crate::story;
use crate::times::Clock;
use crate::value::Bytes;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::sync::{Arc, Mutex};
use tolerance::is_typed;
use transactions::HeldTransaction;
use unikv::vfs::Env;
use unikv::vfs::sim::{SimRuntime, SimVfs};
use unikv::{Changes, Db, Iter, Snapshot};

/// Where the database is on every simulated disk.
pub const DIR: &str = "/db";

/// How often a call that fails because of a fault is made again.
const PATIENCE: usize = 12;

/// Data files that one history in four may have open: they come and go between any two reads.
const FEW_FILES: usize = 2;

/// The changes and the commit tag of a write.
type UnderWay = (Vec<Change>, Option<Bytes>);

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
    /// Also what has expired.
    all: State,
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
    followed: Option<secondaries::Followed>,
    may_follow: bool,
    watch: Option<Watch>,
    step: usize,
    answers: Cell<u64>,
    /// The clock of the database, where the time matters.
    clock: RefCell<Option<Clock>>,
    watched: clustering::Watched,
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
        let few_files = history.seed.is_multiple_of(4);
        if few_files {
            vfs.set_max_open_files(FEW_FILES);
        }
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
            // A secondary keeps files open, and is refused where it may not.
            may_follow: !few_files,
            watch: None,
            step: 0,
            answers: Cell::new(0),
            clock: RefCell::default(),
            watched: clustering::Watched::default(),
        }
    }

    /// Shows from now on where the run stands.
    pub fn watch(&mut self) -> Watch {
        let standing = self.standing(None);
        let watch = Arc::new(Mutex::new(standing));
        self.watch.insert(watch).clone()
    }

    fn standing(&self, under_way: Option<&UnderWay>) -> Standing {
        let _checked = self.time();
        let mut oracle = self.oracle.clone();
        if let Some(clock) = &*self.clock.borrow() {
            clock.note(&mut oracle.times);
        }
        if let Some((changes, commit_tag)) = under_way {
            oracle.unknown_with(changes.clone(), commit_tag.clone());
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
    fn report(&self, under_way: Option<&UnderWay>) {
        if let Some(watch) = &self.watch {
            *watch.lock().expect("nobody panics with it") = self.standing(under_way);
        }
    }

    /// Opens the database and plays all of `ops`.
    ///
    /// # Errors
    /// The machine went away.
    pub fn play(&mut self, ops: &[Op]) -> Result<(), Interrupt> {
        self.report(None);
        self.rage();
        self.open()?;
        for (number, op) in ops.iter().enumerate() {
            self.step = number;
            self.note_time();
            story::step(format!("{number}: {}", short(op)));
            self.report(None);
            self.change_weather(number)?;
            let failed = self.faults_seen.get();
            self.watch_clustering();
            self.exec_patiently(op)?;
            self.check_clustering(op);
            let has_failed = self.faults_seen.get() > failed;
            self.let_changes_follow(op, has_failed)?;
            self.let_follow()?;
            self.end_shortage(false)?;
            self.gone()?;
        }
        self.report(None);
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

    fn db(&self) -> &Db {
        self.db.as_ref().expect("the database is open")
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
                        all: self.oracle.state().clone(),
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
            } => self.set_clocks(*wall_ms, *forward_ms),
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
            Op::DeleteRanges(ranges, after) => self.delete_ranges(ranges, after),
            Op::Ingest(changes, commit_tag) => self.ingest(changes, *commit_tag),
            Op::Quiesce => self.wait_until_idle(op),
            Op::Step(steps) => {
                self.step(op, *steps);
                Ok(())
            }
            Op::Keyspaces(op) => self.space_op(op),
            Op::Copy(op) => self.copy_op(op),
            Op::Expiry(op) => self.expiry_op(op),
            Op::Transaction(slot, op) => self.transaction_op(*slot, op),
            Op::Reopen(exit, config) => self.reopen(*exit, config.as_deref()),
        }
    }
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
