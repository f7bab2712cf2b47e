//! `crash-writer` and `crash-verify`: no acknowledged write is lost when the process is killed.
//!
//! Each thread of the writer does operations numbered 1, 2, 3, … What operation `n` of thread `t`
//! does follows from (t, n) alone: it puts or deletes one of a bounded set of keys, so that
//! flushes and merges meet overwrites and deletes. Every fourth key has a twin in another range of
//! keys, and both are written in one batch. After each acknowledgement the thread writes `n` into
//! its eight bytes of the ack file, which survive the death of the process.
//!
//! So with `a` in the ack file, the database must hold exactly what operations 1 to `a` leave,
//! or 1 to `a + 1`: the last one may have ended without the note. Anything else is a loss, a torn
//! batch or a resurrection. A writer that starts again goes on after the ack file, so that the
//! unnoted operation is done again and the rounds of a test share one directory.

use crate::args::{DirArg, EngineArgs};
use crate::exit::{Code, Failure, Outcome};
use clap::Args;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use unikv::{Batch, Db};
use unikv_bench::workload::keys::mix as hash;
use unikv_bench::workload::values::fill as fill_value;

const SLOT_BYTES: u64 = 8;
const KEY_BYTES: usize = 16;
/// Keys of one thread. A multiple of [`TWIN_EVERY`], so that a key always or never has a twin.
const KEYS_PER_THREAD: u64 = 4096;
const TWIN_EVERY: u64 = 4;
const LARGE_VALUE_BYTES: usize = 100_000;

type Key = [u8; KEY_BYTES];

/// `crash-writer DIR`
#[derive(Args)]
pub struct Writer {
    #[command(flatten)]
    dir: DirArg,
    /// Writing threads; the same number in every round
    #[arg(long, value_name = "COUNT", default_value_t = 4)]
    threads: u64,
    /// Where acknowledgements are noted
    #[arg(long, value_name = "FILE")]
    ack_file: PathBuf,
    /// End after this many operations of each thread; otherwise only a kill ends it
    #[arg(long, value_name = "COUNT")]
    operations: Option<u64>,
    #[command(flatten)]
    engine: EngineArgs,
}

/// `crash-verify DIR`
#[derive(Args)]
pub struct Verify {
    #[command(flatten)]
    dir: DirArg,
    /// Where acknowledgements were noted
    #[arg(long, value_name = "FILE")]
    ack_file: PathBuf,
    #[command(flatten)]
    engine: EngineArgs,
}

/// What an operation leaves under its key.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Effect {
    Put(Vec<u8>),
    Delete,
}

fn key_index(operation: u64) -> u64 {
    operation % KEYS_PER_THREAD
}

fn has_twin(index: u64) -> bool {
    index.is_multiple_of(TWIN_EVERY)
}

/// `a` or, for a twin, `b`; thread; index of the key.
fn key(range: u8, thread: u64, index: u64) -> Key {
    let mut key = [0; KEY_BYTES];
    key[0] = range;
    key[1..8].copy_from_slice(&thread.to_be_bytes()[1..]);
    // Hashed, so that neighbours in time are not neighbours in order.
    key[8..14].copy_from_slice(&hash(index).to_be_bytes()[..6]);
    key[14..].copy_from_slice(&(index as u16).to_be_bytes());
    key
}

fn effect(thread: u64, operation: u64) -> Effect {
    let dice = hash(thread << 48 ^ operation);
    if dice.is_multiple_of(16) {
        return Effect::Delete;
    }
    let length = match (dice >> 8) % 256 {
        0 => LARGE_VALUE_BYTES,
        1..=100 => 16 + (dice >> 16) as usize % 100,
        _ => 16 + (dice >> 16) as usize % 2_000,
    };
    let mut value = vec![0; length];
    fill_value(&mut value, thread, operation);
    Effect::Put(value)
}

fn note(file: &File, thread: u64, operation: u64) -> io::Result<()> {
    file.write_all_at(&operation.to_le_bytes(), thread * SLOT_BYTES)
}

