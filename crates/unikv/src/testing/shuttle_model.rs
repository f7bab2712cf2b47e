//! Running the whole engine under shuttle: its threads are shuttle's, which chooses at each use of
//! an atomic, a lock or an event who goes on; the simulated disk is its file system.
//!
//! Time stands still but for [`Runtime::delay`] and [`ModelRuntime::pass`], so that a wait with a
//! timeout, too, needs its event: a wake-up that is lost shows as a deadlock and is not mended by a
//! retry a second later. Every schedule follows from the seed.

use crate::base::sync::{Weakness, weakly};
use crate::vfs::os::{OsEvent, run_worker};
use crate::vfs::{Event, JoinHandle, Runtime, Worker};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner, thread};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

/// Places at which the scheduler that bounds them takes the processor from a thread.
const PREEMPTIONS: usize = 4;
/// Seeds with which a model that is wrong may be tried.
const MOST_SEEDS: u64 = 40;
/// Longer executions would be a hang.
const MOST_STEPS: usize = 3_000_000;

thread_local! {
    /// What happened in all schedules together, by name.
    static TOTALS: RefCell<BTreeMap<&'static str, u64>> = const { RefCell::new(BTreeMap::new()) };
}

/// Adds to what is reported at the end, and shows that a model does what it is for.
pub(crate) fn count(what: &'static str, number: u64) {
    TOTALS.with_borrow_mut(|totals| *totals.entry(what).or_default() += number);
}

/// Runs `model` under `schedules` schedules of each of two kinds that follow from `seed`: at each
/// step any thread, or by priorities that change at a few steps. More with `UNIKV_SCHEDULES`. Each
/// of `happens` must have been counted in some schedule: of what never happens a model says
/// nothing.
pub(crate) fn holds(
    seed: u64,
    schedules: usize,
    happens: &[&str],
    model: impl Fn() + Send + Sync + 'static,
) {
    let totals = run(seed, schedules, model);
    for what in happens {
        let number = totals.get(what).copied().unwrap_or(0);
        assert!(number > 0, "no {what} in any schedule: {totals:?}");
    }
}

fn run(
    seed: u64,
    schedules: usize,
    model: impl Fn() + Send + Sync + 'static,
) -> BTreeMap<&'static str, u64> {
    let times = std::env::var("UNIKV_SCHEDULES").map_or(1, |times| times.parse().unwrap());
    let (schedules, model) = (schedules * times, Arc::new(model));
    let pct = PctScheduler::new_from_seed(seed, PREEMPTIONS, schedules);
    explore(pct, Arc::clone(&model));
    explore(RandomScheduler::new_from_seed(seed, schedules), model);
    let name = std::thread::current().name().unwrap_or_default().to_owned();
    let totals = TOTALS.take();
    println!("{name}: {} schedules {totals:?}", 2 * schedules);
    totals
}

/// Runs `model` made wrong at `place`; one of the schedules must show it, if need be with further
/// seeds.
pub(crate) fn fails(
    place: Weakness,
    seed: u64,
    schedules: usize,
    model: impl Fn() + Copy + Send + Sync + 'static,
) {
    let shows = |seed| catch_unwind(AssertUnwindSafe(|| run(seed, schedules, model))).is_err();
    weakly(place, || {
        let shown = (seed..seed + MOST_SEEDS).any(shows);
        assert!(shown, "the model proves nothing: {place:?} goes unnoticed");
    });
}

fn explore(scheduler: impl Scheduler + 'static, model: Arc<impl Fn() + Send + Sync + 'static>) {
    let mut config = Config::new();
    config.stack_size = 1 << 20;
    config.max_steps = MaxSteps::FailAfter(MOST_STEPS);
    config.failure_persistence = FailurePersistence::None;
    config.silence_warnings = true;
    Runner::new(scheduler, config).run(move || model());
}

/// Threads of shuttle, a clock that stands, numbers from a seed.
#[derive(Debug)]
pub(crate) struct ModelRuntime(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    now: Duration,
    random: u64,
    /// Who waits until when, at most.
    timers: Vec<(Duration, Weak<OsEvent>)>,
}

impl ModelRuntime {
    pub(crate) fn new(seed: u64) -> Arc<ModelRuntime> {
        let state = State {
            now: Duration::from_secs(1),
            random: seed,
            timers: Vec::new(),
        };
        Arc::new(ModelRuntime(Arc::new(Mutex::new(state))))
    }

    /// Lets time pass, and wakes who has waited for that.
    pub(crate) fn pass(&self, time: Duration) {
        let mut state = lock(&self.0);
        state.now += time;
        let now = state.now;
        let due: Vec<_> = state.timers.extract_if(.., |(at, _)| *at <= now).collect();
        drop(state);
        for (_, event) in due {
            if let Some(event) = event.upgrade() {
                event.notify();
            }
        }
    }
}

/// No thread of the model can run while this is locked, as no step of shuttle is taken under it.
fn lock(state: &Mutex<State>) -> std::sync::MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Runtime for ModelRuntime {
    fn event(&self) -> Arc<dyn Event> {
        Arc::new(ModelEvent {
            event: Arc::new(OsEvent::default()),
            state: Arc::clone(&self.0),
        })
    }

    fn spawn(
        &self,
        name: &str,
        wake: Arc<dyn Event>,
        worker: Box<dyn Worker>,
    ) -> io::Result<Box<dyn JoinHandle>> {
        let thread = thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || run_worker(&*wake, worker))?;
        Ok(Box::new(ModelJoinHandle(thread)))
    }

    fn now(&self) -> Duration {
        lock(&self.0).now
    }

    fn wall_clock_ms(&self) -> u64 {
        1_700_000_000_000 + self.now().as_millis() as u64
    }

    fn random_u64(&self) -> u64 {
        let mut state = lock(&self.0);
        state.random = state.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state.random ^ (state.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 29)
    }

    fn delay(&self, time: Duration) {
        self.pass(time);
        thread::yield_now();
    }
}

/// The real event, with the model's clock in place of the system's.
#[derive(Debug)]
struct ModelEvent {
    event: Arc<OsEvent>,
    state: Arc<Mutex<State>>,
}

impl Event for ModelEvent {
    fn epoch(&self) -> u64 {
        self.event.epoch()
    }

    fn notify(&self) {
        self.event.notify();
    }

    fn wait_past(&self, epoch: u64, timeout: Option<Duration>) {
        if let Some(timeout) = timeout {
            let mut state = lock(&self.state);
            let at = state.now.saturating_add(timeout);
            state.timers.push((at, Arc::downgrade(&self.event)));
        }
        self.event.wait_past(epoch, None);
    }
}

struct ModelJoinHandle(thread::JoinHandle<()>);

impl JoinHandle for ModelJoinHandle {
    fn join(self: Box<Self>) {
        let ended = self.0.join();
        assert!(ended.is_ok(), "a worker panicked");
    }
}
