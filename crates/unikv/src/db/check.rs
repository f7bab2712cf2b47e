//! Checking a database at rest: every checksum, pointer, order and count.
//!
//! Each live file is read whole and compared with the checksum that the manifest keeps of it, so no
//! flipped bit in it goes unseen. Then its structure is walked: the order of keys, what the manifest
//! says of it, and where its pointers lead. A problem ends the check of its file, not of the rest.

mod scan_runs;

use super::open::take_lock;
use super::recovery;
use super::report::{CheckReport, Problem};
use crate::base::keys::{FileNumber, Kind, SeqNo, internal_cmp};
use crate::error::{Error, Result};
use crate::key_table::{
    EntryValue, KeyEntry, KeyIter, KeyTable, KeyTableMeta, ReadCache, RecordFileRefs, RecordPointer,
};
use crate::log::{WalWrite, replay};
use crate::memtable::OpsIter;
use crate::record::{RecordFile, RecordFileMeta};
use crate::version::file_names;
use crate::version::manifest::{Manifest, RecoveredManifest};
use crate::version::{Partition, Table, Version};
use crate::vfs::file_store::FileStore;
use crate::vfs::{Access, Env};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const CACHE_BYTES: u64 = 16 << 20;
const OPEN_FILES: usize = 256;
/// Pointers that are followed together, in file order.
const POINTER_BATCH: usize = 4096;

/// Checks the database in `dir`.
pub(crate) fn check(env: &Env, dir: &Path) -> Result<CheckReport> {
    let survey = file_names::survey(&*env.vfs, dir)?;
    if !survey.has_current && !survey.has_data() {
        return Err(Error::not_found(dir));
    }
    file_names::refuse_foreign(&*env.vfs, dir)?;
    let _lock = take_lock(env, dir)?;
    let mut check = Check {
        report: CheckReport::default(),
    };
    let manifest = match Manifest::recover(&*env.vfs, dir) {
        Ok(manifest) => manifest,
        Err(error) => {
            check.problem(dir, &error);
            return Ok(check.report);
        }
    };
    let store = FileStore::new(env.clone(), dir.to_owned(), manifest.database, OPEN_FILES);
    if let Err(error) = check.database(&store, manifest, &survey) {
        check.problem(dir, &error);
    }
    Ok(check.report)
}

struct Check {
    report: CheckReport,
}

impl Check {
    fn problem(&mut self, fallback: &Path, error: &Error) {
        self.report.problems.push(Problem {
            file: error.file().unwrap_or(fallback).to_owned(),
            offset: error.offset().unwrap_or(0),
            what: error.to_string(),
        });
    }

    /// Notes the error of one part and goes on with the next.
    fn part(&mut self, path: &Path, result: Result<()>) {
        if let Err(error) = result {
            self.problem(path, &error);
        }
    }

    fn database(
        &mut self,
        store: &Arc<FileStore>,
        manifest: RecoveredManifest,
        survey: &file_names::DirSurvey,
    ) -> Result<()> {
        self.report.files += 2;
        self.report.bytes += manifest.end;
        if let Some(cut) = &manifest.cut {
            let what = format!(
                "{}: torn in a power cut, or damaged; opening cuts it",
                cut.reason
            );
            self.report
                .notes
                .push(format!("{}: {what}", cut.path.display()));
        }
        let cache = ReadCache::new(CACHE_BYTES);
        let version = recovery::build_version(store, &cache, &manifest.path, &manifest.edits)?;
        let wal = self.wal(store, &manifest, survey, &version);
        self.part(store.dir(), wal);
        for file in version.record_files() {
            let checked = self.record_file(&version, file);
            self.part(file.path(), checked);
        }
        for partition in version.partitions() {
            for (_, table) in partition.generations.iter().flat_map(|g| g.shares()) {
                let checked = owned_keys(partition, table);
                self.part(table.file.path(), checked);
            }
            for table in &partition.key_tables {
                let checked = self.key_table(&version, partition, table);
                self.part(table.path(), checked);
            }
            self.scan_runs(partition);
        }
        let dead = version.dead_record_files();
        if !dead.is_empty() {
            self.report
                .notes
                .push(format!("{} record files hold nothing live", dead.len()));
        }
        Ok(())
    }

