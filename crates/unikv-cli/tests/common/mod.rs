//! Running the command, for the tests of several files.

#![allow(dead_code, reason = "each file of tests uses some of it")]

use assert_cmd::Command;
use serde_json::Value;
use std::path::Path;

/// The command with these arguments, without colours.
pub fn unikv(arguments: &[&str]) -> Command {
    let mut command = Command::cargo_bin("unikv").unwrap();
    command.args(arguments).env("NO_COLOR", "1");
    command
}

/// What it prints, having succeeded.
pub fn text(arguments: &[&str]) -> String {
    let done = unikv(arguments).assert().success();
    String::from_utf8(done.get_output().stdout.clone()).unwrap()
}

/// What it prints with `--json`.
pub fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&text(&[arguments, &["--json"]].concat())).unwrap()
}

/// A path in a directory, as text.
pub fn within(dir: &Path, name: &str) -> String {
    dir.join(name).to_str().unwrap().to_owned()
}
