//! Sorting claims in bounded memory: spills that are sorted in memory and written to the target
//! directory, and a merge of them.
//!
//! Invariants: memory is the buffer of claims while they come, then a read buffer for each of at
//! most [`FAN_IN`] spills. A spill is written once and read once; none survives the sorter. Spills
//! need not survive a crash, so nothing is synced.
//!
//! No locks.

use super::claims::{Claim, order};
use crate::error::{Error, Result};
use crate::offline::repair::spill_writer::{HEAD_BYTES, Spill, checksum_of};
use crate::offline::repair::target::Target;
use crate::vfs::{Access, ReadFile, Vfs};
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::path::PathBuf;
use std::sync::Arc;

/// Spills that are merged at a time.
const FAN_IN: usize = 64;

/// Gathers claims.
pub(crate) struct Sorter<'a> {
    target: &'a Target,
    budget: usize,
    bytes: Vec<u8>,
    /// Where each claim begins and ends in `bytes`.
    places: Vec<(usize, usize)>,
    spills: Vec<Spill>,
}

impl<'a> Sorter<'a> {
    /// Sorts in about `budget` bytes.
    pub(crate) fn new(target: &'a Target, budget: u64) -> Sorter<'a> {
        Sorter {
            target,
            budget: usize::try_from(budget).unwrap_or(usize::MAX),
            bytes: Vec::new(),
            places: Vec::new(),
            spills: Vec::new(),
        }
    }

    /// Takes one more claim.
    pub(crate) fn push(&mut self, claim: &Claim) -> Result<()> {
        let start = self.bytes.len();
        claim.encode(&mut self.bytes);
        self.places.push((start, self.bytes.len()));

        let held = self.bytes.len() + self.places.len() * size_of::<(usize, usize)>();
        if held >= self.budget {
            self.spill()?;
        }
        Ok(())
    }

    /// All claims in their order.
    pub(crate) fn finish(mut self) -> Result<Claims> {
        if !self.spills.is_empty() {
            self.spill()?;
        }
        let read_bytes = (self.budget / FAN_IN).clamp(4 << 10, 256 << 10);
        while self.spills.len() > FAN_IN {
            let merged: Vec<Spill> = self.spills.drain(..FAN_IN).collect();
            let mut claims = Claims::of_spills(self.target, &merged, read_bytes)?;
            let mut spill = self.target.begin_spill()?;
            while let Some(bytes) = claims.next_bytes()? {
                spill.push(&bytes)?;
            }
            self.spills.push(spill.finish()?);
            for spill in merged {
                self.target.remove_spill(&spill.path)?;
            }
        }
        if !self.spills.is_empty() {
            return Claims::of_spills(self.target, &self.spills, read_bytes);
        }
        self.sort();
        Ok(Claims {
            memory: Some((std::mem::take(&mut self.bytes), self.places)),
            next: 0,
            heap: BinaryHeap::new(),
            readers: Vec::new(),
        })
    }

    fn sort(&mut self) {
        let bytes = &self.bytes;
        let of = |place: &(usize, usize)| bytes.get(place.0..place.1).unwrap_or_default();
        self.places.sort_unstable_by(|a, b| order(of(a), of(b)));
    }

    fn spill(&mut self) -> Result<()> {
        if self.places.is_empty() {
            return Ok(());
        }
        self.sort();
        let mut spill = self.target.begin_spill()?;
        for (start, end) in self.places.drain(..) {
            spill.push(self.bytes.get(start..end).unwrap_or_default())?;
        }
        self.bytes.clear();
        self.spills.push(spill.finish()?);
        Ok(())
    }
}

/// Encoded claims, and where each begins and ends.
type Gathered = (Vec<u8>, Vec<(usize, usize)>);

/// Sorted claims.
pub(crate) struct Claims {
    /// All of them, when they fitted into memory.
    memory: Option<Gathered>,
    next: usize,
    heap: BinaryHeap<Head>,
    readers: Vec<SpillReader>,
}

/// The first claim of a spill.
#[derive(PartialEq, Eq)]
struct Head {
    claim: Vec<u8>,
    spill: usize,
}

impl Ord for Head {
    /// The heap gives the greatest first, so the order is turned round.
    fn cmp(&self, other: &Head) -> Ordering {
        order(&other.claim, &self.claim).then_with(|| other.spill.cmp(&self.spill))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Head) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Claims {
    fn of_spills(target: &Target, spills: &[Spill], read_bytes: usize) -> Result<Claims> {
        let vfs = target.vfs();
        let readers = spills
            .iter()
            .map(|spill| SpillReader::open(&**vfs, spill, read_bytes));
        let mut claims = Claims {
            memory: None,
            next: 0,
            heap: BinaryHeap::new(),
            readers: readers.collect::<Result<_>>()?,
        };
        claims.rewind()?;
        Ok(claims)
    }

    /// Begins again.
    pub(crate) fn rewind(&mut self) -> Result<()> {
        self.next = 0;
        self.heap.clear();
        for (spill, reader) in self.readers.iter_mut().enumerate() {
            reader.rewind();
            if let Some(claim) = reader.next()? {
                self.heap.push(Head { claim, spill });
            }
        }
        Ok(())
    }

    /// The next claim.
    pub(crate) fn next(&mut self) -> Result<Option<Claim>> {
        let Some(bytes) = self.next_bytes()? else {
            return Ok(None);
        };
        let claim = Claim::decode(&bytes);
        claim.map(Some).ok_or_else(|| {
            Error::internal("a claim that was encoded in this repair does not decode")
        })
    }

    fn next_bytes(&mut self) -> Result<Option<Vec<u8>>> {
        if let Some((bytes, places)) = &self.memory {
            let place = places.get(self.next);
            self.next += 1;
            return Ok(place.and_then(|(start, end)| Some(bytes.get(*start..*end)?.to_vec())));
        }
        let Some(Head { claim, spill }) = self.heap.pop() else {
            return Ok(None);
        };
        if let Some(reader) = self.readers.get_mut(spill)
            && let Some(claim) = reader.next()?
        {
            self.heap.push(Head { claim, spill });
        }
        Ok(Some(claim))
    }
}

/// Reads a spill from front to back.
struct SpillReader {
    file: Arc<dyn ReadFile>,
    path: PathBuf,
    len: u64,
    buffer: Vec<u8>,
    /// The position in the buffer, and where the buffer ends in the file.
    at: usize,
    offset: u64,
    read_bytes: usize,
}

impl SpillReader {
    fn open(vfs: &dyn Vfs, spill: &Spill, read_bytes: usize) -> Result<SpillReader> {
        let file = vfs.open(&spill.path, Access::Sequential);
        Ok(SpillReader {
            file: file.map_err(|e| Error::io("open this file", &spill.path, e))?,
            path: spill.path.clone(),
            len: spill.len,
            buffer: Vec::new(),
            at: 0,
            offset: 0,
            read_bytes,
        })
    }

