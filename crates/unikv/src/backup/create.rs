//! Making a point.
//!
//! The order: the log, so that it is not held for long; data files, each copied, read back and
//! compared before it has its name; their names durable; the manifest and `POINT`; and then the
//! name of the point. What an attempt leaves that fails is used or removed by the next ones.

use super::layout::{Layout, TEMP};
use super::point::{POINT, Point, PointFile};
use super::{Progress, Repository};
use crate::base::text::Size;
use crate::db::Db;
use crate::db::secondary::Secondary;
use crate::engine::checkpoint::copy::Copier;
use crate::engine::checkpoint::new_dir::{NewDirectory, remove_left_over};
use crate::engine::checkpoint::{CheckpointFile, DataFile, Pinned};
use crate::engine::core::Core;
use crate::error::{Error, Result};
use crate::version::file_names;
use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A backup that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Made {
    /// The new point.
    pub point: Point,
    /// Bytes that were copied.
    pub copied_bytes: u64,
    /// Bytes of data files that earlier points have.
    pub shared_bytes: u64,
    /// How long it took.
    pub elapsed: Duration,
}

impl fmt::Display for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, seq) = (self.point.number, self.point.seq);
        let (copied, shared) = (Size(self.copied_bytes), Size(self.shared_bytes));
        let took = self.elapsed.as_secs_f64();
        write!(
            f,
            "point {number} of sequence number {seq}: {copied} copied, {shared} shared with earlier \
             points, {took:.3} s"
        )
    }
}

impl Repository {
    /// Adds a point: the database as it is now, all keyspaces included, while others read and write
    /// it. Copies the data files that no earlier point has, and the log, which has about as much
    /// as a memtable: [`Db::flush`] first makes that less where points are frequent. All that is
    /// copied is read back and compared with its checksum. Files that the point needs stay on the
    /// database's disk until they are copied.
    ///
    /// A call that fails, or is interrupted at any moment, leaves the earlier points as they were.
    ///
    /// # Errors
    /// `Locked` if the repository is being changed by somebody else; `InvalidArgument` if it holds
    /// backups of another database; `Incompatible` if it is something else; `Corruption` if a file
    /// of the database is damaged, or its copy; `DiskFull`, `Io`; as [`Db::checkpoint`].
    pub fn back_up(&self, db: &Db) -> Result<Made> {
        let engine = &db.0.engine;
        self.add_point(&engine.core, || engine.checkpoints.pin())
    }

    /// As [`Repository::back_up`], of what a secondary shows now: from another process than the one
    /// that has the database open, which goes on meanwhile and is not asked. Backups of the one
    /// kind share files with those of the other. Errors as there.
    pub fn back_up_secondary(&self, secondary: &Secondary) -> Result<Made> {
        let follow = secondary.follow();
        let shown = follow.shown();
        self.add_point(follow.core(), || Ok(follow.pin(&shown)))
    }

    /// Adds a point of what `pin` pins of the database with this core.
    fn add_point<'a>(
        &self,
        core: &'a Core,
        pin: impl FnOnce() -> Result<Pinned<'a>>,
    ) -> Result<Made> {
        core.check_open()?;
        let store = &core.store;
        let layout = Layout {
            vfs: &*core.outside.vfs,
            dir: &self.dir,
        };
        core.check_outside(&self.dir, "choose a directory elsewhere")?;
        let begin = core.now();
        let _lock = layout.prepare(store.database())?;
        let numbers = layout.numbers()?;
        let last = numbers.last().copied().unwrap_or(0);
        let number = last.checked_add(1).ok_or_else(|| {
            let what = format!("there is no number for a point after {last}");
            Error::invalid(what, "choose a repository of its own")
        })?;
        let new = NewDirectory::begin(layout.vfs, &layout.point(number), is_part_of_point)?;
        let mut pinned = pin()?;
        let log = pinned.copy_log(new.path())?;
        let data_files = pinned.data_files();
        let mut copying = Copying::new(self, layout, pinned.copier(), &data_files, numbers)?;
        for part in &log {
            copying.read_back(&new.path().join(&part.name), part.bytes, part.checksum)?;
            copying.copied_bytes += part.bytes;
        }
        let mut files = Vec::new();
        for file in &data_files {
            let file_of_point = PointFile::of_data(file);
            copying.share(file, &file_of_point)?;
            files.push(file_of_point);
        }
        let synced = layout.sync_dir(&layout.data());
        synced.inspect_err(|_| copying.take_back())?;
        let heads = pinned.write_manifest(new.path())?;
        files.extend(log.into_iter().chain(heads).map(own_file));
        let point = Point {
            number,
            time_ms: pinned.time_ms,
            seq: pinned.seq.0,
            commit_tag: pinned.commit_tag.clone(),
            database: store.database(),
            files,
        };
        layout.write(&new.path().join(POINT), point.encode().as_bytes())?;
        layout.sync_dir(new.path())?;
        new.finish()?;
        Ok(Made {
            point,
            copied_bytes: copying.copied_bytes,
            shared_bytes: copying.shared_bytes,
            elapsed: core.now().saturating_sub(begin),
        })
    }
}

