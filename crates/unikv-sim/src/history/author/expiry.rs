//! Draws what expires, and how time passes.
//!
//! From a generator beside the others: a history in which values expire is the one that it would be
//! otherwise, with spans in its writes and some operations more.

use super::Author;
use crate::config::Config;
use crate::history::{ExpiryOp, Key, Op, SpaceOp, TxOp, Wall};
use crate::spaces::NAMES;
use crate::value::Value;
use rand::Rng;
use rand::seq::IndexedRandom;

/// Histories in which values expire.
const EXPIRY_EVERY: u64 = 4;

/// Keys that hold numbers.
const COUNTERS: [&[u8]; 3] = [b"count 1", b"count 2", b"user:000100"];

/// Whether values expire in the history of this seed.
pub(super) fn is_in(seed: u64) -> bool {
    // Of those with keyspaces, of those with transactions and of the others as many.
    seed / 5 % EXPIRY_EVERY == 1
}

impl Author {
    /// The default span at the beginning, and some keys to work with.
    pub(super) fn begin(&mut self, config: &mut Config, ops: &mut Vec<Op>) {
        self.draw_default_ttl(config);
        for key in COUNTERS {
            ops.push(Op::Expiry(ExpiryOp::Increment(Key(key.to_vec()), 7)));
        }
    }

    fn draw_default_ttl(&mut self, config: &mut Config) {
        if self.aside.random_range(0..3) == 0 {
            config.default_ttl_ms = Some(match self.aside.random_range(0..3) {
                0 => u64::MAX,
                _ => self.span(),
            });
        }
    }

    /// How long a value lives: mostly less than the history lasts.
    fn span(&mut self) -> u64 {
        match self.aside.random_range(0..12) {
            0 => self.aside.random_range(1..50),
            1..6 => self.aside.random_range(50..10_000),
            6..9 => self.aside.random_range(10_000..120_000),
            9 => self.aside.random_range(120_000..4_000_000),
            10 => 1 << 45,
            _ => u64::MAX,
        }
    }

    /// Has some of the values of an operation expire.
    pub(super) fn let_expire(&mut self, op: &mut Op) {
        match op {
            Op::Set(_, value) => self.limit(value),
            Op::Write(changes, _)
            | Op::DeleteRange(_, changes)
            | Op::DeleteRanges(_, changes)
            | Op::Ingest(changes, _) => {
                changes.iter_mut().for_each(|(_, value)| self.limit(value));
            }
            Op::Keyspaces(SpaceOp::Write(changes, _)) => {
                changes.iter_mut().for_each(|(.., value)| self.limit(value));
            }
            Op::Keyspaces(SpaceOp::Ingest(_, changes)) => {
                changes.iter_mut().for_each(|(_, value)| self.limit(value));
            }
            Op::Transaction(_, TxOp::Set(_, value)) => self.limit(value),
            Op::Reopen(_, Some(config)) => self.draw_default_ttl(config),
            _ => {}
        }
    }

    fn limit(&mut self, value: &mut Option<Value>) {
        if let Some(value) = value
            && self.aside.random_bool(0.6)
        {
            value.ttl_ms = Some(self.span());
        }
    }

    /// An operation that has to do with expiry.
    pub(super) fn expiry_op(&mut self, has_keyspaces: bool) -> Op {
        let space = if has_keyspaces && self.aside.random_bool(0.4) {
            Some(self.aside.random_range(0..NAMES.len()))
        } else {
            None
        };
        Op::Expiry(match self.aside.random_range(0..24) {
            0 | 1 => {
                let count = self.aside.random_range(1..6);
                let change = |author: &mut Author| {
                    let mut value = author.maybe_value();
                    author.limit(&mut value);
                    (author.key(), value)
                };
                let changes = (0..count).map(|_| change(self)).collect();
                ExpiryOp::Write(changes, self.span())
            }
            2 | 3 => ExpiryOp::Expire(space, self.key(), self.span()),
            4 => {
                let from_now = *[-1_000_000, -1, 0, 1, 500, 20_000, 1 << 40]
                    .choose(&mut self.aside)
                    .expect("a choice");
                ExpiryOp::ExpireAt(space, self.key(), from_now)
            }
            5 => ExpiryOp::Persist(space, self.key()),
            6 | 7 => ExpiryOp::Increment(self.counter(), self.aside.random_range(-9..10)),
            8 => ExpiryOp::Expire(None, self.counter(), self.span()),
            9 => ExpiryOp::Append(self.key()),
            10 => ExpiryOp::Swap(self.key(), self.maybe_value(), self.aside.random_bool(0.8)),
            11 if has_keyspaces => {
                let name = self.aside.random_range(0..NAMES.len());
                ExpiryOp::Default(name, self.span())
            }
            12 => self.clock_moves(),
            13 => ExpiryOp::Pass(self.aside.random_range(60_001..150_000), Wall::GoesOn),
            14..17 => ExpiryOp::Pass(self.aside.random_range(500..20_000), Wall::GoesOn),
            _ => ExpiryOp::Pass(self.aside.random_range(1..1000), Wall::GoesOn),
        })
    }

    /// The same in a transaction.
    pub(super) fn expiry_in_transaction(&mut self) -> TxOp {
        let key = match self.rng.random_range(0..4) {
            0 => self.counter(),
            _ => self.key(),
        };
        match self.rng.random_range(0..3) {
            0 => TxOp::Persist(key),
            _ => TxOp::Expire(key, self.span()),
        }
    }

    fn counter(&mut self) -> Key {
        let key = COUNTERS.choose(&mut self.aside).expect("a choice");
        Key(key.to_vec())
    }

    fn clock_moves(&mut self) -> ExpiryOp {
        let wall = match self.aside.random_range(0..4) {
            0 => Wall::Behind(self.aside.random_range(1..10_000_000)),
            1 => Wall::Ahead(self.aside.random_range(3_600_000..100_000_000)),
            _ => Wall::Ahead(self.aside.random_range(1..200_000)),
        };
        ExpiryOp::Pass(self.aside.random_range(1..90_000), wall)
    }
}
