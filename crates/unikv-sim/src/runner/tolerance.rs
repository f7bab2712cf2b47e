//! Which errors a run may meet, and what it makes of them.

use super::{Runner, Storms};
use crate::story;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use unikv::{Error, ErrorKind};

/// How a run takes errors.
#[derive(Clone, Debug)]
pub enum Tolerance {
    /// None may happen.
    None,
    /// Once the flag is up the machine is gone: any error ends the run.
    UntilCut(Arc<AtomicBool>),
    /// Once the flag is up, writes may fail once and must then come back: after a flush, or, if
    /// `reopens`, because the database is opened again at once.
    AfterFault {
        /// Whether something has failed.
        hit: Arc<AtomicBool>,
        /// Whether to open again instead of waiting for the engine.
        reopens: bool,
    },
    /// Once the flag is up, some calls that only look at the disk have failed, and whatever the
    /// engine does may fail with them; done again, it works in the end.
    AfterReadFault(Arc<AtomicBool>),
    /// While the flag is up there is little space: writes may fail, and those that fail with
    /// `DiskFull` have written nothing. After some operations there is space again, and writing
    /// comes back by itself.
    ShortOfSpace(Arc<AtomicBool>),
    /// Storms in which errors come again and again: whatever the engine does may fail.
    Storms(Storms),
}

/// Why an operation ended early.
#[derive(Debug)]
pub enum Interrupt {
    /// The machine went away.
    MachineGone,
    /// A read failed because of the fault.
    ReadFailed,
}

impl Runner {
    pub(super) fn gone(&self) -> Result<(), Interrupt> {
        match &self.tolerance {
            Tolerance::UntilCut(cut) if cut.load(Ordering::SeqCst) => Err(Interrupt::MachineGone),
            _ => Ok(()),
        }
    }

    pub(super) fn faulted(&self) -> bool {
        let hit = match &self.tolerance {
            Tolerance::AfterFault { hit, .. } => hit,
            Tolerance::AfterReadFault(hit) => hit,
            Tolerance::Storms(_) => return true,
            _ => return self.is_short_of_space(),
        };
        hit.load(Ordering::SeqCst)
    }

    /// Whether an error of a read is explained by the fault.
    pub(super) fn reads_may_fail(&self) -> bool {
        match &self.tolerance {
            Tolerance::AfterReadFault(hit) => hit.load(Ordering::SeqCst),
            _ => self.is_raging(),
        }
    }

    /// An error of a call that may fail only because the machine went away, or a read failed.
    pub(super) fn must<T>(&self, what: &str, result: unikv::Result<T>) -> Result<T, Interrupt> {
        match result {
            Ok(value) => Ok(value),
            Err(err) => {
                self.gone()?;
                if self.reads_may_fail() && is_typed(&err) {
                    story::step(format!("   {what} fails: {err}"));
                    self.faults_seen.set(self.faults_seen.get() + 1);
                    return Err(Interrupt::ReadFailed);
                }
                panic!("{what} failed: {err:?}")
            }
        }
    }

    /// An error of a call that may also fail because of the injected fault: `None` then.
    pub(super) fn may<T>(
        &self,
        what: &str,
        result: unikv::Result<T>,
    ) -> Result<Option<T>, Interrupt> {
        match result {
            Err(err) if self.faulted() => {
                assert!(
                    is_typed(&err),
                    "{what} failed in a way that a fault does not explain: {err:?}"
                );
                story::step(format!("   {what} fails: {err}"));
                self.faults_seen.set(self.faults_seen.get() + 1);
                Ok(None)
            }
            other => self.must(what, other).map(Some),
        }
    }
}

/// Whether an error is of a kind that a failing disk explains.
pub(super) fn is_typed(err: &Error) -> bool {
    matches!(
        err.kind(),
        ErrorKind::Io | ErrorKind::DiskFull | ErrorKind::WritesSuspended
    )
}
