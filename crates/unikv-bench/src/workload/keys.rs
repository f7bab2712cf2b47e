//! Keys: record number → 24 bytes, and back.
//!
//! `user` and the 20 zero-padded digits of a 64-bit number. In random order that number is a
//! *bijective* hash of the record number: records loaded by number arrive in random key order, no
//! two share a key, and the record number follows from the key. In sequential order it is the
//! record number itself.

use clap::ValueEnum;

/// Bytes of every key.
pub const KEY_BYTES: usize = 24;
/// A key.
pub type Key = [u8; KEY_BYTES];

const PREFIX: &[u8; 4] = b"user";

/// The order of keys against the order of record numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum KeyOrder {
    /// Record numbers are hashed into keys
    Random,
    /// Keys ascend with record numbers
    Sequential,
}

impl KeyOrder {
    /// The number that the digits of the key of `record` spell. Keys ascend with it.
    pub fn code(self, record: u64) -> u64 {
        match self {
            KeyOrder::Random => mix(record),
            KeyOrder::Sequential => record,
        }
    }

    /// The key of `record`.
    pub fn key(self, record: u64) -> Key {
        encode(self.code(record))
    }

    /// The record number of `key`; `None` if it is not one of our keys.
    pub fn record(self, key: &[u8]) -> Option<u64> {
        let code = decode(key)?;
        Some(match self {
            KeyOrder::Random => unmix(code),
            KeyOrder::Sequential => code,
        })
    }
}

/// The key whose digits spell `code`.
pub fn encode(mut code: u64) -> Key {
    let mut key = [b'0'; KEY_BYTES];
    key[..PREFIX.len()].copy_from_slice(PREFIX);
    for digit in key[PREFIX.len()..].iter_mut().rev() {
        *digit = b'0' + (code % 10) as u8;
        code /= 10;
    }
    key
}

fn decode(key: &[u8]) -> Option<u64> {
    let digits = key.strip_prefix(PREFIX)?;
    if digits.len() != KEY_BYTES - PREFIX.len() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    digits.iter().try_fold(0_u64, |code, digit| {
        code.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    })
}

// Stafford's thirteenth mixer (the finalizer of SplitMix64): xor-shifts and odd multiplications,
// each of which can be undone.
const M1: u64 = 0xBF58_476D_1CE4_E5B9;
const M2: u64 = 0x94D0_49BB_1331_11EB;

/// A bijective hash.
pub fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(M1);
    x = (x ^ (x >> 27)).wrapping_mul(M2);
    x ^ (x >> 31)
}

fn unmix(mut x: u64) -> u64 {
    x = x ^ (x >> 31) ^ (x >> 62);
    x = x.wrapping_mul(inverse(M2));
    x = x ^ (x >> 27) ^ (x >> 54);
    x = x.wrapping_mul(inverse(M1));
    x ^ (x >> 30) ^ (x >> 60)
}

/// The inverse of an odd number modulo 2^64, by Newton's iteration: each step doubles the number
/// of correct bits, of which `x` itself has three.
const fn inverse(x: u64) -> u64 {
    let mut y = x;
    let mut step = 0;
    while step < 5 {
        y = y.wrapping_mul(2_u64.wrapping_sub(x.wrapping_mul(y)));
        step += 1;
    }
    y
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_name_their_records() {
        for order in [KeyOrder::Random, KeyOrder::Sequential] {
            for record in (0..10_000).chain([u64::MAX, u64::MAX / 3, 1 << 40]) {
                let key = order.key(record);
                assert_eq!(order.record(&key), Some(record));
            }
        }
        assert_eq!(&KeyOrder::Sequential.key(7), b"user00000000000000000007");
        assert_eq!(
            KeyOrder::Sequential.key(u64::MAX)[4..],
            *b"18446744073709551615"
        );
    }

    #[test]
    fn foreign_keys_name_none() {
        for key in [
            "",
            "user",
            "user0000000000000000007",
            "user000000000000000000007",
            "used00000000000000000007",
            "user0000000000000000000x",
            "user18446744073709551616",
        ] {
            assert_eq!(KeyOrder::Sequential.record(key.as_bytes()), None, "{key}");
        }
    }

    #[test]
    fn keys_ascend_with_their_codes() {
        let mut codes: Vec<u64> = (0..1_000)
            .map(|record| KeyOrder::Random.code(record))
            .collect();
        codes.sort_unstable();
        assert!(
            codes
                .windows(2)
                .all(|pair| encode(pair[0]) < encode(pair[1]))
        );
    }
}
