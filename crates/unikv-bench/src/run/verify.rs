//! The full check at the end of a run: every record that was acknowledged is there with a value it
//! may have, in order, and nothing else is.

use crate::engine::{Direction, Engine};
use crate::failure::Failure;
use crate::measure::trace::Gauge;
use crate::run::shared::Shared;
use crate::workload::keys;
use std::sync::atomic::Ordering;

/// Scans the whole database against the sorted list of all keys. Gives the number of records.
pub fn full_scan<E: Engine>(shared: &Shared<'_, E>, gauge: &Gauge) -> Result<u64, Failure> {
    let present = shared.versions.present();
    // Keys ascend with their codes, so eight bytes per record are enough.
    let mut codes: Vec<u64> = (0..present)
        .filter(|&record| shared.versions.state(record).may_be_there())
        .map(|record| shared.order.code(record))
        .collect();
    codes.sort_unstable();
    let mut expected = codes.iter();
    let mut scanned = 0;
    let visit = |key: &[u8], value: &[u8]| {
        let record = loop {
            let Some(&code) = expected.next() else {
                return Err(unexpected(key, "the end"));
            };
            let wanted = keys::encode(code);
            let record = shared.order.record(&wanted).unwrap_or(u64::MAX);
            if key < &wanted[..] {
                return Err(unexpected(key, &format!("{}", wanted.escape_ascii())));
            }
            if key == &wanted[..] {
                break record;
            }
            if !shared.versions.state(record).may_be_absent() {
                let found = format!("the key {} behind it", key.escape_ascii());
                return Err(shared.mismatch("full scan", record, "its key", found));
            }
        };
        shared.verify_value(
            "full scan",
            record,
            value,
            Some(shared.versions.state(record)),
        )?;
        scanned += 1;
        if scanned % 1024 == 0 {
            gauge.operations.store(scanned, Ordering::Relaxed);
        }
        Ok(())
    };
    shared
        .engine
        .scan(None, Direction::Forwards, usize::MAX, visit)?;
    for &code in expected {
        let record = shared.order.record(&keys::encode(code)).unwrap_or(u64::MAX);
        if !shared.versions.state(record).may_be_absent() {
            return Err(shared.mismatch("full scan", record, "its key", "the end"));
        }
    }
    Ok(scanned)
}

fn unexpected(key: &[u8], expected: &str) -> Failure {
    Failure::verification(format!(
        "full scan: the foreign or misplaced key {}: expected {expected}",
        key.escape_ascii()
    ))
}
