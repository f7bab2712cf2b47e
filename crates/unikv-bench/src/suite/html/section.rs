//! One experiment: bars, curves, traces and a table.

use super::charts::{Bars, Lines};
use super::escape;
use crate::failure::Failure;
use crate::suite::experiments::Experiment;
use crate::suite::results::{PhaseView, Results, RunResult};
use crate::workload::keys::KEY_BYTES;
use indicatif::HumanBytes;
use serde_json::Value;
use std::fmt::Write;

/// A phase of one run, with what each engine did in it.
struct Row {
    run: String,
    phase: String,
    /// Bytes of key and value.
    record_bytes: u64,
    /// By the place of the engine among all; the median of the rounds.
    cells: Vec<Option<PhaseView>>,
}

/// One experiment.
pub struct Section<'a> {
    experiment: &'a Experiment,
    engines: &'a [String],
    rows: Vec<Row>,
    /// Engine, run and why it ended early.
    failures: Vec<(String, String, String)>,
    /// The clock of the machine.
    cpu_mhz: Option<f64>,
    /// Runs whose reads did not go to the device though they should.
    warm: bool,
}

impl<'a> Section<'a> {
    /// What `results` hold of `experiment`.
    pub fn new(
        experiment: &'a Experiment,
        results: &Results,
        engines: &'a [String],
    ) -> Section<'a> {
        let of_experiment = results
            .runs
            .iter()
            .filter(|run| run.experiment == experiment.name);
        let of_experiment: Vec<_> = of_experiment.collect();
        // By their labels in the results, which an older list of experiments may have named.
        let mut labels: Vec<&str> = Vec::new();
        for run in &of_experiment {
            if !labels.contains(&run.run.as_str()) {
                labels.push(&run.run);
            }
        }
        let mut rows = Vec::new();
        for label in labels {
            let runs = of_experiment.iter().filter(|result| result.run == label);
            rows.extend(rows_of(&runs.copied().collect::<Vec<_>>(), engines));
        }
        let failures = of_experiment.iter().filter_map(|run| {
            let failure = run.failure()?.to_owned();
            Some((run.engine.clone(), run.run.clone(), failure))
        });
        Section {
            experiment,
            engines,
            rows,
            failures: failures.collect(),
            cpu_mhz: results.machine.get("cpu_mhz").and_then(Value::as_f64),
            warm: results.limited
                && of_experiment
                    .iter()
                    .any(|run| run.asked.limit_bytes.is_some() && !run.cold),
        }
    }

    /// Appends it to the page; nothing if it was not run.
    ///
    /// # Errors
    /// A chart cannot be drawn.
    pub fn write(&self, out: &mut String) -> Result<(), Failure> {
        if self.rows.is_empty() && self.failures.is_empty() {
            return Ok(());
        }
        let Experiment {
            name,
            title,
            source,
            ..
        } = self.experiment;
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "<h2 id=\"{name}\">{}</h2>\n<p>{}; {name}</p>",
            escape(title),
            escape(source)
        );
        if self.warm {
            out.push_str(
                "<p class=\"warning\">Not cold: beside the memory limit there were too few data \
                 for reads to go to the device.</p>\n",
            );
        }
        for (engine, run, failure) in &self.failures {
            let what = format!("{engine} {run}: {failure}");
            let _ = writeln!(out, "<p class=\"warning\">{}</p>", escape(&what));
        }
        out.push_str("<div class=\"charts\">\n");
        for bars in self.bars() {
            out.push_str(&bars.svg()?);
        }
        // Two curves fit side by side: those of a phase, if it lasted long enough for a trace.
        out.push_str("</div>\n<div class=\"charts\">\n");
        for row in self.rows.iter().filter(|row| row.is_worked()) {
            let lines = self.lines(row, latencies, "percentile", "latency, µs");
            out.push_str(&lines.of_latencies()?.unwrap_or_default());
            let lines = self.lines(row, trace, "seconds", "operations/s");
            out.push_str(&lines.over_time()?.unwrap_or_default());
        }
        out.push_str("</div>\n");
        self.table(out);
        Ok(())
    }

    /// Throughput: for each place among the phases of a run a chart, with a group for each run.
    pub(super) fn bars(&self) -> Vec<Bars> {
        let mut charts: Vec<(Vec<String>, Bars)> = Vec::new();
        let mut place_in_run = 0;
        let mut run = "";
        for row in self.rows.iter().filter(|row| row.is_worked()) {
            place_in_run = if row.run == run { place_in_run } else { 0 };
            run = &row.run;
            let name = numbered(&row.phase, self.nth(row));
            if charts.len() == place_in_run {
                let series = (0..self.engines.len()).map(|engine| (engine, Vec::new()));
                let bars = Bars {
                    title: String::new(),
                    labels: Vec::new(),
                    series: series.collect(),
                };
                charts.push((Vec::new(), bars));
            }
            let (names, chart) = &mut charts[place_in_run];
            if !names.contains(&name) {
                names.push(name);
            }
            chart.labels.push(row.run.clone());
            for ((_, values), cell) in chart.series.iter_mut().zip(&row.cells) {
                values.push(cell.as_ref().map(|phase| phase.operations_per_second));
            }
            place_in_run += 1;
        }
        let finish = |(names, mut chart): (Vec<String>, Bars)| {
            chart.title = format!("{}, operations/s", names.join(", "));
            chart.drop_empty();
            chart
        };
        charts.into_iter().map(finish).collect()
    }

    /// What each phase is called of which an engine has something, and what they have `of` it.
    /// Loads of several runs have one name.
    pub(super) fn values(
        &self,
        of: fn(&PhaseView) -> Option<f64>,
    ) -> impl Iterator<Item = (String, Vec<Option<f64>>)> {
        self.rows.iter().filter_map(move |row| {
            let name = numbered(&row.phase, self.nth(row));
            let name = if row.phase == "load" || name.ends_with(&row.run) {
                name
            } else {
                format!("{} {name}", row.run).trim_start().to_owned()
            };
            let values: Vec<_> = row.cells.iter().map(|cell| of(cell.as_ref()?)).collect();
            values.iter().any(Option::is_some).then_some((name, values))
        })
    }

    /// How many rows of the same run and phase stand above `row`.
    fn nth(&self, row: &Row) -> usize {
        let same = self
            .rows
            .iter()
            .take_while(|other| !std::ptr::eq(*other, row));
        same.filter(|other| other.run == row.run && other.phase == row.phase)
            .count()
    }

    fn lines(
        &self,
        row: &Row,
        points: fn(&PhaseView) -> Vec<(f64, f64)>,
        x_title: &'static str,
        what: &str,
    ) -> Lines {
        let name = numbered(&row.phase, self.nth(row));
        let title = match row.run.as_str() {
            "" => format!("{name}: {what}"),
            run => format!("{run}, {name}: {what}"),
        };
        let series = row.cells.iter().enumerate();
        Lines {
            title,
            x_title,
            series: series
                .filter_map(|(place, cell)| Some((place, points(cell.as_ref()?))))
                .collect(),
        }
    }

    fn table(&self, out: &mut String) {
        out.push_str("<div class=\"wide\"><table><tr><th>phase</th><th class=\"text\">engine</th>");
        for (name, _) in COLUMNS {
            let _ = write!(out, "<th>{name}</th>");
        }
        out.push_str("</tr>\n");
        for row in &self.rows {
            let name = format!("{} {}", row.run, numbered(&row.phase, self.nth(row)));
            let rates = row
                .cells
                .iter()
                .flatten()
                .map(|phase| phase.operations_per_second);
            let best = rates.fold(0.0_f64, f64::max);
            let context = Context {
                record_bytes: row.record_bytes,
                cpu_mhz: self.cpu_mhz,
            };
            for (place, phase) in row.cells.iter().enumerate() {
                let Some(phase) = phase else { continue };
                let is_best = best > 0.0 && phase.operations_per_second >= best;
                let class = if is_best { " class=\"best\"" } else { "" };
                let _ = write!(
                    out,
                    "<tr{class}><td>{}</td><td class=\"text\">{}</td>",
                    escape(name.trim()),
                    escape(&self.engines[place])
                );
                for (_, of) in COLUMNS {
                    let _ = write!(out, "<td>{}</td>", of(phase, &context));
                }
                out.push_str("</tr>\n");
            }
        }
        out.push_str("</table></div>\n");
    }
}

