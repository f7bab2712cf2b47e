//! The form of comments in all crates: how wide they are, and how long the header of a module is.

use crate::read_sources;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Characters of a line that is a comment: rustfmt does not break these.
const MAX_COLUMNS: usize = 100;

/// Lines of the header of a module. That of a crate is its documentation.
const MAX_HEADER: usize = 12;

/// The comments that are too wide, but for tables, which cannot be broken; and a header that is too
/// long.
fn breaches(file: &str, text: &str) -> Vec<String> {
    let comments = text.lines().enumerate().filter(|(_, line)| {
        let line = line.trim_start();
        let is_table = line.trim_start_matches(['/', '!', ' ']).starts_with('|');
        line.starts_with("//") && !is_table
    });
    let wide = comments.filter(|(_, line)| line.chars().count() > MAX_COLUMNS);
    let wide = wide.map(|(i, _)| format!("{file}:{}: wider than {MAX_COLUMNS} columns", i + 1));
    let header = text.lines().take_while(|line| line.starts_with("//!"));
    let is_long = header.count() > MAX_HEADER && !file.ends_with("lib.rs");
    let long = is_long.then(|| format!("{file}:1: a header of more than {MAX_HEADER} lines"));
    wide.chain(long).collect()
}

/// Those of the sources below `folder`, if there is one.
fn breaches_below(folder: &Path) -> Vec<String> {
    let mut sources = BTreeMap::new();
    if folder.is_dir() {
        read_sources(folder, "", &mut sources);
    }
    let name = |file: &str| folder.join(file).display().to_string();
    sources
        .iter()
        .flat_map(|(file, text)| breaches(&name(file), text))
        .collect()
}

#[test]
fn no_comment_of_any_crate_is_too_wide_and_no_header_too_long() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let parts = fs::read_dir(&crates).expect("the crates can be listed");
    let parts = parts.map(|part| part.expect("a crate can be listed").path());
    let fuzz = crates.join("../fuzz");
    assert!(fuzz.is_dir(), "the fuzz targets were not found");
    let mut found = Vec::new();
    for part in parts.chain([fuzz]) {
        for folder in ["src", "tests", "benches", "examples", "fuzz_targets"] {
            found.extend(breaches_below(&part.join(folder)));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn a_wide_comment_is_found_and_a_wide_table_is_not() {
    let wide = "x".repeat(MAX_COLUMNS);
    let text = format!("// short\n    /// {wide}\n//! | {wide} |\nlet x = \"{wide}\"; // short\n");
    assert_eq!(breaches("a.rs", &text), ["a.rs:2: wider than 100 columns"]);
}

#[test]
fn the_indent_of_a_comment_counts() {
    let text = |letters| format!("    // {}\n", "x".repeat(letters));
    assert_eq!(breaches("a.rs", &text(93)), Vec::<String>::new());
    assert_eq!(
        breaches("a.rs", &text(94)),
        ["a.rs:1: wider than 100 columns"]
    );
}

#[test]
fn a_long_header_is_found_and_that_of_a_crate_is_not() {
    let header = |lines: usize| "//! a\n".repeat(lines) + "\nuse x;\n";
    assert_eq!(breaches("a.rs", &header(12)), Vec::<String>::new());
    assert_eq!(
        breaches("a.rs", &header(13)),
        ["a.rs:1: a header of more than 12 lines"]
    );
    assert_eq!(breaches("src/lib.rs", &header(40)), Vec::<String>::new());
}
