//! Comparing what a transaction has read with what was written since.
//!
//! The long comparison is made under no lock of writers ([`RecentWrites::compare`]), again and
//! again until few writes are left; these the leader of a commit group compares under the commit
//! lock ([`RecentWrites::check`]), each with one look-up in what was read. If there are more than
//! few all the same, the transaction is postponed: it compares them and comes again.
//!
//! Invariant: what was visible at `ReadSet::since` has been compared, and each comparison begins
//! there. No locks but those of the parts.

use super::RecentWrites;
use super::kept::KeptKeys;
use super::reads::{Observed, ReadSet};
use crate::base::hash::key_hash;
use crate::base::keys::{Kind, SeqNo};
use crate::base::range_tombstones::RangeRef;
use crate::base::seeded::seeded;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::error::{Error, Result};
use crate::memtable::{Batch, BatchOp, Memtable, OpsIter};
use crate::partition::View;
use std::sync::Arc;

/// The most writes that are compared under the commit lock.
pub(super) const MOST_LEFT: u64 = 4096;
/// A transaction is postponed as often as this, and compares as often before it comes the first
/// time.
pub(super) const MOST_TRIES: u32 = 8;
/// A write that is looked up in what was read takes about as long as this many keys looked up in a
/// memtable; and a range that is, as long as this many keys.
const KEYS_PER_WRITE: usize = 2;
const KEYS_PER_RANGE: usize = 16;

/// While this lives, writers leave the keys that they write.
pub(crate) struct Comparing(Arc<RecentWrites>);

impl Drop for Comparing {
    fn drop(&mut self) {
        if self.0.process.is_this() {
            self.0.written.leave();
        }
    }
}

impl RecentWrites {
    /// A transaction that has read this is about to be compared. Where it has read little, writers
    /// need not do anything for that.
    pub(crate) fn comparing(self: &Arc<Self>, reads: &ReadSet) -> Option<Comparing> {
        if !self.process.is_this() || reads.observed().is_few() {
            return None;
        }
        self.written.want();
        Some(Comparing(Arc::clone(self)))
    }

    /// Refuses what conflicts already, under no lock of writers, and what is not compared again.
    /// `visible` is up to where writes are, and what `view` returns has all that were when it is
    /// called, or they are kept.
    pub(crate) fn compare(
        &self,
        reads: &ReadSet,
        visible: &AtomicU64,
        view: impl Fn() -> Arc<View>,
    ) -> Result<()> {
        for _ in 0..MOST_TRIES {
            // The number first: what is visible at it is in the view, or kept.
            let visible = SeqNo(visible.load(Ordering::Acquire));
            let since = reads.since();
            let observed = reads.observed();
            if observed.is_empty() || visible == since {
                return Ok(());
            }
            self.compare_until(visible, &observed, since, &view)?;
            drop(observed);
            reads.compared(visible);
            if visible.0 - since.0 <= MOST_LEFT {
                break;
            }
        }
        Ok(())
    }

    /// Compares all that was written since and is visible at `visible`, by the keys that writers
    /// have left if these are there.
    fn compare_until(
        &self,
        visible: SeqNo,
        observed: &Observed<'_>,
        since: SeqNo,
        view: impl Fn() -> Arc<View>,
    ) -> Result<()> {
        // First, as what it is about was visible before.
        let view = view();
        self.check_kept(since)?;
        match self.written.since(since, visible) {
            Some(groups) => {
                let mut is_read = |key: &[u8], end: Option<&[u8]>| observed.is_read(key, end);
                if groups.iter().any(|group| group.any(&mut is_read)) {
                    return Err(written_since());
                }
                Ok(())
            }
            None => self.compare_with_memtables(observed, since, &view),
        }
    }

    fn check_kept(&self, since: SeqNo) -> Result<()> {
        if self.lost_until() > since {
            return Err(Error::conflict("more was written meanwhile than is kept"));
        }
        Ok(())
    }

    fn compare_with_memtables(
        &self,
        observed: &Observed<'_>,
        since: SeqNo,
        view: &View,
    ) -> Result<()> {
        let (lost_until, keys, kept) = self.kept();
        if lost_until > since {
            return Err(Error::conflict("more was written meanwhile than is kept"));
        }
        let in_view = std::iter::once(&view.memtable).chain(&view.sealed);
        let mut memtables = in_view.map(|handle| &handle.table).chain(&kept);
        let hash_seed = view.version.counters.hash_seed;
        if memtables.any(|memtable| observed.is_written_in(memtable, since, hash_seed))
            || keys
                .iter()
                .any(|keys| observed.is_written_among(keys, since))
        {
            return Err(written_since());
        }
        Ok(())
    }

