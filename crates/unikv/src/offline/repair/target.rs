//! The directory that a repair writes to, from the first byte to the complete database.
//!
//! Invariants:
//! - Before anything else stands there, the name of the file `REPAIRING` is durable; it is removed,
//!   durably, after the salvaged database has been closed and checked. An opener of a directory
//!   with that file is refused, so a half-written database is never taken for a salvaged one.
//! - Only a directory that is empty, or that carries that file, is ever written to. What a former
//!   repair has left there is removed first.
//! - After an error what was written is removed, as far as the system lets us; the mark goes last.
//!   An error after the mark's removal puts it back first.
//!
//! No locks but the directory's own, held until the engine takes it.

use crate::base::keys::FileNumber;
use crate::engine::handle::Handle;
use crate::engine::open::directory::{hold, take_lock};
use crate::error::{Error, Result, lacks_descriptors};
use crate::offline::check::check_alone;
use crate::offline::repair::spill_writer::SpillWriter;
use crate::options::{Opens, Options};
use crate::version::file_names::{self, DirSurvey, FileName};
use crate::vfs::{Env, LockError, LockGuard, Vfs, WriteMode};
use std::cell::{Cell, OnceCell, RefCell};
use std::io::ErrorKind as IoKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What stands in `REPAIRING`.
pub(crate) const MARK_TEXT: &[u8] =
    b"unikv repair has begun to write a database here and has not ended.\n\
    Run it again with the same target, or remove this directory.\n";

/// Where a repair writes.
pub(super) struct Target {
    env: Env,
    /// The same, for the directory that is held once it is there.
    held: OnceCell<Env>,
    dir: PathBuf,
    lock: RefCell<Option<Box<dyn LockGuard>>>,
    begun: Cell<bool>,
    runs: Cell<u64>,
}

impl Target {
    /// The directory `dir`, which holds nothing but what a former repair has left. Writes nothing.
    pub(super) fn new(env: &Env, dir: &Path) -> Result<Target> {
        survey_free(env, dir)?;
        Ok(Target {
            env: env.clone(),
            held: OnceCell::new(),
            dir: dir.to_owned(),
            lock: RefCell::default(),
            begun: Cell::new(false),
            runs: Cell::new(0),
        })
    }

    fn env(&self) -> &Env {
        self.held.get().unwrap_or(&self.env)
    }