/// Whether a point may have a file of this name beside it.
pub(super) fn is_part_of_point(name: &str) -> bool {
    name == POINT || file_names::parse(name).is_some()
}

fn own_file(file: CheckpointFile) -> PointFile {
    PointFile {
        name: file.name,
        uid: None,
        bytes: file.bytes,
        checksum: file.checksum,
    }
}

/// Copies data files that are not there.
struct Copying<'a> {
    repository: &'a Repository,
    layout: Layout<'a>,
    copier: Copier<'a>,
    there: HashSet<String>,
    /// The names of the data files of the newest points, as many as had to be read.
    of_points: HashSet<String>,
    /// The other points, oldest first.
    unread: Vec<u64>,
    /// What has got its name since, not yet durably.
    named: Vec<PathBuf>,
    progress: Progress,
    copied_bytes: u64,
    shared_bytes: u64,
}

impl<'a> Copying<'a> {
    fn new(
        repository: &'a Repository,
        layout: Layout<'a>,
        copier: Copier<'a>,
        files: &[DataFile<'_>],
        points: Vec<u64>,
    ) -> Result<Copying<'a>> {
        let there = layout.list(&layout.data())?.into_iter().collect();
        let progress = Progress {
            all_files: files.len() as u64,
            all_bytes: files.iter().map(|file| file.len).sum(),
            ..Progress::default()
        };
        Ok(Copying {
            repository,
            layout,
            copier,
            there,
            of_points: HashSet::new(),
            unread: points,
            named: Vec::new(),
            progress,
            copied_bytes: 0,
            shared_bytes: 0,
        })
    }

    /// Sees to it that a data file is among those that points share.
    fn share(&mut self, file: &DataFile<'_>, as_file: &PointFile) -> Result<()> {
        let Some(name) = as_file.shared_name() else {
            let what = format!("the data file {} has no extension", as_file.name);
            return Err(Error::internal(what));
        };
        let path = self.layout.data().join(&name);
        if self.is_whole(&name, &path, file.len)? {
            self.shared_bytes += file.len;
            if !self.is_of_a_point(&name) {
                self.name_again(&path, name + TEMP)?;
            }
        } else {
            self.copy(file, &path, name + TEMP)?;
            self.named.push(path);
            self.copied_bytes += file.len;
        }
        self.progress.files += 1;
        self.progress.bytes = self.progress.bytes.saturating_add(file.len);
        self.repository.report(self.progress);
        Ok(())
    }

    /// Whether an earlier point has the file, mostly the newest; or may have it, as it cannot be
    /// read.
    fn is_of_a_point(&mut self, name: &str) -> bool {
        while !self.of_points.contains(name) {
            let Some(newest) = self.unread.last() else {
                return false;
            };
            let Ok(point) = self.layout.read_point(*newest) else {
                return true;
            };
            self.unread.pop();
            self.of_points.extend(point.shared_names());
        }
        true
    }

    /// Gives a file its name again that an attempt has left which did not end: its sync may have
    /// failed.
    fn name_again(&mut self, path: &Path, temp: String) -> Result<()> {
        let temp = path.with_file_name(temp);
        for (from, to) in [(path, &*temp), (&*temp, path)] {
            let renamed = self.layout.vfs.rename(from, to);
            renamed.map_err(|e| Error::io("rename the file", from, e))?;
        }
        self.named.push(path.to_owned());
        Ok(())
    }

    /// Removes what a failed sync may have left without its name, for later syncs do not make up
    /// for it.
    fn take_back(&self) {
        for path in &self.named {
            let _left = self.layout.vfs.remove(path);
        }
    }

    /// Whether a copy is there that has its length. It has its name only since it was compared.
    fn is_whole(&self, name: &str, path: &Path, len: u64) -> Result<bool> {
        if !self.there.contains(name) {
            return Ok(false);
        }
        let found = self.layout.vfs.len(path);
        Ok(found.map_err(|e| Error::io("look at", path, e))? == len)
    }

    fn copy(&self, file: &DataFile<'_>, path: &Path, temp: String) -> Result<()> {
        let vfs = self.layout.vfs;
        let is_left_over = self.there.contains(&temp);
        let temp = path.with_file_name(temp);
        if is_left_over {
            remove_left_over(vfs, &temp)?;
        }
        let checksum = file.copy(&self.copier, &temp);
        let copied = checksum.and_then(|checksum| {
            if checksum == file.checksum {
                self.read_back(&temp, file.len, checksum)
            } else {
                let what = "the file's checksum does not match the one in the manifest";
                Err(Error::corruption(file.path, 0, what))
            }
        });
        copied.inspect_err(|_| {
            // What cannot be removed now is removed by the next backup or pruning.
            let _left = vfs.remove(&temp);
        })?;
        let renamed = vfs.rename(&temp, path);
        renamed.map_err(|e| Error::io("rename the file", &temp, e))
    }

    /// Compares a copy with what was to be copied.
    fn read_back(&self, path: &Path, bytes: u64, checksum: u32) -> Result<()> {
        if self.copier.checksum(path, bytes)? == checksum {
            return Ok(());
        }
        let what = "the copy does not read as it was written";
        Err(Error::corruption(path, 0, what))
    }
}
