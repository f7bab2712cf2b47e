//! The state of a simulated disk: directories (see [`super::names`]) and files with their bytes.
//!
//! Invariants:
//! - The first `durable_len` bytes of a file survive every cut, except inside `doubtful`.
//! - `writes` of a file ascend from above `durable_len` to its length: with the bytes they are the
//!   pending state of each sector, as long as the file only grows. Once it is written over it has
//!   `over` instead.
//! - Every change that is not durable carries the moment at which it was made.
//! - `bytes` is shared between a disk and its copies until one of them writes.

use super::files::PageWords;
use super::inode::{Content, Inode};
use super::names::{Dir, NameOp};
use super::over::Moment;
use crate::base::sync::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What an unlimited disk reports as free.
pub(super) const UNLIMITED_FREE: u64 = 1 << 50;

#[derive(Default)]
pub(super) struct Disk {
    pub(super) next_inode: u64,
    pub(super) dirs: BTreeMap<PathBuf, Dir>,
    /// The lock files that are locked, wherever they are.
    pub(super) locks: BTreeSet<u64>,
    /// The words of pages that are shared, of files by their ids; copies of the disk have none.
    pub(super) pages: BTreeMap<u64, Arc<PageWords>>,
    /// Directories that have been held so far.
    pub(super) next_hold: u64,
    /// From where relative paths start.
    pub(super) working_dir: PathBuf,
    /// Bytes that can still be written; `None` for no limit.
    pub(super) free: Option<u64>,
    /// Counts the changes that a cut may take.
    pub(super) clock: Moment,
}

impl Disk {
    pub(super) fn create_dir_all(&mut self, dir: &Path) -> io::Result<()> {
        for ancestor in dir.ancestors().filter(|a| !is_root(a)) {
            if self.find(ancestor).is_ok() {
                return Err(ErrorKind::NotADirectory.into());
            }
            let found = self.dirs.entry(ancestor.to_owned()).or_default();
            if found.removed.take().is_some() {
                // Another one, in the place of that which was removed.
                found.held_as = None;
                found.moved = None;
            }
        }
        Ok(())
    }

    pub(super) fn remove_dir(&mut self, dir: &Path) -> io::Result<()> {
        let has_subdir = self.subdirs(dir).next().is_some();
        let now = self.tick();
        let found = self.dir(dir)?;
        if has_subdir || !found.names.is_empty() {
            return Err(ErrorKind::DirectoryNotEmpty.into());
        }
        found.removed = Some(now);
        Ok(())
    }

