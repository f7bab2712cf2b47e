//! Keys that collide: their hashes are equal in all 64 bits, so that the hash index has one tag, in
//! the same buckets, for all of them.
//!
//! A client that does not know a database's secret seed cannot choose such keys. A simulation knows
//! it, for it is drawn from a seeded runtime. XXH3 then is easy to lead: of 32 or 64 bytes, the
//! last 16 add to a sum the product of two factors, each a half of them and of the secret. With the
//! first half the one factor is made 1, with the second the sum is made what is wanted. So any
//! beginning of 16 or 48 bytes can be completed, and the engine under test is the ordinary one.

use crate::history::Key;
use rand::Rng;
use rand::rngs::SmallRng;
use unikv::vfs::Runtime;
use unikv::vfs::sim::SimRuntime;

/// The first words of XXH3's own secret.
const SECRET: [u64; 8] = [
    0xbe4b_a423_396c_feb8,
    0x1cad_21f7_2c81_017c,
    0xdb97_9083_e96d_d4de,
    0x1f67_b3b7_a4a4_4072,
    0x78e5_c0cc_4ee6_79cb,
    0x2172_ffcc_7dd0_5a82,
    0x8e24_43f7_7446_08b8,
    0x4c26_3a81_e690_35e0,
];
/// What XXH3 multiplies the length by.
const PRIME: u64 = 0x9e37_79b1_85eb_ca87;
/// The sums that the keys of a history have: most the first.
const SUMS: [u64; 2] = [1, 2];

/// What stands before each key inside of the engine: its keyspace.
const KEYSPACE: [u8; 4] = [0; 4];
/// Keys of this length and below are made longer ones.
const MOST_STEM: usize = 12;
/// What a key is filled up with to its beginning of full length.
const FILLER: u8 = b'.';

/// Whether the history of a seed is about such keys: a quarter are, whatever else the last bits of
/// a seed decide.
pub fn is_about(seed: u64) -> bool {
    seed / 4 % 4 == 3
}

/// The seed of the hash in a database that a runtime of this seed creates.
pub fn hash_seed(runtime_seed: u64) -> u64 {
    let runtime = SimRuntime::new(runtime_seed);
    // The database's identifier is drawn first.
    let [_, _, drawn] = [(); 3].map(|()| runtime.random_u64());
    drawn
}

/// Makes `keys` collide. The first `spared` stay as they are, and so do long ones; each of the
/// others becomes the beginning of one that collides. Some of these begin others that collide with
/// them.
pub fn make(keys: &mut Vec<Key>, spared: usize, hash_seed: u64, rng: &mut SmallRng) {
    let mut longer = Vec::new();
    for key in keys.iter_mut().skip(spared) {
        if key.len() > MOST_STEM {
            continue;
        }
        let sum = SUMS[usize::from(rng.random_ratio(1, 5))];
        key.0.resize(MOST_STEM, FILLER);
        complete(&mut key.0, hash_seed, sum);
        if rng.random_ratio(1, 4) {
            let mut stem = key.clone();
            stem.0.resize(MOST_STEM + 32, FILLER);
            complete(&mut stem.0, hash_seed, sum);
            longer.push(stem);
        }
    }
    keys.append(&mut longer);
}

/// Completes the beginning of a key, of 12 or 44 bytes, so that the hash comes of `sum`.
fn complete(stem: &mut Vec<u8>, hash_seed: u64, sum: u64) {
    stem.splice(..0, KEYSPACE);
    let len = stem.len() + 16;
    assert!(matches!(len, 32 | 64), "a beginning of 12 or 44 bytes");
    let mut rest = (len as u64).wrapping_mul(PRIME);
    // The last of four chunks of 16 bytes stands where the second of the secret does.
    for (chunk, secret) in stem.chunks(16).zip([0, 4, 6]) {
        rest = rest.wrapping_add(product(factors(chunk, secret, hash_seed)));
    }
    let zeros = factors(&[0; 16], 2, hash_seed);
    stem.extend_from_slice(&(zeros[0] ^ 1).to_le_bytes());
    stem.extend_from_slice(&(zeros[1] ^ sum.wrapping_sub(rest)).to_le_bytes());
    stem.drain(..KEYSPACE.len());
}

