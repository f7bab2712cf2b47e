//! CRC-32C bound to a place.
//!
//! Every checksum in a file is the CRC-32C of its bytes, folded with the file's random uid and the
//! offset at which the bytes stand. Bytes that were recycled, swapped between files or written at
//! the wrong place therefore never pass.

use super::keys::FileUid;
use super::seeded::slip;

/// The checksum algorithm's number in a file header.
pub(crate) const ALGORITHM_CRC32C: u8 = 1;

/// An unbound CRC-32C under construction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Crc(u32);

impl Crc {
    /// Continues the checksum over more bytes.
    #[must_use]
    pub(crate) fn update(self, bytes: &[u8]) -> Crc {
        Crc(crc32c::crc32c_append(self.0, bytes))
    }

    /// Binds the checksum to the place where the bytes stand.
    pub(crate) fn bind(self, uid: FileUid, offset: u64) -> u32 {
        slip!(ChecksumUnbound, self.0, self.0 ^ fold(uid, offset))
    }

    /// The checksum of the same bytes with `new` in the place of `old`, which are as long and
    /// after which `len` bytes stand.
    #[must_use]
    pub(crate) fn with_replaced(self, old: &[u8], new: &[u8], len: usize) -> Crc {
        debug_assert_eq!(old.len(), new.len());
        // The checksum is linear, so what stands before the two does not matter.
        let changed = crc32c::crc32c(old) ^ crc32c::crc32c(new);
        Crc(self.0 ^ crc32c::crc32c_combine(changed, 0, len))
    }

    /// The plain CRC-32C.
    pub(crate) fn raw(self) -> u32 {
        self.0
    }
}

/// The bound checksum of one slice.
pub(crate) fn bound(uid: FileUid, offset: u64, bytes: &[u8]) -> u32 {
    Crc::default().update(bytes).bind(uid, offset)
}

/// 32 well-mixed bits of (uid, offset).
fn fold(uid: FileUid, offset: u64) -> u32 {
    let mut x = uid.0 ^ offset.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    (x ^ (x >> 32)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_knows_its_file_and_offset() {
        let crc = bound(FileUid(7), 100, b"bytes");
        assert_ne!(crc, bound(FileUid(7), 101, b"bytes"));
        assert_ne!(crc, bound(FileUid(8), 100, b"bytes"));
        assert_ne!(crc, bound(FileUid(7), 100, b"bytez"));
    }

    #[test]
    fn bytes_can_be_replaced_in_a_checksum() {
        let bytes: Vec<u8> = (0..5000_u32).map(|i| (i * i % 251) as u8).collect();
        for (at, new) in [(0, &b"x"[..]), (17, b"some"), (4996, b"last"), (5000, b"")] {
            let mut changed = bytes.clone();
            let old = changed[at..at + new.len()].to_vec();
            changed[at..at + new.len()].copy_from_slice(new);
            let behind = bytes.len() - at - new.len();
            let found = Crc::default().update(&bytes);
            let found = found.with_replaced(&old, new, behind);
            assert_eq!(found.raw(), Crc::default().update(&changed).raw());
        }
    }

    #[test]
    fn the_algorithm_is_crc32c() {
        // The check value of CRC-32C (Castagnoli) from RFC 3720's parameters.
        assert_eq!(Crc::default().update(b"123456789").raw(), 0xe306_9283);
    }
}
