//! `stats`: sizes and counters of a database, and what opening it recovered.

use crate::args::DirArg;
use crate::commands::gc::print_files;
use crate::exit::{Code, Outcome};
use crate::text::to_hex;
use clap::Args;
use indicatif::{HumanBytes, HumanCount};
use serde_json::{Value, json};
use std::io::{self, Write};
use unikv::{GarbageStats, PartitionStats, PinStats, RecoveryReport, StallStats};

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
            "{} flushes, {} merges, {} garbage collections alone, {} splits; {} memtables wait",
            stats.flushes, stats.merges, stats.gcs, stats.splits, stats.sealed_memtables
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

/// All counters, named as in the API.
pub fn stats_to_json(stats: &unikv::Stats) -> Value {
    let partitions: Vec<_> = stats.partitions.iter().map(partition_to_json).collect();
    json!({
        "puts": stats.puts,
        "deletes": stats.deletes,
        "batches": stats.batches,
        "gets": stats.gets,
        "hits": stats.hits,
        "user_bytes_written": stats.user_bytes_written,
        "wal_bytes": stats.wal_bytes,
        "flush_bytes": stats.flush_bytes,
        "ingest_bytes": stats.ingest_bytes,
        "merge_bytes": stats.merge_bytes,
        "gc_bytes": stats.gc_bytes,
        "manifest_bytes": stats.manifest_bytes,
        "read_bytes": stats.read_bytes,
        "reads": stats.reads,
        "flushes": stats.flushes,
        "ingests": stats.ingests,
        "merges": stats.merges,
        "gcs": stats.gcs,
        "splits": stats.splits,
        "merge_copied_bytes": stats.merge_copied_bytes,
        "memory": {
            "budget": stats.memory.budget,
            "memtables": stats.memory.memtables,
            "indexes": stats.memory.indexes,
            "metadata": stats.memory.metadata,
            "jobs": stats.memory.jobs,
            "iterators": stats.memory.iterators,
            "cache": stats.memory.cache,
        },
        "memtable_bytes": stats.memtable_bytes,
        "sealed_memtables": stats.sealed_memtables,
        "unsorted_bytes": stats.unsorted_bytes,
        "unsorted_records": stats.unsorted_records,
        "index_entries": stats.index_entries,
        "index_bytes": stats.index_bytes,
        "index_utilisation": stats.index_utilisation,
        "index_lookups": stats.index_lookups,
        "index_failed_comparisons": stats.index_failed_comparisons,
        "cache_bytes": stats.cache_bytes,
        "cache_capacity": stats.cache_capacity,
        "cache_hits": stats.cache_hits,
        "cache_misses": stats.cache_misses,
        "record_files": stats.record_files,
        "record_file_bytes": stats.record_file_bytes,
        "record_live_bytes": stats.record_live_bytes,
        "key_tables": stats.key_tables,
        "key_table_bytes": stats.key_table_bytes,
        "partitions": partitions,
        "disk_bytes": stats.disk_bytes,
        "pins": pins_to_json(&stats.pins),
        "stalls": stats.stalls,
        "stall_us": micros(stats.stall_time),
        "longest_stall_us": micros(stats.longest_stall),
        "stall_causes": stats.stall_causes.iter().map(stall_to_json).collect::<Vec<_>>(),
        "write_amplification": stats.write_amplification(),
    })
}

fn stall_to_json(stall: &StallStats) -> Value {
    json!({
        "cause": stall.cause.name(),
        "count": stall.count,
        "us": micros(stall.time),
        "longest_us": micros(stall.longest),
    })
}

fn pins_to_json(pins: &PinStats) -> Value {
    json!({
        "snapshots": pins.snapshots,
        "iterators": pins.iterators,
        "views": pins.views,
        "oldest_seq": pins.oldest_seq,
        "oldest_behind": pins.oldest_behind,
        "oldest_age_ms": pins.oldest_age.as_millis() as u64,
        "files": pins.files,
        "bytes": pins.bytes,
    })
}

fn partition_to_json(partition: &PartitionStats) -> Value {
    json!({
        "id": partition.id,
        "start": to_hex(&partition.start),
        "end": partition.end.as_deref().map(to_hex),
        "data_bytes": partition.data_bytes,
        "generations": partition.generations,
        "tables": partition.tables,
        "unsorted_bytes": partition.unsorted_bytes,
        "unsorted_records": partition.unsorted_records,
        "key_tables": partition.key_tables,
        "key_table_bytes": partition.key_table_bytes,
        "sorted_keys": partition.sorted_keys,
        "merges": partition.merges,
    })
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

fn micros(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
