//! Why a run ended early.

use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::io;

/// Why a run ended early. What the engine under test has said is kept as it is.
#[derive(Debug)]
pub enum Failure {
    /// What was asked for cannot be done.
    Invalid(String),
    /// What was read is not what was written.
    Verification(String),
    /// An operation on this file, which is not one of the engine, failed.
    File(String, io::Error),
    /// Output, or a look at the system, failed.
    Io(io::Error),
    /// The engine under test has refused or failed.
    Engine(Box<dyn Error + Send + Sync>),
    /// Any of these, in this phase.
    InPhase(String, Box<Failure>),
}

impl Failure {
    /// What was asked for cannot be done.
    pub fn invalid(message: impl Into<String>) -> Failure {
        Failure::Invalid(message.into())
    }

    /// A record read is not the record written.
    pub fn verification(message: impl Into<String>) -> Failure {
        Failure::Verification(message.into())
    }

    /// An operation on the file `name`, which is not a file of the engine, failed.
    pub fn file(name: impl Display, error: io::Error) -> Failure {
        Failure::File(name.to_string(), error)
    }

    /// What the engine under test has said.
    #[cold]
    pub fn engine(error: impl Into<Box<dyn Error + Send + Sync>>) -> Failure {
        Failure::Engine(error.into())
    }

    /// The same, with the phase in which it happened.
    #[must_use]
    pub fn in_phase(self, phase: &str) -> Failure {
        Failure::InPhase(phase.to_owned(), Box::new(self))
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Invalid(message) | Failure::Verification(message) => f.write_str(message),
            Failure::File(name, error) => write!(f, "{name}: {error}"),
            Failure::Io(error) => error.fmt(f),
            Failure::Engine(error) => error.fmt(f),
            Failure::InPhase(phase, failure) => write!(f, "phase {phase}: {failure}"),
        }
    }
}

impl Error for Failure {}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Io(error)
    }
}
