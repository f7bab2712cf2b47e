//! Histories of operations of every kind, crashes and full disks among them, against the oracle of
//! `unikv-sim`. Eight bytes draw the options, the rest is operations.
#![no_main]

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use std::ops::Bound;
use unikv_sim::config::Config;
use unikv_sim::history::{
    CopyOp, Exit, ExpiryOp, History, Key, LONG_SLOT, Mix, Op, Range, Walk, Wall,
};
use unikv_sim::runner;
use unikv_sim::story;
use unikv_sim::value::Value;

/// Enough for a few flushes and merges, few enough for many runs a second.
const MOST_OPS: usize = 40;

/// What a history is drawn with of which only the options count.
const OPTIONS_ALONE: Mix = Mix {
    steps: 0,
    reads: false,
    crashes: true,
    reopens: true,
    busy: true,
};

fuzz_target!(|data: &[u8]| {
    let mut author = Author {
        input: Unstructured::new(data),
        stamp: 0,
        expires: false,
    };
    let seed = author.input.arbitrary().unwrap_or(0);
    let mut history = History::draw(seed, OPTIONS_ALONE);
    // What fails prints what led to it.
    let _options = story::scope("options", seed);
    author.expires = history.expires;
    while history.ops.len() < MOST_OPS && !author.input.is_empty() {
        let Ok(op) = author.op(&history.config) else {
            break;
        };
        history.ops.push(op);
    }
    // A full disk does not stay full.
    history.ops.push(Op::Space(None));
    runner::run(&history);
});

/// Reads operations from bytes.
struct Author<'a> {
    input: Unstructured<'a>,
    stamp: u32,
    /// Whether values may expire.
    expires: bool,
}

impl Author<'_> {
    fn op(&mut self, config: &Config) -> Result<Op> {
        if self.expires && self.input.ratio(1, 6)? {
            return Ok(Op::Expiry(self.expiry_op()?));
        }
        Ok(match self.input.int_in_range(0..=47)? {
            0..=10 => Op::Set(self.key()?, self.value()?),
            11..=13 => Op::Write(self.changes()?, self.input.arbitrary()?),
            14 => Op::Set(self.key()?, Some(self.long_value(config)?)),
            15 => Op::Ingest(self.ascending()?, self.input.arbitrary()?),
            16 => Op::Get(self.key()?),
            17 => Op::MultiGet(vec![self.key()?, self.key()?, self.key()?]),
            18 | 19 => Op::Scan(self.range()?, self.walk()?),
            20 => Op::Snapshot(self.slot()?),
            21 | 22 => {
                Op::ReadSnapshot(self.slot()?, vec![self.key()?], self.range()?, self.walk()?)
            }
            23 => Op::DropSnapshot(self.slot()?),
            24 => Op::Iterate(self.slot()?, self.range()?, self.maybe_key()?),
            25 => Op::IterateSnapshot(self.slot()?, self.slot()?, self.range()?),
            26 | 27 => Op::Advance(self.slot()?, self.input.int_in_range(1..=12)?, self.walk()?),
            28 => Op::Seek(self.slot()?, self.key()?),
            29 => Op::DropIterator(self.slot()?),
            30 => Op::Release(if self.input.arbitrary()? {
                Some(self.slot()?)
            } else {
                None
            }),
            31 => Op::Sync,
            32 | 33 => Op::Flush,
            34 => Op::Compact,
            35 => Op::CompactRange(self.range()?),
            36 => Op::CollectGarbage,
            37 => Op::Quiesce,
            38 => Op::Measure(self.range()?),
            39 => Op::Look,
            40 => Op::Refused(self.input.arbitrary::<u8>()?.into()),
            41 => Op::Clock {
                wall_ms: self.input.arbitrary()?,
                forward_ms: self.input.arbitrary::<u32>()?.into(),
            },
            42 => Op::Space(if self.input.arbitrary()? {
                Some(self.input.arbitrary::<u16>()?.into())
            } else {
                None
            }),
            43 => Op::Copy(match self.input.int_in_range(0..=3)? {
                0 | 1 => CopyOp::Checkpoint,
                2 => CopyOp::BackUp,
                _ => CopyOp::Prune(1),
            }),
            44 | 45 => Op::Step(self.input.int_in_range(1..=6)?),
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

    fn maybe_key(&mut self) -> Result<Option<Key>> {
        Ok(if self.input.arbitrary()? {
            Some(self.key()?)
        } else {
            None
        })
    }

    fn value(&mut self) -> Result<Option<Value>> {
        if self.input.ratio(1, 5)? {
            return Ok(None);
        }
        let len = usize::from(self.input.arbitrary::<u16>()?) % 900;
        Ok(Some(self.stamped(len)?))
    }

    fn long_value(&mut self, config: &Config) -> Result<Value> {
        let most = 2 * config.memtable_bytes as usize;
        let len = self.input.int_in_range(most / 8..=most)?;
        self.stamped(len)
    }

    fn expiry_op(&mut self) -> Result<ExpiryOp> {
        let ms = u64::from(self.input.arbitrary::<u16>()?);
        Ok(match self.input.int_in_range(0..=8)? {
            0 => ExpiryOp::Write(self.changes()?, ms + 1),
            1 => ExpiryOp::Expire(None, self.key()?, ms + 1),
            2 => ExpiryOp::ExpireAt(None, self.key()?, ms as i64 - 9000),
            3 => ExpiryOp::Persist(None, self.key()?),
            4 => ExpiryOp::Increment(self.key()?, ms as i64),
            5 => ExpiryOp::Append(self.key()?),
            6 => ExpiryOp::Swap(self.key()?, self.value()?, ms % 4 > 0),
            7 => ExpiryOp::Pass(ms, Wall::Ahead(4 * ms)),
            _ => ExpiryOp::Pass(ms, Wall::GoesOn),
        })
    }

    fn stamped(&mut self, len: usize) -> Result<Value> {
        self.stamp += 1;
        let value = Value::new(self.stamp, len);
        if !self.expires || self.input.ratio(1, 2)? {
            return Ok(value);
        }
        Ok(value.living(Some(1 + u64::from(self.input.arbitrary::<u16>()?))))
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
        self.input.int_in_range(0..=LONG_SLOT)
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
        let config = if self.input.arbitrary()? {
            let seed = self.input.arbitrary()?;
            let mut config = History::draw(seed, OPTIONS_ALONE).config;
            if !self.expires {
                config.default_ttl_ms = None;
            }
            Some(Box::new(config))
        } else {
            None
        };
        Ok(Op::Reopen(exit, config))
    }
}
