//! Reads that the device gets at once: `io_uring`.
//!
//! One call submits all of them and waits for them, which takes less than half of the processor's
//! time that as many reads one by one take (`docs/benchmarks/levers.md`). Systems that forbid it
//! (containers often do) read one by one.
//!
//! Invariants:
//! - No ring that anybody else may have holds a read that is not finished. The kernel writes to the
//!   memory of a read until then.
//! - Only the process that has made a ring uses it: a fork shares the queue, but not the memory
//!   that is read to.
//!
//! Lock: `idle`, held for a push or a pop only.
#![allow(
    unsafe_code,
    reason = "the kernel writes to memory that is lent to it: who submits has to wait"
)]

use crate::base::sync::{Mutex, OnceLock};
use io_uring::{IoUring, opcode, types};
use rustix::io::retry_on_intr;
use std::fmt;
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::process;

/// This many reads are submitted at once.
const ENTRIES: u32 = 64;
/// Rings kept for the next reads: one for each thread that reads at a time.
const MOST_IDLE: usize = 16;

/// A read of whole blocks.
pub(super) struct Part<'a> {
    pub(super) file: BorrowedFd<'a>,
    pub(super) offset: u64,
    pub(super) memory: &'a mut [u8],
}

/// The rings of a file system.
#[derive(Default)]
pub(super) struct Rings {
    idle: Mutex<Vec<IoUring>>,
    /// The process that makes rings, once that was tried; `None`: there can be none.
    made_by: OnceLock<Option<u32>>,
}

impl Rings {
    /// Whether reads go to the device at once.
    pub(super) fn are_there(&self) -> bool {
        let made_by = self.made_by.get_or_init(|| {
            self.give_back(new_ring()?);
            Some(process::id())
        });
        *made_by == Some(process::id())
    }

    /// Does all of `parts`, and says of each how many bytes were read.
    pub(super) fn read(&self, parts: &mut [Part<'_>]) -> Vec<io::Result<usize>> {
        let mut results = Vec::with_capacity(parts.len());
        if parts.len() > 1
            && let Some(mut ring) = self.take()
        {
            let mut together = parts.chunks_mut(ENTRIES as usize);
            let is_clean = together.all(|parts| read_together(&mut ring, parts, &mut results));
            if is_clean {
                self.give_back(ring);
            }
        }
        for part in parts.iter_mut().skip(results.len()) {
            let read =
                retry_on_intr(|| rustix::io::pread(part.file, &mut *part.memory, part.offset));
            results.push(read.map_err(io::Error::from));
        }
        results
    }

    fn take(&self) -> Option<IoUring> {
        if !self.are_there() {
            return None;
        }
        let idle = self.idle.lock().pop();
        idle.or_else(new_ring)
    }

    fn give_back(&self, ring: IoUring) {
        let mut idle = self.idle.lock();
        if idle.len() < MOST_IDLE {
            idle.push(ring);
        }
    }
}

/// A ring of a system that knows reads (Linux 5.6 and later).
fn new_ring() -> Option<IoUring> {
    let ring = IoUring::new(ENTRIES).ok()?;
    ring.params().is_feature_rw_cur_pos().then_some(ring)
}

/// Does at most [`ENTRIES`] reads and appends what came of them. False: the ring may hold some of
/// them still, which it has not begun.
fn read_together(
    ring: &mut IoUring,
    parts: &mut [Part<'_>],
    results: &mut Vec<io::Result<usize>>,
) -> bool {
    let first = results.len();
    for (nth, part) in parts.iter_mut().enumerate() {
        let (memory, len) = (part.memory.as_mut_ptr(), part.memory.len() as u32);
        let file = types::Fd(part.file.as_raw_fd());
        let read = opcode::Read::new(file, memory, len).offset(part.offset);
        // SAFETY: the descriptor and the memory are borrowed until this function returns. It does
        // not before each read that the kernel has begun is finished, and nothing between the first
        // that it begins and there can panic.
        let pushed = unsafe { ring.submission().push(&read.build().user_data(nth as u64)) };
        debug_assert!(pushed.is_ok(), "there is room for all of them");
        results.push(Err(ErrorKind::Other.into()));
    }
    let mut left = ring.submission().len();
    while left > 0 {
        let entered = ring.submit_and_wait(left);
        for done in ring.completion() {
            let Some(result) = results.get_mut(first + done.user_data() as usize) else {
                continue;
            };
            left = left.saturating_sub(1);
            *result = match usize::try_from(done.result()) {
                Ok(read) => Ok(read),
                Err(_) => Err(io::Error::from_raw_os_error(-done.result())),
            };
        }
        // What was begun is waited for even if the kernel can begin no more.
        if entered.is_err() && left == ring.submission().len() && left > 0 {
            return false;
        }
    }
    true
}

impl fmt::Debug for Rings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rings").finish_non_exhaustive()
    }
}
