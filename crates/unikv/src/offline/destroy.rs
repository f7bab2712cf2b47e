//! Removing a database that nobody has open.

use crate::engine::open::directory::{hold, take_lock};
use crate::error::{Error, Result};
use crate::version::file_names::{self, FileName};
use crate::vfs::Env;
use std::path::Path;

/// Removes a database. CURRENT goes first: without it nothing is taken for a database again, and
/// with it everything is still there.
pub(crate) fn destroy(env: &Env, dir: &Path) -> Result<()> {
    let survey = file_names::survey(&*env.vfs, dir)?;
    // A lock file beside foreign files may be theirs.
    let only_lock = survey.names.iter().all(|name| *name == FileName::Lock);
    if survey.names.is_empty() || (only_lock && !survey.foreign.is_empty()) {
        return Ok(());
    }
    let env = &hold(env, dir)?;
    file_names::refuse_foreign(&*env.vfs, dir)?;
    let lock = take_lock(env, dir)?;
    let survey = file_names::survey(&*env.vfs, dir)?;
    let remove = |name: &FileName| {
        let path = dir.join(name.to_string());
        env.vfs
            .remove(&path)
            .map_err(|e| Error::io("remove", &path, e))
    };
    let sync = || {
        env.vfs
            .sync_dir(dir)
            .map_err(|e| Error::io("sync the directory", dir, e))
    };
    if survey.has_current {
        remove(&FileName::Current)?;
        sync()?;
    }
    let kept = [FileName::Current, FileName::Lock];
    // Data before manifests: while data files are left, a missing CURRENT shows the removal.
    survey
        .names
        .iter()
        .filter(|name| !kept.contains(name))
        .try_for_each(remove)?;
    remove(&FileName::Lock)?;
    drop(lock);
    if survey.foreign.is_empty() {
        env.vfs
            .remove_dir(dir)
            .map_err(|e| Error::io("remove the directory", dir, e))?;
    }
    Ok(())
}
