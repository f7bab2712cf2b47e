//! The process in which a database was opened.

use super::os::ForkMark;
use std::sync::Arc;

/// Tells the process in which a database was opened from the children that it forks: see [`Runtime::process`].
///
/// [`Runtime::process`]: super::Runtime::process
#[derive(Clone, Debug)]
pub struct Process(Option<Arc<ForkMark>>);

impl Process {
    /// The calling process.
    pub fn this() -> Process {
        Process(Some(Arc::new(ForkMark::new())))
    }

    /// A process that never forks.
    pub fn alone() -> Process {
        Process(None)
    }

    /// Whether it is the calling one.
    #[inline]
    pub(crate) fn is_this(&self) -> bool {
        match &self.0 {
            Some(mark) => mark.is_own(),
            None => true,
        }
    }
}
