//! How much space the files take, and how much of it is garbage. How much there may be: [`limits`].
//!
//! The promise (promise I7) is about keys and values of visible records. What is known of them: key
//! tables count what the newest versions take, and the older ones. What records of the
//! UnsortedStore supersede there is [estimated](crate::jobs::space::hidden).

pub(crate) mod garbage;
pub(crate) mod hidden;
mod limits;
pub(crate) mod tombstones;

pub(crate) use limits::SpaceLimit;

use crate::key_table::{KeyTableMeta, OutlierSum};
use crate::partition::Horizon;
use crate::version::Version;
use crate::version::state::{OBSOLETE_PART, Promise};

/// What the files hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Space {
    /// Bytes of records in value logs, and of what has been merged of tables.
    pub(crate) log_bytes: u64,
    /// Bytes of their key sections and footers, which nobody reads any more: they go with their
    /// files.
    pub(crate) section_bytes: u64,
    /// Those of value logs of which they are no small part. They are garbage; the others are none,
    /// for counting them would set garbage collection on files without any.
    pub(crate) dead_section_bytes: u64,
    /// Bytes of records there that key tables point to.
    pub(crate) live_bytes: u64,
    /// Bytes of key tables, small values included.
    pub(crate) key_table_bytes: u64,
    /// Of both, what versions take that nobody needs any more: older ones, and those that have
    /// expired.
    pub(crate) older_bytes: u64,
    /// The same if there were no snapshots.
    pub(crate) obsolete_bytes_in_all: u64,
    /// Entries of key tables.
    pub(crate) entries: u64,
    /// Keys and values of what key tables hold.
    pub(crate) user_bytes: u64,
    /// What these records may take beyond the factor that is promised.
    pub(crate) frame_bytes: u64,
    /// Of dead records, those in tables that only some of their partitions have merged.
    pub(crate) half_merged_bytes: u64,
    /// Of the garbage, what stays with files that passes leave alone.
    pub(crate) stuck_bytes: u64,
    /// What unmerged records may hide there beyond their own bytes.
    pub(crate) hidden_bytes: u64,
    /// Records in key tables that are much longer than the others.
    pub(crate) outliers: OutlierSum,
    /// Bytes of large values of unmerged records, which `user_bytes` counts as visible.
    pub(crate) unmerged_large_bytes: u64,
    /// Bytes of the UnsortedStores and of their scan runs.
    pub(crate) unsorted_bytes: u64,
    /// Bytes of the newest generation of each partition.
    pub(crate) open_bytes: u64,
    pub(crate) partitions: u64,
    /// Whether anything expires.
    pub(crate) expires: bool,
}

impl Space {
    /// The space of a version, `max_space_amp` being what is promised.
    pub(crate) fn of(version: &Version, horizon: Horizon, max_space_amp: f64) -> Space {
        let (files, partitions) = (version.file_sums(), version.partition_sums());
        let mut space = Space {
            log_bytes: files.log_bytes,
            section_bytes: files.section_bytes,
            dead_section_bytes: files.dead_section_bytes,
            live_bytes: files.live_bytes,
            half_merged_bytes: files.half_merged_bytes,
            unmerged_large_bytes: files.unmerged_large_bytes,
            key_table_bytes: partitions.key_table_bytes,
            entries: partitions.entries,
            outliers: partitions.outliers,
            frame_bytes: partitions.promise.frame_bytes(max_space_amp),
            // All of its versions count, for a user or as garbage.
            user_bytes: partitions.promise.user_bytes + partitions.older_bytes,
            unsorted_bytes: partitions.unsorted_bytes + partitions.run_bytes,
            open_bytes: partitions.open_bytes,
            hidden_bytes: partitions.hidden_bytes,
            partitions: partitions.partitions,
            expires: files.expires || partitions.expires,
            ..Space::default()
        };
        if partitions.may_be_obsolete {
            space.add_obsolete(version, horizon);
        }
        space.user_bytes += space.unmerged_large_bytes;
        space
    }

    /// Separates obsolete versions from those that users may expect. That depends on the time, so
    /// only the tables are known that may have any.
    fn add_obsolete(&mut self, version: &Version, horizon: Horizon) {
        let partitions = version.partitions().where_sums(|sum| sum.may_be_obsolete);
        for table in partitions.flat_map(|p| &p.key_tables) {
            let table = table.meta();
            let all = Promise::of(table).user_bytes + table.older_bytes;
            let obsolete = obsolete_bytes(table, horizon).min(all);
            self.user_bytes = self.user_bytes.saturating_sub(obsolete);
            self.older_bytes += obsolete;
            self.obsolete_bytes_in_all += obsolete_bytes(table, horizon.without_snapshots());
        }
    }

    /// What it would be if there were no snapshots.
    pub(crate) fn without_snapshots(&self) -> Space {
        Space {
            older_bytes: self.obsolete_bytes_in_all,
            user_bytes: self.user_bytes.saturating_sub(self.kept_by_snapshots()),
            ..*self
        }
    }

    /// Bytes of versions that would be garbage if there were no snapshots.
    pub(crate) fn kept_by_snapshots(&self) -> u64 {
        self.obsolete_bytes_in_all.saturating_sub(self.older_bytes)
    }

    /// Bytes of all record files and key tables.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.log_bytes + self.section_bytes + self.key_table_bytes + self.unsorted_bytes
    }

    /// Bytes of garbage.
    pub(crate) fn dead_bytes(&self) -> u64 {
        let dead = self.log_bytes.saturating_sub(self.live_bytes);
        dead + self.dead_section_bytes + self.older_bytes
    }

    /// Bytes of garbage that passes may reclaim, now or later.
    pub(crate) fn reclaimable_bytes(&self) -> u64 {
        self.dead_bytes().saturating_sub(self.stuck_bytes)
    }
}

/// Bytes of versions in a key table that nobody needs any more, if they are enough to be worth its
/// rewriting.
pub(crate) fn obsolete_bytes(table: &KeyTableMeta, horizon: Horizon) -> u64 {
    let is_older = horizon.oldest.is_none_or(|oldest| oldest >= table.max_seq);
    let older = if is_older { table.older_bytes } else { 0 };
    let expired = table.expiring.expired_bytes(horizon.time_ms);
    let bytes = older.saturating_add(expired);
    if bytes > table.len / OBSOLETE_PART {
        bytes
    } else {
        0
    }
}

/// Whether a key table has versions that nobody needs any more, and enough of them.
pub(crate) fn is_obsolete(table: &KeyTableMeta, horizon: Horizon) -> bool {
    obsolete_bytes(table, horizon) > 0
}
