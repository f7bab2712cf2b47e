//! Iterates over the keys with a prefix, the last one first.

use unikv::{Db, Options};

fn main() -> unikv::Result<()> {
    let db = Db::open("prefix.db", Options::default())?;
    for day in 1..=9 {
        db.put(format!("visit/2026-11-0{day}"), day.to_string())?;
    }
    db.put("user/ada", "first")?;

    let mut newest = Vec::new();
    for entry in db.prefix("visit/").rev().take(3) {
        let (key, value) = entry?;
        println!("{} {}", key.escape_ascii(), value.escape_ascii());
        newest.push(value);
    }
    assert_eq!(newest, ["9", "8", "7"]);
    db.close()?;
    Ok(())
}
