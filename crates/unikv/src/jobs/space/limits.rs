//! How much garbage there may be: what begins collection, and what slows writers, by one figure.

use super::Space;
use crate::jobs::space::garbage::Pressure;
use crate::partition::Horizon;

/// What garbage collection is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpaceLimit {
    /// Bytes on disk over keys and values.
    pub(crate) max_space_amp: f64,
    /// Garbage that is not worth a pass.
    pub(crate) floor_bytes: u64,
    /// What files may take beside what is visible while writers are idle.
    pub(crate) idle_bytes: u64,
    /// What nobody needs any more.
    pub(crate) horizon: Horizon,
    /// Bytes that jobs may take beside the rest, the UnsortedStores among them.
    pub(crate) job_bytes: u64,
    /// Bytes that the open generation of one partition may have in any case. A pass may copy as
    /// many live ones: see [`Space::pass_bytes`].
    pub(crate) unsorted_bytes: u64,
}

/// The part of the garbage that `max_space_amp` allows of records that may be there in any case:
/// where an older release has not counted what is visible, passes without end would not help.
const LEAST_ALLOWED: f64 = 0.125;
/// The share of it to which a pass may go while nobody writes.
const SHARE_WHEN_IDLE: f64 = 0.85;
/// The share of it that open generations may hold, for each of their records may supersede an older
/// one.
const SHARE_OF_UNSORTED: f64 = 0.25;
/// Unmerged records may hide this part of it.
const HIDDEN_PART: u64 = 4;
/// The victims of a collection may need this part of it.
const PASS_PART: u64 = 8;
/// Live bytes in the mean of one partition that are worth a pass.
const LEAST_COPIED: u64 = 2 << 20;

impl Space {
    /// What files may take for visible records.
    fn promised_bytes(&self, limit: SpaceLimit) -> f64 {
        self.user_bytes as f64 * limit.max_space_amp + self.frame_bytes as f64
    }

    /// Bytes of garbage within the limit.
    pub(crate) fn allowed_garbage(&self, limit: SpaceLimit) -> u64 {
        let sections = self.section_bytes - self.dead_section_bytes;
        let stored = (self.live_bytes + self.key_table_bytes).saturating_sub(self.older_bytes);
        let least = stored as f64 * (limit.max_space_amp - 1.0) * LEAST_ALLOWED;
        let allowed = self.promised_bytes(limit) - (stored + sections) as f64;
        allowed.max(least) as u64
    }

    /// Bytes that open generations may hold together.
    pub(crate) fn most_open_bytes(&self, limit: SpaceLimit) -> u64 {
        // What small records may take for their frames says nothing of what merges of them cost.
        let stored = self.live_bytes + self.key_table_bytes + self.unsorted_bytes;
        let spare = stored as f64 * (limit.max_space_amp - 1.0);
        let share = spare.min(self.allowed_garbage(limit) as f64) * SHARE_OF_UNSORTED;
        limit.unsorted_bytes.max(share as u64)
    }

    /// Bytes that unmerged records may hide, and keep of half-merged tables.
    pub(crate) fn most_hidden(&self, limit: SpaceLimit) -> u64 {
        let part = self.allowed_garbage(limit) / HIDDEN_PART;
        limit.unsorted_bytes.max(part)
    }

    /// Garbage at which reclaiming begins under `pressure`.
    pub(crate) fn begins_at(&self, limit: SpaceLimit, pressure: Pressure) -> u64 {
        (self.garbage_beside_jobs(limit) * pressure.share()) as u64
    }

    /// Garbage to which a pass may go that ends when somebody writes, and that releases its
    /// victims at once. It may use what is kept free for passes, or what has just not been enough
    /// for a collection would keep values apart for as long as nobody writes.
    pub(crate) fn most_when_idle(&self, limit: SpaceLimit) -> u64 {
        (self.garbage_beside_jobs(limit) * SHARE_WHEN_IDLE) as u64
    }

    /// Bytes of garbage within the limit for value logs. UnsortedStores that take more than is set
    /// apart for jobs leave less, and so does what they hide.
    fn garbage_beside_jobs(&self, limit: SpaceLimit) -> f64 {
        let allowed = self.allowed_garbage(limit);
        let beyond = self.unsorted_bytes.saturating_sub(limit.job_bytes);
        let hidden = self.hidden_bytes as f64 * limit.max_space_amp;
        let allowed = allowed
            .saturating_sub(beyond.saturating_add(hidden as u64))
            .max(allowed / 4);
        allowed as f64
    }

