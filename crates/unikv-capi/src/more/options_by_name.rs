//! UniKV's own options, by name and as text.

use crate::boundary::args::{Alone, Text};
use crate::boundary::capi;
use crate::boundary::fault::{Fault, Outcome};
use crate::leveldb::options::Options;
use crate::leveldb::reads_and_writes::WriteOptions;
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;
use unikv::{Clustering, Compression, Durability, Tuning};

/// An option with a value that is none of its own.
#[cold]
fn no_value(name: &str, text: &str, expected: impl Display) -> Fault {
    let what = format!("`{text}` is no value of the option `{name}`");
    Fault::misuse(&what, &format!("use {expected}"))
}

fn number<T: FromStr>(name: &str, text: &str) -> Outcome<T> {
    text.parse().map_err(|_| no_value(name, text, "a number"))
}

fn boolean(name: &str, text: &str) -> Outcome<bool> {
    match text {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(no_value(name, text, "true or false")),
    }
}

fn size(name: &str, text: &str) -> Outcome<u64> {
    let expected = "a number of bytes, or one such as 512MB or 64KiB";
    parse_size::parse_size(text).map_err(|_| no_value(name, text, expected))
}

fn small_size(name: &str, text: &str) -> Outcome<u32> {
    let too_large = |_| no_value(name, text, "less than 4 GiB");
    u32::try_from(size(name, text)?).map_err(too_large)
}

/// A time such as `100ms`, `30s`, `15m`, `12h` or `7d`.
fn duration(name: &str, text: &str) -> Outcome<Duration> {
    let refuse = || no_value(name, text, "a time such as 100ms, 30s, 15m, 12h or 7d");
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| refuse())?;
    let seconds = |each: u64| number.checked_mul(each).map(Duration::from_secs);
    let time = match unit {
        "ms" => Some(Duration::from_millis(number)),
        "s" => seconds(1),
        "m" => seconds(60),
        "h" => seconds(3600),
        "d" => seconds(24 * 3600),
        _ => None,
    };
    time.ok_or_else(refuse)
}

fn ttl(name: &str, text: &str) -> Outcome<Duration> {
    match text {
        "never" => Ok(Duration::MAX),
        _ => duration(name, text),
    }
}

fn durability(name: &str, text: &str) -> Outcome<Durability> {
    match (text, text.strip_prefix("periodic:")) {
        ("buffered", _) => Ok(Durability::Buffered),
        ("sync", _) => Ok(Durability::Sync),
        (_, Some(every)) => Ok(Durability::Periodic(duration(name, every)?)),
        _ => Err(no_value(name, text, "buffered, sync, or periodic:100ms")),
    }
}

fn clustering(name: &str, text: &str) -> Outcome<Clustering> {
    match text {
        "automatic" => Ok(Clustering::Automatic),
        "least_writing" => Ok(Clustering::LeastWriting),
        _ => Err(no_value(name, text, "automatic or least_writing")),
    }
}

fn compression(name: &str, text: &str) -> Outcome<Compression> {
    text.parse()
        .map_err(|_| no_value(name, text, "none, lz4, zstd or zstd:LEVEL"))
}

