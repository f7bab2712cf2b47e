//! Salvage: what is left of a damaged database becomes a new one, and what is lost is reported.
//! `docs/crashes.md`, "What a repair trusts", says how it decides.
//!
//! Invariants:
//! - The damaged directory is not changed. Nobody can open the new one before it is complete,
//!   durable and checked (`target`).
//! - A saved value verified, under the key and the sequence number that were asked for. Nothing
//!   stale is saved silently: it counts as in doubt, or as uncertain and is left out.
//! - Files are streamed and keys are sorted in runs on the target's disk, so memory stays within
//!   the budget.
//!
//! No locks but those of the two directories.

mod files;
mod gather;
mod keyspaces;
mod log;
mod range_deletes;
mod ranges;
pub(crate) mod report;
mod resolve;
mod spill_writer;
mod target;

use crate::base::keys::KeyspaceId;
use crate::base::range_tombstones::RangeTombstones;
use crate::engine::open::directory::{hold, refuse_unfinished};
use crate::engine::open::stored_options;
use crate::error::{Error, ErrorKind, Result};
use crate::memtable::Batch;
use crate::options::{Durability, Options, StoredOptions};
use crate::version::file_names::{self, DirSurvey, FileName};
use crate::vfs::clock::Clock;
use crate::vfs::{Env, named_path};
use bytes::Bytes;
use files::Files;
pub(crate) use files::header::beginning_of;
use files::holes::Holes;
use files::source::Source;
use keyspaces::{KeyspaceWriter, KnownKeyspaces};
use report::RepairReport;
use resolve::Resolver;
use resolve::sorter::Sorter;
use std::io;
use std::path::Path;
pub(crate) use target::MARK_TEXT;
use target::Target;

/// The sorter takes at most this much memory, and at most half of the budget.
const MOST_SORT_BYTES: u64 = 128 << 20;
/// What the fences and blocks of the damaged files may take.
const CACHE_BYTES: u64 = 8 << 20;

/// How [`crate::Db::repair`] goes about it.
///
/// ```
/// # use unikv::RepairOptions;
/// let options = RepairOptions::default().dry_run(true);
/// ```
#[derive(Clone, Debug, Default)]
pub struct RepairOptions {
    include_uncertain: bool,
    partial_batches: bool,
    dry_run: bool,
    options: Options,
}

impl RepairOptions {
    /// Write records that may have been deleted or overwritten before the damage, too. They are
    /// counted either way. Default: false.
    #[must_use]
    pub fn include_uncertain(mut self, yes: bool) -> RepairOptions {
        self.include_uncertain = yes;
        self
    }

    /// Write what is left of a batch of the log of which a part is lost. Default: false.
    #[must_use]
    pub fn partial_batches(mut self, yes: bool) -> RepairOptions {
        self.partial_batches = yes;
        self
    }

    /// The file system and the runtime of both databases. Default: the system's.
    #[must_use]
    pub fn env(mut self, env: Env) -> RepairOptions {
        self.options = self.options.env(env);
        self
    }

    /// Only report; the target directory serves for sorting and is removed again. Default: false.
    #[must_use]
    pub fn dry_run(mut self, yes: bool) -> RepairOptions {
        self.dry_run = yes;
        self
    }

    /// The options of the salvaged database, and of the repair its memory budget. What is not set
    /// is as it was, if that can be read.
    #[must_use]
    pub fn options(mut self, options: Options) -> RepairOptions {
        self.options = options;
        self
    }
}

/// Salvages the database in `dir` into the new directory `to`.
pub(crate) fn repair(dir: &Path, to: &Path, options: &RepairOptions) -> Result<RepairReport> {
    let env = &options.options.env.clone().unwrap_or_else(Env::os);
    let begin = env.runtime.now();
    let (dir, to) = (
        &named_path::directory(dir)?,
        &named_path::new_directory(to)?,
    );
    named_path::refuse_dangling_link(&*env.vfs, to)?;
    let survey = file_names::survey(&*env.vfs, dir)?;
    check_source(dir, &survey)?;
    file_names::refuse_foreign(&*env.vfs, dir)?;
    if dir == to {
        let what = "the damaged database and the salvaged one have the same directory";
        return Err(Error::invalid(what, "name a new directory to repair into"));
    }
    let target = Target::new(env, to)?;
    let env = &hold(env, dir)?;
    let _lock = target::lock_source(env, dir)?;
    // A repair into it may have begun before the lock was held.
    refuse_unfinished(dir, &file_names::survey(&*env.vfs, dir)?)?;
    let mut report = RepairReport::default();
    let done = salvage(env, dir, &target, options, &mut report);
    if done.is_err() || options.dry_run {
        let abandoned = target.abandon();
        done?;
        abandoned?;
    }
    report.elapsed = env.runtime.now().saturating_sub(begin);
    Ok(report)
}