impl Row {
    /// Whether clients worked in it.
    fn is_worked(&self) -> bool {
        self.cells
            .iter()
            .flatten()
            .any(|phase| phase.operations > 0)
    }
}

/// What a reader calls the `nth` phase of this name.
fn numbered(phase: &str, nth: usize) -> String {
    let name = match (phase, phase.strip_prefix("scan")) {
        ("settle", _) => "until quiet".to_owned(),
        ("c", _) => "gets (YCSB C)".to_owned(),
        ("a" | "b" | "d" | "e" | "f", _) => format!("YCSB {}", phase.to_uppercase()),
        (_, Some(records)) if records.parse::<u32>().is_ok() => format!("scans of {records}"),
        _ => phase.to_owned(),
    };
    match nth {
        0 => name,
        nth => format!("{name} ({})", nth + 1),
    }
}

/// The phases of one run: by their order, as all engines do the same.
fn rows_of(runs: &[&RunResult], engines: &[String]) -> Vec<Row> {
    let phases: Vec<(usize, Vec<PhaseView>)> = runs
        .iter()
        .filter_map(|run| {
            let place = engines.iter().position(|engine| *engine == run.engine)?;
            Some((place, run.phases()))
        })
        .collect();
    let longest = phases.iter().max_by_key(|(_, phases)| phases.len());
    let Some(((_, longest), run)) = longest.zip(runs.first()) else {
        return Vec::new();
    };
    let row = |(nth, phase): (usize, &PhaseView)| Row {
        run: run.run.clone(),
        phase: phase.name(),
        record_bytes: (KEY_BYTES + run.asked.value_bytes) as u64,
        cells: (0..engines.len())
            .map(|engine| {
                let rounds = phases.iter().filter(|(place, _)| *place == engine);
                let rounds = rounds.filter_map(|(_, phases)| phases.get(nth)).cloned();
                median(rounds.collect())
            })
            .collect(),
    };
    longest.iter().enumerate().map(row).collect()
}

