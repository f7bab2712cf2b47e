//! Running a model under loom: every execution that the memory model allows, within a bound on
//! preemptions, for a program of two or three threads and some dozen steps.
//!
//! A model that holds is shown to be able to fail, too: made wrong at a place ([`Weakness`]), loom
//! must find the execution that shows it.

use crate::base::sync::{Weakness, weakly};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Switches between threads that could have gone on, for each execution. Nearly all known bugs need
/// two at most.
const PREEMPTIONS: usize = 3;
/// A model that needs more executions is too large to be run with each change.
const MOST_EXECUTIONS: usize = 200_000;

thread_local! {
    /// Whether the second of two threads is the one that loom lets run first.
    static SECOND_FIRST: Cell<bool> = const { Cell::new(false) };
}

/// Two threads beside each other, till both are done. Which executions loom finds depends on which
/// one begins, as it leaves out those that it holds for equal to others: a model is run both ways.
pub(crate) fn beside(first: impl FnOnce() + 'static, second: impl FnOnce() + 'static) {
    let mut threads: [Box<dyn FnOnce()>; 2] = [Box::new(first), Box::new(second)];
    if SECOND_FIRST.get() {
        threads.reverse();
    }
    for thread in threads.map(loom::thread::spawn) {
        thread.join().unwrap();
    }
}

fn explore(model: impl Fn() + Send + Sync + 'static) -> usize {
    let count = Arc::new(AtomicUsize::new(0));
    let model = Arc::new(model);
    for second_first in [false, true] {
        SECOND_FIRST.set(second_first);
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(PREEMPTIONS);
        builder.max_branches = 10_000;
        let (executions, model) = (Arc::clone(&count), Arc::clone(&model));
        builder.check(move || {
            assert!(executions.fetch_add(1, Ordering::Relaxed) < MOST_EXECUTIONS);
            model();
        });
    }
    count.load(Ordering::Relaxed)
}

/// Runs all executions of `model`, which asserts what must hold.
pub(crate) fn holds(model: impl Fn() + Send + Sync + 'static) {
    let name = std::thread::current().name().unwrap_or_default().to_owned();
    println!("{name}: {} executions", explore(model));
}

/// Runs `model`, which is wrong; some execution must fail.
pub(crate) fn errs(model: impl Fn() + Send + Sync + 'static) {
    let explored = catch_unwind(AssertUnwindSafe(|| explore(model)));
    assert!(
        explored.is_err(),
        "the mistake goes unnoticed: the model proves nothing"
    );
}

/// Runs `model` made wrong at `place`; some execution must fail.
pub(crate) fn fails(place: Weakness, model: impl Fn() + Send + Sync + 'static) {
    weakly(place, || errs(model));
}
