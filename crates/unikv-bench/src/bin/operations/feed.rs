//! The change feed at full speed.

use crate::records::{Figures, Outcome, Records, beside};
use crate::turns::{self, Setting};
use std::cell::RefCell;
use std::path::Path;
use std::time::{Duration, Instant};
use unikv::{ChangeKind, ChangeOp, ChangesOptions, Db, Options};
use unikv_bench::Failure;
use unikv_bench::run::remove_store;

const WINDOW: u64 = 1 << 30;
/// How long the reader waits for a change.
const PATIENCE: Duration = Duration::from_millis(100);

/// A writer without a window, with one, and with one that somebody reads; then the rate of a reader
/// that has all to catch up with.
pub fn run(dir: &Path, seconds: u64, rounds: usize) -> Outcome<Figures> {
    let records = Records {
        count: 1_000_000,
        bytes: 100,
    };
    let time = Duration::from_secs(seconds);
    let lags = RefCell::new(Vec::new());
    let measure = |window: u64, is_read: bool| -> Outcome<f64> {
        let path = dir.join("db");
        remove_store(&path)?;
        let options = Options::default().change_window_bytes(window);
        let db = Db::open(&path, options).map_err(Failure::engine)?;
        let (written, lag) = beside(&db, &records, None, || {
            if is_read {
                return read_for(&db, &records, time);
            }
            std::thread::sleep(time);
            Ok(0)
        })?;
        if is_read {
            lags.borrow_mut().push(lag);
        }
        db.close().map_err(Failure::engine)?;
        Ok(written.per_second())
    };
    let mut settings: Vec<Setting<'_>> = vec![
        ("a writer without a window", Box::new(|| measure(0, false))),
        (
            "with a window of 1 GiB",
            Box::new(|| measure(WINDOW, false)),
        ),
        (
            "with one that is read meanwhile",
            Box::new(|| measure(WINDOW, true)),
        ),
    ];
    let mut figures = turns::compare(rounds, "puts/s", &mut settings)?;
    drop(settings);
    let most = lags.borrow().iter().copied().max().unwrap_or(0);
    figures.push((
        "the most changes by which the reader lagged at the end".into(),
        most.to_string(),
    ));
    figures.push((
        "changes of a reader that catches up".into(),
        caught_up(dir, &records)?,
    ));
    Ok(figures)
}

/// Reads changes as they are made; gives by how many it lags at the end.
fn read_for(db: &Db, records: &Records, time: Duration) -> Outcome<u64> {
    let options = ChangesOptions::default().include_unsynced(true);
    let token = db.change_token().map_err(Failure::engine)?;
    let mut last = token.seq();
    let mut changes = db.changes_with(token, options).map_err(Failure::engine)?;
    let begin = Instant::now();
    while begin.elapsed() < time {
        let change = changes.next_timeout(PATIENCE).map_err(Failure::engine)?;
        if let Some(change) = change {
            last = checked(&change, records, last)?;
        }
    }
    Ok(db.change_token().map_err(Failure::engine)?.seq() - last)
}

/// A change must be the one after `last`; gives its number.
fn checked(change: &unikv::Change, records: &Records, last: u64) -> Outcome<u64> {
    let wrong = || Failure::verification(format!("{change:?} comes after {last}"));
    let ChangeKind::Write(ops) = &change.kind else {
        return Err(wrong());
    };
    for op in ops {
        let ChangeOp::Put { key, value, .. } = op else {
            return Err(wrong());
        };
        let record = unikv_bench::workload::keys::KeyOrder::Random.record(key);
        records.check(record.ok_or_else(wrong)?, Some(value))?;
    }
    if change.token.seq() == last + ops.len() as u64 {
        Ok(change.token.seq())
    } else {
        Err(wrong())
    }
}

/// The rate of a reader that has all that was written still to read.
fn caught_up(dir: &Path, records: &Records) -> Outcome<String> {
    let path = dir.join("db");
    remove_store(&path)?;
    let options = Options::default().change_window_bytes(WINDOW);
    let db = Db::open(&path, options).map_err(Failure::engine)?;
    let token = db.change_token().map_err(Failure::engine)?;
    records.load(&db)?;
    db.sync().map_err(Failure::engine)?;
    let mut changes = db.changes_since(token).map_err(Failure::engine)?;
    let (begin, mut last) = (Instant::now(), token.seq());
    while let Some(change) = changes.try_next().map_err(Failure::engine)? {
        last = checked(&change, records, last)?;
    }
    let elapsed = begin.elapsed();
    if last - token.seq() != records.count {
        return Err(Failure::verification("the feed ends early"));
    }
    db.close().map_err(Failure::engine)?;
    let rate = records.count as f64 / elapsed.as_secs_f64();
    Ok(format!("{:.0} k/s", rate / 1e3))
}