    fn wal(
        &mut self,
        store: &FileStore,
        manifest: &RecoveredManifest,
        survey: &file_names::DirSurvey,
        version: &Version,
    ) -> Result<()> {
        let segments = recovery::wal_segments(survey);
        manifest.check_edits(replay::max_manifest_edits(store, &segments)?)?;
        let mut sink = |segment: FileNumber, write: &WalWrite<'_>| {
            let path = store.dir().join(file_names::wal(segment));
            let mut found = 0;
            for op in OpsIter::new(write.ops) {
                op.map_err(|bad| Error::corruption(&path, 0, bad.to_string()))?;
                found += 1;
            }
            if found != write.count {
                let says = write.count;
                let what = format!("a record holds {found} operations and says {says}");
                return Err(Error::corruption(&path, 0, what));
            }
            Ok(())
        };
        let low_water = version.counters.wal_low_water;
        let outcome = replay::replay(store, &segments, low_water, &mut sink)?;
        self.report.files += outcome.segments;
        self.report.bytes += outcome.bytes;
        if let Some(cut) = outcome.cut {
            self.report.notes.push(format!(
                "{} ends at offset {}: {} bytes behind it were never completely written ({})",
                cut.path.display(),
                cut.offset,
                cut.bytes,
                cut.reason
            ));
        }
        Ok(())
    }

    fn record_file(&mut self, version: &Version, file: &Arc<RecordFile>) -> Result<()> {
        let meta = file.meta();
        self.report.files += 1;
        self.report.bytes += meta.len;
        file.verify()?;
        let mut found = Summary::default();
        let mut records = file.stream();
        while let Some(record) = records.next()? {
            self.report.records += 1;
            found.add(record.key(), record.seq(), file.path(), record.offset())?;
        }
        let facts = file.facts()?;
        found.compare_record_file(meta, file.path())?;
        disagree(meta.agrees_with(&facts), file.path())?;
        if !meta.key_section {
            return Ok(());
        }
        let mut keys = Summary::default();
        let mut pointers = Pointers::default();
        let mut entries = file.keys(Access::Sequential)?;
        self.entries(version, &mut entries, file.path(), &mut keys, &mut pointers)?;
        if (keys.count, facts.properties.entries) != (found.count, found.count) {
            let what = format!("{} keys for {} records", keys.count, found.count);
            return Err(Error::corruption(file.path(), meta.records_end, what));
        }
        Ok(())
    }

    fn key_table(
        &mut self,
        version: &Version,
        partition: &Partition,
        table: &Arc<KeyTable>,
    ) -> Result<()> {
        let meta = table.meta();
        self.report.files += 1;
        self.report.bytes += meta.len;
        table.verify()?;
        let inside = meta.min_key >= partition.start
            && partition.end.as_ref().is_none_or(|end| meta.max_key < *end);
        if !inside {
            let what = "keys outside the range of the partition";
            return Err(Error::corruption(table.path(), 0, what));
        }
        let mut keys = Summary::default();
        let mut pointers = Pointers::default();
        let mut entries = table.iter(Access::Sequential);
        self.entries(
            version,
            &mut entries,
            table.path(),
            &mut keys,
            &mut pointers,
        )?;
        keys.compare_key_table(meta, table.path())?;
        disagree(meta.agrees_with(&table.facts()?), table.path())?;
        if pointers.refs() != meta.refs {
            let what = "the manifest counts its pointers otherwise";
            return Err(Error::corruption(table.path(), 0, what));
        }
        Ok(())
    }

    /// Walks entries: order, counts, and that each pointer leads to its record.
    fn entries(
        &mut self,
        version: &Version,
        entries: &mut KeyIter,
        path: &Path,
        keys: &mut Summary,
        pointers: &mut Pointers,
    ) -> Result<()> {
        entries.seek_to_first()?;
        while let Some(entry) = entries.entry() {
            self.report.keys += 1;
            keys.add(entry.key, entry.seq, path, 0)?;
            pointers.add(&entry, path)?;
            if pointers.pending.len() >= POINTER_BATCH {
                self.report.pointers += pointers.follow(version, path)?;
            }
            entries.next()?;
        }
        self.report.pointers += pointers.follow(version, path)?;
        Ok(())
    }
}

/// A partition lists a table only for keys of its range.
fn owned_keys(partition: &Partition, table: &Table) -> Result<()> {
    let range = partition.range();
    let mut keys = table.file.keys(Access::Random)?;
    keys.seek(range.start, SeqNo::MAX)?;
    if keys.entry().is_some_and(|e| range.is_before_end(e.key)) {
        return Ok(());
    }
    let what = "the table has no key of a partition that lists it";
    Err(Error::corruption(table.file.path(), 0, what))
}

