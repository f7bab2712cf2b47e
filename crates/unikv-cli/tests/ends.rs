//! How commands end whose terminal, disk or patience has gone.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use common::{Writer, text, unikv, within};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

fn program() -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("unikv"));
    command.env("NO_COLOR", "1");
    command
}

/// A database of 30,000 records.
fn make(dir: &Path) -> String {
    let (db, lines) = (within(dir, "db"), within(dir, "lines.tsv"));
    let line = |n: u32| format!("key{n:06}\t{}\n", "value".repeat(20));
    fs::write(&lines, (0..30_000).map(line).collect::<String>()).unwrap();
    text(&["load", &db, &lines]);
    db
}

/// Waits for a process, which would else run for ever.
fn ended(child: &mut Child) -> ExitStatus {
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if begin.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            return child.wait().unwrap();
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// A `top` that has drawn something, the end of the terminal that a person would look at, and the
/// other end.
fn top_of(db: &str) -> (Child, File, File) {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let open = || {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        options.open(name.to_str().unwrap()).unwrap()
    };
    let top = program()
        .args(["top", db])
        .stdin(open())
        .stdout(open())
        .stderr(open())
        .spawn()
        .unwrap();
    let mut terminal = File::from(terminal);
    assert!(terminal.read(&mut [0; 64]).unwrap() > 0);
    (top, terminal, open())
}

/// A writer whose database has figures for `top`.
fn writer(db: &str) -> Writer {
    let mut writer = Writer::of(db);
    writer.say("put key value");
    writer.await_figures(db);
    writer
}

#[test]
fn top_ends_when_its_terminal_goes() {
    let dir = tempfile::tempdir().unwrap();
    let db = within(dir.path(), "db");
    let _writer = writer(&db);
    let (mut top, terminal, other) = top_of(&db);
    drop((terminal, other));
    assert_eq!(ended(&mut top).code(), Some(5));
}

#[test]
fn a_signal_that_ends_top_leaves_the_terminal_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let db = within(dir.path(), "db");
    let _writer = writer(&db);
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let (mut top, mut terminal, other) = top_of(&db);
        let is_raw = || {
            !tcgetattr(&other)
                .unwrap()
                .local_modes
                .contains(LocalModes::ICANON)
        };
        assert!(is_raw());
        let reader = thread::spawn(move || while terminal.read(&mut [0; 4096]).is_ok() {});
        kill_process(Pid::from_child(&top), signal).unwrap();
        assert_eq!(ended(&mut top).signal(), Some(signal.as_raw()));
        assert!(!is_raw(), "{signal:?}");
        drop(other);
        reader.join().unwrap();
    }
}

#[test]
fn output_for_which_there_is_no_room_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let db = make(dir.path());
    for command in [
        &["get", &db, "key000001"][..],
        &["scan", &db],
        &["dump", &db],
        &["stats", &db],
        &["check", &db],
        &["keyspace", "list", &db],
    ] {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let done = program().args(command).stdout(full).output().unwrap();
        let said = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(6), "{command:?}: {said}");
        assert!(said.contains("standard output"), "{command:?}: {said}");
    }
}

/// Interrupted at any moment, a command leaves nothing half-written under a final name, and can be
/// called again.
#[test]
fn an_interrupt_leaves_nothing_half_written() {
    let dir = tempfile::tempdir().unwrap();
    let db = make(dir.path());
    let (export, copy) = (within(dir.path(), "export"), within(dir.path(), "copy"));
    let backups = within(dir.path(), "backups");
    text(&["export", &db, &within(dir.path(), "whole")]);
    let whole = within(dir.path(), "whole");
    let mut interrupted = 0;
    for moment in 0..24 {
        let imported = within(dir.path(), &format!("imported{moment}"));
        for command in [
            &["export", &db, &export][..],
            &["checkpoint", &db, &copy],
            &["backup", "create", &db, &backups],
            &["import", &imported, &whole],
            &["compact", &db],
        ] {
            let mut child = program()
                .args(command)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            thread::sleep(Duration::from_millis(4 * moment));
            let pid = Pid::from_child(&child);
            let _has_ended = kill_process(pid, Signal::INT);
            let status = ended(&mut child);
            let is_interrupted = status.signal() == Some(Signal::INT.as_raw());
            assert!(status.success() || is_interrupted, "{command:?}: {status}");
            interrupted += u32::from(is_interrupted);
        }
        if Path::new(&export).exists() {
            text(&["import", &imported, &export, "--verify"]);
            fs::remove_file(&export).unwrap();
        }
        if Path::new(&copy).exists() {
            text(&["check", &copy]);
            fs::remove_dir_all(&copy).unwrap();
        }
        if Path::new(&imported).join("CURRENT").exists() {
            // All or nothing.
            let count = text(&["scan", &imported, "--keys-only"]).lines().count();
            assert!([0, 30_000].contains(&count), "{count}");
        }
    }
    assert!(interrupted > 0);
    text(&["export", &db, &export]);
    text(&["checkpoint", &db, &copy]);
    text(&["backup", "create", &db, &backups]);
    text(&["backup", "verify", &backups]);
    unikv(&["check", &db]).assert().success();
}
