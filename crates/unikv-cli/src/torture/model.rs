//! What the load consists of: keys, and what each version of a key is.
//!
//! Each thread owns the keys that begin with its number, and alone writes them. What version `v` of
//! a key is, a value of some length or its absence, follows from key and `v` alone; so one number
//! per key says everything about what the database must hold. Version 0 is absence.
//!
//! Keys stand in *blocks* of eight neighbours. The keys of every fourth block are written together,
//! in one batch, with one version: a reader that sees two of them at one moment sees one version.

use std::ops::Range;
use std::sync::OnceLock;
use unikv_bench::measure::space::frame_bytes;
use unikv_bench::workload::keys::mix as hash;
use unikv_bench::workload::values::{Lengths, check as check_value, fill as fill_value};
use unikv_shapes::Shape;

/// Keys in a block.
pub const BLOCK: u64 = 8;
/// Threads that key names can distinguish.
pub const MAX_THREADS: u64 = 64;
const DIGITS: usize = 8;
const LONGEST_PAD: u64 = 48;
/// All values but one in some thousand are shorter.
const LONG_VALUE: u64 = 256 << 10;
/// Beyond a quarter of a memtable of up to 2 MiB, so that some go to files of their own.
const LARGEST_VALUE: u64 = 1 << 20;
/// A value names its key and its version.
const SHORTEST_VALUE: usize = 16;

/// The shape of all keys and values of this process. Chosen once, before the first of them is made.
static SHAPE: OnceLock<Shape> = OnceLock::new();

/// Gives the keys and values of this process a shape.
pub fn choose(shape: Shape) {
    SHAPE.get_or_init(|| shape);
}

/// That shape.
pub fn shape() -> Shape {
    *SHAPE.get_or_init(|| Shape::Usual)
}

/// One key: its thread and its place among the keys of that thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    pub thread: u64,
    pub index: u64,
}

/// What a version of a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Absent,
    /// A value of this many bytes.
    Value(usize),
}

impl Record {
    /// The number that stands in its values.
    fn id(self) -> u64 {
        self.thread << 40 | self.index
    }

    /// Its key. Keys ascend with threads and indexes.
    pub fn key(self) -> Vec<u8> {
        let mut key = format!("t{:02}/{:0DIGITS$x}", self.thread, self.index).into_bytes();
        if shape() != Shape::Usual {
            let len = shape().key_len(self.index, key.len());
            let filled = if shape().has_common_prefix() {
                key.len() - DIGITS
            } else {
                key.len()
            };
            let rest = key.split_off(filled);
            key.resize(len - rest.len(), b'.');
            key.extend_from_slice(&rest);
            return key;
        }
        let dice = hash(self.index);
        if dice.is_multiple_of(4) {
            let pad = (dice >> 8) % LONGEST_PAD;
            key.resize(key.len() + pad as usize, b'.');
        }
        key
    }

    /// The record of a key; `None` if it is not one of ours.
    pub fn of_key(key: &[u8]) -> Option<Record> {
        let text = std::str::from_utf8(key).ok()?.strip_prefix('t')?;
        let (thread, rest) = text.split_at_checked(2)?;
        let rest = rest.strip_prefix('/')?;
        let digits = if shape().has_common_prefix() {
            rest.get(rest.len().checked_sub(DIGITS)?..)?
        } else {
            rest.get(..DIGITS)?
        };
        let record = Record {
            thread: thread.parse().ok()?,
            index: u64::from_str_radix(digits, 16).ok()?,
        };
        (record.key() == key).then_some(record)
    }

    /// What version `version` of it is.
    pub fn effect(self, version: u32) -> Effect {
        if version == 0 {
            return Effect::Absent;
        }
        let dice = hash(self.id() ^ hash(u64::from(version)));
        // In every eighth stretch of keys half of all versions are deletes.
        let deletes = if hash(self.index >> 10).is_multiple_of(8) {
            128
        } else {
            14
        };
        if dice % 256 < deletes {
            return Effect::Absent;
        }
        if shape() != Shape::Usual {
            let len = shape().value_len(self.index, u64::from(version));
            return Effect::Value(len.max(SHORTEST_VALUE));
        }
        let (kind, rest) = ((dice >> 8) % 1024, dice >> 20);
        let length = match kind {
            0..=511 => 16 + rest % 112,
            512..=921 => 128 + rest % 1_920,
            922..=1019 => 2_048 + rest % 14_336,
            1020 if rest.is_multiple_of(4) => LARGEST_VALUE - (rest >> 2) % (LARGEST_VALUE / 2),
            _ => 16_384 + rest % (LONG_VALUE - 16_384),
        };
        Effect::Value(length as usize)
    }

