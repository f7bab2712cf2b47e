//! A runtime in one thread: workers run when somebody waits, in an order drawn from the seed.
//!
//! A wait on an event steps other workers until the event moves. A worker's step may wait
//! itself, so steps nest; a worker that is on the stack is not stepped again. Time moves only when
//! nothing else can, or by `delay`. When nothing can move at all, the wait panics: a deadlock.
//!
//! Invariants: `worker` of a slot is `None` while its step is on the stack and after its end.
//! Slots are never removed, so an index names a worker for good.
//!
//! Locks: `state` is never held while a worker runs, is dropped, or an event is notified.

use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::vfs::{Event, JoinHandle, Runtime, Step, Worker};
use rand::rngs::SmallRng;
use rand::seq::IteratorRandom;
use rand::{RngCore, SeedableRng};
use std::sync::{Arc, Weak};
use std::time::Duration;
use std::{fmt, io};

/// The wall clock when a simulation starts.
const START_MS: u64 = 1_700_000_000_000;
/// How often one wait may move the clock before it counts as hung: only workers that wake up by
/// time and then do nothing are left.
const MAX_CLOCK_MOVES_PER_WAIT: u32 = 100_000;

/// Workers, time and randomness of a simulated machine. Used from one thread.
pub struct SimRuntime {
    this: Weak<SimRuntime>,
    state: Mutex<State>,
}

struct State {
    rng: SmallRng,
    now: Duration,
    /// The wall clock when `now` was zero; it wraps as a broken clock may.
    wall_clock_begin: u64,
    workers: Vec<Slot>,
}

struct Slot {
    name: String,
    wake: Arc<dyn Event>,
    worker: Option<Box<dyn Worker>>,
    /// Set when the last step said `Wait`: the epoch to pass, and the time at which to give up.
    waits_for: Option<(u64, Option<Duration>)>,
    done: bool,
}

impl Slot {
    fn can_run(&self, now: Duration) -> bool {
        self.worker.is_some()
            && self.waits_for.is_none_or(|(epoch, deadline)| {
                self.wake.epoch() != epoch || deadline.is_some_and(|deadline| deadline <= now)
            })
    }

    /// When it will run although nobody wakes it.
    fn deadline(&self) -> Option<Duration> {
        self.worker
            .as_ref()
            .and(self.waits_for)
            .and_then(|(_, deadline)| deadline)
    }
}

impl SimRuntime {
    /// A machine without workers; `seed` decides about everything that is random.
    pub fn new(seed: u64) -> Arc<SimRuntime> {
        let rng = SmallRng::seed_from_u64(seed);
        let state = State {
            rng,
            now: Duration::ZERO,
            wall_clock_begin: START_MS,
            workers: Vec::new(),
        };
        Arc::new_cyclic(|this| SimRuntime {
            this: this.clone(),
            state: Mutex::new(state),
        })
    }

    /// Sets the wall clock, forwards or backwards. It goes on from there with the monotonic one.
    pub fn set_wall_clock_ms(&self, ms: u64) {
        let mut state = self.state.lock();
        let passed = u64::try_from(state.now.as_millis()).unwrap_or(u64::MAX);
        state.wall_clock_begin = ms.wrapping_sub(passed);
    }

    /// Runs one step of one worker. Returns `false` when all of them wait.
    pub fn run_one(&self) -> bool {
        let (index, mut worker, wake) = {
            let mut state = self.state.lock();
            let State {
                rng, now, workers, ..
            } = &mut *state;
            let ready = (0..workers.len()).filter(|&i| workers[i].can_run(*now));
            let Some(index) = ready.choose(rng) else {
                return false;
            };
            let Some(worker) = workers[index].worker.take() else {
                return false;
            };
            (index, worker, Arc::clone(&workers[index].wake))
        };
        let epoch = wake.epoch();
        let step = worker.step();
        let mut state = self.state.lock();
        let now = state.now;
        let slot = &mut state.workers[index];
        match step {
            Step::Again => slot.waits_for = None,
            Step::Wait(timeout) => {
                slot.waits_for = Some((epoch, timeout.map(|timeout| now.saturating_add(timeout))));
            }
            Step::Done => {
                slot.done = true;
                drop(state);
                drop(worker);
                return true;
            }
        }
        slot.worker = Some(worker);
        true
    }

    /// Runs workers until all of them wait. The clock does not move.
    pub fn run_until_idle(&self) {
        while self.run_one() {}
    }

    /// Runs workers, and moves the clock when they all wait, until `over` says so or the clock has
    /// reached `deadline`.
    fn run_until(&self, deadline: Option<Duration>, over: &dyn Fn() -> bool) {
        let mut clock_moves = 0;
        while !over() && deadline.is_none_or(|deadline| self.now() < deadline) {
            if self.run_one() {
                continue;
            }
            clock_moves += 1;
            if clock_moves > MAX_CLOCK_MOVES_PER_WAIT || !self.move_clock(deadline) {
                self.report_deadlock();
            }
        }
    }

