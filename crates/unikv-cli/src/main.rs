//! The `unikv` command: reads, writes, loads, dumps, checks and benchmarks UniKV databases.
//!
//! It stands on the public API of the engine alone. Each subcommand is one module; all of them
//! return an [`exit::Code`] or an [`exit::Failure`], and only `main` turns these into a status.

// The figures of a database are one JSON object of many fields.
#![recursion_limit = "256"]

mod args;
mod commands;
mod crash;
mod exit;
mod lines;
mod opening;
mod output;
mod range;
mod reading;
mod text;
mod torture;
mod ycsb;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use exit::{Failure, Outcome};
use std::process::ExitCode;

/// An embedded, ordered, persistent key-value store.
#[derive(Parser)]
#[command(name = "unikv", version, after_help = exit::HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Stores one record
    Put(commands::point::Put),
    /// Prints the value of one key; exits with 1 if there is none
    Get(commands::point::Get),
    /// Deletes one key; a key that is not there is no error
    Del(commands::point::Del),
    /// Deletes a range of keys in one write, however many they are
    DeleteRange(commands::delete_range::DeleteRange),
    /// Prints how long a record lives; exits with 1 if there is none
    Ttl(commands::expiry::Ttl),
    /// Has a record expire after a time; exits with 1 if there is none
    Expire(commands::expiry::Expire),
    /// Has a record never expire; exits with 1 if there is none
    ClearTtl(commands::expiry::ClearTtl),
    /// Prints records in the order of their keys
    Scan(commands::scan::Scan),
    /// Stores records from a file or from standard input
    Load(commands::load::Load),
    /// Prints every keyspace and record in a form that `load` reads back
    Dump(commands::dump::Dump),
    /// Writes the records of a range to one verified file, for `import`
    Export(commands::export::Export),
    /// Stores what is in a file that `export` made, all at once, or verifies the file
    Import(commands::export::Import),
    /// Stores sorted records from a file or from standard input, all at once
    Ingest(commands::ingest::Ingest),
    /// Prints what has changed, as long as the database keeps it (--change-window-bytes)
    Changes(commands::changes::Changes),
    /// Prints the options that a database has stored, or sets and unsets them
    Options(commands::options::Options),
    /// Prints sizes and counters of a database
    Stats(commands::stats::Stats),
    /// Lists what the background has to do, in order and with the reasons; changes nothing
    Explain(commands::explain::Explain),
    /// Shows what a database that another process has open is doing, live
    Top(commands::top::Top),
    /// Reads commands from a terminal or a script: get, put, delete, scan, stats, keyspaces
    Shell(commands::shell::Shell),
    /// Prints a script that completes this command in a shell
    Completions(commands::completions::Completions),
    /// Lists, makes, renames, empties and drops keyspaces
    Keyspace(commands::keyspace::Keyspaces),
    /// Merges what is waiting to be merged, and drops what is overwritten or deleted there
    Compact(commands::compact::Compact),
    /// Collects garbage now, or says what would be collected and why
    Gc(commands::gc::Gc),
    /// Prints what stands in one file of a database
    Inspect(commands::inspect::Inspect),
    /// Verifies every checksum, pointer, order and count of a closed database
    Check(commands::check::Check),
    /// Salvages a damaged database into a new directory and says what is lost; exits with 12 if
    /// anything is
    Repair(commands::repair::Repair),
    /// Makes a database of its own that is what this one is now
    Checkpoint(commands::checkpoint::Checkpoint),
    /// Makes, lists, verifies, prunes and restores backups
    Backup(commands::backup::Backup),
    /// Runs YCSB workloads against a database and verifies every value read
    Ycsb(ycsb::Ycsb),
    /// Runs a mixed load for minutes to hours and judges every value read
    Torture(torture::Torture),
    /// Writes records and notes each acknowledgement until it is killed (for the kill test)
    #[command(hide = true)]
    CrashWriter(crash::Writer),
    /// Checks that no record acknowledged to `crash-writer` is lost
    #[command(hide = true)]
    CrashVerify(crash::Verify),
}

fn main() -> ExitCode {
    let cli = Cli::command().try_get_matches().and_then(|matches| {
        let json = output::wants_json(&matches);
        Ok((Cli::from_arg_matches(&matches)?.command, json))
    });
    match cli {
        Ok((command, json)) => exit::status(command.run(), json),
        Err(error) if error.use_stderr() && output::asks_for_json(std::env::args_os()) => {
            exit::status(Err(Failure::from(&error)), true)
        }
        Err(error) => error.exit(),
    }
}

impl Command {
    fn run(self) -> Outcome {
        match self {
            Command::Put(command) => command.run(),
            Command::Get(command) => command.run(),
            Command::Del(command) => command.run(),
            Command::DeleteRange(command) => command.run(),
            Command::Ttl(command) => command.run(),
            Command::Expire(command) => command.run(),
            Command::ClearTtl(command) => command.run(),
            Command::Scan(command) => command.run(),
            Command::Load(command) => command.run(),
            Command::Dump(command) => command.run(),
            Command::Export(command) => command.run(),
            Command::Import(command) => command.run(),
            Command::Ingest(command) => command.run(),
            Command::Changes(command) => command.run(),
            Command::Options(command) => command.run(),
            Command::Stats(command) => command.run(),
            Command::Explain(command) => command.run(),
            Command::Top(command) => command.run(),
            Command::Shell(command) => command.run(),
            Command::Completions(command) => command.run(Cli::command()),
            Command::Keyspace(command) => command.run(),
            Command::Compact(command) => command.run(),
            Command::Gc(command) => command.run(),
            Command::Inspect(command) => command.run(),
            Command::Check(command) => command.run(),
            Command::Repair(command) => command.run(),
            Command::Checkpoint(command) => command.run(),
            Command::Backup(command) => command.run(),
            Command::Ycsb(command) => command.run(),
            Command::Torture(command) => command.run(),
            Command::CrashWriter(command) => command.run(),
            Command::CrashVerify(command) => command.run(),
        }
    }
}
