//! The queue of writers: which one leads, and which wait for a leader's result.
//!
//! At most one writer leads. It commits its own batch and takes along those that wait; they get
//! their result from it and return without the commit lock. A leader that has ended wakes the
//! oldest writer that still waits. Until that one leads, a newcomer may if it takes all of them
//! along in its group: a thread that runs does not wait for one that sleeps, nor overtakes it.
//!
//! Lock: `state`, a leaf, held for a look or a change. Each writer that waits has an event of its
//! own, notified under no lock.

#[cfg(all(test, unikv_model = "loom"))]
mod models;

use crate::base::sync::{Mutex, MutexGuard, Weakness, is_weak};
use crate::engine::recent::reads::ReadSet;
use crate::error::{Error, Result};
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
    /// Waits for the background of whoever has the commit lock: while there is one, writers that
    /// may not wait are refused.
    delays: usize,
}

/// What a writer asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WriteMode {
    /// The batch survives a power cut.
    pub(crate) sync: bool,
    /// It is refused where back-pressure would delay it.
    pub(crate) no_wait: bool,
}

/// A batch that is to be committed.
#[derive(Clone, Copy)]
pub(crate) struct Write<'a> {
    pub(crate) batch: &'a Batch,
    pub(crate) mode: WriteMode,
    /// Of a transaction: it is refused if what it has read was written since.
    pub(crate) reads: Option<&'a Arc<ReadSet>>,
}

impl Write<'_> {
    /// Whether it depends on nothing: no transaction, no keyspace that may be gone or be one of
    /// another database.
    #[inline]
    pub(crate) fn is_plain(self) -> bool {
        let names_none = self.batch.keyspaces().is_empty() && self.batch.owner().is_none();
        self.reads.is_none() && names_none
    }
}

/// A writer that waits.
pub(crate) struct Request {
    batch: Batch,
    mode: WriteMode,
    reads: Option<Arc<ReadSet>>,
    /// Its batch is too large to be copied here: it waits until it leads.
    commits_itself: bool,
    result: Mutex<Option<Result<()>>>,
    woken: Arc<dyn Event>,
}

impl State {
    /// Whether a newcomer may lead that has `room` for what came before it; `None`: it has none.
    /// What a transaction has read is not to be overwritten before it.
    #[inline]
    fn may_lead(&self, room: impl FnOnce() -> Option<u64>) -> bool {
        !self.is_led && (self.waiting.is_empty() || self.takes_all(room()))
    }

    #[cold]
    fn takes_all(&self, room: Option<u64>) -> bool {
        let bytes = self.waiting.iter().map(|r| r.batch.byte_len() as u64);
        let is_apart = |r: &Arc<Request>| r.commits_itself || r.reads.is_some();
        let fit = |room| bytes.sum::<u64>() <= room && !self.waiting.iter().any(is_apart);
        room.is_some_and(fit)
    }

    /// Wakes the oldest writer that waits, if nobody leads.
    fn wake_next(state: MutexGuard<'_, State>) {
        let next = state.waiting.front().filter(|_| !state.is_led).cloned();
        drop(state);
        if let Some(next) = next {
            next.woken.notify();
        }
    }
}

impl Request {
    /// A leader may take `batch` along.
    pub(crate) fn new(write: Write<'_>, runtime: &dyn Runtime) -> Request {
        Request {
            batch: write.batch.clone(),
            mode: write.mode,
            reads: write.reads.cloned(),
            commits_itself: false,
            result: Mutex::new(None),
            woken: runtime.event(),
        }
    }

    /// It waits until it leads.
    pub(crate) fn to_lead(mode: WriteMode, runtime: &dyn Runtime) -> Request {
        let nothing = Write {
            batch: &Batch::new(),
            mode,
            reads: None,
        };
        Request {
            commits_itself: true,
            ..Request::new(nothing, runtime)
        }
    }

