//! The commands of docs/guide.md, typed as they stand there.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::process::Command;

/// The text between the lines that begin and end the first block of shell commands.
fn commands() -> String {
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let (_, from) = guide.split_once("```sh\n").unwrap();
    let (block, _) = from.split_once("\n```").unwrap();
    block.to_owned()
}

#[test]
fn what_the_guide_types_works() {
    let dir = tempfile::tempdir().unwrap();
    let unikv = assert_cmd::cargo::cargo_bin("unikv");
    let bin = unikv.parent().unwrap().to_str().unwrap();
    let path = format!("{bin}:{}", std::env::var("PATH").unwrap());
    let output = Command::new("sh")
        .args(["-e", "-c", &commands()])
        .current_dir(dir.path())
        .env("PATH", path)
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{out}{err}");
    for part in [
        "loaded 3 records",
        "red\n",
        "banana\tyellow\n",
        "11h 59m",
        "point 1: sound",
        "point 2: sound",
        "point 1 restored in before.db",
        "UnsortedStore",
        ": no problems",
        "checkpoint of sequence number 5 in copy.db",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
    // The change feed: three puts, one that expires, and the delete.
    assert_eq!(out.matches("\tput\t").count(), 4, "{out}");
    assert_eq!(out.matches("\tdelete\t").count(), 1, "{out}");
}
