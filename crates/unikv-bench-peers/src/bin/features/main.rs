//! What features cost, beside RocksDB and fjall in one run: range deletes, point deletes, queues,
//! many keyspaces, transactions, compression.
//!
//! Each experiment runs for one engine after the other, in a new directory each, and reads what it
//! has written: a wrong value ends the program. An engine that lacks a feature has no figure.
//! Memory is shared out as in the suite. Nothing is synced, nor compressed but where that is
//! measured.

mod compression;
mod deletes;
mod keyspaces;
mod store;
mod stores;
mod transactions;

use clap::{Parser, ValueEnum};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use store::{Figures, Outcome, Scale, Store};
use stores::{Fjall, RocksDb, UniKv};
use unikv_bench::Failure;
use unikv_bench::measure::machine::Machine;
use unikv_bench::run::remove_store;

/// What features cost, beside RocksDB and fjall.
#[derive(Parser)]
struct Args {
    /// A directory for the databases, which are removed afterwards
    dir: PathBuf,
    /// Which experiments; by default all
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Experiment>,
    /// Records of 100 bytes
    #[arg(long, default_value_t = 2_000_000)]
    records: u64,
    /// Megabytes of memory for each engine
    #[arg(long, default_value_t = 512)]
    memory_mb: u64,
    /// Seconds in which nobody writes, after the deletes
    #[arg(long, default_value_t = 60)]
    idle_seconds: u64,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Experiment {
    RangeDeletes,
    PointDeletes,
    Queue,
    Keyspaces,
    Transactions,
    OneKey,
    Compression,
}

impl Experiment {
    fn run<S: Store>(self, dir: &Path, scale: &Scale) -> Outcome<Figures> {
        match self {
            Experiment::RangeDeletes => deletes::ranges::<S>(dir, scale),
            Experiment::PointDeletes => deletes::points::<S>(dir, scale),
            Experiment::Queue => deletes::queue::<S>(dir, scale),
            Experiment::Keyspaces => keyspaces::in_turns::<S>(dir, scale),
            Experiment::Transactions => transactions::conflicts::<S>(dir, scale),
            Experiment::OneKey => transactions::one_key::<S>(dir, scale),
            Experiment::Compression => compression::zstd::<S>(dir, scale),
        }
    }
}

/// Runs an experiment in a directory of its own.
fn run<S: Store>(experiment: Experiment, args: &Args, scale: &Scale) -> Outcome<Figures> {
    let dir = args.dir.join(S::NAME);
    remove_store(&dir)?;
    let figures = experiment.run::<S>(&dir, scale);
    remove_store(&dir)?;
    figures
}

fn print_table(columns: &[(&str, Figures)]) {
    let mut rows: Vec<&str> = Vec::new();
    for (what, _) in columns.iter().flat_map(|(_, figures)| figures) {
        if !rows.contains(&what.as_str()) {
            rows.push(what);
        }
    }
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    println!("\n| what | {} |", names.join(" | "));
    println!("|---|{}", "---|".repeat(columns.len()));
    for row in rows {
        let figure = |figures: &Figures| {
            let found = figures.iter().find(|(what, _)| what == row);
            found.map_or("–".to_owned(), |(_, figure)| figure.clone())
        };
        let all: Vec<String> = columns.iter().map(|(_, f)| figure(f)).collect();
        println!("| {row} | {} |", all.join(" | "));
    }
}

fn run_all(args: &Args) -> Outcome<()> {
    std::fs::create_dir_all(&args.dir).map_err(Failure::Io)?;
    let scale = Scale {
        records: args.records,
        memory_bytes: args.memory_mb << 20,
        idle_seconds: args.idle_seconds,
    };
    println!("{:?}", Machine::inspect(&args.dir));
    println!(
        "{} records, {} MB of memory; {}, {}, {}",
        args.records,
        args.memory_mb,
        UniKv::VERSION,
        RocksDb::VERSION,
        Fjall::VERSION
    );
    for &experiment in match args.only.as_slice() {
        [] => Experiment::value_variants(),
        some => some,
    } {
        let columns = [
            (UniKv::NAME, run::<UniKv>(experiment, args, &scale)?),
            (RocksDb::NAME, run::<RocksDb>(experiment, args, &scale)?),
            (Fjall::NAME, run::<Fjall>(experiment, args, &scale)?),
        ];
        print_table(&columns);
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
