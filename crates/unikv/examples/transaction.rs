//! Moves money between accounts, from several threads at once: a transaction that conflicts with
//! another is run again.

use std::thread;
use unikv::{Db, Options, Result, Transaction};

fn balance(transaction: &Transaction, account: &str) -> Result<u64> {
    let text = transaction.get(account)?.unwrap_or_default();
    Ok(String::from_utf8_lossy(&text).parse().unwrap_or(0))
}

fn move_one(db: &Db) -> Result<()> {
    db.transact(|transaction| {
        let (ada, bob) = (balance(transaction, "ada")?, balance(transaction, "bob")?);
        transaction.put("ada", (ada - 1).to_string())?;
        transaction.put("bob", (bob + 1).to_string())
    })
}

fn main() -> Result<()> {
    let db = Db::open("transaction.db", Options::default())?;
    db.put("ada", "100")?;
    db.put("bob", "0")?;
    thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| (0..10).try_for_each(|_| move_one(&db)));
        }
    });
    let now = db.begin();
    println!(
        "ada {}, bob {}",
        balance(&now, "ada")?,
        balance(&now, "bob")?
    );
    assert_eq!((balance(&now, "ada")?, balance(&now, "bob")?), (60, 40));
    drop(now);
    db.close()?;
    Ok(())
}
