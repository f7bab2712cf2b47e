//! Which calls fail: the counts of calls, the rules of a test, and the power.
//!
//! Calls that change the disk and calls that only look at it are counted apart, and each kind has a
//! rule of its own: so the n-th change stays the n-th, whatever is read between.
//!
//! A rule runs without the lock of [`Faults`], so it may look at the disk or change the rules
//! itself; what its own thread calls meanwhile passes it. Calls of other threads wait until it has
//! ended, so no call escapes a rule. A rule that panics is removed.

use crate::base::sync::Mutex;
use crate::base::sync::unseen;
use std::cell::RefCell;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::ptr;
use std::sync::{Arc, PoisonError};

/// A kind of call.
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
    /// `Vfs::overwrite`
    Overwrite,
    /// Bytes reaching the kernel: each append of a log, each full buffer and the rest of a bulk
    /// file.
    Append,
    /// `SyncFile::sync`
    Sync,
    /// The sync in `WriteFile::finish`, after the rest has been appended.
    Finish,
    /// `Vfs::link`; the path is the new one.
    Link,
    /// `Vfs::rename`; the path is the old one.
    Rename,
    /// `Vfs::remove`
    Remove,
    /// `Vfs::lock`
    Lock,
    /// `Vfs::open`; like those below it changes nothing.
    Open,
    /// `Vfs::list`
    List,
    /// `Vfs::len` and `ReadFile::len`
    Len,
    /// `ReadFile::read_at`, and `read_cached_at` where the bytes are in memory
    Read,
    /// `Vfs::free_space`
    FreeSpace,
}

impl Op {
    /// Whether such calls change the disk.
    pub fn changes_disk(self) -> bool {
        !matches!(
            self,
            Op::Open | Op::List | Op::Len | Op::Read | Op::FreeSpace
        )
    }
}

/// A call that is about to be made.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// How many calls that change the disk came before it, or how many that only look, as it is one
    /// of these or of those.
    pub index: u64,
    /// What it does.
    pub op: Op,
    /// On which file or directory.
    pub path: &'a Path,
    /// From where it reads.
    pub offset: u64,
    /// How many bytes it appends or reads.
    pub bytes: usize,
}

/// A read of a file, or the prefetch of one.
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
    /// As [`Fault::Fail`], with an error number of the system: 24, `EMFILE`, has no kind.
    Os(i32),
    /// An append writes only this many of its bytes and then fails; any other call just fails.
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
    /// This many bytes, then it fails.
    Part(usize),
}

