//! Closes a database, and hears of what was still open.

use unikv::{Db, ErrorKind, Options};

fn main() -> unikv::Result<()> {
    let db = Db::open("close.db", Options::default())?;
    db.put("apple", "red")?;
    let forgotten = db.snapshot();

    // Syncs the log and stops the background, whatever is still open.
    let report = db.close()?;
    println!("{report}");
    assert_eq!(report.still_open.len(), 1);
    let late = forgotten.get("apple");
    assert_eq!(
        late.err().map(|error| error.kind()),
        Some(ErrorKind::Closed)
    );
    Ok(())
}
