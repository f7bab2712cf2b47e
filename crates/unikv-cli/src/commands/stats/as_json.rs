//! What `stats` shows, as JSON, with the names of the API.

use crate::text::to_hex;
use serde_json::{Value, json};
use std::time::Duration;
use unikv::{
    HolderStats, JobError, LatencyStats, LifetimeStats, PartitionStats, PinStats, RecoveryReport,
    RunningJob, StallStats,
};

/// All figures, named as in the API; times are in microseconds and their names end in `_us`.
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
        "large_values": stats.large_values,
        "large_bytes": stats.large_bytes,
        "flush_bytes": stats.flush_bytes,
        "ingest_bytes": stats.ingest_bytes,
        "merge_bytes": stats.merge_bytes,
        "merge_copied_bytes": stats.merge_copied_bytes,
        "gc_bytes": stats.gc_bytes,
        "gc_copied_bytes": stats.gc_copied_bytes,
        "manifest_bytes": stats.manifest_bytes,
        "read_bytes": stats.read_bytes,
        "reads": stats.reads,
        "flushes": stats.flushes,
        "ingests": stats.ingests,
        "merges": stats.merges,
        "gcs": stats.gcs,
        "splits": stats.splits,
        "joins": stats.joins,
        "scan_merges": stats.scan_merges,
        "failed_scan_merges": stats.failed_scan_merges,
        "scan_merge_bytes": stats.scan_merge_bytes,
        "scan_run_bytes": stats.scan_run_bytes,
        "clusterings": stats.clusterings,
        "clustered_bytes": stats.clustered_bytes,
        "failed_clusterings": stats.failed_clusterings,
        "memory": {
            "budget": stats.memory.budget,
            "memtables": stats.memory.memtables,
            "indexes": stats.memory.indexes,
            "metadata": stats.memory.metadata,
            "jobs": stats.memory.jobs,
            "iterators": stats.memory.iterators,
            "cache": stats.memory.cache,
            "handed_out": stats.memory.handed_out,
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
        "pointer_index_bytes": stats.pointer_index_bytes,
        "cache_hits": stats.cache_hits,
        "cache_misses": stats.cache_misses,
        "record_files": stats.record_files,
        "record_file_bytes": stats.record_file_bytes,
        "record_live_bytes": stats.record_live_bytes,
        "key_tables": stats.key_tables,
        "key_table_bytes": stats.key_table_bytes,
        "compression_saved_bytes": stats.compression_saved_bytes,
        "compression_ratio": stats.compression_ratio(),
        "partitions": partitions,
        "disk_bytes": stats.disk_bytes,
        "pins": pins_to_json(&stats.pins),
        "pauses": stats.pauses,
        "pause_us": micros(stats.pause_time),
        "stalls": stats.stalls,
        "stall_us": micros(stats.stall_time),
        "longest_stall_us": micros(stats.longest_stall),
        "stall_causes": stalls_to_json(&stats.stall_causes),
        "disk_full": stats.disk_full,
        "expires": stats.expires,
        "clock_jump_ms": stats.clock_jump.map(|jump| micros(jump) / 1000),
        "ballast_bytes": stats.ballast_bytes,
        "job_errors": stats.job_errors.iter().map(job_error_to_json).collect::<Vec<_>>(),
        "written_bytes": stats.written_bytes(),
        "write_amplification": stats.write_amplification(),
        "lifetime": lifetime_to_json(&stats.lifetime),
        "listener_panics": stats.listener_panics,
        "latencies": stats.latencies.iter().map(latency_to_json).collect::<Vec<_>>(),
        "running_jobs": stats.running_jobs.iter().map(running_to_json).collect::<Vec<_>>(),
        "holders": stats.holders.iter().map(holder_to_json).collect::<Vec<_>>(),
    })
}

fn latency_to_json(times: &LatencyStats) -> Value {
    let us = |time: Duration| time.as_secs_f64() * 1e6;
    json!({
        "what": times.what,
        "is_job": times.is_job,
        "measured": times.measured,
        "one_in": times.one_in,
        "sum_us": us(times.sum),
        "p50_us": us(times.p50),
        "p90_us": us(times.p90),
        "p99_us": us(times.p99),
        "p999_us": us(times.p999),
        "max_us": us(times.max),
    })
}

