//! Reads the database as it was at one moment, while it changes.

use unikv::{Db, Options};

fn main() -> unikv::Result<()> {
    let db = Db::open("snapshot.db", Options::default())?;
    db.put("apple", "red")?;
    let before = db.snapshot();
    db.put("apple", "green")?;
    db.put("banana", "yellow")?;

    assert_eq!(before.get("apple")?.as_deref(), Some(&b"red"[..]));
    assert_eq!(db.get("apple")?.as_deref(), Some(&b"green"[..]));
    println!("{} then, {} now", before.iter().count(), db.iter().count());
    // What it sees stays on disk as long as it lives.
    drop(before);
    db.close()?;
    Ok(())
}
