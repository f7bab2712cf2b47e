//! The files of a database directory: their names (defined in [`crate::base::file_names`]) and a
//! survey of what is there.

pub(crate) use crate::base::file_names::*;

use crate::base::file_header::{FileHeader, HEADER_LEN, RawHeader};
use crate::base::keys::DatabaseId;
use crate::error::{Error, Result};
use crate::vfs::{Access, Vfs};
use std::path::Path;

/// What a directory holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DirSurvey {
    pub(crate) has_current: bool,
    /// The files whose names are ours, sorted.
    pub(crate) names: Vec<FileName>,
    /// The other entries, sorted.
    pub(crate) foreign: Vec<String>,
}

impl DirSurvey {
    /// The greatest number in any name. New files are numbered above it.
    pub(crate) fn max_number(&self) -> u64 {
        let numbers = self.names.iter().filter_map(|name| name.number());
        numbers.map(|number| number.0).max().unwrap_or(0)
    }

    /// Whether this is the unfinished output of a repair.
    pub(crate) fn is_being_repaired(&self) -> bool {
        self.names.contains(&FileName::Repairing)
    }

    /// Whether there are files that only a database which was once opened has.
    pub(crate) fn has_data(&self) -> bool {
        self.names.iter().any(|name| {
            matches!(
                name,
                FileName::Wal(_) | FileName::Record(_) | FileName::KeyTable(_)
            )
        })
    }
}

/// Refuses a directory whose `CURRENT` is of another program: LevelDB and its kin have files of
/// that name, and of some others of ours. To be called before anything is written to the directory.
pub(crate) fn refuse_foreign(vfs: &dyn Vfs, dir: &Path) -> Result<()> {
    let path = dir.join(CURRENT);
    let mut begin = [0; 8];
    let read = vfs
        .open(&path, Access::Sequential)
        .and_then(|file| file.read_at(&mut begin, 0));
    // What cannot be read now is named when its turn comes.
    if read.is_ok_and(|len| FileHeader::looks_foreign(&begin[..len])) {
        let what = "this is not a UniKV file: the directory belongs to another program";
        return Err(Error::incompatible(&path, what, "choose another directory"));
    }
    Ok(())
}

/// Whether the header of `path` is whole and names another database than `database`. A torn one is
/// what a crash leaves.
pub(crate) fn is_of_another_database(vfs: &dyn Vfs, path: &Path, database: DatabaseId) -> bool {
    let mut header = [0; HEADER_LEN];
    let file = vfs.open(path, Access::Sequential);
    let read = file.and_then(|file| file.read_at(&mut header, 0));
    let found = read.ok().and_then(|_| RawHeader::decode(&header));
    let whole = found.filter(|header| header.has_magic && header.checksum_fits);
    whole.is_some_and(|header| header.database != database)
}

/// Lists `dir` and separates our files from others. A directory that does not exist is empty.
pub(crate) fn survey(vfs: &dyn Vfs, dir: &Path) -> Result<DirSurvey> {
    let listed = match vfs.list(dir) {
        Ok(listed) => listed,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(e) => return Err(Error::io("list this directory", dir, e)),
    };
    let mut found = DirSurvey::default();
    for name in listed {
        match parse(&name) {
            Some(FileName::Current) => {
                found.has_current = true;
                found.names.push(FileName::Current);
            }
            Some(ours) => found.names.push(ours),
            None => found.foreign.push(name),
        }
    }
    found.names.sort_unstable();
    found.foreign.sort_unstable();
    Ok(found)
}
