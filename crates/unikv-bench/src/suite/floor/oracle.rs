//! What stays in memory, decided by one who knows the future: Belady's MIN, where what is read need
//! not be kept.
//!
//! Keeping a record from one touch to the next saves a read if that next touch is a read, and
//! nothing if it is free. So what can be saved is a set of spans of time, each worth one read, of
//! which no more may overlap than there are places. To drop the one that ends last, whenever there
//! is one too many, leaves the most spans that can be left. It picks what will be read while
//! everything passes by in the load.

use super::sequence::Access;
use std::collections::BTreeSet;
use std::ops::Range;

const NEVER: u32 = u32::MAX;

/// Which of `accesses` are reads of the device, by their places, if memory holds as many records as
/// there are `places` and as few reads as possible shall be among those `counted`. All other
/// accesses are free.
pub fn misses(accesses: &[Access], counted: Range<usize>, places: usize) -> Vec<u32> {
    let accesses = &accesses[..counted.end];
    let next = next_reads(accesses, counted.start);
    let mut misses = Vec::new();
    // The records in memory, by when they are read.
    let mut kept = BTreeSet::new();
    for (now, (access, &next)) in accesses.iter().zip(&next).enumerate() {
        let now = now as u32;
        if is_counted(*access, now as usize, counted.start) && !kept.remove(&now) {
            misses.push(now);
        }
        if next != NEVER {
            kept.insert(next);
            if kept.len() > places {
                kept.pop_last();
            }
        }
    }
    misses
}

fn is_counted(access: Access, at: usize, first: usize) -> bool {
    access.is_read() && at >= first
}

/// For each access when its record is touched next, if that is a read at `first` or after it.
fn next_reads(accesses: &[Access], first: usize) -> Vec<u32> {
    let records = accesses.iter().map(|access| access.record() + 1).max();
    let mut upcoming = vec![NEVER; records.unwrap_or(0)];
    let mut next = vec![NEVER; accesses.len()];
    for (at, access) in accesses.iter().enumerate().rev() {
        let here = if is_counted(*access, at, first) {
            at as u32
        } else {
            NEVER
        };
        next[at] = std::mem::replace(&mut upcoming[access.record()], here);
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    /// Of letters: small ones are read, great ones written.
    fn accesses(text: &str) -> Vec<Access> {
        let access = |letter: u8| match letter {
            b'a'..=b'z' => Access::read(u32::from(letter - b'a')),
            _ => Access::free(u32::from(letter - b'A')),
        };
        text.bytes().map(access).collect()
    }

    fn all_misses(text: &str, places: usize) -> Vec<u32> {
        misses(&accesses(text), 0..text.len(), places)
    }

    #[test]
    fn what_is_read_need_not_be_kept() {
        // With two places `a` and `b` stay until they are read last, and `c` and `d` pass by.
        assert_eq!(all_misses("abcabdabcd", 2), [0, 1, 2, 5, 8, 9]);
        assert_eq!(all_misses("abcabdabcd", 4), [0, 1, 2, 5]);
        assert_eq!(all_misses("abcabdabcd", 0).len(), 10);
    }

    #[test]
    fn writes_are_free_and_what_they_overwrite_is_not_kept() {
        assert!(all_misses("ABbAa", 1).is_empty());
        assert_eq!(all_misses("ABba", 1), [3]);
        // A read, a write of the same record, a read.
        assert_eq!(all_misses("aAa", 1), [0]);
    }

    #[test]
    fn a_phase_alone_has_all_places_for_itself() {
        let sequence = accesses("ABab");
        assert_eq!(misses(&sequence, 0..4, 1), [3]);
        assert!(misses(&sequence, 3..4, 1).is_empty());
        assert!(misses(&sequence, 2..3, 1).is_empty());
    }

    /// By trying everything: the fewest misses with which each set of records can be in memory.
    fn fewest(accesses: &[Access], records: u32, places: u32) -> usize {
        let sets = 0..1_usize << records;
        let mut fewest = vec![None; sets.len()];
        fewest[0] = Some(0);
        for access in accesses {
            let one = 1 << access.record();
            let mut then = vec![None; sets.len()];
            for before in sets.clone() {
                let Some(misses) = fewest[before] else {
                    continue;
                };
                let misses = misses + usize::from(access.is_read() && before & one == 0);
                let at_hand = before | one;
                let may_stay = |set: &usize| set & !at_hand == 0 && set.count_ones() <= places;
                for after in sets.clone().filter(may_stay) {
                    then[after] =
                        Some(then[after].map_or(misses, |least: usize| least.min(misses)));
                }
            }
            fewest = then;
        }
        fewest.into_iter().flatten().min().unwrap()
    }

    #[test]
    fn nobody_does_with_fewer() {
        let mut rng = SmallRng::seed_from_u64(1);
        for _ in 0..300 {
            let (records, places) = (rng.random_range(1..=5), rng.random_range(0..=3));
            let mut access = || {
                let record = rng.random_range(0..records);
                match rng.random_range(0..3) {
                    0 => Access::free(record),
                    _ => Access::read(record),
                }
            };
            let accesses: Vec<_> = (0..30).map(|_| access()).collect();
            let found = misses(&accesses, 0..accesses.len(), places as usize);
            assert_eq!(found.len(), fewest(&accesses, records, places));
        }
    }
}
