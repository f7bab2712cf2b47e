//! The one place that notices that nobody writes.
//!
//! Writers are idle for as long as the last sequence number has not changed, as far as somebody has
//! looked. A caller that waits for the background counts as proof that they are.
//!
//! Lock: `last`, a leaf.

use super::requests::Requests;
use crate::base::sync::Mutex;
use std::time::Duration;

#[derive(Debug, Default)]
pub(crate) struct Idle {
    /// The last sequence number when it was last found changed, and when that was.
    last: Mutex<Option<(u64, Duration)>>,
    /// Callers that wait for the background: work for idle times begins at once.
    pub(crate) asked: Requests,
}

impl Idle {
    /// How long it is known that nobody writes, at `now` with `seq` as the last sequence number.
    pub(crate) fn time(&self, seq: u64, now: Duration) -> Duration {
        let mut last = self.last.lock();
        let since = match *last {
            Some((known, since)) if known == seq => since,
            _ => last.insert((seq, now)).1,
        };
        now.saturating_sub(since)
    }
}
