//! Snapshots beside a merge, under loom: what a snapshot sees is kept.

use super::*;
use crate::base::sync::atomic::{AtomicBool, AtomicUsize};
use crate::engine::space::estimates::Estimates;
use crate::testing::loom_model::{beside, errs, holds};
use std::sync::Arc;

/// One key. Its first version is visible; the second is written, flushed and merged with the first
/// beside a reader that registers a snapshot and then takes a view. The merge lists the snapshots
/// when its inputs are chosen; or before, which is wrong.
fn snapshot_beside_merge(lists_too_early: bool) {
    struct Database {
        visible: AtomicU64,
        snapshots: Snapshots,
        /// The current view: 0 has both versions, 1 what the merge has kept.
        view: AtomicUsize,
        kept_first: AtomicBool,
    }
    let db = Arc::new(Database {
        visible: AtomicU64::new(1),
        snapshots: Snapshots::default(),
        view: AtomicUsize::new(0),
        kept_first: AtomicBool::new(false),
    });
    let (merged, read) = (Arc::clone(&db), Arc::clone(&db));
    let merge = move || {
        let db = merged;
        let early = lists_too_early.then(|| db.snapshots.list());
        db.visible.store(2, Ordering::Release);
        // Both versions are in the inputs from here on.
        let list = early.unwrap_or_else(|| db.snapshots.list());
        let keeps_first = list.iter().any(|moment| moment.seq == SeqNo(1));
        db.kept_first.store(keeps_first, Ordering::Relaxed);
        db.view.store(1, Ordering::Release);
    };
    let reader = move || {
        let (db, now) = (read, || (Duration::ZERO, 0));
        let moment = db.snapshots.take(&db.visible, Holder::Snapshot, now);
        for _ in 0..2 {
            let merged = db.view.load(Ordering::Acquire) == 1;
            let has_first = !merged || db.kept_first.load(Ordering::Relaxed);
            assert!(
                moment.seq == SeqNo(2) || has_first,
                "the version it sees is gone"
            );
        }
        assert!(db.snapshots.release(moment, Holder::Snapshot, false));
    };
    beside(merge, reader);
    assert_eq!(db.snapshots.list(), []);
}

#[test]
fn a_merge_keeps_what_a_snapshot_sees_that_registers_beside_it() {
    holds(|| snapshot_beside_merge(false));
    errs(|| snapshot_beside_merge(true));
}

/// A job publishes a version in which the only snapshot keeps too much, and looks for more to do,
/// beside the release of that snapshot. One of both must find that it has gone: the job by its
/// look, or the releaser by what the job has noted, and then it wakes the job. Each can be made to
/// look first.
fn release_beside_a_judgement(job_looks_first: bool, releaser_looks_first: bool) {
    let snapshots = Arc::new(Snapshots::default());
    let (reclaim, visible) = (Arc::new(Estimates::default()), AtomicU64::new(1));
    let now = || (Duration::ZERO, 0);
    let moment = snapshots.take(&visible, Holder::Snapshot, now);
    let found = Arc::new(AtomicBool::new(false));
    let (seen, noted, by_job) = (
        Arc::clone(&snapshots),
        Arc::clone(&reclaim),
        Arc::clone(&found),
    );
    let job = move || {
        let early = job_looks_first.then(|| seen.oldest());
        noted.judge(true);
        if early.unwrap_or_else(|| seen.oldest()).is_none() {
            by_job.store(true, Ordering::Relaxed);
        }
    };
    let woken = Arc::clone(&found);
    let releaser = move || {
        let early = releaser_looks_first.then(|| reclaim.waits_for_snapshots());
        assert!(snapshots.release(moment, Holder::Snapshot, false));
        if early.unwrap_or_else(|| reclaim.waits_for_snapshots()) {
            woken.store(true, Ordering::Relaxed);
        }
    };
    beside(job, releaser);
    assert!(
        found.load(Ordering::Relaxed),
        "nobody reclaims what it kept"
    );
}

#[test]
fn the_release_of_the_last_snapshot_is_not_lost_on_the_background() {
    holds(|| release_beside_a_judgement(false, false));
    errs(|| release_beside_a_judgement(true, false));
    errs(|| release_beside_a_judgement(false, true));
}
