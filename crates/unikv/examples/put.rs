//! Stores, overwrites and removes a value, and stores one that survives a power cut when the call
//! returns.

use unikv::{Db, Durability, Options};

fn main() -> unikv::Result<()> {
    let db = Db::open("put.db", Options::default())?;
    db.put("apple", "green")?;
    db.put("apple", "red")?;
    db.put_with("balance", 90_u64.to_be_bytes(), Durability::Sync)?;
    db.delete("banana")?; // Removing what is not there is no error.
    assert_eq!(db.get("apple")?.as_deref(), Some(&b"red"[..]));
    db.close()?;
    Ok(())
}
