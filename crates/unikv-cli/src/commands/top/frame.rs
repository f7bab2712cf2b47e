//! One frame of `top`: figures and rates as lines, for any size of a screen from 80 × 24 up.

use crate::commands::stats::{is_old, seconds_in_words};
use indicatif::{HumanBytes, HumanCount};
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};
use std::time::Duration;
use unikv::{PublishedStats, Stats};

/// What a frame shows.
pub(super) struct Frame<'a> {
    pub(super) dir: &'a str,
    pub(super) now: &'a PublishedStats,
    /// What was there before: rates are of the time between.
    pub(super) before: Option<&'a PublishedStats>,
    /// Nothing is published any more.
    pub(super) gone: bool,
    pub(super) columns: usize,
    pub(super) rows: usize,
}

/// How a text stands out.
#[derive(Clone, Copy)]
pub(super) enum Tone {
    Plain,
    Head,
    Good,
    Warning,
    Alarm,
}

impl Tone {
    fn style(self) -> Style {
        match self {
            Tone::Plain => Style::new(),
            Tone::Head => Style::new().fg(Color::Cyan),
            Tone::Good => Style::new().fg(Color::Green),
            Tone::Warning => Style::new().fg(Color::Yellow),
            Tone::Alarm => Style::new().fg(Color::Red),
        }
    }

    /// Of something that is full at 1.
    pub(super) fn of_fill(fill: f64) -> Tone {
        match fill {
            _ if fill >= 1.0 => Tone::Alarm,
            _ if fill >= 0.7 => Tone::Warning,
            _ => Tone::Good,
        }
    }
}

/// A line under way: texts and their tones.
pub(super) type Row = Vec<(String, Tone)>;

fn row(head: &str, text: String) -> Row {
    vec![(format!("{head:<11}"), Tone::Head), (text, Tone::Plain)]
}

/// Parts with commas between them, on as many lines as they take.
fn wrapped(head: &str, parts: Vec<String>, columns: usize) -> Vec<Row> {
    let most = columns.saturating_sub(12);
    let (mut lines, mut line): (Vec<String>, String) = (Vec::new(), String::new());
    for part in parts {
        let is_over = line.chars().count() + 2 + part.chars().count() > most;
        if is_over && !line.is_empty() {
            lines.push(std::mem::take(&mut line) + ",");
        }
        let comma = if line.is_empty() { "" } else { ", " };
        line = line + comma + &part;
    }
    lines.push(line);
    let lines = lines.into_iter().enumerate();
    let lines = lines.map(|(nth, line)| row(if nth == 0 { head } else { "" }, line));
    lines.collect()
}

