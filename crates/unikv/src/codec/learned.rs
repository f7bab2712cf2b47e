//! Dictionaries that were learned lately, so that not each pass over values of one kind learns its
//! own.
//!
//! Invariant: a dictionary is given out for other values only if it helps as much there as with
//! values of its own that it was not learned from, and if one learned from them would be about as
//! long. So values of another kind get another dictionary, and a short file none that is long.
//!
//! Locks: that of the list and that of the flushes' last one, leaves, never taken together. Nothing
//! is learned or compressed under them.

use super::dictionary::Samples;
use super::{Dictionary, zstd::Compressor};
use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// Each takes about 60 KB of memory.
const MOST_KNOWN: usize = 4;
/// Bytes of values with which a dictionary is tried.
const TRIED_BYTES: usize = 16 << 10;
/// At which level it is tried.
const TRIED_LEVEL: i32 = 3;
/// A dictionary helps as much as it did if values take at most this multiple of the share of their
/// bytes that they took then.
const TOLERANCE: f64 = 1.03;

/// A dictionary, and how it did.
#[derive(Clone)]
struct Known {
    dictionary: Arc<Dictionary>,
    /// The greatest length that it was to have.
    most_bytes: usize,
    /// What values took with it, as a part of what they took without.
    share: f64,
}

/// The dictionaries that were used last, the newest first.
#[derive(Default)]
pub(crate) struct Dictionaries {
    known: Mutex<Vec<Known>>,
    of_flushes: Mutex<Option<Arc<Dictionary>>>,
    trainings: AtomicU64,
}

impl Dictionaries {
    /// The one that a flush learned or found last. One of a job that copies values is for fewer of
    /// them, or for one keyspace.
    pub(crate) fn last_of_flushes(&self) -> Option<Arc<Dictionary>> {
        self.of_flushes.lock().clone()
    }

    /// What [`Dictionaries::of`] says, for a flush.
    pub(crate) fn of_flush(&self, samples: Samples) -> Option<Arc<Dictionary>> {
        let found = self.of(samples);
        if found.is_some() {
            self.of_flushes.lock().clone_from(&found);
        }
        found
    }

    /// A dictionary for the likes of `samples`: one that is known and fits them, or one learned
    /// from them, which takes some 25 ms. `None` if they are too few, or have nothing in common.
    pub(crate) fn of(&self, samples: Samples) -> Option<Arc<Dictionary>> {
        if !samples.are_worth_one() {
            return None;
        }
        let (most_bytes, tried) = (samples.most_dictionary_bytes(), samples.part(TRIED_BYTES));
        let known = self.known.lock().clone();
        let plain = encoded_bytes(&tried, &[])?;
        let found = known.into_iter().find(|known| {
            let is_about_as_long = most_bytes.abs_diff(known.most_bytes) <= most_bytes / 8;
            let share = || encoded_bytes(&tried, known.dictionary.bytes()).map(|it| it / plain);
            is_about_as_long && share().is_some_and(|it| it <= known.share * TOLERANCE)
        });
        let known = match found {
            Some(known) => known,
            None => self.learn(samples, most_bytes)?,
        };
        let dictionary = Arc::clone(&known.dictionary);
        let mut list = self.known.lock();
        list.retain(|other| other.dictionary.hash() != dictionary.hash());
        list.insert(0, known);
        list.truncate(MOST_KNOWN);
        Some(dictionary)
    }

    /// How often one was learned.
    #[cfg(test)]
    pub(crate) fn trainings(&self) -> u64 {
        self.trainings.load(Ordering::Relaxed)
    }

    fn learn(&self, samples: Samples, most_bytes: usize) -> Option<Known> {
        self.trainings.fetch_add(1, Ordering::Relaxed);
        let (learned_from, held_back) = samples.hold_back(TRIED_BYTES);
        let dictionary = Arc::new(learned_from.train(most_bytes)?);
        let plain = encoded_bytes(&held_back, &[])?;
        let share = encoded_bytes(&held_back, dictionary.bytes())? / plain;
        Some(Known {
            dictionary,
            most_bytes,
            share,
        })
    }
}

/// What the samples take when each is compressed by itself. More than 0.
fn encoded_bytes(samples: &Samples, dictionary: &[u8]) -> Option<f64> {
    let mut compressor = Compressor::new(TRIED_LEVEL, dictionary)?;
    let (mut out, mut sum) = (Vec::new(), 1);
    for sample in samples.each() {
        sum += compressor.encode(sample, &mut out)?.min(sample.len());
    }
    Some(sum as f64)
}

#[cfg(all(test, feature = "zstd"))]
mod tests {
    use super::*;

    fn value(kind: &str, i: usize) -> String {
        let mixed = (i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let number = mixed % 1_000_000;
        format!("{kind}, number {number:06}, of {mixed:016x}, and so it ends for {kind}")
    }

    fn samples(kind: &str, from: usize, count: usize) -> Samples {
        let mut samples = Samples::default();
        (from..from + count).for_each(|i| samples.add(value(kind, i).as_bytes()));
        samples
    }

    #[test]
    fn values_of_one_kind_get_one_dictionary_and_others_another() {
        let dictionaries = Dictionaries::default();
        let of = |kind: &str, from, count| dictionaries.of(samples(kind, from, count)).unwrap();
        let kinds = [
            "a bill for the delivery of some books",
            "the log of a machine that has stopped",
            "what the weather was like in March",
        ];
        let first = of(kinds[0], 0, 1_000);
        for from in (1_000..20_000).step_by(1_000) {
            assert_eq!(of(kinds[0], from, 1_000).hash(), first.hash());
        }
        assert_eq!(dictionaries.trainings(), 1);
        let others = kinds[1..].iter().map(|kind| of(kind, 0, 1_000).hash());
        let others: Vec<u64> = others.collect();
        assert_eq!(dictionaries.trainings(), 3);
        for round in 1..5 {
            let hashes = kinds.map(|kind| of(kind, round * 1_000, 1_000).hash());
            assert_eq!(hashes, [first.hash(), others[0], others[1]]);
        }
        // Much fewer are worth a shorter one.
        let short = of(kinds[0], 0, 250);
        assert!(short.bytes().len() < first.bytes().len() / 2);
        assert_eq!(dictionaries.trainings(), 4);
    }

    #[test]
    fn flushes_in_haste_use_the_dictionary_of_a_flush_and_not_of_a_copy() {
        let dictionaries = Dictionaries::default();
        let of_flush =
            dictionaries.of_flush(samples("a bill for the delivery of some books", 0, 1_000));
        let of_copy = dictionaries.of(samples("the log of a machine that has stopped", 0, 250));
        let last = dictionaries.last_of_flushes().unwrap().hash();
        assert_ne!(of_copy.unwrap().hash(), last);
        assert_eq!(of_flush.unwrap().hash(), last);
        assert!(dictionaries.of_flush(samples("few", 0, 5)).is_none());
        assert_eq!(dictionaries.last_of_flushes().unwrap().hash(), last);
    }

    #[test]
    fn too_few_values_get_none() {
        let dictionaries = Dictionaries::default();
        assert!(dictionaries.of(samples("few", 0, 50)).is_none());
        assert!(dictionaries.last_of_flushes().is_none());
        assert_eq!(dictionaries.trainings(), 0);
    }
}
