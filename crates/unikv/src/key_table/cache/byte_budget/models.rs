//! A budget of bytes under loom: it is never overdrawn, and what is given back is all there.

use super::*;
use crate::testing::loom_model::{errs, holds};
use loom::thread;
use std::sync::Arc;

/// Three take from a budget for two.
fn three_take(take: fn(&ByteBudget, u64) -> bool) {
    let budget = Arc::new(ByteBudget::new(2));
    let takers: Vec<_> = (0..2)
        .map(|_| {
            let budget = Arc::clone(&budget);
            thread::spawn(move || u64::from(take(&budget, 1)))
        })
        .collect();
    let mut taken = u64::from(take(&budget, 1));
    for taker in takers {
        taken += taker.join().unwrap();
    }
    assert_eq!((taken, budget.used()), (2, 2));
}

#[test]
fn a_budget_is_never_overdrawn() {
    holds(|| three_take(ByteBudget::take));
    errs(|| {
        three_take(|budget, bytes| {
            let fits = budget.used() + bytes <= budget.limit();
            if fits {
                budget.used.fetch_add(bytes, Ordering::Relaxed);
            }
            fits
        });
    });
}
