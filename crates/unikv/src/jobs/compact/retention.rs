//! Which versions of a key a job keeps, and as what.
//!
//! A version is needed if a reader may see it: the newest one always, an older one if a live
//! snapshot lies at or above it and below the next newer version. Readers without a registered
//! snapshot hold a view and thereby the job's input files.
//!
//! A version that is needed has expired if it has for everybody who may see it: for each of those
//! snapshots at its own time and, if it is the newest, at the time of the job, for whoever reads
//! what the job makes reads it later. Nobody sees its value, but all see that it shadows what is
//! older: so it stands as a tombstone.

use crate::base::keys::SeqNo;
use crate::base::seeded::seeded;
use crate::partition::{Horizon, Moment};

/// Who reads what a job makes.
pub(crate) struct Readers {
    /// The time of the job, read before the list of snapshots. No reader of the newest state has an
    /// earlier one.
    pub(crate) time_ms: u64,
    /// Live snapshots, ascending, read after the job's inputs were chosen.
    pub(crate) snapshots: Vec<Moment>,
}

impl Readers {
    /// What none of them needs.
    pub(crate) fn horizon(&self) -> Horizon {
        // An export has an earlier time than older snapshots.
        let earliest = self.snapshots.iter().map(|moment| moment.time_ms).min();
        Horizon {
            oldest: self.snapshots.first().map(|moment| moment.seq),
            time_ms: earliest.map_or(self.time_ms, |time_ms| time_ms.min(self.time_ms)),
            now_ms: self.time_ms,
        }
    }
}

/// What becomes of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Nobody sees it.
    Unneeded,
    /// All that anybody sees of it is that it shadows older ones.
    Expired,
    Needed,
}

/// Decides version by version, newest first, for one key after the other.
pub(crate) struct Retention<'a> {
    readers: &'a Readers,
    newer: Option<SeqNo>,
}

impl<'a> Retention<'a> {
    pub(crate) fn new(readers: &'a Readers) -> Retention<'a> {
        debug_assert!(readers.snapshots.is_sorted());
        Retention {
            readers,
            newer: None,
        }
    }

    /// Begins the next key.
    pub(crate) fn next_key(&mut self) {
        self.newer = None;
    }

    /// Whether the version at `seq`, older than all asked before for this key, is needed.
    pub(crate) fn keeps(&mut self, seq: SeqNo) -> bool {
        self.judge(seq, None) != Fate::Unneeded
    }

    /// The same of a version that expires at `expiry_ms`, if ever.
    pub(crate) fn judge(&mut self, seq: SeqNo, expiry_ms: Option<u64>) -> Fate {
        let newer = self.newer.replace(seq);
        if newer.is_none() && expiry_ms.is_none() {
            return Fate::Needed;
        }
        let before = |s: &Moment| s.seq < seq || (s.seq == seq && seeded!(DropSnapshotVersion));
        let at = self.readers.snapshots.partition_point(before);
        let at_or_above = self.readers.snapshots.get(at..).unwrap_or_default();
        let is_below = |s: &Moment| newer.is_none_or(|newer| s.seq < newer);
        if newer.is_some() && !at_or_above.first().is_some_and(is_below) {
            return Fate::Unneeded;
        }
        let Some(expiry_ms) = expiry_ms else {
            return Fate::Needed;
        };
        let has_expired = |time_ms: u64| expiry_ms <= time_ms;
        let is_seen = newer.is_none() && !has_expired(self.readers.time_ms);
        let mut seeing = at_or_above.iter().take_while(|s| is_below(s));
        let is_seen = is_seen || seeing.any(|s| !has_expired(s.time_ms));
        let is_seen =
            is_seen && !(seeded!(ExpiryForgetsSnapshots) && has_expired(self.readers.time_ms));
        if is_seen { Fate::Needed } else { Fate::Expired }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;

    fn readers(snapshots: &[u64]) -> Readers {
        let time_ms = HOUR;
        let moment = |seq| Moment {
            seq: SeqNo(seq),
            time_ms,
        };
        let snapshots = snapshots.iter().copied().map(moment).collect();
        Readers { time_ms, snapshots }
    }

    fn kept(snapshots: &[u64], versions: &[u64]) -> Vec<u64> {
        let readers = readers(snapshots);
        let mut retention = Retention::new(&readers);
        retention.next_key();
        versions
            .iter()
            .copied()
            .filter(|v| retention.keeps(SeqNo(*v)))
            .collect()
    }

    #[test]
    fn without_snapshots_only_the_newest_version_is_kept() {
        assert_eq!(kept(&[], &[9, 5, 1]), [9]);
    }

    #[test]
    fn a_snapshot_keeps_the_version_it_sees_and_no_other() {
        assert_eq!(kept(&[5], &[9, 5, 1]), [9, 5]);
        assert_eq!(kept(&[4], &[9, 5, 1]), [9, 1]);
        assert_eq!(kept(&[9], &[9, 5, 1]), [9]);
        assert_eq!(kept(&[2, 3, 8], &[9, 7, 5, 1]), [9, 7, 1]);
    }

    #[test]
    fn the_same_version_met_twice_is_kept_once() {
        assert_eq!(kept(&[5], &[5, 5]), [5]);
    }

    /// What becomes of a version of a key at 5 and of one at 9, both of which expire at this time,
    /// at time 100.
    fn fates(expiry_ms: u64, snapshots: &[(u64, u64)]) -> [Fate; 2] {
        let moment = |&(seq, time_ms): &(u64, u64)| Moment {
            seq: SeqNo(seq),
            time_ms,
        };
        let readers = Readers {
            time_ms: 100,
            snapshots: snapshots.iter().map(moment).collect(),
        };
        let mut retention = Retention::new(&readers);
        retention.next_key();
        let newer = retention.judge(SeqNo(9), Some(expiry_ms));
        [newer, retention.judge(SeqNo(5), Some(expiry_ms))]
    }

    #[test]
    fn a_version_has_expired_when_it_has_for_everybody_who_sees_it() {
        use Fate::{Expired, Needed, Unneeded};
        assert_eq!(fates(100, &[]), [Expired, Unneeded]);
        assert_eq!(fates(101, &[]), [Needed, Unneeded]);
        // A snapshot sees one of both, at its own time.
        assert_eq!(fates(100, &[(9, 99)]), [Needed, Unneeded]);
        assert_eq!(fates(100, &[(8, 99)]), [Expired, Needed]);
        assert_eq!(fates(100, &[(4, 99)]), [Expired, Unneeded]);
        assert_eq!(fates(80, &[(5, 80), (9, 90)]), [Expired, Expired]);
        assert_eq!(fates(80, &[(5, 79), (5, 80), (9, 90)]), [Expired, Needed]);
        assert_eq!(fates(80, &[(5, 80), (8, 81), (12, 79)]), [Needed, Expired]);
        assert_eq!(fates(80, &[(5, 79), (9, 80), (12, 81)]), [Expired, Needed]);
    }
}
