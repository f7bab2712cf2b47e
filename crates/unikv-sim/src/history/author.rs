//! Draws histories.

mod changes;
mod expiry;
mod exports;
mod features;
mod ranges;
mod runs;

use super::{CopyOp, Exit, History, Key, Mix, Op, Range, SLOTS, Walk};
use crate::collide;
use crate::config::Config;
use crate::value::Value;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::ops::Bound;

impl History {
    /// Draws a history.
    pub fn draw(seed: u64, mix: Mix) -> History {
        let mut rng = SmallRng::seed_from_u64(seed);
        let config = Config::draw(&mut rng, mix.busy);
        let mut keys = draw_keys(&mut rng);
        if collide::is_about(seed) {
            // From a generator beside the first, so that the rest is drawn as for other seeds.
            let mut aside = SmallRng::seed_from_u64(seed ^ 0xc0_111de);
            let hash_seed = collide::hash_seed(seed);
            collide::make(&mut keys, EDGES.len(), hash_seed, &mut aside);
        }
        let deletes = *[5, 20, 45].choose(&mut rng).expect("a choice");
        // A generator beside the first, so that recorded seeds give nearly the same stories.
        let aside = SmallRng::seed_from_u64(rng.clone().random::<u64>() ^ 0x16e5_7000);
        let mut author = Author {
            rng,
            aside,
            keys,
            stamp: 0,
            deletes,
            mix,
            config: config.clone(),
        };
        // From generators beside the first, so that recorded seeds give the same stories as before.
        let mut aside = SmallRng::seed_from_u64(seed ^ 0x4e1ea5e);
        let mut hints = SmallRng::seed_from_u64(seed ^ 0xe4_ec7);
        let beside = |main: u64, aside: u64, stamp: u32| Author {
            rng: SmallRng::seed_from_u64(seed ^ main),
            aside: SmallRng::seed_from_u64(seed ^ aside),
            keys: author.keys.clone(),
            config: config.clone(),
            stamp,
            ..author
        };
        let mut extras = beside(0xe8_7a5, 0x5_9ace5, 0);
        let mut ranges = beside(0x7_a9e5, 0xa_7a9e5, 0);
        let mut lives = beside(0x7_71, 0xa_771, 0x50_0000);
        let mut runs = beside(0x9a_9500, 0xb_9a95, 0x60_0000);
        let mut exporter = beside(0xe_4907, 0xf_4907, 0);
        let mut many = beside(0x3a_9f00, 0xb_3a9f, 0x70_0000);
        let has_exports = exports::are_in(seed);
        let has_runs = runs::are_in(seed);
        let has_ranges = ranges::are_in(seed);
        let expires = expiry::is_in(seed);
        let has_keyspaces = features::has_keyspaces(seed);
        let has_transactions = features::has_transactions(seed);
        let mut ops = Vec::with_capacity(mix.steps);
        let mut copies = SmallRng::seed_from_u64(seed ^ 0xc0_b1e5);
        let has_copies = seed % COPIES_EVERY == 1;
        let mut config = config;
        if expires {
            lives.begin(&mut config, &mut ops);
        }
        for _ in 0..mix.steps {
            let first = ops.len();
            let op = author.op();
            let made = match op {
                Op::Iterate(slot, ..) | Op::Advance(slot, ..) => Some(slot),
                _ => None,
            };
            ops.push(op);
            if let Some(slot) = made.filter(|_| hints.random_range(0..4) == 0) {
                let entries = [0, 1, 5, 30, 1000, usize::MAX];
                let entries = *entries.choose(&mut hints).expect("a choice");
                ops.push(Op::Expect(slot, entries));
            }
            if mix.reads && aside.random_range(0..12) == 0 {
                let slot = aside.random_range(0..2 * SLOTS);
                ops.push(Op::Release((slot < SLOTS).then_some(slot)));
            }
            if mix.reads && extras.rng.random_range(0..10) == 0 {
                ops.push(extras.extra());
            }
            if has_transactions && extras.aside.random_range(0..2) == 0 {
                let slot = extras.aside.random_range(0..SLOTS);
                ops.push(Op::Transaction(slot, extras.transaction_op()));
            }
            if has_keyspaces && extras.aside.random_range(0..5) == 0 {
                ops.push(Op::Keyspaces(extras.space_op()));
            }
            if has_copies && copies.random_range(0..40) == 0 {
                ops.push(Op::Copy(match copies.random_range(0..4) {
                    0 | 1 => CopyOp::Checkpoint,
                    2 => CopyOp::BackUp,
                    _ => CopyOp::Prune(copies.random_range(1..3)),
                }));
            }
            if has_exports && exporter.aside.random_range(0..30) == 0 {
                ops.push(Op::Copy(exporter.export_op(has_keyspaces)));
            }
            if has_ranges && ranges.aside.random_range(0..12) == 0 {
                ops.push(match ranges.aside.random_range(0..3) {
                    0 if has_keyspaces => Op::Keyspaces(ranges.range_delete_in_space()),
                    0 if has_transactions => {
                        let slot = ranges.aside.random_range(0..SLOTS);
                        Op::Transaction(slot, ranges.range_delete_in_transaction())
                    }
                    _ => ranges.range_delete(),
                });
            }
            if has_ranges && many.aside.random_range(0..60) == 0 {
                ops.push(many.range_deletes());
            }
            if has_keyspaces && many.aside.random_range(0..100) == 0 {
                ops.push(Op::Keyspaces(many.churn()));
            }
            if has_runs && runs.aside.random_range(0..RUN_EVERY) == 0 {
                runs.run(&mut ops);
            }
            if expires && has_transactions && lives.rng.random_range(0..5) == 0 {
                let slot = lives.rng.random_range(0..SLOTS);
                ops.push(Op::Transaction(slot, lives.expiry_in_transaction()));
            }
            if expires {
                ops[first..].iter_mut().for_each(|op| lives.let_expire(op));
                if lives.aside.random_range(0..4) == 0 {
                    ops.push(lives.expiry_op(has_keyspaces));
                }
            }
        }
        let cold = seed % 4 == 3;
        let mut history = History {
            seed,
            config,
            cold,
            expires,
            ops,
        };
        if expires {
            history.for_hours();
        }
        changes::draw_windows(&mut history);
        history
    }
}

