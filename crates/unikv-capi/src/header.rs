//! The files for C, written from the definitions of the functions: `include/unikv.h`,
//! `include/leveldb/c.h`, the library of LevelDB's names (`link/leveldb.c`) and the symbols that
//! each library exports (`link/*.map`).
//!
//! They are committed; a test fails when one is stale, and `UNIKV_REWRITE_HEADER=1` writes them.

use crate::boundary::Function;
use crate::boundary::fault::Kind;
use crate::{leveldb, more};
use std::fmt::Write;

/// The version of the symbols. It changes when a function changes that programs are linked to.
const SYMBOLS: &str = "0.1";
/// The version of LevelDB's symbols has no name in LevelDB itself.
const LEVELDB_SYMBOLS: &str = "UNIKV_LEVELDB_1";

struct Section {
    title: &'static str,
    functions: Vec<Function>,
}

fn section(title: &'static str, functions: Vec<Function>) -> Section {
    Section { title, functions }
}

/// What LevelDB's interface has, too.
fn of_leveldb() -> Vec<Section> {
    vec![
        section("The database", leveldb::database::functions()),
        section("Properties", leveldb::properties::functions()),
        section(
            "Databases that nobody has open",
            leveldb::offline::functions(),
        ),
        section("Iterators", leveldb::iterator::functions()),
        section("Batches", leveldb::batch::functions()),
        section("Options of a database", leveldb::options::functions()),
        section(
            "Options of reads and writes",
            leveldb::reads_and_writes::functions(),
        ),
        section("Comparators", leveldb::comparator::functions()),
        section(
            "Filter policies, caches, the environment, versions",
            leveldb::small::functions(),
        ),
    ]
}

/// What it does not have.
fn of_ours() -> Vec<Section> {
    more::sections()
        .into_iter()
        .map(|(title, functions)| section(title, functions))
        .collect()
}

/// All types of handles, from the functions that have them.
fn handle_types(sections: &[Section]) -> Vec<String> {
    let mut types = Vec::new();
    let functions = sections.iter().flat_map(|section| &section.functions);
    for function in functions {
        let of_arguments = function.arguments.iter().map(|(c, _)| c);
        for c in of_arguments.chain([&function.returns]) {
            let name = c.trim_start_matches("const ");
            let name = name.split('*').next().unwrap_or(name);
            if name.starts_with("unikv_") && !types.iter().any(|there| there == name) {
                types.push(name.to_owned());
            }
        }
    }
    types
}

/// An argument as C declares it: its name goes into the middle of a pointer to a function.
fn argument((c, name): &(String, &str)) -> String {
    match c.split_once("(*)") {
        Some((before, after)) => format!("{before}(*{name}){after}"),
        None => format!("{c} {name}"),
    }
}

/// The declaration of a function, in lines of at most 100 columns.
fn declaration(function: &Function, name: &str) -> String {
    let start = format!("{} {name}(", function.returns);
    if function.arguments.is_empty() {
        return format!("{start}void)");
    }
    let arguments: Vec<_> = function.arguments.iter().map(argument).collect();
    let mut text = String::new();
    let mut line = start;
    for (at, argument) in arguments.iter().enumerate() {
        let end = if at + 1 == arguments.len() { ")" } else { "," };
        if line.len() + argument.len() + 2 > 98 {
            text += line.trim_end();
            text.push('\n');
            line = "    ".to_owned();
        }
        line += argument;
        line += end;
        line.push(' ');
    }
    text + line.trim_end()
}

fn comment(docs: &[&str]) -> String {
    let lines: Vec<_> = docs.iter().map(|line| line.trim()).collect();
    format!("/* {} */\n", lines.join("\n   "))
}

fn title(title: &str) -> String {
    format!("\n/* ==== {title} ==== */\n")
}

const UNIKV_PREAMBLE: &str = include_str!("header/preamble.h");
const LEVELDB_PREAMBLE: &str = include_str!("header/leveldb_preamble.h");
const GENERATED: &str = "/* Written by a test of crates/unikv-capi (UNIKV_REWRITE_HEADER=1). */\n";

