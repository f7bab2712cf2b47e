//! Shapes of data: how long keys and values are, and how they change.
//!
//! Promises hold for every shape, so tests of them run on all of these. Everything follows from the
//! number of a key and its version: to know both is to know what a database must hold.

/// A shape of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Short keys, and values from 16 bytes to 16 KiB, most of them short.
    Usual,
    /// Values a little too long to stand beside their keys.
    SmallValues,
    /// Keys from 0 bytes to 64 KiB.
    LongKeys,
    /// Values from 0 bytes to 1 MiB.
    LongValues,
    /// Both.
    Any,
    /// Every thousandth value has a mebibyte, the others have 20 bytes. The long ones come and go.
    Skewed,
    /// Keys of 60 KB that differ in their last bytes alone.
    CommonPrefix,
    /// A key of 60 KB before short ones.
    OneLongKey,
    /// One key for ever.
    OneKey,
    /// New keys at one end, deletes at the other.
    Queue,
    /// All keys are deleted.
    Deleted,
    /// All values are replaced, by long ones and by short ones in turn.
    Replaced,
}

/// What follows when the keys have been put once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Keys are put and now and then deleted, in no order.
    Mixed,
    /// Every thousandth key is deleted; then all of these are put again, and again with 10 bytes.
    LongOnes,
    /// The oldest key is deleted, and a new one put.
    Queue,
    /// All keys are deleted.
    Delete,
    /// All keys are put again.
    Replace,
}

/// The most that a key may have.
pub const LONGEST_KEY: usize = 64 << 10;
const LONG_KEY: usize = 60_000;
const LONGEST_VALUE: usize = 1 << 20;
/// Of keys that are given by their number.
const NUMBER_BYTES: usize = 5;
const RARE: u64 = 1000;

