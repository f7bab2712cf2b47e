//! Keeps several spaces of keys in one database, and writes to two of them at once.

use unikv::{Batch, Compression, Db, KeyspaceOptions, Options};

fn main() -> unikv::Result<()> {
    let db = Db::open("keyspaces.db", Options::default())?;
    let users = db.keyspace("users", KeyspaceOptions::default())?;
    let pages = KeyspaceOptions::default().compression(Compression::Zstd { level: 3 });
    let pages = db.keyspace("pages", pages)?;

    users.put("ada", "1815")?;
    pages.put("ada", "<html>")?;
    let mut both = Batch::new();
    both.put_in(&users, "bob", "1916")
        .put_in(&pages, "bob", "<html>");
    db.write(&both)?;

    for name in db.keyspaces() {
        println!("{name}");
    }
    assert_eq!((users.iter().count(), pages.iter().count()), (2, 2));
    pages.drop_keyspace()?;
    db.close()?;
    Ok(())
}
