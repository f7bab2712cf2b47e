//! The figures in the text format of Prometheus.
//!
//! The format is three kinds of lines, so no crate is asked for it: those there are keep registries
//! of metrics that the program counts in, and here everything is counted already.

use super::Stats;
use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::time::Duration;

/// One metric at a time is written whole, its help and type first.
struct Page(String);

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _infallible = write!(
            self.0,
            "# HELP unikv_{name} {help}\n# TYPE unikv_{name} {kind}\n"
        );
    }

    /// A line of the metric that was begun last; a label is a name and a value.
    fn line(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let _infallible = write!(self.0, "unikv_{name}");
        for (nth, (label, text)) in labels.iter().enumerate() {
            let text = text
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n");
            let open = if nth == 0 { '{' } else { ',' };
            let _infallible = write!(self.0, "{open}{label}=\"{text}\"");
        }
        let close = if labels.is_empty() { "" } else { "}" };
        let _infallible = writeln!(self.0, "{close} {value}");
    }

    fn one(&mut self, kind: &str, name: &str, help: &str, value: impl Display) {
        self.head(name, kind, help);
        self.line(name, &[], value);
    }
}

fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}

impl Stats {
    /// All figures in the text format of Prometheus (version 0.0.4), to be served by the program
    /// that has the database open. Names begin with `unikv_`; bytes are bytes, times are seconds.
    /// Counters count from the opening.
    ///
    /// ```
    /// # let db = unikv::Db::in_memory(unikv::Options::default())?;
    /// db.put("key", "value")?;
    /// let text = db.stats().to_prometheus();
    /// assert!(text.contains("\nunikv_puts_total 1\n"));
    /// # unikv::Result::Ok(())
    /// ```
    pub fn to_prometheus(&self) -> String {
        let mut page = Page(String::new());
        self.write_operations(&mut page);
        self.write_state(&mut page);
        self.write_background(&mut page);
        self.write_latencies(&mut page);
        page.0
    }

    fn write_operations(&self, page: &mut Page) {
        let mut count = |name, help, value: u64| page.one("counter", name, help, value);
        count("puts_total", "Puts committed.", self.puts);
        count("deletes_total", "Deletes committed.", self.deletes);
        count("batches_total", "Batches committed.", self.batches);
        count("gets_total", "Point look-ups.", self.gets);
        count(
            "hits_total",
            "Point look-ups that found a value.",
            self.hits,
        );
        count(
            "user_bytes_written_total",
            "Bytes of keys and values committed.",
            self.user_bytes_written,
        );
        count("reads_total", "Reads of data files.", self.reads);
        count(
            "read_bytes_total",
            "Bytes read from data files.",
            self.read_bytes,
        );
        count(
            "cache_hits_total",
            "Found in the read cache.",
            self.cache_hits,
        );
        count(
            "cache_misses_total",
            "Read because it was not in the read cache.",
            self.cache_misses,
        );
        let written = [
            ("log", self.wal_bytes),
            ("large values", self.large_bytes),
            ("flush", self.flush_bytes),
            ("ingest", self.ingest_bytes),
            ("merge", self.merge_bytes),
            ("garbage collection", self.gc_bytes),
            ("scan merge", self.scan_merge_bytes),
            ("manifest", self.manifest_bytes),
        ];
        page.head("written_bytes_total", "counter", "Bytes written to files.");
        for (by, bytes) in written {
            page.line("written_bytes_total", &[("by", by)], bytes);
        }
        let done = [
            ("flush", self.flushes),
            ("ingest", self.ingests),
            ("merge", self.merges),
            ("garbage collection", self.gcs),
            ("split", self.splits),
            ("join", self.joins),
            ("scan merge", self.scan_merges),
            ("clustering", self.clusterings),
        ];
        page.head("jobs_total", "counter", "Jobs done.");
        for (job, count) in done {
            page.line("jobs_total", &[("job", job)], count);
        }
    }

    fn write_state(&self, page: &mut Page) {
        let mut gauge = |name, help, value: u64| page.one("gauge", name, help, value);
        gauge("disk_bytes", "Bytes of all live files.", self.disk_bytes);
        gauge(
            "record_file_bytes",
            "Bytes of record files.",
            self.record_file_bytes,
        );
        gauge(
            "record_live_bytes",
            "Bytes of records that key tables point to.",
            self.record_live_bytes,
        );
        gauge(
            "key_table_bytes",
            "Bytes of key tables.",
            self.key_table_bytes,
        );
        gauge(
            "unsorted_bytes",
            "Bytes of the UnsortedStore's tables.",
            self.unsorted_bytes,
        );
        gauge(
            "memtable_bytes",
            "Bytes in the memtable.",
            self.memtable_bytes,
        );
        gauge(
            "sealed_memtables",
            "Memtables that wait for their flush.",
            self.sealed_memtables as u64,
        );
        gauge("partitions", "Partitions.", self.partitions.len() as u64);
        gauge(
            "memory_budget_bytes",
            "The memory budget.",
            self.memory.budget,
        );
        gauge("snapshots", "Live snapshots.", self.pins.snapshots as u64);
        gauge("iterators", "Live iterators.", self.pins.iterators as u64);
        gauge(
            "pinned_bytes",
            "Bytes of files that only readers keep.",
            self.pins.bytes,
        );
        gauge(
            "disk_full",
            "Whether the disk is full and puts are refused.",
            u64::from(self.disk_full),
        );
        let oldest = seconds(self.pins.oldest_age);
        let help = "Age of the oldest snapshot or iterator.";
        page.one("gauge", "oldest_holder_age_seconds", help, oldest);
        page.head(
            "memory_bytes",
            "gauge",
            "Bytes charged to the memory budget.",
        );
        for (part, bytes) in self.memory.parts() {
            page.line("memory_bytes", &[("part", part)], bytes);
        }
    }

