//! Paths as callers write them, checked before anything is made or removed under them.
//!
//! A path loses its `.` parts, so that `copy/.` and `copy` are one name. No locks.

use super::Vfs;
use crate::error::{Error, Result};
use std::io::ErrorKind as IoKind;
use std::path::{Component, Path, PathBuf};

/// The directory of a database.
///
/// # Errors
/// `InvalidArgument` if the path is empty.
pub(crate) fn directory(path: &Path) -> Result<PathBuf> {
    if path.as_os_str().is_empty() {
        let what = "the path of the directory is empty";
        return Err(Error::invalid(
            what,
            "name a directory: `.` is the current one",
        ));
    }
    Ok(path.components().collect())
}

/// A directory that is to be made.
///
/// # Errors
/// `InvalidArgument` if the path does not end with a name.
pub(crate) fn new_directory(path: &Path) -> Result<PathBuf> {
    let path = directory(path)?;
    match path.components().next_back() {
        Some(Component::ParentDir | Component::RootDir) => Err(no_name(&path, "directory")),
        _ => Ok(path),
    }
}

/// A file that is to be made.
///
/// # Errors
/// `InvalidArgument` if the path does not end with a name.
pub(crate) fn new_file(path: &Path) -> Result<PathBuf> {
    let bytes = path.as_os_str().as_encoded_bytes();
    let names_directory = bytes.ends_with(b"/") || bytes.ends_with(b"/.");
    if names_directory || path.file_name().is_none() {
        return Err(no_name(path, "file"));
    }
    Ok(path.components().collect())
}

fn no_name(path: &Path, of: &str) -> Error {
    let what = format!("\"{}\" is no name for a new {of}", path.display());
    Error::invalid(what, format!("end the path with the name of the {of}"))
}

/// Refuses a symbolic link, for the removal of what it leads to.
pub(crate) fn refuse_link(vfs: &dyn Vfs, path: &Path) -> Result<()> {
    match link_target(vfs, path)? {
        None => Ok(()),
        Some(target) => {
            let (path, target) = (path.display(), target.display());
            let what = format!("{path} is a symbolic link to {target}");
            Err(Error::invalid(
                what,
                format!("name {target}, and remove the link yourself"),
            ))
        }
    }
}

/// Refuses a symbolic link that leads nowhere.
pub(crate) fn refuse_dangling_link(vfs: &dyn Vfs, path: &Path) -> Result<()> {
    let is_missing = || matches!(vfs.list(path), Err(e) if e.kind() == IoKind::NotFound);
    match link_target(vfs, path)?.filter(|_| is_missing()) {
        None => Ok(()),
        Some(target) => {
            let (path, target) = (path.display(), target.display());
            let what = format!("{path} is a symbolic link to {target}, which is not there");
            Err(Error::invalid(
                what,
                format!("make the directory {target}, or remove the link"),
            ))
        }
    }
}

/// Where a symbolic link leads; `None` if the path is none.
pub(crate) fn link_target(vfs: &dyn Vfs, path: &Path) -> Result<Option<PathBuf>> {
    match vfs.link_target(path) {
        Ok(target) => Ok(target),
        Err(e) if e.kind() == IoKind::NotFound => Ok(None),
        Err(e) => Err(Error::io("look at", path, e)),
    }
}
