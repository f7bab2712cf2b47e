//! Removing a database that nobody has open.

use crate::base::file_header::RawHeader;
use crate::engine::open::directory::{hold, take_lock};
use crate::error::{Error, Result};
use crate::offline::repair::{MARK_TEXT, beginning_of};
use crate::version::file_names::{self, DirSurvey, FileName};
use crate::vfs::{Env, named_path};
use std::path::Path;

/// Removes a database. CURRENT goes first: without it nothing is taken for a database again, and
/// with it everything is still there. The files that show what the directory was go last, so that
/// what an interrupted removal has left can be removed, too.
///
/// A symbolic link is refused before anything is removed: what it leads to may be in use under
/// another name.
pub(crate) fn destroy(env: &Env, dir: &Path) -> Result<()> {
    let dir = &named_path::directory(dir)?;
    named_path::refuse_link(&*env.vfs, dir)?;
    if !is_ours(env, dir, &file_names::survey(&*env.vfs, dir)?)? {
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
    let names = survey.names.iter().filter(|name| !kept.contains(name));
    let shows_it = |name: &&FileName| name.number().is_some() || **name == FileName::Repairing;
    let (last, first): (Vec<_>, Vec<_>) = names.partition(shows_it);
    if !first.is_empty() {
        first.into_iter().try_for_each(remove)?;
        sync()?;
    }
    last.into_iter().try_for_each(remove)?;
    remove(&FileName::Lock)?;
    drop(lock);
    if survey.foreign.is_empty() {
        env.vfs
            .remove_dir(dir)
            .map_err(|e| Error::io("remove the directory", dir, e))?;
    }
    Ok(())
}

/// Whether the directory holds a database, or what is left of one. Names alone do not show that:
/// other programs have files of such names, too.
fn is_ours(env: &Env, dir: &Path, survey: &DirSurvey) -> Result<bool> {
    if survey.has_current {
        return Ok(true);
    }
    // A lock file beside foreign files may be theirs.
    if survey.names.iter().all(|name| *name == FileName::Lock) {
        return Ok(!survey.names.is_empty() && survey.foreign.is_empty());
    }
    for name in &survey.names {
        if name.number().is_none() && *name != FileName::Repairing {
            continue;
        }
        let (begin, read) = beginning_of(env, &dir.join(name.to_string()))?;
        let begin = begin.get(..read).unwrap_or_default();
        let has_magic = RawHeader::decode(begin).is_some_and(|header| header.has_magic);
        let is_mark = *name == FileName::Repairing && !begin.is_empty();
        if has_magic || is_mark && MARK_TEXT.starts_with(begin) {
            return Ok(true);
        }
    }
    Ok(false)
}
