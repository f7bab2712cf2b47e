//! From claims to the salvaged records: for each key the newest version that is in force, or what
//! became of it.
//!
//! Of the versions of a key the newest believed one answers; a tombstone answers, too. Its value is
//! read where the claim says, or, if that is damaged, from any other record of the same key and
//! sequence number, which is the same write. If none is left the key is lost: an older version is
//! never taken in its place, but counts as uncertain. What is not believed counts as uncertain
//! where it is newer than what is, and is left out unless the caller wants it.
//!
//! Memory: some versions of one key, and a batch of records that are read together.
//!
//! No locks; nothing is written.

pub(crate) mod claims;
pub(crate) mod judge;
pub(crate) mod sorter;
mod versions;

use super::files::{Fetched, Files, Meant};
use super::report::RepairReport;
use crate::base::keys::{KeyspaceId, Kind, SeqNo};
use crate::base::range_tombstones::RangeTombstones;
use crate::base::seeded::seeded;
use crate::error::{ErrorKind, Result};
use crate::offline::repair::files::holes::Holes;
use crate::offline::repair::files::vouch::Broken;
use crate::offline::repair::keyspaces::{KnownKeyspaces, Standing};
use crate::offline::repair::resolve::claims::{Claim, LARGE_BYTES, Place, Rank, Saved};
use crate::offline::repair::resolve::sorter::Claims;
use bytes::Bytes;
use std::collections::VecDeque;
use std::path::PathBuf;
use versions::Versions;

/// Records that are read together: this many, or this many bytes.
const BATCH: usize = 1024;
const BATCH_BYTES: u64 = 2 << 20;

/// A key that has a value, and where it may be read.
struct Wanted {
    key: Vec<u8>,
    /// The version in force first, then copies of it.
    places: Vec<Claim>,
    /// Older ones, newest first, should all of these be lost.
    older: Vec<Claim>,
    in_doubt: bool,
    /// It is not known to be in force.
    uncertain: bool,
    first: Option<Result<Fetched>>,
}

/// Gives the salvaged records in key order.
pub(super) struct Resolver<'a> {
    claims: Claims,
    ahead: Option<Claim>,
    holes: Holes,
    ranges: RangeTombstones,
    /// Key tables of which it is proven what was lost.
    proven: Vec<Broken>,
    files: &'a Files,
    report: &'a mut RepairReport,
    wants_uncertain: bool,
    keyspaces: &'a KnownKeyspaces,
    /// What has expired by then is no value: the time of jobs.
    time_ms: u64,
    /// The numbers of keyspaces that keys have and no edit, ascending.
    unlisted: Vec<KeyspaceId>,
    /// The keyspace of the last record.
    at: KeyspaceId,
    batch: VecDeque<Wanted>,
}

