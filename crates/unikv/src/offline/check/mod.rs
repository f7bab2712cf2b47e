//! Checking a database: every checksum, pointer, order and count.
//!
//! Each live file is read whole and compared with the checksum that the manifest keeps of it, so no
//! flipped bit in it goes unseen. Then its structure is walked: the order of keys, what the
//! manifest says of it, and where its pointers lead. A problem ends the check of its file, not of
//! the rest.

mod beside;
mod blobs;
mod keyspaces;
mod pointers;
mod ranges;
mod scan_runs;
mod summary;
mod window;

use crate::base::file_names::BALLAST;
use crate::base::keys::{FileNumber, Kind, SeqNo};
use crate::engine::open::directory::{hold, refuse_unfinished};
use crate::engine::open::{recovery, stored_options};
use crate::engine::stats::lifetime;
use crate::engine::stats::report::{CheckReport, Problem};
use crate::error::{Error, ErrorKind, Result};
use crate::key_table::{KeyIter, KeyTable, Properties, ReadCache};
use crate::log::{WalWrite, replay};
use crate::memtable::OpsIter;
use crate::offline::check::keyspaces::{Greatest, one_keyspace};
use crate::offline::check::pointers::Pointers;
use crate::offline::check::summary::{Summary, disagree};
use crate::record::RecordFile;
use crate::version::file_names::{self, DirSurvey};
use crate::version::manifest::{Manifest, RecoveredManifest};
use crate::version::{Partition, Table, Version};
use crate::vfs::file_store::FileStore;
use crate::vfs::{Access, Env};
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

const CACHE_BYTES: u64 = 16 << 20;
const OPEN_FILES: usize = 256;

/// Checks the database in `dir`, whether or not a process has it open: see [`beside`]. The
/// unfinished output of a repair is refused.
pub(crate) fn check(env: &Env, dir: &Path) -> Result<CheckReport> {
    let survey = file_names::survey(&*env.vfs, dir)?;
    refuse_unfinished(dir, &survey)?;
    if !survey.has_current && !survey.has_data() {
        return Err(Error::not_found(dir));
    }
    let env = &hold(env, dir)?;
    file_names::refuse_foreign(&*env.vfs, dir)?;
    beside::until_it_is_true(env, dir)
}

/// Checks a database that nobody has open, or what a repair has written, before it counts as
/// finished.
pub(crate) fn check_alone(env: &Env, dir: &Path) -> Result<CheckReport> {
    let survey = file_names::survey(&*env.vfs, dir)?;
    let mut check = Check::default();
    let manifest = match Manifest::recover(&*env.vfs, dir) {
        Ok(manifest) => manifest,
        Err(error) if is_no_problem(&error) => return Err(error),
        Err(error) => {
            check.problem(dir, &error);
            return Ok(check.report);
        }
    };
    let open_files = env.vfs.max_open_files().min(OPEN_FILES);
    let store = FileStore::new(env.clone(), dir.to_owned(), manifest.database, open_files);
    match check.database(&store, manifest, &survey) {
        Err(error) if is_no_problem(&error) => return Err(error),
        Err(error) => check.problem(dir, &error),
        Ok(()) => {}
    }
    Ok(check.report)
}

/// Whether an error ends the check, as it says nothing against the database: a newer release wrote
/// it, or this process may not open its files.
fn is_no_problem(error: &Error) -> bool {
    error.kind() == ErrorKind::Incompatible || error.lacks_descriptors()
}

#[derive(Default)]
struct Check {
    report: CheckReport,
    /// The record files that are tables of UnsortedStores.
    tables: HashSet<FileNumber>,
    greatest: Greatest,
}

impl Check {
    fn problem(&mut self, fallback: &Path, error: &Error) {
        self.report.problems.push(Problem {
            file: error.file().unwrap_or(fallback).to_owned(),
            offset: error.offset().unwrap_or(0),
            what: error.to_string(),
        });
    }

    /// Notes the error of one part, so that the next can be checked.
    fn part(&mut self, path: &Path, result: Result<()>) -> Result<()> {
        match result {
            Err(error) if is_no_problem(&error) => return Err(error),
            Err(error) => self.problem(path, &error),
            Ok(()) => {}
        }
        Ok(())
    }

    fn database(
        &mut self,
        store: &Arc<FileStore>,
        manifest: RecoveredManifest,
        survey: &DirSurvey,
    ) -> Result<()> {
        self.report.files += 2;
        self.report.bytes += manifest.end;
        let ballast = store.dir().join(BALLAST);
        self.report.ballast_bytes = store.env().vfs.len(&ballast).unwrap_or(0);
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
        let edits = manifest.edits.iter(&manifest.path);
        let version = recovery::build_version(store, &cache, &manifest.path, edits)?;
        let stored = stored_options::of(Some(&manifest));
        self.part(&manifest.path, stored.map(drop))?;
        let figures = lifetime::of(&version, &manifest.path);
        self.part(&manifest.path, figures.map(drop))?;
        let wal = self.wal(store, &cache, &manifest, survey, &version);
        self.part(store.dir(), wal)?;
        self.version(&version, &manifest.path)?;
        let known = self.greatest.is_known(&version, &manifest);
        self.part(&manifest.path, known)?;
        let dead = version.dead_record_files();
        if !dead.is_empty() {
            self.report
                .notes
                .push(format!("{} record files hold nothing live", dead.len()));
        }
        Ok(())
    }

