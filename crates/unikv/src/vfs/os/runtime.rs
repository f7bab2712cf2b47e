//! Real threads, waits, time and randomness.
//!
//! Locks: each event has one, held while its epoch moves so that no waiter can test the epoch and
//! fall asleep between the two.

use crate::vfs::{Event, JoinHandle, Runtime, Step, Worker};
use parking_lot::{Condvar, Mutex};
use rand::TryRngCore;
use rand::rngs::OsRng;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
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
        mut worker: Box<dyn Worker>,
    ) -> io::Result<Box<dyn JoinHandle>> {
        let run = move || {
            loop {
                let epoch = wake.epoch();
                match worker.step() {
                    Step::Again => {}
                    Step::Wait(timeout) => wake.wait_past(epoch, timeout),
                    Step::Done => return,
                }
            }
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(run)?;
        Ok(Box::new(OsJoinHandle { thread }))
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

    fn delay(&self, time: Duration) {
        thread::sleep(time);
    }
}

#[derive(Debug, Default)]
struct OsEvent {
    /// Moves only under `lock`; read without it.
    epoch: AtomicU64,
    lock: Mutex<()>,
    moved: Condvar,
}

impl Event for OsEvent {
    fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    fn notify(&self) {
        let guard = self.lock.lock();
        self.epoch.fetch_add(1, Ordering::AcqRel);
        drop(guard);
        self.moved.notify_all();
    }

    fn wait_past(&self, epoch: u64, timeout: Option<Duration>) {
        // A deadline beyond what the clock can say is no deadline.
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut guard = self.lock.lock();
        while self.epoch() == epoch {
            match deadline {
                None => self.moved.wait(&mut guard),
                Some(deadline) => {
                    if self.moved.wait_until(&mut guard, deadline).timed_out() {
                        return;
                    }
                }
            }
        }
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
