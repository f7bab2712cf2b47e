//! Transactions: with a share of conflicts, and many threads on one key.

use crate::store::{Figures, Outcome, Scale, Store, key};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use unikv_bench::Failure;
use unikv_bench::report::figures::{millis, rate};

const TRANSACTIONS: u64 = 200_000;
const THREADS: usize = 16;
const KEYS: u64 = 100_000;
const RUN: Duration = Duration::from_secs(10);

/// The counter in a value, plus one.
fn increment(found: Option<&[u8]>) -> Vec<u8> {
    let count = found.and_then(|bytes| bytes.try_into().ok());
    (count.map_or(0, u64::from_le_bytes) + 1)
        .to_le_bytes()
        .to_vec()
}

fn count<S: Store>(store: &S, key: &[u8]) -> Outcome<u64> {
    let found = store.get(0, key)?;
    let bytes = found.and_then(|bytes| bytes.try_into().ok());
    Ok(bytes.map_or(0, u64::from_le_bytes))
}

/// One thread. Of a hundred transactions as many as are named find that their key was written
/// between their read and their commit.
pub fn conflicts<S: Store>(dir: &Path, scale: &Scale) -> Outcome<Figures> {
    let store = S::open(dir, scale.memory_bytes, 1)?;
    let mut figures = Figures::new();
    for percent in [0, 10, 50] {
        let begin = Instant::now();
        let mut committed = 0;
        for n in 0..TRANSACTIONS {
            let key = key(n % KEYS);
            let meets_another = n * 37 % 100 < percent;
            let meanwhile = || {
                if meets_another {
                    store.put(0, &key, &0_u64.to_le_bytes())
                } else {
                    Ok(())
                }
            };
            let is_committed = store.transact(&key, &meanwhile, &increment)?;
            if is_committed == meets_another {
                let what = format!("transaction {n}: committed {is_committed}");
                return Err(Failure::verification(what));
            }
            committed += u64::from(is_committed);
        }
        let what = format!("committed, {percent} % conflicts");
        figures.push((what, rate(committed, begin.elapsed())));
    }
    Ok(figures)
}

/// Each of 16 threads increments one counter for ten seconds.
pub fn one_key<S: Store>(dir: &Path, scale: &Scale) -> Outcome<Figures> {
    let store = S::open(dir, scale.memory_bytes, 1)?;
    let key = key(0);
    let is_over = AtomicBool::new(false);
    let begin = Instant::now();
    let work = || -> Outcome<(u64, Duration)> {
        let (mut done, mut longest) = (0, Duration::ZERO);
        while !is_over.load(Ordering::Relaxed) {
            let begin = Instant::now();
            store.transact_until(&key, &increment)?;
            longest = longest.max(begin.elapsed());
            done += 1;
        }
        Ok((done, longest))
    };
    let each: Vec<(u64, Duration)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        std::thread::sleep(RUN);
        is_over.store(true, Ordering::Relaxed);
        let died = || Failure::invalid("a thread has panicked");
        let joined = threads.into_iter().map(|t| t.join().map_err(|_| died())?);
        joined.collect::<Outcome<_>>()
    })?;
    let elapsed = begin.elapsed();
    let all: u64 = each.iter().map(|(done, _)| done).sum();
    if count(&store, &key)? != all {
        return Err(Failure::verification("an increment was lost"));
    }
    let done = || each.iter().map(|(done, _)| *done);
    let (least, most) = (done().min().unwrap_or(0), done().max().unwrap_or(0));
    let longest = each.iter().map(|(_, longest)| *longest).max();
    Ok(vec![
        (
            "increments of one key, 16 threads".into(),
            rate(all, elapsed),
        ),
        (
            "least and most of a thread".into(),
            format!("{least}, {most}"),
        ),
        (
            "longest increment".into(),
            millis(longest.unwrap_or_default()),
        ),
    ])
}
