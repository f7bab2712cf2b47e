//! A simulated machine: a disk in memory that knows what is durable, and a runtime in one thread.
//! Seeds and the order of the calls decide everything. `docs/testing.md`, "The fault model", says
//! what a kill, a power cut and a failed call leave.
//!
//! Invariants: no cut changes durable bytes. Names are durable apart from bytes. What a failed
//! `sync` or `sync_dir` was to cover stays in doubt for good. Files, sectors and names survive a
//! cut independently of each other. A renamed file keeps one of its names, whole.
//!
//! Locks: `faults` and `disk` of a disk, never held together nor while a rule runs; the content of
//! a file under `disk` or alone. Each set of [`Rule`]s has one that is held while it decides.

mod cut;
mod cut_over;
mod disk;
mod faults;
mod files;
mod held;
mod inode;
mod inspect;
mod names;
mod over;
mod rules;
mod runtime;

pub use cut::Keep;
pub use faults::{Call, Fault, FaultRule, Op, PrefetchRule, ReadCall, ReadFaultRule};
pub use files::BULK_BUFFER_LEN;
pub use rules::Rule;
pub use runtime::SimRuntime;

use super::{
    Access, BLOCK_BYTES, DirectRead, LockError, LockGuard, ReadFile, SharedPage, USUAL_OPEN_FILES,
    Vfs, WriteFile, WriteMode,
};
use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use disk::Disk;
use faults::{Effect, Faults};
use files::{SimLockGuard, SimPage, SimReadFile, SimWriteFile};
use held::Held;
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

/// A simulated disk. A clone is the same disk; [`SimVfs::power_cut`] and [`SimVfs::process_kill`]
/// make independent ones.
#[derive(Clone, Default)]
pub struct SimVfs {
    machine: Arc<Machine>,
    held: Option<Held>,
}

/// What all handles of one disk share.
#[derive(Default)]
struct Machine {
    disk: Mutex<Disk>,
    faults: Mutex<Faults>,
    /// Nothing is in memory.
    cold: AtomicBool,
    /// Data files that may be open at a time; 0: as many as by default.
    most_open_files: AtomicUsize,
}

impl SimVfs {
    /// An empty disk with a root directory.
    pub fn new() -> SimVfs {
        SimVfs::default()
    }

    /// Another machine with `disk`, as cold and with as few descriptors as this one.
    fn with_disk(&self, disk: Disk) -> SimVfs {
        SimVfs {
            machine: Arc::new(Machine {
                disk: Mutex::new(disk),
                faults: Mutex::default(),
                cold: AtomicBool::new(self.machine.is_cold()),
                most_open_files: AtomicUsize::new(
                    self.machine.most_open_files.load(Ordering::Relaxed),
                ),
            }),
            held: None,
        }
    }

    /// How many calls that change the disk have been made, failed ones included.
    pub fn calls(&self) -> u64 {
        self.machine.faults.lock().calls()
    }

    /// From now on `rule` decides about each call that changes the disk. It may use the disk's
    /// inspection methods and take cuts of it.
    pub fn set_fault(&self, rule: FaultRule) {
        self.machine.faults.lock().set_rule(Some(rule));
    }

    /// How many calls that only look at the disk have been made, failed ones included.
    pub fn looks(&self) -> u64 {
        self.machine.faults.lock().looks()
    }

    /// From now on `rule` decides about each call that only looks at the disk.
    pub fn set_look_fault(&self, rule: FaultRule) {
        self.machine.faults.lock().set_look_rule(Some(rule));
    }

    /// As [`SimVfs::set_look_fault`], for reads alone; an error kind makes a read fail.
    pub fn set_read_fault(&self, rule: ReadFaultRule) {
        self.set_look_fault(faults::for_reads(rule));
    }

    /// From now on the first of `rules` that matches a call decides about it.
    pub fn set_rules(&self, rules: Vec<Rule>) {
        let rules = Arc::new(Mutex::new(rules));
        let (changes, looks) = (Arc::clone(&rules), rules);
        self.set_fault(Box::new(move |call| {
            rules::decide(&mut changes.lock(), call)
        }));
        self.set_look_fault(Box::new(move |call| rules::decide(&mut looks.lock(), call)));
    }

