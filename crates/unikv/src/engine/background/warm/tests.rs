use super::noting::REST;
use crate::base::file_names::CACHE_HINTS;
use crate::engine::tests::common::{all_the_same, flush_apart, key, put};
use crate::engine::tests::{Machine, Model, small};
use crate::vfs::sim::{Fault, FaultRule};
use crate::vfs::{Runtime, Vfs};
use crate::{Compression, Db, Options};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

const KEYS: u32 = 1200;

/// With a cache that may keep records of some hundred bytes.
fn options() -> Options {
    small().memory_budget(8 << 20)
}

/// A database of which a merge has sorted most, and the rest stands in tables.
fn machine(seed: u64) -> (Machine, Model) {
    machine_with(seed, options())
}

fn machine_with(seed: u64, options: Options) -> (Machine, Model) {
    let machine = Machine::new(seed);
    let mut model = Model::new();
    let (db, _) = machine.open(options);
    flush_apart(&db, &mut model, KEYS, 3, 1);
    db.compact().unwrap();
    for i in (0..KEYS).step_by(7) {
        put(&db, &mut model, i, 9);
    }
    db.flush().unwrap();
    db.close().unwrap();
    machine.disk.remove(&hints()).unwrap();
    (machine, model)
}

/// Gets of each `step`th key, right as the model says. How many reads of files they took.
fn reads_of_gets(db: &Db, model: &Model, step: usize) -> u64 {
    let before = db.stats().reads;
    for i in (0..KEYS).step_by(step) {
        let value = db.get(key(i)).unwrap();
        assert_eq!(value.as_deref(), model.get(&key(i)).map(Vec::as_slice));
    }
    db.stats().reads - before
}

fn hints() -> PathBuf {
    Path::new("/db").join(CACHE_HINTS)
}

/// Shows that what is asked for before the database is closed is warm when it is open again. The
/// database, and how many reads it took while it was cold.
fn opened_warm(machine: &Machine, model: &Model, options: impl Fn() -> Options) -> (Db, u64) {
    let (db, _) = machine.open(options());
    let cold = reads_of_gets(&db, model, 3);
    assert!(cold > 400, "{cold}");
    db.close().unwrap();
    let (db, _) = machine.open(options());
    db.wait_until_idle().unwrap();
    let warm = reads_of_gets(&db, model, 3);
    assert!(warm < cold / 20, "{warm} of {cold}");
    (db, cold)
}

#[test]
fn what_was_hot_before_the_close_is_read_before_anybody_asks() {
    let (machine, model) = machine(1);
    let (db, cold) = opened_warm(&machine, &model, options);
    db.close().unwrap();
    machine.disk.remove(&hints()).unwrap();

    let (db, _) = machine.open(options());
    db.wait_until_idle().unwrap();
    assert!(reads_of_gets(&db, &model, 3) > cold / 2);
}

#[test]
fn records_that_are_compressed_are_warmed_as_well() {
    let options = || options().compression(Compression::Lz4);
    let (machine, model) = machine_with(7, options());
    let (db, _) = opened_warm(&machine, &model, options);
    assert!(db.stats().compression_ratio() > 1.5);
}

#[test]
fn what_is_hot_is_noted_while_the_database_is_open_and_survives_a_kill() {
    let (machine, model) = machine(2);
    let (db, runtime) = machine.open(options());
    let cold = reads_of_gets(&db, &model, 1);
    // Nobody has called on the workers but the cache itself.
    runtime.run_until_idle();
    runtime.delay(REST);
    runtime.run_until_idle();
    drop(db);
    let (db, _) = machine.open(options());
    db.wait_until_idle().unwrap();
    let warm = reads_of_gets(&db, &model, 1);
    assert!(warm < cold / 2, "{warm} of {cold}");
}

#[test]
fn stale_and_damaged_hints_cost_nothing_but_time() {
    let (machine, mut model) = machine(3);
    let (db, _) = machine.open(options());
    let cold = reads_of_gets(&db, &model, 3);
    db.close().unwrap();
    // All files are others now, and what was read since is little.
    let stale = machine.disk.read_file(&hints()).unwrap();
    let (db, _) = machine.open(options());
    flush_apart(&db, &mut model, KEYS, 2, 50);
    db.compact().unwrap();
    db.close().unwrap();
    let mut damaged = stale.clone();
    damaged[200] ^= 1;
    for bytes in [&stale[..], &damaged, &stale[..150], &[]] {
        machine.disk.write_file(&hints(), bytes);
        let (db, _) = machine.open(options());
        db.wait_until_idle().unwrap();
        all_the_same(&db, &model, KEYS);
        db.close().unwrap();
    }
    // The last process has noted better ones.
    let (db, _) = machine.open(options());
    db.wait_until_idle().unwrap();
    assert!(reads_of_gets(&db, &model, 3) < cold / 20);
}

#[test]
fn hints_that_cannot_be_read_or_written_are_no_failure() {
    let (machine, model) = machine(4);
    let of_hints = || -> FaultRule {
        Box::new(|call| {
            if call.path.to_string_lossy().contains(CACHE_HINTS) {
                Fault::Fail(ErrorKind::Other)
            } else {
                Fault::None
            }
        })
    };
    for of_looks in [true, false] {
        machine.disk.clear_faults();
        if of_looks {
            machine.disk.set_look_fault(of_hints())
        } else {
            machine.disk.set_fault(of_hints())
        }
        let (db, _) = machine.open(options());
        db.wait_until_idle().unwrap();
        reads_of_gets(&db, &model, 3);
        assert!(db.stats().job_errors.is_empty());
        db.close().unwrap();
    }
}
