//! Dictionaries: what the small values of a file have in common, once.
//!
//! A dictionary belongs to a file and is of no use without it, nor are the values that were
//! compressed with it of use without the dictionary. Two files may have the same one; its hash says
//! so.

use super::zstd::{Digested, train};
use crate::base::hash::key_hash;
use std::fmt;

/// Bytes of a dictionary, at most.
pub(crate) const MOST_BYTES: usize = 16 << 10;
/// Longer values have enough in common with themselves.
pub(crate) const LONGEST_VALUE: usize = 16 << 10;
/// Samples to learn from: what is worth a dictionary at all, and what is enough for one.
const LEAST_SAMPLED: usize = 16 << 10;
pub(crate) const MOST_SAMPLED: usize = 256 << 10;
/// With fewer values there is nothing in common to be found.
const LEAST_SAMPLES: usize = 16;

/// A dictionary that is ready for use.
pub(crate) struct Dictionary {
    bytes: Vec<u8>,
    hash: u64,
    digested: Digested,
}

impl fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = f.debug_struct("Dictionary");
        f.field("hash", &self.hash).finish_non_exhaustive()
    }
}

impl Dictionary {
    /// Makes a dictionary ready; `None` if this build cannot, or memory is out.
    pub(crate) fn new(bytes: Vec<u8>) -> Option<Dictionary> {
        let digested = Digested::new(&bytes)?;
        Some(Dictionary {
            hash: Dictionary::hash_of(&bytes),
            bytes,
            digested,
        })
    }

    /// By which dictionaries are known.
    pub(crate) fn hash_of(bytes: &[u8]) -> u64 {
        key_hash(0, bytes)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    pub(super) fn digested(&self) -> &Digested {
        &self.digested
    }
}

/// Values to learn a dictionary from.
#[derive(Default)]
pub(crate) struct Samples {
    bytes: Vec<u8>,
    lens: Vec<usize>,
}

impl Samples {
    /// Bytes of samples that each of `files` may give, so that all are heard.
    pub(crate) fn most_bytes_of(files: usize) -> usize {
        (MOST_SAMPLED / files.max(1)).max(LEAST_SAMPLED)
    }

    /// Bytes of samples that there are.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Adds a value, unless it is of a length that dictionaries are not for.
    pub(crate) fn add(&mut self, value: &[u8]) {
        let is_of_use = (8..=LONGEST_VALUE).contains(&value.len());
        if is_of_use && !self.are_enough() {
            self.bytes.extend_from_slice(value);
            self.lens.push(value.len());
        }
    }

    /// Whether more of them would only cost time.
    pub(crate) fn are_enough(&self) -> bool {
        self.bytes.len() >= MOST_SAMPLED
    }

    /// Whether they are worth a dictionary.
    pub(super) fn are_worth_one(&self) -> bool {
        self.bytes.len() >= LEAST_SAMPLED && self.lens.len() >= LEAST_SAMPLES
    }

    /// How long a dictionary for the likes of them may be.
    pub(super) fn most_dictionary_bytes(&self) -> usize {
        MOST_BYTES.min(self.bytes.len() / 8)
    }

    /// Each of them.
    pub(super) fn each(&self) -> impl Iterator<Item = &[u8]> {
        let mut at = 0;
        self.lens.iter().filter_map(move |len| {
            let begin = at;
            at += len;
            self.bytes.get(begin..at)
        })
    }

    /// Some of them, from all over, with about this many bytes.
    pub(super) fn part(&self, bytes: usize) -> Samples {
        self.split(self.bytes.len().div_ceil(bytes.max(1))).1
    }

    /// These without some of them, and those: about a sixteenth, but no more than this many bytes.
    pub(super) fn hold_back(&self, most_bytes: usize) -> (Samples, Samples) {
        self.split(self.bytes.len().div_ceil(most_bytes.max(1)).max(16))
    }

    /// These without one in this many, and those.
    fn split(&self, one_in: usize) -> (Samples, Samples) {
        let (mut rest, mut part) = (Samples::default(), Samples::default());
        for (at, sample) in self.each().enumerate() {
            let is_part = at.is_multiple_of(one_in.max(1));
            let side = if is_part { &mut part } else { &mut rest };
            side.bytes.extend_from_slice(sample);
            side.lens.push(sample.len());
        }
        (rest, part)
    }

    /// A dictionary of at most `most_bytes` for the likes of them; `None` if they have nothing in
    /// common.
    pub(super) fn train(self, most_bytes: usize) -> Option<Dictionary> {
        Dictionary::new(train(&self.bytes, &self.lens, most_bytes)?)
    }
}
