//! What a version edit says.

use super::tables::compression;
use super::{Part, key_text, ranges_text};
use crate::engine::open::stored_options;
use crate::engine::stats::lifetime::LifetimeStats;
use crate::key_table::KeyTableMeta;
use crate::log::DurableSegment;
use crate::options::KeyspaceOptions;
use crate::record::RecordFileMeta;
use crate::version::edit::VersionEdit;
use std::path::Path;

/// The edit's own numbers in `record`, and a part for each thing that it adds or drops.
pub(super) fn parts(record: Part, edit: &VersionEdit) -> Vec<Part> {
    let offset = record.offset;
    let mut parts = vec![numbers(record, edit)];
    let mut add = |part: Part| parts.push(part.within());
    let part = |what| Part::new(what, offset, 0);
    for keyspace in &edit.keyspaces {
        let name = format!("\"{}\"", keyspace.name.escape_default());
        let shown = part("+ keyspace")
            .field("id", keyspace.id.0)
            .field("number", keyspace.data.0)
            .field("name", name);
        let options = KeyspaceOptions::of(keyspace, Path::new(""));
        add(match options {
            Ok(options) => shown.field("options", format!("{options:?}")),
            Err(error) => shown.faulty(error),
        });
    }
    for id in &edit.dropped_keyspaces {
        add(part("- keyspace").field("id", id.0));
    }
    for partition in &edit.partitions {
        let end = partition.end.as_ref();
        add(part("+ partition")
            .field("id", partition.id.0)
            .field("from", key_text(&partition.start))
            .field(
                "to before",
                end.map_or("the end".to_owned(), |key| key_text(key)),
            ));
    }
    for id in &edit.dropped_partitions {
        add(part("- partition").field("id", id.0));
    }
    for meta in &edit.record_files {
        add(record_file(part("+ record file"), meta));
    }
    for number in &edit.dropped_record_files {
        add(part("- record file").field("number", number.0));
    }
    for place in &edit.tables {
        let share = place.share.map_or("all of it".to_owned(), |share| {
            format!("{} records, {} bytes", share.records, share.bytes)
        });
        add(part("+ table")
            .field("partition", place.partition.0)
            .field("generation", place.generation.0)
            .field("slot", place.slot.0)
            .field("record file", place.file.0)
            .field("share", share));
    }
    for (partition, generation) in &edit.dropped_generations {
        add(part("- generation")
            .field("partition", partition.0)
            .field("generation", generation.0));
    }
    for (partition, meta) in &edit.key_tables {
        add(key_table(
            part("+ key table").field("partition", partition.0),
            meta,
        ));
    }
    for (partition, number) in &edit.dropped_key_tables {
        add(part("- key table")
            .field("partition", partition.0)
            .field("number", number.0));
    }
    for run in &edit.scan_runs {
        add(part("+ scan run")
            .field("partition", run.partition.0)
            .field("generation", run.generation.0)
            .field("slots below", run.end.0));
        for meta in &run.tables {
            add(key_table(part("+ key table of the run"), meta).within());
        }
    }
    for (partition, generation) in &edit.dropped_scan_runs {
        add(part("- scan run")
            .field("partition", partition.0)
            .field("generation", generation.0));
    }
    parts
}

fn numbers(mut record: Part, edit: &VersionEdit) -> Part {
    let numbers = [
        ("next file", edit.next_file),
        ("last sequence number", edit.last_seq.map(|seq| seq.0)),
        ("log begins with", edit.wal_low_water.map(|number| number.0)),
        ("clock ms", edit.clock_ms),
        ("next partition", edit.next_partition),
        ("edits before", edit.edits_before),
    ];
    for (name, value) in numbers {
        if let Some(value) = value {
            record = record.field(name, value);
        }
    }
    if let Some(DurableSegment { point, .. }) = edit.wal_durable {
        let until = format!("file {} up to {}", point.file.0, point.offset);
        record = record.field("log durable", until);
    }
    if edit.hash_seed.is_some() {
        // It is a secret: to know it is to be able to make keys collide.
        record = record.field("hash seed", "set");
    }
    if let Some(tag) = &edit.commit_tag {
        record = record.field("commit tag", format!("{} bytes", tag.len()));
    }
    let lifetime = edit.lifetime.as_ref();
    match lifetime.map(|bytes| LifetimeStats::decode(bytes, Path::new(""))) {
        Some(Ok(figures)) => record = record.field("lifetime", format!("{figures:?}")),
        Some(Err(error)) => record = record.faulty(error),
        None => {}
    }
    match edit
        .options
        .as_ref()
        .map(|bytes| stored_options::decode(bytes, Path::new("")))
    {
        Some(Ok(options)) => record.field("options", format!("{options:?}")),
        Some(Err(error)) => record.faulty(error),
        None => record,
    }
}

fn record_file(part: Part, meta: &RecordFileMeta) -> Part {
    let part = compression(part, &meta.compression, meta.len);
    let part = match &meta.ranges {
        Some(ranges) => part.field("range deletes", ranges_text(ranges)),
        None => part,
    };
    part.field("number", meta.number.0)
        .field("bytes", meta.len)
        .field("records", meta.count)
        .field("records end", meta.records_end)
        .field("keys", range(&meta.min_key, &meta.max_key))
        .field(
            "sequence numbers",
            format!("{} to {}", meta.min_seq.0, meta.max_seq.0),
        )
        .field("checksum", format!("{:08x}", meta.checksum))
}

fn key_table(part: Part, meta: &KeyTableMeta) -> Part {
    let refs: Vec<String> = meta
        .refs
        .iter()
        .map(|refs| {
            format!(
                "{}: {} records, {} bytes",
                refs.file.0, refs.count, refs.bytes
            )
        })
        .collect();
    let part = compression(part, &meta.compression, meta.len);
    part.field("number", meta.number.0)
        .field("bytes", meta.len)
        .field("entries", meta.count)
        .field("keys", range(&meta.min_key, &meta.max_key))
        .field(
            "sequence numbers",
            format!("{} to {}", meta.min_seq.0, meta.max_seq.0),
        )
        .field("inline bytes", meta.inline_bytes)
        .field("points to", format!("[{}]", refs.join("; ")))
        .field("checksum", format!("{:08x}", meta.checksum))
}

fn range(min: &[u8], max: &[u8]) -> String {
    format!("{} to {}", key_text(min), key_text(max))
}
