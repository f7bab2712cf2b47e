//! Scenarios of writes of all kinds, of the log and the manifest, and of what is read and copied
//! meanwhile.

use super::script::{Script, key, quiet};
use crate::config::Config;
use crate::history::{CopyOp, Exit, History, Key, Op, Range, Source};
use crate::value::Value;
use std::ops::Bound;
use unikv::Durability;

/// Values that go past log and memtable, some overwritten before they are flushed.
pub(super) fn large_values() -> History {
    let mut script = Script::default();
    for n in 0..18 {
        script.put([n % 7], 2000).put([n % 5], 40);
        script.put([n % 3, 20 + n], 6000).delete([n % 6]);
        match n % 6 {
            0 => script.op(Op::Sync),
            2 => script.op(Op::Flush),
            4 => script.hold(0),
            _ => script.held(0),
        };
        script.steps(2);
    }
    script.under(Config {
        unsorted_bytes: 16 << 10,
        ..quiet()
    })
}

/// Sorted streams between writes, each with its commit tag.
pub(super) fn ingest() -> History {
    let mut script = Script::default();
    script.put(0..10, 150).hold(0);
    for n in 0..10 {
        script.put([n, n + 3, n + 30], 150);
        script.ingest((0..12).map(|i| n + i * 4), 200);
        script.delete([n + 4]).batch([n, n + 8], 40, Some(false));
        script.steps(3).held(0);
    }
    script.under(Config {
        unsorted_bytes: 8 << 10,
        partition_bytes: 16 << 10,
        ..quiet()
    })
}

/// Segments of the log follow each other, with synced writes and others in each.
pub(super) fn wal_rotation() -> History {
    let mut script = Script::default();
    for n in 0..36u32 {
        script.batch([n % 10, n % 7 + 20], 300, Some(true));
        script.put([n % 13], 400);
        script.batch([n % 11, n % 17], 500, Some(false));
        script.op(if n % 3 == 0 { Op::Sync } else { Op::Step(1) });
    }
    script.under(quiet())
}

/// The manifest grows to many times its snapshot: long keys stand in each edit.
pub(super) fn manifest_renewal() -> History {
    let mut script = Script::default();
    let long = |n: u32| {
        let mut bytes = vec![b'k'; 12 << 10];
        bytes[..6].copy_from_slice(format!("{:06}", n % 5).as_bytes());
        Key(bytes)
    };
    script.put([1], 10);
    for n in 0..8u32 {
        let value = Value::new(1000 + n, 50);
        // What was ingested is listed with its keys as they are.
        script.op(Op::Ingest(vec![(long(n), Some(value))], false));
        script.put([n, n + 1], 100).op(Op::Flush).steps(3);
        if n % 4 == 3 {
            script.op(Op::Set(long(n - 1), None)).op(Op::Compact);
        }
    }
    script.under(Config {
        memory_budget: 1 << 20,
        ..quiet()
    })
}

/// The disk is full again and again, and has room again.
pub(super) fn disk_full() -> History {
    let mut script = Script::default();
    script.put(0..20, 150).op(Op::Flush).hold(0);
    for n in 0..8u32 {
        script.op(Op::Space(Some([0, 500, 3_000, 12_000][(n % 4) as usize])));
        script.put((0..4).map(|i| (n * 5 + i) % 30), 300);
        script.delete([n]).steps(4).put([n + 1], 200).held(0);
        script.op(Op::Space(None)).put([n, n + 9], 200).steps(3);
        if n % 3 == 0 {
            script.op(Op::Flush);
        }
    }
    script.under(Config {
        unsorted_bytes: 8 << 10,
        ..quiet()
    })
}

/// The database is closed or dropped again and again; its hash indexes are built again.
pub(super) fn reopening() -> History {
    let mut script = Script::default();
    for n in 0..12u32 {
        script.put((0..7).map(|i| (n * 5 + i) % 40), 180);
        script.delete([n]);
        if n % 2 == 0 {
            script.op(Op::Flush).put([n + 1], 60);
        }
        let exit = if n % 3 == 0 { Exit::Close } else { Exit::Drop };
        script.op(Op::Reopen(exit, None));
        script.op(Op::Get(key(n + 1)));
    }
    script.under(quiet())
}

/// Three snapshots are held over merges of what they see.
pub(super) fn snapshots() -> History {
    let mut script = Script::default();
    for n in 0..16u32 {
        let slot = (n % 3) as usize;
        script.put((0..6).map(|i| (i + n) % 12), 160);
        script.delete([n % 12, (n + 5) % 12]).hold(slot);
        script.put([n % 12], 20).op(Op::Flush);
        match n % 3 {
            1 => script.op(Op::Compact).held((slot + 1) % 3),
            2 => script.op(Op::Release(None)).held(slot),
            _ => script.steps(3),
        };
    }
    script.under(Config {
        unsorted_bytes: 4 << 10,
        max_space_amp: 1.5,
        ..quiet()
    })
}

/// Checkpoints, backups, an export and its import, with writes that are not durable, large values
/// that no version lists, and pruning.
pub(super) fn copies() -> History {
    let mut script = Script::default();
    for n in 0..3u32 {
        script.put((0..8).map(|i| n * 3 + i), 200);
        script.put([100 + n], 2000);
        script.op(Op::Copy(CopyOp::Checkpoint));
        script.put((0..4).map(|i| n * 2 + i), 100).op(Op::Flush);
        script.delete([n, n + 1]).op(Op::Copy(CopyOp::BackUp));
        if n == 1 {
            let some = Range::Within((Bound::Included(key(2)), Bound::Excluded(key(102))));
            script.op(Op::Copy(CopyOp::Export(Source::Own, some)));
        }
        script.op(Op::Compact).steps(3);
        if n == 1 {
            script.op(Op::Copy(CopyOp::Import(0, None)));
        }
    }
    script.op(Op::Copy(CopyOp::Prune(1)));
    script.put([3], 50).op(Op::Copy(CopyOp::BackUp));
    script.under(quiet())
}

/// Nearly all is deleted, again and again.
pub(super) fn deletes() -> History {
    let mut script = Script::default();
    for n in 0..9u32 {
        script.put((0..10).map(|i| n * 5 + i), 200).op(Op::Flush);
        if n % 3 == 1 {
            script.hold(0);
        }
        script.delete((0..12).map(|i| (n * 5 + i).saturating_sub(2)));
        script.op(Op::Compact).held(0).steps(3);
    }
    script.op(Op::DropSnapshot(0)).op(Op::DropIterator(0));
    script.op(Op::Compact).op(Op::Quiesce);
    script.under(Config {
        unsorted_bytes: 8 << 10,
        partition_bytes: 8 << 10,
        max_space_amp: 1.5,
        ..quiet()
    })
}

/// Batches whose keys lie in all partitions, with every durability.
pub(super) fn batches_over_partitions() -> History {
    let mut script = Script::default();
    script.put((0..30).map(|n| n * 5), 250).op(Op::Compact);
    for n in 0..22u32 {
        let sync = [None, Some(false), Some(true)][(n % 3) as usize];
        script.batch((0..8).map(|i| (i * 20 + n) % 150), 120, sync);
        script.steps(2);
        match n % 8 {
            2 => script.hold(0),
            7 => script.op(Op::Flush),
            _ => script.held(0),
        };
    }
    script.under(Config {
        durability: Durability::Buffered,
        unsorted_bytes: 4 << 10,
        partition_bytes: 4 << 10,
        ..quiet()
    })
}
