//! What a key table holds for readers of the present: the newest version of each of its keys, if
//! that is a value.
//!
//! Counted exactly, for the promise on space is about the bytes of these keys and values
//! ([`crate::jobs::space::promise`]). Older releases did not store it.

use crate::base::keys::KEYSPACE_PREFIX_LEN;
use crate::key_table::outliers::OutlierSum;
use crate::key_table::pointer::FRAME_BYTES;

/// Longer keys, without their prefix, make a record one of which frame and key count.
const LONGEST_FREE_KEY: usize = 32;
/// And so do shorter values.
const SHORTEST_FREE_VALUE: u64 = 256;

/// Records of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Values {
    pub(crate) count: u64,
    /// Bytes of their keys, each with its prefix.
    pub(crate) key_bytes: u64,
    /// Bytes of values that stand in the table, or of records, keys and frames included, that stand
    /// apart.
    pub(crate) bytes: u64,
}

/// The newest versions of the keys of a table, those without a value left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Newest {
    /// Those whose values stand in the table.
    pub(crate) inline: Values,
    /// Those whose records stand apart.
    pub(crate) apart: Values,
    /// How many of both have a key of more than 32 bytes or a value of less than 256.
    pub(crate) small: u64,
    /// Bytes of the keys of these, each with its prefix.
    pub(crate) small_key_bytes: u64,
    /// Those that are much longer than the others.
    pub(crate) outliers: OutlierSum,
}

impl Newest {
    /// Records and inline values, and their bytes.
    pub(crate) fn sum(&self) -> (u64, u64) {
        let (inline, apart) = (self.inline, self.apart);
        let inline_bytes = inline.bytes + inline.key_bytes;
        (inline.count + apart.count, inline_bytes + apart.bytes)
    }

    /// Counts a value of `value_len` bytes that stands in the table.
    pub(crate) fn add_inline(&mut self, key: &[u8], value_len: u64) {
        self.inline.add(key, value_len);
        self.add_small(key, value_len);
    }

    /// Counts a record of `record_len` bytes.
    pub(crate) fn add_apart(&mut self, key: &[u8], record_len: u64) {
        self.apart.add(key, record_len);
        let without_value = key.len() as u64 + u64::from(FRAME_BYTES);
        self.add_small(key, record_len.saturating_sub(without_value));
    }

    fn add_small(&mut self, key: &[u8], value_len: u64) {
        let key_len = key.len().saturating_sub(KEYSPACE_PREFIX_LEN);
        if key_len > LONGEST_FREE_KEY || value_len < SHORTEST_FREE_VALUE {
            self.small += 1;
            self.small_key_bytes += key.len() as u64;
        }
    }
}

impl Values {
    fn add(&mut self, key: &[u8], bytes: u64) {
        self.count += 1;
        self.key_bytes += key.len() as u64;
        self.bytes += bytes;
    }
}

/// The numbers of which it consists, in the order in which they are stored.
pub(crate) type NewestNumbers = [u64; 11];

impl From<Newest> for NewestNumbers {
    fn from(of: Newest) -> NewestNumbers {
        let [a, b] = [of.inline, of.apart].map(|v| [v.count, v.key_bytes, v.bytes]);
        let c = of.outliers;
        let (n, key_bytes) = (of.small, of.small_key_bytes);
        let c = [c.count, c.bytes, c.longest];
        [
            a[0], a[1], a[2], b[0], b[1], b[2], n, key_bytes, c[0], c[1], c[2],
        ]
    }
}

impl From<NewestNumbers> for Newest {
    fn from(numbers: NewestNumbers) -> Newest {
        let [inline, apart] = [0, 3].map(|at| Values {
            count: numbers[at],
            key_bytes: numbers[at + 1],
            bytes: numbers[at + 2],
        });
        Newest {
            inline,
            apart,
            small: numbers[6],
            small_key_bytes: numbers[7],
            outliers: OutlierSum {
                count: numbers[8],
                bytes: numbers[9],
                longest: numbers[10],
            },
        }
    }
}
