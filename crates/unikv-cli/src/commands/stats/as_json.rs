//! What `stats` shows, as JSON: the figures as the library serializes them, with times as numbers
//! whose names say the unit, causes and kinds by their names, and sums that are worked out.

use crate::args::millis;
use serde_json::{Map, Value, json};
use std::time::Duration;
use unikv::{RecoveryReport, StallStats};

/// Times in milliseconds. All others are in microseconds.
const IN_MS: [&str; 2] = ["job_clock_behind", "oldest_age"];
/// The list whose times are not whole.
const LATENCIES: &str = "latencies";

/// All figures, named as in the API; the names of times end in their unit.
pub fn stats_to_json(stats: &unikv::Stats) -> Value {
    // Numbers, text and lists: nothing of it can fail.
    let mut value = serde_json::to_value(stats).unwrap_or_default();
    name_times(&mut value, true);
    name_causes(&mut value["stall_causes"], &stats.stall_causes);
    value["compression_ratio"] = json!(stats.compression_ratio());
    value["written_bytes"] = json!(stats.written_bytes());
    value["write_amplification"] = json!(stats.write_amplification());
    let lifetime = &stats.lifetime;
    name_causes(
        &mut value["lifetime"]["stall_causes"],
        &lifetime.stall_causes,
    );
    value["lifetime"]["written_bytes"] = json!(lifetime.written_bytes());
    value["lifetime"]["write_amplification"] = json!(lifetime.write_amplification());
    for (nth, holder) in stats.holders.iter().enumerate() {
        value["holders"][nth]["kind"] = json!(holder.kind.name());
    }
    value
}

/// What a secondary sees, in the same way.
pub fn secondary_to_json(stats: &unikv::SecondaryStats) -> Value {
    let mut value = serde_json::to_value(stats).unwrap_or_default();
    name_times(&mut value, true);
    value
}

fn name_causes(values: &mut Value, stalls: &[StallStats]) {
    for (nth, stall) in stalls.iter().enumerate() {
        values[nth]["cause"] = json!(stall.cause.name());
    }
}

/// Gives each time in a value its name and its number; whole or not.
fn name_times(value: &mut Value, whole: bool) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(|value| name_times(value, whole)),
        Value::Object(fields) => {
            let renamed = std::mem::take(fields).into_iter().map(|(name, mut value)| {
                let time = time_of(&value);
                if time.is_none() && !is_absent_time(&name, &value) {
                    name_times(&mut value, whole && name != LATENCIES);
                    return (name, value);
                }
                named_time(&name, time, whole)
            });
            *fields = renamed.collect::<Map<_, _>>();
        }
        _ => {}
    }
}

/// The time that a value stands for, if it is one.
fn time_of(value: &Value) -> Option<Duration> {
    let fields = value.as_object().filter(|fields| fields.len() == 2)?;
    let (secs, nanos) = (
        fields.get("secs")?.as_u64()?,
        fields.get("nanos")?.as_u64()?,
    );
    Some(Duration::new(secs, u32::try_from(nanos).ok()?))
}

/// Whether a field without a value would have a time.
fn is_absent_time(name: &str, value: &Value) -> bool {
    value.is_null() && IN_MS.contains(&name)
}

fn named_time(name: &str, time: Option<Duration>, whole: bool) -> (String, Value) {
    if IN_MS.contains(&name) {
        return (format!("{name}_ms"), json!(time.map(millis)));
    }
    let name = match name {
        "time" => "us".to_owned(),
        name => format!("{}_us", name.trim_end_matches("_time")),
    };
    if whole {
        (name, json!(time.map(micros)))
    } else {
        (name, json!(time.map(|time| time.as_secs_f64() * 1e6)))
    }
}

/// What opening recovered, named as in the API.
pub fn recovery_to_json(recovery: &RecoveryReport) -> Value {
    let cut = |cut: &Option<unikv::TailCut>| {
        cut.as_ref().map(|cut| {
            json!({
                "file": cut.path.to_string_lossy(),
                "offset": cut.offset,
                "bytes": cut.bytes,
                "reason": cut.reason,
            })
        })
    };
    json!({
        "created": recovery.created,
        "manifest_edits": recovery.manifest_edits,
        "wal_segments": recovery.wal_segments,
        "wal_records": recovery.wal_records,
        "wal_operations": recovery.wal_ops,
        "wal_bytes": recovery.wal_bytes,
        "wal_cut": cut(&recovery.wal_cut),
        "manifest_cut": cut(&recovery.manifest_cut),
        "index_records": recovery.index_records,
        "swept": recovery.swept,
        "elapsed_us": micros(recovery.elapsed),
    })
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use unikv::{Db, Options};

    /// The names in a value, with those in lists and objects below it.
    fn names(value: &Value) -> Vec<String> {
        let mut found = Vec::new();
        match value {
            Value::Array(values) => values.iter().for_each(|value| found.extend(names(value))),
            Value::Object(fields) => {
                for (name, value) in fields {
                    found.push(name.clone());
                    let below = names(value).into_iter();
                    found.extend(below.map(|below| format!("{name}.{below}")));
                }
            }
            _ => {}
        }
        found.sort();
        found.dedup();
        found
    }

    #[test]
    fn times_have_units_and_causes_and_kinds_their_names() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), Options::default().latencies(true)).unwrap();
        for n in 0..100_u8 {
            db.put([n, 0xff], "value").unwrap();
        }
        let _held = db.snapshot();
        db.flush().unwrap();
        let stats = db.stats();
        let value = stats_to_json(&stats);
        let names = names(&value);
        assert!(
            !names
                .iter()
                .any(|name| name.contains("secs") || name.contains("nanos"))
        );
        for name in [
            "pause_us",
            "stall_us",
            "longest_stall_us",
            "job_clock_behind_ms",
            "pins.oldest_age_ms",
            "holders.age_us",
            "latencies.sum_us",
            "latencies.p999_us",
            "lifetime.write_amplification",
            "partitions.keyspace",
            "memory.handed_out",
        ] {
            assert!(names.iter().any(|found| found == name), "{name}: {names:?}");
        }
        assert_eq!(value["holders"][0]["kind"], "snapshot");
        assert_eq!(value["puts"], 100);
        assert_eq!(value["written_bytes"], stats.written_bytes());
        assert!(value["job_clock_behind_ms"].is_null());
        assert!(value["latencies"][0]["p50_us"].is_f64(), "{value}");
        assert!(value["pins"]["oldest_age_ms"].is_u64());
        let stall = json!([{ "time": { "secs": 1, "nanos": 5000 }, "cause": "FlushWait" }]);
        let mut named = stall;
        name_times(&mut named, true);
        assert_eq!(named[0]["us"], 1_000_005);
    }
}
