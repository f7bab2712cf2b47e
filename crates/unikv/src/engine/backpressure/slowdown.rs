//! Whether writers are slowed, as the listener knows it.
//!
//! Lock: `known`, a leaf but for the queue of events.

use crate::base::sync::Mutex;
use crate::engine::core::Core;
use crate::events::{Event, StallCause};
use std::time::Duration;

/// What the listener knows to slow writers, and since when.
#[derive(Debug, Default)]
pub(super) struct Slowdown {
    known: Mutex<Option<(StallCause, Duration)>>,
}

impl Slowdown {
    /// Has the listener hear that writers are slowed from now on by `cause`, or no more.
    #[cold]
    pub(super) fn report(&self, core: &Core, cause: Option<StallCause>, begins: bool) {
        if !core.events.are_heard() {
            return;
        }
        let mut known = self.known.lock();
        match (begins, *known) {
            (true, None) => {
                let cause = cause.unwrap_or(StallCause::Memtables);
                *known = Some((cause, core.now()));
                core.events.emit(|| Event::SlowdownBegan { cause });
            }
            (false, Some((cause, begin))) => {
                *known = None;
                let lasted = core.now().saturating_sub(begin);
                core.events.emit(|| Event::SlowdownEnded {
                    cause,
                    elapsed: lasted,
                });
            }
            _ => {}
        }
    }
}
