//! One step of a run in a process of its own: nothing of another engine or step is in its memory,
//! its CPU time and its counters.
//!
//! It writes one line of JSON when the store is open and one for each phase, at once, so that a
//! step which kills its process leaves what it has reported.

use super::contender::{Contender, Progress};
use super::expand::Scaled;
use super::results::{Line, StepResult};
use crate::failure::Failure;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// What the process is to do.
#[derive(Serialize, Deserialize)]
pub struct Job {
    /// The name of the contender.
    pub engine: String,
    /// The run.
    pub scaled: Scaled,
    /// Which of its steps.
    pub step: usize,
    /// The directory of the store.
    pub dir: PathBuf,
    /// Where the lines go.
    pub out: PathBuf,
}

/// Does the job that stands in the file `job`.
///
/// # Errors
/// The job cannot be read or its output not written. What fails while it runs stands in the output.
pub fn run(contenders: &[Box<dyn Contender>], job: &Path) -> Result<(), Failure> {
    let named = |error| Failure::file(job.display(), error);
    let text = fs::read_to_string(job).map_err(named)?;
    let job: Job = serde_json::from_str(&text).map_err(|error| named(error.into()))?;
    let contender = contenders
        .iter()
        .find(|contender| contender.name() == job.engine)
        .ok_or_else(|| Failure::invalid(format!("no engine {}", job.engine)))?;
    let mut out = File::create(&job.out)?;
    let mut write = |line: &Line| -> Result<(), Failure> {
        let mut text = serde_json::to_vec(line).map_err(std::io::Error::from)?;
        text.push(b'\n');
        Ok(out.write_all(&text)?)
    };
    let plan = job.scaled.plan(job.step, &job.dir)?;
    let outcome = contender.run(&plan, &job.scaled.terms, &mut |progress| {
        write(&match progress {
            Progress::Opened(duration) => Line::Opened(duration.as_secs_f64()),
            Progress::Phase(report) => {
                Line::Phase(serde_json::to_value(*report).map_err(std::io::Error::from)?)
            }
        })
    });
    match outcome {
        Ok(()) => Ok(()),
        Err(failure) => write(&Line::Failure(failure.to_string())),
    }
}

/// What the process of a step has written to `out`.
///
/// # Errors
/// The file cannot be read.
pub fn result(out: &Path) -> Result<StepResult, Failure> {
    let named = |error| Failure::file(out.display(), error);
    let mut result = StepResult::default();
    for line in fs::read_to_string(out).map_err(named)?.lines() {
        match serde_json::from_str(line).map_err(|error| named(error.into()))? {
            Line::Opened(seconds) => result.opened_seconds = Some(seconds),
            Line::Phase(report) => result.phases.push(report),
            Line::Failure(what) => result.failure = Some(what),
        }
    }
    Ok(result)
}
