//! Opens a database: whatever is there, only one that exists, or only a new one.

use unikv::{Db, ErrorKind, Options};

fn main() -> unikv::Result<()> {
    let db = Db::open("open.db", Options::default())?;
    println!("{} is open", db.path().display());
    db.close()?;

    let again = Db::create_new("open.db", Options::default()).unwrap_err();
    println!("not made again: {again}");
    let missing = Db::open_existing("nowhere.db", Options::default()).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);

    Db::open_existing("open.db", Options::default())?.close()?;
    Ok(())
}
