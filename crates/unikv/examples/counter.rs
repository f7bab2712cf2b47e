//! Counts, from several threads at once.

use std::thread;
use unikv::{Db, Options};

fn main() -> unikv::Result<()> {
    let db = Db::open("counter.db", Options::default())?;
    db.delete("visits")?;
    thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| (0..100).try_for_each(|_| db.increment("visits", 1).map(drop)));
        }
    });
    let visits = db.increment("visits", 0)?;
    println!("{visits} visits");
    assert_eq!(visits, 400);

    // Any other change that depends on the value:
    db.update("longest", |old| {
        let longest = old.map_or(0, <[u8]>::len).max(7);
        Some(vec![b'#'; longest])
    })?;
    db.close()?;
    Ok(())
}
