//! Records that are much longer than the others of their table.
//!
//! Who deletes or overwrites a record frees as much as it takes, and nobody reads it for that.
//! Where all are about as long, the mean says enough. Of the others a table knows which they are,
//! by hashes of their keys: so a flush learns what it supersedes without a read of any record. See
//! `docs/format.md`, "Properties".

use crate::base::coding::{Decoder, put_varint};
use crate::base::hash::key_hash;

/// Shorter records are never worth a note.
const SHORTEST: u64 = 4 << 10;
/// A record is an outlier if it is this many times as long as the mean.
const TIMES_MEAN: u64 = 8;
/// The same once the mean of the whole table is known, the outliers among them.
const TIMES_LAST_MEAN: u64 = 4;
/// Hashes are of no database's secret: they outlive none, and stand for estimates only.
const SEED: u64 = 0;

/// How many there are, for a caller that has not read which.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OutlierSum {
    pub(crate) count: u64,
    /// Bytes of their records.
    pub(crate) bytes: u64,
    /// Of the longest.
    pub(crate) longest: u64,
}

impl OutlierSum {
    /// Both together.
    pub(crate) fn and(self, other: OutlierSum) -> OutlierSum {
        OutlierSum {
            count: self.count + other.count,
            bytes: self.bytes + other.bytes,
            longest: self.longest.max(other.longest),
        }
    }
}

/// Hashes of keys with the lengths of their records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outliers {
    /// Sorted once all are there.
    of: Vec<(u64, u64)>,
}

impl Outliers {
    /// Notes a record of `len` bytes if it is longer than the `count` records of `bytes` before it.
    pub(super) fn note(&mut self, key: &[u8], len: u64, (count, bytes): (u64, u64)) {
        if len >= SHORTEST && len.saturating_mul(count) > bytes.saturating_mul(TIMES_MEAN) {
            self.of.push((key_hash(SEED, key), len));
        }
    }

    /// Keeps those that are outliers among `count` records of `bytes`.
    pub(super) fn settle(&mut self, (count, bytes): (u64, u64)) -> OutlierSum {
        let is_long = |len: u64| len.saturating_mul(count) > bytes.saturating_mul(TIMES_LAST_MEAN);
        self.of.retain(|(_, len)| is_long(*len));
        self.of.sort_unstable();
        let lens = || self.of.iter().map(|(_, len)| *len);
        OutlierSum {
            count: self.of.len() as u64,
            bytes: lens().sum(),
            longest: lens().max().unwrap_or(0),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// The length of the record of `key`, if it is an outlier.
    pub(crate) fn len_of(&self, key: &[u8]) -> Option<u64> {
        let hash = key_hash(SEED, key);
        let at = self
            .of
            .binary_search_by_key(&hash, |(hash, _)| *hash)
            .ok()?;
        Some(self.of.get(at)?.1)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (hash, len) in &self.of {
            out.extend_from_slice(&hash.to_le_bytes());
            put_varint(&mut out, *len);
        }
        out
    }

    pub(super) fn decode(d: &mut Decoder<'_>) -> Option<Outliers> {
        let mut of = Vec::new();
        while !d.is_empty() {
            of.push((d.u64()?, d.varint()?));
        }
        of.is_sorted().then_some(Outliers { of })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lens: &[u64]) -> (Outliers, OutlierSum) {
        let (mut outliers, mut before) = (Outliers::default(), (0, 0));
        for (i, len) in lens.iter().enumerate() {
            outliers.note(&[i as u8], *len, before);
            before = (before.0 + 1, before.1 + len);
        }
        let sum = outliers.settle(before);
        (outliers, sum)
    }

    #[test]
    fn only_what_is_much_longer_than_the_others_is_noted() {
        let (outliers, sum) = of(&[20, 20, 1 << 20, 20, 30_000, 20]);
        assert_eq!((sum.count, sum.bytes, sum.longest), (1, 1 << 20, 1 << 20));
        assert_eq!(outliers.len_of(&[2]), Some(1 << 20));
        assert_eq!(outliers.len_of(&[3]), None);
        let found = Outliers::decode(&mut Decoder::new(&outliers.encode()));
        assert_eq!(found, Some(outliers));
        for alike in [[20; 50], [16_384; 50], [1 << 20; 50]] {
            assert_eq!(of(&alike).1, OutlierSum::default());
        }
        assert!(Outliers::decode(&mut Decoder::new(&[1; 7])).is_none());
    }
}
