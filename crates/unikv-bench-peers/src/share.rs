//! How the one number of bytes is shared out among the parts of a peer.

#![allow(dead_code, reason = "which peers there are is a matter of features")]

use unikv_bench::suite::contender::{Settings, Terms};

/// Memtables that may wait, the one being filled included.
pub const MEMTABLES: u64 = 4;

/// Bytes of one memtable.
pub fn memtable(terms: &Terms) -> u64 {
    terms.memory_bytes / 16
}

/// Bytes of the block cache.
pub fn cache(terms: &Terms) -> u64 {
    terms.memory_bytes / 4 * 3
}

/// What an acknowledged write has survived, for an engine with a log.
pub fn log(terms: &Terms) -> &'static str {
    if terms.sync {
        "the log is synced at each write"
    } else {
        "the log is written at each write, not synced"
    }
}

/// The settings that all engines with memtables and a block cache have.
pub fn settings(terms: &Terms) -> Settings {
    settings_with(terms, memtable(terms), cache(terms))
}

/// The same for one that gets a memtable and a block cache of other sizes.
pub fn settings_with(terms: &Terms, memtable_bytes: u64, cache_bytes: u64) -> Settings {
    vec![
        ("memtable", memtable_bytes.to_string()),
        ("block cache", cache_bytes.to_string()),
        ("durability", log(terms).to_owned()),
        ("compression", "none".to_owned()),
    ]
}