    fn rewind(&mut self) {
        self.buffer.clear();
        self.at = 0;
        self.offset = 0;
    }

    /// Where the next claim begins in the file.
    fn position(&self) -> u64 {
        self.offset - (self.buffer.len() - self.at) as u64
    }

    fn next(&mut self) -> Result<Option<Vec<u8>>> {
        let position = self.position();
        if position == self.len {
            return Ok(None);
        }
        let has_head = self.fill(HEAD_BYTES)?;
        let head = self.buffer.get(self.at..).and_then(|b| b.first_chunk());
        let Some([l0, l1, l2, l3, c0, c1, c2, c3]) = head.filter(|_| has_head).copied() else {
            return Err(self.damaged(position, "ends early"));
        };
        let len = [l0, l1, l2, l3];
        let end = HEAD_BYTES + u32::from_le_bytes(len) as usize;
        // A damaged length must not take any memory that it names.
        if end as u64 > self.len.saturating_sub(position) || !self.fill(end)? {
            return Err(self.damaged(position, "ends early"));
        }
        let claim = self.buffer.get(self.at + HEAD_BYTES..self.at + end);
        let claim = claim.unwrap_or_default().to_vec();
        if u32::from_le_bytes([c0, c1, c2, c3]) != checksum_of(len, &claim, position) {
            return Err(self.damaged(position, "is damaged"));
        }
        self.at += end;
        Ok(Some(claim))
    }

    fn damaged(&self, position: u64, what: &str) -> Error {
        let what = format!("a sorted spill of this repair {what}");
        Error::corruption(&self.path, position, what)
    }

    /// Brings `len` bytes from the position on into the buffer; false if the spill ends before.
    fn fill(&mut self, len: usize) -> Result<bool> {
        if self.buffer.len() - self.at >= len {
            return Ok(true);
        }
        self.buffer.drain(..self.at);
        self.at = 0;
        let held = self.buffer.len();
        self.buffer.resize(len.max(self.read_bytes), 0);
        let read = self.file.read_at(&mut self.buffer[held..], self.offset);
        let read = read.map_err(|e| Error::io("read this file", &self.path, e))?;
        self.offset += read as u64;
        self.buffer.truncate(held + read);
        Ok(self.buffer.len() >= len)
    }
}

#[cfg(test)]
mod tests {
    use super::super::claims::{Place, Rank};
    use super::*;
    use crate::ErrorKind;
    use crate::base::keys::{Kind, SeqNo};
    use crate::vfs::Env;
    use crate::vfs::sim::{SimRuntime, SimVfs};
    use std::path::Path;

