//! What only some databases have: compression, range deletes, expiry, large values in compressed
//! chunks, keyspaces, a change window.

use super::Shape;
use super::steps::{assert_compressed, assert_shared, merge_first_partition, split};
use crate::config::Config;
use crate::damage::maker::{Exit, small};
use crate::damage::specimen::FileKind;
use unikv::Compression;

/// All of them.
pub(super) const SHAPES: [Shape; 8] = [
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
            compression: Compression::zstd(3),
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
            maker.db().wait_until_idle().expect("quiet");
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
    Shape {
        name: "expiring",
        config: || Config {
            inline_value_bytes: 24,
            ..small()
        },
        base: |maker| {
            maker.put(0..6, 40);
            maker.put_for(3..9, 20, 5_000);
            maker.put(9..15, 30);
            maker.put_for(15..20, 20, DAYS);
            maker.put_for(20..24, 40, DAYS);
            maker.compact();
            maker.pass(6_000);
        },
        rest: |maker| {
            maker.put_for([4, 24], 40, DAYS);
            maker.put_for([9, 16], 40, 3_000);
            maker.flush();
            maker.pass(4_000);
            maker.put([5, 16], 40);
            maker.put_for([25, 17], 20, DAYS);
            maker.sync();
            // The log alone says that there is nothing now.
            maker.put_for([11, 26], 20, 2_000);
            maker.pass(3_000);
            maker.put_for([18], 20, DAYS);
        },
        exit: Exit::Kill,
        kinds: &[FileKind::Table, FileKind::KeyTable, FileKind::Wal],
    },
    Shape {
        name: "compressed chunks",
        config: || Config {
            compression: Compression::Lz4,
            ..small()
        },
        base: |maker| maker.put([1, 2, 3], 1100),
        rest: |maker| {
            maker.put([4], 20);
            maker.compact();
            assert_compressed(maker);
            maker.put([2], 1100);
            maker.put([3, 5], 20);
            maker.sync();
        },
        exit: Exit::Kill,
        kinds: &[FileKind::KeyTable, FileKind::Records, FileKind::Wal],
    },
    Shape {
        name: "keyspaces",
        config: || Config {
            inline_value_bytes: 24,
            ..small()
        },
        base: |maker| {
            maker.make_keyspace("a");
            maker.make_keyspace("b");
            maker.put(0..4, 20);
            maker.put_in("a", 0..6, 30);
            maker.put_in("b", 0..5, 30);
            maker.compact();
            maker.put([2, 6], 30);
            maker.put_in("a", [2, 3, 7], 30);
            maker.delete_in("a", [4]);
            maker.put_in("b", [2, 8], 30);
        },
        rest: |maker| {
            maker.flush();
            // In key tables, a table and the log are keys of one that was dropped.
            maker.put_in("b", [1, 2], 20);
            maker.drop_keyspace("b");
            maker.put_in("a", [8], 20);
            maker.make_keyspace("b");
            maker.put_in("b", [2, 9], 20);
            maker.make_keyspace("c");
            maker.put_in("c", [1, 2], 30);
            maker.truncate("c");
            maker.batch_in(&["a", "b", "c"], 3, b"synced");
            maker.sync();
            maker.put_in("a", [5, 9], 20);
            maker.delete_in("a", [0]);
            maker.put([1], 20);
        },
        exit: Exit::Kill,
        kinds: &[FileKind::Table, FileKind::KeyTable, FileKind::Wal],
    },
    Shape {
        name: "change window",
        config: || Config {
            change_window_bytes: 64 << 10,
            inline_value_bytes: 64,
            max_space_amp: 1.1,
            ..small()
        },
        base: |maker| {
            maker.put([0], 20);
            maker.note_token();
            maker.put([1], 1100);
            maker.put(2..5, 20);
            maker.make_keyspace("a");
        },
        rest: |maker| {
            maker.note_token();
            maker.put_in("a", [1, 2], 20);
            maker.put([1], 20);
            maker.compact();
            maker.delete([3]);
            maker.note_token();
            maker.put_in("a", [3], 1100);
            maker.batch_in(&["a"], 6, b"synced");
            maker.sync();
            maker.put([7], 20);
        },
        exit: Exit::Kill,
        kinds: &[FileKind::Records, FileKind::KeyTable, FileKind::Wal],
    },
];

/// Longer than anything lasts here, in milliseconds.
const DAYS: u64 = 10 * 86_400_000;
