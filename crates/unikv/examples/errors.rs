//! Handles errors: by their kind, which says what the caller can do.

use unikv::{Db, ErrorKind, Options, WriteOptions};

fn main() -> unikv::Result<()> {
    let db = match Db::open("errors.db", Options::default()) {
        Err(error) if error.kind() == ErrorKind::Locked => {
            println!("{error}");
            return Ok(());
        }
        opened => opened?,
    };
    if let Err(error) = db.put(vec![0; 100_000], "value") {
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        println!("what: {}; what to do: {}", error.what(), error.remedy());
    }
    match db.put_with("apple", "red", WriteOptions::default().no_wait(true)) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => println!("later, then"),
        written => written?,
    }
    match db.get("apple") {
        Err(error) if error.kind() == ErrorKind::Corruption => {
            println!("{:?} at {:?}", error.file(), error.offset());
        }
        value => assert!(value?.is_some()),
    }
    db.close()?;
    Ok(())
}
