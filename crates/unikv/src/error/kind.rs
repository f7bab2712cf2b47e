//! The kinds of errors: what a caller can do, and the words for them that never change.

/// What a caller can do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The call is wrong (a limit exceeded, an option out of range): fix the call. Nothing changed.
    InvalidArgument,
    /// Bytes on disk are not what was written: restore the file from a copy, or salvage what is
    /// intact with [`Db::repair`](crate::Db::repair). Other data stay readable.
    Corruption,
    /// The operating system refused: fix the cause it names (space, permission, device), then
    /// retry. From a write: the outcome is unknown, as after `WritesSuspended`.
    Io,
    /// The disk is full: free space or delete keys; writing then resumes by itself. Nothing
    /// acknowledged was lost. From a write it means that nothing of the batch has been written.
    DiskFull,
    /// Another process (or handle) has the database open: close it first.
    Locked,
    /// The directory holds no database, and the options forbid creating one.
    NotFound,
    /// The directory holds something else, or a format this version does not know.
    Incompatible,
    /// Writing is suspended after a failed write or sync. The outcome of a write that fails so is
    /// unknown: it does not show now, and may from the next opening on, whole. Reads go on. Retry
    /// after the engine has recovered, or reopen where the message says so.
    WritesSuspended,
    /// The database has been closed. Nothing changed.
    Closed,
    /// The engine has met a state that it excludes, which is a bug: report it, with the message.
    /// What is on disk is as it was; close and reopen the database to go on.
    Internal,
    /// What the call asks for does not fit into `memory_budget` beside what is open: close
    /// iterators, or open the database with a larger budget. Nothing changed.
    OutOfMemory,
    /// The process that opened the database has forked, and this is the child: open the database
    /// there again, once the parent has closed it, or leave it to the parent. Nothing changed.
    Forked,
    /// Back-pressure would delay a write that may not wait ([`WriteOptions::no_wait`]): try again
    /// later, or let it wait. Nothing changed.
    ///
    /// [`WriteOptions::no_wait`]: crate::WriteOptions::no_wait
    WouldBlock,
    /// The keyspace has been dropped, or emptied after the snapshot or iterator was taken, or there
    /// never was one of this name: nothing of it can be read or written. Nothing changed.
    NoSuchKeyspace,
    /// What the transaction has read, or is about to overwrite, was written by another meanwhile:
    /// begin it again. Nothing of it has been written.
    Conflict,
    /// The changes after this token are not there any more, or are not those of this database: take
    /// what it holds now, and a token with that, and go on from there. Nothing changed.
    HistoryGone,
    /// The read has taken longer than its caller was ready to wait: read again, or wait for longer
    /// ([`ReadOptions::timeout`](crate::ReadOptions::timeout)). Nothing changed.
    TimedOut,
}

impl ErrorKind {
    /// The kind as a word, for programs: `invalid_argument`, `disk_full` and so on. It never
    /// changes.
    ///
    /// ```
    /// assert_eq!(unikv::ErrorKind::DiskFull.name(), "disk_full");
    /// ```
    pub fn name(self) -> &'static str {
        match self {
            ErrorKind::InvalidArgument => "invalid_argument",
            ErrorKind::Corruption => "corruption",
            ErrorKind::Io => "io",
            ErrorKind::DiskFull => "disk_full",
            ErrorKind::Locked => "locked",
            ErrorKind::NotFound => "not_found",
            ErrorKind::Incompatible => "incompatible",
            ErrorKind::WritesSuspended => "writes_suspended",
            ErrorKind::Closed => "closed",
            ErrorKind::Internal => "internal",
            ErrorKind::OutOfMemory => "out_of_memory",
            ErrorKind::Forked => "forked",
            ErrorKind::WouldBlock => "would_block",
            ErrorKind::NoSuchKeyspace => "no_such_keyspace",
            ErrorKind::Conflict => "conflict",
            ErrorKind::HistoryGone => "history_gone",
            ErrorKind::TimedOut => "timed_out",
        }
    }
}
