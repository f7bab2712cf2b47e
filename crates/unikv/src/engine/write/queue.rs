//! The queue of writers: which one leads, and which wait for a leader's result.
//!
//! At most one writer leads. It commits its own batch and takes along those that wait; they get
//! their result from it and return without the commit lock. A leader that has ended makes the
//! oldest writer that still waits the next one, so no newcomer overtakes.
//!
//! Lock: `state`, a leaf, held for a look or a change. Each writer that waits has an event of its
//! own, notified under no lock.

use crate::base::sync::Mutex;
use crate::error::Result;
use crate::memtable::Batch;
use crate::vfs::{Event, Runtime, wait_for};
use std::collections::VecDeque;
use std::sync::Arc;

/// How often a writer looks for its result before it lets its thread sleep, at first without and
/// then with a chance for the threads that wait for its processor: a group without a sync takes a
/// few microseconds, and waking a thread takes longer.
const SPINS: u32 = if cfg!(unikv_model) { 0 } else { 50 };
const YIELDS: u32 = if cfg!(unikv_model) { 0 } else { 100 };

#[derive(Default)]
pub(crate) struct WriteQueue {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Oldest first.
    waiting: VecDeque<Arc<Request>>,
    is_led: bool,
}

/// A writer that waits.
pub(crate) struct Request {
    pub(crate) batch: Batch,
    pub(crate) sync: bool,
    /// Its batch is too large to be copied here: it waits until it leads.
    commits_itself: bool,
    outcome: Mutex<Option<Outcome>>,
    woken: Arc<dyn Event>,
}

enum Outcome {
    Leads,
    Result(Result<()>),
}

impl Request {
    /// A leader may take `batch` along.
    pub(crate) fn new(batch: Batch, sync: bool, runtime: &dyn Runtime) -> Request {
        Request {
            batch,
            sync,
            commits_itself: false,
            outcome: Mutex::new(None),
            woken: runtime.event(),
        }
    }

    /// It waits until it leads.
    pub(crate) fn to_lead(runtime: &dyn Runtime) -> Request {
        Request {
            commits_itself: true,
            ..Request::new(Batch::new(), false, runtime)
        }
    }

    /// Gives the request its result.
    pub(crate) fn answer(&self, result: Result<()>) {
        self.end(Outcome::Result(result));
    }

    fn end(&self, outcome: Outcome) {
        *self.outcome.lock() = Some(outcome);
        self.woken.notify();
    }

    fn wait(&self, runtime: &dyn Runtime) -> Outcome {
        let look = || self.outcome.lock().take();
        let seen = (0..SPINS + YIELDS).find_map(|i| {
            match i < SPINS {
                true => std::hint::spin_loop(),
                false => runtime.yield_now(),
            }
            (self.woken.epoch() > 0).then(look)?
        });
        seen.unwrap_or_else(|| wait_for(&*self.woken, look))
    }
}

/// What a writer is to do.
pub(crate) enum Turn<'a> {
    /// Commit its batch, and those that it takes along.
    Leads(Lead<'a>),
    /// Nothing: a leader has taken its batch along.
    Ended(Result<()>),
}

impl WriteQueue {
    /// Returns when this writer leads, or another has committed the batch of the request that
    /// `make` returns.
    pub(crate) fn enter(&self, runtime: &dyn Runtime, make: impl FnOnce() -> Request) -> Turn<'_> {
        if let Some(lead) = self.try_lead(&mut self.state.lock()) {
            return Turn::Leads(lead);
        }
        // A batch is copied under no lock.
        let request = Arc::new(make());
        {
            let mut state = self.state.lock();
            if let Some(lead) = self.try_lead(&mut state) {
                return Turn::Leads(lead);
            }
            state.waiting.push_back(Arc::clone(&request));
        }
        match request.wait(runtime) {
            Outcome::Leads => Turn::Leads(Lead(self)),
            Outcome::Result(result) => Turn::Ended(result),
        }
    }

    fn try_lead(&self, state: &mut State) -> Option<Lead<'_>> {
        let is_led = std::mem::replace(&mut state.is_led, true);
        (!is_led).then(|| Lead(self))
    }

    /// How many writers wait.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.state.lock().waiting.len()
    }
}

/// The right to commit. The next writer has it when this is dropped.
pub(crate) struct Lead<'a>(&'a WriteQueue);

impl Lead<'_> {
    /// Takes waiting requests, oldest first, until their batches reach `most_bytes`; one of them in
    /// any case, but none that commits its batch itself.
    pub(crate) fn take(&self, most_bytes: u64) -> Vec<Arc<Request>> {
        let mut state = self.0.state.lock();
        let mut bytes = 0;
        let fits = |request: &&Arc<Request>| {
            let is_first = bytes == 0;
            bytes += request.batch.byte_len() as u64;
            !request.commits_itself && (is_first || bytes <= most_bytes)
        };
        let count = state.waiting.iter().take_while(fits).count();
        state.waiting.drain(..count).collect()
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        let next = {
            let mut state = self.0.state.lock();
            let next = state.waiting.pop_front();
            state.is_led = next.is_some();
            next
        };
        if let Some(next) = next {
            next.end(Outcome::Leads);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, limit};
    use crate::vfs::os::OsRuntime;

    /// Enters with a batch that may be taken along.
    fn enter<'a>(queue: &'a WriteQueue, value: &str) -> Turn<'a> {
        let runtime = OsRuntime::default();
        queue.enter(&runtime, || {
            let mut batch = Batch::new();
            batch.put("key", value);
            Request::new(batch, false, &runtime)
        })
    }

    #[test]
    fn who_came_first_leads_next_and_whoever_was_taken_along_has_its_result() {
        let queue = WriteQueue::default();
        let Turn::Leads(first) = enter(&queue, "1") else {
            panic!("nobody led");
        };
        let _limit = limit("writers of the queue");
        std::thread::scope(|scope| {
            let taken = scope.spawn(|| matches!(enter(&queue, "2"), Turn::Ended(Ok(()))));
            testing::wait_for("the second writer", || queue.waiting() == 1);
            let leads = scope.spawn(|| match enter(&queue, "3") {
                Turn::Leads(lead) => lead.take(u64::MAX).len(),
                Turn::Ended(_) => usize::MAX,
            });
            testing::wait_for("the third writer", || queue.waiting() == 2);
            let group = first.take(1);
            assert_eq!(group.len(), 1, "one in any case, and no more than fit");
            // The leader goes before it answers: the next one leads at once.
            drop(first);
            assert_eq!(leads.join().unwrap(), 0, "nobody came behind it");
            group.iter().for_each(|request| request.answer(Ok(())));
            assert!(taken.join().unwrap());
        });
        assert!(matches!(enter(&queue, "4"), Turn::Leads(_)));
    }

    #[test]
    fn a_writer_with_a_large_batch_is_not_taken_along() {
        let queue = WriteQueue::default();
        let runtime = OsRuntime::default();
        let Turn::Leads(first) = enter(&queue, "1") else {
            panic!("nobody led");
        };
        let _limit = limit("a writer of the queue");
        std::thread::scope(|scope| {
            let large = scope.spawn(|| {
                let turn = queue.enter(&runtime, || Request::to_lead(&runtime));
                matches!(turn, Turn::Leads(_))
            });
            testing::wait_for("the large writer", || queue.waiting() == 1);
            assert!(first.take(u64::MAX).is_empty());
            drop(first);
            assert!(large.join().unwrap());
        });
    }
}
