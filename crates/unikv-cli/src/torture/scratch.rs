//! Keyspaces of a thread's own, which it makes, fills, empties in part, and drops: large batches,
//! batches of many range deletes, transactions that read everything, and churn of keyspaces.
//!
//! What they hold is known to their thread alone, and not to the oracle: after a kill the next run
//! drops them.

use crate::exit::Failure;
use crate::torture::worker::Counts;
use rand::Rng;
use rand::rngs::SmallRng;
use std::collections::{BTreeMap, VecDeque};
use unikv::{Batch, Bytes, Db, ErrorKind, Keyspace, KeyspaceOptions};

/// What an entry takes on the disk, at most.
const ENTRY_BYTES: u64 = 100;
/// Keyspaces that stay for later rounds.
const KEPT: usize = 4;
/// Puts of one batch, and range deletes of one.
const MOST_PUTS: u32 = 50_000;
const MOST_RANGES: u32 = 8_000;
/// Number of different keys.
const KEYS: u32 = 100_000;
/// Keys that are read after a batch.
const SAMPLES: usize = 50;
const PREFIX: &str = "scratch ";

type Model = BTreeMap<u32, u64>;

/// A keyspace, and what it holds.
struct Space {
    keyspace: Keyspace,
    model: Model,
}

/// The keyspaces of one thread.
pub struct Scratch {
    thread: u64,
    rounds: u64,
    stamp: u64,
    kept: VecDeque<Space>,
}

/// Drops what a run before has left.
pub fn drop_all(db: &Db) -> Result<(), Failure> {
    for name in db.keyspaces() {
        if let Some(keyspace) = db.find_keyspace(&name).filter(|_| name.starts_with(PREFIX)) {
            keyspace.drop_keyspace()?;
        }
    }
    Ok(())
}

impl Scratch {
    pub fn new(thread: u64) -> Scratch {
        Scratch {
            thread,
            rounds: 0,
            stamp: 0,
            kept: VecDeque::new(),
        }
    }

    /// Makes a keyspace and works in it, and drops the oldest one.
    pub fn round(&mut self, db: &Db, rng: &mut SmallRng, counts: &Counts) -> Result<(), Failure> {
        let name = format!("{PREFIX}{} {}", self.thread, self.rounds);
        self.rounds += 1;
        let mut space = Space {
            keyspace: db.keyspace(&name, KeyspaceOptions::default())?,
            model: Model::new(),
        };
        for ranges in [0, some_of(rng, MOST_RANGES)] {
            let batch = self.batch(&mut space, rng, ranges);
            counts.add_written(batch.byte_len() as u64);
            db.write(&batch)?;
        }
        space.sample(rng)?;
        self.transaction(db, &mut space, rng)?;
        space.verify(rng.random())?;
        self.kept.push_back(space);
        let entries: usize = self.kept.iter().map(|space| space.model.len()).sum();
        counts.note_scratch(entries as u64 * ENTRY_BYTES);
        if self.kept.len() > KEPT {
            self.kept.pop_front().map_or(Ok(()), Space::end)
        } else {
            Ok(())
        }
    }

    /// Compares and drops all.
    pub fn end(&mut self) -> Result<(), Failure> {
        self.kept.drain(..).try_for_each(Space::end)
    }

    /// A batch of range deletes, and of puts and deletes after them; the model is as after it.
    fn batch(&mut self, space: &mut Space, rng: &mut SmallRng, ranges: u32) -> Batch {
        let (keyspace, model) = (&space.keyspace, &mut space.model);
        let mut batch = Batch::new();
        for _ in 0..ranges {
            let start = rng.random_range(0..KEYS);
            let end = start + rng.random_range(1..6);
            batch.delete_range_in(keyspace, key(start)..key(end));
            let gone: Vec<u32> = model.range(start..end).map(|(n, _)| *n).collect();
            for n in gone {
                model.remove(&n);
            }
        }
        for _ in 0..some_of(rng, MOST_PUTS) {
            let n = rng.random_range(0..KEYS);
            if rng.random_range(0..8) == 0 {
                batch.delete_in(keyspace, key(n));
                model.remove(&n);
            } else {
                self.stamp += 1;
                batch.put_in(keyspace, key(n), value(n, self.stamp));
                model.insert(n, self.stamp);
            }
        }
        batch
    }

