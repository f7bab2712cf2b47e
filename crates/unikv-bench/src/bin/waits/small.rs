//! Records of nine bytes, and ranges of their keys.

use crate::figures::Outcome;
use unikv::{Batch, Db};
use unikv_bench::Failure;
use unikv_bench::workload::keys::mix;

/// Bits of a key after its first byte.
const BITS: u32 = 56;

/// The key of a record, which follows from its place in the key space.
pub fn key(record: u64) -> [u8; 8] {
    key_at(place(record))
}

fn place(record: u64) -> u64 {
    mix(record) >> (64 - BITS)
}

fn key_at(place: u64) -> [u8; 8] {
    let mut key = place.to_be_bytes();
    key[0] = b'k';
    key
}

/// The value under a key.
pub fn value(key: &[u8; 8]) -> [u8; 1] {
    [key[7] ^ key[6]]
}

/// Puts of records `0..count`.
pub fn batch(count: u64) -> Batch {
    let mut batch = Batch::new();
    for key in (0..count).map(key) {
        batch.put(key, value(&key));
    }
    batch
}

/// Writes records `from..until` one by one.
pub fn load(db: &Db, from: u64, until: u64) -> Outcome<()> {
    (from..until).map(key).try_for_each(|key| {
        let put = db.put(key, value(&key));
        put.map_err(Failure::engine)
    })
}

/// Fails if what was found under a key is not its value.
pub fn check(key: &[u8; 8], found: Option<&[u8]>) -> Outcome<()> {
    if found == Some(&value(key)[..]) {
        return Ok(());
    }
    Err(Failure::verification(format!("{key:?} reads {found:?}")))
}

/// Reads some of records `0..count`.
pub fn sample(db: &Db, count: u64) -> Outcome<()> {
    for n in 0..10_000.min(count) {
        let key = key(mix(n) % count);
        let found = db.get(key).map_err(Failure::engine)?;
        check(&key, found.as_deref())?;
    }
    Ok(())
}

/// Ranges drawn from the key space.
#[derive(Clone, Copy)]
pub struct Ranges {
    pub count: u64,
    /// The greatest share of the key space that one covers; from 1 on both ends are drawn anywhere.
    pub reach: f64,
}

impl Ranges {
    fn places(&self, n: u64) -> (u64, u64) {
        let (one, other) = (place(n ^ 0x5EED_0000_0000), place(n ^ 0xD1CE_0000_0000));
        if self.reach >= 1.0 {
            return (one.min(other), one.max(other));
        }
        let most = (1_u64 << BITS) - 1;
        let width = (other as f64 * self.reach) as u64;
        (one, most.min(one + width))
    }

    /// The nth, from its first key to one after its last.
    pub fn range(&self, n: u64) -> std::ops::Range<[u8; 8]> {
        let (from, until) = self.places(n);
        key_at(from)..key_at(until)
    }

    /// Deletes of all of them.
    pub fn batch(&self) -> Batch {
        let mut batch = Batch::new();
        for n in 0..self.count {
            batch.delete_range(self.range(n));
        }
        batch
    }

    /// What they cover together.
    pub fn union(&self) -> Union {
        let mut all: Vec<(u64, u64)> = (0..self.count).map(|n| self.places(n)).collect();
        all.sort_unstable();
        let mut pieces: Vec<(u64, u64)> = Vec::new();
        for (from, until) in all {
            match pieces.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(until),
                _ => pieces.push((from, until)),
            }
        }
        Union(pieces)
    }
}

/// Ranges in order that do not meet.
pub struct Union(Vec<(u64, u64)>);

impl Union {
    /// Whether a record's key lies in one.
    pub fn covers(&self, record: u64) -> bool {
        let place = place(record);
        let after = self.0.partition_point(|piece| piece.0 <= place);
        let before = after.checked_sub(1).and_then(|at| self.0.get(at));
        before.is_some_and(|piece| place < piece.1)
    }
}
