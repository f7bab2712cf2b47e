//! The directory of a database: whether it may be opened, and its lock.

use crate::error::{Error, Result};
use crate::options::{Opens, Options};
use crate::version::file_names::{self, DirSurvey};
use crate::vfs::{Env, LockError, LockGuard, named_path};
use std::path::{Path, PathBuf};

/// The directory that a caller names. In memory any name serves.
pub(super) fn named(env: &Env, dir: &Path, in_memory: bool) -> Result<PathBuf> {
    if in_memory {
        return Ok(dir.to_owned());
    }
    let dir = named_path::directory(dir)?;
    named_path::refuse_dangling_link(&*env.vfs, &dir)?;
    Ok(dir)
}

/// Checks a directory before its lock is taken, and makes it if it may be made.
pub(super) fn prepare(env: &Env, dir: &Path, options: &Options) -> Result<()> {
    let survey = file_names::survey(&*env.vfs, dir)?;
    check_directory(dir, &survey, options)?;
    file_names::refuse_foreign(&*env.vfs, dir)?;
    if !survey.has_current {
        let created = env.vfs.create_dir_all(dir);
        created.map_err(|e| Error::io("create the directory", dir, e))?;
    }
    Ok(())
}

/// Refuses a directory that holds something else, holds too little, or holds nothing where
/// something is required.
pub(crate) fn check_directory(dir: &Path, survey: &DirSurvey, options: &Options) -> Result<()> {
    if !options.for_repair {
        refuse_unfinished(dir, survey)?;
    }
    if survey.has_current {
        if options.opens == Opens::New {
            return Err(Error::exists(dir));
        }
        return Ok(());
    }
    if survey.has_data() {
        let what = "CURRENT is missing, and the directory holds data files of a database";
        return Err(Error::corruption(&dir.join("CURRENT"), 0, what));
    }
    if options.opens == Opens::Existing {
        return Err(Error::not_found(dir));
    }
    if let Some(foreign) = survey.foreign.first() {
        let what = "the directory holds files that are not a UniKV database's";
        let path = dir.join(foreign);
        return Err(Error::incompatible(
            &path,
            what,
            "choose an empty or a new directory",
        ));
    }
    Ok(())
}

/// Refuses a directory in which a repair has not ended: a part of a database is none.
pub(crate) fn refuse_unfinished(dir: &Path, survey: &DirSurvey) -> Result<()> {
    if !survey.is_being_repaired() {
        return Ok(());
    }
    let what = "a repair has begun to write a database here and has not ended";
    let remedy = "run `unikv repair` again with the same target, or remove this directory";
    let path = dir.join(file_names::REPAIRING);
    Err(Error::incompatible(&path, what, remedy))
}

/// The environment for work in the directory that `dir` is now: the lock is taken there, and all
/// that is done later is done in the directory that is locked, wherever it is moved to.
pub(crate) fn hold(env: &Env, dir: &Path) -> Result<Env> {
    let held = env.in_directory(dir);
    held.map_err(|e| Error::io("open the directory", dir, e))
}

/// Takes the lock file of a directory that is held.
pub(crate) fn take_lock(env: &Env, dir: &Path) -> Result<Box<dyn LockGuard>> {
    let path = dir.join(file_names::LOCK);
    env.vfs
        .lock(&path)
        .map_err(|error| not_locked(dir, &path, error))
}

/// As [`take_lock`], for who only reads the directory.
pub(crate) fn take_lock_to_read(env: &Env, dir: &Path) -> Result<Box<dyn LockGuard>> {
    let path = dir.join(file_names::LOCK);
    let taken = env.vfs.lock_to_read(&path);
    taken.map_err(|error| not_locked(dir, &path, error))
}

fn not_locked(dir: &Path, path: &Path, error: LockError) -> Error {
    match error {
        LockError::Held(pid) => Error::locked(dir, pid),
        LockError::Io(e) => Error::io("lock", path, e),
    }
}
