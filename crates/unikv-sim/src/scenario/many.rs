//! Scenarios of much at once: batches larger than memory, many range deletes, transactions that
//! read much, and many keyspaces and partitions one after the other.

use super::script::{Script, key, quiet};
use crate::config::Config;
use crate::history::{Exit, History, Key, Op, Range, SpaceOp, TxOp, Walk};
use std::ops::Bound;

/// Batches larger than a memtable give up values of their own.
pub(super) fn large_batches() -> History {
    let mut script = Script::default();
    for n in 0..9u32 {
        script.batch((0..16).map(|i| (n + i * 3) % 50), 500, None);
        script.put([n, n + 20], 100);
        script.batch((0..10).map(|i| (n * 2 + i) % 50), 900, Some(n % 2 == 0));
        if n % 4 == 1 {
            script.hold(0).op(Op::Flush);
        }
        script.steps(3).held(0);
    }
    script.under(Config {
        unsorted_bytes: 32 << 10,
        ..quiet()
    })
}

/// Batches of more than the mebibyte that each may have, between writes and flushes. They have many
/// versions of few keys, so that what they leave is short.
pub(super) fn batches_beyond_memory() -> History {
    let mut script = Script::default();
    script.put(0..10, 150).hold(0);
    for n in 0..5u32 {
        script.put([n, n + 20], 100).delete([n * 3]);
        let keys = (0..9_000).map(|i| (n + i * 7) % (50 + n));
        script.batch(keys, 100, Some(n % 2 == 0));
        script.put([n + 1, n + 30], 60).held(0).steps(2);
        if n == 2 {
            script.op(Op::Reopen(Exit::Drop, None)).hold(0);
        }
    }
    script.under(Config {
        memory_budget: 1 << 20,
        ..quiet()
    })
}

/// Batches of many range deletes, beside puts, flushes and merges.
pub(super) fn wide_range_deletes() -> History {
    let mut script = Script::default();
    script.put(0..40, 150).op(Op::Flush).hold(0);
    for n in 0..7u32 {
        script.put((0..8).map(|i| (n * 5 + i * 3) % 60), 120);
        let range = |i: u32| {
            let start = (n * 7 + i * 11) % 60;
            let bounds = (
                Bound::Included(key(start)),
                Bound::Excluded(key(start + i % 4)),
            );
            Range::Within(bounds)
        };
        let after = script.changes([n, n + 2, n + 31], 80);
        script.op(Op::DeleteRanges((0..30).map(range).collect(), after));
        script.put([n + 5], 40).held(0).steps(2);
        match n % 3 {
            0 => script.op(Op::Flush),
            1 => script.op(Op::Compact).hold(0),
            _ => script.scans(1),
        };
    }
    script.under(Config {
        unsorted_bytes: 8 << 10,
        ..quiet()
    })
}

/// Keyspaces are made, written to and dropped, while one write stays in the memtable.
pub(super) fn keyspace_churn() -> History {
    let mut script = Script::default();
    script.put([1], 40).op(Op::Keyspaces(SpaceOp::Make(2)));
    for n in 0..4u32 {
        let changes = script.changes([n, n + 7], 60);
        let churn = SpaceOp::Churn(0, changes, 6);
        script.op(Op::Keyspaces(churn));
        let changes = script.changes([n, n + 1, n + 2], 90);
        let changes = changes
            .into_iter()
            .map(|(key, value)| (Some(2), key, value));
        let write = SpaceOp::Write(changes.collect(), n % 2 == 0);
        script.op(Op::Keyspaces(write)).steps(1);
        if n == 1 {
            script.op(Op::Flush).op(Op::Keyspaces(SpaceOp::Empty(2)));
        }
    }
    script.under(quiet())
}

/// Transactions read more than a set of reads may keep key by key, and take first keys, while
/// others write and memtables are flushed.
pub(super) fn long_transactions() -> History {
    let mut script = Script::default();
    script.put(0..30, 120);
    for n in 0..8u32 {
        let of = |op| Op::Transaction((n % 2) as usize, op);
        let many = TxOp::GetMany(Key(format!("far{n}").into_bytes()), 2500, n % 3 == 0);
        script.op(of(TxOp::Begin(n % 4 != 3))).op(of(many));
        script.op(of(TxOp::Scan(Range::All, Walk::Forward)));
        // What it has read is written by another before each second commit.
        script.put([if n % 2 == 0 { 100 + n } else { n }], 150);
        if n % 2 == 1 {
            script.op(of(TxOp::Begin(true)));
        }
        let first = Range::Within((Bound::Included(key(n)), Bound::Excluded(key(n + 20))));
        script.op(of(TxOp::Drain(first, 6)));
        for (key, value) in script.changes((0..12).map(|i| n + i * 2), 300) {
            script.op(of(TxOp::Set(key, value)));
        }
        script.op(of(TxOp::Commit)).steps(2).put([n + 3], 60);
        script.op(Op::Flush);
    }
    script.under(quiet())
}

/// Partitions are split again and again until there are many, and written to in turns.
pub(super) fn many_partitions() -> History {
    let mut script = Script::default();
    for n in 0..3u32 {
        script.batch((0..75).map(|i| i * 4 + n), 130, None);
        script.op(Op::Compact).steps(4);
    }
    script.hold(0);
    for n in 0..5u32 {
        script.put((0..10).map(|i| (n * 31 + i * 37) % 300), 130);
        script.held(0).steps(3);
    }
    script.under(Config {
        unsorted_bytes: 4 << 10,
        partition_bytes: 4 << 10,
        ..quiet()
    })
}
