//! Where in a repository what is, and what else may be there. See `docs/backup.md`.
//!
//! ```text
//! UNIKV-BACKUPS          whose backups these are
//! LOCK                   locked by whoever adds or removes points
//! data/UID-CRC-LENGTH.*  data files, shared by the points
//! points/NNNNNN/         a point: its file POINT, and what no other point has
//! ```

use super::point::{MOST_BYTES, POINT, Point, PointFile, hex, unhex};
use crate::base::checksum::Crc;
use crate::base::keys::DatabaseId;
use crate::engine::checkpoint::new_dir::{UNFINISHED, is_there, lock_dir, remove_left_over};
use crate::error::{Error, Result};
use crate::version::file_names;
use crate::vfs::{Access, LockGuard, Vfs, WriteMode};
use std::io::ErrorKind as IoKind;
use std::path::{Path, PathBuf};

const MARKER: &str = "UNIKV-BACKUPS";
const MARKER_TEMP: &str = "UNIKV-BACKUPS.tmp";
const HEADER: &str = "UniKV backups 1 of database ";
/// A marker has fewer.
const MARKER_BYTES: usize = 256;

const DATA: &str = "data";
const POINTS: &str = "points";
/// Behind the name of a data file that is being copied.
pub(super) const TEMP: &str = ".tmp";
/// Behind the name of a point that is being removed.
const PRUNED: &str = ".pruned";

#[derive(Clone, Copy)]
pub(super) struct Layout<'a> {
    pub(super) vfs: &'a dyn Vfs,
    pub(super) dir: &'a Path,
}