/// Sets an option; the names are those of the engine's.
fn set(options: &mut Options, name: &str, text: &str) -> Outcome<()> {
    macro_rules! table {
        (
            keyspaces { $($shared:ident: $parse_shared:ident,)* }
            database { $($own:ident: $parse_own:ident,)* }
            tuning { $($tuned:ident: $parse_tuned:ident,)* }
        ) => {
            match name {
                $(stringify!($shared) => {
                    let value = $parse_shared(name, text)?;
                    options.change(|engine| engine.$shared(value));
                    options.keyspace = std::mem::take(&mut options.keyspace).$shared(value);
                })*
                $(stringify!($own) => {
                    let value = $parse_own(name, text)?;
                    options.change(|engine| engine.$own(value));
                    options.not_for_keyspaces.get_or_insert(stringify!($own));
                })*
                $(stringify!($tuned) => {
                    let tuning = Tuning::default().$tuned($parse_tuned(name, text)?);
                    options.change(|engine| engine.tuning(tuning));
                    options.not_for_keyspaces.get_or_insert(stringify!($tuned));
                })*
                _ => {
                    let names = [
                        $(stringify!($shared),)* $(stringify!($own),)* $(stringify!($tuned),)*
                    ];
                    let names = names.join(", ");
                    let what = format!("there is no option `{name}`");
                    return Err(Fault::misuse(&what, &format!("the options are {names}")));
                }
            }
        };
    }
    table! {
        keyspaces {
            inline_value_bytes: small_size,
            compression: compression,
            default_ttl: ttl,
        }
        database {
            durability: durability,
            memory_budget: size,
            max_space_amp: number,
            clustering: clustering,
            change_window_bytes: size,
            latencies: boolean,
            slow_after: duration,
            publish_stats: duration,
        }
        tuning {
            memtable_bytes: size,
            unsorted_bytes: size,
            partition_bytes: size,
            key_table_bytes: size,
            block_bytes: small_size,
            background_threads: number,
            scan_merge_limit: number,
        }
    }
    if name == "memory_budget" {
        options.memory_budget = Some(size(name, text)?);
    }
    Ok(())
}

/// Forgets an option that databases store.
fn unset(options: &mut Options, name: &str) -> Outcome<()> {
    options.engine = options.engine.clone().unset(name.parse()?);
    // The options of a keyspace can be set, not forgotten.
    options
        .not_for_keyspaces
        .get_or_insert("unikv_options_unset");
    // LevelDB's functions set these two.
    match name {
        "memory_budget" => (options.memory_budget, options.cache) = (None, None),
        "memtable_bytes" => options.write_buffer = None,
        _ => {}
    }
    Ok(())
}

