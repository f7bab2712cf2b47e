//! `stats`: sizes and counters of a database, and what opening it recovered.

mod as_json;

use crate::args::DirArg;
use crate::commands::gc::print_files;
use crate::exit::{Code, Outcome};
use clap::Args;
use indicatif::{HumanBytes, HumanCount};
use serde_json::json;
use std::io::{self, Write};
use unikv::{GarbageStats, PartitionStats, RecoveryReport, StallStats};

pub use as_json::{recovery_to_json, stats_to_json};

/// `stats DIR`
#[derive(Args)]
pub struct Stats {
    #[command(flatten)]
    dir: DirArg,
    /// List every record file with its live and dead bytes
    #[arg(long)]
    files: bool,
    /// Print everything as a JSON object
    #[arg(long)]
    json: bool,
}

impl Stats {
    pub fn run(self) -> Outcome {
        let db = self.dir.open_existing()?;
        let (stats, recovery) = (db.stats(), db.recovery().clone());
        let (garbage, options) = (db.garbage(), db.options());
        db.close()?;
        let mut out = io::stdout().lock();
        if self.json {
            let report = json!({
                "stats": stats_to_json(&stats),
                "recovery": recovery_to_json(&recovery),
            });
            writeln!(out, "{report}")?;
        } else {
            print_stats(&stats, &garbage, &mut out)?;
            if self.files {
                writeln!(out)?;
                print_files(&garbage.files, &mut out)?;
            }
            writeln!(out, "\noptions: {options:?}")?;
            writeln!(out, "{}", recovery_in_words(&recovery))?;
        }
        Ok(Code::Success)
    }
}

fn print_stats(
    stats: &unikv::Stats,
    garbage: &GarbageStats,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut line = |what: &str, text: String| writeln!(out, "{what:<14}{text}");
    line("disk", HumanBytes(stats.disk_bytes).to_string())?;
    line(
        "record files",
        format!(
            "{}, {} of which {} live",
            stats.record_files,
            HumanBytes(stats.record_file_bytes),
            HumanBytes(stats.record_live_bytes)
        ),
    )?;
    line(
        "key tables",
        format!(
            "{}, {}",
            stats.key_tables,
            HumanBytes(stats.key_table_bytes)
        ),
    )?;
    line(
        "UnsortedStore",
        format!(
            "{}, {} records",
            HumanBytes(stats.unsorted_bytes),
            HumanCount(stats.unsorted_records)
        ),
    )?;
    line(
        "hash index",
        format!(
            "{} entries in {}, {:.0} % used",
            HumanCount(stats.index_entries),
            HumanBytes(stats.index_bytes),
            stats.index_utilisation * 100.0
        ),
    )?;
    line(
        "partitions",
        format!("{}, {} splits", stats.partitions.len(), stats.splits),
    )?;
    line(
        "pinned",
        format!(
            "{} in {} files, by {} snapshots and {} iterators",
            HumanBytes(stats.pins.bytes),
            stats.pins.files,
            stats.pins.snapshots,
            stats.pins.iterators
        ),
    )?;
    line(
        "garbage",
        format!(
            "{} in value logs, of {} that max_space_amp {} allows",
            HumanBytes(garbage.dead_bytes),
            HumanBytes(garbage.allowed_bytes),
            garbage.max_space_amp
        ),
    )?;
    line("memory", memory_in_words(&stats.memory))?;
    for stall in &stats.stall_causes {
        line(
            "stalls",
            format!(
                "{}: {} times, {:?} in all, {:?} at most",
                stall.cause.name(),
                stall.count,
                stall.time,
                stall.longest
            ),
        )?;
    }
    line("memtables", HumanBytes(stats.memtable_bytes).to_string())?;
    line(
        "read cache",
        format!(
            "{} of {}",
            HumanBytes(stats.cache_bytes),
            HumanBytes(stats.cache_capacity)
        ),
    )?;
    print_activity(stats, out)?;
    print_partitions(&stats.partitions, out)
}

