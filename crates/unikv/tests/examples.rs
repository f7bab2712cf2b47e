//! The programs of `examples/`, run beside each other as a newcomer runs them, each twice in a
//! directory of its own: what it has left must not be in its way.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

/// As many as a newcomer is promised, and the one that shows most calls in one.
const PROGRAMS: usize = 21;

/// The sources of all programs.
fn sources() -> Vec<PathBuf> {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
    let files = fs::read_dir(dir).unwrap();
    files.map(|file| file.unwrap().path()).collect()
}

/// The program of a source: cargo builds them before the tests, beside their directory.
fn program(source: &Path) -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let profile = own.ancestors().nth(2).unwrap();
    let name = source.file_stem().unwrap();
    profile.join("examples").join(name)
}

fn run_twice(source: &Path) {
    let (program, scratch) = (program(source), tempfile::tempdir().unwrap());
    for time in ["first", "second"] {
        let run = Command::new(&program).current_dir(scratch.path()).output();
        let run = run.unwrap_or_else(|e| {
            panic!(
                "{}: {e}; build it with `cargo build --examples`",
                program.display()
            )
        });
        let said = String::from_utf8_lossy(&run.stderr);
        assert!(
            run.status.success(),
            "{} the {time} time: {said}",
            source.display()
        );
    }
}

#[test]
fn every_example_runs_twice() {
    let sources = sources();
    assert_eq!(sources.len(), PROGRAMS);
    thread::scope(|threads| {
        for source in &sources {
            threads.spawn(|| run_twice(source));
        }
    });
}

#[test]
fn every_example_is_short() {
    let short = sources().into_iter();
    for source in short.filter(|source| !source.ends_with("quickstart.rs")) {
        let lines = fs::read_to_string(&source).unwrap().lines().count();
        assert!(lines < 40, "{} has {lines} lines", source.display());
    }
}
