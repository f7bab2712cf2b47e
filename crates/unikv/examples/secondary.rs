//! Reads a database that another process has open. Here both are one process.

use unikv::{Db, Options, SecondaryOptions};

fn main() -> unikv::Result<()> {
    let db = Db::open("secondary.db", Options::default())?;
    db.put("apple", "red")?;

    let secondary = Db::open_secondary("secondary.db", SecondaryOptions::default())?;
    db.put("apple", "green")?;
    assert_eq!(secondary.get("apple")?.as_deref(), Some(&b"red"[..]));
    secondary.refresh()?;
    assert_eq!(secondary.get("apple")?.as_deref(), Some(&b"green"[..]));
    println!("{} operations behind", secondary.stats().lag);
    drop(secondary);
    db.close()?;
    Ok(())
}