    /// Bytes of key and value at this version.
    pub fn live_bytes(self, version: u32) -> u64 {
        match self.effect(version) {
            Effect::Absent => 0,
            Effect::Value(length) => (self.key().len() + length) as u64,
        }
    }

    /// What key and value may take at this version beyond the factor that is promised.
    pub fn frame_bytes(self, version: u32, max_space_amp: f64) -> u64 {
        match self.effect(version) {
            Effect::Absent => 0,
            Effect::Value(length) => frame_bytes(self.key().len(), length, max_space_amp),
        }
    }

    /// The value at this version, if there is one, written into `value`.
    pub fn fill(self, version: u32, value: &mut Vec<u8>) -> Effect {
        let effect = self.effect(version);
        if let Effect::Value(length) = effect {
            value.resize(length, 0);
            fill_value(value, self.id(), u64::from(version));
        }
        effect
    }

    /// The version of a value found under the key, which must be that version in every byte.
    pub fn version_of(self, value: &[u8]) -> Result<u32, String> {
        let bytes = value.get(8..16).and_then(|bytes| bytes.try_into().ok());
        let version = bytes.map_or(0, u64::from_le_bytes);
        let version = u32::try_from(version).unwrap_or_default();
        let Effect::Value(length) = self.effect(version) else {
            return Err(format!(
                "{} bytes that claim to be version {version}, which is no value",
                value.len()
            ));
        };
        check_value(value, &Lengths::fixed(length), self.id())
            .map(|_| version)
            .map_err(|fault| format!("{fault} where version {version} claims to be"))
    }

    /// The keys that are written together with it: a block, or it alone.
    pub fn unit(self) -> Range<u64> {
        let block = self.index / BLOCK;
        if hash(self.thread << 40 ^ block).is_multiple_of(4) {
            block * BLOCK..(block + 1) * BLOCK
        } else {
            self.index..self.index + 1
        }
    }
}

/// Where the keys of a thread begin, and where they have ended.
pub fn prefix_range(thread: u64) -> Range<Vec<u8>> {
    // '0' is the byte after '/'.
    format!("t{thread:02}/").into_bytes()..format!("t{thread:02}0").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_name_their_records_and_ascend() {
        let mut last = Vec::new();
        for thread in [0, 3, 63] {
            let range = prefix_range(thread);
            for index in (0..3_000).chain([1 << 30]) {
                let record = Record { thread, index };
                let key = record.key();
                assert!(key > last && range.contains(&key));
                assert_eq!(Record::of_key(&key), Some(record));
                last = key;
            }
        }
        for foreign in ["", "t", "t00/0000000", "t00/0000000g", "x00/00000000"] {
            assert_eq!(Record::of_key(foreign.as_bytes()), None, "{foreign}");
        }
        let mut longer = Record {
            thread: 0,
            index: 0,
        }
        .key();
        longer.push(b'.');
        assert_eq!(Record::of_key(&longer), None);
    }

    #[test]
    fn values_name_their_versions() {
        let record = Record {
            thread: 1,
            index: 77,
        };
        let mut value = Vec::new();
        let (mut lengths, mut absent) = (Vec::new(), 0);
        for version in 1..2_000 {
            match record.fill(version, &mut value) {
                Effect::Absent => absent += 1,
                Effect::Value(length) => {
                    assert_eq!(record.version_of(&value), Ok(version));
                    lengths.push(length);
                    let last = value.len() - 1;
                    value[last] ^= 1;
                    assert!(record.version_of(&value).is_err() || length < 24);
                }
            }
        }
        assert!(absent > 20, "{absent}");
        assert!(lengths.iter().any(|l| *l < 128) && lengths.iter().any(|l| *l > 16_384));
        assert!(record.version_of(&[1; 9]).is_err());
        let effects = (1..20_000).map(|version| record.effect(version));
        let lengths = effects.map(|effect| match effect {
            Effect::Absent => 0,
            Effect::Value(length) => length as u64,
        });
        let huge = lengths.filter(|l| *l > LARGEST_VALUE / 2).count();
        assert!((1..20).contains(&huge), "{huge}");
    }

    #[test]
    fn units_are_keys_or_whole_blocks() {
        let units = (0..4_096).map(|index| Record { thread: 2, index }.unit());
        let of_blocks = units.filter(|unit| unit.end - unit.start == BLOCK).count();
        assert!((600..1_500).contains(&of_blocks), "{of_blocks}");
        for index in 0..512 {
            let unit = Record { thread: 2, index }.unit();
            assert!(unit.contains(&index));
            for member in unit.clone() {
                let other = Record {
                    thread: 2,
                    index: member,
                };
                assert_eq!(other.unit(), unit);
            }
        }
    }
}