/// What a chunk of 16 bytes is multiplied of; `secret` is the word of the secret at which it
/// stands.
fn factors(chunk: &[u8], secret: usize, hash_seed: u64) -> [u64; 2] {
    let word = |at: usize| {
        let bytes = chunk[at..].first_chunk().expect("two words of 8 bytes");
        u64::from_le_bytes(*bytes)
    };
    [
        word(0) ^ SECRET[secret].wrapping_add(hash_seed),
        word(8) ^ SECRET[secret + 1].wrapping_sub(hash_seed),
    ]
}

/// The halves of the product, one over the other.
fn product([a, b]: [u64; 2]) -> u64 {
    let whole = u128::from(a) * u128::from(b);
    whole as u64 ^ (whole >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::{DIR, env};
    use rand::SeedableRng;
    use std::sync::Arc;
    use unikv::vfs::sim::SimVfs;
    use unikv::{Db, Options};

    /// 20 keys of 28 bytes, and some of 60, of one sum; ascending.
    fn keys(seed: u64) -> Vec<Vec<u8>> {
        let mut keys = Vec::new();
        for n in 0..20u8 {
            let mut key = vec![n; MOST_STEM];
            complete(&mut key, hash_seed(seed), 7);
            if n % 4 == 0 {
                let mut longer = key.clone();
                longer.resize(MOST_STEM + 32, n);
                complete(&mut longer, hash_seed(seed), 7);
                keys.push(longer);
            }
            keys.push(key);
        }
        keys.sort();
        keys
    }

    fn open(vfs: &SimVfs, seed: u64) -> (Db, Arc<SimRuntime>) {
        let runtime = SimRuntime::new(seed);
        let options = Options::default();
        let db = Db::open(DIR, options.env(env(vfs, &runtime))).unwrap();
        (db, runtime)
    }

    /// Every `get` goes past all records before its own, in the index that a flush made and in
    /// the one that an opening made.
    #[test]
    fn keys_made_so_have_one_tag_in_one_bucket() {
        let (seed, vfs) = (5, SimVfs::new());
        let keys = keys(seed);
        let (db, _runtime) = open(&vfs, seed);
        for (n, key) in keys.iter().enumerate() {
            db.put(key, [n as u8; 50]).unwrap();
        }
        db.flush().unwrap();
        let all_are_right = |db: &Db| {
            for (n, key) in keys.iter().enumerate() {
                assert_eq!(db.get(key).unwrap().as_deref(), Some(&[n as u8; 50][..]));
            }
            let passed = keys.len() * (keys.len() - 1) / 2;
            assert_eq!(db.stats().index_failed_comparisons, passed as u64);
        };
        all_are_right(&db);
        db.close().unwrap();
        let (db, _runtime) = open(&vfs, 6);
        assert_eq!(db.recovery().index_records, keys.len() as u64);
        all_are_right(&db);
    }

    #[test]
    fn keys_of_a_history_are_completed_and_some_begin_others() {
        let mut rng = SmallRng::seed_from_u64(1);
        let drawn: Vec<Key> = (0..40u8).map(|n| Key(vec![n; 8])).collect();
        let mut keys = drawn.clone();
        make(&mut keys, 10, 99, &mut rng);
        assert_eq!(keys[..10], drawn[..10]);
        assert!(keys[10..40].iter().all(|key| key.len() == 28));
        let begun = |long: &Key| keys[10..40].iter().any(|key| long.starts_with(key));
        assert!(keys.len() > 42 && keys[40..].iter().all(begun));
    }
}
