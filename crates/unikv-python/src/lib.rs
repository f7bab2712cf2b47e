//! The native module `unikv._unikv` of the Python package.
//!
//! Each class holds a handle of the engine; what is better said in Python is in `python/unikv`.
//! - Whatever may wait does so without the lock of the interpreter, and no lock of ours is waited
//!   for with it: so neither can hold up the other (`boundary/waits`).
//! - Keys and values come as bytes-like objects and go as `bytes`. `bytes` are not copied on their
//!   way in; what may change while the engine reads it is (`boundary/args`).
//! - Errors of the engine are raised as the classes of `_errors.py` (`boundary/errors`).
//! - After a close, and in the child of a fork, each call raises an error (`boundary/guard`).

// Who embeds it decides what is printed.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod batch;
mod both_ways;
mod boundary;
mod changes;
mod cursor;
mod database;
mod exports;
mod iterators;
mod keyspace;
mod moments;
mod offline;
mod reads;
mod transaction;
mod writes;

use pyo3::prelude::*;

#[pymodule(name = "_unikv", gil_used = false)]
mod module {
    #[pymodule_export]
    use crate::batch::WriteBatch;
    #[pymodule_export]
    use crate::both_ways::Iterator;
    #[pymodule_export]
    use crate::boundary::guard::note_fork;
    #[pymodule_export]
    use crate::changes::Changes;
    #[pymodule_export]
    use crate::cursor::RawIterator;
    #[pymodule_export]
    use crate::database::Database;
    #[pymodule_export]
    use crate::exports::check_export;
    #[pymodule_export]
    use crate::iterators::Entries;
    #[pymodule_export]
    use crate::keyspace::Keyspace;
    #[pymodule_export]
    use crate::moments::{Secondary, Snapshot};
    #[pymodule_export]
    use crate::offline::{backup_points, check, destroy, exchange, repair, restore};
    #[pymodule_export]
    use crate::reads::Readable;
    #[pymodule_export]
    use crate::transaction::{Transaction, TransactionKeyspace};
    #[pymodule_export]
    use crate::writes::Writable;
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
