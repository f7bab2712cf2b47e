//! A database for tests: in memory, and gone when it is closed.

use unikv::{Db, Options, Readable};

/// What is tested: it reads from a database, a keyspace, a snapshot or a transaction.
fn names(from: &dyn Readable) -> unikv::Result<Vec<String>> {
    let keys = from.keys(&("user/".."user0"));
    keys.map(|key| Ok(String::from_utf8_lossy(&key?[5..]).into_owned()))
        .collect()
}

fn main() -> unikv::Result<()> {
    let db = Db::in_memory(Options::default())?;
    db.put("user/ada", "")?;
    db.put("user/bob", "")?;
    db.put("visit/ada", "")?;
    assert_eq!(names(&db)?, ["ada", "bob"]);
    assert_eq!(names(&db.snapshot())?.len(), 2);
    assert!(!db.path().exists());
    db.close()?;
    Ok(())
}
