//! Running the command, for the tests of several files.

#![allow(dead_code, reason = "each file of tests uses some of it")]

use assert_cmd::Command;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::thread;
use std::time::{Duration, Instant};

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

/// A shell that has a database open until its input ends.
pub struct Writer {
    pub child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Writer {
    pub fn of(db: &str) -> Writer {
        let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin("unikv"))
            .args(["shell", db, "--create"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        Writer {
            child,
            input,
            output,
        }
    }

    pub fn say(&mut self, line: &str) {
        writeln!(self.input.as_ref().unwrap(), "{line}").unwrap();
    }

    /// What it prints as an answer of one line. All lines before have been obeyed then.
    pub fn ask(&mut self, line: &str) -> String {
        self.say(line);
        let mut answer = String::new();
        self.output.read_line(&mut answer).unwrap();
        answer.trim_end().to_owned()
    }

    /// Waits until it has published its figures.
    pub fn await_figures(&mut self, db: &str) {
        let begin = Instant::now();
        while !Path::new(db).join("STATS").exists() {
            assert!(
                self.child.try_wait().unwrap().is_none(),
                "the shell has ended"
            );
            assert!(begin.elapsed() < Duration::from_secs(300), "no figures");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends its input, so that it closes the database.
    pub fn end(&mut self) {
        drop(self.input.take());
        assert!(self.child.wait().unwrap().success());
    }

    /// Kills it with a signal that it cannot catch.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}
