//! `torture`: a mixed load for hours, of which every value read is judged.
//!
//! `model` says what each version of a key is, `oracle` which version it has, `worker` is one
//! thread of the load, `held` the snapshots and iterators that it holds, `ranges` judges scans,
//! `pins` bounds what snapshots keep, `scratch` works in keyspaces of a thread's own, `verify`
//! compares everything, `watch` reports and looks for drift.

mod held;
mod model;
mod oracle;
mod pins;
mod ranges;
mod scratch;
mod verify;
mod watch;
mod worker;

use crate::args::{self, EngineArgs};
use crate::commands::stats::recovery_to_json;
use crate::exit::{Code, Failure, Outcome};
use crate::opening;
use crate::output::Output;
use clap::Args;
use indicatif::HumanBytes;
use model::{BLOCK, MAX_THREADS};
use oracle::Oracle;
use pins::HeldFiles;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use unikv::Db;
use unikv_bench::engines::unikv::space_limits;
use unikv_bench::measure::latency::Interval;
use unikv_bench::measure::space::{SpaceUse, SpaceWatch, look_once};
use unikv_bench::report::summary::space_in_words;
use unikv_shapes::Shape;
use watch::Watch;
use worker::{Counts, Shared, Worker};

/// Without `--keys` there are as many keys as fit into this with their values, and at most
/// [`MOST_KEYS`].
const BYTES: u64 = 2 << 30;
const MOST_KEYS: u64 = 1_000_000;

const LONG_HELP: &str = "\
Each thread owns a share of the keys and remembers their versions. It puts, deletes and writes
batches of eight, gets and scans its own keys, which must be exactly as it left them, reads those of
the others, and holds snapshots and iterators for seconds to many minutes. Now and then it makes a
keyspace of its own, writes batches of up to 50,000 operations and 8,000 range deletes to it, reads
all of it in a transaction that takes the first keys, and drops it some rounds later. The first thread
now and then makes all iterators let go of their views, after which they must go on as before. Of the usual
shape values have 16 bytes to 1 MiB, 2 KB on average; with --memtable-bytes 2m and less the longest go to
files of their own. Others have longer keys, shorter values, or a few that are much longer.

Every ten seconds a line: operations and writes per second, latency of puts, anonymous memory, bytes
of the directory, live bytes, greatest share of the space bound in use (see unikv ycsb --help; files
that are pinned are allowed beside it, and what snapshots keep, also for a minute after their release),
partitions, and jobs since the last line.

With --json each of these is an object on a line of its own; its \"event\" says which.

At the end everything is compared by scans and gets, the database is closed and checked, and memory
and space of the last quarter of the run are compared with those of the second.

With --expect FILE acknowledged versions are also kept in FILE, which survives a kill: the next run
first compares the whole database with it. --minutes 0 does only that.";

/// `torture DIR`
#[derive(Args)]
#[command(after_help = LONG_HELP)]
pub struct Torture {
    /// The directory of the database; it is kept
    dir: PathBuf,
    /// How long the load lasts
    #[arg(long, value_name = "COUNT", default_value_t = 1.0)]
    minutes: f64,
    /// Client threads
    #[arg(long, value_name = "COUNT", default_value_t = 4)]
    threads: u64,
    /// Keys of all threads together; a million, or as many as fit into 2 GB, unless given
    #[arg(long, value_name = "COUNT", value_parser = args::count)]
    keys: Option<u64>,
    /// How long keys and values are; that of FILE, or one drawn at random, unless given
    #[arg(long, value_name = "NAME", value_parser = shape_named)]
    shape: Option<Shape>,
    /// Seed of the random choices
    #[arg(long, value_name = "NUMBER", default_value_t = 42)]
    seed: u64,
    /// Where acknowledged versions are kept for the next process
    #[arg(long, value_name = "FILE")]
    expect: Option<PathBuf>,
    /// Destroy the database in DIR, and FILE, before the run
    #[arg(long)]
    fresh: bool,
    /// Report the space taken, but do not fail when it exceeds the bound
    #[arg(long)]
    no_check_space: bool,
    /// What files may take with no data in them: 8 MiB and 11 memtables unless given
    #[arg(long, value_name = "SIZE", value_parser = args::size)]
    space_floor: Option<u64>,
    /// Do not read every byte of the closed database at the end
    #[arg(long)]
    no_check: bool,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    engine: EngineArgs,
}

