//! Runs experiments over contenders, each step in a process of its own.

use super::child::{self, Job};
use super::contender::{Contender, Tuning, UNIKV};
use super::expand::{Scaled, is_killed};
use super::experiments::{Experiment, Run};
use super::results::{Results, RunResult, StepResult};
use crate::failure::Failure;
use crate::measure::machine::Machine;
use crate::run::remove_store;
use indicatif::{HumanBytes, HumanCount};
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs;
use std::io::{self, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::sync::mpsc;
use std::time::Duration;

/// What a run of the suite is given.
pub struct Suite {
    /// Where stores are made, and removed again.
    pub dir: PathBuf,
    /// Where results go.
    pub out: PathBuf,
    /// The share of the full size.
    pub scale: f64,
    /// Of the random choices.
    pub seed: u64,
    /// How long a phase of operations may last; a load five times as long.
    pub longest_phase: Option<Duration>,
    /// How often everything is repeated.
    pub rounds: u32,
    /// Runs that may take more on disk are left out.
    pub most_disk_bytes: u64,
    /// Runs a command with less memory: `LIMITER BYTES COMMAND …`; `LIMITER --probe` says whether
    /// it can.
    pub limiter: Option<PathBuf>,
    /// The commit that is measured.
    pub commit: Option<String>,
    /// A step that takes longer is ended, and its run fails.
    pub longest_step: Duration,
}

const KILLED: i32 = 9;

impl Suite {
    /// Runs everything and writes `results.json` after each engine. What stands there already, of
    /// the same commit and scale on this machine, is not run again, and stays there, also what is
    /// not asked for now.
    ///
    /// # Errors
    /// Processes cannot be started or files not written. What fails within a run stands in the
    /// results.
    pub fn run(
        &self,
        experiments: &[Experiment],
        contenders: &[&dyn Contender],
        out: &mut impl Write,
    ) -> Result<Results, Failure> {
        fs::create_dir_all(&self.dir)?;
        fs::create_dir_all(&self.out)?;
        let mut results = Results {
            commit: self.commit.clone(),
            scale: self.scale,
            machine: serde_json::to_value(Machine::inspect(&self.dir)).map_err(io::Error::from)?,
            limited: self.can_limit(),
            ..Results::default()
        };
        let mut earlier = self.earlier(&results);
        writeln!(out, "{}", limit_in_words(results.limited))?;
        for experiment in experiments {
            writeln!(
                out,
                "\n{}: {} ({})",
                experiment.name, experiment.title, experiment.source
            )?;
            for run in &experiment.runs {
                let scaled = Scaled::new(run, self.scale, self.seed)?;
                let scaled = scaled.no_longer_than(self.longest_phase);
                if scaled.disk_bytes() > self.most_disk_bytes {
                    let what = format!("{} {}", experiment.name, run.label);
                    let need = HumanBytes(scaled.disk_bytes());
                    let what = format!("{}: may take {need} on disk", what.trim_end());
                    writeln!(out, "  skipped: {what}")?;
                    results.skipped.push(what);
                    continue;
                }
                for round in 0..self.rounds {
                    for contender in taking_part(run, contenders) {
                        let cold = results.limited && scaled.is_cold();
                        let settings = contender.settings(&scaled.terms).into_iter();
                        let mut result = RunResult {
                            experiment: experiment.name.to_owned(),
                            run: run.label.clone(),
                            engine: contender.name().to_owned(),
                            version: contender.version(),
                            settings: settings
                                .map(|(name, value)| (name.to_owned(), value))
                                .collect(),
                            round,
                            commit: self.commit.clone(),
                            asked: scaled.clone(),
                            cold,
                            steps: Vec::new(),
                        };
                        let in_its_place =
                            earlier.iter().position(|old| old.is_in_place_of(&result));
                        let known = in_its_place.map(|place| earlier.remove(place));
                        match known.filter(|known| known.stands_for(&result)) {
                            Some(known) => result = known,
                            None => {
                                result.steps = self.steps(*contender, &scaled, results.limited)?;
                            }
                        }
                        print(&result, out)?;
                        results.runs.push(result);
                        self.write(&results, &earlier)?;
                    }
                }
            }
        }
        results.runs.append(&mut earlier);
        Ok(results)
    }

    /// What an earlier call has left of the same commit and scale, on a machine like this one.
    fn earlier(&self, now: &Results) -> Vec<RunResult> {
        let text = fs::read(self.out.join("results.json")).unwrap_or_default();
        let mut stored: Results = serde_json::from_slice(&text).unwrap_or_default();
        let is_same = stored.machine == now.machine
            && (stored.limited, stored.scale) == (now.limited, now.scale);
        let stands = |run: &RunResult| is_same && run.is_named() && run.commit == now.commit;
        stored.runs.retain(stands);
        stored.runs
    }

    fn can_limit(&self) -> bool {
        self.limiter.as_ref().is_some_and(|limiter| {
            let status = Command::new(limiter).arg("--probe").status();
            status.is_ok_and(|status| status.success())
        })
    }

    /// Writes `results`, and what is left of `earlier` ones.
    fn write(&self, results: &Results, earlier: &[RunResult]) -> Result<(), Failure> {
        let path = self.out.join("results.json");
        let mut all = results.clone();
        all.runs.extend_from_slice(earlier);
        let text = serde_json::to_string_pretty(&all).map_err(io::Error::from)?;
        fs::write(&path, text).map_err(|error| Failure::file(path.display(), error))
    }

    /// One engine in one run: all steps over one store, which is removed before and after.
    fn steps(
        &self,
        contender: &dyn Contender,
        scaled: &Scaled,
        limited: bool,
    ) -> Result<Vec<StepResult>, Failure> {
        let scaled = &if contender.survives_a_kill() {
            scaled.clone()
        } else {
            scaled.clone().without_kill()
        };
        let store = self.dir.join("store");
        remove_store(&store)?;
        let mut steps = Vec::new();
        for step in 0..scaled.steps.len() {
            let result = self.step(contender.name(), scaled, step, limited)?;
            let failed = result.failure.is_some();
            steps.push(result);
            if failed {
                break;
            }
        }
        remove_store(&store)?;
        Ok(steps)
    }

    fn step(
        &self,
        engine: &str,
        scaled: &Scaled,
        step: usize,
        limited: bool,
    ) -> Result<StepResult, Failure> {
        let (file, reported) = (self.dir.join("job.json"), self.dir.join("reported.jsonl"));
        let job = Job {
            engine: engine.to_owned(),
            scaled: scaled.clone(),
            step,
            dir: self.dir.join("store"),
            out: reported.clone(),
        };
        fs::write(&file, serde_json::to_vec(&job).map_err(io::Error::from)?)?;
        fs::write(&reported, "")?;
        let program = std::env::current_exe()?;
        let mut command = match (&self.limiter, scaled.limit_bytes) {
            (Some(limiter), Some(bytes)) if limited => {
                let mut command = Command::new(limiter);
                command.arg(bytes.to_string()).arg(program);
                command
            }
            _ => Command::new(program),
        };
        let status = self.wait(command.arg("child").arg(&file))?;
        let mut result = child::result(&reported)?;
        let Some(status) = status else {
            let longest = humantime::format_duration(self.longest_step);
            let done = result.phases.len();
            result.failure = Some(format!("ended after {longest}, {done} phases being done"));
            return Ok(result);
        };
        let dies = is_killed(&scaled.steps[step]);
        // A shell between reports a signal by the status.
        let killed = status.signal() == Some(KILLED) || status.code() == Some(128 + KILLED);
        let asked = scaled.steps[step].split(',').count() - usize::from(dies);
        // One that was to die may have been killed before, for want of memory.
        let is_done = result.phases.len() == asked && (status.success() || dies && killed);
        if result.failure.is_none() && !is_done {
            let done = result.phases.len();
            let what = format!("the process ended with {status} after {done} of {asked} phases");
            result.failure = Some(what);
        }
        Ok(result)
    }

    /// Runs `command` to its end; `None`: it was ended, as it took too long.
    fn wait(&self, command: &mut Command) -> Result<Option<ExitStatus>, Failure> {
        // A limiter and the engine are one group, and end together.
        let mut child = command.process_group(0).spawn()?;
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let (done, is_done) = mpsc::channel();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(move || {
                let status = child.wait();
                // Whoever waits for it may have given up.
                let _ = done.send(());
                status
            });
            let in_time = is_done.recv_timeout(self.longest_step).is_ok();
            if let (false, Some(group)) = (in_time, group) {
                // It may have ended just now.
                let _ = kill_process_group(group, Signal::KILL);
            }
            let status = waiter.join().unwrap_or_else(|panic| resume_unwind(panic))?;
            Ok(in_time.then_some(status))
        })
    }
}

/// Experiments on options of UniKV are for UniKV alone.
fn taking_part<'a>(
    run: &Run,
    contenders: &'a [&'a dyn Contender],
) -> impl Iterator<Item = &'a &'a dyn Contender> {
    let ours_only = run.tuning != Tuning::default();
    let mut all = contenders.iter();
    std::iter::from_fn(move || all.find(|one| !ours_only || one.name() == UNIKV.name))
}

/// Whether the figures are what they are meant to be.
pub fn limit_in_words(limited: bool) -> &'static str {
    if limited {
        "memory: each run in a cgroup of its own, page cache included"
    } else {
        "memory: NOT limited; the page cache of the whole machine helps, and no figure is cold"
    }
}

fn print(result: &RunResult, out: &mut impl Write) -> io::Result<()> {
    let name = format!("{} {}", result.engine, result.run);
    write!(out, "  {name:<28}")?;
    for phase in result.phases().iter().filter(|phase| phase.operations > 0) {
        let rate = HumanCount(phase.operations_per_second as u64);
        write!(out, " {} {rate}/s", phase.name())?;
    }
    match result.failure() {
        Some(failure) => writeln!(out, "  FAILED: {failure}"),
        None => writeln!(out),
    }
}
