//! What is done with a database as a whole.

use crate::db::Db;
use crate::engine::stats::report::CheckReport;
use crate::error::Result;
use crate::offline::repair::report::RepairReport;
use crate::offline::repair::{self, RepairOptions};
use crate::vfs::Env;
use std::path::Path;

impl Db {
    /// Reads and verifies every byte of the database in `dir`: every checksum, pointer, order and
    /// count. Changes nothing, and takes no lock. Of a database that somebody has open it checks
    /// what is visible, as a [`Secondary`](crate::Secondary) does; a note of the report says so.
    ///
    /// # Errors
    /// Only for what keeps the check from running (`NotFound`, `Incompatible` if it is another
    /// program's, of a newer release or the unfinished output of a repair, `Io` for want of
    /// descriptors; on a file system without pages that processes share `Locked` if somebody has it
    /// open); what is wrong with the database is in the report.
    pub fn check(dir: impl AsRef<Path>) -> Result<CheckReport> {
        Env::os().check(dir)
    }

    /// Salvages the damaged database in `dir`, which nobody may have open, into a new one in `to`,
    /// a directory that is empty or does not exist. The damaged directory is not changed. When this
    /// returns, the new database is complete, durable and checked; until then nobody can open it.
    ///
    /// The report says what was saved and what is lost; [`RepairReport::is_complete`] whether that
    /// is nothing. A database that is not damaged is copied.
    ///
    /// # Errors
    /// `NotFound` if there is no database, `Incompatible` if it is another program's, of a newer
    /// release or the unfinished output of a repair, `Locked`, `InvalidArgument` if `to` is not
    /// empty, `DiskFull` and `Io` for the target, `Corruption` if what was written there does not
    /// verify. After an error what was written is removed; where that is not possible, `to` cannot
    /// be opened, and another repair into it begins again. (If the very last step failed, and the
    /// disk then takes nothing more, what is in `to` is complete.)
    ///
    /// ```no_run
    /// # fn main() -> unikv::Result<()> {
    /// use unikv::{Db, RepairOptions};
    /// let report = Db::repair("db", "db.repaired", &RepairOptions::default())?;
    /// println!("{} records saved, {} lost", report.saved, report.lost);
    /// # Ok(())
    /// # }
    /// ```
    pub fn repair(
        dir: impl AsRef<Path>,
        to: impl AsRef<Path>,
        options: &RepairOptions,
    ) -> Result<RepairReport> {
        repair::repair(dir.as_ref(), to.as_ref(), options)
    }

    /// Removes the database in `dir`, which nobody may have open, and the directory if nothing else
    /// is in it. A directory without a database is left alone: without `CURRENT`, one in which no
    /// numbered file begins as ours do.
    ///
    /// # Errors
    /// `Locked`; `Incompatible` if the database is another program's; `Io`. After `Io` a part may
    /// be removed already, and a second call removes the rest.
    pub fn destroy(dir: impl AsRef<Path>) -> Result<()> {
        Env::os().destroy(dir)
    }
}

impl Env {
    /// Verifies a database, as [`Db::check`](crate::Db::check) does. Errors as there.
    pub fn check(&self, dir: impl AsRef<Path>) -> Result<CheckReport> {
        crate::offline::check::check(self, dir.as_ref())
    }

    /// Removes a database, as [`Db::destroy`](crate::Db::destroy) does. Errors as there.
    pub fn destroy(&self, dir: impl AsRef<Path>) -> Result<()> {
        crate::offline::destroy::destroy(self, dir.as_ref())
    }
}
