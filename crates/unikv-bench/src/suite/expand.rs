//! From an experiment at full scale to what one process does.

use super::contender::{Terms, Tuning};
use super::experiments::Run;
use crate::failure::Failure;
use crate::run::plan::Plan;
use crate::workload::keys::{KEY_BYTES, KeyOrder};
use crate::workload::phases::Phase;
use crate::workload::values::Lengths;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// However small the scale; fewer where values are large.
const LEAST_RECORDS: u64 = 1_000;
const LEAST_BYTES: u64 = 4 << 20;
const FEWEST_RECORDS: u64 = 16;
/// Every engine gets this many eighths of the memory there is; the rest is page cache.
const BUDGET_EIGHTHS: u64 = 5;
/// Below this an engine is not itself.
const LEAST_BUDGET: u64 = 24 << 20;
/// What a process needs beside the engine, however small the data.
const LEAST_LIMIT: u64 = 96 << 20;
/// What a store may take on disk while it works, over its data, at most.
const DISK_OVER_DATA: u64 = 3;
/// A load has to be done whole, for everything after it to be the same for all engines.
const LOAD_OVER_PHASE: u32 = 5;
/// The smallest that a scaled UnsortedStore or partition becomes.
const LEAST_PART: u64 = 1 << 20;

/// A run at the scale asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Scaled {
    /// Records to load.
    pub records: u64,
    /// Bytes of each value, in the mean.
    pub value_bytes: usize,
    /// How long values are, if not all alike.
    #[serde(default)]
    pub mixture: Option<Lengths>,
    /// Whether keys are loaded in their order.
    pub sequential: bool,
    /// Client threads.
    pub threads: usize,
    /// The length of scans that do not say.
    pub scan_length: Option<u64>,
    /// Of the random choices.
    pub seed: u64,
    /// Lists of phases, a process each.
    pub steps: Vec<String>,
    /// What the engine is given.
    pub terms: Terms,
    /// The limit of the memory cgroup.
    pub limit_bytes: Option<u64>,
    /// Keys and values of the records loaded.
    pub data_bytes: u64,
    /// After this many seconds a phase of operations ends; a load fails after five times as many.
    #[serde(default)]
    pub longest_phase_seconds: Option<u64>,
}

impl Scaled {
    /// `run` with `scale` times its records.
    ///
    /// # Errors
    /// A phase of the run is not one.
    pub fn new(run: &Run, scale: f64, seed: u64) -> Result<Scaled, Failure> {
        let scaled = |whole: u64| (whole as f64 * scale) as u64;
        let record_bytes = (KEY_BYTES + run.value_bytes) as u64;
        let least = LEAST_RECORDS.min(LEAST_BYTES / record_bytes);
        let records = scaled(run.records).max(least.max(FEWEST_RECORDS));
        let data_bytes = records * record_bytes;
        // Where nothing limits memory, an engine is asked to do with less than the data all the
        // same.
        let memory = data_bytes / run.data_over_memory.unwrap_or(1);
        let memory_bytes = (memory / 8 * BUDGET_EIGHTHS).max(LEAST_BUDGET);
        let part = |bytes: Option<u64>| bytes.map(|bytes| scaled(bytes).max(LEAST_PART));
        let steps = run.steps.iter().map(|step| expand(step, records));
        Ok(Scaled {
            records,
            value_bytes: run.value_bytes,
            mixture: run.mixture,
            sequential: run.order == KeyOrder::Sequential,
            threads: run.threads,
            scan_length: run.scan_length,
            seed,
            steps: steps.collect::<Result<_, _>>()?,
            terms: Terms {
                memory_bytes,
                sync: run.sync,
                tuning: Tuning {
                    unsorted_bytes: part(run.tuning.unsorted_bytes),
                    partition_bytes: part(run.tuning.partition_bytes),
                    ..run.tuning.clone()
                },
            },
            limit_bytes: run
                .data_over_memory
                .map(|_| memory.max(memory_bytes + LEAST_LIMIT)),
            data_bytes,
            longest_phase_seconds: None,
        })
    }

    /// The same without the kill and what comes after it, for an engine that does not survive one.
    #[must_use]
    pub fn without_kill(mut self) -> Scaled {
        if let Some(nth) = self.steps.iter().position(|step| is_killed(step)) {
            self.steps.truncate(nth + 1);
            let step = &mut self.steps[nth];
            step.truncate(step.len() - KILL.len());
        }
        self
    }

    /// The same with no phase longer than `longest`.
    #[must_use]
    pub fn no_longer_than(mut self, longest: Option<Duration>) -> Scaled {
        self.longest_phase_seconds = longest.map(|longest| longest.as_secs().max(1));
        self
    }

    /// What the run may take on disk.
    pub fn disk_bytes(&self) -> u64 {
        self.data_bytes * DISK_OVER_DATA
    }

    /// The order in which keys are loaded.
    pub fn order(&self) -> KeyOrder {
        if self.sequential {
            KeyOrder::Sequential
        } else {
            KeyOrder::Random
        }
    }

    /// How long values are.
    pub fn values(&self) -> Lengths {
        self.mixture.unwrap_or(Lengths::fixed(self.value_bytes))
    }

