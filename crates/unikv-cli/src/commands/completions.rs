//! `completions`: what a shell needs to complete the command.

use crate::exit::{Code, Outcome};
use clap::Args;
use clap_complete::Shell;
use std::io::{self, Write};

/// `completions SHELL`
#[derive(Args)]
pub struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    /// Prints the script for `command`.
    pub fn run(self, mut command: clap::Command) -> Outcome {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, "unikv", &mut script);
        io::stdout().lock().write_all(&script)?;
        Ok(Code::Success)
    }
}