/// The one in the middle by throughput.
fn median(mut rounds: Vec<PhaseView>) -> Option<PhaseView> {
    let rate = |phase: &PhaseView| phase.operations_per_second;
    rounds.sort_by(|a, b| rate(a).total_cmp(&rate(b)));
    let middle = rounds.len() / 2;
    rounds.into_iter().nth(middle)
}

fn latencies(phase: &PhaseView) -> Vec<(f64, f64)> {
    phase
        .commonest()
        .map(|latency| latency.curve.clone())
        .unwrap_or_default()
}

/// Operations per second, from the operations of each interval.
fn trace(phase: &PhaseView) -> Vec<(f64, f64)> {
    let mut before = 0.0;
    let rate = |point: &crate::suite::results::PointView| {
        let seconds = point.seconds - before;
        before = point.seconds;
        // The last interval may be too short to say a rate.
        (seconds > 0.2).then(|| (point.seconds, point.operations as f64 / seconds))
    };
    phase.trace.iter().filter_map(rate).collect()
}

/// What a phase's report does not say by itself.
struct Context {
    record_bytes: u64,
    cpu_mhz: Option<f64>,
}

/// A column of the table.
type Column = (&'static str, fn(&PhaseView, &Context) -> String);

const COLUMNS: [Column; 16] = [
    ("operations/s", |phase, _| match phase.operations {
        0 => String::new(),
        _ => format!("{:.0}", phase.operations_per_second),
    }),
    ("MB/s", |phase, context| {
        let records = phase.operations.max(phase.scanned_records);
        let bytes = (records * context.record_bytes) as f64;
        number(
            (records > 0).then(|| bytes / 1e6 / phase.seconds.max(1e-9)),
            1,
        )
    }),
    ("beside /s", |phase, _| {
        let beside = phase.beside.as_ref();
        number(beside.map(|beside| beside.operations_per_second), 0)
    }),
    ("lowest second", |phase, _| number(phase.lowest_second, 0)),
    ("seconds", |phase, _| format!("{:.1}", phase.seconds)),
    ("p50 µs", |phase, _| {
        latency(phase, |latency| latency.p50_us)
    }),
    ("p99 µs", |phase, _| {
        latency(phase, |latency| latency.p99_us)
    }),
    ("p99.9 µs", |phase, _| {
        latency(phase, |latency| latency.p999_us)
    }),
    ("max µs", |phase, _| {
        latency(phase, |latency| latency.max_us)
    }),
    ("longest put ms", |phase, _| {
        number(phase.longest_write_ms, 1)
    }),
    ("CPU µs/op", |phase, _| {
        number(phase.cpu_us_per_operation, 2)
    }),
    ("cycles/op", |phase, context| {
        let each = phase.cpu_us_per_operation.zip(context.cpu_mhz);
        number(each.map(|(us, mhz)| us * mhz), 0)
    }),
    ("written/user", |phase, _| {
        number(phase.written_per_byte(), 2)
    }),
    ("device read B/op", |phase, _| {
        number(phase.device_read_bytes_per_operation, 0)
    }),
    ("anonymous", |phase, _| {
        let bytes = phase.peak_anonymous_bytes.map(HumanBytes);
        bytes.map_or_else(String::new, |bytes| bytes.to_string())
    }),
    ("disk/data", |phase, _| number(phase.space_amplification, 2)),
];

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(String::new, |value| format!("{value:.digits$}"))
}

fn latency(phase: &PhaseView, of: fn(&crate::suite::results::LatencyView) -> f64) -> String {
    number(phase.commonest().map(of), 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::results::PointView;

    #[test]
    fn the_median_is_one_of_the_rounds() {
        let round = |rate| PhaseView {
            operations_per_second: rate,
            ..PhaseView::default()
        };
        let rate = |rates: &[f64]| {
            let middle = median(rates.iter().map(|rate| round(*rate)).collect());
            middle.map(|phase| phase.operations_per_second)
        };
        assert_eq!(rate(&[]), None);
        assert_eq!(rate(&[7.0]), Some(7.0));
        assert_eq!(rate(&[9.0, 1.0, 5.0]), Some(5.0));
    }

    #[test]
    fn rates_come_from_intervals() {
        let point = |seconds, operations| PointView {
            seconds,
            operations,
            ..PointView::default()
        };
        let phase = PhaseView {
            trace: vec![point(1.0, 500), point(3.0, 500), point(3.1, 90)],
            ..PhaseView::default()
        };
        assert_eq!(trace(&phase), [(1.0, 500.0), (3.0, 250.0)]);
    }
}
