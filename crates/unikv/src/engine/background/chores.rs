//! A made-up kind of work, and what tests run by hand.

use crate::base::keys::PartitionId;
use crate::base::sync::atomic::{AtomicUsize, Ordering};
use crate::engine::background::{Background, Ended};
use crate::engine::tests::{Machine, small};
use crate::error::{Error, ErrorKind, Result};
use crate::jobs::plan::rules::chore::CHORES as CHORES_RULE;
use crate::jobs::plan::rules::collect::COLLECTIONS;
use crate::jobs::plan::rules::freeze::FREEZE_FOR_SPACE;
use crate::jobs::plan::rules::join::JOIN_LAST;
use crate::jobs::plan::rules::merge::MERGES;
use crate::jobs::plan::rules::split::SPLIT;
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

thread_local! {
    /// Work of no use for the next database that this thread opens.
    static CHORES: Cell<Option<Arc<Chores>>> = const { Cell::new(None) };
}

/// Work of no use, to be done again and again.
#[derive(Default)]
pub(crate) struct Chores {
    due: AtomicUsize,
    /// How many of the next runs fail.
    failing: AtomicUsize,
    runs: AtomicUsize,
}

impl Chores {
    pub(crate) fn taken() -> Option<Arc<Chores>> {
        CHORES.take()
    }
}

impl Background {
    pub(crate) fn chores_due(&self) -> usize {
        let chores = self.chores.as_ref();
        chores.map_or(0, |chores| chores.due.load(Ordering::Relaxed))
    }

    pub(crate) fn do_chore(&self, partition: PartitionId) -> Result<Ended> {
        assert!(!self.scheduler.leases.is_free(partition));
        let chores = self.chores.as_ref().unwrap();
        chores.runs.fetch_add(1, Ordering::Relaxed);
        if chores.failing.load(Ordering::Relaxed) > 0 {
            chores.failing.fetch_sub(1, Ordering::Relaxed);
            return Err(Error::internal("a chore that fails"));
        }
        chores.due.fetch_sub(1, Ordering::Relaxed);
        Ok(Ended::Done)
    }
}

#[test]
fn a_kind_of_work_is_added_in_one_place_and_run_awaited_and_retried_like_all_others() {
    let machine = Machine::new(1);
    let chores = Arc::new(Chores::default());
    CHORES.set(Some(Arc::clone(&chores)));
    let (db, _runtime) = machine.open(small());
    let runs = || chores.runs.load(Ordering::Relaxed);
    chores.due.store(3, Ordering::Relaxed);
    db.wait_until_idle().unwrap();
    assert_eq!((chores.due.load(Ordering::Relaxed), runs()), (0, 3));

    // One that fails: a waiting caller learns it, and it is not run again at once.
    chores.failing.store(1, Ordering::Relaxed);
    chores.due.store(1, Ordering::Relaxed);
    assert_eq!(
        db.wait_until_idle().unwrap_err().kind(),
        ErrorKind::Internal
    );
    assert_eq!(runs(), 4);
    let errors = db.stats().job_errors;
    assert_eq!(
        (errors.len(), errors[0].job, errors[0].retries),
        (1, "chore", 0)
    );
    let background = &db.0.engine.background;
    assert!(background.scheduler.leases.are_free());
    assert!(
        !background.run_next_job(&[CHORES_RULE]).unwrap(),
        "in backoff"
    );
    assert_eq!(runs(), 4);

    // A worker retries it by itself.
    let never = db.0.engine.core.store.env().runtime.event();
    never.wait_past(never.epoch(), Some(Duration::from_secs(2)));
    assert_eq!((chores.due.load(Ordering::Relaxed), runs()), (0, 5));
    assert!(db.stats().job_errors.is_empty());
    db.close().unwrap();
}

impl Background {
    /// Merges, or collects garbage, if something is due. Whether anything was.
    pub(crate) fn merge_one(&self) -> Result<bool> {
        self.run_next_job(&[FREEZE_FOR_SPACE, MERGES, COLLECTIONS])
    }

    pub(crate) fn split_one(&self) -> Result<bool> {
        self.run_next_job(&[SPLIT])
    }

    /// Joins neighbours, if that is due. Whether any were.
    pub(crate) fn join_one(&self) -> Result<bool> {
        self.run_next_job(&[JOIN_LAST])
    }
}