    pub(super) fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let found = self.dirs.get(dir).filter(|d| d.removed.is_none());
        if found.is_none() && !is_root(dir) {
            return Err(ErrorKind::NotFound.into());
        }
        let files = found.into_iter().flat_map(|d| d.names.keys().cloned());
        Ok(files.chain(self.subdirs(dir)).collect())
    }

    pub(super) fn sync_dir(&mut self, dir: &Path) -> io::Result<()> {
        let found = self.dir(dir)?;
        found.make_durable();
        self.dirs
            .retain(|path, d| !(d.removed.is_some() && path.parent() == Some(dir)));
        for (path, found) in &mut self.dirs {
            if path.parent() == Some(dir) {
                found.moved.take_if(|moved| !moved.is_doubtful);
            }
        }
        Ok(())
    }

    pub(super) fn fail_sync_dir(&mut self, dir: &Path) {
        if let Ok(found) = self.dir(dir) {
            found.fail_sync();
        }
        for (path, found) in &mut self.dirs {
            if let Some(moved) = found.moved.as_mut().filter(|_| path.parent() == Some(dir)) {
                moved.is_doubtful = true;
            }
        }
    }

    /// The file at `path`.
    pub(super) fn find(&self, path: &Path) -> io::Result<Arc<Inode>> {
        let (dir, name) = split(path)?;
        let dir = self
            .dirs
            .get(dir)
            .filter(|d| d.removed.is_none())
            .ok_or(ErrorKind::NotFound)?;
        Ok(Arc::clone(dir.names.get(&name).ok_or(ErrorKind::NotFound)?))
    }

    pub(super) fn create(&mut self, path: &Path) -> io::Result<Arc<Inode>> {
        if self.is_taken(path) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let (dir, name) = split(path)?;
        let inode = self.new_inode(Content::default());
        let link = NameOp::Link {
            name,
            inode: Arc::clone(&inode),
        };
        let now = self.tick();
        self.dir(dir)?.change(link, now);
        Ok(inode)
    }

    /// Creates a file of `bytes` zeros, durable but for its name.
    pub(super) fn reserve(&mut self, path: &Path, bytes: u64) -> io::Result<()> {
        if self.free.is_some_and(|free| free < bytes) {
            return Err(ErrorKind::StorageFull.into());
        }
        let inode = self.create(path)?;
        let zeros = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX)];
        self.write(&inode, 0, &zeros);
        inode.content.lock().sync();
        Ok(())
    }

    /// Gives the file at `from` a second name.
    pub(super) fn link(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let inode = self.find(from)?;
        if self.is_taken(to) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let (dir, name) = split(to)?;
        let now = self.tick();
        self.dir(dir)?.change(NameOp::Link { name, inode }, now);
        Ok(())
    }

    /// How many names a file has.
    pub(super) fn links_of(&self, inode: &Inode) -> usize {
        let live = self.dirs.values().filter(|d| d.removed.is_none());
        let names = live.flat_map(|d| d.names.values());
        names.filter(|named| named.id == inode.id).count()
    }

    /// Whether something has this name.
    fn is_taken(&self, path: &Path) -> bool {
        self.find(path).is_ok() || self.dirs.get(path).is_some_and(|d| d.removed.is_none())
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        if self.dirs.get(from).is_some_and(|d| d.removed.is_none()) {
            return self.rename_dir(from, to);
        }
        let inode = self.find(from)?;
        let ((dir, from), (to_dir, to)) = (split(from)?, split(to)?);
        if dir != to_dir {
            let what = "the simulated disk renames within one directory only";
            return Err(io::Error::new(ErrorKind::Unsupported, what));
        }
        if from == to {
            return Ok(());
        }
        let now = self.tick();
        let found = self.dir(dir)?;
        let replaced = found.names.get(&to).cloned();
        found.change(NameOp::Rename { from, to, inode }, now);
        if let Some(inode) = replaced {
            self.give_back(&inode);
        }
        Ok(())
    }

    pub(super) fn remove(&mut self, path: &Path) -> io::Result<()> {
        let inode = self.find(path)?;
        let (dir, name) = split(path)?;
        let now = self.tick();
        self.dir(dir)?.change(NameOp::Unlink { name }, now);
        self.give_back(&inode);
        Ok(())
    }

    /// Writes as many of `bytes` from `start` on as the disk has room for; returns how many.
    pub(super) fn write(&mut self, inode: &Inode, start: usize, bytes: &[u8]) -> usize {
        let now = self.tick();
        let mut content = inode.content.lock();
        let old = content.bytes().len().saturating_sub(start).min(bytes.len());
        let mut len = bytes.len();
        if let Some(free) = &mut self.free {
            let growth = (len - old).min(usize::try_from(*free).unwrap_or(usize::MAX));
            *free -= growth as u64;
            len = old + growth;
        }
        content.write(start, &bytes[..len], now);
        len
    }

    /// Takes the lock at `path`, creating its file; `None` when it is taken.
    pub(super) fn lock(&mut self, path: &Path) -> io::Result<Option<u64>> {
        let file = match self.find(path) {
            Ok(file) => file,
            Err(_) => self.create(path)?,
        };
        Ok(self.locks.insert(file.id).then_some(file.id))
    }

    pub(super) fn put_durable(&mut self, path: &Path, bytes: &[u8]) {
        let Ok((dir, name)) = split(path) else { return };
        let dir = dir.to_owned();
        // A file in the place of a directory is left alone: the write then has no effect.
        if self.create_dir_all(&dir).is_err() {
            return;
        }
        let inode = self.new_inode(Content::durable(Arc::new(bytes.to_vec())));
        let now = self.tick();
        let found = self.dirs.entry(dir).or_default();
        found.change(NameOp::Link { name, inode }, now);
        found.make_durable();
    }

    pub(super) fn paths(&self) -> Vec<PathBuf> {
        let live = self.dirs.iter().filter(|(_, d)| d.removed.is_none());
        live.flat_map(|(dir, d)| d.names.keys().map(move |name| dir.join(name)))
            .collect()
    }

    /// The moments of all changes that a cut may take, in order.
    pub(super) fn pending(&self) -> Vec<Moment> {
        let mut files = BTreeMap::new();
        let mut moments = Vec::new();
        for dir in self.dirs.values() {
            let linked = dir.names.values().chain(dir.durable_names.values());
            files.extend(linked.map(|inode| (inode.id, inode)));
            moments.extend(dir.removed);
            moments.extend(dir.moved.as_ref().map(|moved| moved.at));
            moments.extend(dir.pending.iter().map(|(_, at)| at));
            let begun = dir.pending.iter().filter_map(|(op, _)| op.inode());
            files.extend(begun.map(|inode| (inode.id, inode)));
        }
        for inode in files.values() {
            moments.extend(inode.content.lock().pending());
        }
        moments.sort_unstable();
        moments
    }

    pub(super) fn tick(&mut self) -> Moment {
        self.clock += 1;
        self.clock
    }

    fn new_inode(&mut self, content: Content) -> Arc<Inode> {
        self.next_inode += 1;
        Arc::new(Inode {
            id: self.next_inode,
            content: Mutex::new(content),
        })
    }

    /// An existing directory. The roots always exist.
    pub(super) fn dir(&mut self, dir: &Path) -> io::Result<&mut Dir> {
        if is_root(dir) {
            return Ok(self.dirs.entry(dir.to_owned()).or_default());
        }
        self.dirs
            .get_mut(dir)
            .filter(|d| d.removed.is_none())
            .ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn subdirs(&self, dir: &Path) -> impl Iterator<Item = String> {
        let live = self.dirs.iter().filter(|(_, d)| d.removed.is_none());
        let below = live.filter(move |(path, _)| path.parent() == Some(dir));
        below.filter_map(|(path, _)| Some(path.file_name()?.to_string_lossy().into_owned()))
    }

    fn give_back(&mut self, inode: &Inode) {
        let has_a_name = self.free.is_some() && self.links_of(inode) > 0;
        if let Some(free) = self.free.as_mut().filter(|_| !has_a_name) {
            *free += inode.content.lock().bytes().len() as u64;
        }
    }
}

/// `/`, and the empty path from which relative ones start.
fn is_root(dir: &Path) -> bool {
    dir.parent().is_none()
}

fn split(path: &Path) -> io::Result<(&Path, String)> {
    let name = path.file_name().ok_or(ErrorKind::InvalidInput)?;
    let dir = path.parent().ok_or(ErrorKind::InvalidInput)?;
    Ok((dir, name.to_string_lossy().into_owned()))
}
