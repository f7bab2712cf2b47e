//! The least and the greatest key of a file as they are kept in memory and in the manifest: bounds,
//! which are shorter than the keys where these are long.
//!
//! A key of up to [`LONGEST_EXACT`] bytes is its own bound. Of a longer one the lower bound is a
//! prefix, and the upper bound a prefix whose last byte is one greater. They are as long as it
//! takes to keep files apart that have no key in common: what lay after one another stays so. In
//! the file itself the keys stand whole.

use crate::key_table::block::common_prefix;

/// Longer keys are shortened.
const LONGEST_EXACT: usize = 256;
/// What is left of them at least: bounds also say that a file does not have a key.
const LEAST_LEN: usize = 64;

/// Of keys `last` < `first` of neighbours: an upper bound of the one below a lower bound of the
/// other.
pub(crate) fn between(last: &[u8], first: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let lower = lower(first, Some(last));
    (upper(last, Some(&lower)), lower)
}

/// A lower bound of `key`, greater than `before`.
pub(crate) fn lower(key: &[u8], before: Option<&[u8]>) -> Vec<u8> {
    if key.len() <= LONGEST_EXACT {
        return key.to_vec();
    }
    let shared = before.map_or(0, |before| common_prefix(before, key));
    let len = (shared + 1).max(LEAST_LEN).min(key.len());
    key[..len].to_vec()
}

/// An upper bound of `key`, less than `behind`.
pub(crate) fn upper(key: &[u8], behind: Option<&[u8]>) -> Vec<u8> {
    if key.len() <= LONGEST_EXACT {
        return key.to_vec();
    }
    let shared = behind.map_or(0, |behind| common_prefix(behind, key));
    let places = shared.max(LEAST_LEN - 1)..key.len();
    let raised = places.filter(|at| key[*at] < u8::MAX).map(|at| {
        let mut bound = key[..=at].to_vec();
        bound[at] += 1;
        bound
    });
    let fits = |bound: &Vec<u8>| behind.is_none_or(|behind| bound.as_slice() < behind);
    // Behind the first place in which they differ, any greater byte leaves it less.
    let mut bounds = raised.take(2).filter(fits);
    bounds.next().unwrap_or_else(|| key.to_vec())
}

/// Whether `bound` may have been made of the least key `key`.
pub(crate) fn is_lower_of(bound: &[u8], key: &[u8]) -> bool {
    bound == key
        || (key.len() > LONGEST_EXACT && bound.len() >= LEAST_LEN && key.starts_with(bound))
}

/// Whether `bound` may have been made of the greatest key `key`.
pub(crate) fn is_upper_of(bound: &[u8], key: &[u8]) -> bool {
    let is_raised = || match bound.split_last() {
        Some((last, rest)) => {
            let lowered = last.checked_sub(1);
            bound.len() >= LEAST_LEN
                && key.starts_with(rest)
                && key.get(rest.len()).copied() == lowered
        }
        None => false,
    };
    bound == key || (key.len() > LONGEST_EXACT && is_raised())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    #[test]
    fn short_keys_are_their_own_bounds() {
        let (a, b) = ([b'a'; 256].to_vec(), [b'b'; 256].to_vec());
        assert_eq!(between(&a, &b), (a.clone(), b.clone()));
        assert_eq!((lower(&a, None), upper(&a, None)), (a.clone(), a));
        assert_eq!(upper(b"", Some(b"a")), b"");
    }

    #[test]
    fn bounds_of_long_keys_are_short_and_keep_them_apart() {
        let long = |head: &[u8], fill| {
            let mut key = head.to_vec();
            key.resize(60_000, fill);
            key
        };
        let (a, b) = (long(b"a", b'x'), long(b"b", 0));
        let (of_a, of_b) = between(&a, &b);
        assert_eq!((of_a.len(), of_b.len()), (LEAST_LEN, LEAST_LEN));
        // Nothing but the last byte distinguishes them.
        let (mut c, mut d) = (long(b"", 7), long(b"", 7));
        (c[59_999], d[59_999]) = (8, 9);
        assert_eq!(between(&c, &d), (c, d));
        let all_ones = long(b"", 255);
        assert_eq!(upper(&all_ones, None), all_ones);
    }

    #[test]
    fn bounds_hold_for_any_neighbours() {
        let mut rng = SmallRng::seed_from_u64(1);
        for _ in 0..20_000 {
            let mut key = || {
                let len = *[0, 1, 64, 256, 257, 300, 400]
                    .get(rng.random_range(0..7))
                    .unwrap();
                let dense = rng.random_range(0..len + 1);
                (0..len)
                    .map(|at| {
                        if at < dense {
                            255
                        } else {
                            *[0, 254, 255].get(rng.random_range(0..3)).unwrap()
                        }
                    })
                    .collect::<Vec<u8>>()
            };
            let (mut a, mut b) = (key(), key());
            if a == b {
                continue;
            }
            if a > b {
                std::mem::swap(&mut a, &mut b);
            }
            let (of_a, of_b) = between(&a, &b);
            assert!(a <= of_a && of_a < of_b && of_b <= b, "{a:?} {b:?}");
            assert!(
                is_upper_of(&of_a, &a) && is_lower_of(&of_b, &b),
                "{a:?} {b:?}"
            );
            assert!(a <= upper(&a, None) && is_upper_of(&upper(&a, None), &a));
            assert!(is_lower_of(&lower(&a, None), &a));
            assert!(upper(&a, Some(&b)) < b && upper(&a, Some(&b)) >= a);
        }
    }
}
