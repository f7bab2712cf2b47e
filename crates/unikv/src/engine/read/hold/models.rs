//! Holding under loom: nothing stays held that somebody has asked to release.

use super::*;
use crate::testing::loom_model::{beside, fails, holds};
use loom::thread;
use std::sync::Arc;

/// Asks to release while another thread does `meanwhile`, and sees that nothing is held when both
/// are done.
fn ask_beside(meanwhile: impl FnOnce(&Hold<Arc<()>>) + Send + 'static) {
    let (hold, thing) = (Arc::new(Hold::default()), Arc::new(()));
    hold.with(|held| held.replace(Arc::clone(&thing)));
    let (asked, used) = (Arc::clone(&hold), Arc::clone(&hold));
    beside(move || asked.release(), move || meanwhile(&used));
    assert!(!hold.is_held());
    assert_eq!(Arc::strong_count(&thing), 1);
}

fn ask_beside_a_use() {
    ask_beside(|hold| {
        hold.with(|held| {
            thread::yield_now();
            assert!(
                held.as_ref()
                    .is_none_or(|thing| Arc::strong_count(thing) == 2)
            );
        });
    });
}

#[test]
fn a_request_beside_a_use_is_heeded_after_it() {
    holds(ask_beside_a_use);
    fails(Weakness::HoldFence, ask_beside_a_use);
}

#[test]
fn a_request_is_not_lost_on_a_reader_that_only_looks() {
    holds(|| {
        ask_beside(|hold| {
            hold.is_held();
        });
    });
}

#[test]
fn of_two_requests_one_is_heeded() {
    holds(|| ask_beside(Hold::release));
}
