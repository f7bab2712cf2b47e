//! What a checkpoint says of itself, and how its data files get into it.

use crate::base::text::Size;
use crate::engine::checkpoint::copy::Copier;
use crate::engine::checkpoint::{DataFile, Pinned};
use crate::error::{Error, Result};
use bytes::Bytes;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A checkpoint that was made: see [`Db::checkpoint`](crate::Db::checkpoint).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checkpoint {
    /// Where it is.
    pub dir: PathBuf,
    /// It holds every write up to this sequence number, and none after it.
    pub seq: u64,
    /// The commit tag of the newest of these writes that had one: see [`Batch::set_commit_tag`].
    ///
    /// [`Batch::set_commit_tag`]: crate::Batch::set_commit_tag
    pub commit_tag: Option<Bytes>,
    /// When it was made by the clock of the database, in milliseconds since 1970.
    pub time_ms: u64,
    /// Its files. None of them changes as long as the checkpoint is not opened.
    pub files: Vec<CheckpointFile>,
    /// Why data files were copied that were to be linked, if some were: as a rule because the
    /// checkpoint lies on another file system. Then it takes as long as it has data.
    pub copied_because: Option<String>,
    /// How long it took.
    pub elapsed: Duration,
}

/// A file of a [`Checkpoint`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckpointFile {
    /// Its name in the directory.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// The CRC-32C of the whole file.
    pub checksum: u32,
    /// It is the database's own file under a second name, and takes no space as long as the
    /// database keeps it.
    pub is_linked: bool,
}

impl Checkpoint {
    pub(super) fn of(dir: &Path, pinned: &Pinned<'_>) -> Checkpoint {
        Checkpoint {
            dir: dir.to_owned(),
            seq: pinned.seq.0,
            commit_tag: pinned.commit_tag.clone(),
            time_ms: pinned.time_ms,
            files: Vec::new(),
            copied_because: None,
            elapsed: Duration::ZERO,
        }
    }

    /// Bytes of files that the checkpoint shares with the database.
    pub fn linked_bytes(&self) -> u64 {
        let linked = self.files.iter().filter(|file| file.is_linked);
        linked.map(|file| file.bytes).sum()
    }

    /// Bytes of files that are the checkpoint's alone.
    pub fn copied_bytes(&self) -> u64 {
        let copied = self.files.iter().filter(|file| !file.is_linked);
        copied.map(|file| file.bytes).sum()
    }

    /// Puts a data file into the directory at `to`.
    pub(super) fn link_or_copy(
        &mut self,
        copier: &Copier<'_>,
        file: &DataFile<'_>,
        to: &Path,
    ) -> Result<()> {
        copier.check_open()?;
        let name = file.name();
        let to = to.join(&name);
        let linked = file.link(copier, &to);
        let is_linked = linked.is_ok();
        if let Err(refused) = linked {
            self.copied_because.get_or_insert(refused);
            let checksum = file.copy(copier, &to)?;
            if checksum != file.checksum {
                let what = "the file's checksum does not match the one in the manifest";
                return Err(Error::corruption(file.path, 0, what));
            }
        }
        self.files.push(CheckpointFile {
            name,
            bytes: file.len,
            checksum: file.checksum,
            is_linked,
        });
        Ok(())
    }
}

impl fmt::Display for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seq, dir, files) = (self.seq, self.dir.display(), self.files.len());
        let (linked, copied) = (Size(self.linked_bytes()), Size(self.copied_bytes()));
        let took = self.elapsed.as_secs_f64();
        write!(
            f,
            "checkpoint of sequence number {seq} in {dir}: {files} files, {linked} linked, \
             {copied} copied, {took:.3} s"
        )?;
        match &self.copied_because {
            Some(why) => write!(f, "; data files could not be linked: {why}"),
            None => Ok(()),
        }
    }
}
