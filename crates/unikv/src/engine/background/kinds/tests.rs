//! A made-up kind of work, and what tests run by hand.

use super::collect::Collections;
use super::merge::Merges;
use crate::base::keys::PartitionId;
use crate::base::sync::atomic::Ordering;
use crate::engine::background::facts::ByRule;
use crate::engine::background::scheduler::Ask;
use crate::engine::background::{Background, Ended, JobKind};
use crate::engine::health::JobName;
use crate::engine::tests::{Machine, small};
use crate::error::{Error, ErrorKind, Result};
use crate::jobs::plan::rules::{FREEZE_FOR_SPACE, JOIN_LAST, SPLIT};
use crate::jobs::plan::{Chores, Job, Why};
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

thread_local! {
    /// What the next database that this thread opens does as well, after all else.
    static MADE_UP: Cell<Option<&'static dyn JobKind>> = const { Cell::new(None) };
}

pub(crate) fn with_made_up(mut kinds: Vec<&'static dyn JobKind>) -> Vec<&'static dyn JobKind> {
    kinds.extend(MADE_UP.take());
    kinds
}

struct MadeUp(Arc<Chores>);

impl JobKind for MadeUp {
    fn name(&self) -> JobName {
        "chore"
    }

    fn find(&self, _: &Background, ask: &Ask<'_>) -> Option<(Job, Why)> {
        let partition = ask.catalog.version.partitions().first()?.id;
        let may = ask.is_free(partition) && ask.allows(self.name(), Some(partition));
        let is_due = may && self.0.due.load(Ordering::Relaxed) > 0;
        let chores = Arc::clone(&self.0);
        is_due.then_some((Job::Chore(partition, chores), Why::MadeUp))
    }
}

pub(crate) fn do_chore(
    background: &Background,
    partition: PartitionId,
    chores: &Chores,
) -> Result<Ended> {
    assert!(!background.scheduler.leases.is_free(partition));
    chores.runs.fetch_add(1, Ordering::Relaxed);
    if chores.failing.load(Ordering::Relaxed) > 0 {
        chores.failing.fetch_sub(1, Ordering::Relaxed);
        return Err(Error::internal("a chore that fails"));
    }
    chores.due.fetch_sub(1, Ordering::Relaxed);
    Ok(Ended::Done)
}

#[test]
fn a_kind_of_work_is_added_in_one_place_and_run_awaited_and_retried_like_all_others() {
    let machine = Machine::new(1);
    let chores = Arc::new(Chores::default());
    let kind: &'static MadeUp = Box::leak(Box::new(MadeUp(Arc::clone(&chores))));
    MADE_UP.set(Some(kind));
    let (db, _runtime) = machine.open(small());
    let runs = || chores.runs.load(Ordering::Relaxed);
    chores.due.store(3, Ordering::Relaxed);
    db.quiesce().unwrap();
    assert_eq!((chores.due.load(Ordering::Relaxed), runs()), (0, 3));

    // One that fails: a waiting caller learns it, and it is not run again at once.
    chores.failing.store(1, Ordering::Relaxed);
    chores.due.store(1, Ordering::Relaxed);
    assert_eq!(db.quiesce().unwrap_err().kind(), ErrorKind::Internal);
    assert_eq!(runs(), 4);
    let errors = db.stats().job_errors;
    assert_eq!(
        (errors.len(), errors[0].job, errors[0].retries),
        (1, "chore", 0)
    );
    let background = &db.0.engine.background;
    assert!(background.scheduler.leases.are_free());
    assert!(!background.run_next_job(&[kind]).unwrap(), "in backoff");
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
        self.run_next_job(&[&ByRule(FREEZE_FOR_SPACE), &Merges, &Collections])
    }

    pub(crate) fn split_one(&self) -> Result<bool> {
        self.run_next_job(&[&ByRule(SPLIT)])
    }

    /// Joins neighbours, if that is due. Whether any were.
    pub(crate) fn join_one(&self) -> Result<bool> {
        self.run_next_job(&[&ByRule(JOIN_LAST)])
    }
}