/// Histories with checkpoints and backups.
const COPIES_EVERY: u64 = 4;
/// Of such histories, one operation in this many is a run of deletes.
const RUN_EVERY: u32 = 40;
/// Empty, NUL, 0xff, prefixes of each other.
const EDGES: [&[u8]; 13] = [
    b"",
    b"\0",
    b"\0\0",
    b"a",
    b"a\0",
    b"a\0b",
    b"aa",
    b"b",
    b"\xff",
    b"\xff\xff",
    b"\xff\xff\xff\xff\xff",
    b"a key of more than 24 bytes",
    b"a key of more than 24 bytes!",
];

/// Keys that meet the edges, short ones that are close to each other, and long ones.
fn draw_keys(rng: &mut SmallRng) -> Vec<Key> {
    let mut keys: Vec<Key> = EDGES.iter().map(|key| Key(key.to_vec())).collect();
    for _ in 0..rng.random_range(1..40) {
        keys.push(Key(
            format!("user:{:06}", rng.random_range(0..200)).into_bytes()
        ));
    }
    for _ in 0..rng.random_range(0..20) {
        let len = rng.random_range(1..12);
        keys.push(Key((0..len)
            .map(|_| rng.random_range(b'a'..=b'd'))
            .collect()));
    }
    for _ in 0..rng.random_range(0..4) {
        let mut key = vec![b'k'; *[200, 700, 3000].choose(rng).expect("a choice")];
        key.push(rng.random());
        keys.push(Key(key));
    }
    keys
}

/// Draws one operation after the other.
struct Author {
    rng: SmallRng,
    aside: SmallRng,
    keys: Vec<Key>,
    stamp: u32,
    /// Of a hundred writes, how many delete.
    deletes: u32,
    mix: Mix,
    config: Config,
}

impl Author {
    fn op(&mut self) -> Op {
        match self.plain_op() {
            Op::Flush if self.aside.random_bool(0.5) => self.ingest(),
            Op::Compact if self.aside.random_bool(0.5) => Op::CompactRange(self.range()),
            op => op,
        }
    }