/// Refuses a directory that holds nothing of a database, or what a repair has not completed: of
/// that nothing but its own source says what is missing.
fn check_source(dir: &Path, survey: &DirSurvey) -> Result<()> {
    refuse_unfinished(dir, survey)?;
    let holds = |name: &FileName| name.number().is_some() || *name == FileName::Current;
    if survey.names.iter().any(holds) {
        return Ok(());
    }
    Err(Error::not_found(dir))
}

fn salvage(
    env: &Env,
    dir: &Path,
    target: &Target,
    options: &RepairOptions,
    report: &mut RepairReport,
) -> Result<()> {
    let (source_env, source) = Source::of(env);
    let survey = file_names::survey(&*source_env.vfs, dir)?;
    let known = files::trust::find_out(&source_env, dir, &survey, CACHE_BYTES, report)?;
    report.trust = known.trust;
    let stored = known.stored.clone();
    report.options_carried = stored.is_some();
    let asked = options.options.clone();
    let mut new_options = stored_options::carry_over(asked, &stored.unwrap_or_default());
    let budget = new_options
        .resolve(&StoredOptions::default())?
        .memory_budget;
    let files = Files::new(&known.store, &known.cache);
    let mut sorter = Sorter::new(target, (budget / 2).min(MOST_SORT_BYTES));
    let gathered = gather::gather(&known, &survey, &files, &mut sorter, options, report)?;
    let mut claims = sorter.finish()?;
    let mut holes = gathered.holes;
    let proven = files::vouch::proven(gathered.broken, &gathered.unsound, &mut claims)?;
    claims.rewind()?;
    for table in &proven {
        holes.retain(|hole| hole.file != table.table);
        let name = file_names::key_table(table.table);
        let what = "what its damaged blocks held is known from the records that they pointed to";
        report.notes.push(format!("{name}: {what}"));
    }
    let lost = holes.clone();
    report.uncertain_included = options.include_uncertain;
    report.commit_tag = gathered.commit_tag.map(Bytes::from);
    let wants_uncertain = options.include_uncertain;
    let ranges = RangeTombstones::new(&gathered.ranges);
    let decided = (Holes::new(holes), ranges, proven);
    let commit_tag = report.commit_tag.clone();
    let keyspaces = KnownKeyspaces::of(&known);
    report.keyspaces = keyspaces.listed_names();
    let sources = (&files, &keyspaces);
    // What jobs may not destroy yet is kept, and where nothing says how late it was, everything:
    // then the new database begins with the wall clock, as any new one.
    let version = known.version.as_ref();
    new_options.job_clock_ms = version.and_then(|version| version.counters.job_clock_ms());
    let noted_ms = new_options.job_clock_ms.unwrap_or(0);
    let job_ms = Clock::of_reader(&env.runtime, noted_ms).job_ms();
    let wants = (wants_uncertain, job_ms);
    let mut records = Resolver::new(claims, decided, sources, report, wants);
    if options.dry_run {
        while records.next()?.is_some() {}
    } else {
        let written = write(target, new_options, &mut records, &keyspaces, commit_tag);
        written.map_err(|error| for_the_caller(target, error))?;
    }
    let unlisted = records.into_unlisted();
    report.written = (!options.dry_run).then(|| target.dir().to_owned());
    report.add_unlisted(&unlisted);
    for hole in &lost {
        let ranges = keyspaces.parts_of(hole, &unlisted).into_iter();
        ranges.for_each(|range| report.add_range(range));
    }
    for place in source.unreadable() {
        let entry = report.file(&files::header::name_of(&place.path));
        let what = format!("the system cannot read it: {}", place.error);
        entry.fault(place.offset, what);
    }
    Ok(())
}

/// The caller has no database that takes no more writes, but a target that took none.
fn for_the_caller(target: &Target, error: Error) -> Error {
    match error.kind() {
        ErrorKind::WritesSuspended => {
            let cause = io::Error::other(error.to_string());
            Error::io("write the salvaged database", target.dir(), cause)
        }
        _ => error,
    }
}

/// Writes the salvaged database.
fn write(
    target: &Target,
    options: Options,
    records: &mut Resolver<'_>,
    keyspaces: &KnownKeyspaces,
    commit_tag: Option<Bytes>,
) -> Result<()> {
    let db = target.open(options)?;
    keyspaces.make_all(&db)?;
    let mut writer = KeyspaceWriter::new(&db);
    while let Some(saved) = records.next()? {
        let old = KeyspaceId::of(&saved.key);
        let new = || keyspaces.make(&db, old);
        writer.add(old, &saved, new)?;
    }
    writer.end()?;
    if let Some(commit_tag) = commit_tag {
        let mut batch = Batch::new();
        batch.set_commit_tag(commit_tag);
        db.engine
            .write
            .write(&batch, Durability::Sync.into(), None)?;
    }
    db.close()?;
    target.finish()
}

#[cfg(test)]
mod tests;
