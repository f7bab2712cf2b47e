//! The names of the files of a database. See `docs/format.md`, "File names".
//!
//! A number is printed with at least six digits and parsed only in that one spelling, so that a
//! name and a number stand for each other and a stranger's file is never taken for ours. A number
//! that no database reaches is a stranger's, too: after ours there is always a next one.

use super::keys::{FileNumber, MOST_NUMBERS};
use std::fmt;

/// The pointer to the current manifest.
pub(crate) const CURRENT: &str = "CURRENT";
/// The next `CURRENT`, until it is renamed.
pub(crate) const CURRENT_TEMP: &str = "CURRENT.tmp";
/// Where what the read cache held stands in the data files.
pub(crate) const CACHE_HINTS: &str = "CACHE-HINTS";
/// The next `CACHE-HINTS`, until it is renamed.
pub(crate) const CACHE_HINTS_TEMP: &str = "CACHE-HINTS.tmp";
/// The figures that the process which has the database open publishes.
pub(crate) const STATS: &str = "STATS";
/// The next `STATS`, until it is renamed.
pub(crate) const STATS_TEMP: &str = "STATS.tmp";
/// Blocks held back for a full disk; its bytes mean nothing.
pub(crate) const BALLAST: &str = "BALLAST";
/// Stands in the directory that a repair writes to, until the salvaged database is complete.
pub(crate) const REPAIRING: &str = "REPAIRING";
/// The page in which a writer says what is visible, for secondaries.
pub(crate) const VISIBLE: &str = "VISIBLE";
/// The next `VISIBLE`, until it is renamed.
pub(crate) const VISIBLE_TEMP: &str = "VISIBLE.tmp";
/// Held by the process that has the database open.
pub(crate) const LOCK: &str = "LOCK";

const MANIFEST_PREFIX: &str = "MANIFEST-";
const WAL_SUFFIX: &str = ".wal";
const RECORD_SUFFIX: &str = ".rec";
const KEY_TABLE_SUFFIX: &str = ".key";
const SPILL_SUFFIX: &str = ".sort";

/// What a file of a database directory is, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum FileName {
    Current,
    Lock,
    Ballast,
    Manifest(FileNumber),
    Wal(FileNumber),
    Record(FileNumber),
    KeyTable(FileNumber),
    /// The directory is the unfinished output of a repair.
    Repairing,
    /// What a repair has sorted so far; an orphan file after a crash.
    Spill(FileNumber),
    /// For speed alone.
    CacheHints,
    /// Half-written; an orphan file after a crash.
    Temp,
    /// The same of the cache's hints.
    CacheHintsTemp,
    /// Means something while a writer holds it.
    Visible,
    /// The next one; an orphan file after a crash.
    VisibleTemp,
    /// Figures for other processes.
    Stats,
    /// The same, half-written.
    StatsTemp,
}

impl FileName {
    /// The number in the name, where there is one.
    pub(crate) fn number(self) -> Option<FileNumber> {
        match self {
            FileName::Manifest(n)
            | FileName::Wal(n)
            | FileName::Record(n)
            | FileName::KeyTable(n) => Some(n),
            FileName::Current
            | FileName::Lock
            | FileName::Ballast
            | FileName::Repairing
            | FileName::Spill(_)
            | FileName::CacheHints
            | FileName::Temp
            | FileName::CacheHintsTemp
            | FileName::Visible
            | FileName::VisibleTemp
            | FileName::Stats
            | FileName::StatsTemp => None,
        }
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            FileName::Current => f.write_str(CURRENT),
            FileName::Lock => f.write_str(LOCK),
            FileName::Ballast => f.write_str(BALLAST),
            FileName::Repairing => f.write_str(REPAIRING),
            FileName::Spill(n) => f.write_str(&spill(n)),
            FileName::CacheHints => f.write_str(CACHE_HINTS),
            FileName::Temp => f.write_str(CURRENT_TEMP),
            FileName::CacheHintsTemp => f.write_str(CACHE_HINTS_TEMP),
            FileName::Visible => f.write_str(VISIBLE),
            FileName::VisibleTemp => f.write_str(VISIBLE_TEMP),
            FileName::Stats => f.write_str(STATS),
            FileName::StatsTemp => f.write_str(STATS_TEMP),
            FileName::Manifest(n) => f.write_str(&manifest(n)),
            FileName::Wal(n) => f.write_str(&wal(n)),
            FileName::Record(n) => f.write_str(&record(n)),
            FileName::KeyTable(n) => f.write_str(&key_table(n)),
        }
    }
}

/// The name of manifest `n`.
pub(crate) fn manifest(n: FileNumber) -> String {
    format!("{MANIFEST_PREFIX}{:06}", n.0)
}

