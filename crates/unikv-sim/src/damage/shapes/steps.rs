//! Steps that several shapes are made by.

use crate::config::Config;
use crate::damage::maker::{Maker, small};

/// Some of what it holds is compressed.
pub(super) fn assert_compressed(maker: &Maker) {
    let stats = maker.db().stats();
    assert!(stats.compression_saved_bytes > 0, "{stats:#?}");
}

/// Partitions of a few values.
pub(super) fn split() -> Config {
    Config {
        partition_bytes: 4 << 10,
        ..small()
    }
}

/// Scans until keys have been merged for scans.
pub(super) fn scan_until_merged(maker: &mut Maker) {
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
pub(super) fn collect_garbage(maker: &Maker) {
    maker.db().collect_garbage().expect("a collection");
    let stats = maker.db().stats();
    assert!(stats.gcs > 0, "{stats:#?}");
}

/// Several partitions, and a table that is in more than one.
pub(super) fn assert_shared(maker: &Maker) {
    let stats = maker.db().stats();
    let with_tables = stats.partitions.iter().filter(|p| p.tables > 0);
    assert!(with_tables.count() > 1, "{:#?}", stats.partitions);
}

/// Merges what the first partition has, and leaves the others alone.
pub(super) fn merge_first_partition(maker: &mut Maker) {
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