    #[inline]
    pub(crate) fn write(&self) -> Write<'_> {
        Write {
            batch: &self.batch,
            mode: self.mode,
            reads: self.reads.as_ref(),
        }
    }

    /// Gives the request its result.
    pub(crate) fn answer(&self, result: Result<()>) {
        *self.result.lock() = Some(result);
        self.woken.notify();
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
    /// Returns when this writer leads, or another has dealt with the batch of the request that
    /// `make` returns. `room`: of how many bytes this one would take along what came before it.
    pub(crate) fn enter(
        &self,
        runtime: &dyn Runtime,
        mode: WriteMode,
        room: impl Fn() -> Option<u64>,
        make: impl FnOnce() -> Request,
    ) -> Turn<'_> {
        let come = |request: Option<&Arc<Request>>| {
            let mut state = self.state.lock();
            if mode.no_wait && state.delays > 0 {
                return Some(Turn::Ended(Err(Error::would_block())));
            }
            if state.may_lead(&room) {
                state.is_led = true;
                return Some(Turn::Leads(Lead(self)));
            }
            state.waiting.extend(request.cloned());
            None
        };
        come(None).unwrap_or_else(|| {
            // A batch is copied under no lock.
            let request = Arc::new(make());
            come(Some(&request)).unwrap_or_else(|| self.wait(&request, runtime))
        })
    }

    fn wait(&self, request: &Arc<Request>, runtime: &dyn Runtime) -> Turn<'_> {
        let look = || {
            if let Some(result) = request.result.lock().take() {
                return Some(Turn::Ended(result));
            }
            let mut state = self.state.lock();
            let is_first = state
                .waiting
                .front()
                .is_some_and(|r| Arc::ptr_eq(r, request));
            (is_first && !state.is_led).then(|| {
                state.waiting.pop_front();
                state.is_led = true;
                Turn::Leads(Lead(self))
            })
        };
        let mut seen = 0;
        let turn = (0..SPINS + YIELDS).find_map(|i| {
            if i < SPINS {
                std::hint::spin_loop()
            } else {
                runtime.yield_now()
            }
            let epoch = request.woken.epoch();
            (std::mem::replace(&mut seen, epoch) != epoch).then(look)?
        });
        turn.unwrap_or_else(|| wait_for(&*request.woken, look))
    }

    /// Whoever has the commit lock is about to wait for the background. Until what is returned is
    /// dropped, writers that may not wait are refused, those that wait here already, too.
    pub(crate) fn delay(&self) -> Delayed<'_> {
        let mut state = self.state.lock();
        state.delays += 1;
        let all = std::mem::take(&mut state.waiting).into_iter();
        let (refused, waiting): (Vec<_>, Vec<_>) = all.partition(|r| r.mode.no_wait);
        state.waiting = waiting.into();
        // The one that was woken may be among the refused.
        State::wake_next(state);
        for request in refused {
            request.answer(Err(Error::would_block()));
        }
        Delayed(self)
    }

    /// How many writers wait.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.state.lock().waiting.len()
    }
}

/// See [`WriteQueue::delay`].
pub(crate) struct Delayed<'a>(&'a WriteQueue);

impl Drop for Delayed<'_> {
    fn drop(&mut self) {
        self.0.state.lock().delays -= 1;
    }
}