/// What jobs did, and what writers waited for, since the opening.
fn print_activity(stats: &unikv::Stats, out: &mut impl Write) -> io::Result<()> {
    let mut line = |what: &str, text: String| writeln!(out, "{what:<14}{text}");
    line(
        "jobs",
        format!(
            "{} flushes, {} merges, {} garbage collections alone, {} splits, {} ingests, {} scan merges; \
             {} memtables wait",
            stats.flushes,
            stats.merges,
            stats.gcs,
            stats.splits,
            stats.ingests,
            stats.scan_merges,
            stats.sealed_memtables
        ),
    )?;
    for error in &stats.job_errors {
        line("FAILED job", format!("{error:?}"))?;
    }
    line(
        "writers",
        format!(
            "waited {} times, {:.0} ms in all, {:.1} ms at most; {} pauses of {:.0} ms in all",
            HumanCount(stats.stalls),
            stats.stall_time.as_secs_f64() * 1e3,
            stats.longest_stall.as_secs_f64() * 1e3,
            HumanCount(stats.pauses),
            stats.pause_time.as_secs_f64() * 1e3
        ),
    )?;
    for stall in stats.stall_causes.iter().filter(|stall| stall.count > 0) {
        line("", stall_in_words(stall))?;
    }
    let reached = stats.record_live_bytes + stats.key_table_bytes + stats.unsorted_bytes;
    line(
        "amplification",
        format!(
            "{:.2} bytes written for each of the user's since the opening; disk {:.2} x what is live or \
             not yet merged",
            stats.write_amplification(),
            stats.disk_bytes as f64 / reached.max(1) as f64
        ),
    )
}

fn print_partitions(partitions: &[PartitionStats], out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "\n{:>9} {:>11} {:>11} {:>5} {:>7} {:>10} {:>11} {:>12} {:>7}  range",
        "partition",
        "data",
        "unsorted",
        "gens",
        "tables",
        "key tables",
        "of bytes",
        "sorted keys",
        "merges"
    )?;
    for partition in partitions {
        writeln!(
            out,
            "{:>9} {:>11} {:>11} {:>5} {:>7} {:>10} {:>11} {:>12} {:>7}  {}",
            partition.id,
            HumanBytes(partition.data_bytes).to_string(),
            HumanBytes(partition.unsorted_bytes).to_string(),
            partition.generations,
            partition.tables,
            partition.key_tables,
            HumanBytes(partition.key_table_bytes).to_string(),
            HumanCount(partition.sorted_keys).to_string(),
            partition.merges,
            range_in_words(partition)
        )?;
    }
    Ok(())
}

/// What is charged to the memory budget, by part.
fn memory_in_words(memory: &unikv::MemoryStats) -> String {
    let parts = [
        ("memtables", memory.memtables),
        ("indexes", memory.indexes),
        ("metadata", memory.metadata),
        ("jobs", memory.jobs),
        ("iterators", memory.iterators),
        ("cache", memory.cache),
    ];
    let parts = parts.map(|(part, bytes)| format!("{part} {}", HumanBytes(bytes)));
    let (total, budget) = (HumanBytes(memory.total()), HumanBytes(memory.budget));
    format!("{total} of {budget}: {}", parts.join(", "))
}

/// From the first key to the first key behind.
fn range_in_words(partition: &PartitionStats) -> String {
    let key = |key: &[u8]| key.escape_ascii().to_string();
    let start = match partition.start.as_slice() {
        [] => "from the first key".to_owned(),
        start => format!("from {}", key(start)),
    };
    match &partition.end {
        Some(end) => format!("{start} to before {}", key(end)),
        None => format!("{start} to the last"),
    }
}

fn stall_in_words(stall: &StallStats) -> String {
    format!(
        "{}: {} times, {:.0} ms in all, {:.1} ms at most",
        stall.cause.name(),
        HumanCount(stall.count),
        stall.time.as_secs_f64() * 1e3,
        stall.longest.as_secs_f64() * 1e3
    )
}

/// One line for a person.
pub fn recovery_in_words(recovery: &RecoveryReport) -> String {
    let mut words = format!(
        "opened in {:.1} ms: {} manifest edits, {} operations ({}) from {} WAL segments, \
         {} records indexed, {} files swept",
        recovery.elapsed.as_secs_f64() * 1e3,
        recovery.manifest_edits,
        HumanCount(recovery.wal_ops),
        HumanBytes(recovery.wal_bytes),
        recovery.wal_segments,
        HumanCount(recovery.index_records),
        recovery.swept.len(),
    );
    for cut in recovery.wal_cut.iter().chain(&recovery.manifest_cut) {
        words.push_str(&format!(
            "; cut {} of {} at offset {}: {}",
            HumanBytes(cut.bytes),
            cut.path.display(),
            cut.offset,
            cut.reason
        ));
    }
    words
}
