//! Who keeps old states of the database, and what runs in the background.

use std::time::Duration;

/// What keeps an old state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub enum HolderKind {
    /// A snapshot, with its clones and its iterators.
    #[default]
    Snapshot,
    /// An iterator, of a snapshot or of its own moment.
    Iterator,
}

impl HolderKind {
    /// A name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            HolderKind::Snapshot => "snapshot",
            HolderKind::Iterator => "iterator",
        }
    }
}

/// A snapshot or an iterator that has not been dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct HolderStats {
    /// Which of the two it is.
    pub kind: HolderKind,
    /// Of an iterator a number that no other one of this opening has; of a snapshot the sequence
    /// number that it shows.
    pub id: u64,
    /// How long ago it was made.
    pub age: Duration,
    /// The sequence number that it shows: of what was overwritten since, it keeps a version.
    pub seq: u64,
    /// How many operations have been committed since.
    pub behind: u64,
    /// Whether it holds a view, and with it files. A snapshot does not.
    pub holds_view: bool,
    /// Bytes of files that no longer belong to the database and that it, maybe with others, keeps.
    /// [`Db::release_views`](crate::Db::release_views) makes iterators give them up.
    pub pinned_bytes: u64,
}

/// A job of the background that runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct RunningJob {
    /// What it does: `flush`, `merge`, `garbage collection`, `split`, `join` or another.
    pub job: String,
    /// The partition that it works on, the first if it works on several; `None`: on all.
    pub partition: Option<u64>,
    /// For how long it has been running.
    pub running_for: Duration,
}