    /// Bytes of key and value.
    pub fn record_bytes(&self) -> u64 {
        (KEY_BYTES + self.value_bytes) as u64
    }

    /// Whether the data are this much more than the memory that reads go to the device.
    pub fn is_cold(&self) -> bool {
        self.limit_bytes
            .is_some_and(|limit| self.data_bytes >= limit.saturating_mul(5))
    }

    /// What the process of one step does in `dir`.
    ///
    /// # Errors
    /// A phase of the step is not one.
    pub fn plan(&self, step: usize, dir: &Path) -> Result<Plan, Failure> {
        let step = self
            .steps
            .get(step)
            .ok_or_else(|| Failure::invalid("no such step"))?;
        let phases = step.split(',').map(|label| Phase::parse(label.trim()));
        let duration = self.longest_phase_seconds.map(Duration::from_secs);
        Ok(Plan {
            dir: PathBuf::from(dir),
            phases: phases.collect::<Result<_, _>>().map_err(Failure::invalid)?,
            records: self.records,
            operations: self.records,
            values: self.values(),
            threads: self.threads,
            distribution: None,
            scan_length: self.scan_length,
            order: self.order(),
            verify: true,
            settle: false,
            duration,
            load_duration: duration.map(|duration| duration * LOAD_OVER_PHASE),
            seed: self.seed,
            check_space: false,
            space_floor: None,
        })
    }
}

/// The end of a step that kills its process.
const KILL: &str = ",die";

/// Whether a step kills its process.
pub fn is_killed(step: &str) -> bool {
    step.ends_with(KILL)
}

/// Writes numbers of operations for shares of the records.
fn expand(step: &str, records: u64) -> Result<String, Failure> {
    let phases = step.split(',').map(|phase| {
        let Some((name, rest)) = phase.split_once("@x") else {
            return Ok(phase.to_owned());
        };
        let end = rest.find(['*', '~', '+']).unwrap_or(rest.len());
        let (factor, rest) = rest.split_at(end);
        let factor: f64 = factor
            .parse()
            .map_err(|_| Failure::invalid(format!("{phase}: not a share of the records")))?;
        let operations = ((records as f64 * factor) as u64).max(1);
        Ok(format!("{name}@{operations}{rest}"))
    });
    Ok(phases.collect::<Result<Vec<_>, Failure>>()?.join(","))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;
    use crate::suite::experiments;
    use std::collections::BTreeSet;

    #[test]
    fn shares_become_numbers() {
        let expanded = expand("load,c:uniform@x0.1*4~5k,settle", 5_000).unwrap();
        assert_eq!(expanded, "load,c:uniform@500*4~5k,settle");
        assert!(expand("c@xfew", 5_000).is_err());
    }

    #[test]
    fn every_experiment_can_be_run_at_every_scale() {
        let all = experiments::all();
        let names: BTreeSet<_> = all.iter().map(|experiment| experiment.name).collect();
        assert_eq!(names.len(), all.len());
        for experiment in &all {
            let labels: BTreeSet<_> = experiment.runs.iter().map(|run| &run.label).collect();
            assert_eq!(labels.len(), experiment.runs.len(), "{}", experiment.name);
            for (run, scale) in experiment
                .runs
                .iter()
                .flat_map(|run| [(run, 1e-5), (run, 1.0)])
            {
                let scaled = Scaled::new(run, scale, 1).unwrap();
                for step in 0..scaled.steps.len() {
                    let plan = scaled.plan(step, Path::new("x")).unwrap();
                    assert_eq!(plan.loads_first(), step == 0, "{}", experiment.name);
                }
            }
        }
    }

    #[test]
    fn a_kill_can_be_left_out() {
        let all = experiments::all();
        let recovery = all.iter().find(|experiment| experiment.name == "recovery");
        let scaled = Scaled::new(&recovery.unwrap().runs[0], 1e-5, 1).unwrap();
        assert!(scaled.steps.len() == 2 && is_killed(&scaled.steps[0]));
        assert_eq!(scaled.without_kill().steps, ["load"]);
    }

    #[test]
    fn the_setting_of_the_targets() {
        let all = experiments::all();
        let rows = all
            .iter()
            .find(|experiment| experiment.name == "rows")
            .unwrap();
        let scaled = Scaled::new(&rows.runs[0], 0.06, 1).unwrap();
        assert_eq!(scaled.records, 6_000_000);
        let limit = scaled.limit_bytes.unwrap();
        assert!((900 << 20..1100 << 20).contains(&limit), "{limit}");
        let budget = scaled.terms.memory_bytes;
        assert!((600 << 20..640 << 20).contains(&budget), "{budget}");
        assert!(scaled.is_cold());
        let in_memory = all.iter().find(|it| it.name == "in-memory").unwrap();
        let same = Scaled::new(&in_memory.runs[0], 0.06, 1).unwrap();
        assert!(same.limit_bytes.is_none() && same.terms.memory_bytes.abs_diff(budget) < 1 << 20);
        assert!(!Scaled::new(&rows.runs[0], 1e-5, 1).unwrap().is_cold());
    }
}