/// What a walk over ordered entries found.
#[derive(Default)]
struct Summary {
    count: u64,
    first: Vec<u8>,
    last: Vec<u8>,
    last_seq: SeqNo,
    min_seq: Option<SeqNo>,
    max_seq: Option<SeqNo>,
}

impl Summary {
    fn add(&mut self, key: &[u8], seq: SeqNo, path: &Path, offset: u64) -> Result<()> {
        if self.count == 0 {
            self.first = key.to_vec();
        } else if internal_cmp((&self.last, self.last_seq), (key, seq)).is_ge() {
            return Err(Error::corruption(path, offset, "keys are out of order"));
        }
        self.count += 1;
        self.last.clear();
        self.last.extend_from_slice(key);
        self.last_seq = seq;
        self.min_seq = Some(self.min_seq.map_or(seq, |min| min.min(seq)));
        self.max_seq = Some(self.max_seq.map_or(seq, |max| max.max(seq)));
        Ok(())
    }

    fn compare(&self, count: u64, keys: (&[u8], &[u8]), seqs: (SeqNo, SeqNo)) -> bool {
        self.count == count
            && (self.first.as_slice(), self.last.as_slice()) == keys
            && (self.min_seq, self.max_seq) == (Some(seqs.0), Some(seqs.1))
    }

    fn compare_record_file(&self, meta: &RecordFileMeta, path: &Path) -> Result<()> {
        let keys = (meta.min_key.as_slice(), meta.max_key.as_slice());
        disagree(
            self.compare(meta.count, keys, (meta.min_seq, meta.max_seq)),
            path,
        )
    }

    fn compare_key_table(&self, meta: &KeyTableMeta, path: &Path) -> Result<()> {
        let keys = (meta.min_key.as_slice(), meta.max_key.as_slice());
        disagree(
            self.compare(meta.count, keys, (meta.min_seq, meta.max_seq)),
            path,
        )
    }
}

fn disagree(same: bool, path: &Path) -> Result<()> {
    if same {
        return Ok(());
    }
    Err(Error::corruption(
        path,
        0,
        "the file and its entry in the manifest say different things of its contents",
    ))
}

/// Pointers that are still to be followed, and the sums over all.
#[derive(Default)]
struct Pointers {
    pending: Vec<(RecordPointer, Vec<u8>, SeqNo, Kind)>,
    sums: BTreeMap<FileNumber, (u64, u64)>,
}

impl Pointers {
    fn add(&mut self, entry: &KeyEntry<'_>, path: &Path) -> Result<()> {
        match entry.value {
            EntryValue::Pointer(pointer) => {
                let sums = self.sums.entry(pointer.file).or_default();
                sums.0 += 1;
                sums.1 += u64::from(pointer.len);
                self.pending
                    .push((pointer, entry.key.to_vec(), entry.seq, entry.kind));
            }
            EntryValue::None if entry.kind == Kind::Put => {
                return Err(Error::corruption(path, 0, "a put has no value"));
            }
            EntryValue::None | EntryValue::Inline(_) => {}
        }
        Ok(())
    }

    fn refs(&self) -> Vec<RecordFileRefs> {
        let sums = self.sums.iter();
        sums.map(|(file, (count, bytes))| RecordFileRefs {
            file: *file,
            count: *count,
            bytes: *bytes,
        })
        .collect()
    }

    /// Follows the pending pointers in file order and returns how many there were.
    fn follow(&mut self, version: &Version, path: &Path) -> Result<u64> {
        self.pending
            .sort_unstable_by_key(|(pointer, ..)| (pointer.file, pointer.offset));
        let mut records = Vec::new();
        for run in self.pending.chunk_by(|a, b| a.0.file == b.0.file) {
            let Some((first, ..)) = run.first() else {
                continue;
            };
            let Some(file) = version.record_file(first.file) else {
                return Err(crate::partition::sorted_store::dangling(path, *first));
            };
            let wanted: Vec<RecordPointer> = run.iter().map(|(pointer, ..)| *pointer).collect();
            records.clear();
            file.read_many(&wanted, &mut records);
            for ((pointer, key, seq, kind), record) in run.iter().zip(records.drain(..)) {
                let record = record?;
                if (record.key(), record.seq(), record.kind()) != (key.as_slice(), *seq, *kind) {
                    let what = format!("a pointer of {} leads to another record", path.display());
                    return Err(Error::corruption(file.path(), pointer.offset, what));
                }
            }
        }
        let followed = self.pending.len() as u64;
        self.pending.clear();
        Ok(followed)
    }
}
