//! The figures of an open database as text, for a person to read.

use super::holders::{ClosingReport, DueJob, HolderStats, RunningJob, StillOpen};
use super::meter::LatencyStats;
use super::pins::PinStats;
use super::report::{CheckReport, Problem};
use super::stalls::StallStats;
use super::{PartitionStats, Stats};
use crate::base::text::{Count, Size, line};
use crate::engine::health::JobError;
use crate::engine::memory::MemoryStats;
use std::fmt;
use std::time::Duration;

/// At most as many entries of a list are shown.
const MOST_SHOWN: usize = 10;

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// A line for each part of the database.
impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        line(f, "disk", Size(self.disk_bytes))?;
        let (files, bytes) = (self.record_files, Size(self.record_file_bytes));
        let live = Size(self.record_live_bytes);
        line(
            f,
            "record files",
            format_args!("{files}, {bytes}; {live} are live in value logs"),
        )?;
        let (files, bytes) = (self.key_tables, Size(self.key_table_bytes));
        line(f, "key tables", format_args!("{files}, {bytes}"))?;
        if self.compression_saved_bytes > 0 {
            let (ratio, saved) = (self.compression_ratio(), Size(self.compression_saved_bytes));
            line(
                f,
                "compression",
                format_args!("{ratio:.2} to 1, {saved} saved"),
            )?;
        }
        let (bytes, records) = (Size(self.unsorted_bytes), Count(self.unsorted_records));
        line(
            f,
            "UnsortedStore",
            format_args!("{bytes}, {records} records"),
        )?;
        let (entries, bytes) = (Count(self.index_entries), Size(self.index_bytes));
        let used = self.index_utilisation * 100.0;
        line(
            f,
            "hash index",
            format_args!("{entries} entries in {bytes}, {used:.0} % used"),
        )?;
        let (splits, joins) = (self.lifetime.splits, self.lifetime.joins);
        let partitions = self.partitions.len();
        let since = "since the creation";
        line(
            f,
            "partitions",
            format_args!("{partitions}, {splits} splits and {joins} joins {since}"),
        )?;
        line(f, "pinned", &self.pins)?;
        line(f, "memory", &self.memory)?;
        let (bytes, sealed) = (Size(self.memtable_bytes), self.sealed_memtables);
        line(
            f,
            "memtables",
            format_args!("{bytes}, {sealed} more wait to be flushed"),
        )?;
        let (bytes, capacity) = (Size(self.cache_bytes), Size(self.cache_capacity));
        line(f, "read cache", format_args!("{bytes} of {capacity}"))?;
        self.fmt_activity(f)
    }
}

impl Stats {
    fn fmt_activity(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (flushes, merges, gcs) = (self.flushes, self.merges, self.gcs);
        let jobs = format_args!("{flushes} flushes, {merges} merges, {gcs} garbage collections");
        line(f, "jobs", jobs)?;
        for error in &self.job_errors {
            line(f, "FAILED job", error)?;
        }
        if self.disk_full {
            line(f, "disk full", "puts are refused")?;
        }
        if self.stall_causes.is_empty() {
            line(f, "writers", "never held up since the opening")?;
        }
        for stall in &self.stall_causes {
            line(f, "held up by", stall)?;
        }
        for holder in self.holders.iter().take(MOST_SHOWN) {
            line(f, "held by", holder)?;
        }
        let (user, amp) = (Size(self.user_bytes_written), self.write_amplification());
        line(
            f,
            "written",
            format_args!("{user} by the user, and {amp:.2} bytes for each of these"),
        )
    }
}

/// The keyspace, and from the first key to the first key after.
impl fmt::Display for PartitionStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.keyspace {
            Some(name) => write!(f, "{}", name.escape_debug())?,
            None => f.write_str("(dropped)")?,
        }
        match self.start.as_slice() {
            [] => f.write_str(" from the first key")?,
            start => write!(f, " from {}", start.escape_ascii())?,
        }
        match &self.end {
            Some(end) => write!(f, " to before {}", end.escape_ascii()),
            None => f.write_str(" to the last"),
        }
    }
}

