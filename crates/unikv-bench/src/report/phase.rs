//! The results of a phase: in words for a person, as one JSON object for a program.

use crate::measure::costs::Costs;
use crate::measure::latency::LatencySummary;
use crate::measure::machine::Machine;
use crate::measure::space::SpaceReport;
use crate::measure::trace::Point;
use crate::report::summary::space_in_words;
use crate::workload::phases::Phase;
use indicatif::{HumanBytes, HumanCount};
use serde::Serialize;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::time::Duration;

/// What clients did beside those of a phase.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Beside {
    /// As it was asked for.
    pub phase: String,
    /// Operations done.
    pub operations: u64,
    /// Of all threads over the time.
    pub operations_per_second: f64,
    /// Of each kind of operation.
    pub latencies: Vec<LatencySummary>,
}

/// The results of one phase.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PhaseReport {
    /// As it was asked for.
    pub phase: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Which records were touched.
    pub distribution: Option<String>,
    /// Client threads.
    pub threads: usize,
    /// Operations done.
    pub operations: u64,
    /// Records returned by scans.
    pub scanned_records: u64,
    /// Gets that found nothing: without verification, or because the record had been deleted.
    pub misses: u64,
    /// How long it took.
    pub seconds: f64,
    /// Time until the background was quiet after the phase; its costs are in `costs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settle_seconds: Option<f64>,
    /// Of `settle`: how long after the engine the device was busy with what it had been given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Of `reopen`: how long closing took.
    pub close_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Of `reopen`: how long opening took.
    pub open_seconds: Option<f64>,
    /// Operations of all threads over the time.
    pub operations_per_second: f64,
    /// What other clients did meanwhile; their operations are not among those of the phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beside: Option<Beside>,
    /// Of each kind of operation.
    pub latencies: Vec<LatencySummary>,
    /// Bytes that the engine wrote for each byte of keys and values.
    pub write_amplification: Option<f64>,
    /// Of all phases since the background was last quiet; only in `settle`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_amplification_until_quiet: Option<f64>,
    /// Of all threads of the process, with the load generator, without the time of settling.
    pub cpu_us_per_operation: Option<f64>,
    /// Bytes that the engine read from files, per operation.
    pub engine_read_bytes_per_operation: Option<f64>,
    /// Keys and values that clients wrote.
    pub client_bytes_written: u64,
    /// Bytes that the process caused to be written, over those.
    pub process_write_amplification: Option<f64>,
    /// The same of all phases since the background was last quiet; only in `settle`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process_write_amplification_until_quiet: Option<f64>,
    /// Bytes that the process caused to be read from the device, per operation.
    pub device_read_bytes_per_operation: Option<f64>,
    /// Bytes that the device has read and written meanwhile, for everybody.
    pub block_device_bytes: Option<(u64, u64)>,
    /// The rate at which operations were due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<u64>,
    /// Second by second, if it was traced in memory.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trace: Vec<Point>,
    /// What it cost.
    pub costs: Costs,
    /// The most anonymous memory that was seen.
    pub peak_anonymous_bytes: Option<u64>,
    /// The most resident memory that was seen.
    pub peak_resident_bytes: Option<u64>,
    /// The most that the memory cgroup held, page cache included.
    pub peak_cgroup_bytes: Option<u64>,
    /// Bytes of all files at the end.
    pub disk_bytes: u64,
    /// Keys and values of the records there.
    pub live_bytes: u64,
    /// Those over the live bytes.
    pub space_amplification: Option<f64>,
    /// Partitions at the end.
    pub partitions: usize,
    /// The longest put or delete.
    pub longest_write_ms: Option<f64>,
    /// The fewest operations in one second.
    pub lowest_second: Option<f64>,
    /// How the space promise was kept, with `--check-space`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub space: Option<SpaceReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Of `reopen`: what the engine says of it.
    pub recovery: Option<serde_json::Value>,
    #[serde(skip)]
    /// The same for a person, in place of the first line.
    pub words: Option<String>,
}