/// The name of segment `n` of the write-ahead log.
pub(crate) fn wal(n: FileNumber) -> String {
    format!("{:06}{WAL_SUFFIX}", n.0)
}

/// The name of record file `n`.
pub(crate) fn record(n: FileNumber) -> String {
    format!("{:06}{RECORD_SUFFIX}", n.0)
}

/// The name of key table `n`.
pub(crate) fn key_table(n: FileNumber) -> String {
    format!("{:06}{KEY_TABLE_SUFFIX}", n.0)
}

/// The name of spill `n` of a repair.
pub(crate) fn spill(n: FileNumber) -> String {
    format!("{:06}{SPILL_SUFFIX}", n.0)
}

/// What `name` is; `None` for a file that is not ours.
pub(crate) fn parse(name: &str) -> Option<FileName> {
    match name {
        CURRENT => return Some(FileName::Current),
        CURRENT_TEMP => return Some(FileName::Temp),
        CACHE_HINTS => return Some(FileName::CacheHints),
        CACHE_HINTS_TEMP => return Some(FileName::CacheHintsTemp),
        VISIBLE => return Some(FileName::Visible),
        VISIBLE_TEMP => return Some(FileName::VisibleTemp),
        STATS => return Some(FileName::Stats),
        STATS_TEMP => return Some(FileName::StatsTemp),
        LOCK => return Some(FileName::Lock),
        BALLAST => return Some(FileName::Ballast),
        REPAIRING => return Some(FileName::Repairing),
        _ => {}
    }
    if let Some(digits) = name.strip_prefix(MANIFEST_PREFIX) {
        return Some(FileName::Manifest(parse_number(digits)?));
    }
    if let Some(digits) = name.strip_suffix(WAL_SUFFIX) {
        return Some(FileName::Wal(parse_number(digits)?));
    }
    if let Some(digits) = name.strip_suffix(RECORD_SUFFIX) {
        return Some(FileName::Record(parse_number(digits)?));
    }
    if let Some(digits) = name.strip_suffix(SPILL_SUFFIX) {
        return Some(FileName::Spill(parse_number(digits)?));
    }
    let digits = name.strip_suffix(KEY_TABLE_SUFFIX)?;
    Some(FileName::KeyTable(parse_number(digits)?))
}

fn parse_number(digits: &str) -> Option<FileNumber> {
    let number: u64 = digits.parse().ok()?;
    let ours = number < MOST_NUMBERS && format!("{number:06}") == digits;
    ours.then_some(FileNumber(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_stand_for_each_other() {
        for n in [0, 1, 42, 999_999, 1_000_000, MOST_NUMBERS - 1].map(FileNumber) {
            assert_eq!(parse(&manifest(n)), Some(FileName::Manifest(n)));
            assert_eq!(parse(&wal(n)), Some(FileName::Wal(n)));
            assert_eq!(parse(&record(n)), Some(FileName::Record(n)));
            assert_eq!(parse(&key_table(n)), Some(FileName::KeyTable(n)));
            assert_eq!(parse(&spill(n)), Some(FileName::Spill(n)));
        }
        assert_eq!(wal(FileNumber(12)), "000012.wal");
        assert_eq!(manifest(FileNumber(1)), "MANIFEST-000001");
        assert_eq!(parse("CURRENT"), Some(FileName::Current));
        assert_eq!(parse("LOCK"), Some(FileName::Lock));
        assert_eq!(parse("BALLAST"), Some(FileName::Ballast));
        assert_eq!(parse("CURRENT.tmp"), Some(FileName::Temp));
        for name in [
            "CURRENT",
            "CURRENT.tmp",
            "CACHE-HINTS",
            "CACHE-HINTS.tmp",
            "VISIBLE",
            "VISIBLE.tmp",
            "STATS",
            "STATS.tmp",
            "LOCK",
            "BALLAST",
            "REPAIRING",
            "000003.sort",
            "000007.rec",
            "1000000.key",
        ] {
            assert_eq!(parse(name).map(|n| n.to_string()).as_deref(), Some(name));
        }
    }

    #[test]
    fn strangers_are_not_taken_for_ours() {
        for name in [
            "",
            ".wal",
            "1.wal",
            "0000012.wal",
            "+00012.wal",
            "00001x.rec",
            "000012.wal2",
            "MANIFEST-",
            "MANIFEST-1",
            "manifest-000001",
            "current",
            "notes.txt",
            "x.tmp",
            "99999999999999999999.key",
            // Behind it there would be no room for the number of the next file.
            "18446744073709551615.rec",
            "MANIFEST-4611686018427387904",
            "000012.WAL",
            " 00012.wal",
        ] {
            assert_eq!(parse(name), None, "{name:?}");
        }
    }
}
