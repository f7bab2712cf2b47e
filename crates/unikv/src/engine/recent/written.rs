//! The keys of the newest writes, for transactions that are about to commit.
//!
//! While a transaction is compared, each commit group leaves its keys here, under the commit lock
//! and before it is published. So the comparison under that lock looks each of them up in what was
//! read, and takes time in proportion to these writes, whatever was read and written before.
//!
//! Invariant: the groups follow each other without a gap, from the number that was visible before
//! the first one to the last number of the last one. A group from whose number that is not so
//! begins the list again: nothing depends on when writers notice that they are to leave keys.
//!
//! Lock: `log`, a leaf.

use crate::base::keys::{Kind, SeqNo};
use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::memtable::{Batch, OpsIter};
use std::collections::VecDeque;
use std::sync::Arc;

/// A group with more writes than this leaves none: the next comparison is made with the memtables.
const MOST_OF_GROUP: u64 = 1 << 14;
/// This part of a full memtable may be kept in keys, and as many bytes as this in any case.
const MEMTABLE_PART: u64 = 16;
const LEAST_BYTES: u64 = 64 << 10;
/// What a key takes beside its bytes: its kind, and lengths.
const PER_WRITE: usize = 1 + 4 + 4;

/// The keys of the newest writes.
pub(super) struct Written {
    most_bytes: usize,
    is_wanted: AtomicBool,
    log: Mutex<Log>,
}

#[derive(Default)]
struct Log {
    /// How many transactions want it.
    wanted_by: usize,
    groups: VecDeque<Arc<Group>>,
    bytes: usize,
}

/// The keys of a commit group.
pub(super) struct Group {
    /// What was visible before it, and what is after it.
    before: SeqNo,
    last: SeqNo,
    /// Keys, and bounds of deleted ranges.
    bytes: Vec<u8>,
}

impl Written {
    pub(super) fn new(memtable_bytes: u64) -> Written {
        Written {
            most_bytes: (memtable_bytes / MEMTABLE_PART).max(LEAST_BYTES) as usize,
            is_wanted: AtomicBool::new(false),
            log: Mutex::default(),
        }
    }

    /// From now on writers leave their keys, until [`Written::leave`] has been called as often.
    pub(super) fn want(&self) {
        self.log.lock().wanted_by += 1;
        self.is_wanted.store(true, Ordering::Release);
    }

    pub(super) fn leave(&self) {
        let groups = {
            let mut log = self.log.lock();
            log.wanted_by -= 1;
            if log.wanted_by > 0 {
                return;
            }
            self.is_wanted.store(false, Ordering::Release);
            std::mem::take(&mut *log)
        };
        drop(groups);
    }

    /// A group is about to be visible up to `last`; so far it is up to `before`.
    #[inline]
    pub(super) fn add<'a>(
        &self,
        before: SeqNo,
        last: SeqNo,
        batches: impl Iterator<Item = &'a Batch>,
    ) {
        if self.is_wanted.load(Ordering::Acquire) {
            self.add_wanted(before, last, batches);
        }
    }

    #[cold]
    fn add_wanted<'a>(&self, before: SeqNo, last: SeqNo, batches: impl Iterator<Item = &'a Batch>) {
        let mut bytes = Vec::new();
        if last.0 - before.0 <= MOST_OF_GROUP {
            for op in batches.flat_map(|batch| OpsIter::new(batch.ops_bytes())) {
                // What is in the memtable has been decoded before.
                let Ok(op) = op else { return };
                let end: &[u8] = if op.kind == Kind::RangeDelete {
                    op.value
                } else {
                    &[]
                };
                bytes.reserve(PER_WRITE + op.key.len() + end.len());
                bytes.push(op.kind as u8);
                for part in [op.key, end] {
                    bytes.extend_from_slice(&(part.len() as u32).to_le_bytes());
                    bytes.extend_from_slice(part);
                }
            }
        }
        let mut log = self.log.lock();
        if log.wanted_by == 0 {
            return;
        }
        if log.groups.back().is_some_and(|group| group.last != before) {
            log.clear();
        }
        if bytes.is_empty() {
            return log.clear();
        }
        log.bytes += bytes.len();
        log.groups.push_back(Arc::new(Group {
            before,
            last,
            bytes,
        }));
        while log.bytes > self.most_bytes
            && let Some(oldest) = log.groups.pop_front()
        {
            log.bytes -= oldest.bytes.len();
        }
    }

    /// What was written after `since`, if all of that up to `visible` is here. What came later may
    /// be with it.
    pub(super) fn since(&self, since: SeqNo, visible: SeqNo) -> Option<Vec<Arc<Group>>> {
        let log = self.log.lock();
        let first = log.groups.partition_point(|group| group.last <= since);
        let groups: Vec<_> = log.groups.iter().skip(first).cloned().collect();
        let begins = groups.first()?.before <= since;
        (begins && groups.last()?.last >= visible).then_some(groups)
    }
}

impl Log {
    fn clear(&mut self) {
        self.groups.clear();
        self.bytes = 0;
    }
}

impl Group {
    /// Calls `each` with each key, and the end of the range if one was deleted from there on, until
    /// it returns true; whether it has.
    pub(super) fn any(&self, mut each: impl FnMut(&[u8], Option<&[u8]>) -> bool) -> bool {
        let mut left = &self.bytes[..];
        while let Some((kind, rest)) = left.split_first() {
            let Some((key, rest)) = part(rest) else { break };
            let Some((end, rest)) = part(rest) else { break };
            left = rest;
            let is_range = *kind == Kind::RangeDelete as u8;
            if each(key, is_range.then_some(end)) {
                return true;
            }
        }
        false
    }
}

fn part(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_le_bytes(*len) as usize)
}
