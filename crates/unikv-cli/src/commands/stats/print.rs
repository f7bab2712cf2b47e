//! The figures as text, for a person.

use super::Limits;
use indicatif::{HumanBytes, HumanCount};
use std::io::{self, Write};
use unikv::{HolderStats, PartitionStats, SecondaryStats};

pub(super) fn print_stats(
    stats: &unikv::Stats,
    limits: &Limits,
    out: &mut dyn Write,
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
    if stats.compression_saved_bytes > 0 {
        line(
            "compression",
            format!(
                "{:.2} to 1, {} saved",
                stats.compression_ratio(),
                HumanBytes(stats.compression_saved_bytes)
            ),
        )?;
    }
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
        format!(
            "{}, {} splits and {} joins since the creation",
            stats.partitions.len(),
            stats.lifetime.splits,
            stats.lifetime.joins
        ),
    )?;
    line("pinned", stats.pins.to_string())?;
    line(
        "garbage",
        format!(
            "{} in value logs, of {} that max_space_amp {} allows",
            HumanBytes(limits.dead_bytes),
            HumanBytes(limits.allowed_dead_bytes),
            limits.max_space_amp
        ),
    )?;
    line("memory", stats.memory.to_string())?;
    line(
        "memtables",
        format!(
            "{}, {} more wait to be flushed",
            HumanBytes(stats.memtable_bytes),
            stats.sealed_memtables
        ),
    )?;
    line(
        "read cache",
        format!(
            "{} of {}",
            HumanBytes(stats.cache_bytes),
            HumanBytes(stats.cache_capacity)
        ),
    )?;
    print_activity(stats, out)?;
    print_holders(&stats.holders, out)?;
    print_partitions(&stats.partitions, limits, out)
}

/// Prints what a secondary sees. Its memory is its own and no figure of the database.
pub fn print_followed(stats: &SecondaryStats, out: &mut dyn Write) -> io::Result<()> {
    let mut line = |what: &str, text: String| writeln!(out, "{what:<14}{text}");
    let (seq, lag) = (HumanCount(stats.seq), HumanCount(stats.lag));
    line("writes", format!("up to number {seq}; {lag} more since"))?;
    let sum = |of: fn(&PartitionStats) -> u64| stats.partitions.iter().map(of).sum::<u64>();
    line(
        "data",
        format!(
            "{} in {} partitions, without what is in memtables",
            HumanBytes(sum(|part| part.data_bytes)),
            stats.partitions.len()
        ),
    )?;
    line(
        "UnsortedStore",
        format!(
            "{}, {} records",
            HumanBytes(sum(|part| part.unsorted_bytes)),
            HumanCount(sum(|part| part.unsorted_records))
        ),
    )?;
    print_partitions(&stats.partitions, &Limits::default(), out)
}

/// What jobs did, and what held writers up, since the creation: this process has only just opened
/// the database.
fn print_activity(stats: &unikv::Stats, out: &mut dyn Write) -> io::Result<()> {
    let mut line = |what: &str, text: String| writeln!(out, "{what:<14}{text}");
    let lifetime = &stats.lifetime;
    line(
        "jobs",
        format!(
            "{} flushes, {} merges, {} garbage collections alone, {} splits, {} joins, {} ingests, \
             {} scan merges since the creation",
            lifetime.flushes,
            lifetime.merges,
            lifetime.gcs,
            lifetime.splits,
            lifetime.joins,
            lifetime.ingests,
            lifetime.scan_merges
        ),
    )?;
    for error in &stats.job_errors {
        line("FAILED job", error.to_string())?;
    }
    if stats.disk_full {
        line("disk full", "puts are refused".to_owned())?;
    }
    if let (Some(behind), bytes @ 1..) = (stats.job_clock_behind, stats.expired_kept_bytes) {
        let behind = humantime::format_duration(behind);
        let bytes = HumanBytes(bytes);
        line(
            "expired, kept",
            format!(
                "{bytes}: the clock of jobs is {behind} behind; if the wall clock is right, \
                 `compact --trust-clock` removes them"
            ),
        )?;
    }
    let held_up = if lifetime.stall_causes.is_empty() {
        "never held up since the creation"
    } else {
        "held up since the creation, by"
    };
    line("writers", held_up.to_owned())?;
    for stall in &lifetime.stall_causes {
        line("", stall.to_string())?;
    }
    let writers = [
        ("WAL", lifetime.wal_bytes),
        ("large values", lifetime.large_bytes),
        ("flushes", lifetime.flush_bytes),
        ("ingests", lifetime.ingest_bytes),
        ("merges", lifetime.merge_bytes),
        ("garbage collection", lifetime.gc_bytes),
        ("scan merges", lifetime.scan_merge_bytes),
        ("manifest", lifetime.manifest_bytes),
    ];
    let writers = writers.into_iter().filter(|(_, bytes)| *bytes > 0);
    let writers: Vec<_> = writers
        .map(|(writer, bytes)| format!("{writer} {}", HumanBytes(bytes)))
        .collect();
    line(
        "written",
        format!(
            "{} by the user; {} since the creation",
            HumanBytes(lifetime.user_bytes_written),
            writers.join(", ")
        ),
    )?;
    let reached = stats.record_live_bytes + stats.key_table_bytes + stats.unsorted_bytes;
    line(
        "amplification",
        format!(
            "{:.2} bytes written for each of the user's since the creation; disk {:.2} x what is live or \
             not yet merged",
            lifetime.write_amplification(),
            stats.disk_bytes as f64 / reached.max(1) as f64
        ),
    )
}

/// The oldest snapshots and iterators, one each line.
fn print_holders(holders: &[HolderStats], out: &mut dyn Write) -> io::Result<()> {
    const MOST: usize = 10;
    for (nth, holder) in holders.iter().take(MOST).enumerate() {
        let what = if nth == 0 { "held by" } else { "" };
        writeln!(out, "{what:<14}{holder}")?;
    }
    match holders.len().saturating_sub(MOST) {
        0 => Ok(()),
        more => writeln!(out, "{:<14}and {more} younger ones", ""),
    }
}

/// Sizes of each partition, with their shares of the sizes at which it is split and merged.
fn print_partitions(
    partitions: &[PartitionStats],
    limits: &Limits,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(
        out,
        "\n{:>9} {:>11} {:>8} {:>11} {:>8} {:>5} {:>7} {:>10} {:>11} {:>12}  keyspace and range",
        "partition",
        "data",
        "of limit",
        "unsorted",
        "of limit",
        "gens",
        "tables",
        "key tables",
        "of bytes",
        "sorted keys"
    )?;
    for partition in partitions {
        writeln!(
            out,
            "{:>9} {:>11} {:>8} {:>11} {:>8} {:>5} {:>7} {:>10} {:>11} {:>12}  {}",
            partition.id,
            HumanBytes(partition.data_bytes).to_string(),
            percent(partition.data_bytes, limits.partition_bytes),
            HumanBytes(partition.unsorted_bytes).to_string(),
            percent(partition.unsorted_bytes, limits.unsorted_bytes),
            partition.generations,
            partition.tables,
            partition.key_tables,
            HumanBytes(partition.key_table_bytes).to_string(),
            HumanCount(partition.sorted_keys).to_string(),
            partition
        )?;
    }
    Ok(())
}

fn percent(bytes: u64, limit: u64) -> String {
    match limit {
        0 => "?".to_owned(),
        limit => format!("{:.0} %", bytes as f64 * 100.0 / limit as f64),
    }
}
