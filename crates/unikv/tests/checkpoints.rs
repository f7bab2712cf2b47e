//! Checkpoints and backups on the real file system, beside threads that write, and jobs.
//!
//! Each writer writes numbers in their order, so what a checkpoint holds of it must be a beginning
//! of them: all that it had written when the checkpoint began, and nothing that it wrote after the
//! checkpoint's end.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod limit;

use limit::limit;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use unikv::backup::Repository;
use unikv::{Batch, Db, KeyspaceOptions, Options, Tuning};

const WRITERS: usize = 2;
const CHECKPOINTS: usize = 12;

fn options() -> Options {
    Options::default()
        .tuning(
            Tuning::default()
                .memtable_bytes(32 << 10)
                .unsorted_bytes(96 << 10)
                .partition_bytes(256 << 10)
                .key_table_bytes(8 << 10)
                .background_threads(2),
        )
        .memory_budget(2 << 20)
        .max_space_amp(1.3)
}

fn value(n: u64) -> Vec<u8> {
    let len = if n.is_multiple_of(50) {
        20_000
    } else {
        n as usize % 700
    };
    let mut value = n.to_be_bytes().to_vec();
    value.resize(8 + len, n as u8);
    value
}

/// What a writer has written, at least and at most.
type Bounds = [(u64, u64); WRITERS];

fn counts(written: &[AtomicU64]) -> [u64; WRITERS] {
    std::array::from_fn(|writer| written[writer].load(Ordering::SeqCst))
}

fn verify(dir: &Path, bounds: &Bounds) {
    assert!(Db::check(dir).unwrap().is_clean());
    let db = Db::open(dir, Options::default()).unwrap();
    let aside = db.keyspace("aside", KeyspaceOptions::default()).unwrap();
    for (writer, (least, most)) in bounds.iter().enumerate() {
        let prefix = [writer as u8];
        let mut n = 0;
        for entry in db.prefix(prefix) {
            let (key, found) = entry.unwrap();
            let expected = [&prefix[..], &u64::to_be_bytes(n)].concat();
            assert_eq!(&key[..], expected, "a number is missing");
            assert_eq!(&found[..], value(n));
            n += 1;
        }
        assert!((*least..=*most).contains(&n), "{least} <= {n} <= {most}");
        assert_eq!(aside.prefix(prefix).count() as u64, n, "a part of a batch");
    }
    db.put("own", "life").unwrap();
    db.close().unwrap();
}

#[test]
fn each_is_a_beginning_of_what_every_writer_wrote() {
    let _limit = limit("checkpoints beside writers");
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("db"), options()).unwrap();
    let aside = db.keyspace("aside", KeyspaceOptions::default()).unwrap();
    let repository = Repository::at(dir.path().join("backups"));
    let written: Vec<_> = (0..WRITERS).map(|_| AtomicU64::new(0)).collect();
    let (is_over, awaited) = (AtomicBool::new(false), AtomicU64::new(0));
    let (mut checkpoints, mut points) = (Vec::new(), Vec::new());
    thread::scope(|scope| {
        for (writer, written) in written.iter().enumerate() {
            let (db, aside, is_over, awaited) = (&db, &aside, &is_over, &awaited);
            scope.spawn(move || {
                for n in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    let key = [&[writer as u8][..], &u64::to_be_bytes(n)].concat();
                    let mut batch = Batch::new();
                    batch.put(&key, value(n)).put_in(aside, &key, "");
                    db.write(&batch).unwrap();
                    written.store(n + 1, Ordering::SeqCst);
                    // Where copies take long there is not more to verify.
                    while n > awaited.load(Ordering::SeqCst) + 3000
                        && !is_over.load(Ordering::Relaxed)
                    {
                        thread::yield_now();
                    }
                }
            });
        }
        for nth in 0..CHECKPOINTS {
            let least = counts(&written);
            let bounds = |most: [u64; WRITERS]| -> Bounds {
                // One more may be written and not be counted yet.
                std::array::from_fn(|writer| (least[writer], most[writer] + 1))
            };
            if nth % 3 == 2 {
                let made = repository.back_up(&db).unwrap();
                points.push((made.point.number, bounds(counts(&written))));
            } else {
                let to = dir.path().join(format!("checkpoint{nth}"));
                db.checkpoint(&to).unwrap();
                checkpoints.push((to, bounds(counts(&written))));
            }
            let next = least[0] + 300;
            awaited.store(next, Ordering::SeqCst);
            while written[0].load(Ordering::SeqCst) < next {
                thread::yield_now();
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let stats = db.stats();
    assert!(stats.flushes > 3 && stats.merges > 0, "{stats:?}");
    for (to, bounds) in &checkpoints {
        verify(to, bounds);
    }
    for (number, bounds) in &points {
        assert!(repository.verify(*number).unwrap().is_sound());
        let to = dir.path().join(format!("restored{number}"));
        repository.restore(*number, &to).unwrap();
        verify(&to, bounds);
    }
    db.close().unwrap();
    let written = counts(&written);
    let all = std::array::from_fn(|writer| (written[writer], written[writer]));
    verify(&dir.path().join("db"), &all);
}