    fn write_background(&self, page: &mut Page) {
        let stalls = |page: &mut Page, name, help, of: &dyn Fn(&super::StallStats) -> f64| {
            page.head(name, "counter", help);
            for stall in &self.stall_causes {
                page.line(name, &[("cause", stall.cause.name())], of(stall));
            }
        };
        let help = "Pauses and waits of writers.";
        stalls(page, "stalls_total", help, &|stall| stall.count as f64);
        let help = "How long writers paused or waited.";
        stalls(page, "stall_seconds_total", help, &|stall| {
            seconds(stall.time)
        });
        let of_each = |jobs: &mut dyn Iterator<Item = &str>| {
            jobs.fold(BTreeMap::new(), |mut counts, job| {
                *counts.entry(job.to_owned()).or_insert(0_u64) += 1;
                counts
            })
        };
        let running = of_each(&mut self.running_jobs.iter().map(|job| &*job.job));
        let failing = of_each(&mut self.job_errors.iter().map(|error| error.job));
        for (name, help, jobs) in [
            ("running_jobs", "Jobs that run now.", running),
            (
                "failing_jobs",
                "Jobs that have failed and are tried again.",
                failing,
            ),
        ] {
            page.head(name, "gauge", help);
            for (job, count) in jobs {
                page.line(name, &[("job", &job)], count);
            }
        }
        let help = "Memory of the files of a database that is in memory.";
        page.one("gauge", "in_memory_bytes", help, self.in_memory_bytes);
        let help = "Panics of the listener.";
        page.one(
            "counter",
            "listener_panics_total",
            help,
            self.listener_panics,
        );
    }

    fn write_latencies(&self, page: &mut Page) {
        for (is_job, name, label, help) in [
            (
                false,
                "operation_seconds",
                "operation",
                "How long operations took, of which some are measured.",
            ),
            (true, "job_seconds", "job", "How long jobs took."),
        ] {
            let mut times = self
                .latencies
                .iter()
                .filter(|t| t.is_job == is_job)
                .peekable();
            if times.peek().is_none() {
                continue;
            }
            page.head(name, "summary", help);
            for times in times {
                let what = (label, &*times.what);
                let quantiles = [
                    ("0.5", times.p50),
                    ("0.9", times.p90),
                    ("0.99", times.p99),
                    ("0.999", times.p999),
                    ("1", times.max),
                ];
                for (quantile, time) in quantiles {
                    page.line(name, &[what, ("quantile", quantile)], seconds(time));
                }
                page.line(&format!("{name}_sum"), &[what], seconds(times.sum));
                page.line(&format!("{name}_count"), &[what], times.measured);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::stats::holders::RunningJob;
    use crate::engine::stats::meter::LatencyStats;
    use std::collections::HashSet;

    #[test]
    fn every_line_is_of_a_metric_that_was_declared_once() {
        let mut stats = Stats {
            puts: 7,
            running_jobs: vec![RunningJob {
                job: "a \"job\"\n\\".to_owned(),
                ..RunningJob::default()
            }],
            ..Stats::default()
        };
        stats.latencies = [("get", false), ("flush", true)]
            .map(|(what, is_job)| LatencyStats {
                what: what.to_owned(),
                is_job,
                p99: Duration::from_millis(3),
                ..LatencyStats::default()
            })
            .to_vec();
        let text = stats.to_prometheus();
        let (mut declared, mut lines) = (HashSet::new(), HashSet::new());
        let mut last = String::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                assert!(["counter", "gauge", "summary"].contains(&kind), "{line}");
                assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
                assert!(declared.insert(name.to_owned()), "{line}");
                last = name.to_owned();
            } else if !line.starts_with("# HELP ") {
                let (series, value) = line.rsplit_once(' ').unwrap();
                assert!(value.parse::<f64>().is_ok(), "{line}");
                assert!(lines.insert(series.to_owned()), "twice: {line}");
                assert!(series.starts_with(&last), "{line} under {last}");
            }
        }
        assert!(text.contains("\nunikv_puts_total 7\n"));
        assert!(
            text.contains(r#"unikv_running_jobs{job="a \"job\"\n\\"} 1"#),
            "{text}"
        );
        let p99 = r#"unikv_operation_seconds{operation="get",quantile="0.99"} 0.003"#;
        assert!(text.contains(p99), "{text}");
        assert!(text.contains(r#"unikv_job_seconds_count{job="flush"} 0"#));
    }
}
