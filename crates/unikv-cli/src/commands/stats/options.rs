//! The options that a database stores, as they are in effect.

use crate::args::{clustering_name, millis, span_in_words};
use indicatif::HumanBytes;
use serde_json::{Map, Value, json};
use std::io::{self, Write};
use unikv::EffectiveOptions;

/// The options that are defaults unless they are set, and then follow the memory budget.
const FOLLOWING: [&str; 3] = ["memtable_bytes", "unsorted_bytes", "partition_bytes"];

/// An option, as a program and as a person reads it.
struct Row {
    name: &'static str,
    /// For programs: with the unit in the name.
    key: &'static str,
    value: Value,
    text: String,
}

fn rows(options: &EffectiveOptions) -> Vec<Row> {
    let row = |name, value, text| Row {
        name,
        key: name,
        value,
        text,
    };
    let bytes = |name, bytes: u64| row(name, json!(bytes), HumanBytes(bytes).to_string());
    let word = |name, word: String| row(name, json!(word), word);
    let ttl = options.default_ttl;
    vec![
        bytes("memory_budget", options.memory_budget),
        bytes("memtable_bytes", options.memtable_bytes),
        bytes("unsorted_bytes", options.unsorted_bytes),
        bytes("partition_bytes", options.partition_bytes),
        bytes("inline_value_bytes", options.inline_value_bytes.into()),
        row(
            "max_space_amp",
            json!(options.max_space_amp),
            format!("{} x the live bytes", options.max_space_amp),
        ),
        word("clustering", clustering_name(options.clustering).to_owned()),
        bytes("key_table_bytes", options.key_table_bytes),
        bytes("block_bytes", options.block_bytes.into()),
        row(
            "scan_merge_limit",
            json!(options.scan_merge_limit),
            format!("{} tables", options.scan_merge_limit),
        ),
        word("compression", options.compression.to_string()),
        Row {
            name: "default_ttl",
            key: "default_ttl_ms",
            value: json!(ttl.map(millis)),
            text: ttl.map_or("never expires".to_owned(), span_in_words),
        },
        bytes("change_window_bytes", options.change_window_bytes),
    ]
}

/// The options, and under `set` the names of those that are not the defaults' own.
pub fn options_to_json(options: &EffectiveOptions) -> Value {
    let rows = rows(options).into_iter();
    let mut fields: Map<String, Value> = rows.map(|row| (row.key.to_owned(), row.value)).collect();
    fields.insert(
        "set".to_owned(),
        json!(options.set.iter().map(|it| it.name()).collect::<Vec<_>>()),
    );
    Value::Object(fields)
}

/// A line for each option: its value, and whether it was set.
pub fn print_options(options: &EffectiveOptions, out: &mut dyn Write) -> io::Result<()> {
    for row in rows(options) {
        let origin = if options.set.iter().any(|it| it.name() == row.name) {
            "set"
        } else if FOLLOWING.contains(&row.name) {
            "default, follows memory_budget"
        } else {
            "default"
        };
        writeln!(out, "{:<20} {:<20} {origin}", row.name, row.text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use unikv::{Db, Options};

    fn options_of(options: Options) -> EffectiveOptions {
        let db = Db::in_memory(options).unwrap();
        let options = db.options();
        db.close().unwrap();
        options
    }

    #[test]
    fn every_option_that_can_be_stored_is_shown() {
        let shown = rows(&options_of(Options::default()));
        for row in &shown {
            let parsed = row.name.parse::<unikv::StoredOption>();
            assert!(parsed.is_ok(), "{}", row.name);
        }
        // The error of a wrong name lists them all.
        let error = "colour".parse::<unikv::StoredOption>().unwrap_err();
        let names = error.remedy().strip_prefix("choose one of ").unwrap();
        let shown: Vec<_> = shown.iter().map(|row| row.name).collect();
        assert_eq!(names.split(", ").collect::<Vec<_>>(), shown);
    }

    #[test]
    fn what_is_set_is_distinguished_from_the_defaults() {
        let options = Options::default().memory_budget(64 << 20);
        let options = options_of(options.default_ttl(Duration::from_secs(90)));
        let mut out = Vec::new();
        print_options(&options, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let line = |name| text.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(line("memory_budget").ends_with(" set"), "{text}");
        assert!(line("memory_budget").contains("64.00 MiB"), "{text}");
        assert!(line("memtable_bytes").ends_with("memory_budget"), "{text}");
        assert!(line("block_bytes").ends_with(" default"), "{text}");
        assert!(line("default_ttl").contains("1m 30s"), "{text}");
        let as_json = options_to_json(&options);
        assert_eq!(as_json["set"], json!(["memory_budget", "default_ttl"]));
        assert_eq!(as_json["default_ttl_ms"], 90_000);
        assert_eq!(as_json["memory_budget"], 64 << 20);
    }
}
