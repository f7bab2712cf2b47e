//! The state of a simulated disk: directories with their names, files with their bytes.
//!
//! Invariants:
//! - `names` of a directory is `durable_names` with `pending` applied in order.
//! - The first `durable_len` bytes of a file survive every cut, except inside `doubtful`.
//! - `bytes` is shared between a disk and its copies until one of them writes.

use crate::base::sync::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What an unlimited disk reports as free.
pub(super) const UNLIMITED_FREE: u64 = 1 << 50;

pub(super) type Names = BTreeMap<String, Arc<Inode>>;

#[derive(Default)]
pub(super) struct Disk {
    pub(super) next_inode: u64,
    pub(super) dirs: BTreeMap<PathBuf, Dir>,
    pub(super) locks: BTreeSet<PathBuf>,
    /// Bytes that can still be written; `None` for no limit.
    pub(super) free: Option<u64>,
}

#[derive(Default)]
pub(super) struct Dir {
    /// Removed, but its parent is not synced yet.
    pub(super) removed: bool,
    pub(super) names: Names,
    pub(super) durable_names: Names,
    pub(super) pending: Vec<NameOp>,
    /// So many of them, the first, were to be made durable by syncs that failed: no later sync does that.
    pub(super) doubtful: usize,
}

/// A change of a directory that is not durable.
#[derive(Clone)]
pub(super) enum NameOp {
    Link {
        name: String,
        inode: Arc<Inode>,
    },
    Unlink {
        name: String,
    },
    Rename {
        from: String,
        to: String,
        inode: Arc<Inode>,
    },
}

impl NameOp {
    pub(super) fn apply(&self, names: &mut Names) {
        match self {
            NameOp::Link { name, inode } => {
                names.insert(name.clone(), Arc::clone(inode));
            }
            NameOp::Unlink { name } => {
                names.remove(name);
            }
            NameOp::Rename { from, to, inode } => {
                names.remove(from);
                names.insert(to.clone(), Arc::clone(inode));
            }
        }
    }

    fn names(&self) -> [&str; 2] {
        match self {
            NameOp::Link { name, .. } | NameOp::Unlink { name } => [name, name],
            NameOp::Rename { from, to, .. } => [from, to],
        }
    }

    /// What it does to other names than `changed`.
    fn without(self, changed: &BTreeSet<&str>) -> Option<NameOp> {
        let is_left = |name: &String| !changed.contains(name.as_str());
        match self {
            NameOp::Rename { from, to, inode } => match (is_left(&from), is_left(&to)) {
                (true, true) => Some(NameOp::Rename { from, to, inode }),
                (true, false) => Some(NameOp::Unlink { name: from }),
                (false, true) => Some(NameOp::Link { name: to, inode }),
                (false, false) => None,
            },
            NameOp::Link { ref name, .. } | NameOp::Unlink { ref name } => {
                is_left(name).then_some(self)
            }
        }
    }

    /// Lets `change` replace the file of this operation, if it has one.
    pub(super) fn each_inode(&mut self, change: impl FnOnce(&mut Arc<Inode>)) {
        match self {
            NameOp::Link { inode, .. } | NameOp::Rename { inode, .. } => change(inode),
            NameOp::Unlink { .. } => {}
        }
    }
}

impl Dir {
    fn change(&mut self, op: NameOp) {
        op.apply(&mut self.names);
        self.pending.push(op);
    }

    /// What failed syncs were to cover stays pending, but for the names that have changed once more.
    fn make_durable(&mut self) {
        let fresh = self.pending.split_off(self.doubtful);
        let changed: BTreeSet<&str> = fresh.iter().flat_map(NameOp::names).collect();
        let doubtful = std::mem::take(&mut self.pending).into_iter();
        self.pending = doubtful.filter_map(|op| op.without(&changed)).collect();
        self.doubtful = self.pending.len();
        fresh
            .iter()
            .for_each(|op| op.apply(&mut self.durable_names));
    }