    /// From now on `rule` is notified of each prefetch.
    pub fn set_prefetch_rule(&self, rule: PrefetchRule) {
        self.machine.faults.lock().set_prefetch_rule(Some(rule));
    }

    /// From now on nothing is in memory, so that a read of what is there gets nothing; or
    /// all is again.
    pub fn set_cold(&self, cold: bool) {
        self.machine.cold.store(cold, Ordering::Relaxed);
    }

    /// From now on who opens a database keeps no more of its data files open.
    pub fn set_max_open_files(&self, most: usize) {
        self.machine.most_open_files.store(most, Ordering::Relaxed);
    }

    /// Removes the rules. A machine without power stays without.
    pub fn clear_faults(&self) {
        let mut faults = self.machine.faults.lock();
        faults.set_rule(None);
        faults.set_look_rule(None);
        faults.set_prefetch_rule(None);
    }

    /// The disk as the next machine would find it if the power went now. This one is unchanged.
    pub fn power_cut(&self, keep: Keep) -> SimVfs {
        self.with_disk(self.machine.disk.lock().after_power_cut(keep))
    }

    /// How many changes of bytes and names a power cut might take. [`Keep::First`] keeps some of
    /// them.
    pub fn pending_changes(&self) -> u64 {
        self.machine.disk.lock().pending().len() as u64
    }

    /// The disk as the next process would find it if this one died now: everything that reached
    /// the kernel, durable or not, and no locks. This one is unchanged.
    pub fn process_kill(&self) -> SimVfs {
        self.with_disk(self.machine.disk.lock().after_process_kill())
    }
}

impl fmt::Debug for SimVfs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimVfs")
            .field("files", &self.file_names())
            .finish_non_exhaustive()
    }
}

impl Machine {
    /// Counts a call and asks the rule about it; `at` is the offset and the number of bytes.
    fn begin(&self, op: Op, path: &Path, at: (u64, usize)) -> io::Result<Effect> {
        faults::begin(&self.faults, op, path, at)
    }

    fn begin_whole(&self, op: Op, path: &Path) -> io::Result<()> {
        match self.begin(op, path, (0, 0))? {
            Effect::Whole => Ok(()),
            Effect::Part(_) => Err(faults::injected(ErrorKind::Other)),
        }
    }

    fn is_cold(&self) -> bool {
        self.cold.load(Ordering::Relaxed)
    }

    /// Fails when the power is off; for calls that change nothing.
    fn check_power(&self) -> io::Result<()> {
        self.faults.lock().check_power()
    }
}

impl Vfs for SimVfs {
    fn in_directory(&self, dir: &Path) -> io::Result<Option<Arc<dyn Vfs>>> {
        Ok(Some(Arc::new(self.hold(dir)?)))
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.machine.begin_whole(Op::CreateDir, dir)?;
        let mut disk = self.machine.disk.lock();
        let dir = self.resolve(&disk, dir)?;
        disk.create_dir_all(&dir)
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.machine.begin_whole(Op::RemoveDir, dir)?;
        let mut disk = self.machine.disk.lock();
        let at = self.resolve(&disk, dir)?;
        if at != disk.working_dir.join(dir) {
            return Err(ErrorKind::NotFound.into());
        }
        disk.remove_dir(&at)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.machine.begin_whole(Op::List, dir)?;
        let disk = self.machine.disk.lock();
        disk.list(&self.resolve(&disk, dir)?)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let begun = self.machine.begin_whole(Op::SyncDir, dir);
        let mut disk = self.machine.disk.lock();
        let dir = self.resolve(&disk, dir)?;
        match begun {
            Ok(()) => disk.sync_dir(&dir),
            Err(error) => {
                disk.fail_sync_dir(&dir);
                Err(error)
            }
        }
    }

    fn open(&self, path: &Path, _access: Access) -> io::Result<Arc<dyn ReadFile>> {
        self.machine.begin_whole(Op::Open, path)?;
        let inode = self.find(path)?;
        Ok(Arc::new(SimReadFile::new(&self.machine, inode, path)))
    }

