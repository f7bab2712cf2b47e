//! Which versions of a key a job keeps.
//!
//! A version is needed if a reader may see it: the newest one always, an older one if a live
//! snapshot lies at or above it and below the next newer version. Readers without a registered
//! snapshot hold a view and thereby the job's input files.

use crate::base::keys::SeqNo;
use crate::base::seeded::seeded;

/// Decides version by version, newest first, for one key after the other.
pub(crate) struct Retention<'a> {
    /// Ascending.
    snapshots: &'a [SeqNo],
    newer: Option<SeqNo>,
}

impl<'a> Retention<'a> {
    pub(crate) fn new(snapshots: &'a [SeqNo]) -> Retention<'a> {
        debug_assert!(snapshots.is_sorted());
        Retention {
            snapshots,
            newer: None,
        }
    }

    /// Begins the next key.
    pub(crate) fn next_key(&mut self) {
        self.newer = None;
    }

    /// Whether the version at `seq`, older than all asked before for this key, is needed.
    pub(crate) fn keep(&mut self, seq: SeqNo) -> bool {
        let Some(newer) = self.newer.replace(seq) else {
            return true;
        };
        let before = |s: &SeqNo| *s < seq || (*s == seq && seeded!(DropSnapshotVersion));
        let at = self.snapshots.partition_point(before);
        self.snapshots.get(at).is_some_and(|s| *s < newer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(snapshots: &[u64], versions: &[u64]) -> Vec<u64> {
        let snapshots: Vec<SeqNo> = snapshots.iter().copied().map(SeqNo).collect();
        let mut retention = Retention::new(&snapshots);
        retention.next_key();
        versions
            .iter()
            .copied()
            .filter(|v| retention.keep(SeqNo(*v)))
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
}
