//! Exit statuses: what a script can distinguish without reading messages.

use std::io::{self, Write};
use std::process::ExitCode;
use unikv::ErrorKind;

/// The end of `unikv --help`. Must list every [`Code`].
pub const HELP: &str = "\
Exit status:
   0  success
   1  get, ttl, expire, persist, shell: a key is not there
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
  15  follow: the changes after the token are not kept any more, or of another history";

/// The exit status of the process. Clap itself uses 2 for wrong usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    Success = 0,
    KeyNotFound = 1,
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

/// Why a command ended early.
#[derive(Debug)]
pub enum Failure {
    /// The reader of our standard output has seen enough: a clean end.
    BrokenPipe,
    /// Something for the user to know.
    Failed { code: Code, message: String },
}

/// How a command ends.
pub type Outcome = Result<Code, Failure>;

impl Failure {
    /// The input or the arguments are wrong in a way that clap cannot see.
    pub fn invalid(message: impl Into<String>) -> Failure {
        Failure::Failed {
            code: Code::InvalidArgument,
            message: message.into(),
        }
    }

    /// The database has no keyspace of this name.
    pub fn no_keyspace(name: &str) -> Failure {
        Failure::Failed {
            code: Code::NoKeyspace,
            message: format!(
                "there is no keyspace {name:?} (make it with `unikv keyspace create`, or choose one \
                 of `unikv keyspace list`)"
            ),
        }
    }

    /// The same failure, with its place in the input.
    pub fn at(self, place: &str) -> Failure {
        match self {
            Failure::BrokenPipe => Failure::BrokenPipe,
            Failure::Failed { code, message } => Failure::Failed {
                code,
                message: format!("{place}: {message}"),
            },
        }
    }

    /// A record read is not the record written.
    pub fn verification(message: impl Into<String>) -> Failure {
        Failure::Failed {
            code: Code::VerificationFailed,
            message: message.into(),
        }
    }

    /// An operation on the file `name`, which is not a file of the engine, failed.
    pub fn file(name: impl std::fmt::Display, error: &io::Error) -> Failure {
        Failure::Failed {
            code: code_of_io(error),
            message: format!("{name}: {error}"),
        }
    }
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
        // The option has no place on the command line.
        let creation = "allow creation with `create_if_missing`";
        let here = "make one with `unikv put`, `load`, `ingest` or `import`";
        Failure::Failed {
            code,
            message: error.to_string().replace(creation, here),
        }
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
                Err(error) => Failure::Failed {
                    code: Code::Io,
                    message: error.to_string(),
                },
            },
            Bench::InPhase(phase, failure) => Failure::from(*failure).at(&format!("phase {phase}")),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::BrokenPipe,
            _ => Failure::Failed {
                code: code_of_io(&error),
                message: error.to_string(),
            },
        }
    }
}

fn code_of_io(error: &io::Error) -> Code {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Code::DiskFull,
        _ => Code::Io,
    }
}

/// Prints the message of a failure and gives the status of the process.
pub fn status(outcome: Outcome) -> ExitCode {
    let code = match outcome {
        Ok(code) => code,
        Err(Failure::BrokenPipe) => Code::Success,
        Err(Failure::Failed { code, message }) => {
            // Nothing is left to write to when standard error is gone, too.
            let _ = writeln!(io::stderr(), "unikv: {message}");
            code
        }
    };
    ExitCode::from(code as u8)
}
