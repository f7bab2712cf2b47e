//! What the engine did during a run, for tests that would mean nothing had it done nothing.

use super::Runner;
use unikv::{Clustering, Db};

/// What the engine did during a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Coverage {
    /// Memtables that became tables.
    pub flushes: u64,
    /// Merges into the SortedStore.
    pub merges: u64,
    /// Splits.
    pub splits: u64,
    /// Joins.
    pub joins: u64,
    /// Merges of keys for scans.
    pub scan_merges: u64,
    /// Merges that clustered values for which scans had paid.
    pub clusterings: u64,
    /// Values written to record files of their own.
    pub large: u64,
    /// Ingests.
    pub ingests: u64,
    /// Garbage collections that ran alone.
    pub gcs: u64,
    /// Bytes that merges copied where they cluster values.
    pub clustered_bytes: u64,
    /// Bytes that merges copied where they do not cluster values: survivors of collections that rode
    /// on them.
    pub ridden_bytes: u64,
}

impl Coverage {
    /// Adds what another run did.
    pub fn add(&mut self, other: Coverage) {
        self.flushes += other.flushes;
        self.merges += other.merges;
        self.splits += other.splits;
        self.joins += other.joins;
        self.scan_merges += other.scan_merges;
        self.clusterings += other.clusterings;
        self.large += other.large;
        self.ingests += other.ingests;
        self.gcs += other.gcs;
        self.clustered_bytes += other.clustered_bytes;
        self.ridden_bytes += other.ridden_bytes;
    }
}

impl Runner {
    /// Counts what the engine has done since it was opened.
    pub(super) fn cover(&mut self, db: &Db) {
        let stats = db.stats();
        let clusters = match self.config.clustering {
            Clustering::Never => false,
            Clustering::EveryMerge => true,
            Clustering::ByScans => stats.clusterings > 0,
        };
        let copied = stats.merge_copied_bytes;
        let (clustered_bytes, ridden_bytes) = if clusters { (copied, 0) } else { (0, copied) };
        self.coverage.add(Coverage {
            flushes: stats.flushes,
            merges: stats.merges,
            splits: stats.splits,
            joins: stats.joins,
            scan_merges: stats.scan_merges,
            clusterings: stats.clusterings,
            large: stats.large_values,
            ingests: stats.ingests,
            gcs: stats.gcs,
            clustered_bytes,
            ridden_bytes,
        });
    }
}
