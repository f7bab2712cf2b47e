//! Databases that another process writes.

use crate::boundary::args::{New, Optional, Shared, Text};
use crate::boundary::capi;
use crate::leveldb::database::Database;
use crate::leveldb::options::Options;
use std::time::Duration;
use unikv::SecondaryOptions;

capi! { functions:
    /// Opens the database in directory `name` for reading, beside a process that writes it, or
    /// without one. It takes no lock and changes nothing. Reads, iterators, snapshots and keyspaces
    /// that are found serve as of the last `unikv_refresh`; other calls fail. Every `refresh_ms`
    /// milliseconds a thread refreshes it; with 0 none does. Of the options `memory_budget` counts.
    /// It is closed with `unikv_close`. NULL on failure.
    fn unikv_open_secondary(
        options: Optional<Options>, name: Text, refresh_ms: u64; errptr
    ) -> New<Database> {
        let budget = options.and_then(|options| options.memory_budget);
        let mut follow = SecondaryOptions::default();
        if let Some(bytes) = budget {
            follow = follow.memory_budget(bytes);
        }
        if refresh_ms > 0 {
            follow = follow.refresh_every(Duration::from_millis(refresh_ms));
        }
        New::of(Database::open_secondary(name.path(), follow)?)
    }

    /// Has a database that is followed show what its writer has made visible.
    fn unikv_refresh(db: Shared<Database>; errptr) {
        db.secondary()?.refresh()?;
    }

    /// The number of the last write that a followed database shows.
    fn unikv_secondary_seq(db: Shared<Database>; errptr) -> u64 {
        db.secondary()?.seq()
    }

    /// How many writes its writer has made visible since; 0 where there is no writer.
    fn unikv_secondary_lag(db: Shared<Database>; errptr) -> u64 {
        db.secondary()?.stats().lag
    }
}