    /// Moves the clock to the first deadline; `false` when there is none.
    fn move_clock(&self, deadline: Option<Duration>) -> bool {
        let mut state = self.state.lock();
        let first = state
            .workers
            .iter()
            .filter_map(Slot::deadline)
            .chain(deadline)
            .min();
        if let Some(first) = first {
            state.now = state.now.max(first);
        }
        first.is_some()
    }

    #[expect(
        clippy::panic,
        reason = "a simulation that cannot go on has found a bug"
    )]
    fn report_deadlock(&self) -> ! {
        let state = self.state.lock();
        let describe = |slot: &Slot| {
            let doing = match (&slot.worker, slot.done) {
                (_, true) => "done",
                (Some(_), _) => "waits",
                (None, _) => "is on the stack",
            };
            format!("{} {doing}", slot.name)
        };
        let workers: Vec<String> = state.workers.iter().map(describe).collect();
        drop(state);
        panic!(
            "deadlock: nobody can end this wait; workers: [{}]",
            workers.join(", ")
        );
    }
}

impl fmt::Debug for SimRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimRuntime")
            .field("now", &self.now())
            .finish_non_exhaustive()
    }
}

impl Runtime for SimRuntime {
    fn event(&self) -> Arc<dyn Event> {
        Arc::new(SimEvent {
            epoch: AtomicU64::new(0),
            runtime: self.this.clone(),
        })
    }

    fn spawn(
        &self,
        name: &str,
        wake: Arc<dyn Event>,
        worker: Box<dyn Worker>,
    ) -> io::Result<Box<dyn JoinHandle>> {
        let mut state = self.state.lock();
        state.workers.push(Slot {
            name: name.to_owned(),
            wake,
            worker: Some(worker),
            waits_for: None,
            done: false,
        });
        Ok(Box::new(SimJoinHandle {
            runtime: self.this.clone(),
            index: state.workers.len() - 1,
        }))
    }

    fn now(&self) -> Duration {
        self.state.lock().now
    }

    fn wall_clock_ms(&self) -> u64 {
        let state = self.state.lock();
        let passed = u64::try_from(state.now.as_millis()).unwrap_or(u64::MAX);
        state.wall_clock_begin.wrapping_add(passed)
    }

    fn random_u64(&self) -> u64 {
        self.state.lock().rng.next_u64()
    }

    fn delay(&self, time: Duration) {
        let mut state = self.state.lock();
        state.now = state.now.saturating_add(time);
    }
}

#[derive(Debug)]
struct SimEvent {
    epoch: AtomicU64,
    /// Weak, because the runtime's workers hold events.
    runtime: Weak<SimRuntime>,
}

impl Event for SimEvent {
    fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    fn notify(&self) {
        self.epoch.fetch_add(1, Ordering::AcqRel);
    }

    fn wait_past(&self, epoch: u64, timeout: Option<Duration>) {
        // Without its runtime no worker is left that could notify.
        let Some(runtime) = self.runtime.upgrade() else {
            return;
        };
        let deadline = timeout.map(|timeout| runtime.now().saturating_add(timeout));
        runtime.run_until(deadline, &|| self.epoch() != epoch);
    }
}

struct SimJoinHandle {
    runtime: Weak<SimRuntime>,
    index: usize,
}

