//! The queue under loom: of writers that come at any time one leads, and each of the others leads
//! later or is taken along, once.

use super::*;
use crate::base::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::testing::loom_model::{fails, holds};
use crate::vfs::os::OsRuntime;
use loom::thread;

#[derive(Default)]
struct Writers {
    queue: WriteQueue,
    is_led: AtomicBool,
    committed: AtomicUsize,
}

impl Writers {
    /// One enters, with a batch that may be taken along or that it commits itself.
    fn write(&self, commits_itself: bool) {
        let (mode, runtime) = (WriteMode::default(), OsRuntime::default());
        let room = || (!commits_itself).then_some(u64::MAX);
        let turn = self.queue.enter(&runtime, mode, room, || Request {
            commits_itself,
            ..Request::to_lead(mode, &runtime)
        });
        let Turn::Leads(lead) = turn else {
            return;
        };
        assert!(!self.is_led.swap(true, Ordering::Relaxed), "two lead");
        let group = lead.take(u64::MAX);
        self.committed.fetch_add(1 + group.len(), Ordering::Relaxed);
        self.is_led.store(false, Ordering::Relaxed);
        drop(lead);
        group.iter().for_each(|request| request.answer(Ok(())));
    }
}

/// A writer that is forgotten is a deadlock.
fn three_writers(commits_itself: bool) {
    let writers = Arc::new(Writers::default());
    let others: Vec<_> = [false, commits_itself]
        .map(|commits_itself| {
            let writers = Arc::clone(&writers);
            thread::spawn(move || writers.write(commits_itself))
        })
        .into();
    writers.write(false);
    others.into_iter().for_each(|other| other.join().unwrap());
    assert_eq!(writers.committed.load(Ordering::Relaxed), 3);
    assert_eq!(writers.queue.waiting(), 0);
}

#[test]
fn each_writer_leads_or_is_taken_along_once() {
    for commits_itself in [false, true] {
        holds(move || three_writers(commits_itself));
        fails(Weakness::LeadTellsNobody, move || {
            three_writers(commits_itself);
        });
    }
}
