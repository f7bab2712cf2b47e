//! Holes: ranges of keys in which something that would decide is damaged.
//!
//! A hole says which claims it puts in doubt: those older than what may have stood in it. What
//! stood in a key table is older than everything unmerged of the same key, so such a hole leaves
//! unmerged claims alone.
//!
//! No locks.

use crate::base::keys::{FileNumber, KEYSPACE_PREFIX_LEN, KeyspaceId, SeqNo};
use crate::offline::repair::resolve::claims::Claim;
use crate::version::KeyRange;
use crate::version::keyspaces::ids_of;
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// A range of keys of which something is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hole {
    /// The least engine key that may be missing.
    pub(crate) from: Vec<u8>,
    /// The greatest, or a key after it; `None`: there is no bound. The first key that a keyspace
    /// can have is its border: of that keyspace nothing is missing. See [`past`].
    pub(crate) to: Option<Vec<u8>>,
    /// What stood there was merged.
    pub(crate) sorted: bool,
    /// Nothing that stood there was newer.
    pub(crate) max_seq: SeqNo,
    /// The file that is damaged.
    pub(crate) file: FileNumber,
    pub(crate) path: PathBuf,
    /// How many records or keys are missing, where it is known.
    pub(crate) missing: Option<u64>,
    /// Only range deletes are missing, of keys before `to`. They say of no record that it is in
    /// force.
    pub(crate) of_range_deletes: bool,
}

impl Hole {
    /// The numbers of the keyspaces of which keys may be missing.
    pub(crate) fn keyspaces(&self) -> RangeInclusive<KeyspaceId> {
        ids_of(KeyRange {
            start: &self.from,
            end: self.to.as_deref(),
        })
    }

    fn begins_at_or_before(&self, key: &[u8]) -> bool {
        self.from.as_slice() <= key
    }

    fn ends_before(&self, key: &[u8]) -> bool {
        let ends_before = |to: &[u8]| to < key || self.of_range_deletes && to == key;
        self.to.as_deref().is_some_and(ends_before)
    }

    /// Whether something lost here may be newer than the claim.
    fn doubts(&self, claim: &Claim) -> bool {
        (claim.sorted || !self.sorted) && self.max_seq > claim.seq
    }

    /// Whether what is lost here may have been what says that the claim is in force.
    fn may_vouch_for(&self, claim: &Claim) -> bool {
        self.max_seq >= claim.seq && !self.of_range_deletes
    }
}

/// The end of a hole in which `key` is the last one.
pub(crate) fn past(mut key: Vec<u8>) -> Vec<u8> {
    if key.len() <= KEYSPACE_PREFIX_LEN {
        // The empty key of a keyspace, which its border looks like.
        key.push(0);
    }
    key
}

/// The holes, asked for one key after the other, ascending.
pub(crate) struct Holes {
    /// By ascending beginning.
    waiting: std::iter::Peekable<std::vec::IntoIter<Hole>>,
    open: Vec<Hole>,
}

impl Holes {
    pub(crate) fn new(mut holes: Vec<Hole>) -> Holes {
        holes.sort_by(|a, b| a.from.cmp(&b.from));
        Holes {
            waiting: holes.into_iter().peekable(),
            open: Vec::new(),
        }
    }

    /// Goes to `key`, which is not before the last one.
    pub(crate) fn go_to(&mut self, key: &[u8]) {
        while let Some(hole) = self.waiting.next_if(|hole| hole.begins_at_or_before(key)) {
            self.open.push(hole);
        }
        self.open.retain(|hole| !hole.ends_before(key));
    }

    /// Whether a newer version of the claim's key may be lost.
    pub(crate) fn doubt(&self, claim: &Claim) -> bool {
        self.open.iter().any(|hole| hole.doubts(claim))
    }

    /// Whether a lost record, not only a lost key table, may have said that the claim is in force.
    pub(crate) fn records_may_vouch_for(&self, claim: &Claim) -> bool {
        let records = self.open.iter().filter(|hole| !hole.sorted);
        records.into_iter().any(|hole| hole.may_vouch_for(claim))
    }

    /// Whether what said that the claim is in force may be lost.
    pub(crate) fn may_vouch_for(&self, claim: &Claim) -> bool {
        self.open.iter().any(|hole| hole.may_vouch_for(claim))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::keys::Kind;
    use crate::offline::repair::resolve::claims::{Place, Rank};

    #[test]
    fn a_hole_doubts_what_is_older_in_its_range() {
        let hole = |from: &[u8], to: &[u8], sorted| Hole {
            from: from.to_vec(),
            to: Some(to.to_vec()),
            sorted,
            max_seq: SeqNo(50),
            file: FileNumber(3),
            path: PathBuf::new(),
            missing: None,
            of_range_deletes: false,
        };
        let claim = |key: &[u8], seq, sorted| {
            Claim::new(
                (key, SeqNo(seq), Kind::Put),
                (Rank::Live, sorted),
                Place::None,
            )
        };
        let mut holes = Holes::new(vec![hole(b"m", b"p", true), hole(b"b", b"d", false)]);
        let mut doubts = |key: &[u8], seq, sorted| {
            holes.go_to(key);
            holes.doubt(&claim(key, seq, sorted))
        };
        assert!(!doubts(b"a", 1, true));
        assert!(doubts(b"b", 49, false) && doubts(b"b", 1, true));
        assert!(!doubts(b"c", 50, false));
        assert!(doubts(b"d", 1, false));
        assert!(!doubts(b"da", 1, false));
        assert!(doubts(b"n", 1, true));
        assert!(!doubts(b"n", 1, false));
        assert!(!doubts(b"q", 1, true));
    }

    #[test]
    fn lost_range_deletes_put_older_records_in_doubt_and_vouch_for_none() {
        let hole = Hole {
            from: b"b".to_vec(),
            to: Some(b"d".to_vec()),
            sorted: false,
            max_seq: SeqNo(50),
            file: FileNumber(3),
            path: PathBuf::new(),
            missing: None,
            of_range_deletes: true,
        };
        let mut holes = Holes::new(vec![hole]);
        for (key, doubted) in [(b"a", false), (b"b", true), (b"c", true), (b"d", false)] {
            holes.go_to(key);
            for sorted in [false, true] {
                let said = (&key[..], SeqNo(49), Kind::Put);
                let claim = Claim::new(said, (Rank::Live, sorted), Place::None);
                assert_eq!(holes.doubt(&claim), doubted, "{key:?}");
                assert!(!holes.may_vouch_for(&claim));
                assert!(!holes.records_may_vouch_for(&claim));
            }
        }
    }
}