impl Frame<'_> {
    /// The lines of the frame, no wider and no more than there is room for.
    pub(super) fn lines(&self, colours: bool) -> Vec<Line<'static>> {
        let mut rows = vec![self.title()];
        rows.extend(self.rates());
        rows.extend(self.latencies());
        rows.extend(self.memory());
        rows.push(self.space());
        rows.extend(self.background());
        rows.extend(self.stalls());
        rows.extend(self.holders());
        let left = self.rows.saturating_sub(rows.len());
        rows.extend(self.map(left));
        rows.truncate(self.rows);
        rows.into_iter()
            .map(|row| self.line(row, colours))
            .collect()
    }

    fn line(&self, row: Row, colours: bool) -> Line<'static> {
        let mut left = self.columns;
        let spans = row.into_iter().map(|(text, tone)| {
            let text: String = text.chars().take(left).collect();
            left -= text.chars().count();
            if colours {
                Span::styled(text, tone.style())
            } else {
                Span::raw(text)
            }
        });
        Line::from(spans.collect::<Vec<_>>())
    }

    fn stats(&self) -> &Stats {
        &self.now.stats
    }

    fn title(&self) -> Row {
        let age = self.now.age.as_secs_f64();
        let whose = format!(
            "  process {}, open for {}",
            self.now.pid,
            seconds_in_words(self.now.open_for)
        );
        let (age, tone) = if self.gone {
            (
                "  CLOSED: these are its last figures".to_owned(),
                Tone::Alarm,
            )
        } else if is_old(self.now) {
            (format!("  OLD: {age:.0} s"), Tone::Alarm)
        } else {
            (format!("  {age:.1} s ago"), Tone::Good)
        };
        let most = self.columns.saturating_sub(whose.len() + age.len() + 9);
        let len = self.dir.chars().count();
        let dir: String = if len > most {
            std::iter::once('…')
                .chain(self.dir.chars().skip(len - most.saturating_sub(1).min(len)))
                .collect()
        } else {
            self.dir.to_owned()
        };
        vec![
            ("unikv top ".to_owned(), Tone::Head),
            (dir, Tone::Plain),
            (whose, Tone::Plain),
            (age, tone),
        ]
    }

    /// How much a counter grew in a second: since the look before, or since the opening.
    fn rate(&self, counter: impl Fn(&Stats) -> u64) -> f64 {
        let now = counter(self.stats());
        let (grown, time) = match self.before {
            Some(before) => (
                now.saturating_sub(counter(&before.stats)),
                self.now.open_for.saturating_sub(before.open_for),
            ),
            None => (now, self.now.open_for),
        };
        if time.is_zero() {
            0.0
        } else {
            grown as f64 / time.as_secs_f64()
        }
    }

    fn per_second(&self, counter: impl Fn(&Stats) -> u64) -> String {
        format!("{}/s", HumanCount(self.rate(counter) as u64))
    }

    fn bytes_per_second(&self, counter: impl Fn(&Stats) -> u64) -> String {
        format!("{}/s", HumanBytes(self.rate(counter) as u64))
    }

    fn rates(&self) -> Vec<Row> {
        let of = match self.before {
            Some(_) => "",
            None => " (since the opening)",
        };
        let lookups = self.rate(|s| s.cache_hits + s.cache_misses);
        let hits = if lookups > 0.0 {
            format!("{:.1} %", self.rate(|s| s.cache_hits) * 100.0 / lookups)
        } else {
            "-".to_owned()
        };
        vec![
            row(
                "writes",
                format!(
                    "{} puts, {} deletes, {} batches, {}{of}",
                    self.per_second(|s| s.puts),
                    self.per_second(|s| s.deletes),
                    self.per_second(|s| s.batches),
                    self.bytes_per_second(|s| s.user_bytes_written),
                ),
            ),
            row(
                "reads",
                format!(
                    "{} gets, {} from files in {} reads, cache {hits}",
                    self.per_second(|s| s.gets),
                    self.bytes_per_second(|s| s.read_bytes),
                    self.per_second(|s| s.reads),
                ),
            ),
            row(
                "to disk",
                format!(
                    "log {}, flush {}, merge {}, gc {}",
                    self.bytes_per_second(|s| s.wal_bytes + s.large_bytes),
                    self.bytes_per_second(|s| s.flush_bytes + s.ingest_bytes),
                    self.bytes_per_second(|s| s.merge_bytes + s.scan_merge_bytes),
                    self.bytes_per_second(|s| s.gc_bytes),
                ),
            ),
        ]
    }

    /// A table of what was measured, if anything was.
    fn latencies(&self) -> Vec<Row> {
        let operations = self.stats().latencies.iter().filter(|t| !t.is_job);
        let mut rows = Vec::new();
        for times in operations {
            if rows.is_empty() {
                let titles = ["p50", "p90", "p99", "p99.9", "longest"];
                let titles = titles.map(|title| format!("{title:>11}")).concat();
                rows.push(vec![(format!("{:<11}{titles}", "latency"), Tone::Head)]);
            }
            let figures = [times.p50, times.p90, times.p99, times.p999, times.max];
            let figures = figures.map(|time| format!("{:>11}", time_in_words(time)));
            rows.push(row(&times.what, figures.concat()));
        }
        rows
    }

    /// What the engine has allocated of its budget, and for what.
    fn memory(&self) -> Vec<Row> {
        let memory = &self.stats().memory;
        let mut rows = vec![gauge("memory", memory.total(), memory.budget)];
        let parts = memory.parts().into_iter().filter(|(_, bytes)| *bytes > 0);
        let parts = parts.map(|(part, bytes)| format!("{part} {}", HumanBytes(bytes)));
        rows.extend(wrapped("", parts.collect(), self.columns));
        rows
    }

    fn space(&self) -> Row {
        let (now, stats) = (self.now, self.stats());
        let mut row = gauge("garbage", now.dead_bytes, now.allowed_dead_bytes);
        let disk = format!(
            "  disk {}, live {}, pinned {}",
            HumanBytes(stats.disk_bytes),
            HumanBytes(stats.record_live_bytes + stats.key_table_bytes + stats.unsorted_bytes),
            HumanBytes(stats.pins.bytes)
        );
        row.push((disk, Tone::Plain));
        if stats.disk_full {
            row.push(("  FULL".to_owned(), Tone::Alarm));
        }
        row
    }

    fn background(&self) -> Vec<Row> {
        let stats = self.stats();
        let running = stats.running_jobs.iter().map(|job| {
            let at = job
                .partition
                .map_or(String::new(), |id| format!(" of partition {id}"));
            let why = if job.why.is_empty() {
                String::new()
            } else {
                format!(" ({})", job.why)
            };
            format!(
                "{}{at}{why}, for {}",
                job.job,
                time_in_words(job.running_for)
            )
        });
        let running: Vec<_> = running.collect();
        let running = if running.is_empty() {
            "none runs".to_owned()
        } else {
            running.join("; ")
        };
        let done = format!(
            "{} flushes, {} merges, {} collections, {} splits, {} joins since the opening",
            stats.flushes, stats.merges, stats.gcs, stats.splits, stats.joins
        );
        let mut rows = vec![row("jobs", running), row("", done)];
        if stats.sealed_memtables > 0 {
            let what = format!("{} memtables wait to be flushed", stats.sealed_memtables);
            rows.push(row("", what));
        }
        rows.extend(stats.job_errors.iter().take(2).map(|error| {
            let text = format!(
                "{} tried {} times: {}",
                error.job,
                error.retries + 1,
                error.message
            );
            vec![
                (format!("{:<11}", "FAILING"), Tone::Alarm),
                (text, Tone::Alarm),
            ]
        }));
        rows
    }

    /// What holds writers up: now, and since the opening by cause.
    fn stalls(&self) -> Vec<Row> {
        let stats = self.stats();
        let held = |s: &Stats| (s.pause_time + s.stall_time).as_micros() as u64;
        let ms = self.rate(held) / 1e3;
        let tone = match ms {
            _ if ms >= 500.0 => Tone::Alarm,
            _ if ms >= 10.0 => Tone::Warning,
            _ => Tone::Good,
        };
        let text = format!("{ms:.0} ms in each second, all writers together");
        let mut rows = vec![vec![
            (format!("{:<11}", "held up"), Tone::Head),
            (text, tone),
        ]];
        rows.extend(stats.stall_causes.iter().map(|stall| {
            let text = format!(
                "{:<16} {:>9} times, {:>7} in all, {:>7} at most",
                stall.cause.name(),
                HumanCount(stall.count).to_string(),
                time_in_words(stall.time),
                time_in_words(stall.longest)
            );
            row("", text)
        }));
        rows
    }

    fn holders(&self) -> Vec<Row> {
        let holders = &self.stats().holders;
        let oldest = holders.first().map(|oldest| {
            let pins = &self.stats().pins;
            let (snapshots, iterators) = (pins.snapshots, pins.iterators);
            let oldest = oldest.to_string();
            row(
                "readers",
                format!("{snapshots} snapshots, {iterators} iterators; {oldest}"),
            )
        });
        oldest.into_iter().collect()
    }
}

