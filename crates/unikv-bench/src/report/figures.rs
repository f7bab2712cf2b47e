//! How the programs that print single figures write them.

use std::time::Duration;

/// A time in milliseconds.
pub fn millis(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    match ms {
        100.0.. => format!("{ms:.0} ms"),
        1.0.. => format!("{ms:.1} ms"),
        _ => format!("{ms:.3} ms"),
    }
}

/// The rate of some operations.
pub fn rate(operations: u64, elapsed: Duration) -> String {
    let per_second = operations as f64 / elapsed.as_secs_f64();
    if per_second >= 10_000.0 {
        format!("{:.0} k/s", per_second / 1e3)
    } else {
        format!("{per_second:.0} /s")
    }
}
