//! Range deletes, point deletes, and a queue.

use crate::store::{Figures, Outcome, Scale, Store, check, key, number, value};
use std::path::Path;
use std::time::{Duration, Instant};
use unikv_bench::Failure;
use unikv_bench::report::figures::{millis, rate};

/// A generator of numbers below `n`.
fn numbers(n: u64) -> impl Iterator<Item = u64> {
    let mut state = 88_172_645_463_325_252_u64;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % n
    })
}

fn load<S: Store>(store: &S, records: u64) -> Outcome<()> {
    (0..records).try_for_each(|n| store.put(0, &key(n), &value(n)))
}

/// The records from `from` on, of which the first is expected to be `first`.
fn scan<S: Store>(store: &S, from: u64, first: Option<u64>, limit: usize) -> Outcome<Duration> {
    let begin = Instant::now();
    let (mut found, mut next) = (0, first);
    store.scan(&key(from), limit, &mut |key, value| {
        let n = number(key)?;
        if next.take_if(|next| *next != n).is_some() || (first.is_none() && found == 0) {
            return Err(Failure::verification(format!("key {n} comes first")));
        }
        (next, found) = (None, found + 1);
        check(n, Some(value))
    })?;
    if first.is_some() == (found > 0) {
        Ok(begin.elapsed())
    } else {
        Err(Failure::verification("records are missing"))
    }
}

/// The mean times of a get and of a scan of 50, the best of five rounds.
fn reads<S: Store>(
    store: &S,
    from: u64,
    n: u64,
    is_deleted: impl Fn(u64) -> bool,
) -> Outcome<(f64, f64)> {
    const GETS: u32 = 50_000;
    const SCANS: u32 = 5_000;
    let mut best = (f64::MAX, f64::MAX);
    for _ in 0..5 {
        let begin = Instant::now();
        for n in numbers(n).take(GETS as usize) {
            let found = store.get(0, &key(from + n))?;
            if found.is_some() || !is_deleted(from + n) {
                check(from + n, found.as_deref())?;
            }
        }
        best.0 = best.0.min(begin.elapsed().as_secs_f64() / f64::from(GETS));
        let begin = Instant::now();
        for n in numbers(n).take(SCANS as usize) {
            let first = (from + n..).find(|n| !is_deleted(*n));
            scan(store, from + n, first, 50)?;
        }
        best.1 = best.1.min(begin.elapsed().as_secs_f64() / f64::from(SCANS));
    }
    Ok(best)
}

/// 100,000 range deletes in one half of the records; reads in the other and there.
pub fn ranges<S: Store>(dir: &Path, scale: &Scale) -> Outcome<Figures> {
    const RANGES: u64 = 100_000;
    if !S::DELETES_RANGES {
        return Ok(Figures::new());
    }
    let store = S::open(dir, scale.memory_bytes, 1)?;
    load(&store, scale.records)?;
    store.compact()?;
    let half = scale.records / 2;
    let step = half / RANGES;
    let is_deleted = |n: u64| n >= half && (n - half) % step < step / 3;
    let none = |_| false;
    let mut figures = Figures::new();
    let without = reads(&store, 0, half - 100, none)?;
    // Whatever has been written lately is one more place to look at.
    for at in (half..half + RANGES * step).step_by(step as usize) {
        store.put(0, &key(at), &value(at))?;
    }
    let with_puts = reads(&store, 0, half - 100, none)?;
    store.compact()?;
    let begin = Instant::now();
    for at in (half..half + RANGES * step).step_by(step as usize) {
        store.delete_range(&key(at), &key(at + step / 3))?;
    }
    figures.push(("100,000 range deletes".into(), millis(begin.elapsed())));
    let mut note = |what: &str, (get, scan): (f64, f64)| {
        let ratio = |now: f64, before: f64| format!("{:.1} µs, × {:.2}", now * 1e6, now / before);
        figures.push((format!("get, {what}"), ratio(get, without.0)));
        figures.push((format!("scan of 50, {what}"), ratio(scan, without.1)));
    };
    note("without range deletes", without);
    note("100,000 puts are elsewhere", with_puts);
    note("they are elsewhere", reads(&store, 0, half - 100, none)?);
    note("they overlap", reads(&store, half, half - 200, is_deleted)?);
    let begin = Instant::now();
    store.delete_range(&key(1000), &key(half - 1000))?;
    figures.push((
        "one over half of the records".into(),
        millis(begin.elapsed()),
    ));
    let over = scan(&store, 1000, Some(half - 1000), 1)?;
    figures.push(("first record after it".into(), millis(over)));
    Ok(figures)
}

/// All records but the last are deleted one by one.
pub fn points<S: Store>(dir: &Path, scale: &Scale) -> Outcome<Figures> {
    let store = S::open(dir, scale.memory_bytes, 1)?;
    load(&store, scale.records)?;
    let last = scale.records - 1;
    let begin = Instant::now();
    (0..last).try_for_each(|n| store.delete(&key(n)))?;
    let deletes = rate(last, begin.elapsed());
    let at_once = scan(&store, 0, Some(last), 1)?;
    let again = scan(&store, 0, Some(last), 1)?;
    scale.idle();
    let after = scan(&store, 0, Some(last), 1)?;
    Ok(vec![
        ("deletes".into(), deletes),
        ("scan over the deleted, at once".into(), millis(at_once)),
        ("the same again".into(), millis(again)),
        (
            format!("after {} s without a write", scale.idle_seconds),
            millis(after),
        ),
    ])
}

/// Entries are appended, then each is taken from the front with a new iterator and another one
/// appended, until as many have been taken as there were.
pub fn queue<S: Store>(dir: &Path, scale: &Scale) -> Outcome<Figures> {
    let store = S::open(dir, scale.memory_bytes, 1)?;
    load(&store, scale.records)?;
    let tenth = scale.records / 10;
    let mut figures = Figures::new();
    let mut times = Vec::new();
    // A slow engine is given this long for each tenth.
    const MOST: Duration = Duration::from_secs(60);
    'all: for part in 0..10 {
        let begin = Instant::now();
        for n in part * tenth..(part + 1) * tenth {
            let mut first = None;
            store.scan(b"key", 1, &mut |key, value| {
                first = Some(number(key)?);
                check(n, Some(value))
            })?;
            if first != Some(n) {
                return Err(Failure::verification(format!(
                    "{first:?} is first, not {n}"
                )));
            }
            store.delete(&key(n))?;
            store.put(0, &key(n + scale.records), &value(n + scale.records))?;
            if n % 100 == 0 && begin.elapsed() > MOST {
                times.push((n - part * tenth, begin.elapsed()));
                break 'all;
            }
        }
        times.push((tenth, begin.elapsed()));
    }
    let rated = |part: Option<&(u64, Duration)>| part.map(|(n, elapsed)| rate(*n, *elapsed));
    figures.extend(rated(times.first()).map(|rate| ("taken, first tenth".into(), rate)));
    figures.extend(rated(times.get(9)).map(|rate| ("taken, last tenth".into(), rate)));
    if times.len() < 10 {
        let (n, elapsed) = times.last().copied().unwrap_or_default();
        figures.push(("given up in tenth".into(), times.len().to_string()));
        figures.push(("taken there".into(), rate(n, elapsed)));
    }
    Ok(figures)
}
