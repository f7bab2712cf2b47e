//! Loads sorted records: no log, no memtable, and all of them appear at once.

use unikv::{Db, Options};

fn main() -> unikv::Result<()> {
    let db = Db::open("bulk.db", Options::default())?;
    let mut ingest = db.ingest()?;
    for n in 0..100_000_u32 {
        ingest.put(format!("key{n:08}"), format!("value {n}"))?;
    }
    let records = ingest.commit()?;
    println!("{records} records");

    // What is not sorted goes in by batches.
    for chunk in ["pear", "apple", "fig"].chunks(2) {
        db.write(&chunk.iter().map(|key| (key, "fruit")).collect())?;
    }
    assert_eq!(db.keys(..).count(), 100_003);
    db.close()?;
    Ok(())
}
