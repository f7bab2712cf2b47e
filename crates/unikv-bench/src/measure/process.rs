//! What the system knows of this process.

use crate::failure::Failure;
use rustix::fs::{Advice, fadvise, syncfs};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// CPU time of all threads of this process so far.
pub fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Bytes that this process caused to be read from and written to devices so far.
pub fn device_bytes() -> Option<(u64, u64)> {
    let text = fs::read_to_string("/proc/self/io").ok()?;
    Some((field(&text, "read_bytes:")?, field(&text, "write_bytes:")?))
}

/// Anonymous memory of this process now.
pub fn anonymous_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    Some(field(&text, "RssAnon:")? << 10)
}

/// Memory of this process that is resident now: anonymous and mapped.
pub fn resident_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    Some(field(&text, "VmRSS:")? << 10)
}

/// What the memory cgroup of this process holds now, page cache included.
pub fn cgroup_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    let v1 = text.lines().find_map(|line| line.split_once(":memory:"));
    let file = match v1 {
        Some((_, path)) => format!("/sys/fs/cgroup/memory{path}/memory.usage_in_bytes"),
        None => {
            let path = text.lines().find_map(|line| line.strip_prefix("0::"))?;
            format!("/sys/fs/cgroup{path}/memory.current")
        }
    };
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// Bytes that the device under `dir` has read and written so far, for everybody.
pub fn block_device_bytes(dir: &Path) -> Option<(u64, u64)> {
    let stat = block_device_stat(dir)?;
    let (read, written) = (*stat.get(2)?, *stat.get(6)?);
    Some((read * SECTOR_BYTES, written * SECTOR_BYTES))
}

/// What the device under a directory has done so far, for everybody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceCounts {
    /// Requests that it is busy with.
    pub in_flight: u64,
    /// Reads, writes, and, where they are counted, discards of space, which have been completed.
    done: [u64; 3],
}

impl DeviceCounts {
    /// Requests completed since `before`.
    pub fn since(&self, before: &DeviceCounts) -> u64 {
        let pairs = self.done.iter().zip(&before.done);
        pairs.map(|(now, before)| now.saturating_sub(*before)).sum()
    }
}

/// The same of requests.
pub fn block_device_counts(dir: &Path) -> Option<DeviceCounts> {
    let stat = block_device_stat(dir)?;
    let discards = stat.get(11).copied().unwrap_or_default();
    Some(DeviceCounts {
        in_flight: *stat.get(8)?,
        done: [*stat.first()?, *stat.get(4)?, discards],
    })
}

/// Has the system drop the pages of all files under `dir` from the page cache, after it has written
/// those that are dirty.
///
/// # Errors
/// A file cannot be opened, or the system refuses.
pub fn drop_cached_files(dir: &Path) -> Result<(), Failure> {
    let named = |error: io::Error| Failure::file(dir.display(), error);
    let failed = |error: Errno| named(error.into());
    syncfs(fs::File::open(dir).map_err(named)?).map_err(failed)?;
    for entry in fs::read_dir(dir).map_err(named)? {
        let entry = entry.map_err(named)?;
        let kind = match entry.file_type() {
            Err(error) if is_gone(&error) => continue,
            kind => kind.map_err(named)?,
        };
        if kind.is_dir() {
            drop_cached_files(&entry.path())?;
        } else if kind.is_file() {
            // Engines remove files at any time.
            let file = match fs::File::open(entry.path()) {
                Err(error) if is_gone(&error) => continue,
                file => file.map_err(named)?,
            };
            fadvise(&file, 0, None, Advice::DontNeed).map_err(failed)?;
        }
    }
    Ok(())
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

fn block_device_stat(dir: &Path) -> Option<Vec<u64>> {
    let device = fs::metadata(dir).ok()?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let stat = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")).ok()?;
    let numbers = stat.split_whitespace().map(|number| number.parse().ok());
    numbers.collect()
}

/// Of `stat`, whatever those of the device are.
const SECTOR_BYTES: u64 = 512;

fn field(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_proc_files() {
        let text = "VmRSS:\t  900 kB\nRssAnon:\t  40 kB\n";
        assert_eq!(field(text, "RssAnon:"), Some(40));
        assert_eq!(field(text, "RssFile:"), None);
    }
}