    fn plain_op(&mut self) -> Op {
        let reads = if self.mix.reads { 45 } else { 6 };
        match self.rng.random_range(0..55 + reads) {
            0..30 => Op::Set(self.key(), self.maybe_value()),
            30..38 => self.batch(),
            38..40 => Op::Sync,
            40..43 => Op::Flush,
            43 => Op::Compact,
            44 => Op::Quiesce,
            45..54 => Op::Step(self.rng.random_range(1..6)),
            54 if self.mix.reopens => self.reopen(),
            54 => Op::Flush,
            55..58 => Op::Get(self.key()),
            58..60 => Op::Scan(self.range(), self.walk()),
            60..70 => Op::Get(self.key()),
            70..74 => Op::MultiGet(self.some_keys(8)),
            74..80 => Op::Scan(self.range(), self.walk()),
            80..83 => Op::Snapshot(self.slot()),
            83..87 => {
                let keys = self.some_keys(4);
                Op::ReadSnapshot(self.slot(), keys, self.range(), self.walk())
            }
            87 => Op::DropSnapshot(self.slot()),
            88..92 => {
                let seek = if self.rng.random_bool(0.3) {
                    Some(self.key())
                } else {
                    None
                };
                Op::Iterate(self.slot(), self.range(), seek)
            }
            92..99 => Op::Advance(self.slot(), self.rng.random_range(1..12), self.walk()),
            _ => Op::DropIterator(self.slot()),
        }
    }

    fn slot(&mut self) -> usize {
        self.rng.random_range(0..SLOTS)
    }

    fn key(&mut self) -> Key {
        self.keys.choose(&mut self.rng).expect("keys").clone()
    }

    fn some_keys(&mut self, most: usize) -> Vec<Key> {
        (0..self.rng.random_range(1..=most))
            .map(|_| self.key())
            .collect()
    }

    fn maybe_value(&mut self) -> Option<Value> {
        if self.rng.random_range(0..100) < self.deletes {
            return None;
        }
        self.stamp += 1;
        let inline = self.config.inline_value_bytes as usize;
        let memtable = self.config.memtable_bytes as usize;
        let len = match self.rng.random_range(0..100) {
            0..4 => 0,
            4..8 => inline.saturating_sub(1),
            8..12 => inline,
            12..15 => inline + 1,
            15..60 => self.rng.random_range(1..100),
            60..90 => self.rng.random_range(100..700),
            90..98 => self.rng.random_range(700..4000),
            _ => self
                .rng
                .random_range(memtable / 2..memtable * 2)
                .min(40 << 10),
        };
        Some(Value::new(self.stamp, len))
    }

    fn batch(&mut self) -> Op {
        let count = match self.rng.random_range(0..10) {
            0 => 1,
            9 => self.rng.random_range(10..25),
            _ => self.rng.random_range(2..6),
        };
        let changes = (0..count)
            .map(|_| (self.key(), self.maybe_value()))
            .collect();
        let sync = match self.rng.random_range(0..4) {
            0 => Some(true),
            1 => Some(false),
            _ => None,
        };
        Op::Write(changes, sync)
    }

    fn range(&mut self) -> Range {
        match self.rng.random_range(0..6) {
            0 | 1 => Range::All,
            2 => {
                let mut prefix = self.key();
                prefix.0.truncate(self.rng.random_range(0..6));
                Range::Prefix(prefix)
            }
            _ => {
                let (mut low, mut high) = (self.key(), self.key());
                // Now and then the wrong way round: an empty range.
                if low > high && self.rng.random_bool(0.9) {
                    std::mem::swap(&mut low, &mut high);
                }
                Range::Within((self.bound(low), self.bound(high)))
            }
        }
    }

    fn bound(&mut self, mut key: Key) -> Bound<Key> {
        // Often a key that is not there.
        if self.rng.random_bool(0.3) {
            key.0.push(b'x');
        }
        match self.rng.random_range(0..5) {
            0 => Bound::Unbounded,
            1 | 2 => Bound::Excluded(key),
            _ => Bound::Included(key),
        }
    }

    fn walk(&mut self) -> Walk {
        match self.rng.random_range(0..5) {
            0 | 1 => Walk::Forward,
            2 | 3 => Walk::Backward,
            _ => Walk::Both(self.rng.random()),
        }
    }

    fn reopen(&mut self) -> Op {
        let exit = match self
            .rng
            .random_range(0..if self.mix.crashes { 6 } else { 2 })
        {
            0 => Exit::Close,
            1 => Exit::Drop,
            2 | 3 => Exit::Kill,
            _ => Exit::PowerCut(self.rng.random()),
        };
        let config = self.rng.random_bool(0.4).then(|| {
            self.config = Config::draw(&mut self.rng, self.mix.busy);
            Box::new(self.config.clone())
        });
        Op::Reopen(exit, config)
    }
}
