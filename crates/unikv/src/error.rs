//! The errors of the engine: few kinds, each of which says what to do.
//!
//! An [`Error`] says what happened, in which file and at which offset where there is one, and what
//! remedies it. Match on [`Error::kind`]; print the error for a person.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A result of the engine.
pub type Result<T> = std::result::Result<T, Error>;

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
        }
    }
}

/// An error of the engine. Cheap to clone.
///
/// It prints as one line: the file and the offset where there are any, what happened, and the remedy
/// in parentheses. Each part can be had by itself.
///
/// ```
/// use unikv::{Db, ErrorKind, Options};
///
/// let error = Db::open("/no/such/place", Options::default().create_if_missing(false)).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::NotFound);
/// assert_eq!(error.what(), "there is no UniKV database here");
/// assert!(error.remedy().starts_with("check the path"));
/// assert!(error.to_string().starts_with("/no/such/place: there is no UniKV database here (check"));
/// ```
#[derive(Clone)]
pub struct Error(Arc<Inner>);

struct Inner {
    kind: ErrorKind,
    what: String,
    file: Option<PathBuf>,
    offset: Option<u64>,
    remedy: String,
    source: Option<io::Error>,
}

impl Inner {
    fn new(kind: ErrorKind, what: impl Into<String>, remedy: impl Into<String>) -> Inner {
        Inner {
            kind,
            what: what.into(),
            file: None,
            offset: None,
            remedy: remedy.into(),
            source: None,
        }
    }
}

impl Error {
    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The file concerned, where there is one.
    pub fn file(&self) -> Option<&Path> {
        self.0.file.as_deref()
    }

    /// The byte offset in the file, where there is one.
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    /// What happened, as a sentence for a person, without the file and the remedy.
    pub fn what(&self) -> &str {
        &self.0.what
    }

    /// What remedies it, as a sentence for a person.
    pub fn remedy(&self) -> &str {
        &self.0.remedy
    }

    /// Bytes of `file` at `offset` are damaged.
    pub(crate) fn corruption(file: &Path, offset: u64, what: impl Into<String>) -> Error {
        let remedy = "restore this file from a backup; `unikv check` lists everything that is affected, \
                      and `unikv repair` saves what is intact into a new database";
        let mut inner = Inner::new(ErrorKind::Corruption, what, remedy);
        inner.file = Some(file.to_owned());
        inner.offset = Some(offset);
        Error(Arc::new(inner))
    }

    /// Bytes of an export at `offset` are damaged. No file of a database is.
    pub(crate) fn damaged_export(file: &Path, offset: u64, what: impl Into<String>) -> Error {
        let remedy = "nothing of it was stored; export again, or take another copy of the file";
        let mut inner = Inner::new(ErrorKind::Corruption, what, remedy);
        inner.file = Some(file.to_owned());
        inner.offset = Some(offset);
        Error(Arc::new(inner))
    }

