//! The calls that most programs need: `cargo run --example quickstart [directory]`.

use unikv::{Batch, Db, Durability, Options, Result};

fn main() -> Result<()> {
    let scratch = std::env::temp_dir().join(format!("unikv-quickstart-{}", std::process::id()));
    let given = std::env::args_os().nth(1).map(std::path::PathBuf::from);
    let dir = given.clone().unwrap_or_else(|| scratch.clone());

    let db = Db::open(&dir, Options::default())?;
    let report = db.recovery();
    println!(
        "opened {}: {} records replayed",
        dir.display(),
        report.wal_records
    );

    // Single writes; by default they survive the death of the process at once.
    db.put("planet/earth", "1 moon")?;
    db.put("planet/mars", "2 moons")?;
    db.delete("planet/pluto")?;

    // Several writes at once: all of them or none, and here synced before the call returns.
    let mut batch = Batch::new();
    batch.put("planet/saturn", "over 140 moons");
    batch.put("planet/neptune", "16 moons");
    db.write_with(&batch, Durability::Sync)?;

    if let Some(value) = db.get("planet/mars")? {
        println!("mars has {}", String::from_utf8_lossy(&value));
    }

    // A snapshot does not see what is written after it.
    let snapshot = db.snapshot();
    db.put("planet/mars", "still 2 moons")?;
    for entry in snapshot.prefix("planet/") {
        let (key, value) = entry?;
        println!(
            "{}: {}",
            String::from_utf8_lossy(&key),
            String::from_utf8_lossy(&value)
        );
    }
    drop(snapshot);

    // Ranges run both ways.
    let last = db.range("planet/".."planet0").next_back().transpose()?;
    if let Some((key, _)) = last {
        println!("the last planet is {}", String::from_utf8_lossy(&key));
    }

    let stats = db.stats();
    println!("{} puts, {} bytes of log", stats.puts, stats.wal_bytes);
    db.close()?;
    println!(
        "the check finds {} problems",
        Db::check(&dir)?.problems.len()
    );
    if given.is_none() {
        Db::destroy(&scratch)?;
    }
    Ok(())
}