capi! { functions:
    /// Sets one of UniKV's own options by its name, to a value as text: `memory_budget` ("512MB"),
    /// `max_space_amp` ("1.5"), `durability` ("buffered", "sync", "periodic:100ms"), `compression`
    /// ("none", "lz4", "zstd", "zstd:7"), `default_ttl` ("7d", "never"), `inline_value_bytes`,
    /// `memtable_bytes`, `unsorted_bytes`, `partition_bytes`, `key_table_bytes`, `block_bytes`,
    /// `clustering` ("automatic", "least_writing"), `background_threads`, `scan_merge_limit`,
    /// `change_window_bytes`, `latencies` ("true", "false"), `slow_after` ("100ms") and
    /// `publish_stats` ("1s"). An unknown name, and a value that is none, are errors; a value out
    /// of range is one when the database is opened.
    fn unikv_options_set(options: Alone<Options>, name: Text, value: Text; errptr) {
        set(&mut options, name.str()?, value.str()?)?;
    }

    /// Has the database forget an option that it has stored, by its name: the default holds from
    /// the opening on, unless the option is set afterwards. A database stores `memory_budget`,
    /// `memtable_bytes`, `unsorted_bytes`, `partition_bytes`, `inline_value_bytes`,
    /// `max_space_amp`, `clustering`, `key_table_bytes`, `block_bytes`, `scan_merge_limit`,
    /// `compression`, `default_ttl` and `change_window_bytes`; any other name is an error.
    fn unikv_options_unset(options: Alone<Options>, name: Text; errptr) {
        unset(&mut options, name.str()?)?;
    }

    /// Whether writes fail with `unikv_would_block`, and change nothing, where they would be slowed
    /// down because the background is behind. Default: 0.
    fn unikv_writeoptions_set_no_wait(options: Alone<WriteOptions>, yes: u8) {
        options.set_no_wait(yes != 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_of_the_engine_has_its_name_here() {
        let mut options = Options::default();
        let values = [
            ("inline_value_bytes", "64"),
            ("compression", "zstd:7"),
            ("default_ttl", "7d"),
            ("durability", "periodic:100ms"),
            ("memory_budget", "512MB"),
            ("max_space_amp", "1.25"),
            ("memtable_bytes", "8MiB"),
            ("unsorted_bytes", "64MiB"),
            ("partition_bytes", "1GiB"),
            ("clustering", "least_writing"),
            ("key_table_bytes", "1MiB"),
            ("block_bytes", "4KiB"),
            ("background_threads", "3"),
            ("scan_merge_limit", "4"),
            ("change_window_bytes", "1MiB"),
            ("latencies", "true"),
            ("slow_after", "100ms"),
            ("publish_stats", "1s"),
        ];
        for (name, value) in values {
            set(&mut options, name, value).unwrap();
        }
        let expected = unikv::Options::default()
            .inline_value_bytes(64)
            .compression(Compression::Zstd { level: 7 })
            .default_ttl(Duration::from_secs(7 * 24 * 3600))
            .durability(Durability::Periodic(Duration::from_millis(100)))
            .memory_budget(512_000_000)
            .max_space_amp(1.25)
            .tuning(
                Tuning::default()
                    .memtable_bytes(8 << 20)
                    .unsorted_bytes(64 << 20)
                    .partition_bytes(1 << 30)
                    .key_table_bytes(1 << 20)
                    .block_bytes(4096)
                    .background_threads(3)
                    .scan_merge_limit(4),
            )
            .clustering(Clustering::LeastWriting)
            .change_window_bytes(1 << 20)
            .latencies(true)
            .slow_after(Duration::from_millis(100))
            .publish_stats(Duration::from_secs(1));
        assert_eq!(options.engine, expected);
        // Those that an open database shows are all there.
        let dir = tempfile::TempDir::new().unwrap();
        let db = unikv::Db::open(dir.path(), unikv::Options::default()).unwrap();
        let shown = format!("{:#?}", db.options());
        let fields = shown
            .lines()
            .filter_map(|line| line.strip_prefix("    ")?.split_once(':'));
        // `set` names the options that are set; `in_memory` says how the database was opened.
        let is_option =
            |field: &str| !field.starts_with([' ', '}']) && !["set", "in_memory"].contains(&field);
        for (field, _) in fields.filter(|(field, _)| is_option(field)) {
            assert!(values.iter().any(|(name, _)| *name == field), "{field}");
        }
    }

    #[test]
    fn what_is_unset_is_as_it_was_before_it_was_set() {
        let mut options = Options::default();
        for (name, value) in [("memory_budget", "64MiB"), ("block_bytes", "512")] {
            set(&mut options, name, value).unwrap();
            unset(&mut options, name).unwrap();
        }
        let expected = unikv::Options::default();
        let expected = expected.unset(unikv::StoredOption::MemoryBudget);
        let expected = expected.unset(unikv::StoredOption::BlockBytes);
        assert_eq!(options.for_opening(), expected);
        // What a cache and write buffers stand for is forgotten, too.
        (options.cache, options.write_buffer) = (Some(1 << 30), Some(1 << 20));
        unset(&mut options, "memory_budget").unwrap();
        unset(&mut options, "memtable_bytes").unwrap();
        assert_eq!((options.cache, options.write_buffer), (None, None));
        // Set afterwards, it holds.
        set(&mut options, "block_bytes", "1024").unwrap();
        assert_ne!(options.engine.clone(), expected);
        for name in ["durability", "latencies", "nosuch", ""] {
            let before = options.engine.clone();
            assert!(unset(&mut options, name).is_err(), "{name}");
            assert_eq!(options.engine, before);
        }
    }

    #[test]
    fn what_is_no_value_is_refused() {
        let mut options = Options::default();
        for (name, value) in [
            ("memory_budget", "much"),
            ("memory_budget", ""),
            ("max_space_amp", "x"),
            ("durability", "periodic:"),
            ("durability", "always"),
            ("compression", "snappy"),
            ("default_ttl", "7"),
            ("default_ttl", "99999999999999999999d"),
            ("default_ttl", "18446744073709551615d"),
            ("block_bytes", "5GiB"),
            ("latencies", "yes"),
            ("clustering", ""),
            ("nosuch", "1"),
            ("", ""),
        ] {
            assert!(set(&mut options, name, value).is_err(), "{name}={value}");
        }
        assert_eq!(options.engine, Options::default().engine);
    }
}
