//! A transaction that has read much, and one that goes over its own writes.

use crate::figures::{Figures, Outcome};
use crate::small;
use crate::timetable::beside;
use clap::Args;
use std::path::Path;
use std::time::{Duration, Instant};
use unikv::{Db, Options};
use unikv_bench::Failure;
use unikv_bench::run::remove_store;

#[derive(Args, Clone)]
pub struct Sizes {
    /// Keys that a transaction reads before it commits
    #[arg(long, default_value_t = 3_000_000)]
    read: u64,
    /// Puts a second beside that transaction
    #[arg(long, default_value_t = 20_000)]
    beside_reads: u64,
    /// Puts of a transaction that takes its first key and deletes it, for each of them
    #[arg(long, default_value_t = 100_000)]
    own: u64,
}

pub fn round(dir: &Path, sizes: &Sizes) -> Outcome<Figures> {
    let mut figures = Figures::default();
    reads(&dir.join("db"), sizes, &mut figures)?;
    remove_store(&dir.join("db"))?;
    own_writes(&dir.join("db"), sizes.own, &mut figures)?;
    Ok(figures)
}

fn reads(path: &Path, sizes: &Sizes, figures: &mut Figures) -> Outcome<()> {
    // What is written until the commit is kept for the comparison.
    let options = Options::default().memory_budget(1 << 30);
    let db = Db::open(path, options).map_err(Failure::engine)?;
    small::load(&db, 0, sizes.read)?;
    db.compact().map_err(Failure::engine)?;
    let ran = beside(&db, sizes.beside_reads, || {
        let mut transaction = db.begin();
        for record in 0..sizes.read {
            let key = small::key(record);
            let found = transaction.get(key).map_err(Failure::engine)?;
            small::check(&key, found.as_deref())?;
        }
        let put = transaction.put("has read", "all");
        put.map_err(Failure::engine)?;
        let begin = Instant::now();
        transaction.commit().map_err(Failure::engine)?;
        Ok(begin.elapsed())
    })?;
    let what = format!("{} keys read", sizes.read);
    let longest = Some(Duration::from_millis(50));
    ran.add_to(figures, &what, longest, None);
    let commit = Some(Duration::from_secs(1));
    figures.time(format!("{what}: commit"), ran.result, commit);
    db.close().map(drop).map_err(Failure::engine)
}

fn own_writes(path: &Path, count: u64, figures: &mut Figures) -> Outcome<()> {
    let db = Db::open(path, Options::default()).map_err(Failure::engine)?;
    let begin = Instant::now();
    let mut transaction = db.begin();
    for key in (0..count).map(small::key) {
        let put = transaction.put(key, small::value(&key));
        put.map_err(Failure::engine)?;
    }
    let mut taken = 0;
    while let Some(first) = transaction.prefix("k").next() {
        let (key, value) = first.map_err(Failure::engine)?;
        let whole = key[..].try_into();
        let whole = whole.map_err(|_| Failure::verification("a key of another length"))?;
        small::check(&whole, Some(&value))?;
        transaction.delete(&key).map_err(Failure::engine)?;
        taken += 1;
    }
    let elapsed = begin.elapsed();
    if taken != count {
        return Err(Failure::verification(format!("{taken} of {count} puts")));
    }
    transaction.commit().map_err(Failure::engine)?;
    let what = format!("{count} own puts, the first taken and deleted for each");
    figures.time(what, elapsed, Some(Duration::from_secs(2)));
    db.close().map(drop).map_err(Failure::engine)
}
