//! How a database is followed.

use super::{EffectiveOptions, Options, StoredOptions, Tuning};
use crate::error::{Error, Result};
use crate::vfs::Env;
use std::time::Duration;

/// How [`Db::open_secondary`](crate::Db::open_secondary) opens a secondary: defaults that serve,
/// and methods that change one each.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct SecondaryOptions {
    pub(crate) memory_budget: Option<u64>,
    pub(crate) refresh_every: Option<Duration>,
    pub(crate) env: Option<Env>,
}

impl SecondaryOptions {
    /// Bytes of memory that the secondary may take for its cache, its hash indexes and its
    /// memtables, which hold what the writer has not flushed; at least 64 KiB. A secondary that
    /// would need more for these memtables is refused, and so is a refresh, by an error that names
    /// what is needed. By default as much as the database has stored for its writer, and for the
    /// memtables what they need.
    pub fn memory_budget(mut self, bytes: u64) -> SecondaryOptions {
        self.memory_budget = Some(bytes);
        self
    }

    /// Has a thread of the secondary's own refresh it this often, so that it shows what is new
    /// without a call of [`Secondary::refresh`](crate::Secondary::refresh). By default there is no
    /// such thread.
    pub fn refresh_every(mut self, period: Duration) -> SecondaryOptions {
        self.refresh_every = Some(period);
        self
    }

    /// The file system, the threads and the clock of the secondary, by default the system's.
    pub fn env(mut self, env: Env) -> SecondaryOptions {
        self.env = Some(env);
        self
    }

    pub(crate) fn given_env(&self) -> Env {
        self.env.clone().unwrap_or_else(Env::os)
    }

    /// The options in effect, for a database that has stored these.
    pub(crate) fn resolve(&self, stored: &StoredOptions) -> Result<EffectiveOptions> {
        if self.refresh_every.is_some_and(|period| period.is_zero()) {
            let what = "option `refresh_every` is a period of zero";
            return Err(Error::invalid(what, "set a longer period"));
        }
        // The writer's, but for the memory: indexes are as large as the writer's UnsortedStore is.
        let writer = Options::default().resolve(stored)?;
        let options = Options::default()
            .memory_budget(self.memory_budget.unwrap_or(writer.memory_budget))
            .tuning(
                Tuning::default()
                    .memtable_bytes(writer.memtable_bytes)
                    .unsorted_bytes(writer.unsorted_bytes)
                    .partition_bytes(writer.partition_bytes),
            );
        options.resolve(stored)
    }
}
