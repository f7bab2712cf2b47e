//! The keyed hash of a key.
//!
//! The seed is secret and drawn once per database, so that nobody who does not know it can choose
//! keys that collide in the hash index.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The 64-bit hash of `key` under the database's secret `seed`.
pub(crate) fn key_hash(seed: u64, key: &[u8]) -> u64 {
    xxh3_64_with_seed(key, seed)
}