    const CLAIMS: u64 = 3000;

    /// The n-th claim in no order; each key has three versions.
    fn claim(n: u64) -> Claim {
        let mixed = n * 7919 % CLAIMS;
        let key = format!("key{:05}", mixed / 3);
        let place = Place::Inline(mixed.to_le_bytes().to_vec());
        let who = (key.as_bytes(), SeqNo(mixed), Kind::Put);
        Claim::new(who, (Rank::Live, false), place)
    }

    fn target(disk: &SimVfs) -> Target {
        let env = Env {
            vfs: Arc::new(disk.clone()),
            runtime: SimRuntime::new(1),
        };
        Target::new(&env, Path::new("/new")).unwrap()
    }

    fn sorted(target: &Target, budget: u64) -> Claims {
        let mut sorter = Sorter::new(target, budget);
        (0..CLAIMS).for_each(|n| sorter.push(&claim(n)).unwrap());
        sorter.finish().unwrap()
    }

    fn spills(disk: &SimVfs) -> Vec<PathBuf> {
        let mut spills = disk.file_names();
        spills.retain(|path| path.extension().is_some_and(|of| of == "sort"));
        spills
    }

    #[test]
    fn claims_come_in_order_whether_they_fit_into_memory_or_not() {
        // In memory; in a few spills; in more spills than are merged at a time.
        for (budget, least, most) in [(1 << 20, 0, 0), (16 << 10, 2, FAN_IN), (1 << 10, 2, FAN_IN)]
        {
            let disk = SimVfs::new();
            let target = target(&disk);
            let mut claims = sorted(&target, budget);
            let left = spills(&disk).len();
            assert!((least..=most).contains(&left), "{budget}: {left} spills");
            for _ in 0..2 {
                let (mut count, mut last) = (0, (Vec::new(), SeqNo::MAX));
                while let Some(claim) = claims.next().unwrap() {
                    let in_order = if claim.key == last.0 {
                        claim.seq < last.1
                    } else {
                        claim.key > last.0
                    };
                    assert!(in_order, "{budget}: {claim:?} behind {last:?}");
                    last = (claim.key, claim.seq);
                    count += 1;
                }
                assert_eq!(count, CLAIMS, "{budget}");
                claims.rewind().unwrap();
            }
        }
    }

    #[test]
    fn a_flipped_bit_in_a_run_is_reported() {
        let disk = SimVfs::new();
        let target = target(&disk);
        drop(sorted(&target, 16 << 10));
        let path = spills(&disk).remove(0);
        let bytes = disk.read_file(&path).unwrap();
        let spill = Spill {
            len: bytes.len() as u64,
            path,
        };
        let path = &spill.path;
        for bit in (0..bytes.len() * 8).step_by(7) {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            disk.write_file(path, &damaged);
            let claims = Claims::of_spills(&target, std::slice::from_ref(&spill), 4 << 10);
            let read = claims.and_then(|mut claims| {
                while claims.next()?.is_some() {}
                Ok(())
            });
            let error = read.expect_err("a flipped bit");
            assert_eq!(error.kind(), ErrorKind::Corruption, "{bit}: {error}");
            assert_eq!(error.file(), Some(path.as_path()));
        }
    }

    #[test]
    fn a_run_that_ends_early_is_reported() {
        let disk = SimVfs::new();
        let target = target(&disk);
        drop(sorted(&target, 16 << 10));
        let path = spills(&disk).remove(0);
        let bytes = disk.read_file(&path).unwrap();
        let len = bytes.len() as u64;
        let first = u32::from_le_bytes(*bytes.first_chunk().unwrap()) as usize;
        let spill = Spill { len, path };
        // Within the last claim, and after the first.
        for cut in [bytes.len() - 1, HEAD_BYTES + first] {
            disk.write_file(&spill.path, &bytes[..cut]);
            let claims = Claims::of_spills(&target, std::slice::from_ref(&spill), 4 << 10);
            let mut claims = claims.unwrap();
            let error = std::iter::from_fn(|| claims.next().transpose())
                .find_map(Result::err)
                .unwrap();
            assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
            assert_eq!(error.file(), Some(spill.path.as_path()));
        }
    }
}