/// The right to commit. Once this is dropped, the next writer may have it.
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
        let mut state = self.0.state.lock();
        state.is_led = false;
        if !is_weak(Weakness::LeadTellsNobody) {
            State::wake_next(state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::keys::SeqNo;
    use crate::error::ErrorKind;
    use crate::testing::{self, limit};
    use crate::vfs::os::OsRuntime;

    /// Enters with a batch that may be taken along.
    fn enter<'a>(queue: &'a WriteQueue, value: &str) -> Turn<'a> {
        let runtime = OsRuntime::default();
        queue.enter(
            &runtime,
            WriteMode::default(),
            || Some(1 << 10),
            || {
                let mut batch = Batch::new();
                batch.put("key", value);
                let write = Write {
                    batch: &batch,
                    mode: WriteMode::default(),
                    reads: None,
                };
                Request::new(write, &runtime)
            },
        )
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
            // The leader goes before it answers: the next one need not wait for that.
            drop(first);
            assert_eq!(leads.join().unwrap(), 0, "nobody came behind it");
            group.iter().for_each(|request| request.answer(Ok(())));
            assert!(taken.join().unwrap());
        });
        assert!(matches!(enter(&queue, "4"), Turn::Leads(_)));
    }

    /// A writer that has come and whose thread does not run.
    fn asleep(queue: &WriteQueue, mode: WriteMode, batch: &Batch) -> Arc<Request> {
        let reads = None;
        let write = Write { batch, mode, reads };
        let request = Arc::new(Request::new(write, &OsRuntime::default()));
        queue.state.lock().waiting.push_back(Arc::clone(&request));
        request
    }

    #[test]
    fn a_newcomer_takes_along_sleepers_or_waits_after_them() {
        let (queue, runtime) = (WriteQueue::default(), OsRuntime::default());
        let mut batch = Batch::new();
        batch.put("key", "1");
        let sleeps = asleep(&queue, WriteMode::default(), &batch);
        let Turn::Leads(newcomer) = enter(&queue, "2") else {
            panic!("nobody led");
        };
        let group = newcomer.take(u64::MAX);
        assert!(group.len() == 1 && Arc::ptr_eq(&group[0], &sleeps));
        drop(newcomer);
        group[0].answer(Ok(()));
        assert!(matches!(queue.wait(&sleeps, &runtime), Turn::Ended(Ok(()))));

        let sleeps = asleep(&queue, WriteMode::default(), &batch);
        let _limit = limit("a writer of the queue");
        let mode = WriteMode::default();
        // It takes along nobody who came before it.
        let enters = || queue.enter(&runtime, mode, || None, || Request::to_lead(mode, &runtime));
        std::thread::scope(|scope| {
            let behind = scope.spawn(enters);
            testing::wait_for("a newcomer", || {
                queue.waiting() == 2 || behind.is_finished()
            });
            assert_eq!(queue.waiting(), 2, "who sleeps was overtaken");
            assert!(matches!(queue.wait(&sleeps, &runtime), Turn::Leads(_)));
            assert!(matches!(behind.join().unwrap(), Turn::Leads(_)));
        });
    }

    #[test]
    fn nobody_leads_before_large_batches_and_transactions_that_wait_nor_without_room() {
        let (mode, runtime) = (WriteMode::default(), OsRuntime::default());
        let mut batch = Batch::new();
        batch.put("key", "1");
        let may_lead = |waits: Request, room| {
            let waiting = [Arc::new(waits)].into();
            State {
                waiting,
                ..State::default()
            }
            .may_lead(|| room)
        };
        let write = |reads| Write {
            batch: &batch,
            mode,
            reads,
        };
        let bytes = batch.byte_len() as u64;
        let plain = || Request::new(write(None), &runtime);
        assert!(may_lead(plain(), Some(bytes)));
        assert!(!may_lead(plain(), Some(bytes - 1)) && !may_lead(plain(), None));
        let transaction = Arc::new(ReadSet::uncharged(SeqNo(1)));
        let transaction = Request::new(write(Some(&transaction)), &runtime);
        assert!(!may_lead(transaction, Some(bytes)));
        assert!(!may_lead(Request::to_lead(mode, &runtime), Some(bytes)));
    }

    #[test]
    fn who_is_refused_does_not_keep_the_next_one_asleep() {
        let queue = WriteQueue::default();
        let no_wait = WriteMode {
            no_wait: true,
            ..WriteMode::default()
        };
        let Turn::Leads(leads) = enter(&queue, "1") else {
            panic!("nobody led");
        };
        let hasty = asleep(&queue, no_wait, &Batch::new());
        let patient = asleep(&queue, WriteMode::default(), &Batch::new());
        drop(leads);
        assert_eq!((hasty.woken.epoch(), patient.woken.epoch()), (1, 0));
        let _delayed = queue.delay();
        assert!(hasty.result.lock().as_ref().is_some_and(Result::is_err));
        assert_eq!(patient.woken.epoch(), 1);
        let turn = queue.wait(&patient, &OsRuntime::default());
        assert!(matches!(turn, Turn::Leads(_)));
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
                let mode = WriteMode::default();
                let turn =
                    queue.enter(&runtime, mode, || None, || Request::to_lead(mode, &runtime));
                matches!(turn, Turn::Leads(_))
            });
            testing::wait_for("the large writer", || queue.waiting() == 1);
            assert!(first.take(u64::MAX).is_empty());
            drop(first);
            assert!(large.join().unwrap());
        });
    }

    #[test]
    fn writers_that_may_not_wait_are_refused_while_the_leader_waits() {
        let queue = WriteQueue::default();
        let runtime = OsRuntime::default();
        let no_wait = WriteMode {
            no_wait: true,
            ..WriteMode::default()
        };
        let enter_hasty = || {
            queue.enter(
                &runtime,
                no_wait,
                || None,
                || Request::to_lead(no_wait, &runtime),
            )
        };
        let is_refused = |turn| match turn {
            Turn::Ended(Err(error)) => error.kind() == ErrorKind::WouldBlock,
            _ => false,
        };
        let Turn::Leads(first) = enter(&queue, "1") else {
            panic!("nobody led");
        };
        let _limit = limit("writers of the queue");
        std::thread::scope(|scope| {
            let hasty = scope.spawn(|| is_refused(enter_hasty()));
            testing::wait_for("a writer that may not wait", || queue.waiting() == 1);
            let patient = scope.spawn(|| matches!(enter(&queue, "2"), Turn::Ended(Ok(()))));
            testing::wait_for("one that may", || queue.waiting() == 2);
            let delayed = queue.delay();
            assert!(hasty.join().unwrap(), "it waited for the background");
            assert!(is_refused(enter_hasty()), "one that came later");
            assert_eq!(queue.waiting(), 1);
            drop(delayed);
            let late = scope.spawn(|| matches!(enter_hasty(), Turn::Leads(_)));
            testing::wait_for("one that came after the delay", || queue.waiting() == 2);
            let group = first.take(u64::MAX);
            assert_eq!(group.len(), 1);
            drop(first);
            group.iter().for_each(|request| request.answer(Ok(())));
            assert!(patient.join().unwrap() && late.join().unwrap());
        });
    }
}
