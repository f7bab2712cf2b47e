//! Reports how far an opening has come, now and then.
//!
//! # Invariants
//! - The function is not called in the first tenth of a second, nor twice within one: a quick
//!   opening reports nothing, and a slow one costs no more for it.
//! - A panic of the function ends the calls, and not the opening.
//! - In a child that the function has forked the opening fails before it writes anything.
//!
//! No locks. Where nobody waits, no clock is read.

use crate::error::{Error, Result};
use crate::events::{OnProgress, OpeningPhase, OpeningProgress};
use crate::vfs::{Process, Runtime};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// The time from one call to the next, at least.
const INTERVAL: Duration = Duration::from_millis(100);

/// Reports to the function that was set, if there is one.
pub(crate) struct Progress {
    on_progress: Option<OnProgress>,
    runtime: Arc<dyn Runtime>,
    last: Cell<Duration>,
    has_panicked: Cell<bool>,
    /// The one that opens the database.
    pub(super) process: Process,
}

impl Progress {
    /// The opening begins now.
    pub(crate) fn begin(on_progress: Option<OnProgress>, runtime: &Arc<dyn Runtime>) -> Progress {
        Progress {
            last: Cell::new(match on_progress {
                Some(_) => runtime.now(),
                None => Duration::ZERO,
            }),
            on_progress,
            process: runtime.process(),
            runtime: Arc::clone(runtime),
            has_panicked: Cell::new(false),
        }
    }

    /// Refuses to go on in a child.
    pub(super) fn check_process(&self) -> Result<()> {
        if self.process.is_this() {
            Ok(())
        } else {
            Err(Error::forked())
        }
    }

    /// Whether anybody waits for reports.
    pub(crate) fn is_heard(&self) -> bool {
        self.on_progress.is_some()
    }

    /// What of a phase is done.
    pub(crate) fn report(&self, phase: OpeningPhase, done: u64, all: u64) {
        if self.is_heard() {
            self.report_in_time(OpeningProgress::new(phase, done, all));
        }
    }

    #[cold]
    fn report_in_time(&self, progress: OpeningProgress) {
        let now = self.runtime.now();
        let is_time = now.saturating_sub(self.last.get()) >= INTERVAL;
        let Some(on_progress) = self.on_progress.as_ref().filter(|_| is_time) else {
            return;
        };
        if self.has_panicked.get() {
            return;
        }
        let called = catch_unwind(AssertUnwindSafe(|| on_progress.0(progress)));
        self.has_panicked.set(called.is_err());
        // What the call took does not count.
        self.last.set(self.runtime.now());
    }

    /// How often the function has panicked.
    pub(crate) fn panics(&self) -> u64 {
        u64::from(self.has_panicked.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::sync::Mutex;
    use crate::engine::tests::{Machine, Model, churn, small};
    use crate::vfs::sim::{Fault, SimRuntime};
    use crate::vfs::{Env, Runtime};
    use crate::{Db, Options};
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    /// A machine whose database has a log, tables and files.
    fn machine() -> Machine {
        let machine = Machine::new(31);
        let (db, _runtime) = machine.open(small());
        let (mut model, mut rng) = (Model::new(), SmallRng::seed_from_u64(31));
        churn(&db, &mut model, &mut rng, 900);
        db.compact().unwrap();
        churn(&db, &mut model, &mut rng, 60);
        db.flush().unwrap();
        churn(&db, &mut model, &mut rng, 20);
        drop(db);
        machine
    }

    /// Opens it where each look at the disk takes `look`. What it took, and the database.
    fn open(machine: &Machine, look: Duration, options: Options) -> (Duration, Db) {
        let runtime = SimRuntime::new(32);
        let env = Env {
            vfs: Arc::new(machine.disk.clone()),
            runtime: runtime.clone(),
        };
        let (waits, begin) = (runtime.clone(), runtime.now());
        machine.disk.set_look_fault(Box::new(move |_| {
            waits.delay(look);
            Fault::None
        }));
        let db = Db::open("/db", options.env(env)).unwrap();
        machine.disk.clear_faults();
        (runtime.now() - begin, db)
    }

    #[test]
    fn a_slow_opening_reports_each_phase_now_and_then() {
        let machine = machine();
        let seen: Arc<Mutex<Vec<OpeningProgress>>> = Arc::default();
        let noted = Arc::clone(&seen);
        let options = || {
            let noted = Arc::clone(&noted);
            small().on_progress(move |progress| noted.lock().push(progress))
        };
        let (_, db) = open(&machine, Duration::ZERO, options());
        assert!(seen.lock().is_empty(), "a quick opening reports nothing");
        drop(db);
        let (took, db) = open(&machine, Duration::from_millis(70), options());
        let seen = seen.lock();
        let calls = seen.len() as u128;
        assert!(
            calls > 3 && calls <= took.as_millis() / 100,
            "{calls} in {took:?}"
        );
        for phase in [
            OpeningPhase::Manifest,
            OpeningPhase::Files,
            OpeningPhase::Log,
            OpeningPhase::Indexes,
        ] {
            let of_phase = seen.iter().filter(|it| it.phase == phase);
            let done: Vec<_> = of_phase.clone().map(|it| it.done).collect();
            assert!(done.is_sorted(), "{phase:?}: {done:?}");
            for progress in of_phase {
                assert!(progress.all == 0 || progress.done <= progress.all);
                assert_eq!(progress.all == 0, phase == OpeningPhase::Manifest);
            }
        }
        let order: Vec<_> = seen.iter().map(|it| it.phase.name()).collect();
        let files = order.iter().filter(|name| **name == "files").count();
        assert!(files > 1 && order.contains(&"indexes"), "{order:?}");
        assert_eq!(db.stats().listener_panics, 0);
    }

    #[test]
    fn a_panic_of_the_function_ends_the_calls_and_not_the_opening() {
        let machine = machine();
        let calls: Arc<Mutex<u32>> = Arc::default();
        let counted = Arc::clone(&calls);
        let options = small().on_progress(move |_| {
            *counted.lock() += 1;
            panic!("of the function");
        });
        let (_, db) = open(&machine, Duration::from_millis(70), options);
        assert_eq!((*calls.lock(), db.stats().listener_panics), (1, 1));
        assert!(db.iter().count() > 0);
    }
}
