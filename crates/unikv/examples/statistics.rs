//! Shows figures: for a person, for a program, and for Prometheus.

use unikv::{Db, Options};

fn main() -> unikv::Result<()> {
    let options = Options::default().latencies(true);
    let db = Db::open("statistics.db", options)?;
    for n in 0..10_000 {
        db.put(format!("key{n}"), "value")?;
    }
    db.get("key7")?;
    db.flush()?;

    let stats = db.stats();
    println!("{stats}");
    assert!(stats.puts >= 10_000 && stats.gets == 1 && stats.flushes >= 1);
    println!("{:.2} bytes written per byte", stats.write_amplification());
    for latency in &stats.latencies {
        println!("{latency}");
    }
    let page = stats.to_prometheus();
    assert!(page.contains("unikv_"));
    db.close()?;
    Ok(())
}
