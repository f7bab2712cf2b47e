//! Being alone: see [`crate::engine::recent::Turns`].

use crate::base::seeded::seeded;
use crate::engine::write::WritePath;
use crate::engine::write::queue::{Request, Turn, WriteMode};
use std::sync::Arc;

/// How often one that wants to be alone waits for others that are.
const MOST_WAITS: u32 = 100;

/// While this lives, other writers wait before they commit.
pub(crate) struct Alone(Arc<WritePath>);

impl Alone {
    /// Waits until nobody else is alone, and until the writers that came before have committed.
    /// `None`: others are alone all the time, or it is the same thread that is.
    pub(crate) fn begin(path: &Arc<WritePath>) -> Option<Alone> {
        let is_child = !path.core.process.is_this();
        if is_child {
            return None;
        }
        let turns = &path.recent.turns;
        let mut waits = 0;
        while !turns.try_begin() {
            waits += 1;
            if waits == MOST_WAITS {
                return None;
            }
            turns.wait(|| path.core.now());
        }
        let alone = Alone(Arc::clone(path));
        let runtime = &*path.core.store.env().runtime;
        let mode = WriteMode::default();
        let turn = path
            .queue
            .enter(runtime, mode, || None, || Request::to_lead(mode, runtime));
        if let Turn::Leads(lead) = turn {
            drop(lead);
        }
        Some(alone)
    }
}

impl WritePath {
    /// Waits while another one is alone, for as long as a writer waits. No lock is held.
    #[inline]
    pub(crate) fn await_turn(&self, is_alone: bool) {
        if self.recent.turns.is_taken() && !is_alone && !seeded!(TurnIgnored) {
            self.recent.turns.wait(|| self.core.now());
        }
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        if self.0.core.process.is_this() {
            self.0.recent.turns.end();
        }
    }
}
