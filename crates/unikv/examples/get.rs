//! Reads values: one, several at once, a part of one, or only whether it is there.

use unikv::{Db, Options};

fn main() -> unikv::Result<()> {
    let db = Db::open("get.db", Options::default())?;
    db.put("apple", "red")?;
    db.put("banana", "yellow")?;

    if let Some(value) = db.get("apple")? {
        println!("an apple is {}", String::from_utf8_lossy(&value));
    }
    assert!(db.contains_key("banana")? && !db.contains_key("cherry")?);
    let values = db.multi_get(["apple", "cherry"])?;
    assert!(values[0].is_some() && values[1].is_none());
    assert_eq!(db.get_range("banana", 0..3)?.as_deref(), Some(&b"yel"[..]));
    // Without a copy for the caller:
    assert_eq!(db.with_value("banana", |value| value.len())?, Some(6));
    db.close()?;
    Ok(())
}
