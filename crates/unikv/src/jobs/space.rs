//! How much space the files take, how much of it is garbage, and how much garbage there may be.
//!
//! The promise (design I7) is about keys and values of visible records. What is known of them: key
//! tables count the records and inline values of the newest versions, and those of older ones. What
//! is not known is what records of the UnsortedStore supersede there. One that is about as large as
//! what it supersedes does no harm beyond its own bytes, which `unsorted_bytes` bounds; so only what
//! they may hide *beyond* their own size is estimated, as if each, tombstones above all, hid a record
//! of mean size.

use super::gc::{Pressure, record_bytes};
use super::half_merged::HalfMerged;
use crate::base::keys::{KEYSPACE_PREFIX_LEN, SeqNo};
use crate::base::seeded::seeded;
use crate::key_table::KeyTableMeta;
use crate::record::frame_len;
use crate::version::{Partition, Version};

/// What garbage collection is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpaceLimit {
    /// Bytes on disk over keys and values.
    pub(crate) max_space_amp: f64,
    /// Garbage that is not worth a pass.
    pub(crate) floor_bytes: u64,
    /// The oldest live snapshot.
    pub(crate) oldest: Option<SeqNo>,
    /// Bytes that jobs may take beside the rest, the UnsortedStores among them.
    pub(crate) job_bytes: u64,
    /// Live bytes that a pass may copy in any case: see [`Space::pass_bytes`].
    pub(crate) pass_bytes: u64,
}

/// The part of the garbage that `max_space_amp` allows of records that may always be there: where
/// frames and keys take more than it leaves, no pass could bring space into bounds.
const LEAST_ALLOWED: f64 = 0.5;
/// The share of it to which a pass may go while nobody writes.
const SHARE_AT_REST: f64 = 0.85;
/// The victims of a collection may need this part of the garbage that is allowed.
const PASS_PART: u64 = 8;
/// Live bytes in the mean of one partition that are worth a pass.
const LEAST_COPIED: u64 = 2 << 20;

/// What the files hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Space {
    /// Bytes of records in value logs, and of what has been merged of tables. Key sections and footers of
    /// value logs go with their files, and are no garbage: counting them would set garbage collection on
    /// files without any.
    pub(crate) log_bytes: u64,
    /// Those key sections and footers.
    pub(crate) section_bytes: u64,
    /// Bytes of records there that key tables point to.
    pub(crate) live_bytes: u64,
    /// Bytes of key tables, small values included.
    pub(crate) key_table_bytes: u64,
    /// Of both, what versions take that no snapshot needs any more.
    pub(crate) older_bytes: u64,
    /// The same if there were no snapshots.
    pub(crate) older_bytes_in_all: u64,
    /// Entries of key tables.
    pub(crate) entries: u64,
    /// Keys and values of what key tables hold, about.
    pub(crate) user_bytes: u64,
    /// Of dead records, those in tables that only some of their partitions have merged.
    pub(crate) half_merged_bytes: u64,
    /// What unmerged records may hide there beyond their own bytes.
    pub(crate) hidden_bytes: u64,
    /// Bytes of the UnsortedStores and of their scan runs.
    pub(crate) unsorted_bytes: u64,
    pub(crate) partitions: u64,
}

impl Space {
    /// The space of a version; `oldest` is the oldest live snapshot.
    pub(crate) fn of(version: &Version, oldest: Option<SeqNo>) -> Space {
        let live = version.live();
        let half_merged = HalfMerged::of(version);
        let mut space = Space {
            half_merged_bytes: half_merged.dead_bytes(),
            ..Space::default()
        };
        for file in version.record_files().iter().map(|file| file.as_ref()) {
            let meta = file.meta();
            if let Some(merged) = half_merged.of_table(meta.number) {
                space.log_bytes += merged.record_bytes;
                space.section_bytes += merged.section_bytes;
                space.live_bytes += merged.live_bytes;
                // Large values of unmerged records are in value logs already.
                space.user_bytes += meta.refs.iter().map(|r| r.bytes).sum::<u64>();
            } else {
                space.log_bytes += record_bytes(file);
                space.section_bytes += meta.len.saturating_sub(record_bytes(file));
                space.live_bytes += live.get(&meta.number).map_or(0, |live| live.bytes);
            }
        }
        for table in version.key_tables().map(|table| table.meta()) {
            space.key_table_bytes += table.len;
            space.user_bytes += user_bytes(table);
            space.entries += table.count;
            if is_outlived(table, oldest) {
                space.older_bytes += table.older_bytes;
            }
            if is_outlived(table, None) {
                space.older_bytes_in_all += table.older_bytes;
            }
        }
        for partition in version.partitions() {
            space.partitions += 1;
            space.unsorted_bytes += partition.unsorted_bytes();
            let records = partition.generations.iter().map(|g| g.records()).sum();
            space.hidden_bytes += hidden_by(partition, records, partition.unsorted_bytes());
        }
        space.unsorted_bytes += version.scan_runs().map(|run| run.bytes()).sum::<u64>();
        space.user_bytes = space.user_bytes.saturating_sub(space.older_bytes);
        space
    }

