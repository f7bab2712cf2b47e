//! Checks and secondaries, at each of whose looks at the disk another process opens the database.

use crate::engine::tests::{Machine, small};
use crate::vfs::sim::Fault;
use crate::{Db, Options, SecondaryOptions};
use std::path::Path;

fn options() -> Options {
    small().change_window_bytes(0)
}

/// A database with tables and a log that is not flushed.
fn database(seed: u64) -> Machine {
    let machine = Machine::new(seed);
    let (db, _) = machine.open(options());
    for n in 0..60u32 {
        db.put(format!("key{n:03}"), [7; 100]).unwrap();
        if n == 40 {
            db.flush().unwrap();
        }
    }
    db.close().unwrap();
    // Such as an opening sweeps.
    machine.disk.write_file(Path::new("/db/000900.key"), b"");
    machine
}

/// Has a service open the database at the look number `at`, write, merge, and close.
fn interrupt(machine: &Machine, at: u64) {
    let service = Machine {
        disk: machine.disk.clone(),
        seed: machine.seed + 1,
    };
    let first = machine.disk.looks();
    machine.disk.set_look_fault(Box::new(move |call| {
        if call.index == first + at {
            let (db, _) = service.open(options());
            db.put("later", "1").unwrap();
            db.compact().unwrap();
            db.close().unwrap();
        }
        Fault::None
    }));
}

/// Reads at an interrupted disk until a reading has met no interruption. How many were made.
fn at_each_look(seed: u64, read: impl Fn(&Machine)) -> u64 {
    for at in 0.. {
        let machine = database(seed);
        interrupt(&machine, at);
        let before = machine.disk.looks();
        read(&machine);
        let has_ended_before = machine.disk.looks() - before <= at;
        machine.disk.clear_faults();
        machine.check();
        if has_ended_before {
            return at;
        }
    }
    unreachable!()
}

#[test]
fn a_check_finds_nothing_wrong_whenever_another_process_opens_the_database() {
    let looks = at_each_look(51, |machine| {
        let report = machine.env().check("/db").unwrap();
        assert!(report.is_clean(), "{:#?}", report.problems);
    });
    assert!(looks > 20, "{looks}");
}

#[test]
fn a_secondary_shows_all_whenever_another_process_opens_the_database() {
    let looks = at_each_look(53, |machine| {
        let db = Db::open_secondary("/db", SecondaryOptions::default().env(machine.env())).unwrap();
        let found = db.iter().map(Result::unwrap).collect::<Vec<_>>().len();
        assert!((60..=61).contains(&found), "{found}");
    });
    assert!(looks > 10, "{looks}");
}
