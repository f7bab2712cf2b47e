//! The help of the command and of all its subcommands, as docs/help.txt has it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::fmt::Write;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/help.txt");
const HEAD: &str = "\
# The help of the command `unikv` and of its subcommands. `make api` writes it, and a test of the
# command fails if it is stale (crates/unikv-cli/tests/help.rs).
";

/// Appends the help of a command, then that of its subcommands in the order in which it lists them.
fn append(text: &mut String, command: &[&str]) {
    let help = common::text(&[command, &["--help"]].concat());
    writeln!(
        text,
        "\n$ unikv {}--help\n",
        command
            .iter()
            .fold(String::new(), |all, word| all + word + " ")
    )
    .unwrap();
    for line in help.lines() {
        writeln!(text, "{}", line.trim_end()).unwrap();
    }
    let (_, listed) = help.split_once("\nCommands:\n").unwrap_or_default();
    for line in listed.lines().take_while(|line| !line.is_empty()) {
        // Where a description goes on, the line is indented further.
        let name = line
            .strip_prefix("  ")
            .filter(|rest| !rest.starts_with(' '));
        if let Some(name) = name
            .and_then(|rest| rest.split_whitespace().next())
            .filter(|name| *name != "help")
        {
            append(text, &[command, &[name]].concat());
        }
    }
}

#[test]
fn the_help_is_as_it_is_written_down() {
    let mut found = HEAD.to_owned();
    append(&mut found, &[]);
    if std::env::var_os("UNIKV_REWRITE").is_some() {
        std::fs::write(PATH, &found).unwrap();
    }
    let written = std::fs::read_to_string(PATH).unwrap_or_default();
    for (n, (found, written)) in found.lines().zip(written.lines()).enumerate() {
        assert_eq!(
            found,
            written,
            "line {} of docs/help.txt is stale: run `make api`",
            n + 1
        );
    }
    assert_eq!(
        found.len(),
        written.len(),
        "docs/help.txt is stale: run `make api`"
    );
}
