//! The damaged directory as a repair sees it: nothing in it can be changed, and a sector that the
//! device refuses reads as zeros, which no checksum takes for data.
//!
//! Invariants: every call that would change the disk is refused here, so nothing above can break
//! the promise that the source stays as it is. Only the lock file is an exception: taking the lock
//! of a directory may create it, as opening does.
//!
//! One leaf lock, over the list of places that could not be read.

use crate::base::sync::Mutex;
use crate::vfs::{
    Access, Env, KeepsFilesOpen, LockError, LockGuard, ReadFile, Vfs, WriteFile, WriteMode,
};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

/// What is refused is tried again in pieces of this length, aligned to it.
const PIECE_BYTES: u64 = 4 << 10;
/// This many unreadable places are remembered.
const MOST_PLACES: usize = 10_000;

/// A place that the device did not give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable {
    pub(crate) path: PathBuf,
    pub(crate) offset: u64,
    pub(crate) error: String,
}

/// A file system that only reads.
#[derive(Debug)]
pub(crate) struct Source {
    vfs: Arc<dyn Vfs>,
    unreadable: Arc<Mutex<Vec<Unreadable>>>,
}

impl Source {
    /// The same environment, to be read only.
    pub(crate) fn of(env: &Env) -> (Env, Arc<Source>) {
        let source = Arc::new(Source {
            vfs: Arc::clone(&env.vfs),
            unreadable: Arc::default(),
        });
        let vfs: Arc<dyn Vfs> = Arc::<Source>::clone(&source);
        let runtime = Arc::clone(&env.runtime);
        (Env { vfs, runtime }, source)
    }

    /// The places that could not be read so far.
    pub(crate) fn unreadable(&self) -> Vec<Unreadable> {
        self.unreadable.lock().clone()
    }
}

fn refused() -> io::Error {
    let what = "a repair does not change the directory that it reads";
    io::Error::new(io::ErrorKind::PermissionDenied, what)
}

impl Vfs for Source {
    fn create_dir_all(&self, _: &Path) -> io::Result<()> {
        Err(refused())
    }

    fn remove_dir(&self, _: &Path) -> io::Result<()> {
        Err(refused())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.vfs.list(dir)
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Err(refused())
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn ReadFile>> {
        Ok(Arc::new(Patient {
            file: self.vfs.open(path, access)?,
            path: path.to_owned(),
            unreadable: Arc::clone(&self.unreadable),
        }))
    }

    fn create(&self, _: &Path, _: WriteMode, _: u64) -> io::Result<Box<dyn WriteFile>> {
        Err(refused())
    }

    fn overwrite(&self, _: &Path) -> io::Result<Box<dyn WriteFile>> {
        Err(refused())
    }

    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        Err(refused())
    }

    fn remove(&self, _: &Path) -> io::Result<()> {
        Err(refused())
    }

    fn len(&self, path: &Path) -> io::Result<u64> {
        self.vfs.len(path)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn LockGuard>, LockError> {
        self.vfs.lock(path)
    }

    fn keeps_files_open(&self, keeper: Weak<dyn KeepsFilesOpen>) {
        self.vfs.keeps_files_open(keeper);
    }

    fn max_open_files(&self) -> usize {
        self.vfs.max_open_files()
    }

    fn free_space(&self, dir: &Path) -> io::Result<u64> {
        self.vfs.free_space(dir)
    }
}

/// A file whose unreadable pieces are zeros.
#[derive(Debug)]
struct Patient {
    file: Arc<dyn ReadFile>,
    path: PathBuf,
    unreadable: Arc<Mutex<Vec<Unreadable>>>,
}

impl Patient {
    /// Reads piece by piece; a piece that is refused is noted and reads as zeros.
    fn read_pieces(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let end = self.file.len()?.min(offset + buf.len() as u64);
        let mut at = offset;
        while at < end {
            let border = (at / PIECE_BYTES + 1) * PIECE_BYTES;
            let (from, to) = ((at - offset) as usize, (end.min(border) - offset) as usize);
            let Some(piece) = buf.get_mut(from..to) else {
                break;
            };
            match self.file.read_at(piece, at) {
                Ok(len) if len == piece.len() => {}
                Ok(_) => piece.fill(0),
                Err(error) => {
                    piece.fill(0);
                    self.note(at, &error);
                }
            }
            at = border;
        }
        Ok(end.saturating_sub(offset) as usize)
    }

    fn note(&self, offset: u64, error: &io::Error) {
        let mut unreadable = self.unreadable.lock();
        let known = |place: &Unreadable| place.offset == offset && place.path == self.path;
        if unreadable.len() < MOST_PLACES && !unreadable.iter().any(known) {
            unreadable.push(Unreadable {
                path: self.path.clone(),
                offset,
                error: error.to_string(),
            });
        }
    }
}

impl ReadFile for Patient {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        match self.file.read_at(buf, offset) {
            Ok(len) => Ok(len),
            Err(_) => self.read_pieces(buf, offset),
        }
    }

    fn will_need(&self, offset: u64, len: u64) {
        self.file.will_need(offset, len);
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vfs::sim::{SimRuntime, SimVfs};
    use std::io::ErrorKind;

    #[test]
    fn nothing_in_the_source_can_be_changed() {
        let disk = SimVfs::new();
        let (dir, path) = (Path::new("/db"), Path::new("/db/file"));
        disk.write_file(path, b"bytes");
        let env = Env {
            vfs: Arc::new(disk.clone()),
            runtime: SimRuntime::new(1),
        };
        let calls = disk.calls();
        let (Env { vfs, .. }, _source) = Source::of(&env);
        let refusals = [
            vfs.create_dir_all(Path::new("/db/new")),
            vfs.remove_dir(dir),
            vfs.sync_dir(dir),
            vfs.create(path, WriteMode::Log, 0).map(drop),
            vfs.rename(path, Path::new("/db/other")),
            vfs.remove(path),
        ];
        for refusal in refusals {
            assert_eq!(refusal.unwrap_err().kind(), ErrorKind::PermissionDenied);
        }
        assert_eq!(disk.calls(), calls, "nothing reaches the disk");
        let file = vfs.open(path, Access::Sequential).unwrap();
        let mut bytes = [0; 5];
        assert_eq!(file.read_at(&mut bytes, 0).unwrap(), 5);
        assert_eq!(&bytes, b"bytes");
    }
}
