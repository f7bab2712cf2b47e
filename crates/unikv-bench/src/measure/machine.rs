//! What the run ran on. A figure without it proves nothing.

use serde::Serialize;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The machine, as far as the system says. Sizes in bytes.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The model of the processor.
    pub cpu: String,
    /// The clock of the first core now, in MHz.
    pub cpu_mhz: Option<f64>,
    /// Cores that this process may use.
    pub cores: usize,
    /// Memory in all.
    pub memory_bytes: Option<u64>,
    /// The tightest limit of the memory cgroup of this process; it includes the page cache.
    pub memory_limit_bytes: Option<u64>,
    /// The type of the file system that holds the database.
    pub file_system: Option<String>,
    /// What the kernel reads ahead on its device.
    pub read_ahead_bytes: Option<u64>,
    /// The version of the kernel.
    pub kernel: String,
}

impl Machine {
    /// As it is now, with the device that holds `dir`, which must exist.
    pub fn inspect(dir: &Path) -> Machine {
        let device = fs::metadata(dir).ok().map(|metadata| {
            let device = metadata.dev();
            format!(
                "{}:{}",
                rustix::fs::major(device),
                rustix::fs::minor(device)
            )
        });
        let device = device.as_deref();
        Machine {
            cpu: cpu_line("model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            cpu_mhz: cpu_line("cpu MHz").and_then(|mhz| mhz.parse().ok()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: memory(),
            memory_limit_bytes: memory_limit(),
            file_system: device.and_then(file_system),
            read_ahead_bytes: device.and_then(read_ahead),
            kernel: read("/proc/sys/kernel/osrelease").unwrap_or_default(),
        }
    }
}

fn read(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

fn cpu_line(name: &str) -> Option<String> {
    let text = read("/proc/cpuinfo")?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn memory() -> Option<u64> {
    let text = read("/proc/meminfo")?;
    let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? << 10)
}

fn memory_limit() -> Option<u64> {
    // Version 2 has one line `0::/path`; a limit of any ancestor binds too.
    let text = read("/proc/self/cgroup")?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::"));
    let v2 = path
        .into_iter()
        .flat_map(|path| Path::new(path).ancestors())
        .filter_map(|group| {
            let group = group.to_str()?.trim_start_matches('/');
            read(&format!("/sys/fs/cgroup/{group}/memory.max"))?
                .parse()
                .ok()
        });
    let v1_path = text.lines().find_map(|line| line.split_once(":memory:"));
    let v1 = v1_path.into_iter().filter_map(|(_, path)| {
        read(&format!(
            "/sys/fs/cgroup/memory{path}/memory.limit_in_bytes"
        ))?
        .parse()
        .ok()
    });
    // Version 1 says "no limit" with a huge number.
    v2.chain(v1).filter(|&limit: &u64| limit < 1 << 50).min()
}

fn file_system(device: &str) -> Option<String> {
    let text = read("/proc/self/mountinfo")?;
    let line = text
        .lines()
        .find(|line| line.split(' ').nth(2) == Some(device))?;
    Some(line.split_once(" - ")?.1.split(' ').next()?.to_owned())
}

fn read_ahead(device: &str) -> Option<u64> {
    let kib = read(&format!("/sys/class/bdi/{device}/read_ahead_kb"))
        .or_else(|| read(&format!("/sys/dev/block/{device}/queue/read_ahead_kb")))
        .or_else(|| read(&format!("/sys/dev/block/{device}/../queue/read_ahead_kb")))?;
    Some(kib.parse::<u64>().ok()? << 10)
}
