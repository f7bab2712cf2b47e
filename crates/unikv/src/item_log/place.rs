//! What items are found by, and its hash.

use std::hash::{BuildHasher, Hasher};

/// ⟨file number, offset⟩.
pub(crate) type Place = (u64, u64);

/// Hashes the two numbers of a place; nobody outside can choose them to collide.
#[derive(Clone, Copy, Default)]
pub(super) struct PlaceHash;

impl BuildHasher for PlaceHash {
    type Hasher = PlaceHasher;

    fn build_hasher(&self) -> PlaceHasher {
        PlaceHasher(0)
    }
}

pub(super) struct PlaceHasher(u64);

impl Hasher for PlaceHasher {
    fn finish(&self) -> u64 {
        let x = (self.0 ^ (self.0 >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        x ^ (x >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(23) ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_of_a_place_depends_on_both_numbers_and_on_their_order() {
        let places: [Place; 5] = [(1, 2), (2, 1), (1, 3), (1 << 32, 2), (0, u64::MAX)];
        for (i, place) in places.iter().enumerate() {
            for other in &places[i + 1..] {
                assert_ne!(PlaceHash.hash_one(place), PlaceHash.hash_one(other));
            }
        }
        // Bytes are hashed one by one.
        assert_ne!(PlaceHash.hash_one(b"ab"), PlaceHash.hash_one(b"ba"));
    }
}
