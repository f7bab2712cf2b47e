//! The errors of the engine: few kinds, each of which says what to do.
//!
//! An [`Error`] says what happened, in which file and at which offset where there is one, and what
//! remedies it. Match on [`Error::kind`]; print the error for a person.

mod kind;

pub use kind::ErrorKind;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The numbers of the errors for want of a descriptor: of the process, and of the whole machine.
const NO_DESCRIPTORS: [i32; 2] = [24, 23];

/// A result of the engine.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of the engine. Cheap to clone.
///
/// It prints as one line: the file and the offset where there are any, what happened, and the
/// remedy in parentheses. Each part can be had by itself.
///
/// ```
/// use unikv::{Db, ErrorKind, Options};
///
/// let error = Db::open_existing("/no/such", Options::default()).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::NotFound);
/// assert_eq!(error.what(), "there is no UniKV database here");
/// assert!(error.remedy().starts_with("check the path"));
/// assert!(error.to_string().starts_with("/no/such: there is no UniKV database here (check"));
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

/// Whether a call has failed for want of a descriptor.
pub(crate) fn lacks_descriptors(error: &io::Error) -> bool {
    let number = error.raw_os_error();
    number.is_some_and(|number| NO_DESCRIPTORS.contains(&number))
}

impl Error {
    /// An error that concerns no file.
    fn of(kind: ErrorKind, what: impl Into<String>, remedy: impl Into<String>) -> Error {
        Error(Arc::new(Inner::new(kind, what, remedy)))
    }

    /// An error that concerns a file, or a place in it.
    fn in_file(
        kind: ErrorKind,
        what: impl Into<String>,
        remedy: impl Into<String>,
        file: &Path,
        offset: Option<u64>,
    ) -> Error {
        let mut inner = Inner::new(kind, what, remedy);
        (inner.file, inner.offset) = (Some(file.to_owned()), offset);
        Error(Arc::new(inner))
    }

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

    /// The error of the operating system, where there is one.
    pub fn io_error(&self) -> Option<&io::Error> {
        self.0.source.as_ref()
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
        Error::in_file(ErrorKind::Corruption, what, remedy, file, Some(offset))
    }

    /// Bytes of an export at `offset` are damaged. No file of a database is.
    pub(crate) fn damaged_export(file: &Path, offset: u64, what: impl Into<String>) -> Error {
        let remedy = "nothing of it was stored; export again, or take another copy of the file";
        Error::in_file(ErrorKind::Corruption, what, remedy, file, Some(offset))
    }

    /// Somebody else has removed a file of a database that is only read here.
    pub(crate) fn not_kept(file: &Path, needed: usize) -> Error {
        let what = format!(
            "the writer has removed this file. A reader keeps all files of what it shows open, \
             which are {needed}, and this process may not open as many"
        );
        let remedy = "let the process open more files (`ulimit -n`, twice as many), or read while \
                      nobody writes";
        let mut inner = Inner::new(ErrorKind::Io, what, remedy);
        inner.file = Some(file.to_owned());
        inner.source = Some(io::Error::from_raw_os_error(NO_DESCRIPTORS[0]));
        Error(Arc::new(inner))
    }

