//! The shapes of small databases, each with the files and contents that its name says.

use super::maker::{Exit, Maker, small};
use super::specimen::{FileKind, Specimen};
use crate::config::Config;
use unikv::{Clustering, Compression};

/// How a database is made: what is common to it and an older incarnation of it, and what is not.
pub struct Shape {
    /// What it is called.
    pub name: &'static str,
    config: fn() -> Config,
    base: fn(&mut Maker),
    rest: fn(&mut Maker),
    exit: Exit,
    /// The kinds of file beside `CURRENT`, `MANIFEST` and `LOCK`.
    kinds: &'static [FileKind],
}

/// All of them.
pub const SHAPES: [Shape; 18] = [
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
            maker.db().quiesce().expect("quiet");
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
            maker.db().quiesce().expect("quiet");
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
            maker.db().quiesce().expect("quiet");
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
    Shape {
        name: "compressed",
        config: || Config {
            inline_value_bytes: 64,
            compression: Compression::Lz4,
            ..small()
        },
        base: |maker| {
            maker.put(0..18, 40);
            maker.put(20..24, 300);
            maker.compact();
            assert_compressed(maker);
        },
        rest: |maker| {
            maker.put([3, 9, 20], 320);
            maker.delete([4]);
            maker.flush();
            maker.put([5, 21], 40);
            maker.sync();
        },
        exit: Exit::Kill,
        kinds: &[FileKind::Table, FileKind::KeyTable, FileKind::Wal],
    },
    Shape {
        name: "dictionary",
        config: || Config {
            memtable_bytes: 64 << 10,
            memory_budget: 4 << 20,
            compression: Compression::zstd(),
            ..small()
        },
        base: |maker| {
            maker.put(0..32, 640);
            maker.flush();
            assert_compressed(maker);
        },
        rest: |maker| {
            maker.compact();
            maker.put([1, 2], 200);
            maker.flush();
        },
        exit: Exit::Close,
        kinds: &[FileKind::Table, FileKind::KeyTable],
    },
    Shape {
        name: "range deletes",
        config: small,
        base: |maker| {
            maker.put(0..24, 20);
            maker.compact();
            maker.put([3, 12, 13], 24);
        },
        rest: |maker| {
            maker.delete_range(2..8);
            maker.put([4, 25], 20);
            maker.flush();
            maker.delete_range(10..16);
            maker.delete_range(12..13);
            maker.flush();
            maker.put([12], 20);
            maker.delete_range(18..20);
            maker.sync();
            maker.put([21], 20);
            maker.delete_range(0..1);
            maker.batch(&[1], &[9], b"behind");
        },
        exit: Exit::Kill,
        kinds: &[
            FileKind::Table,
            FileKind::Records,
            FileKind::KeyTable,
            FileKind::Wal,
        ],
    },
    Shape {
        name: "range deletes over partitions",
        config: split,
        base: |maker| {
            maker.put(0..24, 110);
            maker.compact();
            maker.db().quiesce().expect("quiet");
            maker.delete_range(2..4);
            maker.put([2, 5, 18], 30);
        },
        rest: |maker| {
            maker.flush();
            maker.put([3], 30);
            maker.delete_range(5..22);
            maker.put([1, 23], 30);
            maker.flush();
            assert_shared(maker);
            merge_first_partition(maker);
        },
        exit: Exit::Close,
        kinds: &[FileKind::Table, FileKind::KeyTable],
    },
];

/// Some of what it holds is compressed.
fn assert_compressed(maker: &Maker) {
    let stats = maker.db().stats();
    assert!(stats.compression_saved_bytes > 0, "{stats:#?}");
}

fn split() -> Config {
    Config {
        partition_bytes: 4 << 10,
        ..small()
    }
}

fn scan_until_merged(maker: &mut Maker) {
    for _ in 0..200 {
        if maker.db().stats().scan_merges > 0 {
            return;
        }
        assert!(maker.db().iter().all(|pair| pair.is_ok()), "a scan");
        maker.runtime.run_until_idle();
    }
    panic!("no scan merge: {:#?}", maker.db().stats());
}

/// Moves what lives in files that hold garbage to files of survivors.
fn collect_garbage(maker: &Maker) {
    maker.db().collect_garbage().expect("a collection");
    let stats = maker.db().stats();
    assert!(stats.gcs > 0, "{stats:#?}");
}

/// Several partitions, and a table that is in more than one.
fn assert_shared(maker: &Maker) {
    let stats = maker.db().stats();
    let with_tables = stats.partitions.iter().filter(|p| p.tables > 0);
    assert!(with_tables.count() > 1, "{:#?}", stats.partitions);
}

fn merge_first_partition(maker: &mut Maker) {
    let stats = maker.db().stats();
    let border = stats.partitions[0].end.clone().expect("a border");
    let merged = maker.db().compact_range(..&border[..]);
    merged.expect("a merge of one partition");
    let stats = maker.db().stats();
    let tables: Vec<usize> = stats.partitions.iter().map(|p| p.tables).collect();
    assert!(
        tables[0] == 0 && tables.iter().any(|n| *n > 0),
        "{tables:?}"
    );
}

impl Shape {
    fn made(&self, seed: u64, incarnation: u64) -> Maker {
        let mut maker = Maker::new((self.config)(), seed);
        (self.base)(&mut maker);
        let mut maker = maker.fork(incarnation);
        (self.rest)(&mut maker);
        maker
    }

    /// A database of this shape.
    pub fn build(&self, seed: u64) -> Specimen {
        let twins = vec![
            self.made(seed + 100, 4).twin("another-database", self.exit),
            self.made(seed, 3).twin("an-older-incarnation", self.exit),
        ];
        let specimen = self.made(seed, 2).finish(self.name, self.exit, twins);
        for kind in self.kinds {
            let found = specimen.files_of(&[*kind]);
            assert!(!found.is_empty(), "no file of kind {kind:?}");
        }
        specimen
    }
}