fn noted(file: &File, thread: u64) -> io::Result<u64> {
    let mut slot = [0; SLOT_BYTES as usize];
    file.read_exact_at(&mut slot, thread * SLOT_BYTES)?;
    Ok(u64::from_le_bytes(slot))
}

impl Writer {
    pub fn run(self) -> Outcome {
        let failed = |error: io::Error| Failure::file(&self.ack_file, &error);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&self.ack_file)
            .map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        match length {
            0 => file.set_len(self.threads * SLOT_BYTES).map_err(failed)?,
            length if length == self.threads * SLOT_BYTES => {}
            _ => {
                return Err(Failure::invalid(
                    "the ack file is of another number of threads",
                ));
            }
        }
        let db = Db::open(&self.dir.dir, self.engine.options()?)?;
        let writers = std::thread::scope(|scope| {
            let start = |thread| {
                let (db, file) = (&db, &file);
                scope.spawn(move || write(db, file, thread, self.operations))
            };
            let threads: Vec<_> = (0..self.threads).map(start).collect();
            threads
                .into_iter()
                .map(|thread| thread.join())
                .collect::<Vec<_>>()
        });
        for writer in writers {
            writer.map_err(|_| Failure::invalid("a writer panicked"))??;
        }
        db.close()?;
        Ok(Code::Success)
    }
}

fn write(db: &Db, acks: &File, thread: u64, limit: Option<u64>) -> Result<(), Failure> {
    let first = noted(acks, thread)? + 1;
    let last = limit.map_or(u64::MAX, |limit| first + limit - 1);
    let mut batch = Batch::new();
    for operation in first..=last {
        let index = key_index(operation);
        batch.clear();
        let ranges: &[u8] = if has_twin(index) { b"ab" } else { b"a" };
        let effect = effect(thread, operation);
        for &range in ranges {
            match &effect {
                Effect::Put(value) => batch.put(key(range, thread, index), value),
                Effect::Delete => batch.delete(key(range, thread, index)),
            };
        }
        db.write(&batch)?;
        note(acks, thread, operation)?;
    }
    Ok(())
}

#[derive(Default)]
struct Found {
    acknowledged: u64,
    unnoted: u64,
    records: u64,
    faults: Vec<String>,
}

impl Verify {
    pub fn run(self) -> Outcome {
        let acks = read_acks(&self.ack_file)?;
        let db = Db::open_existing(&self.dir.dir, self.engine.options()?)?;
        let mut found = Found::default();
        let mut expected_records = 0;
        for (thread, &acknowledged) in (0..).zip(&acks) {
            expected_records += verify_thread(&db, thread, acknowledged, &mut found)?;
        }
        verify_scan(&db, expected_records, &mut found)?;
        let mut out = io::stdout().lock();
        writeln!(out, "{}", db.recovery())?;
        for fault in &found.faults {
            writeln!(out, "LOSS: {fault}")?;
        }
        writeln!(
            out,
            "{} operations acknowledged, {} more found, {} records, {} faults",
            found.acknowledged,
            found.unnoted,
            found.records,
            found.faults.len()
        )?;
        drop(out);
        db.close()?;
        match found.faults.len() {
            0 => Ok(Code::Success),
            n => Err(Failure::verification(format!("{n} faults after the kill"))),
        }
    }
}

fn read_acks(path: &Path) -> Result<Vec<u64>, Failure> {
    let failed = |error: io::Error| Failure::file(path, &error);
    let file = File::open(path).map_err(failed)?;
    let threads = file.metadata().map_err(failed)?.len() / SLOT_BYTES;
    (0..threads)
        .map(|thread| noted(&file, thread).map_err(failed))
        .collect()
}

/// The last operation up to `last` that wrote the key of this index.
fn last_on(index: u64, last: u64) -> Option<u64> {
    let behind = (last % KEYS_PER_THREAD + KEYS_PER_THREAD - index) % KEYS_PER_THREAD;
    last.checked_sub(behind).filter(|&operation| operation > 0)
}

