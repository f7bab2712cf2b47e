//! Gathering the claims: which files there are, what judges them, and the walk over all.
//!
//! The log comes first, because its end decides what is newer than anything known; then key tables
//! and record files, in the order of their numbers.
//!
//! No locks; nothing is written but sorted runs.

use super::RepairOptions;
use super::files::{Files, Found, describe, look_at, path_of};
use super::log::Replay;
use super::report::{RepairReport, RepairTrust};
use crate::base::file_header::FileKind;
use crate::base::file_names::{self, FileName};
use crate::base::keys::{FileNumber, SeqNo};
use crate::base::range_tombstones::RangeTombstone;
use crate::engine::open::recovery;
use crate::error::Result;
use crate::key_table::KeyTableMeta;
use crate::offline::repair::files::from_files::{FromFiles, Shape, TableFacts};
use crate::offline::repair::files::holes::Hole;
use crate::offline::repair::files::trust::Known;
use crate::offline::repair::files::vouch::Broken;
use crate::offline::repair::files::walk::{TableBounds, Walk};
use crate::offline::repair::keyspaces::KnownKeyspaces;
use crate::offline::repair::resolve::judge::{Judge, Listed};
use crate::offline::repair::resolve::sorter::Sorter;
use crate::record::RecordFileMeta;
use crate::version::file_names::DirSurvey;
use crate::version::{Counters, Version};
use std::collections::{BTreeMap, HashMap, HashSet};

/// What was gathered beside the claims.
pub(super) struct Gathered {
    pub(super) holes: Vec<Hole>,
    pub(super) broken: Vec<Broken>,
    pub(super) unsound: HashSet<FileNumber>,
    pub(super) commit_tag: Option<Vec<u8>>,
    /// The range deletes that were written.
    pub(super) ranges: Vec<RangeTombstone>,
}

/// A record file and what is known of it.
struct Record {
    found: Option<Found>,
    meta: RecordFileMeta,
    /// Frames, where that is known.
    count: Option<u64>,
    listed: bool,
}

/// A key table and what is known of it.
struct Table {
    found: Option<Found>,
    bounds: TableBounds,
    facts: Option<TableFacts>,
}

/// Feeds the sorter with all that the files say.
pub(super) fn gather(
    known: &Known,
    survey: &DirSurvey,
    files: &Files,
    sorter: &mut Sorter<'_>,
    options: &RepairOptions,
    report: &mut RepairReport,
) -> Result<Gathered> {
    let (records, unreadable) = find_records(known, survey, report)?;
    let tables = find_tables(known, survey, report)?;
    for record in records.values() {
        files.add(record.meta.clone());
    }
    let from_manifest = known.trust == RepairTrust::Manifest;
    let counters = known.version.as_ref().map(|version| &version.counters);
    let listed_seq = counters.map_or(SeqNo(0), |counters| counters.flushed_seq);
    let of_records = records.values().map(|record| record.meta.max_seq);
    let of_tables = tables.values().filter_map(|table| table.facts.as_ref());
    let in_files = of_records.chain(of_tables.map(|facts| facts.max_seq)).max();
    let flushed = if from_manifest {
        listed_seq
    } else {
        listed_seq.max(in_files.unwrap_or_default())
    };
    let replay = Replay {
        store: &known.store,
        flushed,
        flushed_is_sure: from_manifest,
        needed: counters.map(Counters::needed_log).unwrap_or_default(),
        partial_batches: options.partial_batches,
        keyspaces: KnownKeyspaces::of(known),
    };
    let segments = recovery::wal_segments(survey);
    let replayed = replay.run(&segments, files, sorter, report)?;
    let mut holes = Vec::new();
    let judge = match &known.version {
        Some(version) if from_manifest => Judge::Listed(Listed::new(version, replayed.last_seq)),
        version => {
            let facts = tables.values().filter_map(|table| table.facts.clone());
            let shapes = records.values().map(|r| (r.meta.number, shape_of(r)));
            let large = records.values().flat_map(|r| &r.meta.refs).map(|r| r.file);
            let large: HashSet<FileNumber> = large.chain(files.learned()).collect();
            // A file of large values is read through what points to it.
            let lost = unreadable.into_iter().filter(|file| !large.contains(file));
            holes.extend(lost.map(|file| unknown_hole(known, file)));
            let shapes: HashMap<FileNumber, Shape> = shapes.collect();
            let (facts, version) = (facts.collect(), version.as_ref());
            Judge::FromFiles(Box::new(FromFiles::new(facts, shapes, large, version)))
        }
    };
    let mut walk = Walk {
        judge: &judge,
        sorter,
        report,
        holes,
        broken: Vec::new(),
        unsound: HashSet::new(),
        ranges: replayed.ranges,
    };
    for (number, table) in &tables {
        match &table.found {
            Some(found) => walk.key_table(found, &table.bounds)?,
            None if is_superseded(&judge, &table.bounds) => {}
            None => {
                let path = path_of(&known.store, FileKind::KeyTable, *number);
                walk.hole_of_table(*number, &table.bounds, path);
            }
        }
    }
    for record in records.values() {
        match &record.found {
            Some(found) => walk.record_file(found, &record.meta, record.count)?,
            None => {
                let path = path_of(&known.store, FileKind::Record, record.meta.number);
                walk.hole_of_records(&record.meta, path);
            }
        }
    }
    let Walk {
        mut holes,
        broken,
        unsound,
        ranges,
        ..
    } = walk;
    holes.extend(ranges.holes);
    let commit_tag = replayed.commit_tag;
    let commit_tag =
        commit_tag.or_else(|| counters.and_then(|counters| counters.commit_tag.clone()));
    Ok(Gathered {
        holes,
        broken,
        unsound,
        commit_tag,
        ranges: ranges.found,
    })
}

