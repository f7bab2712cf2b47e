//! Cuts a failing history down to the operations it needs to fail.
//!
//! Operations are left out in ever smaller runs as long as the rest still fails, in whatever way.

use crate::history::History;
use crate::story;

/// The most runs that cutting down may take.
const MAX_RUNS: usize = 600;

/// Runs `check` on `history`. If it panics, cuts the history down, prints what is left, and lets
/// the first panic go on.
pub fn checked(history: &History, check: impl Fn(&History)) {
    checked_by(history, &check, &check, MAX_RUNS);
}

/// As [`checked`], where the whole check takes too long to be run hundreds of times: `quick` is to
/// fail for the same reason, and is run at most `runs` times.
pub fn checked_by(
    history: &History,
    check: impl Fn(&History),
    quick: impl Fn(&History),
    runs: usize,
) {
    let first = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(history)));
    let Err(panic) = first else { return };
    // The caller that keeps the failure quiet expects it.
    if story::is_quiet() {
        std::panic::resume_unwind(panic);
    }
    let fails = |history: &History| story::panics(|| quick(history));
    let shortest = shortest(history, fails, runs);
    eprintln!("{}", script(history, &shortest));
    // Once more for the message that belongs to the short history.
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| quick(&shortest)));
    std::panic::resume_unwind(panic);
}

fn script(whole: &History, shortest: &History) -> String {
    let (left, all) = (shortest.ops.len(), whole.ops.len());
    let mut out = format!(
        "{left} of {all} operations still fail:\n{:?}\n",
        shortest.config
    );
    for op in &shortest.ops {
        out += &format!("  {op:?}\n");
    }
    out
}

fn shortest(history: &History, fails: impl Fn(&History) -> bool, most: usize) -> History {
    let mut best = history.clone();
    let mut runs = 0;
    let mut chunk = best.ops.len().div_ceil(2).max(1);
    loop {
        let mut start = 0;
        let before = best.ops.len();
        while start < best.ops.len() && runs < most {
            let mut shorter = best.clone();
            shorter
                .ops
                .drain(start..(start + chunk).min(best.ops.len()));
            runs += 1;
            if fails(&shorter) {
                best = shorter;
            } else {
                start += chunk;
            }
        }
        if runs >= most || (chunk == 1 && best.ops.len() == before) {
            return best;
        }
        chunk = (chunk / 2).max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Mix, Op};

    #[test]
    fn only_the_operations_that_matter_are_left() {
        let mix = Mix {
            steps: 200,
            reads: false,
            crashes: false,
            reopens: false,
            busy: false,
        };
        let history = History::draw(3, mix);
        // "Fails" when a compaction comes somewhere after a flush.
        let fails = |history: &History| {
            let flush = history.ops.iter().position(|op| matches!(op, Op::Flush));
            flush.is_some_and(|at| history.ops[at..].iter().any(|op| matches!(op, Op::Compact)))
        };
        assert!(fails(&history));
        let shortest = shortest(&history, fails, MAX_RUNS);
        assert!(
            matches!(shortest.ops[..], [Op::Flush, Op::Compact]),
            "{:?}",
            shortest.ops
        );
    }
}
