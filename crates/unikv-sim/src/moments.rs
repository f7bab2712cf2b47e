//! The moments of a run: the disk just before each call that changes it, with what the oracle then
//! allows.
//!
//! The power may go at each of these. A copy of a disk shares the bytes of its files until they are
//! written, so one run yields all of its crash points, and none needs the run again.

use crate::config::Config;
use crate::history::History;
use crate::oracle::Oracle;
use crate::runner::{Coverage, Runner, Standing, Tolerance, Watch};
use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex};
use unikv::vfs::sim::{Call, Fault, Op, SimVfs};

/// One moment.
#[derive(Clone, Debug)]
pub struct Moment {
    /// The disk with all that a cut may take from it.
    pub disk: SimVfs,
    /// Which call comes next, counted from 1; one more than there are at the end.
    pub call: u64,
    /// What the next call does.
    pub next: String,
    /// What the oracle allows.
    pub standing: Standing,
}

/// The calls of a run, by what they do and to which kind of file.
pub type Calls = BTreeMap<(&'static str, String), u64>;

/// A run with all its moments.
#[derive(Debug)]
pub struct Recording {
    /// The moments in order.
    pub moments: Vec<Moment>,
    /// What the engine did.
    pub seen: Seen,
}

/// What a run did.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// What the engine did.
    pub coverage: Coverage,
    /// How often which call was made.
    pub calls: Calls,
    /// Operations that failed for want of space.
    pub refused: u64,
}

impl Seen {
    /// Calls of a kind on files of a kind: their extension, or the name without its number.
    pub fn count(&self, op: Op, kind: &str) -> u64 {
        let key = (name_of(op), kind.to_owned());
        self.calls.get(&key).copied().unwrap_or(0)
    }
}

fn name_of(op: Op) -> &'static str {
    match op {
        Op::Create => "create",
        Op::Append => "append",
        Op::Sync => "sync",
        Op::Finish => "finish",
        Op::Link => "link",
        Op::Rename => "rename",
        Op::Remove => "remove",
        Op::SyncDir => "sync_dir",
        _ => "other",
    }
}

fn kind_of(call: &Call<'_>) -> String {
    if let Some(extension) = call.path.extension() {
        return extension.to_string_lossy().into_owned();
    }
    let name = call.path.file_name().unwrap_or_default().to_string_lossy();
    let plain = name.split('-').next().unwrap_or_default();
    plain.to_owned()
}

/// Collects the moments of a disk.
pub struct Recorder {
    disk: SimVfs,
    watch: Watch,
    taken: Arc<Mutex<(Vec<Moment>, Calls)>>,
}

impl Recorder {
    /// Takes a moment at each call from now on, in the place of the disk's rule for changes.
    pub fn attach(disk: &SimVfs, watch: &Watch) -> Recorder {
        let taken = Arc::<Mutex<(Vec<Moment>, Calls)>>::default();
        let recorder = Recorder {
            disk: disk.clone(),
            watch: watch.clone(),
            taken: taken.clone(),
        };
        let (copied, watch) = (disk.clone(), watch.clone());
        disk.set_fault(Box::new(move |call| {
            let mut taken = taken.lock().expect("nobody panics with it");
            let next = format!("{:?} of {}", call.op, call.path.display());
            let number = taken.0.len() as u64 + 1;
            taken.0.push(moment(&copied, &watch, number, next));
            *taken
                .1
                .entry((name_of(call.op), kind_of(call)))
                .or_default() += 1;
            Fault::None
        }));
        recorder
    }

    /// Ends with the disk as it is now.
    pub fn finish(self) -> (Vec<Moment>, Calls) {
        self.disk.clear_faults();
        let (mut moments, calls) = std::mem::take(&mut *self.taken.lock().expect("unpoisoned"));
        let number = moments.len() as u64 + 1;
        let end = "the end".to_owned();
        moments.push(moment(&self.disk, &self.watch, number, end));
        (moments, calls)
    }
}

/// The disk as it is now, before call `call`, which does `next`.
pub(crate) fn moment(disk: &SimVfs, watch: &Watch, call: u64, next: String) -> Moment {
    let mut standing = watch.lock().expect("nobody panics with it").clone();
    if let Some(clock) = standing.clock.take() {
        let mut oracle = Oracle::clone(&standing.oracle);
        clock.note(&mut oracle.times);
        oracle.times.draw_wall(call);
        standing.oracle = Arc::new(oracle);
    }
    Moment {
        disk: disk.process_kill(),
        call,
        next,
        standing,
    }
}

/// Where a run stands of which nothing but this is known.
pub fn standing(oracle: Oracle, config: &Config) -> Watch {
    Arc::new(Mutex::new(Standing {
        oracle: Arc::new(oracle),
        config: Arc::new(config.clone()),
        step: 0,
        copies: Default::default(),
        feeds: Default::default(),
        clock: None,
    }))
}

/// Plays a history and takes all of its moments, up to its last operation.
pub fn record(history: &History) -> Recording {
    let vfs = SimVfs::new();
    let mut runner = Runner::new(history, vfs.clone(), Tolerance::None);
    let watch = runner.watch();
    let recorder = Recorder::attach(&vfs, &watch);
    runner.play(&history.ops).expect("the machine is there");
    let (moments, calls) = recorder.finish();
    let refused = runner.faults_seen();
    let coverage = runner.finish();
    let seen = Seen {
        coverage,
        calls,
        refused,
    };
    Recording { moments, seen }
}

/// A number for all names and bytes of a disk: equal for equal disks.
pub fn fingerprint(disk: &SimVfs) -> u64 {
    let mut hasher = DefaultHasher::new();
    for path in disk.file_names() {
        path.hash(&mut hasher);
        disk.read_file(&path).hash(&mut hasher);
    }
    hasher.finish()
}
