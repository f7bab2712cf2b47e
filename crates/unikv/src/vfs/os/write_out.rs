//! Having the kernel write out what a file has in the page cache, without waiting for it.
#![allow(unsafe_code, reason = "a system call that rustix does not have")]

use std::fs::File;

/// Begins to write out. A hint: where that cannot be asked for, a sync begins it.
pub(super) fn begin(file: &File) {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd;
        let (all, flags) = (0, libc::SYNC_FILE_RANGE_WRITE);
        // SAFETY: the descriptor is open as long as `file` is, and no memory is handed over.
        let _hint = unsafe { libc::sync_file_range(file.as_raw_fd(), 0, all, flags) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = file;
}
