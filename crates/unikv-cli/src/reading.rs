//! A database that a command only reads: followed, so that it takes no lock and writes nothing,
//! whether or not another process has it open.
//!
//! A secondary shows what is visible at the moment at which the command begins. For copies, which
//! are to have the history of the database, it is opened if nobody else has it.

use crate::args::{DirArg, KeyspaceArg};
use crate::exit::{Code, Failure};
use std::path::Path;
use unikv::backup::{Made, Repository};
use unikv::{Checkpoint, Db, PartitionStats, Secondary, SecondaryOptions, Snapshot};

/// Follows the database that is there.
pub fn open_secondary(dir: &DirArg) -> Result<Secondary, Failure> {
    Db::open_secondary(&dir.dir, SecondaryOptions::default()).map_err(Failure::opening)
}

pub enum Reading {
    Opened(Db),
    Followed(Secondary),
}

impl Reading {
    /// Follows the database that is there.
    pub fn open(dir: &DirArg) -> Result<Reading, Failure> {
        open_secondary(dir).map(Reading::Followed)
    }

    /// Opens the database that is there, to copy it.
    pub fn open_to_copy(dir: &DirArg) -> Result<Reading, Failure> {
        match dir.open_existing() {
            Ok(db) => Ok(Reading::Opened(db)),
            // Another process has it, or this one may not write there.
            Err(Failure::Failed(failed)) if failed.code == Code::Locked || failed.may_not_write => {
                let followed =
                    open_secondary(dir).map_err(|failure| failure.at(&failed.to_string()));
                followed.map(Reading::Followed)
            }
            Err(failure) => Err(failure),
        }
    }

    /// The names of all keyspaces, in the order in which they were made.
    pub fn keyspaces(&self) -> Vec<String> {
        match self {
            Reading::Opened(db) => db.keyspaces(),
            Reading::Followed(secondary) => secondary.keyspaces(),
        }
    }

    /// The keyspace of this name as it is now.
    pub fn keyspace(&self, name: &str) -> Result<Snapshot, Failure> {
        let found = match self {
            Reading::Opened(db) => db.find_keyspace(name).map(|found| found.snapshot()),
            Reading::Followed(secondary) => secondary.find_keyspace(name),
        };
        found.ok_or_else(|| Failure::no_keyspace(name))
    }

    /// The keyspace that the command line names.
    pub fn find(&self, keyspace: &KeyspaceArg) -> Result<Snapshot, Failure> {
        self.keyspace(&keyspace.keyspace)
    }

    /// The figures of the partitions.
    pub fn partitions(&self) -> Vec<PartitionStats> {
        match self {
            Reading::Opened(db) => db.stats().partitions,
            Reading::Followed(secondary) => secondary.stats().partitions,
        }
    }

    /// Makes a checkpoint of it in the new directory `dest`.
    pub fn checkpoint(&self, dest: &Path) -> unikv::Result<Checkpoint> {
        match self {
            Reading::Opened(db) => db.checkpoint(dest),
            Reading::Followed(secondary) => secondary.checkpoint(dest),
        }
    }

    /// Makes a backup of it.
    pub fn back_up(&self, repository: &Repository) -> unikv::Result<Made> {
        match self {
            Reading::Opened(db) => repository.back_up(db),
            Reading::Followed(secondary) => repository.back_up_secondary(secondary),
        }
    }

    /// Ends it. No snapshot of it is needed any more.
    pub fn close(self) -> Result<(), Failure> {
        match self {
            Reading::Opened(db) => Ok(db.close().map(drop)?),
            Reading::Followed(_) => Ok(()),
        }
    }
}
