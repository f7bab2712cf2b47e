//! How long one call makes others wait: a second client puts on a fixed timetable beside each
//! scenario, and its latencies count from when a put was due. Each figure is the median of the
//! rounds, beside the bound that is asked for.
//!
//! Each round makes databases of its own and reads back what it wrote: a wrong value ends the
//! program.

mod batches;
mod deletes;
mod figures;
mod keyspaces;
mod partitions;
mod scan;
mod secondaries;
mod small;
mod timetable;
mod transactions;

use clap::{Parser, ValueEnum};
use figures::{Figures, Outcome};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use unikv_bench::measure::machine::Machine;
use unikv_bench::run::remove_store;

/// How long one call makes others wait.
#[derive(Parser)]
struct Args {
    /// A directory for the databases, which are removed afterwards
    dir: PathBuf,
    /// Which scenarios; by default all
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Scenario>,
    /// Rounds, of which the medians are given
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Puts a second of the client beside a scenario
    #[arg(long, default_value_t = 1_000)]
    rate: u64,
    #[command(flatten)]
    batches: batches::Sizes,
    #[command(flatten)]
    deletes: deletes::Sizes,
    #[command(flatten)]
    transactions: transactions::Sizes,
    #[command(flatten)]
    keyspaces: keyspaces::Sizes,
    #[command(flatten)]
    partitions: partitions::Sizes,
    #[command(flatten)]
    secondaries: secondaries::Sizes,
    /// Write a batch of this many puts into the database in the directory instead, as the other
    /// process of a scenario
    #[arg(long, hide = true)]
    write_and_wait: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Scenario {
    Batches,
    Scan,
    Deletes,
    Transactions,
    Keyspaces,
    Churn,
    Zstd,
    Partitions,
    Secondaries,
}

impl Scenario {
    fn round(self, dir: &Path, args: &Args) -> Outcome<Figures> {
        let rate = args.rate;
        match self {
            Scenario::Batches => batches::round(dir, rate, &args.batches),
            Scenario::Scan => scan::round(dir, rate),
            Scenario::Deletes => deletes::round(dir, &args.deletes),
            Scenario::Transactions => transactions::round(dir, &args.transactions),
            Scenario::Keyspaces => keyspaces::round(dir, &args.keyspaces),
            Scenario::Churn => keyspaces::churn(dir, &args.keyspaces),
            Scenario::Zstd => keyspaces::zstd(dir, &args.keyspaces),
            Scenario::Partitions => partitions::round(dir, rate, &args.partitions),
            Scenario::Secondaries => secondaries::round(dir, rate, &args.secondaries),
        }
    }
}

fn run_all(args: &Args) -> Outcome<()> {
    if let Some(count) = args.write_and_wait {
        return batches::write_and_wait(&args.dir, count);
    }
    std::fs::create_dir_all(&args.dir)?;
    println!("{:?}", Machine::inspect(&args.dir));
    for &scenario in match args.only.as_slice() {
        [] => Scenario::value_variants(),
        some => some,
    } {
        let dir = args.dir.join("waits");
        let mut rounds = Vec::new();
        for _ in 0..args.rounds {
            remove_store(&dir)?;
            std::fs::create_dir(&dir)?;
            rounds.push(scenario.round(&dir, args)?);
        }
        remove_store(&dir)?;
        println!("\n| what | figure | asked |\n|---|---|---|");
        for [what, figure, asked] in Figures::medians(&rounds) {
            println!("| {what} | {figure} | {asked} |");
        }
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
