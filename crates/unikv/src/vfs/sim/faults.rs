//! Which calls fail: the count of calls, the rules of a test, and the power.
//!
//! A rule is taken out while it runs, so it may look at the disk or change the rules itself;
//! `rule_version` tells whether it has been replaced meanwhile. Calls of other threads go past a
//! rule that is running: rules are for simulations, which have one thread.

use crate::base::sync::Mutex;
use std::io::{self, ErrorKind};
use std::path::Path;

/// A kind of call that changes the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Op {
    /// `Vfs::create_dir_all`
    CreateDir,
    /// `Vfs::remove_dir`
    RemoveDir,
    /// `Vfs::sync_dir`
    SyncDir,
    /// `Vfs::create`
    Create,
    /// Bytes reaching the kernel: each append of a log, each full buffer and the rest of a bulk
    /// file.
    Append,
    /// `SyncFile::sync`
    Sync,
    /// The sync in `WriteFile::finish`, after the rest has been appended.
    Finish,
    /// `Vfs::rename`; the path is the old one.
    Rename,
    /// `Vfs::remove`
    Remove,
    /// `Vfs::lock`
    Lock,
}

/// A call that is about to change the disk.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// How many such calls came before it.
    pub index: u64,
    /// What it does.
    pub op: Op,
    /// On which file or directory.
    pub path: &'a Path,
    /// How many bytes it appends.
    pub bytes: usize,
}

/// A read of a file, or the announcement of one.
#[derive(Clone, Copy, Debug)]
pub struct ReadCall<'a> {
    /// Of which file.
    pub path: &'a Path,
    /// From where.
    pub offset: u64,
    /// How many bytes.
    pub bytes: usize,
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It works.
    None,
    /// It fails with this kind of error and does nothing (a sync leaves its bytes in doubt).
    Fail(ErrorKind),
    /// An append writes only so many of its bytes and then fails; any other call just fails.
    FailAfter {
        /// The bytes that reach the kernel.
        bytes: usize,
    },
    /// The power goes before the call does anything; it and every later call fails.
    PowerCut,
}

/// How much of a call is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Whole,
    /// So many bytes, then it fails.
    Part(usize),
}

/// Decides about calls that change the disk.
pub type FaultRule = Box<dyn FnMut(&Call<'_>) -> Fault + Send>;
/// Decides about reads; an error kind makes the read fail.
pub type ReadFaultRule = Box<dyn FnMut(&ReadCall<'_>) -> Option<ErrorKind> + Send>;
/// Is told what `ReadFile::will_need` announces.
pub type AnnouncementRule = Box<dyn FnMut(&ReadCall<'_>) + Send>;

#[derive(Default)]
pub(super) struct Faults {
    calls: u64,
    power_is_off: bool,
    rule: Option<FaultRule>,
    read_rule: Option<ReadFaultRule>,
    announcement_rule: Option<AnnouncementRule>,
    rule_version: u64,
}

impl Faults {
    pub(super) fn calls(&self) -> u64 {
        self.calls
    }

    pub(super) fn set_rule(&mut self, rule: Option<FaultRule>) {
        self.rule = rule;
        self.rule_version += 1;
    }

    pub(super) fn set_read_rule(&mut self, rule: Option<ReadFaultRule>) {
        self.read_rule = rule;
        self.rule_version += 1;
    }

    pub(super) fn set_announcement_rule(&mut self, rule: Option<AnnouncementRule>) {
        self.announcement_rule = rule;
        self.rule_version += 1;
    }

    pub(super) fn check_power(&self) -> io::Result<()> {
        if self.power_is_off {
            return Err(io::Error::other("the simulated machine has no power"));
        }
        Ok(())
    }
}

/// Counts a call that changes the disk and asks the rule what becomes of it.
pub(super) fn begin(
    faults: &Mutex<Faults>,
    op: Op,
    path: &Path,
    bytes: usize,
) -> io::Result<Effect> {
    let (index, version, rule) = {
        let mut faults = faults.lock();
        faults.check_power()?;
        let index = faults.calls;
        faults.calls += 1;
        (index, faults.rule_version, faults.rule.take())
    };
    let Some(mut rule) = rule else {
        return Ok(Effect::Whole);
    };
    let fault = rule(&Call {
        index,
        op,
        path,
        bytes,
    });
    let mut faults = faults.lock();
    if faults.rule_version == version {
        faults.rule = Some(rule);
    }
    match fault {
        Fault::None => Ok(Effect::Whole),
        Fault::Fail(kind) => Err(injected(kind)),
        Fault::FailAfter { bytes } => Ok(Effect::Part(bytes)),
        Fault::PowerCut => {
            faults.power_is_off = true;
            faults.check_power().map(|()| Effect::Whole)
        }
    }
}

/// Asks the read rule about a read.
pub(super) fn begin_read(
    faults: &Mutex<Faults>,
    path: &Path,
    offset: u64,
    bytes: usize,
) -> io::Result<()> {
    let (version, rule) = {
        let mut faults = faults.lock();
        faults.check_power()?;
        (faults.rule_version, faults.read_rule.take())
    };
    let Some(mut rule) = rule else { return Ok(()) };
    let verdict = rule(&ReadCall {
        path,
        offset,
        bytes,
    });
    let mut faults = faults.lock();
    if faults.rule_version == version {
        faults.read_rule = Some(rule);
    }
    verdict.map_or(Ok(()), |kind| Err(injected(kind)))
}

/// Tells the rule of an announcement, which cannot fail.
pub(super) fn announce(faults: &Mutex<Faults>, path: &Path, offset: u64, bytes: usize) {
    let (version, rule) = {
        let mut faults = faults.lock();
        (faults.rule_version, faults.announcement_rule.take())
    };
    let Some(mut rule) = rule else { return };
    rule(&ReadCall {
        path,
        offset,
        bytes,
    });
    let mut faults = faults.lock();
    if faults.rule_version == version {
        faults.announcement_rule = Some(rule);
    }
}

/// The error of an injected fault.
pub(super) fn injected(kind: ErrorKind) -> io::Error {
    io::Error::new(kind, "injected by the simulation")
}