impl Layout<'_> {
    pub(super) fn data(&self) -> PathBuf {
        self.dir.join(DATA)
    }

    pub(super) fn points(&self) -> PathBuf {
        self.dir.join(POINTS)
    }

    pub(super) fn point(&self, number: u64) -> PathBuf {
        self.points().join(format!("{number:06}"))
    }

    /// What a point is that is being removed.
    pub(super) fn pruned_point(&self, number: u64) -> PathBuf {
        self.points().join(format!("{number:06}{PRUNED}"))
    }

    /// Gives points their names back whose removal may not be durable: no later sync would make up
    /// for one that failed.
    pub(super) fn take_back(&self, points: &[Point]) {
        for Point { number, .. } in points {
            let (from, to) = (self.pruned_point(*number), self.point(*number));
            let _gone = self.vfs.rename(&from, &to);
        }
    }

    /// Where a file of a point is.
    pub(super) fn place(&self, point: &Path, file: &PointFile) -> PathBuf {
        match file.shared_name() {
            Some(name) => self.data().join(name),
            None => point.join(&file.name),
        }
    }

    /// Whose backups these are; `None`: nothing is here, or only the beginnings of a repository.
    ///
    /// # Errors
    /// `Incompatible` if something else is here, or backups of a newer release.
    pub(super) fn identify(&self) -> Result<Option<DatabaseId>> {
        self.identify_or("check the path: name the directory that backups were made in")
    }

    /// As [`Layout::identify`]. `remedy` is what helps if something else is here.
    fn identify_or(&self, remedy: &str) -> Result<Option<DatabaseId>> {
        let path = self.dir.join(MARKER);
        let file = match self.vfs.open(&path, Access::Sequential) {
            Ok(file) => file,
            Err(e) if e.kind() == IoKind::NotFound => return self.refuse_foreign(remedy),
            Err(e) => return Err(Error::io("open the file", &path, e)),
        };
        let mut bytes = vec![0; MARKER_BYTES];
        let got = file.read_at(&mut bytes, 0);
        let got = got.map_err(|e| Error::io("read the file", &path, e))?;
        bytes.truncate(got);
        let text = String::from_utf8_lossy(&bytes);
        let id = text
            .strip_prefix(HEADER)
            .and_then(|rest| rest.split(' ').next());
        let id = id.and_then(unhex).and_then(|id| id.try_into().ok());
        match id.map(DatabaseId) {
            Some(id) if marker(id) == text => Ok(Some(id)),
            _ if text.starts_with("UniKV backups ") && !text.starts_with(HEADER) => {
                let what = "this repository of backups is of a newer release";
                Err(Error::incompatible(&path, what, "use that release"))
            }
            _ => Err(Error::corruption(&path, 0, "the file is damaged")),
        }
    }

    fn refuse_foreign(&self, remedy: &str) -> Result<Option<DatabaseId>> {
        let names = match self.vfs.list(self.dir) {
            Ok(names) => names,
            Err(e) if e.kind() == IoKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::io("list the directory", self.dir, e)),
        };
        let beginnings = [MARKER_TEMP, DATA, POINTS, file_names::LOCK];
        match names
            .iter()
            .find(|name| !beginnings.contains(&name.as_str()))
        {
            None => Ok(None),
            Some(name) => {
                let what = "this is no repository of backups";
                Err(Error::incompatible(&self.dir.join(name), what, remedy))
            }
        }
    }

    /// Makes the repository of `database`, if there is none. Holds it then.
    pub(super) fn prepare(&self, database: DatabaseId) -> Result<Box<dyn LockGuard>> {
        let elsewhere = "choose an empty or a new directory";
        self.identify_or(elsewhere)?;
        for dir in [self.dir.to_owned(), self.data(), self.points()] {
            let created = self.vfs.create_dir_all(&dir);
            created.map_err(|e| Error::io("create the directory", &dir, e))?;
        }
        let lock = self.lock()?;
        match self.identify_or(elsewhere)? {
            Some(found) if found == database => {}
            Some(_) => {
                let what = format!("{} holds backups of another database", self.dir.display());
                return Err(Error::invalid(what, "choose a repository of its own"));
            }
            None => self.write_marker(database)?,
        }
        Ok(lock)
    }

    /// Keeps others from adding or removing points.
    pub(super) fn lock(&self) -> Result<Box<dyn LockGuard>> {
        lock_dir(self.vfs, self.dir)
    }

    fn write_marker(&self, database: DatabaseId) -> Result<()> {
        let (temp, path) = (self.dir.join(MARKER_TEMP), self.dir.join(MARKER));
        if is_there(self.vfs, &temp)? {
            remove_left_over(self.vfs, &temp)?;
        }
        self.write(&temp, marker(database).as_bytes())?;
        let renamed = self.vfs.rename(&temp, &path);
        renamed.map_err(|e| Error::io("rename the file", &temp, e))?;
        let synced = self.sync_dir(self.dir);
        synced.inspect_err(|_| {
            // The next attempt writes it again: no later sync makes up for one that failed.
            let _left = self.vfs.remove(&path);
        })
    }

    /// Writes a new file, durably but for its name.
    pub(super) fn write(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        let io = |e| Error::io("write this file", path, e);
        let mut file = self.vfs.create(path, WriteMode::Log, 0).map_err(io)?;
        file.append(bytes).map_err(io)?;
        file.finish().map_err(io)
    }

    pub(super) fn sync_dir(&self, dir: &Path) -> Result<()> {
        let synced = self.vfs.sync_dir(dir);
        synced.map_err(|e| Error::io("sync the directory", dir, e))
    }

    pub(super) fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let listed = self.vfs.list(dir);
        listed.map_err(|e| Error::io("list the directory", dir, e))
    }

    /// The numbers of the points, ascending.
    pub(super) fn numbers(&self) -> Result<Vec<u64>> {
        let names = self.list(&self.points())?;
        let mut numbers: Vec<u64> = names.iter().filter_map(|name| number_of(name)).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Gives points their names back of which nothing has been removed yet: the sync after which
    /// that is done may have failed, and is to cover their removal when it is done again.
    pub(super) fn restore_pruned(&self) -> Result<()> {
        for (number, dir) in self.pruned()? {
            if !self.is_whole(number, &dir) {
                continue;
            }
            let renamed = self.vfs.rename(&dir, &self.point(number));
            renamed.map_err(|e| Error::io("rename the directory", &dir, e))?;
        }
        Ok(())
    }

    /// Whether the point in `dir` can be read, and all its files are there.
    fn is_whole(&self, number: u64, dir: &Path) -> bool {
        let is_there = |file: &PointFile| {
            let len = self.vfs.len(&self.place(dir, file));
            len.is_ok_and(|len| len == file.bytes)
        };
        self.read_point_in(number, dir)
            .is_ok_and(|point| point.files.iter().all(is_there))
    }

    /// The numbers and directories of points that are being removed.
    pub(super) fn pruned(&self) -> Result<Vec<(u64, PathBuf)>> {
        self.points_with(PRUNED)
    }

    /// Those of the points that are being made, or were when a process died.
    pub(super) fn unfinished(&self) -> Result<Vec<(u64, PathBuf)>> {
        self.points_with(UNFINISHED)
    }

    fn points_with(&self, suffix: &str) -> Result<Vec<(u64, PathBuf)>> {
        let names = self.list(&self.points())?;
        let one = |name: &String| {
            let number = name.strip_suffix(suffix).and_then(number_of)?;
            Some((number, self.points().join(name)))
        };
        Ok(names.iter().filter_map(one).collect())
    }

    /// Reads what a point consists of.
    ///
    /// # Errors
    /// `NotFound` if there is no such point, `Corruption`, `Incompatible`, `Io`.
    pub(super) fn read_point(&self, number: u64) -> Result<Point> {
        let dir = self.point(number);
        if !is_there(self.vfs, &dir)? {
            let what = format!("there is no point {number}");
            return Err(Error::no_backup(what, "list the points that there are"));
        }
        self.read_point_in(number, &dir)
    }

    fn read_point_in(&self, number: u64, dir: &Path) -> Result<Point> {
        let path = dir.join(POINT);
        let file = self.vfs.open(&path, Access::Sequential);
        let file = file.map_err(|e| match e.kind() {
            IoKind::NotFound => Error::corruption(&path, 0, "the file is missing"),
            _ => Error::io("open the file", &path, e),
        })?;
        let io = |e| Error::io("read the file", &path, e);
        let len = file.len().map_err(io)?;
        if len > MOST_BYTES {
            return Err(Error::corruption(&path, 0, "the file is too long"));
        }
        let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()];
        let got = file.read_at(&mut bytes, 0).map_err(io)?;
        bytes.truncate(got);
        let point = Point::decode(&bytes, &path)?;
        if point.number != number {
            let what = format!("this is point {} under another number", point.number);
            return Err(Error::corruption(&path, 0, what));
        }
        Ok(point)
    }

    /// Removes a point that is no longer one, with what is in it.
    pub(super) fn remove_dir(&self, dir: &Path) -> Result<()> {
        for name in self.list(dir)? {
            let path = dir.join(name);
            let removed = self.vfs.remove(&path);
            removed.map_err(|e| Error::io("remove the file", &path, e))?;
        }
        let removed = self.vfs.remove_dir(dir);
        removed.map_err(|e| Error::io("remove the directory", dir, e))
    }
}

/// The number of a point, in the one spelling that it has.
fn number_of(name: &str) -> Option<u64> {
    let number: u64 = name.parse().ok()?;
    (format!("{number:06}") == name).then_some(number)
}

fn marker(database: DatabaseId) -> String {
    let text = format!("{HEADER}{} ", hex(&database.0));
    let checksum = Crc::default().update(text.as_bytes()).raw();
    format!("{text}{checksum:08x}\n")
}
