//! What operations cost: checkpoints and backups beside a writer, a secondary in another process,
//! the change feed, and the engine's instruments.
//!
//! Each experiment makes a database of its own with the default options and reads what it compares:
//! a wrong value ends the program. Where two settings are compared they take turns, and the median
//! of the paired ratios is given.

mod copies;
mod feed;
mod instruments;
mod records;
mod secondary;
mod turns;

use clap::{Parser, ValueEnum};
use records::{Figures, Outcome};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use unikv_bench::Failure;
use unikv_bench::measure::machine::Machine;
use unikv_bench::run::remove_store;

/// What checkpoints, backups, secondaries, the change feed and instruments cost.
#[derive(Parser)]
struct Args {
    /// A directory for the databases, which are removed afterwards
    dir: PathBuf,
    /// Which experiments; by default all
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Experiment>,
    /// Records of 1,000 bytes in the database that is copied
    #[arg(long, default_value_t = 6_000_000)]
    records: u64,
    /// Seconds that each measurement lasts
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Rounds in which settings take turns
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Follow the database in the directory instead, as the other process of an experiment
    #[arg(long, hide = true)]
    follow: bool,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Experiment {
    Copies,
    Secondary,
    Feed,
    Instruments,
}

impl Experiment {
    fn run(self, dir: &Path, args: &Args) -> Outcome<Figures> {
        match self {
            Experiment::Copies => copies::run(dir, args.records, args.seconds),
            Experiment::Secondary => secondary::run(dir, args.seconds, args.rounds),
            Experiment::Feed => feed::run(dir, args.seconds, args.rounds),
            Experiment::Instruments => instruments::run(dir, args.seconds, args.rounds),
        }
    }
}

fn run_all(args: &Args) -> Outcome<()> {
    if args.follow {
        return secondary::follow(&args.dir);
    }
    std::fs::create_dir_all(&args.dir).map_err(Failure::Io)?;
    println!("{:?}", Machine::inspect(&args.dir));
    for &experiment in match args.only.as_slice() {
        [] => Experiment::value_variants(),
        some => some,
    } {
        let dir = args.dir.join("operations");
        remove_store(&dir)?;
        std::fs::create_dir(&dir).map_err(Failure::Io)?;
        println!("\n| what | figure |\n|---|---|");
        for (what, figure) in experiment.run(&dir, args)? {
            println!("| {what} | {figure} |");
        }
        remove_store(&dir)?;
    }
    Ok(())
}

fn main() -> ExitCode {
    match run_all(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}
