//! A queue of tasks: several threads take them, each task once.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use unikv::{Db, Options};

fn main() -> unikv::Result<()> {
    let db = Db::open("queue.db", Options::default())?;
    for task in 0..100_u64 {
        db.put(task.to_be_bytes(), "what is to be done")?;
    }
    let done = AtomicU32::new(0);
    thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                while let Ok(Some((_task, _what))) = db.pop_first() {
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    println!("{} tasks done", done.load(Ordering::Relaxed));
    assert_eq!((done.into_inner(), db.iter().count()), (100, 0));
    db.close()?;
    Ok(())
}
