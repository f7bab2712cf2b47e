//! Proving what damaged blocks of a key table held, from the counts in the manifest.
//!
//! The manifest says how many pointers a key table has into each record file. Those in the blocks
//! that verify are subtracted. If what is left is exactly the number of frames of that file which
//! have a key in the damaged range and which nothing else points to, the lost pointers were to
//! these frames, each to one. So a table whose damaged blocks held pointers only, to files that are
//! whole and of which nothing in the range is garbage, is as good as intact: in a database that was
//! loaded and not yet updated that is every table with values apart.
//!
//! It takes one more pass over the sorted claims, only where a key table is damaged. No locks.

use crate::base::keys::FileNumber;
use crate::error::Result;
use crate::offline::repair::resolve::claims::{Claim, Place, Rank};
use crate::offline::repair::resolve::sorter::Claims;
use std::collections::{BTreeMap, HashSet};

/// A key table with damaged blocks.
#[derive(Clone, Debug)]
pub(crate) struct Broken {
    pub(crate) table: FileNumber,
    /// The ranges of its damaged blocks, each with its least and greatest key.
    pub(crate) ranges: Vec<(Vec<u8>, Vec<u8>)>,
    /// Entries that are missing, and how many of them point into each file.
    pub(crate) missing: u64,
    pub(crate) pointers: BTreeMap<FileNumber, u64>,
}

impl Broken {
    fn has(&self, key: &[u8]) -> bool {
        let mut ranges = self.ranges.iter();
        ranges.any(|(from, to)| from.as_slice() <= key && key <= to.as_slice())
    }

    /// Whether a copy is a frame that a lost entry may have pointed to.
    fn may_have_pointed_to(&self, claim: &Claim) -> bool {
        let Place::Frame(pointer) = &claim.place else {
            return false;
        };
        claim.rank == Rank::Copy && self.pointers.contains_key(&pointer.file)
    }

    /// Makes a frame that a lost entry did point to as good as that entry.
    pub(crate) fn vouch_for(&self, claim: &mut Claim) {
        if self.may_have_pointed_to(claim) && self.has(&claim.key) {
            claim.rank = Rank::Live;
            claim.sorted = true;
        }
    }
}

/// The tables of `broken` whose lost entries are proven to have pointed to all that is unpointed in
/// their ranges. `unsound`: files in which frames are damaged.
pub(crate) fn proven(
    mut broken: Vec<Broken>,
    unsound: &HashSet<FileNumber>,
    claims: &mut Claims,
) -> Result<Vec<Broken>> {
    broken.retain(|table| {
        let sound = table.pointers.keys().all(|file| !unsound.contains(file));
        sound && table.pointers.values().sum::<u64>() == table.missing
    });
    if broken.is_empty() {
        return Ok(broken);
    }
    let mut found: Vec<BTreeMap<FileNumber, u64>> = vec![BTreeMap::new(); broken.len()];
    let mut versions: Vec<Claim> = Vec::new();
    loop {
        let next = claims.next()?;
        let same = |claim: &Claim| versions.first().is_none_or(|first| first.key == claim.key);
        if next.as_ref().is_none_or(|claim| !same(claim)) {
            for (table, found) in broken.iter().zip(&mut found) {
                count(table, &versions, found);
            }
            versions.clear();
        }
        match next {
            Some(claim) => versions.push(claim),
            None => break,
        }
    }
    let mut found = found.into_iter();
    broken.retain(|table| found.next().as_ref() == Some(&table.pointers));
    Ok(broken)
}

/// Counts the frames of one key that a lost entry of the table may have pointed to.
fn count(table: &Broken, versions: &[Claim], found: &mut BTreeMap<FileNumber, u64>) {
    if versions.first().is_none_or(|first| !table.has(&first.key)) {
        return;
    }
    for claim in versions
        .iter()
        .filter(|claim| table.may_have_pointed_to(claim))
    {
        let is_pointed_to = versions
            .iter()
            .any(|other| other.sorted && other.place == claim.place);
        if let Place::Frame(pointer) = &claim.place
            && !is_pointed_to
        {
            *found.entry(pointer.file).or_default() += 1;
        }
    }
}