fn shape_named(name: &str) -> Result<Shape, String> {
    Shape::named(name).ok_or_else(|| {
        let names: Vec<_> = Shape::ALL.iter().map(|shape| shape.name()).collect();
        format!("one of {}", names.join(", "))
    })
}

impl Torture {
    pub fn run(self) -> Outcome {
        if !(1..=MAX_THREADS).contains(&self.threads) {
            let what = format!("--threads: from 1 to {MAX_THREADS}");
            return Err(Failure::invalid(what));
        }
        if !(0.0..=1e6).contains(&self.minutes) {
            return Err(Failure::invalid("--minutes: from 0 to a million"));
        }
        if self.fresh {
            self.remove()?;
        }
        let of_file = || self.expect.as_deref().and_then(oracle::shape_in);
        let draw = || SmallRng::from_os_rng().random_range(0..Shape::ALL.len());
        let shape = self.shape.or_else(of_file);
        let shape = shape.unwrap_or_else(|| Shape::ALL[draw()]);
        model::choose(shape);
        self.say(
            || json!({ "event": "began", "shape": shape.name() }),
            || format!("shape of the data: --shape {}", shape.name()),
        )?;
        let keys = self
            .keys
            .unwrap_or_else(|| shape.keys_in(BYTES).min(MOST_KEYS));
        let keys_per_thread = (keys / self.threads).next_multiple_of(BLOCK).max(BLOCK);
        if keys_per_thread >= 1 << 32 {
            return Err(Failure::invalid("--keys: fewer than 2^32 for each thread"));
        }
        let amp = self.engine.max_space_amp.unwrap_or(1.5);
        let oracle = Oracle::open(self.threads, keys_per_thread, amp, self.expect.as_deref())?;
        let oracle = Arc::new(oracle);
        let options = self.engine.options()?;
        let db = if oracle.continued {
            opening::open(&self.dir, options)?
        } else {
            opening::create_new(&self.dir, options)?
        };
        self.say(
            || json!({ "event": "opened", "recovery": recovery_to_json(db.recovery()) }),
            || db.recovery().to_string(),
        )?;
        if oracle.continued {
            self.verify(&db, &oracle, true)?;
        }
        scratch::drop_all(&db)?;
        if self.minutes > 0.0 {
            self.load(&db, &oracle)?;
            self.verify(&db, &oracle, false)?;
        }
        db.close()?;
        if !self.no_check {
            self.check()?;
        }
        Ok(Code::Success)
    }

    /// Prints what has happened.
    fn say(
        &self,
        as_json: impl FnOnce() -> Value,
        as_text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        let said = self
            .output
            .print(as_json, |out| writeln!(out, "{}", as_text()));
        Ok(said?)
    }

