//! A failed change of the disk, and then a power cut, which finds what neither does alone.
//!
//! What a failed sync was to make durable stays in doubt for good, bytes and names alike, although
//! a later sync succeeds: see the fault model of [`unikv::vfs::sim`]. An engine that takes that
//! success for more than it says goes wrong only when the power goes, be it some calls later, be it
//! after the process has died and another one has opened the database. So after the failed call
//!
//! - the power is cut before each of the next calls that change the disk;
//! - the process is killed before one of them, the database is opened again, takes a write and
//!   syncs it, and the power is cut in the midst of that and after it.
//!
//! Everything must then be there as its durability promises, and of the rest a prefix.

use crate::budget;
use crate::crash::{fork, recover};
use crate::moments::{self, Moment, Recorder, fingerprint};
use crate::oracle::{Change, Ending, Oracle};
use crate::runner::{Standing, Watch};
use crate::story;
use crate::value::Value;
use crate::verify;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use unikv::vfs::sim::{Call, Keep, Op, SimVfs};

/// How many of the calls after the failed one are looked at.
const CALLS: usize = 10;
/// Places at which the opening after the death of the process, and the write after it, are cut.
const REOPENED: u64 = 3;
/// Every how many images are checked offline and live on.
const DEEP_EVERY: u64 = 16;

/// Whether the power is cut after a failed call of this kind.
pub fn follows(op: Op) -> bool {
    matches!(op, Op::Sync | Op::Finish | Op::SyncDir | Op::Rename)
}

/// Collects the moments after a failed call.
#[derive(Clone)]
pub struct Aftermath {
    disk: SimVfs,
    watch: Watch,
    taken: Arc<Mutex<Taken>>,
}

#[derive(Default)]
struct Taken {
    failed: String,
    moments: Vec<Moment>,
}

impl Aftermath {
    /// Of a run on `disk` that `watch` shows.
    pub fn new(disk: &SimVfs, watch: Watch) -> Aftermath {
        Aftermath {
            disk: disk.clone(),
            watch,
            taken: Arc::default(),
        }
    }

    /// This call is about to fail.
    pub fn failed(&self, call: &Call<'_>) {
        let mut taken = self.taken.lock().expect("nobody panics with it");
        taken.failed = format!("the fault: {:?} of {}", call.op, call.path.display());
    }

    /// This call comes after the failed one.
    pub fn next(&self, call: &Call<'_>) {
        let mut taken = self.taken.lock().expect("nobody panics with it");
        if taken.moments.len() < CALLS {
            let next = format!("{:?} of {}", call.op, call.path.display());
            let number = call.index + 1;
            let moment = moments::moment(&self.disk, &self.watch, number, next);
            taken.moments.push(moment);
        }
    }

    /// Cuts the power at each of the moments, and after another opening. Returns the number of
    /// disks that were recovered after a cut.
    pub fn explore(&self, seed: u64) -> u64 {
        let taken = std::mem::take(&mut *self.taken.lock().expect("nobody panics with it"));
        let mut images = Images::default();
        for moment in &taken.moments {
            let _at = story::scope("UNIKV_CUT_AT", moment.call);
            story::begin();
            story::step(taken.failed.clone());
            story::step(format!(
                "in operation {} the power is cut before call {}: {}",
                moment.standing.step, moment.call, moment.next
            ));
            // The first is the one right after the error.
            let most = if moment.call == taken.moments[0].call {
                3
            } else {
                1
            };
            images.cut(moment, seed, most);
        }
        let drawn = (seed / 3) as usize % taken.moments.len().max(1);
        if let Some(moment) = taken.moments.get(drawn) {
            let _at = story::scope("UNIKV_CUT_AT", moment.call);
            story::begin();
            story::step(taken.failed);
            story::step(format!(
                "in operation {} the process is killed before call {}: {}",
                moment.standing.step, moment.call, moment.next
            ));
            reopened(moment, seed, &mut images);
        }
        images.count
    }
}

