//! What the engine did during a run, for tests that would mean nothing had it done nothing.

use super::Runner;
use unikv::Db;

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
    /// Merges that clustered values for scans.
    pub clusterings: u64,
    /// Values written to record files of their own.
    pub large: u64,
    /// Ingests.
    pub ingests: u64,
    /// Garbage collections that ran alone.
    pub gcs: u64,
    /// Bytes that users wrote.
    pub written_bytes: u64,
    /// Bytes that merges copied where they cluster values.
    pub clustered_bytes: u64,
    /// Bytes that merges copied where they do not cluster values: survivors of collections that
    /// rode on them.
    pub ridden_bytes: u64,
    /// Records of other keys that lookups met in a hash index, and those in one that an opening had
    /// made.
    pub collisions: u64,
    /// See there.
    pub rebuilt_collisions: u64,
    /// Refreshes of a secondary that showed what the database did.
    pub followed: u64,
    /// Exports that were made, and imports that were refused or done.
    pub exports: u64,
    /// See there.
    pub imports: u64,
    /// Changes that copies have applied.
    pub changes: u64,
    /// Tokens that were good after another opening.
    pub tokens_held: u64,
    /// Tokens that were refused because they were late.
    pub histories_gone: u64,
    /// What snapshots and iterators that were read later have outlived.
    pub outlived: Outlived,
}

/// How many held snapshots and iterators were right when they were read after such an event.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outlived {
    /// A split.
    pub splits: u64,
    /// A join.
    pub joins: u64,
    /// A garbage collection that ran alone.
    pub gcs: u64,
    /// A merge of keys for scans.
    pub scan_merges: u64,
}

impl Outlived {
    /// What an engine has done since it was opened.
    pub(super) fn events(db: &Db) -> Outlived {
        let stats = db.stats();
        Outlived {
            splits: stats.splits,
            joins: stats.joins,
            gcs: stats.gcs,
            scan_merges: stats.scan_merges,
        }
    }

    fn add(&mut self, other: Outlived) {
        self.splits += other.splits;
        self.joins += other.joins;
        self.gcs += other.gcs;
        self.scan_merges += other.scan_merges;
    }

    /// Whether each has happened at least so often.
    pub fn all_at_least(&self, n: u64) -> bool {
        let all = [self.splits, self.joins, self.gcs, self.scan_merges];
        all.iter().all(|&count| count >= n)
    }
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
        self.written_bytes += other.written_bytes;
        self.clustered_bytes += other.clustered_bytes;
        self.ridden_bytes += other.ridden_bytes;
        self.collisions += other.collisions;
        self.rebuilt_collisions += other.rebuilt_collisions;
        self.followed += other.followed;
        self.exports += other.exports;
        self.imports += other.imports;
        self.changes += other.changes;
        self.tokens_held += other.tokens_held;
        self.histories_gone += other.histories_gone;
        self.outlived.add(other.outlived);
    }
}

impl Runner {
    /// Counts what the engine has done since it was opened.
    pub(super) fn cover(&mut self, db: &Db) {
        let stats = db.stats();
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
            written_bytes: stats.user_bytes_written,
            clustered_bytes: stats.clustered_bytes,
            ridden_bytes: stats.merge_copied_bytes,
            collisions: stats.index_failed_comparisons,
            rebuilt_collisions: match db.recovery().index_records {
                0 => 0,
                _ => stats.index_failed_comparisons,
            },
            ..Coverage::default()
        });
    }

    /// Counts for what was made when the engine had done `before` and has just been read, how often
    /// it has outlived what: for each event once.
    pub(super) fn outlives(&mut self, before: &mut Outlived) {
        let now = Outlived::events(self.db());
        let once = |now: u64, before: &mut u64| {
            let happened = now > *before;
            *before = if happened { u64::MAX } else { *before };
            u64::from(happened)
        };
        self.coverage.outlived.add(Outlived {
            splits: once(now.splits, &mut before.splits),
            joins: once(now.joins, &mut before.joins),
            gcs: once(now.gcs, &mut before.gcs),
            scan_merges: once(now.scan_merges, &mut before.scan_merges),
        });
    }
}
