//! What the system tells of this process.

use rustix::time::{ClockId, clock_gettime};
use std::fs;
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
