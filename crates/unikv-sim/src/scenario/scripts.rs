//! The scenarios themselves.
//!
//! The numbers of rounds are chosen for some hundred calls that change the disk.

use super::Scenario;
use super::changes::changes;
use super::expiry::expiry;
use super::script::{Script, key, quiet};
use crate::config::Config;
use crate::history::{CopyOp, Exit, History, Key, Op, Range, Source, Walk};
use crate::moments::Seen;
use crate::value::Value;
use std::ops::Bound;
use unikv::vfs::sim::Op as Call;
use unikv::{Clustering, Durability};

/// A scenario's parts.
type Aimed = (&'static str, History, fn(&Seen) -> bool);

pub fn all() -> Vec<Scenario> {
    let aimed: [Aimed; 23] = [
        ("flush", flush(), |seen| {
            let it = seen.coverage;
            it.flushes >= 12 && it.merges == 0
        }),
        ("merge", merge(), |seen| seen.coverage.merges >= 8),
        ("clustering_for_scans", clustering_for_scans(), |seen| {
            seen.coverage.clusterings >= 8 && seen.coverage.clustered_bytes > 10_000
        }),
        ("clustering_when_idle", clustering_when_idle(), |seen| {
            seen.coverage.clusterings >= 3 && seen.coverage.merges >= 5
        }),
        ("scan_merge", scan_merge(), |seen| {
            seen.coverage.scan_merges >= 3
        }),
        ("gc_alone", gc_alone(), |seen| seen.coverage.gcs >= 2),
        ("gc_riding", gc_riding(), |seen| {
            seen.coverage.ridden_bytes >= 3000
        }),
        ("split", split(), |seen| seen.coverage.splits >= 4),
        ("split_under_load", split_under_load(), |seen| {
            seen.coverage.splits >= 4 && seen.coverage.merges >= 4
        }),
        ("join", join(), |seen| {
            seen.coverage.splits >= 3 && seen.coverage.joins >= 1
        }),
        ("copies", copies(), |seen| {
            let linked = seen.count(Call::Link, "rec") + seen.count(Call::Link, "key");
            linked >= 10 && seen.coverage.large >= 3 && seen.coverage.merges >= 2
        }),
        ("large_values", large_values(), |seen| {
            seen.coverage.large >= 30
        }),
        ("large_batches", large_batches(), |seen| {
            seen.coverage.large >= 30
        }),
        ("ingest", ingest(), |seen| seen.coverage.ingests >= 8),
        ("wal_rotation", wal_rotation(), |seen| {
            // New ones, and such as are written over old ones.
            let begun = seen.count(Call::Create, "wal") + seen.count(Call::Rename, "wal");
            begun >= 12 && seen.count(Call::Sync, "wal") >= 40
        }),
        ("manifest_renewal", manifest_renewal(), |seen| {
            // One for the creation, the other for a renewal: it is never reopened.
            seen.count(Call::Create, "MANIFEST") >= 2
        }),
        ("disk_full", disk_full(), |seen| seen.refused >= 8),
        ("reopening", reopening(), |seen| {
            seen.count(Call::Create, "MANIFEST") >= 10 && seen.coverage.merges == 0
        }),
        ("snapshots", snapshots(), |seen| seen.coverage.merges >= 4),
        ("deletes", deletes(), |seen| seen.coverage.merges >= 8),
        (
            "batches_over_partitions",
            batches_over_partitions(),
            |seen| seen.coverage.splits >= 2 && seen.coverage.merges >= 4,
        ),
        ("expiry", expiry(), |seen| seen.coverage.merges >= 4),
        ("changes", changes(), |seen| {
            seen.coverage.changes >= 30 && seen.coverage.tokens_held >= 2
        }),
    ];
    aimed
        .into_iter()
        .map(|(name, history, did)| Scenario { name, history, did })
        .collect()
}

/// Memtables become tables, by themselves and on request, while older ones are read.
fn flush() -> History {
    let mut script = Script::default();
    script.put(0..12, 150).hold(0);
    for n in 0..14 {
        script.put(n..n + 9, 200).batch(n + 5..n + 9, 80, None);
        script.delete([n * 3]).steps(2);
        if n % 3 == 0 {
            script.op(Op::Flush).held(0);
        }
    }
    script.under(quiet())
}

/// UnsortedStores go into SortedStores; values stay where they are.
fn merge() -> History {
    let mut script = Script::default();
    script.put(0..15, 150).hold(0);
    for n in 0..12 {
        script.put((0..8).map(|i| (n * 7 + i * 5) % 60), 180);
        script.put([n], 8).delete([n * 2]).op(Op::Flush).steps(2);
        match n % 4 {
            1 => script.op(Op::Compact),
            2 => script.op(Op::CompactRange(Range::Within((
                std::ops::Bound::Included(key(10)),
                std::ops::Bound::Unbounded,
            )))),
            _ => script.held(0),
        };
    }
    script.under(Config {
        unsorted_bytes: 4 << 10,
        ..quiet()
    })
}

/// Values are copied together, slice by slice, because scans have paid for it, while writers go on.
fn clustering_for_scans() -> History {
    let mut script = Script::default();
    script.hold(0);
    for n in 0..5 {
        for part in 0..7 {
            script.put((0..6).map(|i| part + i * 7), 120);
            script.op(Op::Flush);
        }
        script.op(Op::Compact).scans(8).steps(2);
        script.put([n, n + 20], 80).delete([n * 5]).steps(1).held(0);
        script
            .scans(4)
            .steps(2)
            .hold(n as usize % 2)
            .scans(4)
            .steps(3);
    }
    script.under(Config {
        clustering: Clustering::Automatic,
        unsorted_bytes: 4 << 10,
        ..quiet()
    })
}

/// Values are copied together while writers are idle: of files alone, along with merges, and of an
/// UnsortedStore.
fn clustering_when_idle() -> History {
    let mut script = Script::default();
    script.hold(0);
    for n in 0..6 {
        for part in 0..5 {
            script.put((0..8).map(|i| (n * 5 + part + i * 5) % 40), 120);
            script.op(Op::Flush);
        }
        if n % 3 != 2 {
            script.op(Op::Compact);
        }
        script.op(Op::Quiesce).scans(1);
        script.delete([n * 6]).held(0).hold(n as usize % 2).steps(2);
    }
    script.under(Config {
        clustering: Clustering::Automatic,
        max_space_amp: 3.0,
        ..quiet()
    })
}

/// Keys of an UnsortedStore are merged for scans.
fn scan_merge() -> History {
    let mut script = Script::default();
    script.hold(1);
    for n in 0..10 {
        script.put((0..8).map(|i| (n * 3 + i * 4) % 40), 120);
        script.op(Op::Flush).scans(6).op(Op::Quiesce);
        if n == 4 {
            script.hold(0);
        }
        script.put([n, n + 1], 30).held(0).steps(3);
    }
    script.under(Config {
        scan_merge_limit: 1,
        ..quiet()
    })
}

/// Keys of which every other is overwritten at once, and the rest stays: so each file is soon half
/// dead.
fn hot_and_cold(n: u32) -> impl Iterator<Item = u32> {
    (0..3).flat_map(move |i| [100 + i, (n * 3 + i) % 40])
}

/// Garbage is collected where no merge would do it.
fn gc_alone() -> History {
    let mut script = Script::default();
    for n in 0..14u32 {
        script.put(hot_and_cold(n), 800);
        script.op(Op::Compact).op(Op::CollectGarbage);
        match n % 5 {
            0 => script.hold(0),
            2 => script.held(0).op(Op::DropSnapshot(0)),
            _ => script.steps(2),
        };
    }
    script.under(Config {
        max_space_amp: 1.1,
        ..quiet()
    })
}

/// Merges take survivors of garbage along.
fn gc_riding() -> History {
    let mut script = Script::default();
    for n in 0..20u32 {
        script.put(hot_and_cold(n), 800).op(Op::Flush).steps(4);
        match n % 5 {
            0 => script.hold(0),
            2 => script.held(0).op(Op::DropSnapshot(0)),
            _ => script.steps(2),
        };
    }
    script.under(Config {
        unsorted_bytes: 4 << 10,
        max_space_amp: 1.7,
        ..quiet()
    })
}

/// Partitions become two.
fn split() -> History {
    let mut script = Script::default();
    script.put(0..10, 100).hold(0);
    for n in 0..12 {
        script.put((0..10).map(|i| n * 10 + i), 200).op(Op::Flush);
        if n % 3 == 2 {
            script.op(Op::Compact).held(0);
        }
    }
    script.under(Config {
        unsorted_bytes: 4 << 10,
        partition_bytes: 8 << 10,
        ..quiet()
    })
}

/// Partitions become two while writes, snapshots and iterators go on and nobody waits.
fn split_under_load() -> History {
    let mut script = Script::default();
    for n in 0..16u32 {
        script
            .put((0..9).map(|i| (n * 13 + i * 17) % 200), 220)
            .steps(4);
        script.batch((0..4).map(|i| (i * 50 + n) % 200), 60, None);
        match n % 6 {
            0 => script.hold((n / 6 % 3) as usize),
            3 => script.op(Op::Release(None)),
            _ => script.held((n / 6 % 3) as usize),
        };
    }
    script.under(Config {
        unsorted_bytes: 4 << 10,
        partition_bytes: 8 << 10,
        background_threads: 3,
        ..quiet()
    })
}

/// Partitions that deletes have made small become one again, twice, while what they held is still
/// read.
fn join() -> History {
    let mut script = Script::default();
    for n in 0..2u32 {
        script.put((0..45).map(|i| i * 4 + n), 220).op(Op::Compact);
        script.op(Op::Quiesce).hold(n as usize);
        script.delete((0..45).filter(|i| i % 9 != 0).map(|i| i * 4 + n));
        script.op(Op::Flush).held(n as usize).op(Op::Compact);
        script
            .op(Op::Release(None))
            .op(Op::DropSnapshot(n as usize));
        script.put([n, n + 90], 30).op(Op::Compact).op(Op::Quiesce);
        script.op(Op::Advance(n as usize, 9, Walk::Forward));
    }
    script.under(Config {
        unsorted_bytes: 4 << 10,
        partition_bytes: 8 << 10,
        ..quiet()
    })
}

/// Values that go past log and memtable, some overwritten before they are flushed.
fn large_values() -> History {
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

/// Batches larger than a memtable give up values of their own.
fn large_batches() -> History {
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

/// Sorted streams between writes, each with its mark.
fn ingest() -> History {
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
fn wal_rotation() -> History {
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
fn manifest_renewal() -> History {
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
fn disk_full() -> History {
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
fn reopening() -> History {
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
fn snapshots() -> History {
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
fn copies() -> History {
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
fn deletes() -> History {
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
fn batches_over_partitions() -> History {
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