    /// Whether a call failed for want of a descriptor. It says nothing about any file.
    pub(crate) fn lacks_descriptors(&self) -> bool {
        self.0.source.as_ref().is_some_and(lacks_descriptors)
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
            _ if lacks_descriptors(&source) => (
                ErrorKind::Io,
                "let the process open more files (`ulimit -n`), or have it close some, then retry",
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
        Error::in_file(ErrorKind::DiskFull, what, remedy, dir, None)
    }

    /// The call is wrong; nothing was changed.
    pub(crate) fn invalid(what: impl Into<String>, remedy: impl Into<String>) -> Error {
        Error::of(ErrorKind::InvalidArgument, what, remedy)
    }

    /// `file` is of a kind or format that this version does not read.
    pub(crate) fn incompatible(file: &Path, what: impl Into<String>, remedy: &str) -> Error {
        Error::in_file(ErrorKind::Incompatible, what, remedy, file, None)
    }

    /// Another opener holds the database at `dir`.
    pub(crate) fn locked(dir: &Path, holder: Option<u32>) -> Error {
        let (what, remedy) = match holder {
            Some(pid) if pid == std::process::id() => (
                "the database is open in this process already".to_owned(),
                "use the handle that is open, which may be cloned, or close it first",
            ),
            Some(pid) => (
                format!("the database is open in process {pid}"),
                "close it there, or wait and retry",
            ),
            None => (
                "the database is open in another process".to_owned(),
                "close it there, or wait and retry",
            ),
        };
        Error::in_file(ErrorKind::Locked, what, remedy, dir, None)
    }

    /// Somebody else is just making or changing what is at `dir`.
    pub(crate) fn busy(dir: &Path, holder: Option<u32>) -> Error {
        let who = holder.map_or("another process".to_owned(), |pid| format!("process {pid}"));
        let what = format!("{who} is at work here");
        Error::in_file(
            ErrorKind::Locked,
            what,
            "wait until it has ended, and retry",
            dir,
            None,
        )
    }

    /// No repository of backups, or no such point in it.
    pub(crate) fn no_backup(what: impl Into<String>, remedy: &str) -> Error {
        Error::of(ErrorKind::NotFound, what, remedy)
    }

    /// No database at `dir`.
    pub(crate) fn not_found(dir: &Path) -> Error {
        let what = "there is no UniKV database here";
        let remedy = "check the path, or create a database there first";
        Error::in_file(ErrorKind::NotFound, what, remedy, dir, None)
    }

    /// A database at `dir`, where a new one is to be made.
    pub(crate) fn exists(dir: &Path) -> Error {
        let what = "there is a database here already";
        let remedy = "choose another directory, or open the one that is there";
        Error::in_file(ErrorKind::InvalidArgument, what, remedy, dir, None)
    }

    /// Writing is suspended because of `cause`.
    pub(crate) fn writes_suspended(cause: impl fmt::Display, remedy: &str) -> Error {
        let what = format!("writing is suspended: {cause}");
        Error::of(ErrorKind::WritesSuspended, what, remedy)
    }

    /// The changes after a token are not there.
    #[cold]
    pub(crate) fn history_gone(what: impl Into<String>) -> Error {
        let remedy = "read the database as it is now, with a token of now, and go on from there; a \
                      larger `change_window_bytes` keeps more";
        Error::of(ErrorKind::HistoryGone, what, remedy)
    }

    /// A read has taken longer than `timeout`.
    #[cold]
    pub(crate) fn timed_out(timeout: Duration) -> Error {
        let what = format!("the read has taken longer than its timeout of {timeout:?}");
        let remedy = "read again, or with a longer timeout";
        Error::of(ErrorKind::TimedOut, what, remedy)
    }

    /// There is no memory for one more iterator.
    pub(crate) fn too_many_iterators(bytes: u64, budget: u64) -> Error {
        Error::of(
            ErrorKind::OutOfMemory,
            format!("iterators hold {bytes} bytes of a memory budget of {budget}"),
            "close some of them, or open the database with a larger memory_budget",
        )
    }

    /// The call comes from a child of the process that opened the database.
    pub(crate) fn forked() -> Error {
        Error::of(
            ErrorKind::Forked,
            "the database was opened in another process, of which this one is a fork",
            "use it in the process that opened it; a child may open a database of its own",
        )
    }

    /// Back-pressure would delay a write that may not wait.
    pub(crate) fn would_block() -> Error {
        Error::of(
            ErrorKind::WouldBlock,
            "the background is behind, which would delay a write that may not wait",
            "try again later, or write without `no_wait`",
        )
    }

    /// A keyspace is not there, or not any more.
    pub(crate) fn no_such_keyspace(what: impl Into<String>) -> Error {
        let remedy = "create it, or use one that is there";
        Error::of(ErrorKind::NoSuchKeyspace, what, remedy)
    }

    /// Another has written what a transaction depends on.
    pub(crate) fn conflict(what: &str) -> Error {
        let what = format!("the transaction conflicts with another write: {what}");
        let remedy = "begin the transaction again";
        Error::of(ErrorKind::Conflict, what, remedy)
    }

    /// A bug of the engine.
    pub(crate) fn internal(what: impl Into<String>) -> Error {
        let remedy = "this is a bug of UniKV: report it with this message, then close and reopen the \
                      database";
        Error::of(ErrorKind::Internal, what, remedy)
    }

    /// The database has been closed.
    pub(crate) fn closed() -> Error {
        Error::of(
            ErrorKind::Closed,
            "the database has been closed",
            "open it again",
        )
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

/// There is no source: what the operating system has said is in the message, so that a chain of
/// errors says it once. [`Error::io_error`] has it as a value.
impl std::error::Error for Error {}

/// For callers whose errors are those of the standard library: the kind is the nearest one there,
/// and the message is that of the [`Error`].
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
            ErrorKind::TimedOut => io::ErrorKind::TimedOut,
            ErrorKind::WritesSuspended
            | ErrorKind::Closed
            | ErrorKind::Internal
            | ErrorKind::Conflict
            | ErrorKind::HistoryGone => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}