    fn read_direct(&self, reads: &mut [DirectRead<'_>]) -> Vec<io::Result<Option<usize>>> {
        let read_one = |read: &mut DirectRead<'_>| {
            // Anywhere but at the front.
            let begin = 1 + read.offset as usize % BLOCK_BYTES;
            let buf = read.buf.get_mut(begin..begin + read.len);
            let len = read
                .file
                .read_at(buf.ok_or(ErrorKind::InvalidInput)?, read.offset)?;
            if len != read.len {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            Ok(Some(begin))
        };
        reads.iter_mut().map(read_one).collect()
    }

    fn reads_direct_together(&self) -> bool {
        true
    }

    fn create(
        &self,
        path: &Path,
        mode: WriteMode,
        _size_hint: u64,
    ) -> io::Result<Box<dyn WriteFile>> {
        self.machine.begin_whole(Op::Create, path)?;
        let mut disk = self.machine.disk.lock();
        let at = self.resolve(&disk, path)?;
        let inode = disk.create(&at)?;
        drop(disk);
        Ok(Box::new(SimWriteFile::new(
            &self.machine,
            inode,
            path,
            mode,
        )))
    }

    fn overwrite(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        self.machine.begin_whole(Op::Overwrite, path)?;
        let inode = self.find(path)?;
        if self.machine.disk.lock().links_of(&inode) > 1 {
            return Err(ErrorKind::Unsupported.into());
        }
        let (machine, mode) = (&self.machine, WriteMode::Log);
        Ok(Box::new(SimWriteFile::new(machine, inode, path, mode)))
    }

    fn reserve(&self, path: &Path, bytes: u64) -> io::Result<()> {
        self.machine.begin_whole(Op::Create, path)?;
        let mut disk = self.machine.disk.lock();
        let at = self.resolve(&disk, path)?;
        disk.reserve(&at, bytes)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.machine.begin_whole(Op::Link, to)?;
        let mut disk = self.machine.disk.lock();
        let (from, to) = (self.resolve(&disk, from)?, self.resolve(&disk, to)?);
        disk.link(&from, &to)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.machine.begin_whole(Op::Rename, from)?;
        let mut disk = self.machine.disk.lock();
        let (from, to) = (self.resolve(&disk, from)?, self.resolve(&disk, to)?);
        disk.rename(&from, &to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.machine.begin_whole(Op::Remove, path)?;
        let mut disk = self.machine.disk.lock();
        let at = self.resolve(&disk, path)?;
        disk.remove(&at)
    }

    fn len(&self, path: &Path) -> io::Result<u64> {
        self.machine.begin_whole(Op::Len, path)?;
        let inode = self.find(path)?;
        let len = inode.content.lock().bytes().len();
        Ok(len as u64)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn LockGuard>, LockError> {
        self.machine
            .begin_whole(Op::Lock, path)
            .map_err(LockError::Io)?;
        let mut disk = self.machine.disk.lock();
        let at = self.resolve(&disk, path).map_err(LockError::Io)?;
        let Some(file) = disk.lock(&at).map_err(LockError::Io)? else {
            return Err(LockError::Held(Some(std::process::id())));
        };
        Ok(Box::new(SimLockGuard::new(&self.machine, file, path)))
    }

    fn create_page(&self, path: &Path, header: &[u8]) -> io::Result<Option<Arc<dyn SharedPage>>> {
        self.machine.begin_whole(Op::Create, path)?;
        let mut disk = self.machine.disk.lock();
        let at = self.resolve(&disk, path)?;
        let inode = disk.create(&at)?;
        drop(disk);
        let made = SimPage::create(&self.machine, &inode, header);
        let page = made.inspect_err(|_| drop(self.machine.disk.lock().remove(&at)))?;
        Ok(Some(Arc::new(page)))
    }

    fn open_page(&self, path: &Path) -> io::Result<Arc<dyn SharedPage>> {
        self.machine.begin_whole(Op::Open, path)?;
        Ok(Arc::new(SimPage::open(&self.machine, &self.find(path)?)?))
    }

    fn max_open_files(&self) -> usize {
        match self.machine.most_open_files.load(Ordering::Relaxed) {
            0 => USUAL_OPEN_FILES,
            most => most,
        }
    }

    fn free_space(&self, dir: &Path) -> io::Result<u64> {
        self.machine.begin_whole(Op::FreeSpace, dir)?;
        let disk = self.machine.disk.lock();
        disk.list(&self.resolve(&disk, dir)?)?;
        Ok(disk.free.unwrap_or(disk::UNLIMITED_FREE))
    }
}

#[cfg(test)]
mod tests;
