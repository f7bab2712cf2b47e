//! Watching the space promise: lists the directory of a database ten times a second and compares
//! what its files take with what they may take.
//!
//! The bound is a factor × (keys and values of the records there) + what their frames may take +
//! what does not grow with them + what snapshots and iterators pin. For UniKV the factor is
//! `max_space_amp`, and the fixed part is 2 × `unsorted_bytes` for each background thread, as each
//! may run a job, and a floor. The write-ahead log is allowed for as it is, so its files are left
//! out on both sides. A file counts with the blocks that the file system has given it.

use serde::Serialize;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The part of the floor that does not follow from the options.
pub const FLOOR_BYTES: u64 = 8 << 20;
const EVERY: Duration = Duration::from_millis(100);

/// What the bound follows from, beside the records.
#[derive(Clone, Copy, Debug)]
pub struct SpaceLimits {
    /// Bytes allowed for each byte of the records there.
    pub max_space_amp: f64,
    /// Bytes allowed whatever is there.
    pub fixed_bytes: u64,
}

impl SpaceLimits {
    /// What the files without the log may take.
    pub fn bound(&self, use_: &SpaceUse) -> u64 {
        let live = self.max_space_amp * use_.live_bytes as f64;
        live as u64 + use_.frame_bytes + self.fixed_bytes + use_.pinned_bytes
    }
}

/// What a record may take beyond the factor: see [`unikv::Options::max_space_amp`].
pub fn frame_bytes(key_len: usize, value_len: usize, max_space_amp: f64) -> u64 {
    if key_len > 32 || value_len < 256 || max_space_amp < 1.5 {
        70 + key_len as u64
    } else {
        0
    }
}

/// What the database holds for its user.
#[derive(Clone, Copy, Debug, Default)]
pub struct SpaceUse {
    /// Keys and values of the records there.
    pub live_bytes: u64,
    /// What these may take beyond the factor: see [`frame_bytes`].
    pub frame_bytes: u64,
    /// What snapshots and iterators keep from being reclaimed.
    pub pinned_bytes: u64,
}

/// One look at the directory.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct SpaceSample {
    /// Of all files but the log.
    pub data_bytes: u64,
    /// Of the log.
    pub wal_bytes: u64,
    /// Keys and values of the records there.
    pub live_bytes: u64,
    /// What snapshots and iterators keep.
    pub pinned_bytes: u64,
    /// What the files without the log may take.
    pub bound_bytes: u64,
}

impl SpaceSample {
    /// What is used of the bound: above 1 it is breached.
    pub fn ratio(&self) -> f64 {
        self.data_bytes as f64 / self.bound_bytes.max(1) as f64
    }
}

/// What was seen since somebody last asked.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct SpaceReport {
    /// Looks at the directory.
    pub samples: u64,
    /// Those that found more than the bound.
    pub breaches: u64,
    /// The greatest share of the bound in use.
    pub worst_ratio: f64,
    /// The sample with that ratio.
    pub worst: SpaceSample,
}

impl SpaceReport {
    fn add(&mut self, sample: SpaceSample) {
        let ratio = sample.ratio();
        self.samples += 1;
        self.breaches += u64::from(ratio > 1.0);
        if ratio >= self.worst_ratio {
            self.worst_ratio = ratio;
            self.worst = sample;
        }
    }

    /// Adds what was seen in another time.
    pub fn merge(&mut self, other: &SpaceReport) {
        self.samples += other.samples;
        self.breaches += other.breaches;
        if other.worst_ratio >= self.worst_ratio {
            self.worst_ratio = other.worst_ratio;
            self.worst = other.worst;
        }
    }
}

