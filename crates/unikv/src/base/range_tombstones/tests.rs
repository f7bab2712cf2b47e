//! Tests of range tombstones.

use super::*;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

fn tombstone(start: u16, end: u16, seq: u64) -> RangeTombstone {
    RangeTombstone {
        start: start.to_be_bytes().to_vec(),
        end: end.to_be_bytes().to_vec(),
        seq: SeqNo(seq),
    }
}

/// What the tombstones say one by one.
fn expected(all: &[RangeTombstone], key: &[u8], snapshot: SeqNo) -> Option<SeqNo> {
    let covers = |t: &&RangeTombstone| {
        t.start.as_slice() <= key && key < t.end.as_slice() && t.seq <= snapshot
    };
    all.iter().filter(covers).map(|t| t.seq).max()
}

#[test]
fn every_question_is_answered_as_by_asking_each_tombstone() {
    for seed in 0..300 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let n = rng.random_range(0..40);
        let all: Vec<RangeTombstone> = (1..=n)
            .map(|seq| {
                let start = rng.random_range(0..60);
                tombstone(start, start + rng.random_range(0..20), seq)
            })
            .collect();
        let set = RangeTombstones::new(&all);
        let snapshots: Vec<SeqNo> = (0..3).map(|_| SeqNo(rng.random_range(0..45))).collect();
        for key in 0..85_u16 {
            let key = key.to_be_bytes();
            for snapshot in snapshots.iter().copied().chain([SeqNo::MAX]) {
                let expected = expected(&all, &key, snapshot);
                assert_eq!(set.covering(&key, snapshot), expected, "seed {seed}");
                let piece = set.piece(&key, snapshot);
                assert_eq!(piece.seq, expected, "seed {seed}");
                assert!(piece.start.is_none_or(|start| start <= &key[..]));
                assert!(piece.end.is_none_or(|end| &key[..] < end));
            }
        }
        for _ in 0..50 {
            let first: u16 = rng.random_range(0..80);
            let last: u16 = first + rng.random_range(0..10);
            let keys = first..=last;
            let newest = keys.map(|key| expected(&all, &key.to_be_bytes(), SeqNo::MAX));
            let newest: Vec<Option<SeqNo>> = newest.collect();
            let (first, last) = (first.to_be_bytes(), last.to_be_bytes());
            // Pieces are of all keys, also of those between two numbers: bounds are numbers.
            assert_eq!(
                set.covering_all(&first, &last),
                newest.iter().copied().min().flatten(),
                "seed {seed}"
            );
            let touches = newest.iter().any(Option::is_some);
            assert_eq!(set.touch(&first, &last), touches, "seed {seed}");
            for (start, end) in set.covered(&first, &last) {
                assert!(start < end && start <= &last[..] && &first[..] < end);
                assert!(set.covering(start, SeqNo::MAX).is_some());
            }
            assert_eq!(set.covered(&first, &last).count() > 0, touches);
            let end = [&last[..], &[0]].concat();
            assert_eq!(set.meet(&first, Some(&end)), touches, "seed {seed}");
        }
        let mut listed: Vec<_> = all.into_iter().filter(|t| t.start < t.end).collect();
        listed.sort();
        let by_start = listed.iter().map(RangeTombstone::as_ref);
        assert_eq!(set.by_start(), by_start.collect::<Vec<_>>());
        listed.sort_by_key(|t| t.seq);
        let by_age = listed.iter().map(RangeTombstone::as_ref);
        assert_eq!(set.iter().collect::<Vec<_>>(), by_age.collect::<Vec<_>>());
    }
}

#[test]
fn nested_tombstones_take_little_memory() {
    let nested = (0..20_000).map(|i| tombstone(i, 50_000 - i, u64::from(i) + 1));
    let set = RangeTombstones::new(&nested.collect::<Vec<_>>());
    assert_eq!(set.len(), 20_000);
    assert!(set.memory_bytes() < 20_000 * 100, "{}", set.memory_bytes());
    let inside = 20_000_u16.to_be_bytes();
    assert_eq!(set.covering(&inside, SeqNo::MAX), Some(SeqNo(20_000)));
    assert_eq!(set.covering(&inside, SeqNo(77)), Some(SeqNo(77)));
    assert_eq!(
        set.needed(&inside, &[SeqNo(5), SeqNo(77)], |seq| *seq),
        [SeqNo(20_000), SeqNo(77), SeqNo(5)]
    );
}

