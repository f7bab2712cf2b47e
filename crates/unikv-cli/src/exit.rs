//! Exit statuses: what a script can distinguish without reading messages.

use crate::output::print_failure;
use serde_json::{Value, json};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use unikv::ErrorKind;

/// The end of `unikv --help`. Must list every [`Code`].
pub const HELP: &str = "\
Exit status:
   0  success
   1  get, ttl, expire, clear-ttl, shell: a key is not there
   2  wrong usage of the command line
   3  invalid argument or input
   4  corruption, or check found problems
   5  input or output failed
   6  the disk is full
   7  the database is open elsewhere, or others are at work there
   8  no database or backup there, or an incompatible one
   9  writing is suspended after a failed sync
  10  verification failed (ycsb, torture, crash-verify)
  11  the database has been closed
  12  repair: something is lost, in doubt or uncertain; the rest is saved
  13  a bug of the engine: report it, with the message
  14  there is no keyspace of this name
  15  changes: those after the token are not kept any more, or are of another history";

/// The exit status of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    Success = 0,
    KeyNotFound = 1,
    /// Clap itself uses it.
    Usage = 2,
    InvalidArgument = 3,
    Corruption = 4,
    Io = 5,
    DiskFull = 6,
    Locked = 7,
    NoDatabase = 8,
    WritesSuspended = 9,
    VerificationFailed = 10,
    Closed = 11,
    DataLost = 12,
    Internal = 13,
    NoKeyspace = 14,
    HistoryGone = 15,
}

impl Code {
    /// The status as a word, for programs: that of [`ErrorKind::name`] where there is one.
    fn name(self) -> &'static str {
        match self {
            Code::Success => "success",
            Code::KeyNotFound => "key_not_found",
            Code::Usage => "usage",
            Code::InvalidArgument => ErrorKind::InvalidArgument.name(),
            Code::Corruption => ErrorKind::Corruption.name(),
            Code::Io => ErrorKind::Io.name(),
            Code::DiskFull => ErrorKind::DiskFull.name(),
            Code::Locked => ErrorKind::Locked.name(),
            Code::NoDatabase => ErrorKind::NotFound.name(),
            Code::WritesSuspended => ErrorKind::WritesSuspended.name(),
            Code::VerificationFailed => "verification_failed",
            Code::Closed => ErrorKind::Closed.name(),
            Code::DataLost => "data_lost",
            Code::Internal => ErrorKind::Internal.name(),
            Code::NoKeyspace => ErrorKind::NoSuchKeyspace.name(),
            Code::HistoryGone => ErrorKind::HistoryGone.name(),
        }
    }
}

/// Why a command ended early.
#[derive(Debug)]
pub enum Failure {
    /// The reader of our standard output has seen enough: a clean end.
    BrokenPipe,
    /// Something for the user to know.
    Failed(Box<Failed>),
}

/// How a command ends.
pub type Outcome = Result<Code, Failure>;

/// What the user is to know: what happened, where, and what to do.
#[derive(Debug)]
pub struct Failed {
    pub code: Code,
    /// [`Code::name`], or a kind of the engine's that has no status of its own.
    kind: &'static str,
    /// The place in the input, or what was being done.
    place: Option<String>,
    file: Option<PathBuf>,
    offset: Option<u64>,
    what: String,
    remedy: Option<String>,
    /// The system does not let this process write there.
    pub may_not_write: bool,
}

impl Failed {
    pub fn to_json(&self) -> Value {
        let message = match &self.place {
            Some(place) => format!("{place}: {}", self.what),
            None => self.what.clone(),
        };
        json!({
            "error": {
                "kind": self.kind,
                "status": self.code as u8,
                "message": message,
                "remedy": self.remedy,
                "file": self.file.as_ref().map(|file| file.to_string_lossy()),
                "offset": self.offset,
            },
        })
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        if let Some(file) = &self.file {
            write!(f, "{}", file.display())?;
            if let Some(offset) = self.offset {
                write!(f, " at offset {offset}")?;
            }
            write!(f, ": ")?;
        }
        write!(f, "{}", self.what)?;
        match &self.remedy {
            Some(remedy) => write!(f, " ({remedy})"),
            None => Ok(()),
        }
    }
}

impl Failure {
    pub fn new(code: Code, what: impl Into<String>) -> Failure {
        Failure::Failed(Box::new(Failed {
            code,
            kind: code.name(),
            place: None,
            file: None,
            offset: None,
            what: what.into(),
            remedy: None,
            may_not_write: false,
        }))
    }

    /// The input or the arguments are wrong in a way that clap cannot see.
    pub fn invalid(what: impl Into<String>) -> Failure {
        Failure::new(Code::InvalidArgument, what)
    }

    /// The database has no keyspace of this name.
    pub fn no_keyspace(name: &str) -> Failure {
        Failure::new(Code::NoKeyspace, format!("there is no keyspace {name:?}"))
            .remedy("make it with `unikv keyspace create`, or choose one of `unikv keyspace list`")
    }

    /// A record read is not the record written.
    pub fn verification(what: impl Into<String>) -> Failure {
        Failure::new(Code::VerificationFailed, what)
    }

