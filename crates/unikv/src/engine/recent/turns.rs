//! Whose turn it is to commit, where a transaction wants to be alone.
//!
//! Lock: `taken`, a leaf.

use crate::base::sync::Mutex;
use crate::vfs::Event;
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct Turns {
    taken: Mutex<bool>,
    ended: Arc<dyn Event>,
}

impl Turns {
    pub(super) fn new(ended: Arc<dyn Event>) -> Turns {
        Turns {
            taken: Mutex::new(false),
            ended,
        }
    }

    /// Takes the turn if nobody has it.
    pub(crate) fn try_begin(&self) -> bool {
        !std::mem::replace(&mut *self.taken.lock(), true)
    }

    pub(crate) fn is_taken(&self) -> bool {
        *self.taken.lock()
    }

    /// Waits until the turn is free, or as long as is allowed.
    pub(crate) fn wait(&self, most: Duration) {
        let epoch = self.ended.epoch();
        if self.is_taken() {
            self.ended.wait_past(epoch, Some(most));
        }
    }

    pub(crate) fn end(&self) {
        *self.taken.lock() = false;
        self.ended.notify();
    }
}