pub(super) fn part(bytes: u64, limit: u64) -> f64 {
    bytes as f64 / limit.max(1) as f64
}

/// A bar of ten characters, and the figures.
fn gauge(head: &str, bytes: u64, limit: u64) -> Row {
    let fill = part(bytes, limit);
    let full = ((fill * 10.0).round() as usize).min(10);
    let bar = format!("{}{} ", "█".repeat(full), "░".repeat(10 - full));
    let text = format!("{} of {}", HumanBytes(bytes), HumanBytes(limit));
    // A cache that is full is as it should be.
    let tone = Tone::of_fill(fill - f64::from(u8::from(head == "memory")) * 0.05);
    vec![
        (format!("{head:<11}"), Tone::Head),
        (bar, tone),
        (text, Tone::Plain),
    ]
}

/// A time with three digits and the unit that fits.
fn time_in_words(time: Duration) -> String {
    let ns = time.as_nanos() as f64;
    let (value, unit) = match ns {
        _ if ns < 1e3 => (ns, "ns"),
        _ if ns < 1e6 => (ns / 1e3, "µs"),
        _ if ns < 1e9 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    match value {
        _ if value < 10.0 => format!("{value:.2} {unit}"),
        _ if value < 100.0 => format!("{value:.1} {unit}"),
        _ => format!("{value:.0} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Figures of a busy database, as a file of them would say it.
    fn busy(second: u64, partitions: usize) -> PublishedStats {
        let partition = json!({"data_bytes": 90, "unsorted_bytes": 10});
        let holder = json!({"kind": "Iterator", "id": 7, "pinned_bytes": 4096});
        let latency = json!({"what": "get", "p99": {"secs": 0, "nanos": 1_234_000}});
        serde_json::from_value(json!({
            "pid": 42,
            "published": second,
            "interval": {"secs": 1, "nanos": 0},
            "open_for": {"secs": second, "nanos": 0},
            "partition_bytes": 100,
            "unsorted_bytes": 100,
            "dead_bytes": 50,
            "allowed_dead_bytes": 100,
            "stats": {
                "puts": 1000 * second * second,
                "partitions": vec![partition; partitions],
                "holders": [holder],
                "latencies": [latency],
                "running_jobs": [{"job": "merge", "partition": 3, "why": "flushes wait for it"}],
                "job_errors": [{"job": "flush", "partition": null, "message": "broken", "retries": 4}],
                "stall_causes": [
                    {"cause": "FlushWait", "count": 2, "time": {"secs": 1, "nanos": 0},
                     "longest": {"secs": 1, "nanos": 0}}
                ],
            },
        }))
        .unwrap_or_else(|error| panic!("{error}"))
    }

    fn text(frame: &Frame<'_>) -> Vec<String> {
        let lines = frame.lines(false).into_iter();
        lines.map(|line| line.to_string()).collect()
    }

    #[test]
    fn a_frame_fits_its_screen_whatever_there_is_to_show() {
        let dir = "/a/rather/long/directory/".repeat(9);
        for (columns, rows) in [(80, 24), (200, 60), (80, 5), (1, 1), (0, 0)] {
            for partitions in [0, 1, 3, 300, 100_000] {
                let now = busy(4, partitions);
                let frame = Frame {
                    dir: &dir,
                    now: &now,
                    before: None,
                    gone: false,
                    columns,
                    rows,
                };
                let text = text(&frame);
                assert!(text.len() <= rows, "{columns}×{rows}: {text:#?}");
                for line in &text {
                    assert!(line.chars().count() <= columns, "{line}");
                }
                if (columns, rows) == (80, 24) && partitions > 0 {
                    assert!(
                        text.iter()
                            .any(|l| l.starts_with('█') || l.starts_with('▇')),
                        "{text:#?}"
                    );
                }
            }
        }
    }

    #[test]
    fn rates_are_of_the_time_between_two_looks_and_what_is_wrong_is_said() {
        let (before, mut now) = (busy(3, 2), busy(5, 2));
        let frame = |now: &PublishedStats, before, gone| {
            text(&Frame {
                dir: "/db",
                now,
                before,
                gone,
                columns: 100,
                rows: 40,
            })
            .join("\n")
        };
        let shown = frame(&now, Some(&before), false);
        for expected in [
            "8,000/s puts",
            "merge of partition 3 (flushes wait for it), for 0.00 ns",
            "FAILING    flush tried 5 times: broken",
            "flush wait               2 times,  1.00 s in all,  1.00 s at most",
            "1.23 ms",
            "iterator 7, 0.0 s old",
            "2 partitions",
        ] {
            assert!(shown.contains(expected), "{expected} in:\n{shown}");
        }
        assert!(
            frame(&now, None, false).contains("5,000/s puts"),
            "25,000 in five seconds"
        );
        now.age = Duration::from_secs(30);
        assert!(frame(&now, None, false).contains("OLD: 30 s"));
        assert!(frame(&now, None, true).contains("CLOSED"));
    }
}