    pub(super) fn vfs(&self) -> &Arc<dyn Vfs> {
        &self.env().vfs
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Makes the directory ours, if that is not done yet: clears it, and marks it as unfinished.
    pub(super) fn begin(&self) -> Result<()> {
        if self.begun.get() {
            return Ok(());
        }
        let created = self.vfs().create_dir_all(&self.dir);
        created.map_err(|e| Error::io("create the directory", &self.dir, e))?;
        let held = hold(&self.env, &self.dir)?;
        let env = self.held.get_or_init(|| held);
        *self.lock.borrow_mut() = Some(take_lock(env, &self.dir)?);
        // Somebody may have been here before the lock was ours.
        let survey = survey_free(self.env(), &self.dir)?;
        self.begun.set(true);
        if survey.is_being_repaired() {
            self.clear(&survey.names)?;
            return self.sync();
        }
        self.mark()
    }

    /// From now on nobody opens what stands in the directory.
    fn mark(&self) -> Result<()> {
        let path = self.dir.join(file_names::REPAIRING);
        let io = |e| Error::io("write this file", &path, e);
        let mut mark = self.vfs().create(&path, WriteMode::Log, 0).map_err(io)?;
        mark.append(MARK_TEXT).map_err(io)?;
        mark.finish().map_err(io)?;
        self.sync()
    }

    /// A new run of the sorter.
    pub(super) fn begin_spill(&self) -> Result<SpillWriter> {
        self.begin()?;
        self.runs.set(self.runs.get() + 1);
        let name = file_names::spill(FileNumber(self.runs.get()));
        let path = self.dir.join(name);
        let file = self.vfs().create(&path, WriteMode::Log, 0);
        let file = file.map_err(|e| Error::io("create this file", &path, e))?;
        Ok(SpillWriter::new(file, path))
    }

    pub(super) fn remove_spill(&self, path: &Path) -> Result<()> {
        let removed = self.vfs().remove(path);
        removed.map_err(|e| Error::io("remove", path, e))
    }

    /// Creates the database.
    pub(super) fn open(&self, options: Options) -> Result<Handle> {
        self.begin()?;
        // The engine takes it; the mark keeps others out.
        self.lock.borrow_mut().take();
        let options = Options {
            opens: Opens::New,
            for_repair: true,
            ..options
        };
        Handle::open(self.env().clone(), &self.dir, options)
    }

    /// Verifies the closed database, and takes the mark away.
    pub(super) fn finish(&self) -> Result<()> {
        let report = check_alone(self.env(), &self.dir)?;
        if let Some(problem) = report.problems.first() {
            let what = format!("the salvaged database is damaged: {}", problem.what);
            return Err(Error::corruption(&problem.file, problem.offset, what));
        }
        let survey = file_names::survey(&**self.vfs(), &self.dir)?;
        let runs = survey.names.iter();
        for name in runs.filter(|name| matches!(name, FileName::Spill(_))) {
            self.remove_spill(&self.dir.join(name.to_string()))?;
        }
        // All else is durable before the mark goes.
        self.sync()?;
        let mark = self.dir.join(file_names::REPAIRING);
        let removed = self.vfs().remove(&mark);
        removed.map_err(|e| Error::io("remove", &mark, e))?;
        self.sync()?;
        self.begun.set(false);
        Ok(())
    }

    /// Removes what was written: after an error, or because only a report was asked for.
    pub(super) fn abandon(&self) -> Result<()> {
        if !self.begun.get() {
            return Ok(());
        }
        let survey = file_names::survey(&**self.vfs(), &self.dir)?;
        let kept = [FileName::Repairing, FileName::Lock];
        if survey.names.iter().any(|name| !kept.contains(name)) {
            if !survey.is_being_repaired() {
                // The last step failed, after the mark's removal: a part of a database is none.
                *self.lock.borrow_mut() = Some(take_lock(self.env(), &self.dir)?);
                self.mark()?;
            }
            self.clear(&survey.names)?;
            self.sync()?;
        }
        // Read again: a mark that could not be written may be there all the same.
        let survey = file_names::survey(&**self.vfs(), &self.dir)?;
        let there = survey.names.iter().rev();
        for name in there.filter(|name| kept.contains(name)) {
            let path = self.dir.join(name.to_string());
            let removed = self.vfs().remove(&path);
            removed.map_err(|e| Error::io("remove", &path, e))?;
        }
        self.lock.borrow_mut().take();
        self.begun.set(false);
        if survey.foreign.is_empty() {
            let removed = self.vfs().remove_dir(&self.dir);
            removed.map_err(|e| Error::io("remove the directory", &self.dir, e))?;
        }
        Ok(())
    }

    /// Removes the files of `names` but for the mark and the lock; `CURRENT` first, so that what is
    /// left is no database.
    fn clear(&self, names: &[FileName]) -> Result<()> {
        let kept = [FileName::Repairing, FileName::Lock];
        let (current, others): (Vec<&FileName>, Vec<&FileName>) = names
            .iter()
            .filter(|name| !kept.contains(name))
            .partition(|name| **name == FileName::Current);
        for name in current.into_iter().chain(others) {
            let path = self.dir.join(name.to_string());
            let removed = self.vfs().remove(&path);
            removed.map_err(|e| Error::io("remove", &path, e))?;
        }
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        let synced = self.vfs().sync_dir(&self.dir);
        synced.map_err(|e| Error::io("sync the directory", &self.dir, e))
    }
}

/// Surveys a directory, which must hold nothing but what a former repair has left.
fn survey_free(env: &Env, dir: &Path) -> Result<DirSurvey> {
    let survey = file_names::survey(&*env.vfs, dir)?;
    let empty = survey.names.iter().all(|name| *name == FileName::Lock);
    let is_free = empty && survey.foreign.is_empty();
    if !is_free && !survey.is_being_repaired() {
        let what = format!("{} is not empty", dir.display());
        return Err(Error::invalid(what, "name a new directory to repair into"));
    }
    Ok(survey)
}

/// Takes the lock of the damaged directory: nobody may write to it meanwhile. A directory in which
/// no lock file can be made, as on a medium that is read-only, and none is, has no writer either.
pub(super) fn lock_source(env: &Env, dir: &Path) -> Result<Option<Box<dyn LockGuard>>> {
    let path = dir.join(file_names::LOCK);
    match env.vfs.lock_to_read(&path) {
        Ok(lock) => Ok(Some(lock)),
        Err(LockError::Held(pid)) => Err(Error::locked(dir, pid)),
        Err(LockError::Io(e)) if lacks_descriptors(&e) => Err(Error::io("lock", &path, e)),
        // Another user's, who may be writing.
        Err(LockError::Io(e))
            if e.kind() == IoKind::PermissionDenied && env.vfs.len(&path).is_ok() =>
        {
            Err(Error::io("lock", &path, e))
        }
        Err(LockError::Io(_)) => Ok(None),
    }
}
