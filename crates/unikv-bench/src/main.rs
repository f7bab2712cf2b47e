//! The suite with the engines that need nothing but this workspace.

use std::process::ExitCode;
use unikv_bench::suite::{command, contender};

fn main() -> ExitCode {
    command::main(&contender::own())
}
