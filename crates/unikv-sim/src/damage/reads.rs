//! Every read of a damaged database that opens: each is right, or fails where it reads what is
//! damaged, and says so.

use super::exam::explains;
use super::plan::Damage;
use super::specimen::{Specimen, Touched};
use crate::spaces;
use crate::value::{show, show_option};
use crate::verify;
use std::ops::{Bound, Range};
use unikv::{Db, Error};

/// Values of which parts are read, and how long these are: more than a chunk, and across some.
const LARGE_BYTES: usize = 1000;
const PART_STEP: usize = 300;

/// Reads everything; how many reads fail. Those alone may that are `touched`.
pub(super) fn failed_reads(specimen: &Specimen, damage: &Damage, db: &Db, touched: Touched) -> u64 {
    let mut failed = 0;
    let mut fails = |error: &Error, what: &str, may: bool| {
        assert!(
            explains(specimen, damage, error),
            "{what} fails and does not say why: {error:?}"
        );
        assert!(
            may,
            "{what} fails, and does not read what is damaged: {error:?}"
        );
        failed += 1;
    };
    for (i, key) in specimen.keys.iter().enumerate() {
        let want = specimen.state.get(key).map(|value| &value[..]);
        match spaces::get(db, key) {
            Ok(got) => {
                let (key, got_text) = (show(key), show_option(got.as_deref()));
                let want_text = show_option(want);
                assert!(
                    got.as_deref() == want,
                    "get of {key}: {got_text}, not {want_text}"
                );
            }
            Err(error) => fails(&error, "a get", touched.get >> i & 1 == 1),
        }
        parts_are_right(specimen, damage, db, (key, want));
    }
    for back in [false, true] {
        let mask = if back {
            touched.backward
        } else {
            touched.forward
        };
        for group in groups(&specimen.keys) {
            each_failure_of_scans(specimen, db, (&group, back), &mut |error, at| {
                let passed_over = passed_over(specimen, &group, at);
                fails(error, "a scan", mask & passed_over != 0);
            });
        }
    }
    match specimen.sizes_of(db) {
        Ok((all, half)) => {
            assert_eq!(all, specimen.sizes.0, "the size of everything");
            assert!(half <= all, "the half is larger than the whole");
        }
        Err(error) => fails(&error, "an estimate", true),
    }
    failed
}

/// Reads parts of a large value. Each is right, or its damage is explained; and that only where the
/// whole value cannot be read.
fn parts_are_right(
    specimen: &Specimen,
    damage: &Damage,
    db: &Db,
    (key, want): (&[u8], Option<&[u8]>),
) {
    let Some(want) = want.filter(|want| want.len() >= LARGE_BYTES) else {
        return;
    };
    for start in (0..want.len()).step_by(PART_STEP) {
        let range = start..want.len().min(start + PART_STEP);
        match spaces::get_range(db, key, range.clone()) {
            Ok(part) => assert!(
                part.as_deref() == Some(&want[range.clone()]),
                "the part {range:?} of {}: {}",
                show(key),
                show_option(part.as_deref())
            ),
            Err(error) => {
                assert!(explains(specimen, damage, &error), "a part: {error:?}");
                assert!(
                    spaces::get(db, key).is_err(),
                    "a part fails alone: {error:?}"
                );
            }
        }
    }
}

/// The numbers of the keys of each keyspace, which is not among them itself.
fn groups(keys: &[Vec<u8>]) -> Vec<Range<usize>> {
    let mut groups: Vec<Range<usize>> = Vec::new();
    for (i, key) in keys.iter().enumerate() {
        if spaces::is_presence(key) {
            continue;
        }
        let same = |group: &&mut Range<usize>| {
            spaces::prefix_of(&keys[group.start]) == spaces::prefix_of(key)
        };
        match groups.last_mut().filter(same) {
            Some(group) => group.end = i + 1,
            None => groups.push(i..i + 1),
        }
    }
    groups
}

/// The keys that a scan of a keyspace may look at for the one with this number: it passes over
/// those that are deleted, and looks at what follows.
fn passed_over(specimen: &Specimen, group: &Range<usize>, at: usize) -> u64 {
    let is_there = |i: &usize| specimen.state.contains_key(&specimen.keys[*i]);
    let last = group.end - 1;
    let first = (group.start..at).rev().find(is_there);
    let last = (at + 1..last).find(is_there).unwrap_or(last);
    (first.unwrap_or(group.start)..=last).fold(0, |keys, i| keys | 1 << i)
}

/// Scans all of a keyspace, one way, beginning again after each failure. Whatever comes is right.
/// Calls back with each error and the number of the key at which it came.
fn each_failure_of_scans(
    specimen: &Specimen,
    db: &Db,
    (group, back): (&Range<usize>, bool),
    fails: &mut dyn FnMut(&Error, usize),
) {
    let keys = &specimen.keys;
    // What is left: keys from `low` to before `high`.
    let (mut low, mut high) = (group.start, group.end);
    while low < high {
        let (first, last) = (&keys[low][..], &keys[high - 1][..]);
        let want = specimen.state.range::<[u8], _>(bounds(first, last));
        let Some(mut iter) = spaces::range(db, first, last) else {
            assert_eq!(want.count(), 0, "the keyspace of {} is gone", show(first));
            return;
        };
        let prefix = spaces::prefix_of(first);
        let want = want.map(|(key, value)| (&key[prefix.len()..], &value[..]));
        let failure = if back {
            compare(&mut iter.rev(), want.rev())
        } else {
            compare(&mut iter, want)
        };
        let Some((error, next)) = failure else {
            return;
        };
        // The key that should have come, or the end of the keys that are there.
        let at = next.map(|key| {
            let whole = [prefix, &key[..]].concat();
            keys.binary_search(&whole).expect("a key that was written")
        });
        let at = at.unwrap_or(if back { low } else { high - 1 });
        fails(&error, at);
        if back {
            high = at;
        } else {
            low = at + 1;
        }
    }
}

/// An error, and the key that should have come in its place.
type Failure = (Error, Option<Vec<u8>>);

fn bounds<'a>(first: &'a [u8], last: &'a [u8]) -> (Bound<&'a [u8]>, Bound<&'a [u8]>) {
    (Bound::Included(first), Bound::Included(last))
}

fn compare<'s>(
    got: &mut dyn Iterator<Item = unikv::Result<(unikv::Bytes, unikv::Bytes)>>,
    mut want: impl Iterator<Item = (&'s [u8], &'s [u8])>,
) -> Option<Failure> {
    loop {
        let want = want.next();
        match got.next().transpose() {
            Ok(got) => {
                let got = got.as_ref().map(|(key, value)| (&key[..], &value[..]));
                let (got_text, want_text) = (verify::show_pair(got), verify::show_pair(want));
                assert!(got == want, "a scan yields {got_text}, not {want_text}");
                got?;
            }
            Err(error) => return Some((error, want.map(|(key, _)| key.to_vec()))),
        }
    }
}