#[test]
fn who_sees_the_same_tombstone_is_asked_once() {
    let set = RangeTombstones::new(&[tombstone(0, 9, 50), tombstone(2, 9, 5_000)]);
    let key = 3_u16.to_be_bytes();
    let snapshots: Vec<_> = (1..100_000).map(SeqNo).collect();
    let asked = std::cell::Cell::new(0);
    let needed = set.needed(&key, &snapshots, |seq| {
        asked.set(asked.get() + 1);
        *seq
    });
    assert_eq!(needed, [SeqNo(5_000), SeqNo(50)]);
    assert!(asked.get() < 50, "{}", asked.get());
    for snapshots in [
        &[][..],
        &[SeqNo(49)],
        &[SeqNo(50)],
        &[SeqNo(4_999)],
        &[SeqNo(5_000)],
    ] {
        let moments = snapshots.iter().rev().copied();
        let moments = std::iter::once(SeqNo::MAX).chain(moments);
        let mut expected: Vec<_> = moments.filter_map(|at| set.covering(&key, at)).collect();
        expected.dedup();
        assert_eq!(set.needed(&key, snapshots, |seq| *seq), expected);
    }
}

#[test]
fn clipping_keeps_what_lies_inside() {
    let (all, part) = (tombstone(10, 20, 1), tombstone(12, 15, 1));
    let (all, part) = (all.as_ref(), part.as_ref());
    let key = |n: u16| n.to_be_bytes();
    assert_eq!(all.clipped(&key(12), Some(&key(15))), Some(part));
    assert_eq!(all.clipped(&[], None), Some(all));
    assert_eq!(all.clipped(&key(20), None), None);
    assert_eq!(all.clipped(&[], Some(&key(10))), None);
}

/// Long lists have layers for readers of older moments.
#[test]
fn older_moments_are_answered_alike_in_long_lists() {
    for (seed, n) in [(1, 1_000), (2, 1_025), (3, 5_000), (4, 40_000)] {
        let mut rng = SmallRng::seed_from_u64(seed);
        let width = if seed % 2 == 0 { 40 } else { 3 };
        let mut all: Vec<RangeTombstone> = Vec::new();
        for seq in 1..=n {
            let start = rng.random_range(0..60_000);
            let end = start + rng.random_range(0..width);
            all.push(tombstone(start, end, seq));
        }
        let set = RangeTombstones::new(&all);
        for _ in 0..2_000 {
            let key = rng.random_range(0..60_100_u16).to_be_bytes();
            let snapshot = SeqNo(rng.random_range(0..=n));
            let expected = expected(&all, &key, snapshot);
            assert_eq!(set.covering(&key, snapshot), expected, "{n}");
        }
    }
}

/// A set of many takes little memory, and little more than what it is built of.
#[test]
fn many_tombstones_take_less_than_a_hundred_bytes_and_their_keys() {
    let mut rng = SmallRng::seed_from_u64(5);
    let (n, key) = (100_000, |n: u32| n.to_be_bytes());
    let bounds: Vec<_> = (0..n)
        .map(|_| [key(rng.random()), key(rng.random())])
        .collect();
    let refs = bounds.iter().enumerate().map(|(i, [a, b])| RangeRef {
        start: a.min(b),
        end: a.max(b),
        seq: SeqNo(i as u64 + 1),
    });
    let set = RangeTombstones::of(&refs.collect::<Vec<_>>());
    assert_eq!(set.len(), n as usize);
    let bytes = set.memory_bytes() / n as usize;
    assert!(bytes < 100 + 2 * size_of::<u32>(), "{bytes}");
}
