//! What a phase costs: counters of the engine and of the system taken before and after.

use crate::engine::Figures;
use crate::measure::process::{cpu_time, device_bytes};
use serde::Serialize;
use std::time::Duration;

/// The state of all counters at one moment.
pub struct Counters {
    cpu: Duration,
    device: Option<(u64, u64)>,
    /// `None`: the engine counts nothing.
    engine: Option<Figures>,
}

impl Counters {
    /// As they are now, with what the engine has counted.
    pub fn now(engine: Option<Figures>) -> Counters {
        Counters {
            cpu: cpu_time(),
            device: device_bytes(),
            engine,
        }
    }
}

/// What happened between two moments. Bytes unless said; what only an engine can count is zero for
/// one that does not report it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Costs {
    /// Whether the engine has counted.
    #[serde(skip)]
    engine_counts: bool,
    /// Keys and values of committed operations.
    pub user_bytes_written: u64,
    /// Appended to the write-ahead log.
    pub wal_bytes: u64,
    /// Bytes of files for large values.
    pub large_bytes: u64,
    /// Written by flushes.
    pub flush_bytes: u64,
    /// Written by ingests.
    pub ingest_bytes: u64,
    /// Written by merges.
    pub merge_bytes: u64,
    /// Bytes written by garbage collection that ran alone.
    pub gc_bytes: u64,
    /// Written by merges for scans.
    pub scan_merge_bytes: u64,
    /// Written to manifests.
    pub manifest_bytes: u64,
    /// All of these but the user's.
    #[serde(skip)]
    written_bytes: u64,
    /// Reads of files by the engine.
    pub engine_reads: u64,
    /// Bytes read from files by the engine.
    pub engine_read_bytes: u64,
    /// Bytes that the process caused to be read from devices.
    pub device_read_bytes: Option<u64>,
    /// Bytes that the process caused to be written to devices.
    pub device_write_bytes: Option<u64>,
    /// CPU time of all threads of the process, in microseconds.
    pub cpu_us: f64,
    /// Flushes done.
    pub flushes: u64,
    /// Merges done.
    pub merges: u64,
    /// Garbage collections that ran alone.
    pub gcs: u64,
    /// Partitions split.
    pub splits: u64,
    /// Neighbouring partitions joined.
    pub joins: u64,
    /// Waits of writers.
    pub stalls: u64,
    /// How long they were in all.
    pub stall_ms: f64,
    /// The longest since the opening.
    pub longest_stall_ms: f64,
}

impl Costs {
    /// From `before` to `after`, both of the same open database.
    pub fn between(before: &Counters, after: &Counters) -> Costs {
        let device = before.device.zip(after.device);
        let engine = before.engine.as_ref().zip(after.engine.as_ref());
        Costs {
            device_read_bytes: device.map(|(old, new)| new.0.saturating_sub(old.0)),
            device_write_bytes: device.map(|(old, new)| new.1.saturating_sub(old.1)),
            cpu_us: after.cpu.saturating_sub(before.cpu).as_secs_f64() * 1e6,
            ..engine.map_or_else(Costs::default, |(old, new)| Costs::counted(old, new))
        }
    }

    /// What an engine has counted between two moments.
    fn counted(old: &Figures, new: &Figures) -> Costs {
        let since = |of: fn(&Figures) -> u64| of(new).saturating_sub(of(old));
        Costs {
            engine_counts: true,
            user_bytes_written: since(|figures| figures.user_bytes_written),
            wal_bytes: since(|figures| figures.wal_bytes),
            large_bytes: since(|figures| figures.large_bytes),
            flush_bytes: since(|figures| figures.flush_bytes),
            ingest_bytes: since(|figures| figures.ingest_bytes),
            merge_bytes: since(|figures| figures.merge_bytes),
            gc_bytes: since(|figures| figures.gc_bytes),
            scan_merge_bytes: since(|figures| figures.scan_merge_bytes),
            manifest_bytes: since(|figures| figures.manifest_bytes),
            written_bytes: since(|figures| figures.written_bytes),
            engine_reads: since(|figures| figures.reads),
            engine_read_bytes: since(|figures| figures.read_bytes),
            flushes: since(|figures| figures.flushes),
            merges: since(|figures| figures.merges),
            gcs: since(|figures| figures.gcs),
            splits: since(|figures| figures.splits),
            joins: since(|figures| figures.joins),
            stalls: since(|figures| figures.stalls),
            stall_ms: new.stall_time.saturating_sub(old.stall_time).as_secs_f64() * 1e3,
            longest_stall_ms: new.longest_stall.as_secs_f64() * 1e3,
            ..Costs::default()
        }
    }

    /// Whether the engine has reported what only it can count.
    pub fn engine_counts(&self) -> bool {
        self.engine_counts
    }

    /// Bytes that the engine has written, as it sums them up.
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Bytes written for each byte of keys and values; `None` when none was written.
    pub fn write_amplification(&self) -> Option<f64> {
        let user = self.user_bytes_written;
        (user > 0).then(|| self.written_bytes() as f64 / user as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_amplification_is_what_the_engine_wrote() {
        let before = Figures {
            user_bytes_written: 1_000,
            written_bytes: 5_000,
            ..Figures::default()
        };
        let after = Figures {
            user_bytes_written: 2_000,
            written_bytes: 5_255,
            ..Figures::default()
        };
        let costs = Costs::between(&Counters::now(Some(before)), &Counters::now(Some(after)));
        assert_eq!(costs.written_bytes(), 255);
        assert_eq!(costs.write_amplification(), Some(0.255));
        let silent = Costs::between(&Counters::now(None), &Counters::now(None));
        assert!(costs.engine_counts() && !silent.engine_counts());
        assert_eq!(silent.write_amplification(), None);
    }
}