    /// Bytes to reclaim under `pressure`; zero while there is little enough garbage. Half of what
    /// may be reclaimed is left, so that the next pass finds files worth it. What is in half-merged
    /// tables cannot be reclaimed yet: making up for all of it would take files in which nearly
    /// everything lives.
    pub(crate) fn excess(&self, limit: SpaceLimit, pressure: Pressure) -> u64 {
        let begin = self.begins_at(limit, pressure);
        let dead = self.reclaimable_bytes();
        if dead <= begin.max(limit.floor_bytes) {
            0
        } else {
            let kept = self.half_merged_bytes.min(begin);
            dead - kept - (begin - kept) / 2
        }
    }

    /// Live bytes that the victims of a collection have at most, beyond the first of them. Before
    /// any of them is freed, a pass through each partition has written all of that again, so it is
    /// space that is needed beside them; but each pass also writes its partition's key tables again
    /// and commits an edit, and what it copies should be worth that, or many partitions would keep
    /// it busy with nothing else.
    pub(crate) fn pass_bytes(&self, limit: SpaceLimit) -> u64 {
        let keys = self.key_table_bytes.min(self.live_bytes);
        let worth = keys.max(self.partitions * LEAST_COPIED);
        worth
            .min(self.allowed_garbage(limit) / PASS_PART)
            .max(limit.unsorted_bytes)
    }

    /// How much of the room for garbage is used at worst, if `hidden` bytes more than known are
    /// hidden: 0 while there is no more than nobody takes away, 1 when files take all that is
    /// promised, jobs included. What a pass writes before it releases its victims, records and
    /// key tables, is set apart for it.
    pub(crate) fn fill(&self, limit: SpaceLimit, hidden: u64) -> f64 {
        let amp = limit.max_space_amp;
        let of_a_pass = self.pass_bytes(limit) as f64 * 1.25;
        let beside = limit.job_bytes.saturating_add(limit.floor_bytes);
        let most = beside.saturating_add(self.allowed_garbage(limit)) as f64;
        let hidden = (self.hidden_bytes + hidden).min(self.user_bytes) as f64 * amp;
        let garbage = (self.reclaimable_bytes() + self.unsorted_bytes) as f64 + hidden;
        let stays = self.stays(limit);
        let room = (most - of_a_pass - stays).max(limit.floor_bytes as f64);
        ((garbage - stays) / room.max(1.0)).max(0.0)
    }

    /// What of the garbage neither collections nor merges are due for: writers that wait would wait
    /// for nobody.
    fn stays(&self, limit: SpaceLimit) -> f64 {
        let most_hidden = self.most_hidden(limit);
        let hidden = self.hidden_bytes as f64 * limit.max_space_amp;
        let begin = self.begins_at(limit, Pressure::Alone);
        let most_dead = begin
            .max(limit.floor_bytes)
            .max(self.half_merged_bytes.min(most_hidden));
        let dead = self.reclaimable_bytes().min(most_dead);
        let open = self.open_bytes.min(self.most_open_bytes(limit));
        (dead + open) as f64 + hidden.min(most_hidden as f64)
    }

    /// Bytes that only merging the UnsortedStores shows to be garbage, or releases.
    pub(crate) fn unmerged_garbage(&self) -> u64 {
        self.hidden_bytes + self.half_merged_bytes
    }

    /// What `writes` may supersede at most beyond what records of mean size take.
    fn most_superseded(&self, writes: u64) -> u64 {
        let most = writes.saturating_mul(self.outliers.longest);
        most.min(self.outliers.bytes)
    }

    /// Whether files may take more than they may when idle, with `writes` in the memtable: what is
    /// unmerged counts as visible only if it is in the SortedStore, too. Merges would show, and let
    /// go of it.
    pub(crate) fn is_too_much_when_idle(&self, limit: SpaceLimit, writes: u64) -> bool {
        let superseded = self.most_superseded(writes);
        let unmerged = self.unsorted_bytes + self.unmerged_large_bytes + self.half_merged_bytes;
        let hidden = self.hidden_bytes + self.unmerged_large_bytes + superseded;
        let visible = self.promised_bytes(limit) - hidden as f64 * limit.max_space_amp;
        let most = visible + limit.idle_bytes as f64;
        (unmerged > 0 || superseded > 0) && self.file_bytes() as f64 > most
    }