/// Whether a key table that the beginning of the manifest lists, and that is not there, may have
/// been merged away by an edit that is lost.
fn is_superseded(judge: &Judge, bounds: &TableBounds) -> bool {
    let max_key = bounds.max_key.as_deref().unwrap_or_default();
    match judge {
        Judge::Listed(_) => false,
        Judge::FromFiles(files) => files.is_overlapped(&bounds.min_key, max_key),
    }
}

/// What a record file is, as far as it says.
fn shape_of(record: &Record) -> Shape {
    let says_so = record.listed || record.found.as_ref().is_some_and(|f| f.facts.is_some());
    match &record.meta {
        _ if !says_so => Shape::Unknown,
        meta if !meta.key_section => Shape::ValueLog,
        meta if meta.max_seq == SeqNo(0) => Shape::Ingested,
        meta => Shape::Table(meta.min_seq),
    }
}

/// The record files of the database; and those of which nothing can be read and nothing is listed.
fn find_records(
    known: &Known,
    survey: &DirSurvey,
    report: &mut RepairReport,
) -> Result<(BTreeMap<FileNumber, Record>, Vec<FileNumber>)> {
    let version = known.version.as_ref();
    let (mut records, mut unreadable) = (BTreeMap::new(), Vec::new());
    for name in &survey.names {
        let FileName::Record(number) = name else {
            continue;
        };
        let meta = version.and_then(|version| version.record_file(*number));
        let meta = meta.map(|file| file.meta().clone());
        let entry = report.file(&name.to_string());
        let listed = meta.as_ref().map(|meta| (meta.uid, meta.len));
        let found = look_at(&known.store, FileKind::Record, *number, listed, entry)?;
        let Some(found) = found else {
            if meta.is_none() && report.file(&name.to_string()).fault_count > 0 {
                unreadable.push(*number);
            }
            continue;
        };
        let facts = found.facts.as_ref();
        let count = meta.as_ref().map(|meta| meta.count);
        let count = count.or_else(|| facts.map(|facts| facts.properties.records));
        let record = Record {
            listed: meta.is_some(),
            meta: meta.unwrap_or_else(|| describe(&found)),
            count,
            found: Some(found),
        };
        records.insert(*number, record);
    }
    let listed = version
        .into_iter()
        .flat_map(|version| version.record_files().iter());
    for file in listed {
        let meta = file.meta();
        if records.contains_key(&meta.number) {
            continue;
        }
        if known.trust == RepairTrust::Manifest {
            let entry = report.file(&file_names::record(meta.number));
            entry.fault(0, "the manifest lists this file, and it is missing");
        }
        let record = Record {
            found: None,
            count: Some(meta.count),
            meta: meta.clone(),
            listed: true,
        };
        records.insert(meta.number, record);
    }
    Ok((records, unreadable))
}

/// What a record file may have held of which nothing is known: anything.
fn unknown_hole(known: &Known, file: FileNumber) -> Hole {
    Hole {
        from: Vec::new(),
        to: None,
        sorted: false,
        max_seq: SeqNo::MAX,
        file,
        path: path_of(&known.store, FileKind::Record, file),
        missing: None,
        of_range_deletes: false,
    }
}

