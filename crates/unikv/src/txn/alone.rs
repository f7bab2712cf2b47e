//! Keeping others from committing, for a transaction that has conflicted again and again.
//!
//! Others wait before they commit, but not for ever: one that holds this may itself wait for
//! another transaction, on the same thread even. Then it may conflict once more.
//!
//! Lock: the mutex of [`Turns`], a leaf.

use crate::engine::handle::Handle;
use crate::engine::recent::Turns;
use std::sync::Arc;
use std::time::Duration;

/// How long others wait for one that wants to be alone.
const LONGEST_WAIT: Duration = Duration::from_millis(100);
/// How often one that wants to be alone waits for others that are.
const MOST_WAITS: u32 = 100;

/// While this lives, other transactions wait before they commit.
pub(crate) struct Alone(Arc<Handle>);

impl Alone {
    /// Waits until nobody else is alone; not for ever, for that may be on this thread.
    pub(crate) fn begin(handle: &Arc<Handle>) -> Option<Alone> {
        let turns = Alone::turns(handle);
        for _ in 0..MOST_WAITS {
            if turns.try_begin() {
                return Some(Alone(Arc::clone(handle)));
            }
            turns.wait(LONGEST_WAIT);
        }
        None
    }

    /// Waits for the one that is alone, if there is one.
    pub(crate) fn wait(handle: &Handle) {
        let turns = Alone::turns(handle);
        if turns.is_taken() {
            turns.wait(LONGEST_WAIT);
        }
    }

    fn turns(handle: &Handle) -> &Turns {
        &handle.engine.write.recent.turns
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        Alone::turns(&self.0).end();
    }
}
