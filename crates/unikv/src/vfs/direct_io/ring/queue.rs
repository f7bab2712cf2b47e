//! One queue of reads that is shared with the kernel; without the feature `io-uring` there is none.
//!
//! Invariant: a queue that [`Queue::read`] has found clean holds no read that is not finished. The
//! kernel writes to the memory of a read until then.

#[cfg(feature = "io-uring")]
pub(super) use kernel::Queue;
#[cfg(not(feature = "io-uring"))]
pub(super) use none::Queue;
use std::os::fd::BorrowedFd;

/// This many reads are submitted at once.
pub(super) const ENTRIES: u32 = 64;

/// A read of whole blocks.
pub(in crate::vfs::direct_io) struct Part<'a> {
    pub(in crate::vfs::direct_io) file: BorrowedFd<'a>,
    pub(in crate::vfs::direct_io) offset: u64,
    pub(in crate::vfs::direct_io) memory: &'a mut [u8],
}

#[cfg(feature = "io-uring")]
#[allow(
    unsafe_code,
    reason = "the kernel writes to memory that is lent to it: who submits has to wait"
)]
mod kernel {
    use super::{ENTRIES, Part};
    use io_uring::{IoUring, opcode, types};
    use std::io::{self, ErrorKind};
    use std::os::fd::AsRawFd;

    pub(in crate::vfs::direct_io) struct Queue(IoUring);

    impl Queue {
        /// A queue of a system that knows reads (Linux 5.6 and later).
        pub(in crate::vfs::direct_io) fn new() -> Option<Queue> {
            let ring = IoUring::new(ENTRIES).ok()?;
            ring.params().is_feature_rw_cur_pos().then_some(Queue(ring))
        }

        /// Does at most [`ENTRIES`] reads and appends what came of them. False: the queue may hold
        /// some of them still, which it has not begun.
        pub(in crate::vfs::direct_io) fn read(
            &mut self,
            parts: &mut [Part<'_>],
            results: &mut Vec<io::Result<usize>>,
        ) -> bool {
            let first = results.len();
            for (nth, part) in parts.iter_mut().enumerate() {
                let (memory, len) = (part.memory.as_mut_ptr(), part.memory.len() as u32);
                let file = types::Fd(part.file.as_raw_fd());
                let read = opcode::Read::new(file, memory, len).offset(part.offset);
                // SAFETY: the descriptor and the memory are borrowed until this function returns.
                // It does not before each read that the kernel has begun is finished, and nothing
                // between the first that it begins and there can panic.
                let pushed = unsafe {
                    self.0
                        .submission()
                        .push(&read.build().user_data(nth as u64))
                };
                debug_assert!(pushed.is_ok(), "there is room for all of them");
                results.push(Err(ErrorKind::Other.into()));
            }
            let mut left = self.0.submission().len();
            while left > 0 {
                let entered = self.0.submit_and_wait(left);
                for done in self.0.completion() {
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
                if entered.is_err() && left == self.0.submission().len() && left > 0 {
                    return false;
                }
            }
            true
        }
    }
}

#[cfg(not(feature = "io-uring"))]
mod none {
    use super::Part;
    use std::io;

    /// There is none.
    pub(in crate::vfs::direct_io) enum Queue {}

    impl Queue {
        pub(in crate::vfs::direct_io) fn new() -> Option<Queue> {
            None
        }

        pub(in crate::vfs::direct_io) fn read(
            &mut self,
            _: &mut [Part<'_>],
            _: &mut Vec<io::Result<usize>>,
        ) -> bool {
            match *self {}
        }
    }
}