    /// Refuses what conflicts: something that `reads` holds has been written since and is visible
    /// at `visible`, or is in one of `earlier` batches, which come before in the group. Under the
    /// commit lock.
    pub(crate) fn check<'a>(
        &self,
        reads: &ReadSet,
        view: &View,
        visible: SeqNo,
        earlier: impl Iterator<Item = &'a Batch> + Clone,
    ) -> Result<()> {
        let since = reads.since();
        let observed = reads.observed();
        if observed.is_empty() {
            return Ok(());
        }
        self.check_kept(since)?;
        let before: u64 = earlier.clone().map(Batch::seq_count).sum();
        let is_few = observed.is_few();
        if since < visible {
            let groups = self.written.since(since, visible).filter(|_| !is_few);
            let left = visible.0 - since.0 + before;
            let is_much = groups.is_none() || left > MOST_LEFT;
            if !is_few && is_much && reads.postpone(MOST_TRIES) {
                return Err(Error::conflict("too much is left to compare"));
            }
            let mut is_read = |key: &[u8], end: Option<&[u8]>| {
                self.count_lookup();
                observed.is_read(key, end)
            };
            match groups {
                Some(groups) => {
                    if groups.iter().any(|group| group.any(&mut is_read)) {
                        return Err(written_since());
                    }
                }
                None => self.compare_with_memtables(&observed, since, view)?,
            }
        } else if !is_few && before > MOST_LEFT && reads.postpone(MOST_TRIES) {
            return Err(Error::conflict("too much is left to compare"));
        }
        let mut ops = earlier.flat_map(|batch| OpsIter::new(batch.ops_bytes()));
        let is_read = |op: &BatchOp<'_>| {
            self.count_lookup();
            let end = (op.kind == Kind::RangeDelete).then_some(op.value);
            observed.is_read(op.key, end)
        };
        if ops.any(|op| op.is_ok_and(|op| is_read(&op))) {
            Err(Error::conflict("what it read is being written"))
        } else {
            Ok(())
        }
    }

    #[inline]
    fn count_lookup(&self) {
        #[cfg(test)]
        self.looked_up.fetch_add(1, Ordering::Relaxed);
    }
}

fn written_since() -> Error {
    Error::conflict("what it read has been written since")
}

impl Observed<'_> {
    /// Whether a write of `key`, or of all keys from there to before `end`, is of something read.
    fn is_read(&self, key: &[u8], end: Option<&[u8]>) -> bool {
        match end {
            Some(end) => self.meets(key, end),
            None => self.holds(key),
        }
    }

    /// Whether a memtable has a version of something observed that is newer than `since`.
    fn is_written_in(&self, memtable: &Arc<Memtable>, since: SeqNo, hash_seed: u64) -> bool {
        if memtable.max_seq().is_none_or(|last| last <= since) {
            return false;
        }
        let (keys, ranges) = self.counts();
        if keys + KEYS_PER_RANGE * ranges <= KEYS_PER_WRITE * memtable.len() {
            return self.look_up_in(memtable, since, hash_seed);
        }
        let is_newer =
            |range: RangeRef<'_>| range.seq > since && self.is_read(range.start, Some(range.end));
        memtable.any_newer(since, |key| self.holds(key)) || memtable.ranges().iter().any(is_newer)
    }

    /// The same by a look-up of each key and range.
    fn look_up_in(&self, memtable: &Arc<Memtable>, since: SeqNo, hash_seed: u64) -> bool {
        let deletes_since = |lower: &[u8], upper: &[u8]| {
            let newest = memtable.newest_range_between(lower, upper);
            newest.is_some_and(|seq| seq > since)
        };
        let is_newer = |key: &[u8]| {
            let hash = key_hash(hash_seed, key);
            let newest = memtable.get(key, hash, SeqNo::MAX);
            let is_deleted = || deletes_since(key, &[key, &[0]].concat());
            newest.is_some_and(|entry| entry.seq > since) || is_deleted()
        };
        let reads_keys = !seeded!(KeysNotCompared);
        if reads_keys && self.keys().any(is_newer) {
            return true;
        }
        let has_newer = |lower: &[u8], upper: &[u8]| {
            if deletes_since(lower, upper) {
                return true;
            }
            let mut entries = memtable.iter();
            entries.seek(lower, SeqNo::MAX);
            while let Some(entry) = entries.entry().filter(|entry| entry.key < upper) {
                if entry.seq > since {
                    return true;
                }
                entries.next();
            }
            false
        };
        let mut ranges = self.ranges();
        ranges.any(|(lower, upper)| has_newer(lower, upper)) && !seeded!(RangesNotCompared)
    }

    /// Whether something observed was written after `since` and is among these keys.
    fn is_written_among(&self, kept: &KeptKeys, since: SeqNo) -> bool {
        if kept.last() <= since {
            return false;
        }
        let (keys, ranges) = self.counts();
        if keys + KEYS_PER_RANGE * ranges <= KEYS_PER_WRITE * kept.len() {
            let is_written = |key: &[u8]| kept.is_written(key, &[key, &[0]].concat(), since);
            return self.keys().any(is_written)
                || self
                    .ranges()
                    .any(|(lower, upper)| kept.is_written(lower, upper, since));
        }
        let is_newer =
            |range: RangeRef<'_>| range.seq > since && self.is_read(range.start, Some(range.end));
        kept.any_newer(since, |key| self.holds(key)) || kept.ranges().any(is_newer)
    }
}