impl PhaseReport {
    /// Of a phase that took so long.
    pub fn new(phase: &Phase, elapsed: Duration) -> PhaseReport {
        let phase = phase.label.clone();
        PhaseReport {
            phase,
            seconds: elapsed.as_secs_f64(),
            ..PhaseReport::default()
        }
    }

    /// Fills what follows from the rest.
    pub fn derive(&mut self) {
        let count = self.operations.max(1) as f64;
        self.operations_per_second = self.operations as f64 / self.seconds.max(1e-9);
        self.write_amplification = self.costs.write_amplification();
        let ratio = |bytes: Option<u64>, over: u64| {
            bytes
                .filter(|_| over > 0)
                .map(|bytes| bytes as f64 / over as f64)
        };
        self.process_write_amplification =
            ratio(self.costs.device_write_bytes, self.client_bytes_written);
        self.device_read_bytes_per_operation = ratio(self.costs.device_read_bytes, self.operations);
        self.engine_read_bytes_per_operation = (self.operations > 0 && self.costs.engine_counts())
            .then(|| self.costs.engine_read_bytes as f64 / count);
        self.space_amplification =
            (self.live_bytes > 0).then(|| self.disk_bytes as f64 / self.live_bytes as f64);
    }

    /// All of it for a person, in several lines.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn print(&self, out: &mut impl Write) -> io::Result<()> {
        self.print_head(out)?;
        let beside = self.beside.iter().flat_map(|beside| &beside.latencies);
        for latency in self.latencies.iter().chain(beside) {
            writeln!(
                out,
                "  {:<18}{:>11} x   mean {:>9}   p50 {:>9}   p99 {:>9}   p99.9 {:>9}   max {:>9}",
                latency.operation,
                HumanCount(latency.count).to_string(),
                micros(latency.mean_us),
                micros(latency.p50_us),
                micros(latency.p99_us),
                micros(latency.p999_us),
                micros(latency.max_us),
            )?;
        }
        let costs = self.cost_words();
        if !costs.is_empty() {
            writeln!(out, "  {costs}")?;
        }
        writeln!(out, "  {}", self.space_words())?;
        if let Some(space) = self.space.as_ref().filter(|space| space.samples > 0) {
            writeln!(out, "  space promise: {}", space_in_words(space))?;
        }
        Ok(())
    }

    fn print_head(&self, out: &mut impl Write) -> io::Result<()> {
        if let Some(words) = &self.words {
            return writeln!(out, "{:<16}{words}", self.phase);
        }
        let distribution = self
            .distribution
            .as_ref()
            .map(|name| format!(", {name}"))
            .unwrap_or_default();
        if self.operations > 0 {
            write!(
                out,
                "{:<16}{:>11} operations/s   {} operations in {:.1} s{distribution}",
                self.phase,
                HumanCount(self.operations_per_second as u64).to_string(),
                HumanCount(self.operations),
                self.seconds,
            )?;
        } else {
            write!(out, "{:<16}{:.2} s", self.phase, self.seconds)?;
        }
        if self.scanned_records > 0 {
            write!(
                out,
                ", {} records scanned",
                HumanCount(self.scanned_records)
            )?;
        }
        if self.misses > 0 {
            write!(out, ", {} found nothing", HumanCount(self.misses))?;
        }
        if let Some(beside) = &self.beside {
            let rate = HumanCount(beside.operations_per_second as u64);
            write!(out, ", beside {rate}/s of {}", beside.phase)?;
        }
        if let Some(seconds) = self.device_seconds {
            write!(out, ", the device quiet after {seconds:.1} s more")?;
        }
        if let Some(seconds) = self.settle_seconds {
            write!(out, ", quiet after {seconds:.1} s more")?;
        }
        writeln!(out)
    }

    fn cost_words(&self) -> String {
        let mut words = Vec::new();
        let costs = &self.costs;
        if let Some(factor) = self.write_amplification {
            let mut writers = vec![
                ("WAL", costs.wal_bytes),
                ("flush", costs.flush_bytes),
                ("merge", costs.merge_bytes),
                ("gc", costs.gc_bytes),
                ("manifest", costs.manifest_bytes),
            ];
            let rare = [
                ("large values", costs.large_bytes),
                ("ingest", costs.ingest_bytes),
                ("scan merge", costs.scan_merge_bytes),
            ];
            writers.extend(rare.into_iter().filter(|(_, bytes)| *bytes > 0));
            let writers = writers.into_iter();
            let each: Vec<_> = writers
                .map(|(name, bytes)| format!("{name} {}", HumanBytes(bytes)))
                .collect();
            let each = each.join(", ");
            words.push(format!("wrote {factor:.2} x user bytes ({each})"));
        } else if costs.written_bytes() > 0 {
            words.push(format!("wrote {}", HumanBytes(costs.written_bytes())));
        }
        if let Some(factor) = self.write_amplification_until_quiet {
            words.push(format!("{factor:.2} x user bytes since it was last quiet"));
        }
        if let Some(bytes) = self
            .engine_read_bytes_per_operation
            .filter(|&bytes| bytes > 0.0)
        {
            words.push(format!("read {bytes:.0} B/operation"));
        }
        if let (Some(bytes), true) = (costs.device_read_bytes, self.operations > 0) {
            words.push(format!(
                "{:.0} B/operation from the device",
                bytes as f64 / self.operations as f64
            ));
        }
        if let Some(cpu) = self.cpu_us_per_operation {
            words.push(format!("CPU {cpu:.2} us/operation"));
        }
        words.join(", ")
    }

    fn space_words(&self) -> String {
        let mut words = format!("disk {}", HumanBytes(self.disk_bytes));
        // Writing to a string cannot fail.
        if let Some(factor) = self.space_amplification {
            let _ = write!(words, " ({factor:.2} x live)");
        }
        if let Some(bytes) = self.peak_anonymous_bytes {
            let _ = write!(words, ", anonymous memory up to {}", HumanBytes(bytes));
        }
        let costs = &self.costs;
        let _ = write!(
            words,
            ", {} partitions, {} flushes, {} merges, {} GCs, {} splits, {} joins",
            self.partitions, costs.flushes, costs.merges, costs.gcs, costs.splits, costs.joins
        );
        if costs.stalls > 0 {
            let _ = write!(
                words,
                ", {} stalls of {:.0} ms in all, longest so far {:.1} ms",
                costs.stalls, costs.stall_ms, costs.longest_stall_ms
            );
        } else {
            words.push_str(", no stalls");
        }
        words
    }
}

