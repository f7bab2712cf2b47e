//! One picture for each experiment, in a file of its own: what a document shows without the page.
//!
//! Each group of bars is a phase, each bar an engine: its rate as a share of the best one's there,
//! because phases differ by orders of magnitude, and machines differ, too.

use super::charts::{Bars, with_legend};
use super::engines;
use super::section::Section;
use crate::failure::Failure;
use crate::suite::experiments;
use crate::suite::results::Results;
use std::fs;
use std::path::Path;

/// Writes the pictures of all experiments in `results` to the directory `dir`, each named after its
/// experiment.
///
/// # Errors
/// A picture cannot be drawn or written.
pub fn write_pictures(results: &Results, dir: &Path) -> Result<(), Failure> {
    fs::create_dir_all(dir)?;
    let engines = engines(results);
    for experiment in experiments::all() {
        let section = Section::new(&experiment, results, &engines);
        let Some(bars) = shares(&section, engines.len()) else {
            continue;
        };
        let path = dir.join(format!("{}.svg", experiment.name));
        let svg = with_legend(&bars, &engines)?;
        fs::write(&path, svg).map_err(|error| Failure::file(path.display(), error))?;
    }
    Ok(())
}

/// The shares of each phase; `None` if there is none.
fn shares(section: &Section<'_>, engines: usize) -> Option<Bars> {
    let mut labels: Vec<String> = Vec::new();
    let mut series: Vec<(usize, Vec<Option<f64>>)> = (0..engines).map(|n| (n, vec![])).collect();
    for (label, rates) in section.rates() {
        // Runs that load in the same way have the same phase again.
        if labels.contains(&label) {
            continue;
        }
        let best = rates
            .iter()
            .flatten()
            .fold(f64::MIN_POSITIVE, |a, b| a.max(*b));
        labels.push(label);
        for ((_, values), rate) in series.iter_mut().zip(rates) {
            values.push(rate.map(|rate| rate / best));
        }
    }
    series.retain(|(_, values)| values.iter().any(Option::is_some));
    (!labels.is_empty()).then(|| Bars {
        title: "Rate, as a share of the best one's".to_owned(),
        labels,
        series,
    })
}
