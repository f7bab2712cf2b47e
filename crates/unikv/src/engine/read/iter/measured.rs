//! How long the batches of an iteration take, where that is measured. No locks.

use super::{Iter, Toward};
use crate::engine::read::timed::named_engine_key;
use crate::error::Result;
use crate::events::TimedOperation;
use std::sync::Arc;

impl Iter {
    /// Gathers the next batch of one end.
    pub(super) fn gather(&mut self, toward: Toward) -> Result<()> {
        if self.holder.moment().read().core.meter.is_on() {
            self.gather_measured(toward)
        } else {
            self.gather_unmeasured(toward)
        }
    }

    #[cold]
    fn gather_measured(&mut self, toward: Toward) -> Result<()> {
        let read = Arc::clone(self.holder.moment().read());
        let (end, from) = match toward {
            Toward::Upper => (&mut self.front, &self.lower),
            Toward::Lower => (&mut self.back, &self.upper),
        };
        let operation = if end.begins_to_be_measured() {
            TimedOperation::Seek
        } else {
            TimedOperation::Next
        };
        // Before: it moves on.
        let at = named_engine_key(from);
        read.timed(operation, || at, || self.gather_unmeasured(toward))
    }
}