/// Numbers that look random, one for each number.
pub fn mix(number: u64) -> u64 {
    // The finish of splitmix64 (Steele, Lea, Flood 2014).
    let n = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

/// A length from 0 to `most`, each order of magnitude as often as the others.
fn spread(dice: u64, most: usize) -> usize {
    let share = (dice >> 11) as f64 / (1_u64 << 53) as f64;
    ((most as f64 + 1.0).powf(share) - 1.0).round() as usize
}

impl Shape {
    /// All of them.
    pub const ALL: [Shape; 12] = [
        Shape::Usual,
        Shape::SmallValues,
        Shape::LongKeys,
        Shape::LongValues,
        Shape::Any,
        Shape::Skewed,
        Shape::CommonPrefix,
        Shape::OneLongKey,
        Shape::OneKey,
        Shape::Queue,
        Shape::Deleted,
        Shape::Replaced,
    ];

    /// Its name on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Shape::Usual => "usual",
            Shape::SmallValues => "small-values",
            Shape::LongKeys => "long-keys",
            Shape::LongValues => "long-values",
            Shape::Any => "any",
            Shape::Skewed => "skewed",
            Shape::CommonPrefix => "common-prefix",
            Shape::OneLongKey => "one-long-key",
            Shape::OneKey => "one-key",
            Shape::Queue => "queue",
            Shape::Deleted => "deleted",
            Shape::Replaced => "replaced",
        }
    }

    /// The shape of a name.
    pub fn named(name: &str) -> Option<Shape> {
        Shape::ALL.into_iter().find(|shape| shape.name() == name)
    }

    /// How long the key of a number is, if `least` bytes are taken by the number.
    pub fn key_len(self, number: u64, least: usize) -> usize {
        let dice = mix(number);
        let len = match self {
            Shape::LongKeys | Shape::Any => spread(dice, LONGEST_KEY),
            Shape::CommonPrefix => LONG_KEY,
            Shape::OneLongKey if number == 0 => LONG_KEY,
            _ if dice.is_multiple_of(4) => 16 + (dice >> 8) as usize % 16,
            _ => 16,
        };
        len.max(least)
    }

    /// Whether what fills keys up stands before their number.
    pub fn has_common_prefix(self) -> bool {
        self == Shape::CommonPrefix
    }

    /// How long the value of a key is at a version, the first of which is 1.
    pub fn value_len(self, number: u64, version: u64) -> usize {
        let dice = mix(number ^ mix(version));
        match self {
            Shape::LongValues | Shape::Any => spread(dice, LONGEST_VALUE),
            Shape::LongKeys => spread(dice, 1000),
            Shape::Usual | Shape::OneKey => match dice % 100 {
                0..60 => 16 + (dice >> 8) as usize % 240,
                60..95 => 256 + (dice >> 8) as usize % 2_000,
                _ => 2_000 + (dice >> 8) as usize % 14_000,
            },
            Shape::SmallValues => 130,
            Shape::Skewed if !self.is_rare(number) => 20,
            Shape::Skewed if version.is_multiple_of(3) => 10,
            Shape::Skewed => LONGEST_VALUE,
            Shape::CommonPrefix => 100,
            Shape::OneLongKey => 20,
            Shape::Queue | Shape::Deleted => 1000,
            Shape::Replaced if version.is_multiple_of(2) => 40,
            Shape::Replaced => 2000,
        }
    }

    /// Whether a key is one of the thousandths that differ.
    pub fn is_rare(self, number: u64) -> bool {
        mix(number ^ 0x5ca1ab1e).is_multiple_of(RARE)
    }

    /// What follows when the keys have been put once.
    pub fn change(self) -> Change {
        match self {
            Shape::Skewed => Change::LongOnes,
            Shape::Queue => Change::Queue,
            Shape::Deleted => Change::Delete,
            Shape::Replaced => Change::Replace,
            _ => Change::Mixed,
        }
    }

    /// How many keys fit into `bytes` with their first values; at least one.
    pub fn keys_in(self, bytes: u64) -> u64 {
        if self == Shape::OneKey {
            return 1;
        }
        let mut sum = 0;
        let lens = (0..).map(|number| {
            let key = self.key_len(number, NUMBER_BYTES);
            (key + self.value_len(number, 1)) as u64
        });
        let fits = lens.take_while(|len| {
            sum += len;
            sum <= bytes
        });
        fits.count().max(1) as u64
    }

    /// The key of a number; no two numbers have the same. The first ones are as short as keys can
    /// be.
    pub fn key(self, number: u64) -> Vec<u8> {
        let number_bytes = &number.to_be_bytes()[8 - NUMBER_BYTES..];
        let len = self.key_len(number, NUMBER_BYTES);
        match self {
            Shape::LongKeys | Shape::Any if number == 0 => Vec::new(),
            Shape::LongKeys | Shape::Any if number < 256 && len < 1000 => vec![number as u8],
            _ if self.has_common_prefix() => {
                let mut key = vec![b'p'; len - NUMBER_BYTES];
                key.extend_from_slice(number_bytes);
                key
            }
            Shape::Queue | Shape::OneLongKey => {
                let mut key = number_bytes.to_vec();
                key.resize(len, b'.');
                key
            }
            // Neighbours are not written one after the other.
            _ => {
                let mut key = mix(number).to_be_bytes()[..3].to_vec();
                key.extend_from_slice(number_bytes);
                key.resize(len.max(key.len()), b'.');
                key
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_lead_back_and_keys_differ_and_lengths_span_the_whole_range() {
        for shape in Shape::ALL {
            assert_eq!(Shape::named(shape.name()), Some(shape));
            let keys: HashSet<_> = (0..2000).map(|n| shape.key(n)).collect();
            assert_eq!(keys.len(), 2000, "{shape:?}");
            assert!(keys.iter().all(|key| key.len() <= LONGEST_KEY));
        }
        let keys = || (0..20_000).map(|n| Shape::Any.key(n).len());
        assert_eq!(keys().min(), Some(0));
        assert!(keys().max() > Some(60_000));
        let values = || (0..20_000).map(|n| Shape::Any.value_len(n, 1));
        assert_eq!(values().min(), Some(0));
        assert!(values().max() > Some(1_000_000));
        let short = values().filter(|len| *len < 1000).count();
        assert!((8_000..12_000).contains(&short), "{short}");
        assert_eq!(Shape::named("round"), None);
    }

    #[test]
    fn keys_have_the_bytes_that_were_asked_for() {
        assert_eq!(Shape::OneKey.keys_in(1 << 30), 1);
        assert_eq!(Shape::CommonPrefix.keys_in(601_000), 10);
        let skewed = Shape::Skewed.keys_in(100 << 20);
        let rare = (0..skewed).filter(|n| Shape::Skewed.is_rare(*n)).count();
        assert!((60..100).contains(&rare), "{rare} of {skewed}");
    }
}
