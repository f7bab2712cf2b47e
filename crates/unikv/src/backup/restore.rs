//! Reading points: verifying them, and making databases of them.

use super::create::is_part_of_point;
use super::point::{Point, PointFile};
use super::{Progress, Repository};
use crate::base::text::Size;
use crate::engine::checkpoint::copy::Copier;
use crate::engine::checkpoint::new_dir::NewDirectory;
use crate::error::{Error, Result};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a verification has found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Verified {
    /// The point.
    pub point: Point,
    /// Bytes that were read.
    pub bytes: u64,
    /// What is wrong, one for each file.
    pub problems: Vec<Error>,
}

impl Verified {
    /// Whether the point can be restored.
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }
}

/// A database that was made of a point.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Restored {
    /// Which point it is.
    pub point: Point,
    /// Where it is.
    pub dir: PathBuf,
    /// How long it took.
    pub elapsed: Duration,
}

impl fmt::Display for Verified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = if self.is_sound() { "sound" } else { "damaged" };
        let (number, bytes) = (self.point.number, Size(self.bytes));
        write!(f, "point {number}: {said}, {bytes} compared")?;
        self.problems
            .iter()
            .try_for_each(|problem| write!(f, "\n{problem}"))
    }
}

impl fmt::Display for Restored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, dir) = (self.point.number, self.dir.display());
        let (bytes, took) = (Size(self.point.bytes()), self.elapsed.as_secs_f64());
        write!(f, "point {number} restored in {dir}: {bytes}, {took:.3} s")
    }
}

impl Repository {
    /// Reads every byte of a point, and compares each file with its length and checksum.
    ///
    /// # Errors
    /// `NotFound` if there is no such point; `Corruption` or `Incompatible` if it cannot be said
    /// what it consists of; `Io`. What is wrong with its files is in the report.
    pub fn verify(&self, number: u64) -> Result<Verified> {
        let point = self.point(number)?;
        let mut verified = Verified {
            point: point.clone(),
            bytes: 0,
            problems: Vec::new(),
        };
        let copier = self.copier();
        self.each_file(&point, |file, path| {
            match self.verify_file(&copier, file, path) {
                Ok(()) => verified.bytes += file.bytes,
                Err(error) => verified.problems.push(error),
            }
            Ok(())
        })?;
        Ok(verified)
    }

    /// Makes a database of a point in the new directory `dir`. Each file is compared with its
    /// checksum while it is copied. Until this returns there is nothing under the name `dir`,
    /// whatever happens, as [`Db::checkpoint`](crate::Db::checkpoint) says.
    ///
    /// # Errors
    /// `NotFound` if there is no such point; `InvalidArgument` if `dir` is there; `Corruption` if a
    /// file of the point is damaged; `Incompatible`, `Locked`, `DiskFull`, `Io`.
    pub fn restore(&self, number: u64, dir: impl AsRef<Path>) -> Result<Restored> {
        let dir = dir.as_ref();
        let begin = self.env.runtime.now();
        let point = self.point(number)?;
        let vfs = &*self.env.vfs;
        let new = NewDirectory::begin(vfs, dir, is_part_of_point)?;
        let copier = self.copier();
        self.each_file(&point, |file, path| {
            let checksum = copier.copy(path, &new.path().join(&file.name), file.bytes)?;
            check(file, path, checksum)
        })?;
        self.layout().sync_dir(new.path())?;
        new.finish()?;
        Ok(Restored {
            point,
            dir: dir.to_owned(),
            elapsed: self.env.runtime.now().saturating_sub(begin),
        })
    }

    fn point(&self, number: u64) -> Result<Point> {
        let layout = self.layout();
        layout.identify()?.ok_or_else(|| self.absent())?;
        layout.read_point(number)
    }

    fn copier(&self) -> Copier<'_> {
        Copier {
            from: &*self.env.vfs,
            vfs: &*self.env.vfs,
            of: None,
        }
    }

    fn verify_file(&self, copier: &Copier<'_>, file: &PointFile, path: &Path) -> Result<()> {
        let found = copier.vfs.len(path);
        match found {
            Ok(found) if found != file.bytes => {
                let what = format!("the file has {found} bytes, not {}", file.bytes);
                return Err(Error::corruption(path, found.min(file.bytes), what));
            }
            _ => {}
        }
        check(file, path, copier.checksum(path, file.bytes)?)
    }

    /// Calls `act` with each file of a point and its place.
    fn each_file(
        &self,
        point: &Point,
        mut act: impl FnMut(&PointFile, &Path) -> Result<()>,
    ) -> Result<()> {
        let layout = self.layout();
        let dir = layout.point(point.number);
        let mut progress = Progress {
            all_files: point.files.len() as u64,
            all_bytes: point.bytes(),
            ..Progress::default()
        };
        for file in &point.files {
            act(file, &layout.place(&dir, file))?;
            progress.files += 1;
            progress.bytes = progress.bytes.saturating_add(file.bytes);
            self.report(progress);
        }
        Ok(())
    }
}

fn check(file: &PointFile, path: &Path, checksum: u32) -> Result<()> {
    if checksum == file.checksum {
        return Ok(());
    }
    let what = "the file's checksum does not match the one that the point says";
    Err(Error::corruption(path, 0, what))
}
