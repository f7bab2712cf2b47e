//! `options`: what a database has stored of its options, and changing it.

use crate::args::{DirArg, EngineArgs};
use crate::commands::stats::{options_to_json, print_options};
use crate::exit::{Code, Outcome};
use crate::opening;
use crate::output::Output;
use clap::Args;

/// `options DIR`
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    dir: DirArg,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    engine: EngineArgs,
}

impl Options {
    pub fn run(self) -> Outcome {
        let db = opening::open_existing(&self.dir.dir, self.engine.options()?)?;
        let options = db.options();
        db.close()?;
        self.output.print(
            || options_to_json(&options),
            |out| print_options(&options, out),
        )?;
        Ok(Code::Success)
    }
}
