//! Draws what not every history has: estimates, refused calls and clocks, transactions, keyspaces,
//! ingests.

use super::Author;
use crate::history::{LONG_SLOT, Op, Range, SpaceOp, TxOp};
use crate::spaces::NAMES;
use crate::value::Value;
use rand::Rng;
use rand::seq::IndexedRandom;

/// Histories with keyspaces.
const KEYSPACES_EVERY: u64 = 5;
/// Histories with transactions.
const TRANSACTIONS_EVERY: u64 = 5;

/// Whether the history of this seed has keyspaces.
pub(super) fn has_keyspaces(seed: u64) -> bool {
    seed % KEYSPACES_EVERY == 2
}

/// Whether the history of this seed has transactions.
pub(super) fn has_transactions(seed: u64) -> bool {
    seed % TRANSACTIONS_EVERY == 4
}

impl Author {
    /// What is not drawn by [`Author::op`].
    pub(super) fn extra(&mut self) -> Op {
        match self.rng.random_range(0..40) {
            0 => Op::Snapshot(LONG_SLOT),
            1..5 => {
                let keys = self.some_keys(4);
                Op::ReadSnapshot(LONG_SLOT, keys, self.range(), self.walk())
            }
            5 => Op::Iterate(LONG_SLOT, Range::All, None),
            6..10 => Op::Advance(LONG_SLOT, self.rng.random_range(1..4), self.walk()),
            10 => Op::Release(Some(LONG_SLOT)),
            11..16 => {
                let slot = self.rng.random_range(0..=LONG_SLOT);
                Op::Seek(slot, self.key())
            }
            16..20 => {
                let of = self.rng.random_range(0..=LONG_SLOT);
                Op::IterateSnapshot(of, self.slot(), self.range())
            }
            20..25 => Op::Measure(self.range()),
            25..28 => Op::Look,
            28..31 => Op::Refused(self.rng.random_range(0..64)),
            31..33 => Op::CollectGarbage,
            33 => Op::Write(Vec::new(), None),
            34..36 => Op::CompactRange(self.range()),
            _ => Op::Clock {
                wall_ms: match self.rng.random_range(0..4) {
                    0 => 0,
                    1 => u64::MAX,
                    _ => self.rng.random_range(0..4_000_000_000_000),
                },
                forward_ms: *[0, 1, 100, 90_000, 86_400_000]
                    .choose(&mut self.rng)
                    .expect("a choice"),
            },
        }
    }

    pub(super) fn transaction_op(&mut self) -> TxOp {
        match self.aside.random_range(0..40) {
            0..8 => TxOp::Begin(self.aside.random_bool(0.7)),
            8..15 => TxOp::Get(self.key(), self.aside.random_bool(0.2)),
            15..20 => TxOp::Scan(self.range(), self.walk()),
            20..30 => TxOp::Set(self.key(), self.maybe_value()),
            30 => TxOp::Savepoint,
            31 => TxOp::Rollback,
            // Often more than a set of reads may take.
            38 => TxOp::GetMany(self.key(), 2500, self.aside.random_bool(0.5)),
            39 => TxOp::Drain(self.range(), self.aside.random_range(1..60)),
            _ => TxOp::Commit,
        }
    }

    pub(super) fn space_op(&mut self) -> SpaceOp {
        let name = self.aside.random_range(0..NAMES.len());
        match self.aside.random_range(0..40) {
            0..4 => SpaceOp::Make(name),
            4..6 => SpaceOp::Drop(name),
            6 => SpaceOp::Empty(name),
            7 => SpaceOp::Rename(name, self.aside.random_range(0..NAMES.len())),
            8..24 => {
                let count = self.aside.random_range(1..12);
                let change = |author: &mut Author| {
                    let name = author.aside.random_range(0..=NAMES.len());
                    let name = Some(name).filter(|name| *name < NAMES.len());
                    (name, author.key(), author.maybe_value())
                };
                let changes = (0..count).map(|_| change(self)).collect();
                SpaceOp::Write(changes, self.aside.random_bool(0.3))
            }
            24 => match self.ingest() {
                Op::Ingest(changes, _) => SpaceOp::Ingest(name, changes),
                _ => SpaceOp::Make(name),
            },
            25..32 => SpaceOp::Read(name, self.some_keys(4), self.range(), self.walk()),
            32..35 => SpaceOp::Iterate(name, self.range()),
            _ => SpaceOp::Advance(self.aside.random_range(1..8), self.walk()),
        }
    }

    /// A keyspace that is made, written to and dropped, now and then more often than there may be
    /// segments of the log.
    pub(super) fn churn(&mut self) -> SpaceOp {
        let name = self.aside.random_range(0..NAMES.len());
        let often = *[2, 5, 20, 70].choose(&mut self.aside).expect("a choice");
        let changes = (0..self.aside.random_range(0..4))
            .map(|_| (self.key(), self.maybe_value()))
            .collect();
        SpaceOp::Churn(name, changes, often)
    }

    /// Now and then many keys, so that there are several tables.
    pub(super) fn ingest(&mut self) -> Op {
        let share = *[0.1, 0.3, 1.0].choose(&mut self.aside).expect("a choice");
        let mut keys = self.keys.clone();
        keys.retain(|_| self.aside.random_bool(share));
        keys.sort_unstable();
        keys.dedup();
        let mut value = || {
            if self.aside.random_range(0..100) < self.deletes {
                return None;
            }
            self.stamp += 1;
            let len = match self.aside.random_range(0..10) {
                0 => 0,
                9 => self.aside.random_range(700..4000),
                _ => self.aside.random_range(1..300),
            };
            Some(Value::new(self.stamp, len))
        };
        let changes = keys.into_iter().map(|key| (key, value())).collect();
        Op::Ingest(changes, self.aside.random_bool(0.5))
    }
}
