//! Histories of operations, crashes among them, against the oracle of `unikv-sim`. Eight bytes draw
//! the options, the rest is operations.
#![no_main]

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use std::ops::Bound;
use unikv_sim::config::Config;
use unikv_sim::history::{Exit, History, Key, Mix, Op, Range, SLOTS, Walk};
use unikv_sim::runner;
use unikv_sim::value::Value;

/// Enough for several flushes and merges, few enough for many runs a second.
const MOST_OPS: usize = 150;

fuzz_target!(|data: &[u8]| {
    let mut author = Author {
        input: Unstructured::new(data),
        stamp: 0,
    };
    let seed = author.input.arbitrary().unwrap_or(0);
    let none = Mix {
        steps: 0,
        reads: false,
        crashes: true,
        reopens: true,
        busy: true,
    };
    let mut history = History::draw(seed, none);
    while history.ops.len() < MOST_OPS && !author.input.is_empty() {
        let Ok(op) = author.op(&history.config) else {
            break;
        };
        history.ops.push(op);
    }
    runner::run(&history);
});

/// Reads operations from bytes.
struct Author<'a> {
    input: Unstructured<'a>,
    stamp: u32,
}

impl Author<'_> {
    fn op(&mut self, config: &Config) -> Result<Op> {
        Ok(match self.input.int_in_range(0..=31)? {
            0..=7 => Op::Set(self.key()?, self.value()?),
            8 | 9 => Op::Write(self.changes()?, self.input.arbitrary()?),
            10 => Op::Get(self.key()?),
            11 => Op::MultiGet(vec![self.key()?, self.key()?, self.key()?]),
            12 | 13 => Op::Scan(self.range()?, self.walk()?),
            14 => Op::Snapshot(self.slot()?),
            15 | 16 => {
                Op::ReadSnapshot(self.slot()?, vec![self.key()?], self.range()?, self.walk()?)
            }
            17 => Op::DropSnapshot(self.slot()?),
            18 => {
                let seek = match self.input.arbitrary()? {
                    true => Some(self.key()?),
                    false => None,
                };
                Op::Iterate(self.slot()?, self.range()?, seek)
            }
            19 | 20 => Op::Advance(self.slot()?, self.input.int_in_range(1..=12)?, self.walk()?),
            21 => Op::DropIterator(self.slot()?),
            22 => Op::Release(self.input.arbitrary::<bool>()?.then_some(0)),
            23 => Op::Sync,
            24 => Op::Flush,
            25 => Op::Compact,
            26 => Op::CompactRange(self.range()?),
            27 => Op::Ingest(self.ascending()?, self.input.arbitrary()?),
            28 => Op::Quiesce,
            29 => Op::Step(self.input.int_in_range(1..=6)?),
            30 => Op::Set(self.key()?, Some(self.long_value(config)?)),
            _ => self.reopen()?,
        })
    }

    /// One of few keys, among them those that meet the edges.
    fn key(&mut self) -> Result<Key> {
        let n: u8 = self.input.arbitrary()?;
        Ok(Key(match n % 32 {
            0 => Vec::new(),
            1 => vec![0],
            2 => vec![0xff, 0xff],
            3 => vec![b'k'; 700],
            n if n < 12 => vec![b'a'; usize::from(n)],
            n => format!("user:{n:04}").into_bytes(),
        }))
    }

    fn value(&mut self) -> Result<Option<Value>> {
        if self.input.ratio(1, 5)? {
            return Ok(None);
        }
        let len = usize::from(self.input.arbitrary::<u16>()?) % 900;
        Ok(Some(self.stamped(len)))
    }

    fn long_value(&mut self, config: &Config) -> Result<Value> {
        let most = 2 * config.memtable_bytes as usize;
        let len = self.input.int_in_range(most / 8..=most)?;
        Ok(self.stamped(len))
    }

    fn stamped(&mut self, len: usize) -> Value {
        self.stamp += 1;
        Value {
            stamp: self.stamp,
            len,
        }
    }

    fn changes(&mut self) -> Result<Vec<(Key, Option<Value>)>> {
        let count = self.input.int_in_range(1..=8)?;
        (0..count)
            .map(|_| Ok((self.key()?, self.value()?)))
            .collect()
    }

    fn ascending(&mut self) -> Result<Vec<(Key, Option<Value>)>> {
        let mut changes = self.changes()?;
        changes.sort_by(|a, b| a.0.cmp(&b.0));
        changes.dedup_by(|a, b| a.0 == b.0);
        Ok(changes)
    }

    fn slot(&mut self) -> Result<usize> {
        self.input.int_in_range(0..=SLOTS - 1)
    }

    fn walk(&mut self) -> Result<Walk> {
        Ok(match self.input.int_in_range(0..=2)? {
            0 => Walk::Forward,
            1 => Walk::Backward,
            _ => Walk::Both(self.input.arbitrary()?),
        })
    }

    fn range(&mut self) -> Result<Range> {
        Ok(match self.input.int_in_range(0..=3)? {
            0 => Range::All,
            1 => Range::Prefix(self.key()?),
            _ => Range::Within((self.bound()?, self.bound()?)),
        })
    }

    fn bound(&mut self) -> Result<Bound<Key>> {
        Ok(match self.input.int_in_range(0..=2)? {
            0 => Bound::Unbounded,
            1 => Bound::Included(self.key()?),
            _ => Bound::Excluded(self.key()?),
        })
    }

    fn reopen(&mut self) -> Result<Op> {
        let exit = match self.input.int_in_range(0..=4)? {
            0 => Exit::Close,
            1 => Exit::Drop,
            2 => Exit::Kill,
            _ => Exit::PowerCut(self.input.arbitrary()?),
        };
        Ok(Op::Reopen(exit, None))
    }
}
