//! The command line of the suite, for any set of contenders.

use super::contender::Contender;
use super::drive::Suite;
use super::expand::Scaled;
use super::experiments::{self, Experiment};
use super::floor::{self, Times};
use super::results::Results;
use super::{child, html};
use crate::failure::Failure;
use crate::workload::quantity;
use clap::{Parser, Subcommand};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Measures key-value stores beside each other and verifies every value that they return.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Lists experiments and engines
    List,
    /// Runs experiments and writes results.json and report.html
    Run(Run),
    /// Says how few reads of the device an experiment can do with, and so how fast any engine can
    /// be
    Floor(Floor),
    /// Writes report.html from files of results
    Report {
        /// Files of results
        #[arg(required = true)]
        results: Vec<PathBuf>,
        /// The page
        #[arg(long, value_name = "FILE", default_value = "report.html")]
        out: PathBuf,
        /// Also draw one picture for each experiment, into this directory
        #[arg(long, value_name = "DIR")]
        pictures: Option<PathBuf>,
    },
    /// Does one step of a run
    #[command(hide = true)]
    Child {
        /// What to do
        job: PathBuf,
    },
}

#[derive(clap::Args)]
struct Run {
    /// The share of the papers' sizes: 1 is 100 million records, 0.06 takes 6 GB, 0.0001 minutes
    #[arg(long, value_name = "FACTOR", default_value_t = 0.0001)]
    scale: f64,
    /// Experiments by name, separated by commas; all unless given
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    experiments: Vec<String>,
    /// Only runs of the experiments with these labels, separated by commas; all unless given
    #[arg(long, value_name = "LABELS", value_delimiter = ',')]
    runs: Vec<String>,
    /// Engines by name, separated by commas; all unless given
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    engines: Vec<String>,
    /// Where stores are made and removed again
    #[arg(long, value_name = "DIR", default_value = "target/suite")]
    dir: PathBuf,
    /// Where results go; in DIR/results unless given
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// End phases of operations after this time; a load that takes five times as long fails its run
    #[arg(long, value_name = "TIME", value_parser = quantity::duration)]
    longest_phase: Option<Duration>,
    /// End a process of the run after this time; the engine is named as one that hangs
    #[arg(long, value_name = "TIME", value_parser = quantity::duration, default_value = "4h")]
    longest_step: Duration,
    /// Repetitions; the report shows the median
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    rounds: u32,
    /// Seed of the random choices
    #[arg(long, value_name = "NUMBER", default_value_t = 42)]
    seed: u64,
    /// Leave out what may take more on disk
    #[arg(long, value_name = "SIZE", value_parser = quantity::size, default_value = "40GiB")]
    most_disk: u64,
    /// The program that limits memory, called as LIMITER BYTES COMMAND
    #[arg(long, value_name = "FILE")]
    limiter: Option<PathBuf>,
    /// The commit that is measured, for the report
    #[arg(long, value_name = "NAME")]
    commit: Option<String>,
}

#[derive(clap::Args)]
struct Floor {
    /// The share of the papers' sizes, as in `run`
    #[arg(long, value_name = "FACTOR", default_value_t = 0.0001)]
    scale: f64,
    /// The experiment; its runs with several threads are left out
    #[arg(long, value_name = "NAME", default_value = "rows")]
    experiment: String,
    /// Seed of the random choices, as in `run`
    #[arg(long, value_name = "NUMBER", default_value_t = 42)]
    seed: u64,
    /// Memory for records; as much as a run is limited to unless given
    #[arg(long, value_name = "SIZE", value_parser = quantity::size)]
    memory: Option<u64>,
    /// What a read of the device takes
    #[arg(long, value_name = "MICROSECONDS")]
    read_us: f64,
    /// What an operation takes of the processor, in the second column of rates
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 1.0)]
    cpu_us: f64,
}

/// Reads the command line, does it over `contenders`, and gives the status of the process.
pub fn main(contenders: &[Box<dyn Contender>]) -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::List => list(contenders),
        Command::Run(run) => run.run(contenders),
        Command::Floor(floor) => floor.run(),
        Command::Report {
            results,
            out,
            pictures,
        } => report(&results, &out, pictures.as_deref()),
        Command::Child { job } => child::run(contenders, &job),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Io(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(failure) => {
            // Nothing is left to write to when standard error is gone, too.
            let _ = writeln!(io::stderr(), "{failure}");
            ExitCode::FAILURE
        }
    }
}

fn list(contenders: &[Box<dyn Contender>]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    writeln!(out, "experiments:")?;
    for experiment in experiments::all() {
        let Experiment {
            name,
            title,
            source,
            ..
        } = experiment;
        writeln!(out, "  {name:<16}{title} ({source})")?;
    }
    writeln!(out, "engines:")?;
    for contender in contenders {
        writeln!(out, "  {:<16}{}", contender.name(), contender.version())?;
    }
    Ok(())
}