fn left_by(thread: u64, operation: Option<u64>) -> Option<Vec<u8>> {
    match operation.map(|operation| effect(thread, operation)) {
        Some(Effect::Put(value)) => Some(value),
        Some(Effect::Delete) | None => None,
    }
}

/// Gets every key of one thread; gives how many records it has.
fn verify_thread(
    db: &Db,
    thread: u64,
    acknowledged: u64,
    found: &mut Found,
) -> Result<u64, Failure> {
    found.acknowledged += acknowledged;
    let in_flight = acknowledged + 1;
    let mut records = 0;
    for index in 0..KEYS_PER_THREAD {
        let expected = left_by(thread, last_on(index, acknowledged));
        let value = db
            .get(key(b'a', thread, index))?
            .map(|value| value.to_vec());
        let mut copies = 1;
        if has_twin(index) {
            let twin = db
                .get(key(b'b', thread, index))?
                .map(|value| value.to_vec());
            copies = 2;
            if twin != value {
                found
                    .faults
                    .push(format!("thread {thread}, key {index}: a torn batch"));
            }
        }
        records += if value.is_some() { copies } else { 0 };
        let may_be_newer = key_index(in_flight) == index;
        if value == expected {
            continue;
        }
        if may_be_newer && value == left_by(thread, Some(in_flight)) {
            found.unnoted += 1;
            continue;
        }
        found
            .faults
            .push(fault(thread, index, expected.as_deref(), value.as_deref()));
    }
    Ok(records)
}

fn fault(thread: u64, index: u64, expected: Option<&[u8]>, value: Option<&[u8]>) -> String {
    let words = |value: Option<&[u8]>| match value {
        None => "nothing".to_owned(),
        Some(value) => {
            let operation = value.get(8..16).and_then(|bytes| bytes.try_into().ok());
            let operation = operation.map_or(0, u64::from_le_bytes);
            format!("{} bytes of operation {operation}", value.len())
        }
    };
    format!(
        "thread {thread}, key {index}: expected {}, found {}",
        words(expected),
        words(value)
    )
}

/// Scans everything: ascending, and as many records as the gets found. Since each get found what
/// it should, an equal count means the same records.
fn verify_scan(db: &Db, expected: u64, found: &mut Found) -> Result<(), Failure> {
    let mut last: Option<Vec<u8>> = None;
    for entry in db.iter() {
        let (key, value) = entry?;
        found.records += 1;
        if last.as_deref().is_some_and(|last| last >= &key[..]) {
            found
                .faults
                .push(format!("scan: key {} is out of order", key.escape_ascii()));
        }
        // One look at each value, so that scans read what gets read.
        if db.get(&key)?.is_none_or(|by_get| by_get[..] != value[..]) {
            found.faults.push(format!(
                "scan: key {} differs from its get",
                key.escape_ascii()
            ));
        }
        last = Some(key.to_vec());
    }
    if found.records != expected {
        let records = found.records;
        found.faults.push(format!(
            "scan: {records} records where gets found {expected}"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_operation_on_a_key() {
        for last in [
            0,
            1,
            5,
            KEYS_PER_THREAD - 1,
            KEYS_PER_THREAD,
            3 * KEYS_PER_THREAD + 17,
        ] {
            for index in [0, 1, 5, 17, 18, KEYS_PER_THREAD - 1] {
                let by_search = (1..=last)
                    .rev()
                    .find(|&operation| key_index(operation) == index);
                assert_eq!(last_on(index, last), by_search, "key {index} after {last}");
            }
        }
    }

    #[test]
    fn operations_differ() {
        assert_ne!(effect(0, 1), effect(1, 1));
        let deletes = (0..1_600)
            .filter(|&n| effect(2, n) == Effect::Delete)
            .count();
        assert!((50..200).contains(&deletes), "{deletes} deletes");
        assert_ne!(key(b'a', 1, 2), key(b'b', 1, 2));
    }
}
