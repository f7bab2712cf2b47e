//! Opens a database: whatever is there, only one that exists, or only a new one.

use unikv::{Db, ErrorKind, Options};

fn main() -> unikv::Result<()> {
    let db = Db::open("open.db", Options::default())?;
    println!("{} is open", db.path().display());
    db.close()?;

    match Db::create_new("open.db", Options::default()) {
        Err(error) => println!("not made again: {error}"),
        Ok(_) => unreachable!("there is one"),
    }
    let missing = Db::open_existing("nowhere.db", Options::default());
    assert_eq!(
        missing.err().map(|error| error.kind()),
        Some(ErrorKind::NotFound)
    );

    Db::open_existing("open.db", Options::default())?.close()?;
    Ok(())
}
