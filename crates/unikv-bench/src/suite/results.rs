//! What a run of the suite leaves: one JSON object, with everything that every phase has reported.

use super::expand::Scaled;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The results of one or more runs of the suite.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Results {
    /// The commit that was measured, if it is known.
    pub commit: Option<String>,
    /// The share of the full size.
    pub scale: f64,
    /// What it ran on.
    pub machine: Value,
    /// Whether memory was limited; otherwise no figure is cold.
    pub limited: bool,
    /// One for each engine, run of an experiment, and round.
    pub runs: Vec<RunResult>,
    /// What was left out, and why.
    pub skipped: Vec<String>,
}

/// One engine in one run of an experiment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunResult {
    /// The name of the experiment.
    pub experiment: String,
    /// The label of the run.
    pub run: String,
    /// The name of the engine.
    pub engine: String,
    /// Its version.
    pub version: String,
    /// What it was opened with.
    pub settings: Vec<(String, String)>,
    /// Which repetition it was, from 0.
    pub round: u32,
    /// The commit that was measured, if it is known.
    #[serde(default)]
    pub commit: Option<String>,
    /// What was asked for.
    pub asked: Scaled,
    /// Whether memory was limited, to less than a fifth of the data.
    pub cold: bool,
    /// One for each process.
    pub steps: Vec<StepResult>,
}

impl RunResult {
    /// Whether the two say how one engine does in one run.
    pub fn is_in_place_of(&self, other: &RunResult) -> bool {
        (&self.experiment, &self.run) == (&other.experiment, &other.run)
            && (&self.engine, self.round) == (&other.engine, other.round)
    }

    /// Whether a commit names all that was measured.
    pub fn is_named(&self) -> bool {
        let commit = self.commit.as_ref();
        commit.is_some_and(|commit| !commit.ends_with("-dirty"))
    }

    /// Whether this is what a run of `other` would do again: the same commit, engine and settings,
    /// and a tree without changes that no commit names.
    pub fn stands_for(&self, other: &RunResult) -> bool {
        let what = |run: &RunResult| {
            let RunResult {
                experiment,
                engine,
                version,
                settings,
                round,
                commit,
                ..
            } = run.clone();
            let asked = serde_json::to_value(&run.asked).unwrap_or_default();
            let named = (experiment, run.run.clone(), engine, version, settings);
            (named, round, commit, asked)
        };
        self.is_named() && what(self) == what(other)
    }
}

/// What one process has reported.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StepResult {
    /// How long opening the store took.
    pub opened_seconds: Option<f64>,
    /// Reports of phases ([`crate::report::phase::PhaseReport`]).
    pub phases: Vec<Value>,
    /// Why it ended early.
    pub failure: Option<String>,
}

/// One line that the process of a step writes.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// The store is open; it took this many seconds.
    Opened(f64),
    /// A phase has ended.
    Phase(Value),
    /// The step has failed.
    Failure(String),
}

/// A phase's report, as far as pages show it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PhaseView {
    /// As it was asked for.
    pub phase: String,
    /// Operations done.
    pub operations: u64,
    /// Records returned by scans.
    pub scanned_records: u64,
    /// How long it took.
    pub seconds: f64,
    /// Operations over the time.
    pub operations_per_second: f64,
    /// The fewest operations in one second.
    pub lowest_second: Option<f64>,
    /// Per kind of operation.
    pub latencies: Vec<LatencyView>,
    /// What other clients did meanwhile.
    pub beside: Option<BesideView>,
    /// Bytes of files written by the process over keys and values written.
    pub process_write_amplification: Option<f64>,
    /// Until the background was quiet, what was written since it last was, over what the user
    /// wrote.
    pub process_write_amplification_until_quiet: Option<f64>,
    /// CPU time of all threads.
    pub cpu_us_per_operation: Option<f64>,
    /// Read from the device by the process.
    pub device_read_bytes_per_operation: Option<f64>,
    /// The most anonymous memory seen.
    pub peak_anonymous_bytes: Option<u64>,
    /// The most resident memory seen.
    pub peak_resident_bytes: Option<u64>,
    /// Bytes of all files at the end.
    pub disk_bytes: u64,
    /// Those over keys and values.
    pub space_amplification: Option<f64>,
    /// The longest put or delete.
    pub longest_write_ms: Option<f64>,
    /// The rate at which operations were due.
    pub rate: Option<f64>,
    /// Second by second.
    pub trace: Vec<PointView>,
}

/// What clients did beside those of a phase.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct BesideView {
    /// As it was asked for.
    pub phase: String,
    /// Operations over the time.
    pub operations_per_second: f64,
    /// Per kind of operation.
    pub latencies: Vec<LatencyView>,
}

/// Latencies of one kind of operation.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct LatencyView {
    /// Its name.
    pub operation: String,
    /// How many there were.
    pub count: u64,
    /// Half took no longer.
    pub p50_us: f64,
    /// 99 of 100 took no longer.
    pub p99_us: f64,
    /// 999 of 1000 took no longer.
    pub p999_us: f64,
    /// The longest.
    pub max_us: f64,
    /// Percentiles and microseconds.
    pub curve: Vec<(f64, f64)>,
}

/// One second of a phase.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PointView {
    /// Since the phase began.
    pub seconds: f64,
    /// Operations since the last point.
    pub operations: u64,
    /// The longest of them.
    pub max_us: f64,
}

impl PhaseView {
    /// Operations over the time, if there were any.
    pub fn rate_of_work(&self) -> Option<f64> {
        (self.operations > 0).then_some(self.operations_per_second)
    }

    /// Bytes written for each byte of the user's, until the background was quiet if that is known.
    pub fn written_per_byte(&self) -> Option<f64> {
        let until_quiet = self.process_write_amplification_until_quiet;
        until_quiet.or(self.process_write_amplification)
    }

    /// The kind of operation of which there were most.
    pub fn commonest(&self) -> Option<&LatencyView> {
        self.latencies.iter().max_by_key(|latency| latency.count)
    }

    /// The name of the phase without its number of operations, which depends on the scale.
    pub fn name(&self) -> String {
        let label = self.phase.as_str();
        let Some((name, rest)) = label.split_once('@') else {
            return label.to_owned();
        };
        let suffix = rest.find(['*', '~']).map_or("", |at| &rest[at..]);
        format!("{name}{suffix}")
    }
}

impl RunResult {
    /// All phases of all steps.
    pub fn phases(&self) -> Vec<PhaseView> {
        let values = self.steps.iter().flat_map(|step| &step.phases);
        values
            .filter_map(|value| PhaseView::deserialize(value).ok())
            .collect()
    }

    /// Why it ended early, if it did.
    pub fn failure(&self) -> Option<&str> {
        self.steps.iter().find_map(|step| step.failure.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_tell_the_scale() {
        for (label, name) in [
            ("load", "load"),
            ("c:uniform@500", "c:uniform"),
            ("update@500*4~5k", "update*4~5k"),
        ] {
            let phase = label.to_owned();
            let view = PhaseView {
                phase,
                ..PhaseView::default()
            };
            assert_eq!(view.name(), name);
        }
    }
}
