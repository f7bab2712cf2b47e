//! The tests in C and C++ (`tests/c/`), linked as programs are: against the shared libraries and
//! against the archives. Also what the libraries export, and that a panic stays inside.
//!
//! `scripts/capi_check.sh` runs the same programs under valgrind and AddressSanitizer.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use tempfile::TempDir;

const SYSTEM: [&str; 7] = [
    "-lgcc_s",
    "-lutil",
    "-lrt",
    "-lpthread",
    "-lm",
    "-ldl",
    "-lc",
];
const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-Werror", "-pedantic"];

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The archive that cargo has made for this test.
fn archive() -> PathBuf {
    let deps = std::env::current_exe().unwrap();
    let deps = deps.parent().unwrap();
    let files = std::fs::read_dir(deps).unwrap().map(|entry| entry.unwrap());
    let is_ours = |name: &str| name.starts_with("libunikv_capi-") && name.ends_with(".a");
    let ours = files.filter(|entry| entry.file_name().to_str().is_some_and(is_ours));
    let newest = ours.max_by_key(|entry| entry.metadata().unwrap().modified().unwrap());
    newest
        .expect("cargo makes an archive beside the tests")
        .path()
}

fn done(what: &str, output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{what}: {}\n{}{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
    text(&output.stdout)
}

/// The libraries, made once. There is a C compiler: without one, this test could not be linked.
fn libraries() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let archive = archive();
        let dir = archive.with_file_name("unikv-capi-libraries");
        let script = here("../../scripts/link_capi.sh");
        let output = Command::new(script)
            .arg(&archive)
            .arg(&dir)
            .output()
            .unwrap();
        done("link_capi.sh", &output);
        dir
    })
}

fn compiler(source: &Path) -> Command {
    let is_c = source.extension().is_some_and(|extension| extension == "c");
    let variable = if is_c { "CC" } else { "CXX" };
    let usual = if is_c { "cc" } else { "c++" };
    let mut command = Command::new(std::env::var_os(variable).unwrap_or(usual.into()));
    command.arg(if is_c { "-std=c99" } else { "-std=c++11" });
    command
}

enum Linked {
    Shared,
    Archives,
}

/// Compiles a source into `program`.
fn compile(source: &Path, linked: &Linked, program: &Path) {
    let libraries = libraries();
    let mut command = compiler(source);
    command
        .args(WARNINGS)
        .arg("-g")
        .arg("-I")
        .arg(here("include"));
    command
        .arg("-I")
        .arg(here("tests/c"))
        .arg("-o")
        .arg(program)
        .arg(source);
    let leveldb = libraries.join("leveldb");
    match linked {
        Linked::Shared => {
            command.arg("-L").arg(&leveldb).arg("-L").arg(libraries);
            command.args(["-lleveldb", "-lunikv"]);
            command.arg(format!("-Wl,-rpath,{}", leveldb.display()));
            command.arg(format!("-Wl,-rpath,{}", libraries.display()));
        }
        Linked::Archives => {
            command
                .arg(leveldb.join("libleveldb.a"))
                .arg(libraries.join("libunikv.a"));
            command.args(SYSTEM);
        }
    }
    done("the compiler", &command.output().unwrap());
}

/// Compiles a program of `tests/c` and runs it on an empty directory.
fn run(source: &Path, linked: &Linked) {
    let dir = TempDir::new().unwrap();
    let program = dir.path().join("program");
    compile(source, linked, &program);
    let data = dir.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let mut command = Command::new(program);
    command
        .arg(&data)
        .env("TEST_TMPDIR", dir.path().join("tests"));
    let printed = done("the program", &command.output().unwrap());
    assert_eq!(printed.lines().last(), Some("passed"));
}

fn run_both_ways(name: &str) {
    for linked in [Linked::Shared, Linked::Archives] {
        run(&here("tests/c").join(name), &linked);
    }
}

#[test]
fn leveldbs_interface_by_its_names() {
    run_both_ways("leveldb.c");
}

#[test]
fn what_unikv_has_beside() {
    run_both_ways("more.c");
}

#[test]
fn opening_ends_and_options_of_reads() {
    run_both_ways("ends.c");
}

#[test]
fn what_others_see_of_a_database() {
    run_both_ways("others.c");
}

#[test]
fn mistakes_are_caught() {
    run_both_ways("misuse.c");
}

#[test]
fn threads_that_end_in_functions_of_theirs_stop_there() {
    run_both_ways("exit.c");
}

