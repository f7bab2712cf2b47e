//! Transactions beside each other, plain writers and flushes.

use super::world::{World, all_is_well};
use crate::error::Result;
use crate::testing::shuttle_model::holds;
use crate::{Db, ErrorKind, KeyspaceOptions, Readable};
use shuttle::thread;

fn number(from: &impl Readable, key: &str) -> Result<i64> {
    let value = from.get(key.as_bytes())?;
    Ok(value.map_or(0, |value| i64::from_le_bytes(value[..].try_into().unwrap())))
}

/// Of two who are on duty one may leave, if the other one stays. Both ask before they go.
fn leave_or_come(db: &Db, own: &str) -> Result<()> {
    let mut transaction = db.begin();
    let there = transaction.range("duty/".."duty0").count();
    assert!(there >= 1, "both have left");
    if !transaction.contains_key(own)? {
        transaction.put(own, "here")?;
    } else if there == 2 {
        transaction.delete(own)?;
    } else {
        return transaction.commit();
    }
    match transaction.commit() {
        Err(error) if error.kind() == ErrorKind::Conflict => Ok(()),
        done => done,
    }
}

/// Two that count on one key and take turns on duty, and somebody who writes much, flushes and
/// compacts.
fn transactions_beside_flushes() {
    let world = World::new(1);
    let db = world.open();
    db.put("duty/a", "here").unwrap();
    db.put("duty/b", "here").unwrap();
    let mut threads: Vec<_> = ["duty/a", "duty/b"]
        .into_iter()
        .map(|own| {
            let db = db.clone();
            thread::spawn(move || {
                for _ in 0..4 {
                    leave_or_come(&db, own)?;
                    db.increment("count", 1)?;
                    db.transact(|transaction| {
                        let n = number(transaction, "count")?;
                        transaction.put("count", (n + 1).to_le_bytes())
                    })?;
                }
                Ok(())
            })
        })
        .collect();
    let its_db = db.clone();
    threads.push(thread::spawn(move || {
        let space = its_db.keyspace("space", KeyspaceOptions::default())?;
        for n in 0..3u32 {
            space.put(n.to_le_bytes(), [7; 2000])?;
            its_db.flush()?;
        }
        space.truncate()?;
        its_db.compact()
    }));
    all_is_well(threads);
    assert_eq!(number(&db, "count").unwrap(), 16);
    assert!(db.range("duty/".."duty0").count() >= 1);
    db.wait_until_idle().unwrap();
    world.close(db);
}

#[test]
fn no_update_is_lost_and_no_write_skewed() {
    holds(3, 40, &["flushes", "merges"], transactions_beside_flushes);
}
