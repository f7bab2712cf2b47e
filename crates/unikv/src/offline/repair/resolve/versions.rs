//! The versions of one key, newest first: which of them is in force, which may be, which were.
//!
//! A range delete takes its place among them as a tombstone of the key. No locks.

use super::claims::{Claim, Rank};
use crate::base::keys::SeqNo;
use crate::offline::repair::files::holes::Holes;
use crate::record::UNNUMBERED;

/// Versions of one key that are looked at on either side of the one in force.
const MOST_VERSIONS: usize = 16;

/// The versions of one key.
#[derive(Default)]
pub(super) struct Versions {
    /// Not believed, newer than the one in force; whether only a lost key table can have vouched
    /// for it.
    pub(super) newer: Vec<(Claim, bool)>,
    pub(super) live: Option<Claim>,
    pub(super) same: Vec<Claim>,
    pub(super) older: Vec<Claim>,
    pub(super) unordered: Vec<Claim>,
    /// Whether there is a delete, or an expired value, of which nothing says how old it is.
    pub(super) unordered_delete: bool,
    /// What a batch that is left out said, if nothing newer is in force.
    pub(super) left_out: Option<Claim>,
    /// The newest range delete, once an older version has come.
    range_delete: Option<SeqNo>,
}

impl Versions {
    /// As [`Versions::add`], after a range delete that is newer.
    pub(super) fn add_before(
        &mut self,
        deleted: &mut Option<Claim>,
        mut claim: Claim,
        holes: &Holes,
    ) {
        if let Some(deleted) = deleted.take_if(|deleted| claim.seq < deleted.seq) {
            self.range_delete = Some(deleted.seq);
            self.add(deleted, holes);
        }
        let is_there = || claim.rank != Rank::Copy || holes.may_vouch_for(&claim);
        if self.range_delete.is_some() && claim.seq == UNNUMBERED && is_there() {
            // It may be newer than the delete.
            claim.rank = Rank::Unordered;
        }
        let is_deleted = self.range_delete.is_some()
            && self.range_delete == self.live.as_ref().map(|live| live.seq);
        if is_deleted && let Some(newer) = self.unmerged(&claim) {
            self.older.extend(self.live.replace(newer));
        }
        self.add(claim, holes);
    }

    /// Takes the next version, newest first.
    pub(super) fn add(&mut self, claim: Claim, holes: &Holes) {
        if claim.rank == Rank::Unordered {
            if claim.is_delete {
                self.unordered_delete = true;
            } else if self.unordered.len() < MOST_VERSIONS {
                self.unordered.push(claim);
            }
            return;
        }
        if claim.rank == Rank::LeftOut {
            if self.live.is_none() {
                self.left_out.get_or_insert(claim);
            }
            return;
        }
        if let Some(live) = &self.live {
            let list = if claim.seq == live.seq {
                &mut self.same
            } else {
                &mut self.older
            };
            if list.len() < MOST_VERSIONS {
                list.push(claim);
            }
            return;
        }
        match claim.rank {
            Rank::Live | Rank::LikelyLive => self.believe(claim),
            Rank::Copy if !holes.may_vouch_for(&claim) => {}
            _ if self.newer.len() >= MOST_VERSIONS => {}
            Rank::Copy => {
                let by_key_table = !holes.records_may_vouch_for(&claim);
                self.newer.push((claim, by_key_table));
            }
            _ => self.newer.push((claim, false)),
        }
    }

    /// Takes the newest version that is in force.
    fn believe(&mut self, claim: Claim) {
        match self.unmerged(&claim) {
            None => self.live = Some(claim),
            Some(newer) => {
                self.live = Some(newer);
                self.older.push(claim);
            }
        }
    }

    /// The record of a table, so far uncertain, of which `claim` shows that it is in force: had it
    /// been merged, a key table would not have the claim.
    fn unmerged(&mut self, claim: &Claim) -> Option<Claim> {
        if !(claim.sorted && claim.rank == Rank::Live) {
            return None;
        }
        let mut newer = self.newer.iter().map(|(newer, _)| newer);
        let mut newer = newer.find(|newer| newer.rank == Rank::Uncertain)?.clone();
        newer.rank = Rank::LikelyLive;
        self.newer.retain(|(other, _)| other.seq > newer.seq);
        Some(newer)
    }
}