#[test]
fn the_headers_serve_cplusplus() {
    run_both_ways("plus.cc");
}

/// How many programs there are for a newcomer.
const EXAMPLES: usize = 10;

/// The programs of `examples/` in C.
fn examples() -> Vec<PathBuf> {
    let files = std::fs::read_dir(here("examples")).unwrap();
    let files = files.map(|file| file.unwrap().path());
    files
        .filter(|path| path.extension().is_some_and(|extension| extension == "c"))
        .collect()
}

/// What the first time has left must not be in the way of the second.
#[test]
fn every_example_runs_twice() {
    let sources = examples();
    assert_eq!(sources.len(), EXAMPLES);
    for source in sources {
        let dir = TempDir::new().unwrap();
        let program = dir.path().join("program");
        compile(&source, &Linked::Shared, &program);
        for time in ["first", "second"] {
            let run = Command::new(&program).current_dir(&dir).output().unwrap();
            done(&format!("{} the {time} time", source.display()), &run);
        }
    }
}

#[test]
fn every_example_is_short() {
    for source in examples() {
        let lines = std::fs::read_to_string(&source).unwrap().lines().count();
        assert!(lines < 40, "{} has {lines} lines", source.display());
    }
}

/// The functions that a script for the linker names.
fn listed(map: &str) -> Vec<String> {
    let text = std::fs::read_to_string(here(map)).unwrap();
    let names = text
        .lines()
        .filter_map(|line| line.trim().strip_suffix(';'));
    let names = names.filter(|name| name.chars().all(|c| c.is_ascii_lowercase() || c == '_'));
    names.map(str::to_owned).collect()
}

#[test]
fn the_shared_libraries_export_what_is_listed_and_nothing_else() {
    for (library, map, version) in [
        ("libunikv.so", "link/unikv.map", "@@UNIKV_0.1"),
        (
            "leveldb/libleveldb.so",
            "link/leveldb.map",
            "@@UNIKV_LEVELDB_1",
        ),
    ] {
        let library = libraries().join(library);
        let output = Command::new("nm")
            .args(["-D", "--defined-only"])
            .arg(&library)
            .output();
        let output = done("nm", &output.unwrap());
        let symbols = output.lines().filter_map(|line| line.split(' ').nth(2));
        // The version itself is a symbol, too.
        let functions = symbols.filter(|symbol| !version.ends_with(symbol));
        let of_version = |symbol: &str| symbol.strip_suffix(version).map(str::to_owned);
        let exported: Vec<_> = functions
            .map(|symbol| of_version(symbol).unwrap_or_else(|| panic!("{symbol} is exported")))
            .collect();
        assert_eq!(exported, listed(map), "{}", library.display());
    }
}

/// The first block of C in a document.
fn example(document: &str) -> String {
    let text = std::fs::read_to_string(here(document)).unwrap();
    let (_, rest) = text.split_once("```c\n").unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

#[test]
fn the_example_works_with_an_installed_library() {
    let dir = TempDir::new().unwrap();
    let prefix = dir.path().join("usr");
    let mut install = Command::new(here("../../scripts/install_capi.sh"));
    done(
        "install_capi.sh",
        &install.arg(&prefix).arg(archive()).output().unwrap(),
    );
    let flags = |package: &str| {
        let mut command = Command::new("pkg-config");
        command.args(["--cflags", "--libs", package]);
        command.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
        let flags = done("pkg-config", &command.output().unwrap());
        flags
            .split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let run = |source: &Path, package: &str, arguments: &[&Path]| {
        let program = dir.path().join(package);
        let mut command = compiler(source);
        command
            .args(WARNINGS)
            .arg("-o")
            .arg(&program)
            .arg(source)
            .args(flags(package));
        done("the compiler", &command.output().unwrap());
        let mut command = Command::new(program);
        command.args(arguments).current_dir(dir.path());
        command.env("LD_LIBRARY_PATH", prefix.join("lib/unikv"));
        // Only what leads to it has a path to it.
        if package == "unikv" {
            command.env("LD_LIBRARY_PATH", prefix.join("lib"));
        }
        done("the program", &command.output().unwrap())
    };
    let source = dir.path().join("example.c");
    std::fs::write(&source, example("../../docs/c.md")).unwrap();
    let printed = run(&source, "unikv", &[]);
    assert_eq!(printed, "an apple is red\napple: red\nbanana: yellow\n");

    let data = dir.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let printed = run(&here("tests/c/leveldb.c"), "unikv-leveldb", &[&data]);
    assert_eq!(printed, "passed\n");
}
