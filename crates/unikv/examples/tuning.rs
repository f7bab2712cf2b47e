//! Gives the database more memory, or less, and sizes of its own to its parts.

use unikv::{Compression, Db, Options, StoredOption, Tuning};

fn main() -> unikv::Result<()> {
    // One number for memtables, indexes, buffers and the read cache; the rest follows from it.
    let options = Options::default()
        .memory_budget(64 << 20)
        .compression(Compression::Lz4);
    let db = Db::open("tuning.db", options)?;
    println!("memtables of {} bytes", db.options().memtable_bytes);
    println!("{}", db.stats().memory);
    db.close()?;

    // What was set is stored, and holds until it is set again or forgotten.
    let threads = Tuning::default().background_threads(4);
    let db = Db::open("tuning.db", Options::default().tuning(threads))?;
    assert_eq!(db.options().memory_budget, 64 << 20);
    db.close()?;
    let forget = Options::default().unset(StoredOption::MemoryBudget);
    let db = Db::open("tuning.db", forget)?;
    assert_eq!(db.options().memory_budget, 256 << 20);
    db.close()?;
    Ok(())
}