/// What is charged to the memory budget, by part.
impl fmt::Display for MemoryStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", Size(self.total()), Size(self.budget))?;
        for (nth, (part, bytes)) in self.parts().into_iter().enumerate() {
            let before = if nth == 0 { ": " } else { ", " };
            write!(f, "{before}{part} {}", Size(bytes))?;
        }
        Ok(())
    }
}

/// What old states keep on disk, and how old the oldest is.
impl fmt::Display for PinStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bytes, files) = (Size(self.bytes), self.files);
        let (snapshots, iterators) = (self.snapshots, self.iterators);
        write!(
            f,
            "{bytes} in {files} files, by {snapshots} snapshots and {iterators} iterators"
        )?;
        if self.oldest_seq.is_some() {
            let (behind, age) = (Count(self.oldest_behind), self.oldest_age.as_secs_f64());
            write!(
                f,
                "; the oldest is {behind} operations behind and {age:.1} s old"
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for StallStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cause, count) = (self.cause.name(), Count(self.count));
        let (all, longest) = (millis(self.time), millis(self.longest));
        write!(
            f,
            "{cause}: {count} times, {all:.0} ms in all, {longest:.1} ms at most"
        )
    }
}

/// Who keeps an old state, since when, and what it costs.
impl fmt::Display for HolderStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, id) = (self.kind.name(), self.id);
        let (age, behind) = (self.age.as_secs_f64(), Count(self.behind));
        write!(f, "{kind} {id}, {age:.1} s old, {behind} operations behind")?;
        if self.pinned_bytes > 0 {
            write!(f, ", keeps {} of files", Size(self.pinned_bytes))?;
        }
        Ok(())
    }
}

impl fmt::Display for StillOpen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, {:.1} s old",
            self.kind.name(),
            self.age.as_secs_f64()
        )
    }
}

impl fmt::Display for ClosingReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.still_open.is_empty() {
            return f.write_str("nothing was open");
        }
        write!(f, "still open: {}", self.still_open.len())?;
        for (nth, open) in self.still_open.iter().take(MOST_SHOWN).enumerate() {
            let before = if nth == 0 { ": " } else { "; " };
            write!(f, "{before}{open}")?;
        }
        Ok(())
    }
}

impl fmt::Display for LatencyStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, measured) = (&self.what, Count(self.measured));
        let (p50, p99, max) = (self.p50, self.p99, self.max);
        write!(
            f,
            "{what}: {measured} measured, p50 {p50:.1?}, p99 {p99:.1?}, max {max:.1?}"
        )
    }
}

fn of_partition(partition: Option<u64>) -> String {
    partition.map_or_else(String::new, |id| format!(" of partition {id}"))
}

impl fmt::Display for DueJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.job)?;
        match (self.partitions.as_slice(), self.partition_count) {
            ([], _) => {}
            ([one], 1) => f.write_str(&of_partition(Some(*one)))?,
            ([first, ..], count) => write!(f, " of {count} partitions from {first} on")?,
        }
        if let Some(rest) = self.retry_in {
            write!(f, ", tried again in {rest:.1?}")?;
        }
        write!(f, ": {}", self.why)
    }
}

impl fmt::Display for RunningJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (job, of) = (&self.job, of_partition(self.partition));
        write!(f, "{job}{of} for {:.1?}: {}", self.running_for, self.why)
    }
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (job, of) = (self.job, of_partition(self.partition));
        write!(
            f,
            "{job}{of}, tried again {} times: {}",
            self.retries, self.message
        )
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (file, offset) = (self.file.display(), self.offset);
        write!(f, "{file} at offset {offset}: {}", self.what)
    }
}

/// A line for each note and problem, and one for what was read.
impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        for problem in &self.problems {
            writeln!(f, "problem: {problem}")?;
        }
        if self.ballast_bytes > 0 {
            let bytes = Size(self.ballast_bytes);
            writeln!(f, "note: {bytes} are kept back for a full disk")?;
        }
        let verdict = match self.problems.len() {
            0 => "no problems".to_owned(),
            1 => "1 problem".to_owned(),
            n => format!("{n} problems"),
        };
        let (files, bytes) = (self.files, Size(self.bytes));
        let (records, keys) = (Count(self.records), Count(self.keys));
        let pointers = Count(self.pointers);
        write!(
            f,
            "{files} files, {bytes}, {records} records, {keys} keys, {pointers} pointers: {verdict}"
        )
    }
}