impl<'a> Resolver<'a> {
    pub(super) fn new(
        claims: Claims,
        (holes, ranges, proven): (Holes, RangeTombstones, Vec<Broken>),
        (files, keyspaces): (&'a Files, &'a KnownKeyspaces),
        report: &'a mut RepairReport,
        (wants_uncertain, time_ms): (bool, u64),
    ) -> Resolver<'a> {
        Resolver {
            claims,
            ahead: None,
            holes,
            ranges,
            proven,
            files,
            report,
            wants_uncertain,
            keyspaces,
            time_ms,
            unlisted: Vec::new(),
            at: KeyspaceId::DEFAULT,
            batch: VecDeque::new(),
        }
    }

    /// The numbers of keyspaces that keys have and no edit of the manifest, ascending.
    pub(super) fn into_unlisted(self) -> Vec<KeyspaceId> {
        self.unlisted
    }

    /// What becomes of the next key.
    fn standing(&mut self, key: &[u8]) -> Standing {
        let data = KeyspaceId::of(key);
        if self.keyspaces.is_unlisted(data) && self.unlisted.last() != Some(&data) {
            self.unlisted.push(data);
        }
        self.keyspaces.standing(data)
    }

    /// Notes that the next record is saved.
    fn save(&mut self, key: &[u8], value: &[u8]) {
        self.report.saved += 1;
        self.report.saved_bytes += (key.len() + value.len()) as u64;
        let data = KeyspaceId::of(key);
        if self.at != data && self.keyspaces.is_unlisted(data) {
            self.report.keyspaces.push(self.keyspaces.name(data));
        }
        self.at = data;
    }

    fn add_lost(&mut self, key: &[u8], place: (PathBuf, u64)) {
        let keyspace = self.keyspaces.name(KeyspaceId::of(key));
        self.report.add_lost(keyspace, key, place);
    }

    fn add_uncertain(&mut self, key: &[u8]) {
        let keyspace = self.keyspaces.name(KeyspaceId::of(key));
        self.report.add_uncertain(keyspace, key);
    }

    /// The next key and its value.
    pub(super) fn next(&mut self) -> Result<Option<Saved>> {
        loop {
            if self.batch.is_empty() && !self.fill_batch()? {
                return Ok(None);
            }
            let Some(wanted) = self.batch.pop_front() else {
                continue;
            };
            if let Some((value, expiry_ms, uncertain)) = self.value_of(&wanted)? {
                self.save(&wanted.key, &value);
                self.report.in_doubt += u64::from(wanted.in_doubt && !uncertain);
                return Ok(Some(Saved {
                    key: wanted.key,
                    value,
                    expiry_ms,
                }));
            }
        }
    }

    /// Decides about the next keys and reads what they want. False: there are none.
    fn fill_batch(&mut self) -> Result<bool> {
        let mut bytes = 0;
        while self.batch.len() < BATCH && bytes < BATCH_BYTES {
            let Some((key, versions)) = self.next_key()? else {
                break;
            };
            if let Some(wanted) = self.decide(key, versions) {
                bytes += wanted.places.first().map_or(0, |claim| claim.len());
                self.batch.push_back(wanted);
            }
        }
        let wanted = self.batch.iter();
        let small: Vec<(usize, Meant<'_>)> = wanted
            .enumerate()
            .filter_map(|(i, wanted)| {
                let claim = wanted.places.first()?;
                let pointer = claim.pointer().filter(|p| p.len < LARGE_BYTES)?;
                Some((i, (pointer, wanted.key.as_slice(), claim.seq)))
            })
            .collect();
        let pointers: Vec<_> = small.iter().map(|(_, pointer)| *pointer).collect();
        let read = self.files.read_many(&pointers);
        let places: Vec<usize> = small.iter().map(|(i, _)| *i).collect();
        for (i, read) in places.into_iter().zip(read) {
            if let Some(wanted) = self.batch.get_mut(i) {
                wanted.first = Some(read);
            }
        }
        Ok(!self.batch.is_empty())
    }

    /// The next key and its versions.
    fn next_key(&mut self) -> Result<Option<(Vec<u8>, Versions)>> {
        let first = match self.ahead.take() {
            Some(claim) => Some(claim),
            None => self.next_claim()?,
        };
        let Some(first) = first else {
            return Ok(None);
        };
        let key = first.key.clone();
        self.holes.go_to(&key);
        let mut deleted = self.range_delete(&key);
        let mut versions = Versions::default();
        versions.add_before(&mut deleted, first, &self.holes);
        while let Some(claim) = self.next_claim()? {
            if claim.key != key {
                self.ahead = Some(claim);
                break;
            }
            versions.add_before(&mut deleted, claim, &self.holes);
        }
        if let Some(claim) = deleted {
            versions.add(claim, &self.holes);
        }
        Ok(Some((key, versions)))
    }

    /// What range deletes say of a key: that it is deleted, as of the newest one.
    fn range_delete(&self, key: &[u8]) -> Option<Claim> {
        let seq = self.ranges.covering(key, SeqNo::MAX)?;
        let said = (key, seq, Kind::Delete);
        Some(Claim::new(said, (Rank::Live, false), Place::None))
    }

    fn next_claim(&mut self) -> Result<Option<Claim>> {
        let mut claim = self.claims.next()?;
        if let Some(claim) = &mut claim {
            self.proven.iter().for_each(|table| table.vouch_for(claim));
            claim.judge_at(self.time_ms);
        }
        Ok(claim)
    }

    /// What is wanted of a key, if anything.
    fn decide(&mut self, key: Vec<u8>, mut versions: Versions) -> Option<Wanted> {
        let standing = self.standing(&key);
        if standing == Standing::Gone {
            return None;
        }
        if versions.live.as_ref().is_some_and(|live| !live.sorted) {
            versions.newer.retain(|(_, by_key_table)| !by_key_table);
        }
        if let Some(pointer) = versions.left_out.take().and_then(|claim| claim.pointer()) {
            let segment = self.files.segment(pointer.file);
            self.add_lost(&key, (segment, pointer.offset));
        }
        let unordered = versions.unordered_delete || !versions.unordered.is_empty();
        let newest = versions.newer.first().map(|(claim, _)| claim.seq);
        let is_newest = |claim: &Claim| Some(claim.seq) == newest;
        let newer = std::mem::take(&mut versions.newer).into_iter();
        let mut newer: Vec<Claim> = newer.map(|(claim, _)| claim).filter(is_newest).collect();
        let is_deleted = versions.live.as_ref().is_none_or(|live| live.is_delete);
        if newer.is_empty() && is_deleted {
            newer = versions.unordered;
        }
        let deletes = newer.first().is_some_and(|claim| claim.is_delete);
        if !(newer.is_empty() || deletes && versions.live.is_none()) {
            self.add_uncertain(&key);
        }
        if !newer.is_empty() && self.wants_uncertain {
            if deletes {
                return None;
            }
            let believed = versions.live.into_iter().chain(versions.same);
            return Some(Wanted {
                key,
                places: newer,
                older: believed.chain(versions.older).collect(),
                in_doubt: true,
                uncertain: true,
                first: None,
            });
        }
        let live = versions.live?;
        if live.is_delete {
            self.report.tombstones += 1;
            return None;
        }
        let in_doubt = standing == Standing::InDoubt
            || live.rank != Rank::Live
            || unordered
            || !newer.is_empty()
            || self.holes.doubt(&live);
        let mut places = vec![live];
        places.extend(versions.same);
        Some(Wanted {
            key,
            places,
            older: versions.older,
            in_doubt,
            uncertain: false,
            first: None,
        })
    }

    /// Reads the value; and says when it expires, and whether it is an uncertain one.
    fn value_of(&mut self, wanted: &Wanted) -> Result<Option<(Bytes, Option<u64>, bool)>> {
        let mut fault = None;
        for (i, claim) in wanted.places.iter().enumerate() {
            let fetched = wanted.first.as_ref().filter(|_| i == 0);
            match self.read(&wanted.key, claim, fetched)? {
                Ok(value) => return Ok(Some((value, claim.expiry_ms, wanted.uncertain))),
                Err(place) => drop(fault.get_or_insert(place)),
            }
        }
        if !wanted.uncertain {
            self.add_lost(&wanted.key, fault.unwrap_or_default());
        }
        // What is older than a delete is dead, whatever else is lost.
        for claim in wanted.older.iter().take_while(|claim| !claim.is_delete) {
            if let Ok(value) = self.read(&wanted.key, claim, None)? {
                if !wanted.uncertain {
                    self.add_uncertain(&wanted.key);
                }
                let taken = self.wants_uncertain || seeded!(RepairTakesOlder);
                return Ok(taken.then_some((value, claim.expiry_ms, true)));
            }
        }
        Ok(None)
    }

    /// The value of a claim, or where it is damaged. Fails only when the system does.
    fn read(
        &self,
        key: &[u8],
        claim: &Claim,
        fetched: Option<&Result<Fetched>>,
    ) -> Result<std::result::Result<Bytes, (PathBuf, u64)>> {
        let pointer = match &claim.place {
            Place::Inline(value) => return Ok(Ok(Bytes::copy_from_slice(value))),
            Place::Frame(pointer) => *pointer,
            Place::None => return Ok(Err(Default::default())),
        };
        let read = match fetched {
            Some(Ok(Fetched::Value(value))) => Ok(value.clone()),
            Some(Ok(Fetched::Elsewhere(pointer))) => self.files.read(*pointer, key, claim.seq),
            Some(Err(error)) => Err(error.clone()),
            None => self.files.read(pointer, key, claim.seq),
        };
        match read {
            Ok(value) => Ok(Ok(value)),
            Err(error) if error.kind() == ErrorKind::Corruption => {
                let file = error.file().map(std::path::Path::to_owned);
                let file = file.unwrap_or_else(|| self.files.path(pointer.file));
                Ok(Err((file, error.offset().unwrap_or(pointer.offset))))
            }
            Err(error) => Err(error),
        }
    }
}
