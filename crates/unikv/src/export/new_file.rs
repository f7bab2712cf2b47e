//! A file that appears under its name whole, or not at all.
//!
//! It is written under a name of its own beside that, so two attempts do not meet, and renamed at
//! the end. What a crash has left is removed by the next attempt for the same name; one that was
//! still under way then fails. No locks.

use crate::base::keys::DatabaseId;
use crate::base::seeded::slip;
use crate::engine::checkpoint::new_dir::{UNFINISHED, is_there, parent_of, remove_left_over};
use crate::error::{Error, Result};
use crate::vfs::file_store::FileStore;
use crate::vfs::{Env, Process, named_path};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) struct NewFile {
    /// The directory that it is made in.
    pub(super) store: Arc<FileStore>,
    path: PathBuf,
    temp: PathBuf,
    is_finished: bool,
    /// Whose attempt it is.
    process: Process,
}

impl NewFile {
    /// Begins the file that is to have the name `path`, of a database.
    ///
    /// # Errors
    /// `InvalidArgument` if something has the name, or that is none; `Io`.
    pub(super) fn begin(env: &Env, path: &Path, database: DatabaseId) -> Result<NewFile> {
        let path = &named_path::new_file(path)?;
        let name = path.file_name().and_then(|name| name.to_str());
        let Some(name) = name else {
            let what = format!("{} is no name for a new file", path.display());
            return Err(Error::invalid(what, "choose a name in UTF-8"));
        };
        let vfs = &*env.vfs;
        if is_there(vfs, path)? {
            let what = format!("{} is there already", path.display());
            return Err(Error::invalid(what, "choose a name that nothing has"));
        }
        let dir = parent_of(path);
        let listed = vfs.list(dir);
        let listed = listed.map_err(|e| Error::io("list the directory", dir, e))?;
        for left in listed.iter().filter(|found| is_temp_of(found, name)) {
            remove_left_over(vfs, &dir.join(left))?;
        }
        let number = env.runtime.random_u64();
        let temp = dir.join(format!("{name}.{number:016x}{UNFINISHED}"));
        Ok(NewFile {
            store: FileStore::new(env.clone(), dir.to_owned(), database, 1),
            path: path.to_owned(),
            temp,
            is_finished: false,
            process: env.runtime.process(),
        })
    }

    /// Where it is written.
    pub(super) fn temp(&self) -> &Path {
        &self.temp
    }

    /// Gives it its name, durably. Its bytes are durable. After an error of the last sync it has
    /// its name, and may lose it in a power cut.
    pub(super) fn finish(mut self) -> Result<()> {
        let vfs = &*self.store.env().vfs;
        // What has got the name meanwhile is not replaced, but for a moment that nothing can close.
        if is_there(vfs, &self.path)? {
            let what = format!("{} has been made meanwhile", self.path.display());
            return Err(Error::invalid(what, "choose a name that nothing has"));
        }
        let renamed = vfs.rename(&self.temp, &self.path);
        renamed.map_err(|e| Error::io("rename the file", &self.temp, e))?;
        self.is_finished = true;
        let dir = parent_of(&self.path);
        let synced = slip!(ExportNameUnsynced, Ok(()), vfs.sync_dir(dir));
        synced.map_err(|e| Error::io("sync the directory", dir, e))
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_finished && self.process.is_this() {
            // What cannot be removed is removed by the next attempt.
            let _left = self.store.env().vfs.remove(&self.temp);
        }
    }
}

/// Whether a name is that of an unfinished file that is to be called `name`.
fn is_temp_of(found: &str, name: &str) -> bool {
    let number = found.strip_prefix(name).and_then(|rest| {
        let rest = rest.strip_prefix('.')?;
        rest.strip_suffix(UNFINISHED)
    });
    number.is_some_and(|n| n.len() == 16 && n.bytes().all(|b| b.is_ascii_hexdigit()))
}