    fn fail_sync(&mut self) {
        self.doubtful = self.pending.len();
    }
}

/// A file, whatever its name.
pub(super) struct Inode {
    pub(super) id: u64,
    pub(super) content: Mutex<Content>,
}

/// The bytes of a file in the kernel, and how far they are durable.
#[derive(Clone, Default)]
pub(super) struct Content {
    bytes: Arc<Vec<u8>>,
    pub(super) durable_len: usize,
    /// What failed syncs were to cover; no later sync makes it durable.
    pub(super) doubtful: Vec<Range<usize>>,
}

impl Content {
    /// Bytes that are all durable.
    pub(super) fn durable(bytes: Arc<Vec<u8>>) -> Content {
        Content {
            durable_len: bytes.len(),
            bytes,
            doubtful: Vec::new(),
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The same bytes, shared.
    pub(super) fn shared_bytes(&self) -> Arc<Vec<u8>> {
        Arc::clone(&self.bytes)
    }

    pub(super) fn append(&mut self, bytes: &[u8]) {
        Arc::make_mut(&mut self.bytes).extend_from_slice(bytes);
    }

    pub(super) fn sync(&mut self) {
        self.durable_len = self.bytes.len();
    }

    pub(super) fn fail_sync(&mut self) {
        // The unsynced part of an earlier doubtful range starts at the same place: replace it.
        self.doubtful.retain(|range| range.end <= self.durable_len);
        if self.durable_len < self.bytes.len() {
            self.doubtful.push(self.durable_len..self.bytes.len());
        }
    }

    pub(super) fn flip_bit(&mut self, bit: u64) -> bool {
        let Ok(at) = usize::try_from(bit / 8) else {
            return false;
        };
        if at >= self.bytes.len() {
            return false;
        }
        Arc::make_mut(&mut self.bytes)[at] ^= 1 << (bit % 8);
        true
    }
}

impl Disk {
    pub(super) fn create_dir_all(&mut self, dir: &Path) -> io::Result<()> {
        for ancestor in dir.ancestors().filter(|a| !is_root(a)) {
            if self.find(ancestor).is_ok() {
                return Err(ErrorKind::NotADirectory.into());
            }
            self.dirs.entry(ancestor.to_owned()).or_default().removed = false;
        }
        Ok(())
    }

    pub(super) fn remove_dir(&mut self, dir: &Path) -> io::Result<()> {
        let has_subdir = self.subdirs(dir).next().is_some();
        let found = self.dir(dir)?;
        if has_subdir || !found.names.is_empty() {
            return Err(ErrorKind::DirectoryNotEmpty.into());
        }
        found.removed = true;
        Ok(())
    }

    pub(super) fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let found = self.dirs.get(dir).filter(|d| !d.removed);
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
            .retain(|path, d| !(d.removed && path.parent() == Some(dir)));
        Ok(())
    }

    pub(super) fn fail_sync_dir(&mut self, dir: &Path) {
        if let Ok(found) = self.dir(dir) {
            found.fail_sync();
        }
    }

    /// The file at `path`.
    pub(super) fn find(&self, path: &Path) -> io::Result<Arc<Inode>> {
        let (dir, name) = split(path)?;
        let dir = self
            .dirs
            .get(dir)
            .filter(|d| !d.removed)
            .ok_or(ErrorKind::NotFound)?;
        Ok(Arc::clone(dir.names.get(&name).ok_or(ErrorKind::NotFound)?))
    }

    pub(super) fn create(&mut self, path: &Path) -> io::Result<Arc<Inode>> {
        if self.find(path).is_ok() || self.dirs.get(path).is_some_and(|d| !d.removed) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let (dir, name) = split(path)?;
        let inode = self.new_inode(Content::default());
        self.dir(dir)?.change(NameOp::Link {
            name,
            inode: Arc::clone(&inode),
        });
        Ok(inode)
    }

    /// Creates a file of `bytes` zeros, durable but for its name.
    pub(super) fn reserve(&mut self, path: &Path, bytes: u64) -> io::Result<()> {
        if self.free.is_some_and(|free| free < bytes) {
            return Err(ErrorKind::StorageFull.into());
        }
        let inode = self.create(path)?;
        let zeros = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX)];
        self.append(&inode, &zeros);
        inode.content.lock().sync();
        Ok(())
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let inode = self.find(from)?;
        let ((dir, from), (to_dir, to)) = (split(from)?, split(to)?);
        if dir != to_dir {
            let what = "the simulated disk renames within one directory only";
            return Err(io::Error::new(ErrorKind::Unsupported, what));
        }
        if from == to {
            return Ok(());
        }
        let found = self.dir(dir)?;
        let replaced = found.names.get(&to).cloned();
        found.change(NameOp::Rename { from, to, inode });
        if let Some(inode) = replaced {
            self.give_back(&inode);
        }
        Ok(())
    }

    pub(super) fn remove(&mut self, path: &Path) -> io::Result<()> {
        let inode = self.find(path)?;
        let (dir, name) = split(path)?;
        self.dir(dir)?.change(NameOp::Unlink { name });
        self.give_back(&inode);
        Ok(())
    }

    /// Appends as many of `bytes` as the disk has room for; returns how many.
    pub(super) fn append(&mut self, inode: &Inode, bytes: &[u8]) -> usize {
        let mut len = bytes.len();
        if let Some(free) = &mut self.free {
            len = len.min(usize::try_from(*free).unwrap_or(usize::MAX));
            *free -= len as u64;
        }
        inode.content.lock().append(&bytes[..len]);
        len
    }

    /// Takes the lock at `path`, creating its file; `false` when it is taken.
    pub(super) fn lock(&mut self, path: &Path) -> io::Result<bool> {
        if self.locks.contains(path) {
            return Ok(false);
        }
        if self.find(path).is_err() {
            self.create(path)?;
        }
        self.locks.insert(path.to_owned());
        Ok(true)
    }

    pub(super) fn put_durable(&mut self, path: &Path, bytes: &[u8]) {
        let Ok((dir, name)) = split(path) else { return };
        let dir = dir.to_owned();
        // A file in the place of a directory is left alone: the write then has no effect.
        if self.create_dir_all(&dir).is_err() {
            return;
        }
        let inode = self.new_inode(Content::durable(Arc::new(bytes.to_vec())));
        let found = self.dirs.entry(dir).or_default();
        found.change(NameOp::Link { name, inode });
        found.make_durable();
    }

    pub(super) fn paths(&self) -> Vec<PathBuf> {
        let live = self.dirs.iter().filter(|(_, d)| !d.removed);
        live.flat_map(|(dir, d)| d.names.keys().map(move |name| dir.join(name)))
            .collect()
    }

    fn new_inode(&mut self, content: Content) -> Arc<Inode> {
        self.next_inode += 1;
        Arc::new(Inode {
            id: self.next_inode,
            content: Mutex::new(content),
        })
    }

    /// An existing directory. The roots always exist.
    fn dir(&mut self, dir: &Path) -> io::Result<&mut Dir> {
        if is_root(dir) {
            return Ok(self.dirs.entry(dir.to_owned()).or_default());
        }
        self.dirs
            .get_mut(dir)
            .filter(|d| !d.removed)
            .ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn subdirs(&self, dir: &Path) -> impl Iterator<Item = String> {
        let live = self.dirs.iter().filter(|(_, d)| !d.removed);
        let below = live.filter(move |(path, _)| path.parent() == Some(dir));
        below.filter_map(|(path, _)| Some(path.file_name()?.to_string_lossy().into_owned()))
    }

    fn give_back(&mut self, inode: &Inode) {
        if let Some(free) = &mut self.free {
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
