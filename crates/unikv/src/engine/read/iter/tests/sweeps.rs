//! Sweeps over deletes: after them no reader steps over many.

use crate::engine::tests::{Machine, small};
use crate::Db;

#[test]
fn tmp_timing() {
    use std::time::{Duration, Instant};
    let dir = std::env::temp_dir().join("sweep_tmp");
    let _ = std::fs::remove_dir_all(&dir);
    let options = crate::Options::default()
        .memory_budget(1 << 30)
        .memtable_bytes(80 << 20);
    let db = Db::open(&dir, options).unwrap();
    let key = |n: u32| format!("k{n:015}");
    let count = 1_000_000;
    for n in 0..count {
        db.put(key(n), [7; 100]).unwrap();
    }
    db.flush().unwrap();
    db.compact().unwrap();
    db.put("a", "first").unwrap();
    db.put("z", "last").unwrap();
    let begin = Instant::now();
    let state = |what: &str| {
        let view = db.0.engine.read.view.load_full();
        println!(
            "{what} {:?}: {} sealed {}",
            begin.elapsed(),
            view.memtable.table.sweep_state(),
            view.sealed.len()
        );
    };
    for n in 0..count {
        if n % 50_000 == 0 {
            state("deleting");
        }
        db.delete(key(n)).unwrap();
    }
    for _ in 0..15 {
        state("deleted");
        let begin = Instant::now();
        let mut cursor = db.cursor();
        cursor.seek("b").unwrap();
        println!("seek {:?}", begin.elapsed());
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(500));
    state("later");
    for _ in 0..5 {
        let begin = Instant::now();
        let mut cursor = db.cursor();
        cursor.seek("b").unwrap();
        println!("seek {:?}", begin.elapsed());
    }
    state("later");
}
