//! A scenario of what expires.

use super::script::{Script, key, quiet};
use crate::config::Config;
use crate::history::{Exit, ExpiryOp, History, Op, Wall};

/// Values expire in memtables, in tables of both stores, and while they are held, and the time is
/// noted, before the database is opened again with the wall clock at another place.
pub(super) fn expiry() -> History {
    let mut script = Script::default();
    let pass = |ms| Op::Expiry(ExpiryOp::Pass(ms, Wall::GoesOn));
    script.put(0..12, 150).op(Op::Flush);
    for n in 0..6u32 {
        script.put_for((0..6).map(|i| (n * 3 + i) % 15), 160, 20_000 + u64::from(n));
        script.put_for([n, n + 20], 40, 1 << 40).hold(0).steps(2);
        script.op(pass(15_000)).op(Op::Flush);
        script.put_for([n + 2, n + 21], 170, 90_000);
        script.op(Op::Expiry(ExpiryOp::Persist(None, key(n + 20))));
        script.op(Op::Expiry(ExpiryOp::Expire(None, key(n), 30_000)));
        script.op(pass(46_000)).held(0);
        match n % 3 {
            0 => script.op(Op::Compact).op(pass(61_000)),
            1 => {
                let ahead = ExpiryOp::Pass(62_000, Wall::Ahead(600_000));
                script.op(Op::Expiry(ahead)).op(Op::Compact)
            }
            _ => {
                let exit = if n == 2 { Exit::Drop } else { Exit::Close };
                script.op(Op::Reopen(exit, None))
            }
        };
        script.held(0).put([n + 1], 30);
    }
    script.under(Config {
        unsorted_bytes: 4 << 10,
        inline_value_bytes: 64,
        ..quiet()
    })
}