    /// An operation on the file `name`, which is not a file of the engine, failed.
    pub fn file(name: impl Into<PathBuf>, error: &io::Error) -> Failure {
        Failure::from_io(error).in_file(name)
    }

    /// A database could not be opened or looked at. Where none is, the remedy is a command: the
    /// library's is an option, which has no place on the command line.
    pub fn opening(error: unikv::Error) -> Failure {
        let kind = error.kind();
        let failure = Failure::from(error);
        match kind {
            ErrorKind::NotFound => failure.remedy(
                "check the path, or make one with `unikv put`, `load`, `ingest` or `import`",
            ),
            _ => failure,
        }
    }

    fn from_io(error: &io::Error) -> Failure {
        let full = matches!(
            error.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
        );
        let code = if full { Code::DiskFull } else { Code::Io };
        Failure::new(code, error.to_string())
    }

    /// The same failure, with its place in the input or what was being done.
    pub fn at(self, place: &str) -> Failure {
        self.with(|failed| {
            failed.place = Some(match &failed.place {
                Some(within) => format!("{place}: {within}"),
                None => place.to_owned(),
            });
        })
    }

    /// The same failure, with what to do.
    pub fn remedy(self, remedy: impl Into<String>) -> Failure {
        self.with(|failed| failed.remedy = Some(remedy.into()))
    }

    /// The same failure, of a file or a directory.
    pub fn in_file(self, file: impl Into<PathBuf>) -> Failure {
        self.with(|failed| failed.file = Some(file.into()))
    }

    fn with(mut self, change: impl FnOnce(&mut Failed)) -> Failure {
        if let Failure::Failed(failed) = &mut self {
            change(failed);
        }
        self
    }
}

/// Whether the cause of an error is a file system or a directory that this process only reads.
fn may_not_write(error: &unikv::Error) -> bool {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref());
    cause.is_some_and(|cause: &io::Error| {
        let kind = cause.kind();
        [
            io::ErrorKind::ReadOnlyFilesystem,
            io::ErrorKind::PermissionDenied,
        ]
        .contains(&kind)
    })
}

impl From<unikv::Error> for Failure {
    fn from(error: unikv::Error) -> Failure {
        let code = match error.kind() {
            ErrorKind::InvalidArgument => Code::InvalidArgument,
            ErrorKind::Corruption => Code::Corruption,
            ErrorKind::DiskFull => Code::DiskFull,
            ErrorKind::Locked => Code::Locked,
            ErrorKind::NotFound | ErrorKind::Incompatible => Code::NoDatabase,
            ErrorKind::WritesSuspended => Code::WritesSuspended,
            ErrorKind::Closed => Code::Closed,
            ErrorKind::Internal => Code::Internal,
            ErrorKind::NoSuchKeyspace => Code::NoKeyspace,
            ErrorKind::HistoryGone => Code::HistoryGone,
            _ => Code::Io,
        };
        Failure::Failed(Box::new(Failed {
            code,
            kind: error.kind().name(),
            place: None,
            file: error.file().map(Path::to_owned),
            offset: error.offset(),
            what: error.what().to_owned(),
            remedy: Some(error.remedy().to_owned()),
            may_not_write: may_not_write(&error),
        }))
    }
}

impl From<unikv_bench::Failure> for Failure {
    fn from(failure: unikv_bench::Failure) -> Failure {
        use unikv_bench::Failure as Bench;
        match failure {
            Bench::Invalid(message) => Failure::invalid(message),
            Bench::Verification(message) => Failure::verification(message),
            Bench::File(name, error) => Failure::file(name, &error),
            Bench::Io(error) => error.into(),
            Bench::Engine(error) => match error.downcast::<unikv::Error>() {
                Ok(error) => (*error).into(),
                Err(error) => Failure::new(Code::Io, error.to_string()),
            },
            Bench::InPhase(phase, failure) => Failure::from(*failure).at(&format!("phase {phase}")),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::BrokenPipe,
            // Files that are written have their errors from elsewhere.
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                let failure = Failure::from_io(&error).at("standard output");
                failure.remedy("free space where it goes, then retry")
            }
            _ => Failure::from_io(&error),
        }
    }
}

/// The status of a command that has found all well, or else `otherwise`, once that is printed: the
/// same where the reader of it has left.
pub fn found(is_well: bool, otherwise: Code, printed: io::Result<()>) -> Outcome {
    match printed {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ if is_well => Ok(Code::Success),
        _ => Ok(otherwise),
    }
}

/// A command line that clap refuses.
impl From<&clap::Error> for Failure {
    fn from(error: &clap::Error) -> Failure {
        let text = error.to_string();
        let what = text.strip_prefix("error: ").unwrap_or(&text);
        let what = what.split("\n\n").next().unwrap_or_default();
        let words: Vec<_> = what.split_whitespace().collect();
        Failure::new(Code::Usage, words.join(" ")).remedy("see `unikv help`")
    }
}

/// Prints what is to be known of a failure, and gives the status of the process.
pub fn status(outcome: Outcome, json: bool) -> ExitCode {
    let code = match outcome {
        Ok(code) => code,
        Err(Failure::BrokenPipe) => Code::Success,
        Err(Failure::Failed(failed)) => {
            print_failure(&failed, json);
            failed.code
        }
    };
    ExitCode::from(code as u8)
}
