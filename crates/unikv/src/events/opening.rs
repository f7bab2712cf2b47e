//! How far an opening has come.

use std::fmt;
use std::sync::Arc;

/// What an opening is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpeningPhase {
    /// Reads which files there are from the manifest. Counted are its edits.
    Manifest,
    /// Looks at each of the files. Counted are files.
    Files,
    /// Replays the log. Counted are bytes of it.
    Log,
    /// Builds the hash indexes of what is not merged yet. Counted are records.
    Indexes,
}

impl OpeningPhase {
    /// A short name in lower case, for logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            OpeningPhase::Manifest => "manifest",
            OpeningPhase::Files => "files",
            OpeningPhase::Log => "log",
            OpeningPhase::Indexes => "indexes",
        }
    }
}

/// How far an opening has come: see [`Options::on_progress`](crate::Options::on_progress).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpeningProgress {
    /// What it is doing.
    pub phase: OpeningPhase,
    /// What of it is done.
    pub done: u64,
    /// All that there is to do in this phase, at most; 0: that is not known.
    pub all: u64,
}

impl OpeningProgress {
    pub(crate) fn new(phase: OpeningPhase, done: u64, all: u64) -> OpeningProgress {
        let done = if all > 0 { done.min(all) } else { done };
        OpeningProgress { phase, done, all }
    }
}

/// The function that is called during an opening, among the options.
#[derive(Clone)]
pub(crate) struct OnProgress(pub(crate) Arc<dyn Fn(OpeningProgress) + Send + Sync>);

impl PartialEq for OnProgress {
    fn eq(&self, other: &OnProgress) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for OnProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnProgress")
    }
}
