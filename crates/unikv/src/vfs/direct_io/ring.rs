//! Reads that the device gets at once: `io_uring`. One call submits all of them and waits, for less
//! than half of the processor's time of as many single reads (`docs/benchmarks/levers.md`). Systems
//! that forbid it (containers often do), and builds without the feature `io-uring`, read one by
//! one.
//!
//! Invariants:
//! - No ring that anybody else may have holds a read that is not finished. The kernel writes to the
//!   memory of a read until then.
//! - Only the process that has made a ring uses it: a fork shares the queue, but not the memory
//!   that is read to.
//!
//! Lock: `idle`, held for a push or a pop only.

mod queue;

use crate::base::sync::{Mutex, OnceLock};
pub(super) use queue::Part;
use queue::{ENTRIES, Queue};
use rustix::io::retry_on_intr;
use std::fmt;
use std::io;
use std::process;

/// Rings kept for the next reads: one for each thread that reads at a time.
const MOST_IDLE: usize = 16;

/// The rings of a file system.
#[derive(Default)]
pub(in crate::vfs) struct Rings {
    idle: Mutex<Vec<Queue>>,
    /// The process that makes rings, once that was tried; `None`: there can be none.
    made_by: OnceLock<Option<u32>>,
}

impl Rings {
    /// Whether reads go to the device at once.
    pub(in crate::vfs) fn are_there(&self) -> bool {
        let made_by = self.made_by.get_or_init(|| {
            self.give_back(Queue::new()?);
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
            let is_clean = together.all(|parts| ring.read(parts, &mut results));
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

    fn take(&self) -> Option<Queue> {
        if !self.are_there() {
            return None;
        }
        let idle = self.idle.lock().pop();
        idle.or_else(Queue::new)
    }

    fn give_back(&self, ring: Queue) {
        let mut idle = self.idle.lock();
        if idle.len() < MOST_IDLE {
            idle.push(ring);
        }
    }
}

impl fmt::Debug for Rings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rings").finish_non_exhaustive()
    }
}
