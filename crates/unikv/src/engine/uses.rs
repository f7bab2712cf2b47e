//! Uses of the database that closing waits for: each ends soon after it finds the database closed.
//!
//! Lock: one, held shared by each use and taken alone when the directory is released. It is tried
//! and never waited for to begin a use. A thread may begin one within another, as the source of a
//! large value may write one itself; to wait there behind closing, which waits for the outer one,
//! would be for ever.

use crate::base::sync::{RwLock, RwLockReadGuard};
use crate::engine::core::Core;
use crate::error::{Error, Result};

#[derive(Default)]
pub(crate) struct Uses {
    running: RwLock<()>,
}

/// Keeps the directory from being released.
pub(crate) struct Use<'a>(#[allow(dead_code, reason = "its end ends it")] RwLockReadGuard<'a, ()>);

impl Uses {
    /// Begins one.
    ///
    /// # Errors
    /// `Closed`, `Forked`
    pub(crate) fn begin(&self, core: &Core) -> Result<Use<'_>> {
        core.check_open()?;
        let begun = self.try_begin().ok_or_else(Error::closed)?;
        core.check_open()?;
        Ok(begun)
    }

    /// `None` while closing waits.
    fn try_begin(&self) -> Option<Use<'_>> {
        self.running.try_read().map(Use)
    }

    /// Waits until all have ended. The database is closed, so that is soon.
    pub(crate) fn wait(&self) {
        drop(self.running.write());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{limit, wait_for};

    #[test]
    fn a_use_within_another_does_not_wait_for_closing_which_waits_for_the_outer_one() {
        let uses = Uses::default();
        let _limit = limit("the end of a use");
        std::thread::scope(|scope| {
            let outer = uses.try_begin().unwrap();
            drop(uses.try_begin().unwrap());
            scope.spawn(|| uses.wait());
            wait_for("closing", || uses.try_begin().is_none());
            drop(outer);
        });
        assert!(uses.try_begin().is_some());
    }
}
