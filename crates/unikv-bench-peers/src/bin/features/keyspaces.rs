//! Many small keyspaces, written in turns.

use crate::store::{Figures, Outcome, Scale, Store, check, key, value};
use std::path::Path;
use std::time::Instant;
use unikv_bench::Failure;
use unikv_bench::report::figures::rate;

const KEYSPACES: u64 = 1_000;
const RECORDS: u64 = 1_000;
const MEMORY_BYTES: u64 = 64 << 20;

/// Bytes that this process has given to the file system.
fn written_bytes() -> Outcome<u64> {
    let text = std::fs::read_to_string("/proc/self/io").map_err(Failure::Io)?;
    let line = text.lines().find_map(|line| line.strip_prefix("wchar: "));
    let bytes = line.and_then(|bytes| bytes.parse().ok());
    bytes.ok_or_else(|| Failure::invalid("/proc/self/io says nothing of wchar"))
}

fn load<S: Store>(dir: &Path, keyspaces: u64) -> Outcome<(f64, u64, String)> {
    let store = S::open(dir, MEMORY_BYTES, keyspaces as usize)?;
    let before = written_bytes()?;
    let begin = Instant::now();
    let all = KEYSPACES * RECORDS;
    for n in 0..all {
        store.put((n % keyspaces) as usize, &key(n), &value(n))?;
    }
    let elapsed = begin.elapsed();
    let bytes = written_bytes()? - before;
    for n in 0..all {
        let found = store.get((n % keyspaces) as usize, &key(n))?;
        check(n, found.as_deref())?;
    }
    Ok((elapsed.as_secs_f64(), bytes, rate(all, elapsed)))
}

/// A million records in 1,000 keyspaces beside the same in one, with 64 MiB of memory.
pub fn in_turns<S: Store>(dir: &Path, _scale: &Scale) -> Outcome<Figures> {
    let one = load::<S>(dir, 1)?;
    std::fs::remove_dir_all(dir).map_err(Failure::Io)?;
    let many = load::<S>(dir, KEYSPACES)?;
    let ratio = |a: f64, b: f64| format!("{:.2}", a / b);
    Ok(vec![
        ("puts, one keyspace".into(), one.2),
        ("puts, 1,000 keyspaces".into(), many.2),
        ("rate of many over that of one".into(), ratio(one.0, many.0)),
        (
            "bytes written, many over one".into(),
            ratio(many.1 as f64, one.1 as f64),
        ),
    ])
}