    /// The files that a version lists, which the manifest has described.
    fn version(&mut self, version: &Version, manifest: &Path) -> Result<()> {
        let summed_up = version.check_sums().map_err(Error::internal);
        self.part(manifest, summed_up)?;
        let generations = version.partitions().iter().flat_map(|p| &p.generations);
        let tables = generations.flat_map(|generation| generation.tables());
        self.tables = tables.map(|(_, table)| table.meta().number).collect();
        for file in version.record_files().iter() {
            let checked = self.record_file(version, file);
            self.part(file.path(), checked)?;
        }
        for partition in version.partitions().iter() {
            let checked = one_keyspace(version, partition, manifest);
            self.part(manifest, checked)?;
            for (_, table) in partition.generations.iter().flat_map(|g| g.shares()) {
                let checked = owned_keys(partition, table);
                self.part(table.file.path(), checked)?;
            }
            for table in &partition.key_tables {
                let checked = self.key_table(version, partition, table);
                self.part(table.path(), checked)?;
            }
            self.scan_runs(partition)?;
        }
        Ok(())
    }

    fn wal(
        &mut self,
        store: &Arc<FileStore>,
        cache: &Arc<ReadCache>,
        manifest: &RecoveredManifest,
        survey: &DirSurvey,
        version: &Version,
    ) -> Result<()> {
        let segments = recovery::wal_segments(survey);
        manifest.check_edits(replay::max_manifest_edits(store, &segments)?)?;
        let flushed = version.counters.flushed_seq;
        // Those whose records are in tables may be gone.
        let mut large = Vec::new();
        let mut sink = |segment: FileNumber, write: &WalWrite<'_>| {
            let path = store.dir().join(file_names::wal(segment));
            let mut found = 0;
            for op in OpsIter::new(write.ops) {
                let op = recovery::known_op(op, &|| path.clone())?;
                if write.last_seq() > flushed {
                    let last = version.counters.last_keyspace;
                    recovery::check_keyspace(op.key, last, &manifest.path)?;
                }
                if op.kind == Kind::External && write.last_seq() > flushed {
                    large.push((op.key.to_vec(), op.value.to_vec(), path.clone()));
                }
                found += 1;
            }
            if found != write.count {
                let says = write.count;
                let what = format!("a record holds {found} operations and says {says}");
                return Err(Error::corruption(&path, 0, what));
            }
            Ok(())
        };
        let needed = version.counters.needed_log();
        let outcome = replay::replay(store, &segments, needed, &mut sink)?;
        manifest.check_edits(outcome.manifest_edits)?;
        let checked = blobs::unlisted(store, cache, &large, &mut self.report);
        self.part(store.dir(), checked)?;
        let window = self.window(store, cache, version, (&segments, &outcome));
        self.part(store.dir(), window)?;
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
        self.greatest.add(&meta.max_key);
        self.report.files += 1;
        self.report.bytes += meta.len;
        file.verify()?;
        let mut found = Summary::default();
        let mut records = file.stream();
        let mut refs = Properties::default();
        let is_table = self.tables.contains(&meta.number);
        while let Some(record) = records.next_head()? {
            self.report.records += 1;
            if record.kind == Kind::External {
                let pointer = blobs::named(version, is_table, file, &record)?;
                refs.add_ref(pointer.file, u64::from(pointer.len));
                self.report.pointers += 1;
            }
            if meta.is_unnumbered() {
                found.add_unordered(&record.key);
            } else {
                found.add(&record.key, record.seq, file.path(), record.offset)?;
            }
        }
        disagree(refs.refs == meta.refs, file.path())?;
        self.report.records += ranges::compare(file, &mut found)?;
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
        self.greatest.add(&meta.max_key);
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
            if pointers.is_full() {
                self.report.pointers += pointers.follow(version, path)?;
            }
            entries.next()?;
        }
        self.report.pointers += pointers.follow(version, path)?;
        Ok(())
    }
}

/// A partition lists a table only for keys of its range, or to delete some of them.
fn owned_keys(partition: &Partition, table: &Table) -> Result<()> {
    let range = partition.range();
    let ranges = table.file.meta().ranges.as_ref();
    if ranges.is_some_and(|ranges| ranges.may_touch(range.start, range.end)) {
        return Ok(());
    }
    let mut keys = table.file.keys(Access::Random)?;
    keys.seek(range.start, SeqNo::MAX)?;
    if keys.entry().is_some_and(|e| range.is_before_end(e.key)) {
        return Ok(());
    }
    let what = "the table has no key of a partition that lists it";
    Err(Error::corruption(table.file.path(), 0, what))
}
