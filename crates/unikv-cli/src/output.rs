//! What commands print: one place for it, so that `--json` means the same everywhere.
//!
//! A result goes to standard output: text for a person, or one JSON object on a line. Where there
//! are many results (records, changes, parts of a file), each is a line. An error goes to standard
//! error, in the same form. `docs/operations.md`, "For programs", says what is promised.

use crate::exit::Failed;
use clap::{ArgMatches, Args};
use serde_json::{Map, Value};
use std::ffi::OsString;
use std::io::{self, Write};

/// `--json`
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct Output {
    /// Print results, and an error, as JSON objects, one on each line
    #[arg(long)]
    pub json: bool,
}

impl Output {
    /// Prints a result on standard output, in one form or the other.
    pub fn print(
        self,
        as_json: impl FnOnce() -> Value,
        as_text: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        self.print_to(&mut io::stdout().lock(), as_json, as_text)
    }

    /// The same where standard output is locked already.
    pub fn print_to(
        self,
        out: &mut dyn Write,
        as_json: impl FnOnce() -> Value,
        as_text: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        if self.json {
            writeln!(out, "{}", as_json())?
        } else {
            as_text(out)?
        }
        out.flush()
    }

    /// Prints a result for which a person needs no words: the exit status says it.
    pub fn print_json(self, as_json: impl FnOnce() -> Value) -> io::Result<()> {
        self.print(as_json, |_| Ok(()))
    }
}

/// The fields of one object, and those of another.
pub fn joined(mut one: Value, other: Value) -> Value {
    let mut fields = Map::new();
    for value in [&mut one].into_iter().chain(&mut [other]) {
        if let Value::Object(more) = value.take() {
            fields.extend(more);
        }
    }
    Value::Object(fields)
}

/// Whether the command line asks for JSON.
pub fn wants_json(matches: &ArgMatches) -> bool {
    match matches.subcommand() {
        Some((_, below)) => wants_json(below),
        None => matches!(matches.try_get_one("json"), Ok(Some(true))),
    }
}

/// The same of a command line that is wrong.
pub fn asks_for_json(mut arguments: impl Iterator<Item = OsString>) -> bool {
    arguments.any(|argument| argument == "--json")
}

/// Prints an error on standard error.
pub fn print_failure(failed: &Failed, json: bool) {
    let mut out = io::stderr().lock();
    // Nothing is left to write to when standard error is gone, too.
    let _gone = if json {
        writeln!(out, "{}", failed.to_json())
    } else {
        writeln!(out, "unikv: {failed}")
    };
}
