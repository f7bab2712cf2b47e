//! Operations whose time is measured, and what is reported of a slow one.

use std::time::Duration;

/// What a caller waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TimedOperation {
    /// A look-up of the value of one key.
    Get,
    /// A look-up of several keys in one call.
    MultiGet,
    /// The first step of an iterator or a cursor, and of each move of it to another place.
    Seek,
    /// A later step that reads the next entries: one of many, as each reads ahead.
    Next,
    /// A put of one value.
    Put,
    /// A delete, a batch, or the commit of a transaction.
    Write,
    /// A sync of the log that was asked for by itself.
    Sync,
}

impl TimedOperation {
    /// All operations.
    pub const ALL: [TimedOperation; 7] = [
        TimedOperation::Get,
        TimedOperation::MultiGet,
        TimedOperation::Seek,
        TimedOperation::Next,
        TimedOperation::Put,
        TimedOperation::Write,
        TimedOperation::Sync,
    ];

    /// A name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            TimedOperation::Get => "get",
            TimedOperation::MultiGet => "multi_get",
            TimedOperation::Seek => "seek",
            TimedOperation::Next => "next",
            TimedOperation::Put => "put",
            TimedOperation::Write => "write",
            TimedOperation::Sync => "sync",
        }
    }
}

/// What an operation waited for, beside its own work and its reads of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Wait {
    /// Its turn: other writers led, or committed its batch along with theirs.
    Queue,
    /// A sync of the log.
    Sync,
    /// A flush or a merge, since every memtable was full.
    Stall,
    /// Nothing: it paused, because the background was behind.
    Slowdown,
}

impl Wait {
    /// All waits.
    pub const ALL: [Wait; 4] = [Wait::Queue, Wait::Sync, Wait::Stall, Wait::Slowdown];

    /// A name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Wait::Queue => "queue",
            Wait::Sync => "sync",
            Wait::Stall => "stall",
            Wait::Slowdown => "slowdown",
        }
    }
}

/// An operation that took longer than [`Options::slow_after`](crate::Options::slow_after).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SlowOperation {
    /// What it was.
    pub operation: TimedOperation,
    /// The keyspace of its key, if it has one that is there.
    pub keyspace: Option<String>,
    /// Its key, of a batch the first: up to 64 bytes. Empty where there is none.
    pub key: Vec<u8>,
    /// How long it took.
    pub elapsed: Duration,
    /// What of that it waited for; the rest was its own work and its reads of files.
    pub waited: Vec<(Wait, Duration)>,
}