    /// The operating system refused `op` on `file`. A full disk becomes [`ErrorKind::DiskFull`].
    pub(crate) fn io(op: &str, file: &Path, source: io::Error) -> Error {
        let (kind, remedy) = match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => (
                ErrorKind::DiskFull,
                "free space on this file system, then retry",
            ),
            io::ErrorKind::NotADirectory => (
                ErrorKind::Io,
                "this, or a part of its path, is a file: check the path",
            ),
            io::ErrorKind::IsADirectory => (
                ErrorKind::Io,
                "this is a directory: check the path, and name a file",
            ),
            io::ErrorKind::PermissionDenied => (
                ErrorKind::Io,
                "give this user the right to it, or run as its owner, then retry",
            ),
            _ => (ErrorKind::Io, "fix the cause the system names, then retry"),
        };
        let mut inner = Inner::new(kind, format!("cannot {op}: {source}"), remedy);
        inner.file = Some(file.to_owned());
        inner.source = Some(source);
        Error(Arc::new(inner))
    }

    /// The reader that a caller gave for a value has failed.
    pub(crate) fn reader(source: io::Error) -> Error {
        let what = format!("cannot read the value that is to be written: {source}");
        let remedy = "nothing was written; mend what is read from, then write it again";
        let mut inner = Inner::new(ErrorKind::Io, what, remedy);
        inner.source = Some(source);
        Error(Arc::new(inner))
    }

    /// The disk with `dir` is full, because of `cause` if something was refused; `free` bytes are
    /// free and writing resumes with `needed`. Nothing of the call was written.
    pub(crate) fn disk_full(dir: &Path, cause: Option<&Error>, free: &str, needed: u64) -> Error {
        let why = cause.map_or(String::new(), |cause| format!(" since: {}", cause.0.what));
        let what = format!(
            "the disk is full: {free} bytes are free, and writing resumes with {needed}{why}"
        );
        let remedy = "free space on this file system, or delete keys; reads and deletes go on, and \
                      writing resumes by itself";
        let mut inner = Inner::new(ErrorKind::DiskFull, what, remedy);
        inner.file = Some(dir.to_owned());
        Error(Arc::new(inner))
    }

    /// The call is wrong; nothing was changed.
    pub(crate) fn invalid(what: impl Into<String>, remedy: impl Into<String>) -> Error {
        Error(Arc::new(Inner::new(
            ErrorKind::InvalidArgument,
            what,
            remedy,
        )))
    }

    /// `file` is of a kind or format that this version does not read.
    pub(crate) fn incompatible(file: &Path, what: impl Into<String>, remedy: &str) -> Error {
        let mut inner = Inner::new(ErrorKind::Incompatible, what, remedy);
        inner.file = Some(file.to_owned());
        Error(Arc::new(inner))
    }

    /// Another opener holds the database at `dir`.
    pub(crate) fn locked(dir: &Path, holder: Option<u32>) -> Error {
        let who = holder.map_or("another process".to_owned(), |pid| format!("process {pid}"));
        let what = format!("the database is open in {who}");
        let mut inner = Inner::new(ErrorKind::Locked, what, "close it there, or wait and retry");
        inner.file = Some(dir.to_owned());
        Error(Arc::new(inner))
    }

    /// Somebody else is just making or changing what is at `dir`.
    pub(crate) fn busy(dir: &Path, holder: Option<u32>) -> Error {
        let who = holder.map_or("another process".to_owned(), |pid| format!("process {pid}"));
        let what = format!("{who} is at work here");
        let mut inner = Inner::new(
            ErrorKind::Locked,
            what,
            "wait until it has ended, and retry",
        );
        inner.file = Some(dir.to_owned());
        Error(Arc::new(inner))
    }

    /// No repository of backups, or no such point in it.
    pub(crate) fn no_backup(what: impl Into<String>, remedy: &str) -> Error {
        Error(Arc::new(Inner::new(ErrorKind::NotFound, what, remedy)))
    }

    /// No database at `dir`.
    pub(crate) fn not_found(dir: &Path) -> Error {
        let what = "there is no UniKV database here";
        let remedy = "check the path, or allow creation with `create_if_missing`";
        let mut inner = Inner::new(ErrorKind::NotFound, what, remedy);
        inner.file = Some(dir.to_owned());
        Error(Arc::new(inner))
    }

    /// Writing is suspended because of `cause`.
    pub(crate) fn writes_suspended(cause: impl fmt::Display, remedy: &str) -> Error {
        let what = format!("writing is suspended: {cause}");
        Error(Arc::new(Inner::new(
            ErrorKind::WritesSuspended,
            what,
            remedy,
        )))
    }

    /// The changes after a token are not there.
    #[cold]
    pub(crate) fn history_gone(what: impl Into<String>) -> Error {
        let remedy = "read the database as it is now, with a token of now, and go on from there; a \
                      larger `change_window_bytes` keeps more";
        Error(Arc::new(Inner::new(ErrorKind::HistoryGone, what, remedy)))
    }

    /// There is no memory for one more iterator.
    pub(crate) fn too_many_iterators(bytes: u64, budget: u64) -> Error {
        Error(Arc::new(Inner::new(
            ErrorKind::OutOfMemory,
            format!("iterators hold {bytes} bytes of a memory budget of {budget}"),
            "close some of them, or open the database with a larger memory_budget",
        )))
    }

    /// The call comes from a child of the process that opened the database.
    pub(crate) fn forked() -> Error {
        Error(Arc::new(Inner::new(
            ErrorKind::Forked,
            "the database was opened in another process, of which this one is a fork",
            "use it in the process that opened it; a child may open a database of its own",
        )))
    }

    /// Back-pressure would delay a write that may not wait.
    pub(crate) fn would_block() -> Error {
        Error(Arc::new(Inner::new(
            ErrorKind::WouldBlock,
            "the background is behind, which would delay a write that may not wait",
            "try again later, or write without `no_wait`",
        )))
    }

    /// A keyspace is not there, or not any more.
    pub(crate) fn no_such_keyspace(what: impl Into<String>) -> Error {
        let remedy = "create it, or use one that is there";
        Error(Arc::new(Inner::new(
            ErrorKind::NoSuchKeyspace,
            what,
            remedy,
        )))
    }

    /// Another has written what a transaction depends on.
    pub(crate) fn conflict(what: &str) -> Error {
        let what = format!("the transaction conflicts with another write: {what}");
        let remedy = "begin it again, or use `Db::transact`, which does so";
        Error(Arc::new(Inner::new(ErrorKind::Conflict, what, remedy)))
    }

    /// A bug of the engine.
    pub(crate) fn internal(what: impl Into<String>) -> Error {
        let remedy = "this is a bug of UniKV: report it with this message, then close and reopen the \
                      database";
        Error(Arc::new(Inner::new(ErrorKind::Internal, what, remedy)))
    }

    /// The database has been closed.
    pub(crate) fn closed() -> Error {
        Error(Arc::new(Inner::new(
            ErrorKind::Closed,
            "the database has been closed",
            "open it again",
        )))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &*self.0;
        if let Some(file) = &inner.file {
            write!(f, "{}", file.display())?;
            if let Some(offset) = inner.offset {
                write!(f, " at offset {offset}")?;
            }
            write!(f, ": ")?;
        }
        write!(f, "{} ({})", inner.what, inner.remedy)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|e| e as _)
    }
}

/// For callers whose errors are those of the standard library: the kind is the nearest one there,
/// and the message and the source are those of the [`Error`].
impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        let kind = match error.kind() {
            ErrorKind::InvalidArgument => io::ErrorKind::InvalidInput,
            ErrorKind::Corruption => io::ErrorKind::InvalidData,
            ErrorKind::Io => {
                let source = error.0.source.as_ref();
                source.map_or(io::ErrorKind::Other, io::Error::kind)
            }
            ErrorKind::DiskFull => io::ErrorKind::StorageFull,
            ErrorKind::Locked => io::ErrorKind::ResourceBusy,
            ErrorKind::NotFound | ErrorKind::NoSuchKeyspace => io::ErrorKind::NotFound,
            ErrorKind::Incompatible | ErrorKind::Forked => io::ErrorKind::Unsupported,
            ErrorKind::OutOfMemory => io::ErrorKind::OutOfMemory,
            ErrorKind::WouldBlock => io::ErrorKind::WouldBlock,
            ErrorKind::WritesSuspended
            | ErrorKind::Closed
            | ErrorKind::Internal
            | ErrorKind::Conflict
            | ErrorKind::HistoryGone => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}