    /// What it would be if there were no snapshots.
    pub(crate) fn without_snapshots(&self) -> Space {
        Space {
            older_bytes: self.older_bytes_in_all,
            user_bytes: self.user_bytes.saturating_sub(self.kept_by_snapshots()),
            ..*self
        }
    }

    /// Bytes of versions that would be garbage if there were no snapshots.
    pub(crate) fn kept_by_snapshots(&self) -> u64 {
        self.older_bytes_in_all.saturating_sub(self.older_bytes)
    }

    /// Bytes of all record files and key tables.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.log_bytes + self.section_bytes + self.key_table_bytes + self.unsorted_bytes
    }

    /// Bytes of garbage.
    pub(crate) fn dead_bytes(&self) -> u64 {
        let dead = self.log_bytes.saturating_sub(self.live_bytes);
        dead + self.older_bytes
    }

    /// Bytes of garbage within the limit.
    pub(crate) fn allowed_garbage(&self, limit: SpaceLimit) -> u64 {
        let stored =
            (self.live_bytes + self.key_table_bytes).saturating_sub(self.older_bytes) as f64;
        let allowed = self.user_bytes as f64 * limit.max_space_amp;
        let least = stored * (limit.max_space_amp - 1.0) * LEAST_ALLOWED;
        (allowed - stored - self.section_bytes as f64).max(least) as u64
    }

    /// Garbage at which reclaiming begins under `pressure`.
    pub(crate) fn begins_at(&self, limit: SpaceLimit, pressure: Pressure) -> u64 {
        (self.garbage_beside_jobs(limit) * pressure.share()) as u64
    }

    /// Garbage to which a pass may go that ends when somebody writes, and that lets go of its victims at once.
    /// It may use what is kept free for passes, or what has just not been enough for a collection would keep
    /// values apart for as long as nobody writes.
    pub(crate) fn most_at_rest(&self, limit: SpaceLimit) -> u64 {
        (self.garbage_beside_jobs(limit) * SHARE_AT_REST) as u64
    }

    /// Bytes of garbage within the limit for value logs. UnsortedStores that take more than is set apart for
    /// jobs leave less, and so does what they hide.
    fn garbage_beside_jobs(&self, limit: SpaceLimit) -> f64 {
        let allowed = self.allowed_garbage(limit);
        let beyond = self.unsorted_bytes.saturating_sub(limit.job_bytes);
        let hidden = self.hidden_bytes as f64 * limit.max_space_amp;
        let allowed = allowed
            .saturating_sub(beyond.saturating_add(hidden as u64))
            .max(allowed / 4);
        allowed as f64
    }

    /// Bytes to reclaim under `pressure`; zero while there is little enough garbage. Half of what may be
    /// reclaimed is left, so that the next pass finds files worth it. What is in half-merged tables cannot
    /// be reclaimed yet: making up for all of it would take files in which nearly everything lives.
    pub(crate) fn excess(&self, limit: SpaceLimit, pressure: Pressure) -> u64 {
        let begin = self.begins_at(limit, pressure);
        let dead = self.dead_bytes();
        if dead <= begin.max(limit.floor_bytes) || seeded!(GcNever) {
            0
        } else {
            let kept = self.half_merged_bytes.min(begin);
            dead - kept - (begin - kept) / 2
        }
    }

    /// Live bytes that the victims of a collection have at most, beyond the first of them. Before any of
    /// them is freed, a pass through each partition has written all of that anew, so it is space that is
    /// needed beside them; but each pass also writes its partition's key tables anew and commits an edit,
    /// and what it copies should be worth that, or many partitions would keep it busy with nothing else.
    pub(crate) fn pass_bytes(&self, limit: SpaceLimit) -> u64 {
        let keys = self.key_table_bytes.min(self.live_bytes);
        let worth = keys.max(self.partitions * LEAST_COPIED);
        worth
            .min(self.allowed_garbage(limit) / PASS_PART)
            .max(limit.pass_bytes)
    }

    /// How much of the garbage that may be there, what jobs may take included, is there at worst, if
    /// `hidden` bytes more than known are hidden. What a pass writes before it lets go of its victims,
    /// records and key tables, is set apart for it.
    pub(crate) fn fill(&self, limit: SpaceLimit, hidden: u64) -> f64 {
        let of_a_pass = self.pass_bytes(limit) as f64 * 1.25;
        let jobs = (limit.job_bytes + limit.floor_bytes) as f64 - of_a_pass;
        let stored = (self.live_bytes + self.key_table_bytes + self.section_bytes) as f64;
        let amp = limit.max_space_amp;
        let most = jobs + (self.user_bytes as f64 * amp - stored).max(0.0);
        let hidden = (self.hidden_bytes + hidden).min(self.user_bytes) as f64;
        let garbage = (self.dead_bytes() + self.unsorted_bytes) as f64;
        (garbage + hidden * amp) / most.max(1.0)
    }

    /// Bytes that only merging the UnsortedStores shows to be garbage, or lets go of.
    pub(crate) fn unmerged_garbage(&self) -> u64 {
        self.hidden_bytes + self.half_merged_bytes
    }

    /// Whether merging the UnsortedStores may let go of more than the limit allows to keep.
    pub(crate) fn hides_too_much(&self, limit: SpaceLimit) -> bool {
        let files =
            self.log_bytes + self.section_bytes + self.key_table_bytes + self.unsorted_bytes;
        let seen = self.user_bytes.saturating_sub(self.hidden_bytes) as f64;
        self.unmerged_garbage() > limit.floor_bytes
            && files as f64 > seen * limit.max_space_amp + limit.floor_bytes as f64
    }
}

