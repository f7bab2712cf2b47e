//! Values that verify themselves: every byte follows from (record number, version).
//!
//! `record u64 | version u64 | fill`, little-endian. Word `i` of the fill is an arithmetic
//! progression from a seed that mixes record and version, folded once; it needs no multiplication
//! per word, so that filling or checking 1 KB is tens of nanoseconds, and it does not compress.

use super::keys::mix;
use serde::{Deserialize, Serialize};

/// Bytes of record number and version; the least size of a value.
pub const HEADER_BYTES: usize = 16;

const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// How long values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Lengths {
    /// Alike, or as many from 16 to 32 bytes as from 8 to 16 KiB, each as its record and version
    /// say.
    Spread {
        /// The shortest.
        least: usize,
        /// The longest.
        most: usize,
    },
    /// Of two kinds, each value as its record says.
    Two {
        /// The short ones.
        short: usize,
        /// The long ones.
        long: usize,
        /// Short ones to long ones.
        ratio: (u32, u32),
    },
}

impl Lengths {
    /// All alike.
    pub const fn fixed(bytes: usize) -> Lengths {
        Lengths::Spread {
            least: bytes,
            most: bytes,
        }
    }

    /// The shortest and the longest.
    pub fn range(&self) -> (usize, usize) {
        match *self {
            Lengths::Spread { least, most } => (least, most),
            Lengths::Two { short, long, .. } => (short, long),
        }
    }

    /// Of one value.
    #[inline]
    pub fn of(&self, record: u64, version: u64) -> usize {
        match *self {
            Lengths::Spread { least, most } if least == most => least,
            Lengths::Spread { least, most } => {
                // Of the seed that the fill is made of, 53 bits make a number from 0 to 1.
                let draw = (seed(record, version) >> 11) as f64 / (1_u64 << 53) as f64;
                let ratio = most as f64 / least as f64;
                (least as f64 * ratio.powf(draw)) as usize
            }
            Lengths::Two { short, long, ratio } => {
                let all = u64::from(ratio.0) + u64::from(ratio.1);
                let is_short = seed(record, 0) % all < u64::from(ratio.0);
                if is_short { short } else { long }
            }
        }
    }

    /// The mean of many.
    pub fn mean(&self) -> usize {
        match *self {
            Lengths::Spread { least, most } if least == most => least,
            Lengths::Spread { least, most } => {
                let (least, most) = (least as f64, most as f64);
                ((most - least) / (most / least).ln()) as usize
            }
            Lengths::Two { short, long, ratio } => {
                let (shorts, longs) = (ratio.0 as usize, ratio.1 as usize);
                (shorts * short + longs * long) / (shorts + longs)
            }
        }
    }
}

/// Why a value is not one that was ever written under its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It has another length.
    Length {
        /// The length found.
        found: usize,
    },
    /// It is the value of another record.
    Record {
        /// The record found.
        found: u64,
    },
    /// A byte of the fill is wrong.
    Fill {
        /// Of the first wrong byte.
        offset: usize,
    },
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fault::Length { found } => write!(f, "a value of {found} bytes"),
            Fault::Record { found } => write!(f, "a value of record {found}"),
            Fault::Fill { offset } => write!(f, "a wrong byte at offset {offset} of the value"),
        }
    }
}

fn seed(record: u64, version: u64) -> u64 {
    mix(record ^ mix(version.wrapping_add(STEP)))
}

#[inline(always)]
fn word(seed: u64, index: usize) -> u64 {
    let x = seed.wrapping_add((index as u64).wrapping_mul(STEP));
    x ^ (x >> 31)
}

/// Fills `value`, which is at least [`HEADER_BYTES`] long.
pub fn fill(value: &mut [u8], record: u64, version: u64) {
    let (header, body) = value.split_at_mut(HEADER_BYTES);
    header[..8].copy_from_slice(&record.to_le_bytes());
    header[8..].copy_from_slice(&version.to_le_bytes());
    let seed = seed(record, version);
    let (words, tail) = body.as_chunks_mut::<8>();
    let tail_word = word(seed, words.len()).to_le_bytes();
    for (index, bytes) in words.iter_mut().enumerate() {
        *bytes = word(seed, index).to_le_bytes();
    }
    tail.copy_from_slice(&tail_word[..tail.len()]);
}

