//! Pictures for documents, each in a file of its own: of each experiment the rates, the bytes
//! written, read and stored, the rates over what it varies, and how long opening takes.
//!
//! Each group of bars is a phase, each bar an engine. A rate is a share of the best one's there,
//! because phases differ by orders of magnitude, and machines differ, too.

use super::charts::{Bars, with_legend};
use super::curves;
use super::engines;
use super::section::Section;
use crate::failure::Failure;
use crate::suite::experiments;
use crate::suite::results::{PhaseView, Results};
use std::fs;
use std::path::Path;

/// What bars show: how the file's name ends, what stands above, and the value of a phase.
type Measure = (&'static str, &'static str, fn(&PhaseView) -> Option<f64>);

const RATES: Measure = (
    "",
    "Rate, as a share of the best one's",
    PhaseView::rate_of_work,
);

const BYTES: [Measure; 3] = [
    (
        "-written",
        "Bytes written per byte of the user's",
        PhaseView::written_per_byte,
    ),
    ("-read", "KB read from the device per operation", |phase| {
        let bytes = phase.device_read_bytes_per_operation;
        bytes.map(|bytes| bytes / 1e3)
    }),
    (
        "-stored",
        "Bytes of files over those of keys and values",
        |phase| phase.space_amplification,
    ),
];

/// Writes the pictures of all experiments in `results` to the directory `dir`, each named after its
/// experiment.
///
/// # Errors
/// A picture cannot be drawn or written.
pub fn write_pictures(results: &Results, dir: &Path) -> Result<(), Failure> {
    fs::create_dir_all(dir)?;
    let engines = engines(results);
    for experiment in experiments::all() {
        let write = |ending: &str, svg: String| {
            let path = dir.join(format!("{}{ending}.svg", experiment.name));
            fs::write(&path, svg).map_err(|error| Failure::file(path.display(), error))
        };
        let section = Section::new(&experiment, results, &engines);
        let measured = std::iter::once(RATES).chain(BYTES);
        let mut all: Vec<(&str, Bars)> = measured
            .filter_map(|measure| Some((measure.0, bars(&section, engines.len(), measure)?)))
            .collect();
        if let Some((_, rates)) = all.iter_mut().find(|(ending, _)| ending.is_empty()) {
            as_shares(rates);
        }
        all.extend(openings(experiment.name, results, &engines).map(|bars| ("-opened", bars)));
        for (ending, bars) in all {
            write(ending, with_legend(&bars, &engines)?)?;
        }
        let curves = curves::of(&section);
        if !curves.is_empty() {
            write("-curves", curves::svg(&curves, &engines)?)?;
        }
    }
    Ok(())
}

/// What is measured in each phase; `None` if nothing is.
fn bars(section: &Section<'_>, engines: usize, (_, title, of): Measure) -> Option<Bars> {
    let mut labels: Vec<String> = Vec::new();
    let mut series: Vec<(usize, Vec<Option<f64>>)> = (0..engines).map(|n| (n, vec![])).collect();
    for (label, found) in section.values(of) {
        // Runs that load in the same way have the same phase again.
        if labels.contains(&label) {
            continue;
        }
        labels.push(label);
        for ((_, values), value) in series.iter_mut().zip(found) {
            values.push(value);
        }
    }
    let mut bars = Bars {
        title: title.to_owned(),
        labels,
        series,
    };
    bars.drop_empty();
    (!bars.labels.is_empty()).then_some(bars)
}

/// Divides the values of each group by the greatest of them.
fn as_shares(bars: &mut Bars) {
    for group in 0..bars.labels.len() {
        let of_group = bars.series.iter().filter_map(|(_, values)| values[group]);
        let best = of_group.fold(f64::MIN_POSITIVE, f64::max);
        let values = bars.series.iter_mut().map(|(_, values)| &mut values[group]);
        values.flatten().for_each(|value| *value /= best);
    }
}

/// How long the engines took to open what a process before had left; `None` if none did.
fn openings(experiment: &str, results: &Results, engines: &[String]) -> Option<Bars> {
    let mut series = Vec::new();
    for (place, engine) in engines.iter().enumerate() {
        let runs = results.runs.iter();
        let mut runs = runs.filter(|run| run.experiment == experiment && run.engine == *engine);
        let last = runs.find_map(|run| run.steps.get(1..)?.last()?.opened_seconds);
        if let Some(seconds) = last {
            series.push((place, vec![Some(seconds * 1e3)]));
        }
    }
    (!series.is_empty()).then(|| Bars {
        title: "Opening, ms".to_owned(),
        labels: vec![String::new()],
        series,
    })
}
