//! Copies the database as it is now: into a database beside it, in milliseconds, and into a backup
//! that may be on another disk.

use unikv::backup::Repository;
use unikv::{Db, Options};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let db = Db::open("checkpoint.db", Options::default())?;
    db.put("apple", "red")?;
    let dir = std::env::temp_dir().join(format!("unikv-copies-{}", std::process::id()));
    let copy = db.checkpoint(dir.join("now"))?;
    println!("{} files", copy.files.len());

    let repository = Repository::at(dir.join("backups"));
    let first = repository.back_up(&db)?;
    db.put("apple", "green")?;
    repository.back_up(&db)?;
    repository.restore(first.point.number, dir.join("restored"))?;
    db.close()?;

    for name in ["now", "restored"] {
        let db = Db::open_existing(dir.join(name), Options::default())?;
        assert_eq!(db.get("apple")?.as_deref(), Some(&b"red"[..]));
        db.close()?;
    }
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}