impl JoinHandle for SimJoinHandle {
    fn join(self: Box<Self>) {
        let Some(runtime) = self.runtime.upgrade() else {
            return;
        };
        runtime.run_until(None, &|| runtime.state.lock().workers[self.index].done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vfs::wait_until;

    /// A worker made of a closure.
    struct Do<F>(F);

    impl<F: FnMut() -> Step + Send> Worker for Do<F> {
        fn step(&mut self) -> Step {
            (self.0)()
        }
    }

    fn spawn(
        runtime: &SimRuntime,
        name: &str,
        wake: &Arc<dyn Event>,
        step: impl FnMut() -> Step + Send + 'static,
    ) -> Box<dyn JoinHandle> {
        runtime
            .spawn(name, Arc::clone(wake), Box::new(Do(step)))
            .unwrap()
    }

    /// Three workers that write down their turns, four each.
    fn order_of_turns(seed: u64) -> Vec<usize> {
        let runtime = SimRuntime::new(seed);
        let wake = runtime.event();
        let turns = Arc::new(Mutex::new(Vec::new()));
        for worker in 0..3 {
            let (turns, mut left) = (Arc::clone(&turns), 4);
            spawn(&runtime, "worker", &wake, move || {
                turns.lock().push(worker);
                left -= 1;
                if left == 0 { Step::Done } else { Step::Again }
            });
        }
        runtime.run_until_idle();
        let turns = turns.lock().clone();
        assert_eq!(turns.len(), 12);
        turns
    }

    #[test]
    fn the_seed_alone_decides_the_order() {
        assert_eq!(order_of_turns(7), order_of_turns(7));
        assert!((0..10).any(|seed| order_of_turns(seed) != order_of_turns(7)));
        let numbers = |seed| {
            let runtime = SimRuntime::new(seed);
            [runtime.random_u64(), runtime.random_u64()]
        };
        assert_eq!(numbers(1), numbers(1));
        assert_ne!(numbers(1), numbers(2));
    }

    #[test]
    fn a_waiting_worker_runs_only_when_woken() {
        let runtime = SimRuntime::new(1);
        let (wake, other) = (runtime.event(), runtime.event());
        let steps = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&steps);
        spawn(&runtime, "worker", &wake, move || {
            count.fetch_add(1, Ordering::Relaxed);
            Step::Wait(None)
        });
        assert!(runtime.run_one());
        assert!(!runtime.run_one());
        other.notify();
        assert!(!runtime.run_one());
        wake.notify();
        assert!(runtime.run_one());
        assert!(!runtime.run_one());
        assert_eq!(steps.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_notification_during_the_step_is_not_lost() {
        let runtime = SimRuntime::new(1);
        let wake = runtime.event();
        let (own, steps) = (Arc::clone(&wake), Arc::new(AtomicU64::new(0)));
        let count = Arc::clone(&steps);
        spawn(&runtime, "worker", &wake, move || {
            if count.fetch_add(1, Ordering::Relaxed) == 0 {
                own.notify();
            }
            Step::Wait(None)
        });
        runtime.run_until_idle();
        assert_eq!(steps.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn waits_nest_and_skip_workers_on_the_stack() {
        for seed in 0..20 {
            let runtime = SimRuntime::new(seed);
            let wake = runtime.event();
            let (outer, inner) = (runtime.event(), runtime.event());
            let log = Arc::new(Mutex::new(Vec::new()));

            let (o, i, l) = (Arc::clone(&outer), Arc::clone(&inner), Arc::clone(&log));
            spawn(&runtime, "outer", &wake, move || {
                wait_until(&*i, || i.epoch() > 0);
                l.lock().push("outer");
                o.notify();
                Step::Done
            });
            let (i, l) = (Arc::clone(&inner), Arc::clone(&log));
            spawn(&runtime, "inner", &wake, move || {
                l.lock().push("inner");
                i.notify();
                Step::Done
            });
            wait_until(&*outer, || outer.epoch() > 0);
            assert_eq!(*log.lock(), ["inner", "outer"]);
            assert!(!runtime.run_one());
        }
    }

    #[test]
    fn the_clock_moves_only_when_nothing_else_can() {
        let runtime = SimRuntime::new(1);
        let (wake, never) = (runtime.event(), runtime.event());
        let wake_ups = Arc::new(Mutex::new(Vec::new()));
        let (this, times) = (Arc::downgrade(&runtime), Arc::clone(&wake_ups));
        spawn(&runtime, "periodic", &wake, move || {
            times.lock().push(this.upgrade().unwrap().now().as_secs());
            Step::Wait(Some(Duration::from_secs(10)))
        });
        let start_ms = runtime.wall_clock_ms();
        never.wait_past(never.epoch(), Some(Duration::from_secs(25)));
        assert_eq!(*wake_ups.lock(), [0, 10, 20]);
        assert_eq!(runtime.now(), Duration::from_secs(25));
        runtime.delay(Duration::from_secs(5));
        assert_eq!(runtime.wall_clock_ms(), start_ms + 30_000);
        runtime.run_until_idle();
        assert_eq!(*wake_ups.lock(), [0, 10, 20, 30]);
    }

    #[test]
    fn the_wall_clock_can_be_set_without_the_other_clock() {
        let runtime = SimRuntime::new(1);
        runtime.delay(Duration::from_secs(7));
        for ms in [0, u64::MAX, 5] {
            runtime.set_wall_clock_ms(ms);
            assert_eq!(runtime.wall_clock_ms(), ms);
            assert_eq!(runtime.now(), Duration::from_secs(7));
        }
        runtime.delay(Duration::from_secs(1));
        assert_eq!(runtime.wall_clock_ms(), 1005);
    }

    #[test]
    fn join_runs_the_worker_to_its_end_and_drops_it() {
        let runtime = SimRuntime::new(1);
        let wake = runtime.event();
        let held = Arc::new(());
        let (in_worker, mut left) = (Arc::clone(&held), 3);
        let handle = spawn(&runtime, "worker", &wake, move || {
            let _keep = &in_worker;
            left -= 1;
            if left == 0 {
                Step::Done
            } else {
                Step::Wait(Some(Duration::from_secs(1)))
            }
        });
        handle.join();
        assert_eq!(runtime.now(), Duration::from_secs(2));
        assert_eq!(Arc::strong_count(&held), 1);
    }

    #[test]
    #[should_panic(expected = "deadlock: nobody can end this wait; workers: [idle waits]")]
    fn a_wait_that_nobody_can_end_panics() {
        let runtime = SimRuntime::new(1);
        let wake = runtime.event();
        spawn(&runtime, "idle", &wake, || Step::Wait(None));
        let never = runtime.event();
        never.wait_past(never.epoch(), None);
    }

    #[test]
    #[should_panic(expected = "self is on the stack")]
    fn a_worker_that_waits_for_itself_panics() {
        let runtime = SimRuntime::new(1);
        let wake = runtime.event();
        let own = Arc::clone(&wake);
        spawn(&runtime, "self", &wake, move || {
            own.wait_past(own.epoch(), None);
            Step::Done
        });
        runtime.run_until_idle();
    }
}
