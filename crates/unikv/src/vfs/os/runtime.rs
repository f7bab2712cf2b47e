//! Real threads, waits, time and randomness.
//!
//! Locks: each event has one, held while its epoch moves so that no waiter can test the epoch and
//! fall asleep between the two.

use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::base::sync::{Condvar, Mutex, Weakness, is_weak};
use crate::vfs::{Event, JoinHandle, Process, Runtime, Step, Worker};
use rand::TryRngCore;
use rand::rngs::OsRng;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Real threads and clocks.
#[derive(Debug)]
pub struct OsRuntime {
    start: Instant,
}

impl Default for OsRuntime {
    fn default() -> OsRuntime {
        OsRuntime {
            start: Instant::now(),
        }
    }
}

impl Runtime for OsRuntime {
    fn event(&self) -> Arc<dyn Event> {
        Arc::new(OsEvent::default())
    }

    fn spawn(
        &self,
        name: &str,
        wake: Arc<dyn Event>,
        worker: Box<dyn Worker>,
    ) -> io::Result<Box<dyn JoinHandle>> {
        let thread = thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || run_worker(&*wake, worker))?;
        Ok(Box::new(OsJoinHandle { thread }))
    }

    fn process(&self) -> Process {
        Process::this()
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn wall_clock_ms(&self) -> u64 {
        let since_1970 = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX)
    }

    fn random_u64(&self) -> u64 {
        // Without a system source, `RandomState` still differs between processes and calls.
        OsRng
            .try_next_u64()
            .unwrap_or_else(|_| RandomState::new().hash_one(self.start.elapsed()))
    }

    fn yield_now(&self) {
        thread::yield_now();
    }

    fn delay(&self, time: Duration) {
        thread::sleep(time);
    }
}

/// What the thread of a worker does.
pub(crate) fn run_worker(wake: &dyn Event, mut worker: Box<dyn Worker>) {
    loop {
        let epoch = wake.epoch();
        match worker.step() {
            Step::Again => {}
            Step::Wait(timeout) => wake.wait_past(epoch, timeout),
            Step::Done => return,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct OsEvent {
    /// Moves only under `waiting`; read without it.
    epoch: AtomicU64,
    /// Threads that wait: without any, notifying is no system call.
    waiting: Mutex<usize>,
    moved: Condvar,
}

impl Event for OsEvent {
    fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    fn notify(&self) {
        let waiting = (!is_weak(Weakness::EventLock)).then(|| self.waiting.lock());
        self.epoch.fetch_add(1, Ordering::AcqRel);
        // The lock is free again before anybody wakes and wants it.
        let has_waiting = waiting.is_none_or(|waiting| *waiting > 0);
        if has_waiting {
            self.moved.notify_all();
        }
    }

    fn wait_past(&self, epoch: u64, timeout: Option<Duration>) {
        // A deadline beyond what the clock can say is no deadline.
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut waiting = self.waiting.lock();
        *waiting += 1;
        while self.epoch() == epoch {
            waiting = match deadline.map(|at| at.saturating_duration_since(Instant::now())) {
                None => self.moved.wait(waiting),
                Some(Duration::ZERO) => break,
                Some(left) => self.moved.wait_timeout(waiting, left),
            };
        }
        *waiting -= 1;
    }
}

struct OsJoinHandle {
    thread: thread::JoinHandle<()>,
}

impl JoinHandle for OsJoinHandle {
    fn join(self: Box<Self>) {
        // A worker's panic has been reported by its own thread; the caller is closing down.
        let _ = self.thread.join();
    }
}

#[cfg(all(test, unikv_model = "loom"))]
mod models;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::limit;
    use crate::vfs::wait_until;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn no_wake_up_is_lost_between_two_threads() {
        const ROUNDS: u64 = 20_000;
        let runtime = OsRuntime::default();
        let (ping, pong) = (runtime.event(), runtime.event());
        let turns = AtomicU64::new(0);
        let _limit = limit("two threads that wake each other");
        thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..ROUNDS {
                    wait_until(&*ping, || turns.load(Ordering::Acquire) == 2 * round + 1);
                    turns.fetch_add(1, Ordering::AcqRel);
                    pong.notify();
                }
            });
            for round in 0..ROUNDS {
                turns.fetch_add(1, Ordering::AcqRel);
                ping.notify();
                wait_until(&*pong, || turns.load(Ordering::Acquire) == 2 * round + 2);
            }
        });
        assert_eq!(turns.load(Ordering::Acquire), 2 * ROUNDS);
        assert_eq!(ping.epoch(), ROUNDS);
    }

    #[test]
    fn a_wait_ends_at_once_when_the_epoch_has_moved_or_the_time_has_passed() {
        let event = OsRuntime::default().event();
        let epoch = event.epoch();
        event.wait_past(epoch, Some(Duration::ZERO));
        event.wait_past(epoch, Some(Duration::from_millis(1)));
        assert_eq!(event.epoch(), epoch);
        event.notify();
        event.wait_past(epoch, None);
        event.wait_past(epoch, Some(Duration::MAX));
        assert_eq!(event.epoch(), epoch + 1);
    }

    struct Counter {
        steps: Arc<AtomicU64>,
        stop: Arc<AtomicBool>,
        stepped: Arc<dyn Event>,
    }

    impl Worker for Counter {
        fn step(&mut self) -> Step {
            // Read before the step is reported, so that a stop that follows the report waits for
            // the next one.
            let stop = self.stop.load(Ordering::Acquire);
            let steps = self.steps.fetch_add(1, Ordering::AcqRel) + 1;
            self.stepped.notify();
            match steps {
                _ if stop => Step::Done,
                1..4 => Step::Again,
                _ => Step::Wait(None),
            }
        }
    }

    #[test]
    fn a_worker_runs_until_it_waits_and_again_when_it_is_woken() {
        let runtime = OsRuntime::default();
        let (wake, stepped) = (runtime.event(), runtime.event());
        let (steps, stop) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let worker = Counter {
            steps: Arc::clone(&steps),
            stop: Arc::clone(&stop),
            stepped: Arc::clone(&stepped),
        };
        let handle = runtime
            .spawn("counter", Arc::clone(&wake), Box::new(worker))
            .unwrap();
        wait_until(&*stepped, || steps.load(Ordering::Acquire) == 4);
        wake.notify();
        wait_until(&*stepped, || steps.load(Ordering::Acquire) == 5);
        stop.store(true, Ordering::Release);
        wake.notify();
        handle.join();
        assert_eq!(steps.load(Ordering::Acquire), 6);
    }

    #[test]
    fn time_does_not_go_back_and_numbers_differ() {
        let runtime = OsRuntime::default();
        let before = runtime.now();
        runtime.delay(Duration::from_millis(2));
        assert!(runtime.now() >= before + Duration::from_millis(2));
        assert!(runtime.wall_clock_ms() > 1_700_000_000_000);
        assert_ne!(runtime.random_u64(), runtime.random_u64());
    }
}
