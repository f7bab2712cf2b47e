//! Opening by what may be there, which the name of the call says in the place of two options.

use crate::boundary::args::{New, Optional, Text};
use crate::boundary::capi;
use crate::leveldb::database::Database;
use crate::leveldb::options::Options;
use unikv::Db;

capi! { functions:
    /// Opens the database in directory `name`, which must be there; NULL on failure. Here and below
    /// `create_if_missing` and `error_if_exists` do not count.
    fn unikv_open_existing(options: Optional<Options>, name: Text; errptr) -> New<Database> {
        New::of(Database::open(options, |_, engine| Db::open_existing(name.path(), engine))?)
    }

    /// Creates a database in directory `name`, which must not hold one, and opens it; NULL on
    /// failure.
    fn unikv_create_new(options: Optional<Options>, name: Text; errptr) -> New<Database> {
        New::of(Database::open(options, |_, engine| Db::create_new(name.path(), engine))?)
    }

    /// Creates a database in the memory of the process, which is gone when it is closed; NULL on
    /// failure. Nothing is read from or written to a disk; checkpoints and exports copy it there.
    fn unikv_open_in_memory(options: Optional<Options>; errptr) -> New<Database> {
        New::of(Database::open(options, |_, engine| Db::in_memory(engine))?)
    }
}