fn running_to_json(job: &RunningJob) -> Value {
    json!({
        "job": job.job,
        "partition": job.partition,
        "running_for_us": micros(job.running_for),
    })
}

fn holder_to_json(holder: &HolderStats) -> Value {
    json!({
        "kind": holder.kind.name(),
        "id": holder.id,
        "age_us": micros(holder.age),
        "seq": holder.seq,
        "behind": holder.behind,
        "holds_view": holder.holds_view,
        "pinned_bytes": holder.pinned_bytes,
    })
}

/// What was counted since the creation; all else counts from the opening.
fn lifetime_to_json(lifetime: &LifetimeStats) -> Value {
    json!({
        "user_bytes_written": lifetime.user_bytes_written,
        "wal_bytes": lifetime.wal_bytes,
        "large_bytes": lifetime.large_bytes,
        "flush_bytes": lifetime.flush_bytes,
        "ingest_bytes": lifetime.ingest_bytes,
        "merge_bytes": lifetime.merge_bytes,
        "gc_bytes": lifetime.gc_bytes,
        "clustered_bytes": lifetime.clustered_bytes,
        "scan_cost": lifetime.scan_cost,
        "scan_merge_bytes": lifetime.scan_merge_bytes,
        "manifest_bytes": lifetime.manifest_bytes,
        "flushes": lifetime.flushes,
        "ingests": lifetime.ingests,
        "merges": lifetime.merges,
        "gcs": lifetime.gcs,
        "splits": lifetime.splits,
        "joins": lifetime.joins,
        "scan_merges": lifetime.scan_merges,
        "stall_causes": stalls_to_json(&lifetime.stall_causes),
        "written_bytes": lifetime.written_bytes(),
        "write_amplification": lifetime.write_amplification(),
    })
}

fn job_error_to_json(error: &JobError) -> Value {
    json!({
        "job": error.job,
        "partition": error.partition,
        "message": error.message,
        "retries": error.retries,
    })
}

fn stalls_to_json(stalls: &[StallStats]) -> Vec<Value> {
    stalls.iter().map(stall_to_json).collect()
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
        "version_bytes": pins.version_bytes,
    })
}

fn partition_to_json(partition: &PartitionStats) -> Value {
    json!({
        "id": partition.id,
        "keyspace": partition.keyspace,
        "start": to_hex(&partition.start),
        "end": partition.end.as_deref().map(to_hex),
        "data_bytes": partition.data_bytes,
        "generations": partition.generations,
        "tables": partition.tables,
        "scan_sources": partition.scan_sources,
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

fn micros(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of the fields of a struct, as its `Debug` lists them.
    fn fields(debug: &str) -> Vec<String> {
        let outer = debug.lines().filter_map(|line| line.strip_prefix("    "));
        let names = outer.filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()));
        let names = names.filter_map(|line| line.split_once(':'));
        names.map(|(name, _)| name.to_owned()).collect()
    }

    #[track_caller]
    fn assert_whole(value: &Value, debug: &str) {
        let fields = fields(debug);
        assert!(fields.len() > 5, "{debug}");
        for field in fields {
            let stem = field.trim_end_matches("_time");
            let names = [field.clone(), format!("{stem}_us"), format!("{stem}_ms")];
            let found = names.iter().any(|name| value.get(name).is_some());
            assert!(found, "{field} is missing in {value}");
        }
    }

    #[test]
    fn no_figure_is_left_out() {
        let stats = unikv::Stats::default();
        let value = stats_to_json(&stats);
        assert_whole(&value, &format!("{stats:#?}"));
        assert_whole(&value["lifetime"], &format!("{:#?}", stats.lifetime));
        assert_whole(&value["memory"], &format!("{:#?}", stats.memory));
        assert_whole(&value["pins"], &format!("{:#?}", stats.pins));
        let partition = PartitionStats::default();
        assert_whole(&partition_to_json(&partition), &format!("{partition:#?}"));
    }
}
