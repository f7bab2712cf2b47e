//! Writes several keys at once: after a crash all of them are there, or none.

use unikv::{Batch, Db, Durability, Options};

fn main() -> unikv::Result<()> {
    let db = Db::open("batch.db", Options::default())?;
    let mut batch = Batch::new();
    batch.put("account/ada", "80").put("account/bob", "20");
    batch.delete("pending/transfer");
    db.write_with(&batch, Durability::Sync)?;

    // Pairs make a batch, too.
    let more: Batch = [("color/apple", "red"), ("color/banana", "yellow")]
        .into_iter()
        .collect();
    db.write(&more)?;
    assert_eq!(db.prefix("color/").count(), 2);
    db.close()?;
    Ok(())
}
