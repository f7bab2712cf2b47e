//! Draws how much of the log is kept for those that follow the changes.
//!
//! Beside all else: a history with a change window is the one that it would be otherwise.

use crate::config::Config;
use crate::history::{History, Op};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

/// Histories in which changes are followed.
const CHANGES_EVERY: u64 = 3;

/// Whether changes are followed in the history of this seed.
fn are_in(seed: u64) -> bool {
    // Of those with keyspaces, transactions and expiry, and of the others as many.
    seed / 7 % CHANGES_EVERY == 1
}

/// Gives the options windows of all sizes, and now and then none.
pub(super) fn draw_windows(history: &mut History) {
    if !are_in(history.seed) {
        return;
    }
    let mut rng = SmallRng::seed_from_u64(history.seed ^ 0x3_1d0e);
    let mut draw = |config: &mut Config, may_be_off: bool| {
        let sizes = [8 << 10, 32 << 10, 256 << 10, 64 << 20];
        config.change_window_bytes = if may_be_off && rng.random_range(0..6) == 0 {
            0
        } else {
            *sizes.choose(&mut rng).expect("a choice")
        };
    };
    draw(&mut history.config, false);
    for op in &mut history.ops {
        if let Op::Reopen(_, Some(config)) = op {
            draw(config, true);
        }
    }
}
