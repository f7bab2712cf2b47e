//! The events that are to be delivered, and the worker that does it.
//!
//! Locks: `state`, a leaf; it is not held while a listener is called.

use super::{Event, Listener};
use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::vfs::{self, JoinHandle, Runtime, Step, Worker};
use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;

/// Events that wait for the listener, at most.
const MOST_WAITING: usize = 1000;

thread_local! {
    /// The queue whose listener this thread is calling.
    static DELIVERS: Cell<*const Shared> = const { Cell::new(ptr::null()) };
}

/// Where the engine puts events. Nothing is kept where nobody listens.
#[derive(Default)]
pub(crate) struct Events(Option<Arc<Shared>>);

struct Shared {
    state: Mutex<State>,
    wake: Arc<dyn vfs::Event>,
    panics: AtomicU64,
}

struct State {
    /// `None` once the database is closed: a listener may hold the database.
    listener: Option<Listener>,
    waiting: VecDeque<Event>,
    /// How many were dropped after those that wait.
    lost: u64,
    ending: bool,
}

impl Events {
    /// Keeps events for `listener`, if there is one.
    pub(crate) fn of(listener: Option<&Listener>, runtime: &dyn Runtime) -> Events {
        Events(listener.map(|listener| {
            Arc::new(Shared {
                state: Mutex::new(State {
                    listener: Some(listener.clone()),
                    waiting: VecDeque::new(),
                    lost: 0,
                    ending: false,
                }),
                wake: runtime.event(),
                panics: AtomicU64::new(0),
            })
        }))
    }

    /// Whether anybody listens.
    pub(crate) fn are_heard(&self) -> bool {
        self.0.is_some()
    }

    /// Has the event that `event` returns delivered, if anybody listens. Any locks may be held.
    pub(crate) fn emit(&self, event: impl FnOnce() -> Event) {
        if let Some(shared) = &self.0 {
            shared.push(event());
        }
    }

    /// How often a listener has panicked.
    pub(crate) fn panics(&self) -> u64 {
        let shared = self.0.as_ref();
        shared.map_or(0, |shared| shared.panics.load(Ordering::Relaxed))
    }

    /// Has the worker end when it has delivered what is there.
    pub(crate) fn end(&self) {
        if let Some(shared) = &self.0 {
            shared.state.lock().ending = true;
            shared.wake.notify();
        }
    }

    /// Whether it is a listener that calls, on the thread of the worker.
    pub(crate) fn is_listener(&self) -> bool {
        let shared = self.0.as_ref();
        shared.is_some_and(|shared| ptr::eq(DELIVERS.get(), Arc::as_ptr(shared)))
    }
}

/// Starts the worker that delivers events, if anybody listens.
pub(crate) fn deliver(
    events: &Events,
    runtime: &dyn Runtime,
) -> io::Result<Option<Box<dyn JoinHandle>>> {
    let Some(shared) = &events.0 else {
        return Ok(None);
    };
    let worker = Box::new(Delivery(Arc::clone(shared)));
    let wake = Arc::clone(&shared.wake);
    runtime.spawn("unikv-events", wake, worker).map(Some)
}

impl Shared {
    fn push(&self, event: Event) {
        let mut state = self.state.lock();
        if state.listener.is_none() {
            return;
        }
        if state.waiting.len() >= MOST_WAITING {
            state.lost += 1;
            return;
        }
        if state.lost > 0 {
            let count = std::mem::take(&mut state.lost);
            state.waiting.push_back(Event::Lost { count });
        }
        state.waiting.push_back(event);
        drop(state);
        self.wake.notify();
    }

    fn call(&self, listener: &Listener, event: &Event) {
        let before = DELIVERS.replace(self);
        let called = catch_unwind(AssertUnwindSafe(|| listener.0.on_event(event)));
        DELIVERS.set(before);
        if called.is_err() {
            self.panics.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The worker: each step delivers one event.
struct Delivery(Arc<Shared>);

impl Worker for Delivery {
    fn step(&mut self) -> Step {
        let shared = &self.0;
        let (event, listener) = {
            let mut state = shared.state.lock();
            let event = state.waiting.pop_front().or_else(|| {
                let count = std::mem::take(&mut state.lost);
                (count > 0).then_some(Event::Lost { count })
            });
            if event.is_none() && state.ending {
                let listener = state.listener.take();
                drop(state);
                // With it a handle of the database may go.
                drop(listener);
                return Step::Done;
            }
            (event, state.listener.clone())
        };
        let Some((event, listener)) = event.zip(listener) else {
            return Step::Wait(None);
        };
        shared.call(&listener, &event);
        Step::Again
    }
}
