//! What reads may answer.

use crate::{Batch, Bytes, Db, Durability, Result};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Pairs of keys of each writer.
pub(super) const PAIRS: u64 = 3;

/// How far one writer is. Not seen by the checker: the notes are no part of the program.
#[derive(Debug, Default)]
struct Progress {
    begun: AtomicU64,
    acknowledged: AtomicU64,
    durable: AtomicU64,
}

/// The notes of all writers.
#[derive(Debug)]
pub(super) struct Oracle(Vec<Progress>);

/// What was found for one pair: the number of the write, if the keys are there.
pub(super) type Found = Option<u64>;

/// Of each writer, what may be seen.
pub(super) type Bounds = Vec<RangeInclusive<u64>>;

fn key(writer: usize, pair: u64, half: char) -> String {
    format!("{half}-{writer}-{pair}")
}

/// Long enough that a dozen of them fill a memtable; some go to files of their own.
fn value(number: u64) -> Vec<u8> {
    let len = match number % 7 {
        3 => 1500,
        n => 40 + 60 * n as usize,
    };
    let mut value = number.to_le_bytes().to_vec();
    value.resize(len, number as u8);
    value
}

fn number_of(bytes: &Bytes) -> u64 {
    let number = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    assert_eq!(&bytes[..], value(number), "bytes of another value");
    number
}

fn deletes(number: u64) -> bool {
    number.is_multiple_of(5)
}

/// The state of a pair after `number` writes of its writer.
fn after(number: u64, pair: u64) -> Found {
    let newest = (1..=number).rev().find(|n| n % PAIRS == pair)?;
    (!deletes(newest)).then_some(newest)
}

impl Oracle {
    pub(super) fn new(writers: usize) -> Oracle {
        Oracle((0..writers).map(|_| Progress::default()).collect())
    }

    /// The next write of `writer`; how it was done depends on its number.
    pub(super) fn write(&self, db: &Db, writer: usize) -> Result<()> {
        let progress = &self.0[writer];
        let number = progress.begun.fetch_add(1, SeqCst) + 1;
        let pair = number % PAIRS;
        let content = (!deletes(number)).then(|| value(number));
        let durable = number.is_multiple_of(2);
        if number % 11 == 10 {
            let entries =
                ['a', 'b'].map(|half| Result::Ok((key(writer, pair, half), content.clone())));
            db.ingest_sorted(entries, None)?;
        } else {
            let mut batch = Batch::new();
            for half in ['a', 'b'] {
                match &content {
                    Some(value) => batch.put(key(writer, pair, half), value),
                    None => batch.delete(key(writer, pair, half)),
                };
            }
            let durability = if durable {
                Durability::Sync
            } else {
                Durability::Buffered
            };
            db.write_with(&batch, durability)?;
        }
        if durable || number % 11 == 10 {
            progress.durable.fetch_max(number, SeqCst);
        }
        progress.acknowledged.store(number, SeqCst);
        Ok(())
    }

    /// Of each writer the number up to which writes are acknowledged.
    pub(super) fn acknowledged(&self) -> Vec<u64> {
        self.0.iter().map(|p| p.acknowledged.load(SeqCst)).collect()
    }

    /// What was acknowledged before a sync that has succeeded survives a power cut.
    pub(super) fn note_synced(&self, acknowledged: &[u64]) {
        for (progress, number) in self.0.iter().zip(acknowledged) {
            progress.durable.fetch_max(*number, SeqCst);
        }
    }

    /// Of each writer the number up to which writes survive a power cut.
    pub(super) fn durable(&self) -> Vec<u64> {
        self.0.iter().map(|p| p.durable.load(SeqCst)).collect()
    }

    /// What may be seen now by a reader that may not see less than `least`.
    pub(super) fn bounds(&self, least: Vec<u64>) -> Bounds {
        let begun = self.0.iter().map(|p| p.begun.load(SeqCst));
        least.into_iter().zip(begun).map(|(a, b)| a..=b).collect()
    }

    /// Reads one key of a pair and checks the answer.
    pub(super) fn check_get(&self, db: &Db, writer: usize, pair: u64) -> Result<()> {
        let least = self.acknowledged();
        let found = db.get(key(writer, pair, 'a'))?.map(|v| number_of(&v));
        let bounds = self.bounds(least)[writer].clone();
        let possible = bounds.clone().any(|n| after(n, pair) == found);
        assert!(
            possible,
            "writer {writer}, pair {pair}: {found:?} within {bounds:?}"
        );
        Ok(())
    }

    /// Checks a moment: pairs in the order of writers and pairs, each with both halves.
    pub(super) fn check_moment(&self, moment: &[[Found; 2]], bounds: &Bounds) {
        for (writer, pairs) in moment.chunks(PAIRS as usize).enumerate() {
            let shown = |n: &u64| (0..PAIRS).all(|p| pairs[p as usize] == [after(*n, p); 2]);
            let possible = bounds[writer].clone().find(shown);
            let within = &bounds[writer];
            assert!(
                possible.is_some(),
                "writer {writer}: {pairs:?} within {within:?}"
            );
        }
    }

    fn keys(&self) -> Vec<String> {
        let pairs = (0..self.0.len()).flat_map(|w| (0..PAIRS).map(move |p| (w, p)));
        pairs
            .flat_map(|(w, p)| ['a', 'b'].map(|half| key(w, p, half)))
            .collect()
    }

    /// The moment that `read` shows, which is asked for all keys in order.
    pub(super) fn moment(
        &self,
        read: impl FnOnce(Vec<String>) -> Result<Vec<Option<Bytes>>>,
    ) -> Result<Vec<[Found; 2]>> {
        let values = read(self.keys())?;
        let numbers: Vec<Found> = values.iter().map(|v| v.as_ref().map(number_of)).collect();
        Ok(numbers.chunks(2).map(|pair| [pair[0], pair[1]]).collect())
    }

    /// The moment that an iterator shows; `met` is called after each entry.
    pub(super) fn moment_of_iter(
        &self,
        iter: impl Iterator<Item = Result<(Bytes, Bytes)>>,
        mut met: impl FnMut(),
    ) -> Result<Vec<[Found; 2]>> {
        let mut found = std::collections::BTreeMap::new();
        for entry in iter {
            let (key, value) = entry?;
            let twice = found.insert(key.to_vec(), value);
            assert!(twice.is_none(), "a key was met twice");
            met();
        }
        self.moment(|keys| Ok(keys.iter().map(|k| found.remove(k.as_bytes())).collect()))
    }
}
