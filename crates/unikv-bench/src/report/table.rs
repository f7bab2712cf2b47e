//! The phases of a run as a table of at most [`COLUMNS`](crate::report::fold::COLUMNS) columns,
//! with a sentence for each.

use crate::measure::latency::LatencySummary;
use crate::report::fold::print_folded;
use crate::report::phase::{PhaseReport, micros};
use crate::report::words;
use crate::workload::phases::Phase;
use indicatif::HumanCount;
use std::io::{self, Write};

/// The head of the table.
///
/// # Errors
/// Those of `out`.
pub fn print_head(out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "{:<18}{:>10}{:>11}{:>10}{:>10}{:>10}{:>9}{:>8}{:>7}{:>7}",
        "phase", "ops/s", "low second", "p50", "p99", "max", "written", "B read", "CPU us", "space"
    )
}

/// What the columns of the table are.
///
/// # Errors
/// Those of `out`.
pub fn print_legend(out: &mut impl Write) -> io::Result<()> {
    let legend = "Latencies are of the commonest operation. written: bytes that the engine wrote \
                  for each byte of keys and values; B read: bytes read from files per operation; \
                  CPU us: processor time of all threads per operation; space: bytes of all files \
                  over keys and values. --verbose prints more of each phase.";
    print_folded(out, "", legend)
}

/// The row of a phase, and what it shows.
///
/// # Errors
/// Those of `out`.
pub fn print_phase(phase: &Phase, report: &PhaseReport, out: &mut impl Write) -> io::Result<()> {
    match report.operations {
        0 => writeln!(out, "{:<18}{:>8.2} s", report.phase, report.seconds)?,
        _ => print_row(report, out)?,
    }
    print_folded(out, "  ", &words::sentence(phase, report))
}

fn print_row(report: &PhaseReport, out: &mut impl Write) -> io::Result<()> {
    let commonest = report.latencies.iter().max_by_key(|l| l.count);
    let latency = |of: fn(&LatencySummary) -> f64| commonest.map(|summary| micros(of(summary)));
    let count = |rate: f64| HumanCount(rate as u64).to_string();
    let number = |value: Option<f64>, digits: usize| value.map(|v| format!("{v:.digits$}"));
    let cells = [
        (10, Some(count(report.operations_per_second))),
        (11, report.lowest_second.map(count)),
        (10, latency(|summary| summary.p50_us)),
        (10, latency(|summary| summary.p99_us)),
        (10, latency(|summary| summary.max_us)),
        (9, number(report.write_amplification, 2)),
        (8, number(report.engine_read_bytes_per_operation, 0)),
        (7, number(report.cpu_us_per_operation, 2)),
        (7, number(report.space_amplification, 2)),
    ];
    write!(out, "{:<18}", report.phase)?;
    for (width, cell) in cells {
        write!(out, "{:>width$}", cell.as_deref().unwrap_or("-"))?;
    }
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::latency::LatencySummary;
    use crate::report::fold::COLUMNS;

    fn lines(phase: &str, report: &PhaseReport) -> Vec<String> {
        let mut out = Vec::new();
        print_phase(&Phase::parse(phase).unwrap(), report, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn the_largest_figures_fit() {
        let mut report = PhaseReport {
            phase: "scan50:zipfian@2m".to_owned(),
            operations: 900_000_000,
            scanned_records: 45_000_000_000,
            misses: 1_000_000,
            seconds: 9000.0,
            lowest_second: Some(9_999_999.0),
            write_amplification: Some(123.45),
            engine_read_bytes_per_operation: Some(1_000_000.0),
            cpu_us_per_operation: Some(999.99),
            space_amplification: Some(10.55),
            distribution: Some("zipfian".to_owned()),
            ..PhaseReport::default()
        };
        report.operations_per_second = 9_999_999.0;
        let longest = LatencySummary {
            operation: "scan",
            count: 7,
            p50_us: 999_900.0,
            p99_us: 999_900.0,
            max_us: 999_900.0,
            ..LatencySummary::default()
        };
        report.latencies.push(longest);
        report.costs.stalls = 1_000_000;
        report.costs.stall_ms = 1e9;
        let lines = lines("scan50:zipfian@2m", &report);
        assert!(lines.len() > 1, "a sentence follows");
        for line in lines {
            assert!(line.len() <= COLUMNS, "{} columns: {line}", line.len());
        }
        let mut head = Vec::new();
        print_head(&mut head).unwrap();
        assert!(head.len() <= COLUMNS + 1);
    }

    #[test]
    fn each_kind_of_phase_has_a_sentence() {
        for name in crate::workload::phases::NAMES.split(", ") {
            let name = name.replace('N', "9");
            let report = PhaseReport {
                phase: name.clone(),
                operations: 10,
                ..PhaseReport::default()
            };
            let lines = lines(&name, &report);
            let sentence = lines.last().map(|line| line.trim());
            let is_whole = sentence.is_some_and(|s| s.ends_with('.') && s.len() > 10);
            assert!(is_whole || name == "reopen", "{name}: {lines:?}");
        }
    }
}