/// Files of a database by what they take: `(all but the log, the log)`.
pub fn directory_bytes(dir: &Path) -> io::Result<(u64, u64)> {
    let (mut data, mut wal) = (0, 0);
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let metadata = match entry.metadata() {
            Ok(metadata) => metadata,
            // Removed meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        // UniKV has no directories below its own; other engines do.
        if metadata.is_dir() {
            let (data_below, wal_below) = directory_bytes(&entry.path())?;
            data += data_below;
            wal += wal_below;
            continue;
        }
        let bytes = metadata.blocks() * 512;
        let is_wal = Path::new(&entry.file_name())
            .extension()
            .is_some_and(|extension| extension == "wal");
        *(if is_wal { &mut wal } else { &mut data }) += bytes;
    }
    Ok((data, wal))
}

/// A thread that looks at a directory until it is dropped.
pub struct SpaceWatch {
    report: Arc<Mutex<io::Result<SpaceReport>>>,
    // Taken when it ends.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl SpaceWatch {
    /// Starts to watch. `in_use` is asked before and after each look, and the greater figures
    /// count: records may go while the directory is listed.
    pub fn start(
        dir: PathBuf,
        limits: SpaceLimits,
        in_use: impl Fn() -> SpaceUse + Send + 'static,
    ) -> SpaceWatch {
        let report = Arc::new(Mutex::new(Ok(SpaceReport::default())));
        let (stop, stopped) = mpsc::channel();
        let shared = Arc::clone(&report);
        let thread = std::thread::spawn(move || {
            while stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                let sample = look(&dir, &limits, &in_use);
                let mut report = shared.lock().unwrap_or_else(PoisonError::into_inner);
                match (&mut *report, sample) {
                    (Ok(report), Ok(sample)) => report.add(sample),
                    (report, Err(error)) => *report = Err(error),
                    (Err(_), Ok(_)) => {}
                }
            }
        });
        SpaceWatch {
            report,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// What was seen since this was last called.
    pub fn take(&self) -> io::Result<SpaceReport> {
        let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *report, Ok(SpaceReport::default()))
    }
}

impl Drop for SpaceWatch {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported by the thread itself.
            let _ = thread.join();
        }
    }
}

/// One look at the directory, when nothing is pinned and no job runs.
pub fn look_once(dir: &Path, limits: &SpaceLimits, in_use: SpaceUse) -> io::Result<SpaceSample> {
    look(dir, limits, &|| in_use)
}

/// One look at the directory, between two at what is in use.
fn look(
    dir: &Path,
    limits: &SpaceLimits,
    in_use: &impl Fn() -> SpaceUse,
) -> io::Result<SpaceSample> {
    let before = in_use();
    let (data_bytes, wal_bytes) = directory_bytes(dir)?;
    let after = in_use();
    let used = SpaceUse {
        live_bytes: before.live_bytes.max(after.live_bytes),
        frame_bytes: before.frame_bytes.max(after.frame_bytes),
        pinned_bytes: before.pinned_bytes.max(after.pinned_bytes),
    };
    Ok(SpaceSample {
        data_bytes,
        wal_bytes,
        live_bytes: used.live_bytes,
        pinned_bytes: used.pinned_bytes,
        bound_bytes: limits.bound(&used),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
    fn a_breach_is_seen_and_the_log_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("000001.rec"), vec![1; 200_000]).unwrap();
        fs::write(dir.path().join("000002.wal"), vec![1; 900_000]).unwrap();
        let (data, wal) = directory_bytes(dir.path()).unwrap();
        assert!((200_000..300_000).contains(&data), "{data}");
        assert!((900_000..1_000_000).contains(&wal), "{wal}");
        let limits = SpaceLimits {
            max_space_amp: 1.5,
            fixed_bytes: 10_000,
        };
        let mut report = SpaceReport::default();
        for (live_bytes, pinned_bytes, breaches) in
            [(200_000, 0, 0), (10_000, 300_000, 0), (100_000, 0, 1)]
        {
            let in_use = || SpaceUse {
                frame_bytes: 0,
                live_bytes,
                pinned_bytes,
            };
            report.add(look(dir.path(), &limits, &in_use).unwrap());
            assert_eq!(report.breaches, breaches, "{report:?}");
        }
        assert_eq!(report.samples, 3);
        assert_eq!(report.worst.bound_bytes, 160_000);
        assert!(report.worst_ratio > 1.0);
    }
}
