//! A scenario of the change feed.

use super::script::{Script, key, quiet};
use crate::config::Config;
use crate::history::{Exit, History, Key, Op, Range, SpaceOp};
use crate::value::Value;
use std::ops::Bound;

/// Copies follow batches with every durability, range deletes, large values, ingests and changes of
/// keyspaces, while the window goes on and the database is opened again.
pub(super) fn changes() -> History {
    let mut script = Script::default();
    script.put(0..8, 150).op(Op::Flush);
    let few = |n: u32| Range::Within((Bound::Included(key(n)), Bound::Excluded(key(n + 3))));
    let in_space = |n: u32| {
        let value = Value::new(2000 + n, 100);
        (Some(0), Key(vec![b'k', n as u8]), Some(value))
    };
    for n in 0..8u32 {
        script.batch([n, n + 3, n + 9], 200, Some(n % 2 == 0));
        script.op(Op::DeleteRange(few(n + 1), Vec::new()));
        script
            .put([n % 5], if n % 3 == 0 { 1500 } else { 300 })
            .steps(2);
        match n % 4 {
            0 => script.op(Op::Keyspaces(SpaceOp::Make(0))),
            1 => script.ingest((0..5).map(|i| n + i * 3), 150),
            2 => script.op(Op::Keyspaces(SpaceOp::Empty(0))),
            _ => script.op(Op::Keyspaces(SpaceOp::Drop(0))),
        };
        let both = vec![in_space(n), (None, key(n), None), in_space(n + 1)];
        script.op(Op::Keyspaces(SpaceOp::Write(both, n % 3 == 0)));
        match n {
            3 => script.op(Op::Reopen(Exit::Drop, None)),
            6 => script.op(Op::Reopen(Exit::Close, None)),
            _ => script.op(if n % 2 == 0 { Op::Flush } else { Op::Sync }),
        };
        script.put([n + 4], 100);
    }
    script.under(Config {
        unsorted_bytes: 8 << 10,
        change_window_bytes: 16 << 10,
        ..quiet()
    })
}
