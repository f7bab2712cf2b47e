//! All scenarios, and those of background jobs.
//!
//! The numbers of rounds are chosen for some hundred calls that change the disk.

use super::Scenario;
use super::changes::changes;
use super::expiry::expiry;
use super::many::{
    batches_beyond_memory, keyspace_churn, large_batches, long_transactions, many_partitions,
    wide_range_deletes,
};
use super::script::{Script, key, quiet};
use super::writes::{
    batches_over_partitions, copies, deletes, disk_full, ingest, large_values, manifest_renewal,
    reopening, snapshots, wal_rotation,
};
use crate::config::Config;
use crate::history::{History, Op, Range, Walk};
use crate::moments::Seen;
use std::ops::Bound;
use unikv::Clustering;
use unikv::vfs::sim::Op as Call;

/// A scenario's parts.
type Aimed = (&'static str, History, fn(&Seen) -> bool);

pub fn all() -> Vec<Scenario> {
    let aimed: [Aimed; 28] = [
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
        ("batches_beyond_memory", batches_beyond_memory(), |seen| {
            seen.coverage.ingests >= 4
        }),
        ("wide_range_deletes", wide_range_deletes(), |seen| {
            seen.coverage.flushes >= 8 && seen.coverage.merges >= 3
        }),
        ("keyspace_churn", keyspace_churn(), |seen| {
            seen.count(Call::Append, "MANIFEST") >= 60
        }),
        ("long_transactions", long_transactions(), |seen| {
            seen.coverage.flushes >= 8
        }),
        ("many_partitions", many_partitions(), |seen| {
            seen.coverage.splits >= 10 && seen.coverage.merges >= 30
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
                Bound::Included(key(10)),
                Bound::Unbounded,
            )))),
            _ => script.held(0),
        };
    }
    script.under(Config {
        unsorted_bytes: 4 << 10,
        ..quiet()
    })
}

/// Values are copied together, slice by slice, because that is worth its cost, while writers go on.
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