    /// How many writes in the memtable make it worth a flush when writers are idle, for what they
    /// may supersede; `None`: none do.
    pub(crate) fn writes_worth_a_flush(&self, limit: SpaceLimit) -> Option<u64> {
        let most = u64::from(u32::MAX);
        if self.is_too_much_when_idle(limit, 0) || !self.is_too_much_when_idle(limit, most) {
            return None;
        }
        let (mut too_few, mut enough) = (0, most);
        while enough - too_few > 1 {
            let middle = too_few + (enough - too_few) / 2;
            if self.is_too_much_when_idle(limit, middle) {
                enough = middle
            } else {
                too_few = middle
            }
        }
        Some(enough)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key_table::OutlierSum;

    const LIMIT: SpaceLimit = SpaceLimit {
        max_space_amp: 1.5,
        floor_bytes: 10,
        idle_bytes: 20,
        horizon: Horizon {
            oldest: None,
            time_ms: 0,
            now_ms: 0,
        },
        job_bytes: 100,
        unsorted_bytes: 1000,
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
        assert!((alone + 1..allowed).contains(&space().most_when_idle(LIMIT)));
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
        assert_eq!(narrow.allowed_garbage(LIMIT), 68);
        let frames = Space {
            frame_bytes: 150,
            ..narrow
        };
        assert_eq!(frames.allowed_garbage(LIMIT), 100);
        let sections = Space {
            section_bytes: 50,
            dead_section_bytes: 20,
            ..space()
        };
        assert_eq!(sections.allowed_garbage(LIMIT), 370);
        assert_eq!(sections.dead_bytes(), 220);
        let none = Space {
            log_bytes: 10,
            ..Space::default()
        };
        assert_eq!(none.excess(LIMIT, Pressure::Alone), 0, "not worth a pass");
    }

    #[test]
    fn nobody_is_slowed_for_what_nobody_takes_away() {
        use rand::rngs::SmallRng;
        use rand::{Rng, SeedableRng};
        let mut rng = SmallRng::seed_from_u64(1);
        let (mut slowed, mut free) = (0, 0);
        for _ in 0..100_000 {
            let mut up_to = |most: u64| rng.random_range(0..=most);
            let live_bytes = up_to(1 << 30);
            let log_bytes = live_bytes + up_to(live_bytes);
            let section_bytes = up_to(live_bytes / 4);
            let space = Space {
                log_bytes,
                live_bytes,
                section_bytes,
                dead_section_bytes: up_to(section_bytes),
                key_table_bytes: up_to(live_bytes / 4),
                user_bytes: up_to(live_bytes),
                frame_bytes: up_to(live_bytes / 2),
                half_merged_bytes: up_to(log_bytes - live_bytes),
                stuck_bytes: up_to(log_bytes - live_bytes),
                hidden_bytes: up_to(live_bytes / 8),
                unsorted_bytes: up_to(64 << 20),
                open_bytes: up_to(64 << 20),
                partitions: 1 + up_to(9),
                ..Space::default()
            };
            let limit = SpaceLimit {
                max_space_amp: 1.1 + up_to(4) as f64 / 4.0,
                floor_bytes: 1 << 20,
                job_bytes: 32 << 20,
                unsorted_bytes: 8 << 20,
                ..LIMIT
            };
            let open_bytes = space.open_bytes.min(space.unsorted_bytes);
            let space = Space {
                open_bytes,
                ..space
            };
            let hidden = space.hidden_bytes as f64 * limit.max_space_amp;
            let is_due = space.excess(limit, Pressure::Alone) > 0
                || hidden > space.most_hidden(limit) as f64
                || space.unsorted_bytes > space.open_bytes.min(space.most_open_bytes(limit));
            if space.fill(limit, 0) > 0.0 {
                slowed += 1
            } else {
                free += 1
            }
            assert!(is_due || space.fill(limit, 0) == 0.0, "{space:?} {limit:?}");
        }
        assert!(slowed > 1000 && free > 1000, "{slowed} {free}");
    }

    #[test]
    fn when_idle_only_what_is_merged_counts_as_visible() {
        assert!(!space().is_too_much_when_idle(LIMIT, 1000), "all is merged");
        let loaded = Space {
            unsorted_bytes: 5000,
            ..space()
        };
        assert!(loaded.is_too_much_when_idle(LIMIT, 0), "it may hide all");
        let deleted = Space {
            hidden_bytes: 900,
            unsorted_bytes: 50,
            ..space()
        };
        assert!(deleted.is_too_much_when_idle(LIMIT, 0));
        let little = Space {
            unsorted_bytes: 50,
            ..space()
        };
        assert!(
            !little.is_too_much_when_idle(LIMIT, 0),
            "the rest leaves room"
        );
    }

    #[test]
    fn writes_are_worth_a_flush_when_they_may_supersede_long_records() {
        assert_eq!(space().writes_worth_a_flush(LIMIT), None, "all are alike");
        let outliers = OutlierSum {
            count: 8,
            bytes: 800,
            longest: 100,
        };
        let skewed = Space {
            outliers,
            ..space()
        };
        // 1,300 are taken, and 1,500 promised, with 20 beside.
        assert_eq!(skewed.writes_worth_a_flush(LIMIT), Some(2));
    }
}