/// Decides about calls.
pub type FaultRule = Box<dyn FnMut(&Call<'_>) -> Fault + Send>;
/// Decides about reads; an error kind makes the read fail.
pub type ReadFaultRule = Box<dyn FnMut(&ReadCall<'_>) -> Option<ErrorKind> + Send>;
/// Gets what `ReadFile::will_need` prefetches.
pub type PrefetchRule = Box<dyn FnMut(&ReadCall<'_>) + Send>;

thread_local! {
    /// The rules that this thread is asking.
    static ASKING: RefCell<Vec<*const SharedRule>> = const { RefCell::new(Vec::new()) };
}

/// A rule that one thread at a time asks.
struct SharedRule(unseen::Mutex<FaultRule>);

impl SharedRule {
    /// What the rule says of a call, unless the rule itself makes it.
    fn ask(&self, call: &Call<'_>) -> Option<Fault> {
        if ASKING.with_borrow(|asking| asking.contains(&ptr::from_ref(self))) {
            return None;
        }
        let mut rule = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _asking = Asking::begin(self);
        Some(rule(call))
    }
}

/// Until a rule has answered, or panicked.
struct Asking(*const SharedRule);

impl Asking {
    fn begin(rule: &SharedRule) -> Asking {
        ASKING.with_borrow_mut(|asking| asking.push(rule));
        Asking(rule)
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        ASKING.with_borrow_mut(|asking| asking.retain(|rule| *rule != self.0));
    }
}

fn shared(rule: FaultRule) -> Arc<SharedRule> {
    Arc::new(SharedRule(unseen::Mutex::new(rule)))
}

/// A rule with the count of the calls that it is asked about.
#[derive(Default)]
struct Watch {
    calls: u64,
    rule: Option<Arc<SharedRule>>,
}

#[derive(Default)]
pub(super) struct Faults {
    changes: Watch,
    looks: Watch,
    power_is_off: bool,
    prefetch_rule: Option<PrefetchRule>,
    prefetch_rule_version: u64,
}

impl Faults {
    pub(super) fn calls(&self) -> u64 {
        self.changes.calls
    }

    pub(super) fn looks(&self) -> u64 {
        self.looks.calls
    }

    pub(super) fn set_rule(&mut self, rule: Option<FaultRule>) {
        self.changes.rule = rule.map(shared);
    }

    pub(super) fn set_look_rule(&mut self, rule: Option<FaultRule>) {
        self.looks.rule = rule.map(shared);
    }

    pub(super) fn set_prefetch_rule(&mut self, rule: Option<PrefetchRule>) {
        self.prefetch_rule = rule;
        self.prefetch_rule_version += 1;
    }

    pub(super) fn check_power(&self) -> io::Result<()> {
        if self.power_is_off {
            return Err(io::Error::other("the simulated machine has no power"));
        }
        Ok(())
    }

    fn watch(&mut self, op: Op) -> &mut Watch {
        if op.changes_disk() {
            &mut self.changes
        } else {
            &mut self.looks
        }
    }
}

/// Removes a rule that has not ended: it has panicked.
struct RunningRule<'a> {
    faults: &'a Mutex<Faults>,
    op: Op,
    rule: &'a Arc<SharedRule>,
    has_ended: bool,
}

impl Drop for RunningRule<'_> {
    fn drop(&mut self) {
        let mut faults = self.faults.lock();
        let watch = faults.watch(self.op);
        let is_current = |rule: &Arc<_>| Arc::ptr_eq(rule, self.rule);
        if !self.has_ended && watch.rule.as_ref().is_some_and(is_current) {
            watch.rule = None;
        }
    }
}

/// Counts a call and asks the rule what becomes of it.
pub(super) fn begin(
    faults: &Mutex<Faults>,
    op: Op,
    path: &Path,
    (offset, bytes): (u64, usize),
) -> io::Result<Effect> {
    let (index, rule) = {
        let mut faults = faults.lock();
        faults.check_power()?;
        let watch = faults.watch(op);
        let index = watch.calls;
        watch.calls += 1;
        (index, watch.rule.clone())
    };
    let Some(rule) = rule else {
        return Ok(Effect::Whole);
    };
    let mut running = RunningRule {
        faults,
        op,
        rule: &rule,
        has_ended: false,
    };
    let asked = rule.ask(&Call {
        index,
        op,
        path,
        offset,
        bytes,
    });
    running.has_ended = true;
    drop(running);
    // What the rule itself calls passes it.
    let fault = asked.unwrap_or(Fault::None);
    let mut faults = faults.lock();
    match fault {
        Fault::None => Ok(Effect::Whole),
        Fault::Fail(kind) => Err(injected(kind)),
        Fault::Os(number) => Err(io::Error::from_raw_os_error(number)),
        Fault::FailAfter { bytes } => Ok(Effect::Part(bytes)),
        Fault::PowerCut => {
            faults.power_is_off = true;
            faults.check_power().map(|()| Effect::Whole)
        }
    }
}

/// A rule for looks that asks `rule` about reads alone.
pub(super) fn for_reads(mut rule: ReadFaultRule) -> FaultRule {
    Box::new(move |call| {
        let read = ReadCall {
            path: call.path,
            offset: call.offset,
            bytes: call.bytes,
        };
        let verdict = (call.op == Op::Read).then(|| rule(&read)).flatten();
        verdict.map_or(Fault::None, Fault::Fail)
    })
}

/// Says the rule of a prefetch, which cannot fail.
pub(super) fn prefetch(faults: &Mutex<Faults>, path: &Path, offset: u64, bytes: usize) {
    let (version, rule) = {
        let mut faults = faults.lock();
        let version = faults.prefetch_rule_version;
        (version, faults.prefetch_rule.take())
    };
    let Some(mut rule) = rule else { return };
    rule(&ReadCall {
        path,
        offset,
        bytes,
    });
    let mut faults = faults.lock();
    if faults.prefetch_rule_version == version {
        faults.prefetch_rule = Some(rule);
    }
}

/// The error of an injected fault.
pub(super) fn injected(kind: ErrorKind) -> io::Error {
    io::Error::new(kind, "injected by the simulation")
}
