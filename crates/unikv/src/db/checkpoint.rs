//! Checkpoints of the whole database.

use crate::db::Db;
use crate::engine::checkpoint::Checkpoint;
use crate::error::Result;
use std::path::Path;

impl Db {
    /// Makes a checkpoint in the new directory `dir`: a database of its own that is what this one
    /// is now, all keyspaces and options included. Others may read and write meanwhile; they wait
    /// for microseconds at most.
    ///
    /// Data files are linked, so on the same file system it takes milliseconds, however large the
    /// database is, and no space until the two differ; only the log is copied, about as much as a
    /// memtable holds. On another file system everything is copied and compared with its checksums:
    /// [`Checkpoint::copied_because`] says so.
    ///
    /// When this returns the checkpoint survives a power cut; until then there is nothing under the
    /// name `dir`, whatever happens, at most what is left of the attempt under
    /// `dir` with `.unfinished` behind it, which the next attempt removes. The checkpoint and this
    /// database can be opened, written to and removed independently. They have the same id.
    ///
    /// A damaged file is linked as it is; [`Db::check`] finds it in the checkpoint, too. A linked
    /// file shares its blocks with the database's: this is no protection against a failing disk,
    /// for which there is [`backup`](crate::backup).
    ///
    /// # Errors
    /// `InvalidArgument` if `dir` is there, or is in the database's directory; `Locked` if a
    /// checkpoint is just being made there; `WritesSuspended` while the log has failed and not been
    /// begun again; `DiskFull`, `Io`, `Corruption` where files are copied; `Closed`. This database
    /// is as it was.
    ///
    /// ```
    /// # fn main() -> unikv::Result<()> {
    /// # let dir = std::env::temp_dir().join(format!("unikv-checkpoint-{}", std::process::id()));
    /// use unikv::{Db, Options};
    ///
    /// let db = Db::open(dir.join("db"), Options::default())?;
    /// db.put("apple", "red")?;
    /// let checkpoint = db.checkpoint(dir.join("before"))?;
    /// db.put("apple", "green")?;
    ///
    /// let before = Db::open(&checkpoint.dir, Options::default())?;
    /// assert_eq!(before.get("apple")?.as_deref(), Some(&b"red"[..]));
    /// # before.close()?;
    /// # db.close()?;
    /// # Db::destroy(dir.join("before"))?;
    /// # Db::destroy(dir.join("db"))
    /// # }
    /// ```
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<Checkpoint> {
        self.0.engine.checkpoints.create(dir.as_ref())
    }
}
