//! The full comparison: every key of every thread by a scan and by a get, and nothing else there.

use crate::exit::Failure;
use crate::torture::model::Record;
use crate::torture::oracle::{Found, Oracle};
use crate::torture::ranges::{foreign, whole_thread};
use crate::torture::worker::{found, mismatch};
use unikv::Db;

/// What a comparison saw.
#[derive(Clone, Copy, Debug, Default)]
pub struct Verified {
    pub keys: u64,
    pub present: u64,
    /// Writes found that had not been noted.
    pub ahead: u64,
}

/// Compares everything. After a kill, the last write of each thread may be there without its note.
pub fn verify(db: &Db, oracle: &Oracle, after_a_kill: bool) -> Result<Verified, Failure> {
    let thread = |thread| verify_thread(db, oracle, thread, after_a_kill);
    let results: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..oracle.threads)
            .map(|number| scope.spawn(move || thread(number)))
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.collect()
    });
    let mut sum = Verified::default();
    for result in results {
        let one = result.map_err(|_| Failure::invalid("a verifying thread panicked"))??;
        sum.keys += one.keys;
        sum.present += one.present;
        sum.ahead += one.ahead;
    }
    nothing_else(db, oracle)?;
    Ok(sum)
}

fn verify_thread(
    db: &Db,
    oracle: &Oracle,
    thread: u64,
    after_a_kill: bool,
) -> Result<Verified, Failure> {
    let mut entries = db.range(whole_thread(thread));
    let mut entry = entries.next().transpose()?;
    let mut verified = Verified::default();
    let mut index = 0;
    let mut unit_found = Vec::new();
    while index < oracle.keys_per_thread {
        let unit = Record { thread, index }.unit();
        unit_found.clear();
        for index in unit.clone() {
            let record = Record { thread, index };
            let here = entry
                .as_ref()
                .filter(|(key, _)| key[..] == record.key()[..]);
            let value = here.map(|(_, value)| value.clone());
            if value.is_some() {
                entry = entries.next().transpose()?;
                verified.present += 1;
            }
            unit_found.push(found(record, value.as_deref())?);
        }
        verified.keys += unit.end - unit.start;
        let may_be_ahead = after_a_kill && verified.ahead == 0;
        let ahead = oracle.adopt(thread, unit.clone(), &unit_found, may_be_ahead)?;
        verified.ahead += u64::from(ahead.map_err(Failure::verification)?);
        index = unit.end;
    }
    if let Some((key, _)) = entry {
        return Err(foreign(&key, "no more"));
    }
    for index in 0..oracle.keys_per_thread {
        let record = Record { thread, index };
        let found: Found = found(record, db.get(record.key())?.as_deref())?;
        let judged = oracle.judge_own(record, found);
        judged.map_err(|expected| mismatch("get", record, expected, found))?;
    }
    Ok(verified)
}

/// There is nothing between and around the keys of the threads.
fn nothing_else(db: &Db, oracle: &Oracle) -> Result<(), Failure> {
    let mut from: Vec<u8> = Vec::new();
    for thread in 0..oracle.threads {
        let own = whole_thread(thread);
        if let Some((key, _)) = db.range(from..own.start).next().transpose()? {
            return Err(foreign(&key, "nothing"));
        }
        from = own.end;
    }
    match db.range(from..).next().transpose()? {
        None => Ok(()),
        Some((key, _)) => Err(foreign(&key, "nothing")),
    }
}
