//! What every database does: values beside their keys and apart, merges, splits, ingests, logs.

use super::Shape;
use super::steps::{
    assert_shared, collect_garbage, merge_first_partition, scan_until_merged, split,
};
use crate::config::Config;
use crate::damage::maker::{Exit, small};
use crate::damage::specimen::FileKind;
use unikv::Clustering;

/// All of them.
pub(super) const SHAPES: [Shape; 14] = [
    Shape {
        name: "inline",
        config: || Config {
            inline_value_bytes: 64,
            ..small()
        },
        base: |maker| {
            maker.put(0..18, 20);
            maker.compact();
        },
        rest: |maker| {
            maker.put([3, 9, 30], 24);
            maker.delete([4]);
            maker.flush();
            maker.put([5, 31], 24);
            maker.sync();
            maker.put([6], 24);
        },
        exit: Exit::Kill,
        kinds: &[FileKind::Table, FileKind::KeyTable, FileKind::Wal],
    },
    Shape {
        name: "separated",
        config: small,
        base: |maker| maker.put(0..16, 30),
        rest: |maker| {
            maker.flush();
            maker.put([2, 3, 11, 20], 26);
            maker.delete([7]);
            maker.compact();
            maker.put([1, 2, 21], 26);
            maker.flush();
        },
        exit: Exit::Close,
        kinds: &[FileKind::Table, FileKind::KeyTable],
    },
    Shape {
        name: "clustered",
        config: || Config {
            clustering: Clustering::Automatic,
            ..small()
        },
        base: |maker| {
            for part in 0..6 {
                maker.put((part..18).step_by(6), 150);
                maker.flush();
            }
            maker.compact();
            maker.db().wait_until_idle().expect("quiet");
        },
        rest: |maker| {
            maker.put([1, 5, 20], 40);
            maker.compact();
            maker.put([2], 20);
            maker.sync();
        },
        exit: Exit::Kill,
        kinds: &[FileKind::Records, FileKind::KeyTable, FileKind::Wal],
    },
    Shape {
        name: "scan run",
        config: || Config {
            scan_merge_limit: 1,
            ..small()
        },
        base: |maker| maker.put(0..10, 16),
        rest: |maker| {
            maker.flush();
            maker.put((0..14).step_by(2), 16);
            maker.flush();
            scan_until_merged(maker);
            maker.put([3, 8], 16);
            maker.flush();
        },
        exit: Exit::Close,
        kinds: &[FileKind::Table, FileKind::ScanRun],
    },
    Shape {
        name: "split",
        config: split,
        base: |maker| {
            maker.put(0..24, 110);
            maker.compact();
            maker.db().wait_until_idle().expect("quiet");
        },
        rest: |maker| {
            maker.put((0..24).step_by(5), 30);
            maker.flush();
            assert_shared(maker);
        },
        exit: Exit::Close,
        kinds: &[FileKind::Table, FileKind::KeyTable],
    },
    Shape {
        name: "half merged",
        config: split,
        base: |maker| {
            maker.put(0..24, 110);
            maker.compact();
            maker.db().wait_until_idle().expect("quiet");
            maker.put((0..24).step_by(4), 30);
        },
        rest: |maker| {
            maker.flush();
            assert_shared(maker);
            merge_first_partition(maker);
        },
        exit: Exit::Kill,
        kinds: &[FileKind::Table, FileKind::KeyTable],
    },
    Shape {
        name: "large values",
        config: small,
        base: |maker| maker.put([1, 2], 1100),
        rest: |maker| {
            maker.put([3, 4], 20);
            maker.flush();
            maker.put([5], 1100);
            maker.sync();
            maker.put([6], 1200);
        },
        exit: Exit::Kill,
        kinds: &[FileKind::Table, FileKind::Records, FileKind::Wal],
    },
    Shape {
        name: "ingested",
        config: small,
        base: |maker| {
            maker.put(0..6, 20);
            maker.ingest(3..20, b"first");
        },
        rest: |maker| {
            maker.put([4, 19], 20);
            maker.flush();
            maker.ingest(15..24, b"second");
            maker.batch(&[25], &[3], b"third");
        },
        exit: Exit::Close,
        kinds: &[FileKind::Table],
    },
    Shape {
        name: "survivors",
        config: || Config {
            max_space_amp: 1.1,
            ..small()
        },
        base: |maker| {
            maker.put(0..36, 250);
            maker.compact();
        },
        rest: |maker| {
            // Garbage beyond what is allowed to any database, which is two memtables.
            maker.put((0..36).filter(|n| n % 8 != 0), 10);
            maker.compact();
            collect_garbage(maker);
            maker.put([4, 20], 20);
            maker.sync();
        },
        exit: Exit::Kill,
        kinds: &[FileKind::Records, FileKind::KeyTable, FileKind::Wal],
    },
    Shape {
        name: "versions",
        config: small,
        base: |maker| {
            maker.put(0..10, 20);
            maker.hold();
            maker.put(0..10, 22);
            maker.delete([3, 4]);
            maker.hold();
        },
        rest: |maker| {
            maker.hold();
            maker.put([1, 3], 24);
            maker.flush();
            maker.hold();
            maker.delete([5]);
            maker.put([1, 2, 12], 20);
            maker.compact();
            maker.hold();
            maker.put([1], 20);
            maker.hold();
            maker.delete([1, 9]);
            maker.flush();
        },
        exit: Exit::Kill,
        kinds: &[FileKind::Table, FileKind::KeyTable],
    },
    Shape {
        name: "torn log",
        config: small,
        base: |maker| {
            maker.put(0..6, 20);
            maker.flush();
        },
        rest: |maker| {
            maker.put(4..12, 20);
            maker.batch(&[1, 2, 13], &[4], b"synced");
            maker.sync();
            maker.put(12..30, 40);
            maker.batch(&[1, 30, 31], &[5], b"not synced");
        },
        exit: Exit::Torn,
        kinds: &[FileKind::Table, FileKind::Wal],
    },
    Shape {
        name: "segments",
        config: small,
        base: |_| {},
        rest: |maker| {
            for round in 0..3 {
                // Too large for one memtable, and no worker is let run.
                maker.put((0..12).map(|n| n + 9 * round), 220);
                if round == 1 {
                    maker.sync();
                }
            }
        },
        exit: Exit::Kill,
        kinds: &[FileKind::Wal],
    },
    Shape {
        name: "edits",
        config: small,
        base: |maker| {
            maker.batch(&[1], &[], b"one");
            maker.flush();
        },
        rest: |maker| {
            for round in 0..4 {
                maker.put(round * 3..round * 3 + 4, 12);
                maker.flush();
            }
            maker.compact();
            maker.batch(&[2], &[1], b"two");
        },
        exit: Exit::Kill,
        kinds: &[FileKind::Table, FileKind::KeyTable, FileKind::Wal],
    },
    Shape {
        name: "fresh manifest",
        config: small,
        base: |maker| {
            maker.put(0..12, 12);
            maker.compact();
        },
        rest: |maker| {
            maker.batch(&[3], &[1], b"kept");
            let config = Config {
                block_bytes: 512,
                max_space_amp: 1.7,
                scan_merge_limit: 3,
                inline_value_bytes: 8,
                ..maker.config.clone()
            };
            maker.reopen(config);
            maker.put([4, 14], 6);
            maker.flush();
        },
        exit: Exit::Close,
        kinds: &[FileKind::Table, FileKind::KeyTable],
    },
];
