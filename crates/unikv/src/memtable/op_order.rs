//! The order of encoded operations: where each stands, sorted by key and from the newest version.
//!
//! Invariants: each operation was decoded once before it is added. The operations that an order is
//! used with are those that it was made of. No locks.

use super::ops::{BadOp, BatchOp, OpsIter};
use crate::base::keys::Kind;
use crate::base::seeded::slip;
use std::cmp::Ordering;
use std::mem::size_of;

/// An operation that is no range delete.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    /// The first bytes of its key after those that all keys share, padded with zeros.
    head: u64,
    /// Where it is encoded, and how many operations come before it.
    offset: u32,
    pub(super) index: u32,
}

/// Operations in internal order, beside their encoding.
#[derive(Default)]
pub(crate) struct OpOrder {
    /// The bytes with which all keys begin.
    prefix: Vec<u8>,
    pub(super) entries: Vec<Entry>,
    /// Number of entries, from the first on, whose heads are from when the prefix was longer.
    outdated: usize,
}

impl OpOrder {
    /// What `len` operations take in memory, beside their encoding.
    pub(crate) fn memory_bytes(len: usize) -> usize {
        len * size_of::<Entry>()
    }

    /// How many operations are no range deletes and have keys that are `wanted`.
    pub(crate) fn count(ops: &[u8], wanted: impl Fn(&[u8]) -> bool) -> Result<usize, BadOp> {
        let mut len = 0;
        for op in OpsIter::new(ops) {
            let op = op?;
            len += usize::from(op.kind != Kind::RangeDelete && wanted(op.key));
        }
        Ok(len)
    }

    /// The order of those operations that are no range deletes and whose keys are `wanted`: `len`,
    /// for which memory is taken.
    pub(crate) fn of(
        ops: &[u8],
        len: usize,
        wanted: impl Fn(&[u8]) -> bool,
    ) -> Result<OpOrder, BadOp> {
        let (mut order, mut offset) = (OpOrder::with_capacity(len), 0);
        for (index, op) in (0..).zip(OpsIter::new(ops)) {
            let op = op?;
            if op.kind != Kind::RangeDelete && wanted(op.key) {
                order.add(offset, index, op.key);
            }
            offset += op.encoded_len();
        }
        order.sort(ops);
        Ok(order)
    }

    /// The newest operation on each key.
    pub(crate) fn newest<'a>(&'a self, ops: &'a [u8]) -> impl Iterator<Item = BatchOp<'a>> {
        let mut last = None;
        let all = self.entries.iter().filter_map(|entry| op_at(ops, entry));
        all.filter(move |op| last.replace(op.key) != Some(op.key))
    }

    pub(super) fn with_capacity(len: usize) -> OpOrder {
        OpOrder {
            entries: Vec::with_capacity(len),
            ..OpOrder::default()
        }
    }

    pub(super) fn add(&mut self, offset: usize, index: u32, key: &[u8]) {
        if self.entries.is_empty() {
            self.prefix = key.to_vec();
        } else if !key.starts_with(&self.prefix) {
            let same = self.prefix.iter().zip(key).take_while(|(a, b)| a == b);
            self.prefix.truncate(same.count());
            self.outdated = self.entries.len();
        }
        self.entries.push(Entry {
            head: head_of(key.get(self.prefix.len()..).unwrap_or_default()),
            // A batch is shorter than 4 GiB.
            offset: offset as u32,
            index,
        });
    }

    pub(super) fn sort(&mut self, ops: &[u8]) {
        let prefix_len = self.prefix.len();
        for entry in self.entries.iter_mut().take(self.outdated) {
            entry.head = head_of(key_at(ops, entry).get(prefix_len..).unwrap_or_default());
        }
        self.outdated = 0;
        self.entries.sort_unstable_by(|a, b| {
            let by_head = a.head.cmp(&b.head);
            let by_key = by_head.then_with(|| key_at(ops, a).cmp(key_at(ops, b)));
            // The newest version of a key stands first.
            let (newer, older) = slip!(BatchOldestFirst, (a, b), (b, a));
            by_key.then_with(|| newer.index.cmp(&older.index))
        });
    }

    /// The place of the first entry that is not before the version `number` of `key`.
    pub(super) fn seek(&self, ops: &[u8], key: &[u8], number: u64) -> usize {
        let Some(rest) = key.strip_prefix(self.prefix.as_slice()) else {
            let is_before_all = key < self.prefix.as_slice();
            return if is_before_all { 0 } else { self.entries.len() };
        };
        let head = head_of(rest);
        self.entries.partition_point(|entry| {
            let by_head = entry.head.cmp(&head);
            let by_key = by_head.then_with(|| key_at(ops, entry).cmp(key));
            let order = by_key.then_with(|| number.cmp(&u64::from(entry.index)));
            order == Ordering::Less
        })
    }
}

pub(super) fn op_at<'a>(ops: &'a [u8], entry: &Entry) -> Option<BatchOp<'a>> {
    // It was decoded when the operations were put in order.
    OpsIter::again(ops.get(entry.offset as usize..)?)
}

fn key_at<'a>(ops: &'a [u8], entry: &Entry) -> &'a [u8] {
    op_at(ops, entry).map_or(&[], |op| op.key)
}

fn head_of(bytes: &[u8]) -> u64 {
    let mut head = [0; 8];
    let len = bytes.len().min(head.len());
    head[..len].copy_from_slice(&bytes[..len]);
    u64::from_be_bytes(head)
}