impl Run {
    fn run(self, contenders: &[Box<dyn Contender>]) -> Result<(), Failure> {
        check_scale(self.scale)?;
        let chosen = of_runs(experiments_of(&self.experiments)?, &self.runs)?;
        let names: Vec<_> = contenders
            .iter()
            .map(|contender| contender.name())
            .collect();
        let taking_part = choose("engine", &names, &self.engines)?.into_iter();
        let taking_part: Vec<_> = taking_part.map(|place| &*contenders[place]).collect();
        let suite = Suite {
            out: self.out.unwrap_or_else(|| self.dir.join("results")),
            dir: self.dir,
            scale: self.scale,
            seed: self.seed,
            longest_phase: self.longest_phase,
            rounds: self.rounds.max(1),
            most_disk_bytes: self.most_disk,
            limiter: self.limiter,
            commit: self.commit,
            longest_step: self.longest_step,
        };
        let mut out = io::stdout().lock();
        let results = suite.run(&chosen, &taking_part, &mut out)?;
        let page = suite.out.join("report.html");
        write_page(&results, &page)?;
        writeln!(out, "\n{}", page.display())?;
        let failed = results.runs.iter().filter(|run| run.failure().is_some());
        match failed.count() {
            0 => Ok(()),
            n => Err(Failure::verification(format!(
                "{n} runs failed; the report names them"
            ))),
        }
    }
}

impl Floor {
    fn run(self) -> Result<(), Failure> {
        check_scale(self.scale)?;
        let mut out = io::stdout().lock();
        let times = Times {
            read_us: self.read_us,
            cpu_us: self.cpu_us,
        };
        let chosen = experiments_of(&[self.experiment])?.into_iter();
        for run in chosen.flat_map(|experiment| experiment.runs) {
            // The order of what several do is another one each time.
            if run.threads > 1 {
                continue;
            }
            let scaled = Scaled::new(&run, self.scale, self.seed)?;
            let unlimited = || Failure::invalid("memory is not limited; --memory says how much");
            let memory = self.memory.or(scaled.limit_bytes).ok_or_else(unlimited)?;
            let floor = floor::Floor::new(&scaled, memory)?;
            write!(out, "{}: ", run.label)?;
            floor.print(&times, &mut out)?;
        }
        Ok(())
    }
}

fn check_scale(scale: f64) -> Result<(), Failure> {
    if scale > 0.0 && scale <= 10.0 {
        Ok(())
    } else {
        Err(Failure::invalid("--scale: above 0, at most 10"))
    }
}

/// The experiments of these `names`, or all.
fn experiments_of(names: &[String]) -> Result<Vec<Experiment>, Failure> {
    let all = experiments::all();
    let known: Vec<_> = all.iter().map(|experiment| experiment.name).collect();
    let chosen = choose("experiment", &known, names)?.into_iter();
    Ok(chosen.map(|place| all[place].clone()).collect())
}

/// The places of those `asked` for among `names`; all if none is asked for.
fn choose(what: &str, names: &[&str], asked: &[String]) -> Result<Vec<usize>, Failure> {
    if asked.is_empty() {
        return Ok((0..names.len()).collect());
    }
    let place = |wanted: &String| {
        let place = names.iter().position(|name| name == wanted);
        let known = || format!("no {what} {wanted}; there are {}", names.join(", "));
        place.ok_or_else(|| Failure::invalid(known()))
    };
    asked.iter().map(place).collect()
}

/// `chosen` with those of its runs alone that are `asked` for; with all of them if none is.
fn of_runs(mut chosen: Vec<Experiment>, asked: &[String]) -> Result<Vec<Experiment>, Failure> {
    let labels = chosen.iter().flat_map(|it| &it.runs);
    let labels: Vec<_> = labels.map(|run| run.label.as_str()).collect();
    choose("run", &labels, asked)?;
    if !asked.is_empty() {
        for experiment in &mut chosen {
            experiment.runs.retain(|run| asked.contains(&run.label));
        }
        chosen.retain(|experiment| !experiment.runs.is_empty());
    }
    Ok(chosen)
}

fn report(files: &[PathBuf], out: &Path, pictures: Option<&Path>) -> Result<(), Failure> {
    let mut whole: Option<Results> = None;
    for path in files {
        let named = |error| Failure::file(path.display(), error);
        let text = fs::read_to_string(path).map_err(named)?;
        let more: Results = serde_json::from_str(&text).map_err(|error| named(error.into()))?;
        whole = Some(match whole.take() {
            None => more,
            Some(mut whole) => {
                whole.limited &= more.limited;
                whole.runs.extend(more.runs);
                whole.skipped.extend(more.skipped);
                whole
            }
        });
    }
    let Some(whole) = whole else {
        return Ok(());
    };
    pictures.map_or(Ok(()), |dir| html::write_pictures(&whole, dir))?;
    write_page(&whole, out)
}

fn write_page(results: &Results, path: &Path) -> Result<(), Failure> {
    let page = html::page(results)?;
    fs::write(path, page).map_err(|error| Failure::file(path.display(), error))
}
