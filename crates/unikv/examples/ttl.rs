//! Stores values that expire.

use std::time::Duration;
use unikv::{Db, KeyspaceOptions, Options, Ttl, WriteOptions};

fn main() -> unikv::Result<()> {
    let db = Db::open("ttl.db", Options::default())?;
    let hour = WriteOptions::default().ttl(Duration::from_secs(3600));
    db.put_with("session/ada", "token", hour)?;
    match db.ttl("session/ada")? {
        Some(Ttl::Remaining(left)) => println!("{left:?} left"),
        other => println!("{other:?}"),
    }
    db.expire("session/ada", Duration::from_secs(60))?;
    db.clear_ttl("session/ada")?;
    assert!(matches!(db.ttl("session/ada")?, Some(Ttl::Never)));

    let week = KeyspaceOptions::default().default_ttl(Duration::from_secs(7 * 86400));
    let cache = db.keyspace("cache", week)?;
    cache.put("page", "<html>")?;
    assert!(matches!(cache.ttl("page")?, Some(Ttl::Remaining(_))));
    db.close()?;
    Ok(())
}
