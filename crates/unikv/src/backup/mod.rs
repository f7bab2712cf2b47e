//! Backups: points in time of one database, in a directory that may be on another disk.
//! `docs/backup.md` has the layout and the order of calls.
//!
//! Invariants:
//! - A point appears whole or not at all: it gets its name when all that it names is durable and
//!   read back. Nothing in a repository is ever changed in place.
//! - A data file is removed only when the removal of every point that named it is durable, and when
//!   every other point has been read.
//! - Names that a failed sync may have lost are taken back; the next attempt gives them again.
//!
//! Lock: the repository's lock file, held by whoever adds or removes points. Readers take none, so
//! a medium may be read-only; a point that is pruned meanwhile is an error.

mod create;
mod layout;
mod point;
mod prune;
mod restore;
#[cfg(test)]
mod tests;

pub use create::Made;
pub use point::Point;
pub use prune::Pruned;
pub use restore::{Restored, Verified};

use crate::error::{Error, Result};
use crate::vfs::Env;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A directory with backups of one database.
///
/// Data files never change, so points share them: a file is known by its uid, its length and its
/// checksum, and what is there already is not copied again.
///
/// ```
/// use unikv::backup::Repository;
/// use unikv::{Db, Options};
///
/// # fn main() -> unikv::Result<()> {
/// # let dir = std::env::temp_dir().join(format!("unikv-backup-{}", std::process::id()));
/// let db = Db::open(dir.join("db"), Options::default())?;
/// db.put("apple", "red")?;
/// let repository = Repository::at(dir.join("backups"));
/// let made = repository.back_up(&db)?;
/// # db.close()?;
///
/// repository.restore(made.point.number, dir.join("restored"))?;
/// let restored = Db::open(dir.join("restored"), Options::default())?;
/// assert_eq!(restored.get("apple")?.as_deref(), Some(&b"red"[..]));
/// # restored.close()?;
/// # std::fs::remove_dir_all(&dir).ok();
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Repository {
    env: Env,
    dir: PathBuf,
    progress: Option<Arc<Notified>>,
}

type Notified = dyn Fn(Progress) + Send + Sync;

/// How far a call has come that copies or reads many files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Files that are done.
    pub files: u64,
    /// All files.
    pub all_files: u64,
    /// Bytes of the files that are done.
    pub bytes: u64,
    /// Bytes of all files.
    pub all_bytes: u64,
}

/// The points of a repository: see [`Repository::points`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Points {
    /// Those that can be read, oldest first.
    pub points: Vec<Point>,
    /// What is wrong with the others.
    pub damaged: Vec<Error>,
}

impl Points {
    /// How many can be read.
    pub fn len(&self) -> usize {
        self.points.len()
    }

    /// Whether there is none that can be read.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// Those that can be read, oldest first.
    pub fn iter(&self) -> std::slice::Iter<'_, Point> {
        self.points.iter()
    }
}

impl<'a> IntoIterator for &'a Points {
    type Item = &'a Point;
    type IntoIter = std::slice::Iter<'a, Point>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl Env {
    /// The repository of backups in `dir`: see [`Repository::at`]. A backup uses the file system of
    /// the database.
    pub fn repository(&self, dir: impl AsRef<Path>) -> Repository {
        Repository {
            env: self.clone(),
            dir: dir.as_ref().to_owned(),
            progress: None,
        }
    }
}

impl Repository {
    /// The repository in `dir`. It need not be there: the first backup makes it.
    pub fn at(dir: impl AsRef<Path>) -> Repository {
        Env::os().repository(dir)
    }

    /// Has `notified` be called after each file that a backup, a verification or a restore is done
    /// with, by the thread that does it. A backup is a use of the database, and closing waits for
    /// its end: `notified` must neither close the database nor wait for a thread that does.
    #[must_use]
    pub fn on_progress(self, notified: impl Fn(Progress) + Send + Sync + 'static) -> Repository {
        Repository {
            progress: Some(Arc::new(notified)),
            ..self
        }
    }

    /// The points to which the database can be restored.
    ///
    /// # Errors
    /// `NotFound` if there is no repository, `Incompatible` if something else is there, `Io`.
    pub fn points(&self) -> Result<Points> {
        let layout = self.layout();
        layout.identify()?.ok_or_else(|| self.absent())?;
        let mut listed = Points::default();
        for number in layout.numbers()? {
            match layout.read_point(number) {
                Ok(point) => listed.points.push(point),
                Err(error) => listed.damaged.push(error),
            }
        }
        Ok(listed)
    }

    fn absent(&self) -> Error {
        let what = format!(
            "there is no repository of backups in {}",
            self.dir.display()
        );
        Error::no_backup(what, "check the path, or make a backup first")
    }

    fn layout(&self) -> layout::Layout<'_> {
        layout::Layout {
            vfs: &*self.env.vfs,
            dir: &self.dir,
        }
    }

    fn report(&self, progress: Progress) {
        if let Some(notified) = &self.progress {
            notified(progress);
        }
    }
}

impl fmt::Debug for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Repository")
            .field("dir", &self.dir)
            .finish_non_exhaustive()
    }
}
