//! What LevelDB's interface does not have.
//!
//! The keyspace that a call is about, and how long a value lives, stand in the options of the read
//! or the write; so each function serves all of them.

pub(crate) mod buffers;
pub(crate) mod changes;
pub(crate) mod compare;
pub(crate) mod ends;
pub(crate) mod errors;
pub(crate) mod expiry;
pub(crate) mod iterators;
pub(crate) mod keyspaces;
pub(crate) mod opening;
pub(crate) mod options_by_name;
pub(crate) mod ranges;
pub(crate) mod reading;
pub(crate) mod secondaries;
pub(crate) mod transactions;
pub(crate) mod upkeep;

/// The functions, by sections of the header.
#[cfg(test)]
pub(crate) fn sections() -> Vec<(&'static str, Vec<crate::boundary::Function>)> {
    vec![
        ("Errors", errors::functions()),
        ("Opening by what may be there", opening::functions()),
        ("UniKV's own options", options_by_name::functions()),
        ("Keyspaces", keyspaces::functions()),
        ("More options of reads", reading::functions()),
        ("Reads into memory of the caller's", buffers::functions()),
        ("More of iterators", iterators::functions()),
        ("The first and the last entry", ends::functions()),
        ("Ranges of keys", ranges::functions()),
        ("Changes that depend on the value", compare::functions()),
        ("Values that expire", expiry::functions()),
        ("Transactions", transactions::functions()),
        (
            "Following what another process writes",
            secondaries::functions(),
        ),
        ("Following what changes", changes::functions()),
        ("Upkeep", upkeep::functions()),
    ]
}