/// The disks that have been recovered.
#[derive(Default)]
struct Images {
    /// What was on them, and what had to be.
    seen: BTreeSet<(u64, usize)>,
    count: u64,
}

impl Images {
    /// Recovers from a cut at a moment, in this many ways; others have their turn at other calls.
    fn cut(&mut self, moment: &Moment, seed: u64, most: usize) {
        let seed = seed ^ moment.call << 1;
        let keeps = [Keep::Nothing, Keep::Sectors(seed), Keep::Torn(seed)];
        let first = (moment.call + seed / 2) as usize;
        for n in first..first + most {
            let keep = keeps[n % keeps.len()];
            let _keep = story::scope("UNIKV_KEEP", format!("{keep:?}"));
            if budget::chosen("UNIKV_KEEP", &format!("{keep:?}")) {
                self.recover(&moment.disk.power_cut(keep), &moment.standing);
            }
        }
    }

    fn recover(&mut self, disk: &SimVfs, standing: &Standing) {
        disk.set_free_space(None);
        let asked = Arc::as_ptr(&standing.oracle) as usize;
        if !self.seen.insert((fingerprint(disk), asked)) {
            return;
        }
        self.count += 1;
        let deep = self.count.is_multiple_of(DEEP_EVERY);
        let oracle = Oracle::clone(&standing.oracle);
        let known = (&*standing.config, oracle, &standing.feeds);
        recover(disk, known, Ending::PowerCut, deep);
        standing.copies.verify(disk);
    }
}

/// The process dies at a moment, another one opens the database and makes a write durable; then, or
/// before, the power goes.
fn reopened(moment: &Moment, seed: u64, images: &mut Images) {
    let moments = second_life(moment, seed);
    let last = moments.len() - 1;
    let step = (last as u64).div_ceil(REOPENED).max(1);
    for (n, later) in moments.iter().enumerate() {
        if n != last && !(n as u64 + seed).is_multiple_of(step) {
            continue;
        }
        let _nested = story::scope("UNIKV_NESTED_AT", later.call);
        story::step(format!(
            "opened again, the power is cut before call {}: {}",
            later.call, later.next
        ));
        images.cut(later, seed, if n == last { 3 } else { 1 });
    }
}

/// The moments of an opening after the death of the process, and of a write that is then made
/// durable.
fn second_life(moment: &Moment, seed: u64) -> Vec<Moment> {
    let disk = fork(&moment.disk, Ending::Kill);
    disk.set_free_space(None);
    let config = &moment.standing.config;
    let mut oracle = Oracle::clone(&moment.standing.oracle);
    // Each moment that follows is one of an opening more.
    oracle.times.tries = 1;
    let watch = moments::standing(oracle.clone(), config);
    let tell = |oracle: &Oracle| {
        watch.lock().expect("nobody panics with it").oracle = Arc::new(oracle.clone());
    };
    let recorder = Recorder::attach(&disk, &watch);
    let (db, runtime) = verify::recovered(&disk, config, &mut oracle, Ending::Kill);
    let value = verify::stored(&db, &oracle, Value::new(0xdd_0000, 50));
    let change: Change = (b"a second life".to_vec(), Some(value.clone()));
    let mut under_way = oracle.clone();
    under_way.unknown(vec![change.clone()]);
    tell(&under_way);
    let written = db.put(&change.0, &value);
    written.unwrap_or_else(|err| panic!("a put after the opening failed: {err:?}"));
    oracle.acknowledged(vec![change]);
    let synced = if seed.is_multiple_of(2) {
        db.sync()
    } else {
        db.flush()
    };
    synced.unwrap_or_else(|err| panic!("a sync after the opening failed: {err:?}"));
    oracle.synced();
    tell(&oracle);
    runtime.run_until_idle();
    drop(db);
    recorder.finish().0
}
