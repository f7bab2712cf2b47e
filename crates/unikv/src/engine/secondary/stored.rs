//! The figures of the database itself, as its files show them.

use super::Follow;
use crate::base::file_names;
use crate::base::keys::PartitionId;
use crate::engine::catalog::{PartitionFigures, Targets};
use crate::engine::space::garbage::GarbageStats;
use crate::engine::stats::holders::DueJob;
use crate::engine::stats::{Stats, lifetime};
use crate::error::{Error, Result};
use crate::jobs::plan::facts::Gone;
use crate::jobs::plan::{COLLECT, Facts, Why, rules};
use crate::options::EffectiveOptions;
use std::path::Path;

impl Follow {
    /// Sizes, and what was counted since the creation, of the state that is shown. What only the
    /// process that writes knows is 0.
    pub(crate) fn database_stats(&self) -> Result<Stats> {
        let core = &self.shared.core;
        if !core.process.is_this() {
            return Ok(Stats::default());
        }
        let (store, view) = (&core.store, self.shown().read.view.load_full());
        let vfs = &store.env().vfs;
        // A file that has gone since takes nothing.
        let len = |name: &str| vfs.len(&store.dir().join(name)).unwrap_or(0);
        let names = vfs.list(store.dir());
        let mut names = names.map_err(|e| Error::io("list", store.dir(), e))?;
        names.retain(|name| file_names::parse(name).is_some());
        let version = &view.version;
        let mut stats = Stats {
            memory: core.memory_stats(),
            memtable_bytes: view.memtable.table.bytes() as u64,
            sealed_memtables: view.sealed.len(),
            ballast_bytes: len(file_names::BALLAST),
            disk_bytes: names.iter().map(|name| len(name)).sum(),
            expired_kept_bytes: self.shared.space.expired_kept_bytes(version),
            expires: version.expires(),
            lifetime: lifetime::of(version, Path::new(file_names::CURRENT))?,
            ..Stats::default()
        };
        stats.add_version(version);
        Ok(stats)
    }

    /// What a collection that somebody asked for would do.
    pub(crate) fn garbage(&self) -> GarbageStats {
        let view = self.shown().read.view.load_full();
        self.shared.space.garbage(&view.version)
    }

    /// What an opening would have to do by what the files say.
    pub(crate) fn due_jobs(&self) -> Vec<DueJob> {
        let view = self.shown().read.view.load_full();
        let (version, space) = (&view.version, &self.shared.space);
        let targets = Targets::resumed(version, space.generation_limits(version));
        let limits = space.partition_limits();
        let figures = PartitionFigures::new(version, &targets, limits, usize::MAX);
        let gone = version.gone_partitions().filter(|p| !p.is_empty());
        let facts = Facts {
            partitions: figures.partitions(),
            most_partition_bytes: limits.data_bytes,
            gone: Gone {
                full: gone.map(|p| p.id).collect(),
                ..Gone::default()
            },
            ..Facts::default()
        };
        let mut due: Vec<_> = rules::due_by_files(&facts)
            .map(|(name, of, why)| DueJob::new(name, &of, why))
            .collect();
        let garbage = space.garbage(version);
        if garbage.dead_bytes > garbage.alone_from_bytes {
            let why = Why::Garbage {
                bytes: garbage.dead_bytes,
                most: garbage.alone_from_bytes,
            };
            let of: Vec<_> = garbage
                .next_partition
                .map(PartitionId)
                .into_iter()
                .collect();
            let at = due
                .iter()
                .position(|due| due.job == rules::join::JOIN_LAST.name);
            due.insert(at.unwrap_or(due.len()), DueJob::new(COLLECT, &of, why));
        }
        due
    }

    /// The options with which the database is opened if nothing else is set.
    pub(crate) fn options(&self) -> &EffectiveOptions {
        &self.shared.stored_options
    }
}
