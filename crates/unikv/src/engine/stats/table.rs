//! Every counter once: where it is counted, where [`Stats`](super::Stats) shows it, and where and
//! under which tag the figures over a database's life keep it. The tags are in the manifest and
//! never change; 16 is that of stalls (`lifetime`).

macro_rules! each_counter {
    ($then:ident) => {
        $then! {
            user_bytes: stats user_bytes_written, life user_bytes_written = 1;
            wal_bytes: stats wal_bytes, life wal_bytes = 2;
            large_bytes: stats large_bytes, life large_bytes = 3;
            flush_bytes: stats flush_bytes, life flush_bytes = 4;
            ingest_bytes: stats ingest_bytes, life ingest_bytes = 5;
            merge_bytes: stats merge_bytes, life merge_bytes = 6;
            gc_bytes: stats gc_bytes, life gc_bytes = 7;
            scan_merge_bytes: stats scan_merge_bytes, life scan_merge_bytes = 8;
            retired_manifest_bytes: life manifest_bytes = 9;
            flushes: stats flushes, life flushes = 10;
            ingests: stats ingests, life ingests = 11;
            merges: stats merges, life merges = 12;
            gcs: stats gcs, life gcs = 13;
            splits: stats splits, life splits = 14;
            scan_merges: stats scan_merges, life scan_merges = 15;
            joins: stats joins, life joins = 17;
            operations: ;
            deletes: stats deletes;
            batches: stats batches;
            gets: stats gets;
            hits: stats hits;
            large_values: stats large_values;
            merge_copied_bytes: stats merge_copied_bytes;
            gc_copied_bytes: stats gc_copied_bytes;
            failed_scan_merges: stats failed_scan_merges;
            clusterings: stats clusterings;
            clustered_bytes: stats clustered_bytes, life clustered_bytes = 18;
            failed_clusterings: stats failed_clusterings;
            stalls: stats stalls;
            stall_ns: ;
            longest_stall_ns: ;
            pauses: stats pauses;
            pause_ns: ;
        }
    };
}

pub(crate) use each_counter;
