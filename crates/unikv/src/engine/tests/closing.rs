//! Reads that are under way while the database is closed, opened again and changed.

use super::{Machine, small};
use crate::vfs::sim::{Fault, Op};
use crate::{Db, Error, ErrorKind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Has everything of `machine` rewritten, so that no file of before is left.
fn rewrite(machine: &Machine) {
    let (db, _) = machine.open(small().inline_value_bytes(0).max_space_amp(1.1));
    for round in 0..3_u8 {
        for n in 0..100_u32 {
            db.put(format!("key{n:03}"), [round; 300]).unwrap();
        }
        db.compact().unwrap();
    }
    db.collect_garbage().unwrap();
    db.quiesce().unwrap();
    db.close().unwrap();
}

type Read<'a> = &'a dyn Fn(&Db) -> crate::Result<()>;

/// What `read` says if the database is closed and rewritten while it opens a file with `extension`.
fn closed_under(extension: &'static str, read: Read<'_>) -> Error {
    let machine = Machine::new(41);
    rewrite(&machine);
    let old = machine.disk.file_names();
    let (db, _) = machine.open(small().inline_value_bytes(0));
    let (handle, rewritten) = (db.clone(), Arc::new(AtomicBool::new(false)));
    let (done, beside) = (
        Arc::clone(&rewritten),
        Machine {
            disk: machine.disk.clone(),
            seed: 42,
        },
    );
    machine.disk.set_look_fault(Box::new(move |call| {
        let is_one = call.path.extension().is_some_and(|e| e == extension);
        if call.op == Op::Open && is_one && !done.swap(true, Ordering::SeqCst) {
            handle.clone().close().unwrap();
            rewrite(&beside);
        }
        Fault::None
    }));
    let read = read(&db);
    machine.disk.clear_faults();
    assert!(rewritten.load(Ordering::SeqCst), "{extension}: {read:?}");
    let files = machine.disk.file_names();
    let gone = |path: &&PathBuf| path.extension().is_some_and(|e| e == extension);
    assert!(old.iter().filter(gone).all(|path| !files.contains(path)));
    read.unwrap_err()
}

#[test]
fn a_read_that_a_close_overtakes_says_so_and_does_not_speak_of_damage() {
    let get = |db: &Db| db.get("key050").map(drop);
    let scan = |db: &Db| db.iter().try_for_each(|entry| entry.map(drop));
    let count = |db: &Db| db.approximate_size("key010".."key020").map(drop);
    let middle = |db: &Db| db.middle_key(..).map(drop);
    let reads: [(&'static str, Read<'_>); 6] = [
        ("rec", &get),
        ("key", &get),
        ("rec", &scan),
        ("key", &scan),
        ("key", &count),
        ("key", &middle),
    ];
    for (extension, read) in reads {
        let error = closed_under(extension, read);
        assert_eq!(error.kind(), ErrorKind::Closed, "{extension}: {error}");
    }
}