/// A duration given in microseconds, with the unit that suits it.
pub(crate) fn micros(us: f64) -> String {
    match us {
        us if us < 1e3 => format!("{us:.1} us"),
        us if us < 1e6 => format!("{:.1} ms", us / 1e3),
        us => format!("{:.2} s", us / 1e6),
    }
}

/// The machine in one line.
pub fn machine_in_words(machine: &Machine) -> String {
    let mut words = format!("{}, {} cores", machine.cpu, machine.cores);
    // Writing to a string cannot fail.
    if let Some(bytes) = machine.memory_bytes {
        let _ = write!(words, ", {} memory", HumanBytes(bytes));
    }
    match machine.memory_limit_bytes {
        Some(bytes) => {
            let _ = write!(words, ", limited to {} with page cache", HumanBytes(bytes));
        }
        None => words.push_str(", no memory limit"),
    }
    let file_system = machine
        .file_system
        .as_deref()
        .unwrap_or("unknown file system");
    let _ = write!(words, ", {file_system}");
    match machine.read_ahead_bytes {
        Some(bytes) => {
            let _ = write!(words, ", read-ahead {}", HumanBytes(bytes));
        }
        None => words.push_str(", read-ahead unknown"),
    }
    let _ = write!(words, ", Linux {}", machine.kernel);
    words
}