    fn remove(&self) -> Result<(), Failure> {
        if self.dir.exists() {
            Db::destroy(&self.dir)?;
        }
        match self.expect.as_ref().map(std::fs::remove_file) {
            Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn verify(&self, db: &Db, oracle: &Oracle, after_a_kill: bool) -> Result<(), Failure> {
        let start = Instant::now();
        let verified = verify::verify(db, oracle, after_a_kill)?;
        let seconds = start.elapsed().as_secs_f64();
        let (keys, present, ahead) = (verified.keys, verified.present, verified.ahead);
        let as_json = || {
            json!({
                "event": "verified",
                "keys": keys,
                "present": present,
                "ahead": ahead,
                "seconds": seconds,
            })
        };
        self.say(as_json, || {
            format!(
                "verified {keys} keys, {present} of them there, {ahead} writes without a note, in \
                 {seconds:.1} s"
            )
        })
    }

    fn check(&self) -> Result<(), Failure> {
        let report = Db::check(&self.dir)?;
        let (files, records, keys) = (report.files, report.records, report.keys);
        let problems = report.problems.len();
        let as_json = || {
            json!({
                "event": "checked",
                "files": files,
                "records": records,
                "keys": keys,
                "problems": problems,
            })
        };
        self.say(as_json, || {
            format!("checked {files} files, {records} records, {keys} keys: {problems} problems")
        })?;
        match report.problems.first() {
            None => Ok(()),
            Some(problem) => Err(Failure::verification(format!(
                "check: {} at {}: {}",
                problem.file.display(),
                problem.offset,
                problem.what
            ))),
        }
    }

    fn load(&self, db: &Db, oracle: &Arc<Oracle>) -> Result<(), Failure> {
        let (stop, counts) = (AtomicBool::new(false), Arc::new(Counts::default()));
        let started = Instant::now();
        let limits = space_limits(&db.options(), self.space_floor);
        let threads = self.threads;
        let space = SpaceWatch::start(self.dir.clone(), limits, {
            let (oracle, counts, db) = (Arc::clone(oracle), Arc::clone(&counts), db.clone());
            let held_files = HeldFiles::default();
            // Files that are held, and versions that snapshots keep, with their share of garbage.
            move || SpaceUse {
                live_bytes: oracle.live_bytes(),
                frame_bytes: oracle.frame_bytes(),
                pinned_bytes: held_files.most(db.stats().pins.bytes, Instant::now())
                    + ((counts.pinned_bytes() + counts.scratch_bytes(threads)) as f64
                        * limits.max_space_amp) as u64,
            }
        });
        let shared = Shared {
            db,
            oracle,
            stop: &stop,
            deadline: started + Duration::from_secs_f64(self.minutes * 60.0),
            started,
            seed: self.seed,
            counts: &counts,
        };
        let puts: Vec<Interval> = (0..self.threads).map(|_| Interval::new()).collect();
        let mut watch = Watch::new(&shared, &puts, &space, self.output);
        watch.print_head(&mut io::stdout().lock())?;
        std::thread::scope(|scope| {
            let (sender, ended) = mpsc::channel();
            for (thread, puts) in (0..).zip(&puts) {
                let (sender, shared) = (sender.clone(), &shared);
                scope.spawn(move || {
                    let outcome = Worker::new(shared, puts, thread).run();
                    if outcome.is_err() {
                        shared.stop.store(true, Ordering::Relaxed);
                    }
                    // The receiver lives until all threads have ended.
                    let _ = sender.send(outcome);
                });
            }
            drop(sender);
            let outcome = wait(&ended, &mut watch);
            shared.stop.store(true, Ordering::Relaxed);
            outcome
        })?;
        watch.line(&mut io::stdout().lock())?;
        watch.finish(&mut io::stdout().lock())?;
        let report = &watch.space_report;
        self.say(
            || json!({ "event": "space", "report": report }),
            || format!("space: {}", space_in_words(report)),
        )?;
        db.wait_until_idle()?;
        let in_use = SpaceUse {
            live_bytes: oracle.live_bytes(),
            frame_bytes: oracle.frame_bytes(),
            pinned_bytes: 0,
        };
        let quiet = look_once(&self.dir, &limits, in_use)?;
        let as_json = || {
            json!({
                "event": "quiet",
                "data_bytes": quiet.data_bytes,
                "bound_bytes": quiet.bound_bytes,
                "live_bytes": quiet.live_bytes,
            })
        };
        self.say(as_json, || {
            format!(
                "space when all is released and quiet: {} of {} allowed, {} live",
                HumanBytes(quiet.data_bytes),
                HumanBytes(quiet.bound_bytes),
                HumanBytes(quiet.live_bytes)
            )
        })?;
        let breached = report.breaches > 0 || quiet.ratio() > 1.0;
        if breached && !self.no_check_space {
            Err(Failure::verification("the space promise was breached"))
        } else {
            Ok(())
        }
    }
}

/// Waits for all threads; after a failure, too, so that the first one is reported.
fn wait(ended: &Receiver<Result<(), Failure>>, watch: &mut Watch<'_>) -> Result<(), Failure> {
    let mut outcome = Ok(());
    let mut next_line = Instant::now() + watch::EVERY;
    loop {
        let left = next_line.saturating_duration_since(Instant::now());
        match ended.recv_timeout(left) {
            Ok(Ok(())) => {}
            Ok(Err(failure)) => outcome = outcome.and(Err(failure)),
            Err(RecvTimeoutError::Timeout) => {
                watch.line(&mut io::stdout().lock())?;
                next_line += watch::EVERY;
            }
            Err(RecvTimeoutError::Disconnected) => return outcome,
        }
    }
}