/// Whether a key table has versions that no snapshot needs any more, and enough of them to be worth
/// its rewriting.
pub(crate) fn is_outlived(table: &KeyTableMeta, oldest: Option<SeqNo>) -> bool {
    !seeded!(OutlivedForever)
        && table.older_bytes > table.len / 4
        && oldest.is_none_or(|oldest| oldest >= table.max_seq)
}

/// Keys and values of a table's entries, about: keys are taken to be as long as the first and the last.
fn user_bytes(table: &KeyTableMeta) -> u64 {
    let refs = table.refs.iter();
    let (records, record_bytes) = refs.fold((0, 0), |(n, bytes), r| (n + r.count, bytes + r.bytes));
    let inline = table.count.saturating_sub(records);
    let key_len = (table.min_key.len() + table.max_key.len()) / 2;
    let key_bytes = inline * key_len.saturating_sub(KEYSPACE_PREFIX_LEN) as u64;
    let frame_bytes = records * frame_len(KEYSPACE_PREFIX_LEN, 0, false);
    record_bytes.saturating_sub(frame_bytes) + key_bytes + table.inline_bytes
}

/// What `records` of `bytes` in the partition's UnsortedStore may hide in its SortedStore beyond their
/// own size.
pub(crate) fn hidden_by(partition: &Partition, records: u64, bytes: u64) -> u64 {
    let tables = partition.key_tables.iter().map(|t| t.meta());
    let sorted: u64 = tables.clone().map(KeyTableMeta::reach_bytes).sum();
    let entries: u64 = tables.map(|t| t.count).sum();
    let Some(mean) = sorted.checked_div(entries) else {
        return 0;
    };
    records
        .saturating_mul(mean)
        .saturating_sub(bytes)
        .min(sorted)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: SpaceLimit = SpaceLimit {
        max_space_amp: 1.5,
        floor_bytes: 10,
        oldest: None,
        job_bytes: 100,
        pass_bytes: 1000,
    };

    fn space() -> Space {
        Space {
            log_bytes: 1200,
            live_bytes: 1000,
            key_table_bytes: 100,
            user_bytes: 1000,
            ..Space::default()
        }
    }

    #[test]
    fn excess_begins_earlier_when_a_merge_passes_by() {
        assert_eq!(
            (space().dead_bytes(), space().allowed_garbage(LIMIT)),
            (200, 400)
        );
        assert_eq!(space().excess(LIMIT, Pressure::Alone), 0);
        assert!(space().excess(LIMIT, Pressure::Riding) > 0);
        let (alone, allowed) = (space().begins_at(LIMIT, Pressure::Alone), 400);
        assert!((alone + 1..allowed).contains(&space().most_at_rest(LIMIT)));
        let more = Space {
            log_bytes: 1250,
            ..space()
        };
        assert!(more.excess(LIMIT, Pressure::Alone) > 0);
        let hiding = Space {
            hidden_bytes: 100,
            ..space()
        };
        assert!(hiding.excess(LIMIT, Pressure::Alone) > 0);
    }

    #[test]
    fn what_cannot_be_reclaimed_yet_is_not_made_up_for_by_other_files() {
        let full = Space {
            log_bytes: 1300,
            ..space()
        };
        let begin = full.begins_at(LIMIT, Pressure::Alone);
        assert_eq!(full.excess(LIMIT, Pressure::Alone), 300 - begin / 2);
        let half_merged_bytes = 200;
        let kept = Space {
            half_merged_bytes,
            ..full
        };
        let left = 300 - kept.excess(LIMIT, Pressure::Alone) - half_merged_bytes;
        assert_eq!(left, (begin - half_merged_bytes) / 2);
        assert!(left > 0, "half of what may be reclaimed stays");
    }

    #[test]
    fn what_frames_and_keys_take_leaves_less_for_garbage_but_never_nothing() {
        let narrow = Space {
            user_bytes: 700,
            ..space()
        };
        assert_eq!(narrow.allowed_garbage(LIMIT), 275);
        let none = Space {
            log_bytes: 10,
            ..Space::default()
        };
        assert_eq!(none.excess(LIMIT, Pressure::Alone), 0, "not worth a pass");
    }

    #[test]
    fn only_what_is_hidden_makes_the_unsorted_store_too_much() {
        assert!(!space().hides_too_much(LIMIT));
        let loaded = Space {
            unsorted_bytes: 5000,
            ..space()
        };
        assert!(!loaded.hides_too_much(LIMIT), "all of it may be new");
        let deleted = Space {
            hidden_bytes: 900,
            unsorted_bytes: 50,
            ..space()
        };
        assert!(deleted.hides_too_much(LIMIT));
    }
}