fn find_tables(
    known: &Known,
    survey: &DirSurvey,
    report: &mut RepairReport,
) -> Result<BTreeMap<FileNumber, Table>> {
    let of_version = known.version.iter().flat_map(Version::key_tables);
    let listed: HashMap<_, _> = of_version.map(|t| (t.meta().number, t.meta())).collect();
    let of_runs = known.version.iter().flat_map(Version::scan_runs);
    let runs = of_runs.flat_map(|run| run.tables());
    let runs: HashSet<FileNumber> = runs.map(|table| table.meta().number).collect();
    let from_manifest = known.trust == RepairTrust::Manifest;
    let mut tables = BTreeMap::new();
    for name in &survey.names {
        let FileName::KeyTable(number) = name else {
            continue;
        };
        let meta = listed.get(number);
        let entry = report.file(&name.to_string());
        if runs.contains(number) || (from_manifest && meta.is_none()) {
            // What it says others say, too.
            let path = path_of(&known.store, FileKind::KeyTable, *number);
            entry.bytes = known.store.env().vfs.len(&path).unwrap_or(0);
            entry.ignored = Some(if runs.contains(number) {
                "a scan run, which is derived from tables".to_owned()
            } else {
                "the manifest does not list it".to_owned()
            });
            continue;
        }
        let uid_and_len = meta.map(|meta| (meta.uid, meta.len));
        let found = look_at(
            &known.store,
            FileKind::KeyTable,
            *number,
            uid_and_len,
            entry,
        )?;
        let Some(found) = found else {
            if meta.is_none() && report.file(&name.to_string()).fault_count > 0 {
                let table = Table {
                    found: None,
                    bounds: unknown_bounds(),
                    facts: None,
                };
                tables.insert(*number, table);
            }
            continue;
        };
        let facts = facts_of(&found, meta.copied());
        let bounds = match &facts {
            Some((facts, count)) => TableBounds {
                min_key: facts.min_key.clone(),
                max_key: Some(facts.max_key.clone()),
                max_seq: facts.max_seq,
                count: Some(*count),
                pointers: pointers_of(meta.copied().filter(|_| from_manifest)),
            },
            None => unknown_bounds(),
        };
        let table = Table {
            found: Some(found),
            bounds,
            facts: facts.map(|(facts, _)| facts),
        };
        tables.insert(*number, table);
    }
    for (number, meta) in listed {
        if tables.contains_key(&number) {
            continue;
        }
        if from_manifest {
            let entry = report.file(&file_names::key_table(number));
            entry.fault(0, "the manifest lists this file, and it is missing");
        }
        let table = Table {
            found: None,
            bounds: TableBounds {
                min_key: meta.min_key.clone(),
                max_key: Some(meta.max_key.clone()),
                max_seq: meta.max_seq,
                count: Some(meta.count),
                pointers: pointers_of(Some(meta).filter(|_| from_manifest)),
            },
            facts: None,
        };
        tables.insert(number, table);
    }
    Ok(tables)
}

/// What a key table holds: as the manifest says, or the table itself; with the number of its
/// entries.
fn facts_of(found: &Found, meta: Option<&KeyTableMeta>) -> Option<(TableFacts, u64)> {
    let number = found.number;
    if let Some(meta) = meta {
        let facts = TableFacts {
            number,
            min_key: meta.min_key.clone(),
            max_key: meta.max_key.clone(),
            min_seq: meta.min_seq,
            max_seq: meta.max_seq,
            refs: meta.refs.iter().map(|refs| refs.file).collect(),
            has_inline_values: meta.inline_bytes > 0,
        };
        return Some((facts, meta.count));
    }
    let properties = &found.facts.as_ref()?.properties;
    let facts = TableFacts {
        number,
        min_key: properties.min_key.clone(),
        max_key: properties.max_key.clone(),
        min_seq: properties.min_seq(),
        max_seq: properties.max_seq(),
        refs: properties.refs.iter().map(|refs| refs.file).collect(),
        has_inline_values: properties.inline_bytes > 0,
    };
    Some((facts, properties.entries))
}

/// How many pointers a listed key table has into each file.
fn pointers_of(meta: Option<&KeyTableMeta>) -> Option<BTreeMap<FileNumber, u64>> {
    let refs = meta?.refs.iter();
    Some(refs.map(|refs| (refs.file, refs.count)).collect())
}

/// Of a key table that does not say what it holds.
fn unknown_bounds() -> TableBounds {
    TableBounds {
        min_key: Vec::new(),
        max_key: None,
        max_seq: SeqNo::MAX,
        count: None,
        pointers: None,
    }
}