/// Checks that `value` is a value of `record`, as long as `lengths` say, and gives its version.
pub fn check(value: &[u8], lengths: &Lengths, record: u64) -> Result<u64, Fault> {
    let length_fault = Fault::Length { found: value.len() };
    let (header, body) = value.split_at_checked(HEADER_BYTES).ok_or(length_fault)?;
    let (numbers, _) = header.as_chunks::<8>();
    let (found, version) = (
        u64::from_le_bytes(numbers[0]),
        u64::from_le_bytes(numbers[1]),
    );
    if found != record {
        return Err(Fault::Record { found });
    }
    if value.len() != lengths.of(record, version) {
        return Err(length_fault);
    }
    let seed = seed(record, version);
    let (words, tail) = body.as_chunks::<8>();
    // No early exit: the loop stays free of branches and is done in vectors.
    let difference = words
        .iter()
        .enumerate()
        .fold(0, |difference, (index, bytes)| {
            difference | (u64::from_le_bytes(*bytes) ^ word(seed, index))
        });
    let tail_word = word(seed, words.len()).to_le_bytes();
    if difference != 0 || *tail != tail_word[..tail.len()] {
        return Err(Fault::Fill {
            offset: first_difference(value, record, version),
        });
    }
    Ok(version)
}

#[cold]
fn first_difference(value: &[u8], record: u64, version: u64) -> usize {
    let mut expected = vec![0; value.len()];
    fill(&mut expected, record, version);
    expected
        .iter()
        .zip(value)
        .take_while(|(a, b)| a == b)
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_is_seen() {
        for length in [16, 17, 23, 24, 25, 100] {
            let mut value = vec![0; length];
            fill(&mut value, 77, 3);
            let lengths = Lengths::fixed(length);
            assert_eq!(check(&value, &lengths, 77), Ok(3));
            for bit in 0..length * 8 {
                // A flip in the version shows as a wrong fill, if there is enough of it.
                if length < HEADER_BYTES + 8 && (8..16).contains(&(bit / 8)) {
                    continue;
                }
                value[bit / 8] ^= 1 << (bit % 8);
                assert!(
                    check(&value, &lengths, 77).is_err(),
                    "bit {bit} of {length} bytes"
                );
                value[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }

    #[test]
    fn faults_say_what_was_found() {
        let mut value = vec![0; 64];
        fill(&mut value, 5, 9);
        let check = |value: &[u8], length, record| check(value, &Lengths::fixed(length), record);
        assert_eq!(check(&value, 65, 5), Err(Fault::Length { found: 64 }));
        assert_eq!(check(&value[..3], 3, 5), Err(Fault::Length { found: 3 }));
        assert_eq!(check(&value, 64, 6), Err(Fault::Record { found: 5 }));
        value[40] ^= 1;
        assert_eq!(check(&value, 64, 5), Err(Fault::Fill { offset: 40 }));
    }

    #[test]
    fn two_kinds_stand_in_their_ratio_and_a_record_keeps_its_own() {
        let lengths = Lengths::Two {
            short: 16,
            long: 1_000,
            ratio: (2, 1),
        };
        let of = |version| (0..30_000).map(move |record| lengths.of(record, version));
        let shorts = of(0).filter(|&length| length == 16).count();
        assert!((19_500..20_500).contains(&shorts), "{shorts}");
        assert!(of(0).eq(of(7)));
        assert_eq!(lengths.mean(), 344);
    }

    #[test]
    fn a_mixture_has_as_many_values_of_each_magnitude() {
        let lengths = Lengths::Spread {
            least: 16,
            most: 16 << 10,
        };
        let all = (0..10_000).map(|record| lengths.of(record, record % 7));
        let (mut sum, mut magnitudes) = (0, [0; 10]);
        for length in all {
            sum += length;
            magnitudes[(length / 16).ilog2() as usize] += 1;
        }
        assert!(magnitudes.iter().all(|n| (850..1150).contains(n)));
        assert!((sum / 10_000).abs_diff(lengths.mean()) < 200);
        let mut value = vec![0; lengths.of(5, 9)];
        fill(&mut value, 5, 9);
        assert_eq!(check(&value, &lengths, 5), Ok(9));
        value.push(0);
        assert!(check(&value, &lengths, 5).is_err());
    }
}
