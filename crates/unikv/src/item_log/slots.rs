//! Where in a shard each item stands: an open hash table of one word per item.
//!
//! A word has bits of the item's hash beside its location, so the table grows and shrinks without a
//! look at the items. What goes leaves nothing behind (those after it move up), so a table that
//! items come to and go from stays as it is.
//!
//! Invariant: between the slot where a word's hash leads and the one where it stands, none is
//! empty.

/// Bits of a word: a part of the hash, the segment's number without its upper bits, and the place
/// there from 1 on.
const HASH_BITS: u32 = 28;
const SEGMENT_BITS: u32 = 20;
const NTH_BITS: u32 = 16;
const _: () = assert!(HASH_BITS + SEGMENT_BITS + NTH_BITS == u64::BITS);

/// This many items a segment may have.
pub(super) const MOST_PER_SEGMENT: usize = (1 << NTH_BITS) - 2;

const EMPTY: u64 = 0;
const LEAST_SLOTS: usize = 8;

/// Where an item stands. Segments are distinguished from one another as long as there are fewer
/// than 2^20.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Location {
    pub(super) segment: u64,
    pub(super) nth: usize,
}

#[derive(Debug, Default)]
pub(super) struct Slots {
    words: Box<[u64]>,
    used: usize,
}

impl Slots {
    /// The location among those of this hash that `is_it`. `first_segment` is the number of the
    /// oldest segment.
    pub(super) fn find(
        &self,
        hash: u64,
        first_segment: u64,
        is_it: impl Fn(Location) -> bool,
    ) -> Option<Location> {
        let mask = self.words.len().checked_sub(1)?;
        let mut slot = self.home(word_hash(hash));
        // There is always an empty one.
        loop {
            let word = *self.words.get(slot & mask)?;
            if word == EMPTY {
                return None;
            }
            if hash_of(word) == tag(hash) {
                let at = location(word, first_segment);
                if is_it(at) {
                    return Some(at);
                }
            }
            slot += 1;
        }
    }

    /// Enters an item that is not here.
    pub(super) fn insert(&mut self, hash: u64, at: Location) {
        if 4 * (self.used + 1) > 3 * self.words.len() {
            self.resize((2 * self.words.len()).max(LEAST_SLOTS));
        }
        self.used += 1;
        self.put(word(hash, at));
    }

    /// Removes the item at `at`, which has this hash.
    pub(super) fn remove(&mut self, hash: u64, at: Location) {
        let word = word(hash, at);
        let mut slots = self.words_from(hash);
        let found = slots.find(|slot| [word, EMPTY].contains(&self.words[*slot]));
        let Some(mut hole) = found.filter(|slot| self.words[*slot] == word) else {
            return;
        };
        self.used -= 1;
        let mask = self.words.len() - 1;
        let mut slot = hole;
        loop {
            slot = (slot + 1) & mask;
            let word = self.words[slot];
            if word == EMPTY {
                break;
            }
            // It may stand no farther up than where its hash leads.
            let way = slot.wrapping_sub(self.home(word)) & mask;
            if way >= slot.wrapping_sub(hole) & mask {
                self.words[hole] = word;
                hole = slot;
            }
        }
        self.words[hole] = EMPTY;
        if 8 * self.used < self.words.len() {
            self.resize(if self.used == 0 {
                0
            } else {
                self.words.len() / 2
            });
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.words)
    }

    /// All slots from the one where `hash` leads.
    fn words_from(&self, hash: u64) -> impl Iterator<Item = usize> + use<> {
        let len = self.words.len();
        let home = if len == 0 {
            0
        } else {
            self.home(word_hash(hash))
        };
        (0..len).map(move |n| (home + n) & (len - 1))
    }

    fn home(&self, word: u64) -> usize {
        let bits = self.words.len().trailing_zeros();
        // Beyond that many slots only the first of each run would be a home.
        let bits = bits.min(HASH_BITS);
        (hash_of(word) >> (HASH_BITS - bits)) as usize
    }

    fn put(&mut self, word: u64) {
        let mask = self.words.len() - 1;
        let mut slot = self.home(word);
        while self.words[slot] != EMPTY {
            slot = (slot + 1) & mask;
        }
        self.words[slot] = word;
    }

    fn resize(&mut self, slots: usize) {
        let old = std::mem::replace(&mut self.words, vec![EMPTY; slots].into_boxed_slice());
        old.into_iter()
            .filter(|word| *word != EMPTY)
            .for_each(|word| self.put(word));
    }
}

fn tag(hash: u64) -> u64 {
    hash & ((1 << HASH_BITS) - 1)
}

fn word_hash(hash: u64) -> u64 {
    tag(hash) << (SEGMENT_BITS + NTH_BITS)
}

fn hash_of(word: u64) -> u64 {
    word >> (SEGMENT_BITS + NTH_BITS)
}

fn word(hash: u64, at: Location) -> u64 {
    let segment = at.segment & ((1 << SEGMENT_BITS) - 1);
    word_hash(hash) | segment << NTH_BITS | (at.nth as u64 + 1)
}

fn location(word: u64, first_segment: u64) -> Location {
    let mask = (1 << SEGMENT_BITS) - 1;
    let behind_first = (word >> NTH_BITS).wrapping_sub(first_segment) & mask;
    let nth = word & ((1 << NTH_BITS) - 1);
    Location {
        segment: first_segment + behind_first,
        nth: nth as usize - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};
    use std::collections::HashSet;

    #[test]
    fn it_finds_what_is_there_among_others_of_the_same_hash() {
        let mut rng = SmallRng::seed_from_u64(7);
        // Numbers of segments begin again in a word.
        let first = (3 << SEGMENT_BITS) - 500;
        for (hashes, most) in [(1, 40), (50, 300), (1 << 40, 5000)] {
            let mut slots = Slots::default();
            let mut model: Vec<(u64, Location)> = Vec::new();
            let mut known = HashSet::new();
            for step in 0..40_000 {
                let goes = rng.random_range(0..most) < model.len() || step > 38_000;
                if goes && !model.is_empty() {
                    let (hash, at) = model.swap_remove(rng.random_range(0..model.len()));
                    slots.remove(hash, at);
                    known.remove(&(at.segment, at.nth));
                    assert_eq!(slots.find(hash, first, |found| found == at), None);
                    slots.remove(hash, at);
                } else {
                    let segment = first + rng.random_range(0..1000);
                    let nth = rng.random_range(0..MOST_PER_SEGMENT);
                    // The upper bits of the hash are not its.
                    let hash = rng.random_range(0..hashes) | step << 50;
                    if known.insert((segment, nth)) {
                        let at = Location { segment, nth };
                        slots.insert(hash, at);
                        model.push((hash, at));
                    }
                }
                if let Some((hash, at)) = model.get(step as usize % most) {
                    assert_eq!(slots.find(*hash, first, |found| found == *at), Some(*at));
                }
                assert_eq!(slots.used, model.len());
                assert!(slots.memory_bytes() <= 64 + 8 * 8 * model.len());
            }
            for (hash, at) in &model {
                assert_eq!(slots.find(*hash, first, |found| found == *at), Some(*at));
            }
        }
    }
}