fn unikv_h() -> String {
    let mut sections = of_leveldb();
    sections.extend(of_ours());
    let mut text = GENERATED.to_owned() + UNIKV_PREAMBLE;
    for name in handle_types(&sections) {
        text += &format!("typedef struct {name} {name};\n");
    }
    text +=
        "\n/* What an error calls for: see `unikv_last_error_kind`. */\nenum {\n    unikv_ok = 0";
    for (name, number, docs) in Kind::ALL {
        let docs = docs
            .iter()
            .map(|line| line.trim())
            .collect::<Vec<_>>()
            .join(" ");
        text += &format!(",\n    /* {docs} */\n    {name} = {number}");
    }
    text += "\n};\n\nenum {\n    unikv_no_compression = 0,\n    unikv_snappy_compression = 1,\n    \
             unikv_zstd_compression = 2\n};\n";
    for section in &sections {
        text += &title(section.title);
        for function in &section.functions {
            text += &format!(
                "\n{}{};\n",
                comment(function.docs),
                declaration(function, function.name)
            );
        }
    }
    text + "\n#ifdef __cplusplus\n}\n#endif\n#endif\n"
}

fn with_leveldbs_names(text: &str) -> String {
    text.replace("unikv_", "leveldb_")
}

fn leveldb_h() -> String {
    let sections = of_leveldb();
    let mut text = GENERATED.to_owned() + LEVELDB_PREAMBLE;
    for name in handle_types(&sections) {
        let name = with_leveldbs_names(&name);
        text += &format!("typedef struct {name} {name};\n");
    }
    text += "\nenum { leveldb_no_compression = 0, leveldb_snappy_compression = 1 };\n";
    for section in &sections {
        text += &title(section.title);
        for function in &section.functions {
            text += &with_leveldbs_names(&declaration(function, function.name));
            text += ";\n";
        }
    }
    text + "\n#ifdef __cplusplus\n}\n#endif\n#endif\n"
}

/// Each function leads to ours, with the same arguments.
fn leveldb_c() -> String {
    let mut text = GENERATED.to_owned()
        + "/* The library of LevelDB's names: each function calls the one of libunikv. */\n\n\
           #include \"unikv.h\"\n";
    for function in of_leveldb().iter().flat_map(|section| &section.functions) {
        let name = with_leveldbs_names(function.name);
        let names: Vec<_> = function.arguments.iter().map(|(_, name)| *name).collect();
        let call = format!("{}({});", function.name, names.join(", "));
        let back = if function.returns == "void" {
            ""
        } else {
            "return "
        };
        let declared = declaration(function, &name);
        // With a prototype before it, no compiler warns.
        let written = write!(text, "\n{declared};\n{declared} {{\n    {back}{call}\n}}\n");
        assert!(written.is_ok());
    }
    text
}

/// A script for the linker: these symbols, and no other.
fn symbols(version: &str, names: impl Iterator<Item = String>) -> String {
    let mut names: Vec<_> = names.collect();
    names.sort();
    let mut text = format!("{GENERATED}{version} {{\n  global:\n");
    for name in names {
        text += &format!("    {name};\n");
    }
    text + "  local:\n    *;\n};\n"
}

fn names(sections: Vec<Section>) -> impl Iterator<Item = String> {
    let functions = sections.into_iter().flat_map(|section| section.functions);
    functions.map(|function| function.name.to_owned())
}

#[test]
fn the_files_for_c_are_as_the_functions_are_defined() {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let ours = names(of_leveldb()).chain(names(of_ours()));
    let leveldbs = names(of_leveldb()).map(|name| with_leveldbs_names(&name));
    let files = [
        ("include/unikv.h", unikv_h()),
        ("include/leveldb/c.h", leveldb_h()),
        ("link/leveldb.c", leveldb_c()),
        ("link/unikv.map", symbols(&format!("UNIKV_{SYMBOLS}"), ours)),
        ("link/leveldb.map", symbols(LEVELDB_SYMBOLS, leveldbs)),
    ];
    for (name, text) in files {
        let path = dir.join(name);
        if std::env::var_os("UNIKV_REWRITE_HEADER").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let there = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            there == text,
            "{name} is stale: UNIKV_REWRITE_HEADER=1 cargo test -p unikv-capi --lib"
        );
    }
}

#[test]
fn all_functions_of_leveldb_are_there() {
    assert_eq!(names(of_leveldb()).count(), 68);
}

#[test]
fn every_function_is_documented() {
    for section in of_leveldb().iter().chain(&of_ours()) {
        for function in &section.functions {
            assert!(!function.docs.is_empty(), "{}", function.name);
        }
    }
}
