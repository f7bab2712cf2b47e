//! Follows what changes, write by write, and goes on where it stopped.

use unikv::{ChangeKind, ChangeOp, ChangeToken, Db, Options};

/// Shows what has changed since the token; returns the token to go on from.
fn show(db: &Db, since: ChangeToken) -> unikv::Result<(ChangeToken, u32)> {
    let (mut changes, mut shown) = (db.changes_since(since)?, 0);
    while let Some(change) = changes.try_next()? {
        if let ChangeKind::Write(ops) = &change.kind {
            for op in ops {
                if let ChangeOp::Put { key, value, .. } = op {
                    println!("{} = {}", key.escape_ascii(), value.escape_ascii());
                    shown += 1;
                }
            }
        }
    }
    Ok((changes.token(), shown))
}

fn main() -> unikv::Result<()> {
    let options = Options::default().change_window_bytes(16 << 20);
    let db = Db::open("changes.db", options)?;
    let token = db.change_token()?;
    db.put("apple", "red")?;
    db.sync()?; // What a power cut could take is not shown.
    let (token, shown) = show(&db, token)?;
    db.put("apple", "green")?;
    db.put("banana", "yellow")?;
    db.sync()?;
    assert_eq!((shown, show(&db, token)?.1), (1, 2));
    db.close()?;
    Ok(())
}