    /// A transaction that reads all, takes the first keys, and puts others.
    fn transaction(
        &mut self,
        db: &Db,
        space: &mut Space,
        rng: &mut SmallRng,
    ) -> Result<(), Failure> {
        let (keyspace, mut model) = (&space.keyspace, space.model.clone());
        let mut transaction = db.begin();
        let mut read = 0;
        for entry in transaction.keyspace(keyspace).iter() {
            entry?;
            read += 1;
        }
        expect("entries that a transaction reads", read, model.len())?;
        for _ in 0..some_of(rng, 2_000) {
            let first = transaction.keyspace(keyspace).iter().next().transpose()?;
            let known = model.pop_first().map(|(n, _)| key(n));
            let found = first.map(|(key, _)| key.to_vec());
            expect(
                "the first key",
                found.as_deref(),
                known.as_ref().map(|k| &k[..]),
            )?;
            match known {
                Some(key) => transaction.delete_in(keyspace, key)?,
                None => break,
            }
            if rng.random() {
                let n = rng.random_range(0..KEYS);
                self.stamp += 1;
                transaction.put_in(keyspace, key(n), value(n, self.stamp))?;
                model.insert(n, self.stamp);
            }
        }
        match transaction.commit() {
            Ok(()) => space.model = model,
            // What it has read may have become coarse. Then nothing was written.
            Err(error) if error.kind() == ErrorKind::Conflict => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

impl Space {
    fn sample(&self, rng: &mut SmallRng) -> Result<(), Failure> {
        for _ in 0..SAMPLES {
            let n = rng.random_range(0..KEYS);
            let found = self.keyspace.get(key(n))?;
            let known = self.model.get(&n).map(|stamp| value(n, *stamp));
            expect("a get", found, known.map(Bytes::from))?;
        }
        Ok(())
    }

    fn verify(&self, backwards: bool) -> Result<(), Failure> {
        let mut known = self.model.iter();
        let mut entries = self.keyspace.iter();
        loop {
            let (known, found) = if backwards {
                (known.next_back(), entries.next_back())
            } else {
                (known.next(), entries.next())
            };
            let known = known.map(|(n, stamp)| (key(*n).to_vec(), value(*n, *stamp)));
            let found = found.transpose()?;
            let found = found.map(|(key, value)| (key.to_vec(), value.to_vec()));
            expect("a scan", &found, &known)?;
            if known.is_none() {
                return Ok(());
            }
        }
    }

    fn end(self) -> Result<(), Failure> {
        self.verify(false)?;
        self.keyspace.drop_keyspace()?;
        match self.keyspace.get(key(0)) {
            Err(error) if error.kind() == ErrorKind::NoSuchKeyspace => Ok(()),
            other => Err(Failure::verification(format!(
                "a get after a drop: {other:?}"
            ))),
        }
    }
}

/// A number up to the greatest, each order of magnitude equally often.
fn some_of(rng: &mut SmallRng, most: u32) -> u32 {
    let digits = rng.random_range(0.0..f64::from(most).log10());
    10_f64.powf(digits) as u32
}

fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

fn value(n: u32, stamp: u64) -> Vec<u8> {
    let len = (stamp % 5) as usize;
    [
        &n.to_be_bytes()[..],
        &stamp.to_be_bytes(),
        &[0x5a; 40][..8 * len],
    ]
    .concat()
}

fn expect<T: PartialEq + std::fmt::Debug>(what: &str, found: T, known: T) -> Result<(), Failure> {
    if found == known {
        return Ok(());
    }
    let what = format!("a keyspace of one thread: {what}: {known:?}; found {found:?}");
    Err(Failure::verification(what))
}
