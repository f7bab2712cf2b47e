//! The lowest layer: identifiers, keys, byte coding, checksums, the file header, the key hash,
//! memory from the system.
//!
//! Nothing here does I/O or takes a lock. `sync` is where atomics and locks come from.

pub(crate) mod account;
pub(crate) mod bounds;
pub(crate) mod checksum;
pub(crate) mod coding;
pub(crate) mod file_header;
pub(crate) mod file_names;
pub(crate) mod hash;
pub(crate) mod keys;
pub(crate) mod mapped;
pub(crate) mod range_tombstones;
pub(crate) mod seeded;
pub(crate) mod sorted;
pub(crate) mod sync;
pub(crate) mod text;
