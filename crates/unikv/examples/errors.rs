//! Handles errors: by their kind, which says what the caller can do.

use unikv::{Db, ErrorKind, Options, WriteOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let db = match Db::open("errors.db", Options::default()) {
        Ok(db) => db,
        Err(error) if error.kind() == ErrorKind::Locked => return Ok(println!("{error}")),
        Err(error) => return Err(error.into()),
    };
    let too_long = db.put(vec![0; 100_000], "value").unwrap_err();
    assert_eq!(too_long.kind(), ErrorKind::InvalidArgument);
    println!(
        "what: {}; what to do: {}",
        too_long.what(),
        too_long.remedy()
    );

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
