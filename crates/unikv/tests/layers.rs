//! The layering of the engine, its file sizes and its seam to the outside, as a test.
//!
//! The folders under `src/` are layers; a layer may name only layers of a lower rank, and so do the
//! components inside `engine/`. No files import each other in a circle, and no struct bundles
//! components; in the background only the loop reaches from one to another. A module opens with
//! `//!`, has at most [`MAX_LINES`] lines before its tests, and reaches files, threads, clocks and
//! the system's randomness only through `vfs`, and the wall clock not even so. Tests inside the
//! sources are exempt.

#![allow(
    clippy::expect_used,
    reason = "a test that cannot read the sources must fail"
)]

#[path = "layers/circles.rs"]
mod circles;
#[path = "layers/comments.rs"]
mod comments;
#[path = "layers/components.rs"]
mod components;
#[path = "layers/source.rs"]
mod source;

use circles::{Imports, circles};
use source::{NamedPath, Source};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The layers from the lowest rank to the highest. A file `src/x.rs` and a folder `src/x/` are
/// both layer `x`. `lib` is the crate root: whatever is re-exported there counts as the root's.
const RANKS: &[&[&str]] = &[
    &["base", "error"],
    &["codec"],
    &["vfs"],
    &[
        "log",
        "memtable",
        "record",
        "key_table",
        "hash_index",
        "item_log",
    ],
    &["version"],
    &["partition"],
    &["jobs"],
    &["events"],
    &["engine", "options"],
    &["offline", "txn"],
    &["db"],
    &["backup", "export"],
    &["lib"],
    &["fuzzing"],
];

/// The components of `engine/` and their parts, from the lowest to the highest. Each may name only
/// those before it: so none can hold or receive one that calls it, nor the engine, which holds all.
const COMPONENTS: &[&str] = &[
    "health",
    "snapshots",
    "memory",
    "stats",
    "visible_page",
    "window",
    "core",
    "uses",
    "recent",
    "space",
    "backpressure",
    "read",
    "catalog",
    "write",
    "keyspaces",
    "checkpoint",
    "changes",
    "background",
    ENGINE,
    "stats_file",
    "open",
    "secondary",
    "handle",
];

/// `engine/mod.rs`, which holds the components and has the only `impl Engine`.
const ENGINE: &str = "mod";

/// Layers of one rank that may still import: (importer, imported, reason). Never both directions.
const ALLOWED: &[(&str, &str, &str)] = &[
    (
        "base",
        "error",
        "decoding untrusted bytes reports typed errors",
    ),
    (
        "record",
        "key_table",
        "a record file ends with a key section, read like a key table",
    ),
    (
        "key_table",
        "item_log",
        "blocks lie in the segments of the read cache",
    ),
    (
        "engine",
        "options",
        "nothing below the engine reads the options",
    ),
];

/// Lines of a file outside its tests.
const MAX_LINES: usize = 400;

/// Files in one folder, those below it left out.
const MAX_FILES: usize = 14;

/// Where the real system may be touched: everything under `vfs/os`, and direct I/O, which stands in
/// one place with what decides about it.
const OUTSIDE: [&str; 2] = ["vfs/os", "vfs/direct_io"];

/// Paths that reach past the seam: a path matches when these segments stand in it, adjacent.
const PAST_THE_SEAM: &[&[&str]] = &[
    &["std", "fs"],
    &["std", "thread"],
    &["std", "net"],
    &["thread", "sleep"],
    // As a caller's argument it reads no clock.
    &["SystemTime", "now"],
    &["rand", "rng"],
    &["rand", "random"],
];

/// Names that reach past the seam wherever they stand.
const NAMES_PAST_THE_SEAM: &[&str] = &[
    "Instant",
    "Condvar",
    "OsRng",
    "from_os_rng",
    "rustix",
    "libc",
];

/// Reads the wall clock, which may jump anywhere: time limits, rests and ages take `Runtime::now`.
/// So nothing that the engine does or writes depends on it. Only `vfs` may name it.
const WALL_CLOCK: &str = "wall_clock_ms";

/// The module that hands out atomics, locks and swapped pointers, so that a model checker can stand
/// in, and the one with the locks as they are.
const SYNC: &[&str] = &["base/sync.rs", "base/sync/locks.rs"];

/// Paths to what comes from there. A lock of the standard library would be as invisible to a
/// checker.
const PAST_SYNC: &[&[&str]] = &[
    &["sync", "atomic"],
    &["sync", "Barrier"],
    &["sync", "LazyLock"],
    &["sync", "Mutex"],
    &["sync", "Once"],
    &["sync", "OnceLock"],
    &["sync", "RwLock"],
    &["sync", "mpsc"],
];

/// Names that reach past it wherever they stand.
const NAMES_PAST_SYNC: &[&str] = &["parking_lot", "arc_swap"];

/// Where decisions are made, and what they may not name: a lock or an atomic, a clock, a file.
const DECISIONS: &str = "jobs/plan/";
const NOT_IN_DECISIONS: &[&str] = &["sync", "vfs", "store", "cache", "runtime", "clock", "Clock"];

fn rank(layer: &str) -> Option<usize> {
    RANKS.iter().position(|layers| layers.contains(&layer))
}

/// The module path of a file under `src/`: `record/writer.rs` is `[record, writer]`.
fn module_path(file: &str) -> Vec<String> {
    let mut path: Vec<String> = file
        .trim_end_matches(".rs")
        .split('/')
        .map(str::to_owned)
        .collect();
    if path.last().is_some_and(|name| name == "mod") || path == ["lib"] {
        path.pop();
    }
    path
}

fn layer_of(file: &str) -> String {
    module_path(file)
        .into_iter()
        .next()
        .unwrap_or_else(|| "lib".to_owned())
}

/// A path seen from `file`, from the crate's root on; empty for what is not of this crate.
fn absolute(path: &NamedPath, file: &str) -> Vec<String> {
    let mut module = module_path(file);
    module.extend(path.inside.iter().cloned());
    let mut segments = path.segments.iter().peekable();
    match segments.peek().map(|first| first.as_str()) {
        Some("crate") => {
            segments.next();
            module.clear();
        }
        Some("self") => {
            segments.next();
        }
        Some("super") => {}
        _ => return Vec::new(),
    }
    while segments.next_if(|segment| *segment == "super").is_some() {
        module.pop();
    }
    module.extend(segments.cloned());
    module
}

/// The layer that a path names, seen from `file`; `None` for what is not of this crate.
fn named_layer(path: &NamedPath, file: &str) -> Option<String> {
    let is_own = ["crate", "self", "super"].contains(&path.segments.first()?.as_str());
    let path = absolute(path, file);
    let name = path.first().map_or("lib", String::as_str);
    is_own.then(|| {
        if rank(name).is_some() {
            name.to_owned()
        } else {
            "lib".to_owned()
        }
    })
}

fn may_import(from: &str, to: &str) -> bool {
    let allowed = ALLOWED
        .iter()
        .any(|(importer, imported, _)| (*importer, *imported) == (from, to));
    from == to || allowed || rank(to) < rank(from)
}

/// Files that hold only tests: declared under `#[cfg(test)]`, or beneath such a module.
fn test_only(sources: &BTreeMap<String, String>) -> BTreeSet<String> {
    let mut modules = Vec::new();
    for (file, text) in sources {
        for name in Source::new(text).test_modules {
            modules.push([module_path(file), vec![name]].concat());
        }
    }
    let beneath = |file: &&String| modules.iter().any(|m| module_path(file).starts_with(m));
    sources.keys().filter(beneath).cloned().collect()
}

/// Every breach of the rules in `sources` (file name under `src/` → text), as lines for a person.
fn breaches(sources: &BTreeMap<String, String>) -> Vec<String> {
    let exempt = test_only(sources);
    let mut found = crowded_folders(sources);
    for (file, text) in sources.iter().filter(|(file, _)| !exempt.contains(*file)) {
        let source = Source::new(text);
        if !text.starts_with("//!") {
            found.push(format!(
                "src/{file}:1: does not open with a `//!` line that says what it owns"
            ));
        }
        if source.lines > MAX_LINES {
            let lines = source.lines;
            found.push(format!(
                "src/{file}: {lines} lines without tests, at most {MAX_LINES} allowed"
            ));
        }
        if !SYNC.contains(&file.as_str()) {
            if !OUTSIDE.iter().any(|place| file.starts_with(place)) {
                past_the_seam(file, &source, &mut found);
            }
            past_sync(file, &source, &mut found);
        }
        if layer_of(file) != "vfs" {
            wall_clock(file, &source, &mut found);
        }
        if file.starts_with(DECISIONS) {
            decisions(file, &source, &mut found);
        }
        upward_imports(file, &source, &mut found);
        component_imports(file, &source, &mut found);
        components::breaches(file, &source, &mut found);
    }
    let imports = imports(sources, &exempt);
    found.extend(circles(&imports).iter().map(|circle| {
        let files = circle.join(", ");
        format!("import each other in a circle: {files}")
    }));
    found
}

/// What each file names of others.
fn imports(sources: &BTreeMap<String, String>, exempt: &BTreeSet<String>) -> Imports {
    let shipped = || sources.iter().filter(|(file, _)| !exempt.contains(*file));
    let files: BTreeSet<Vec<String>> = shipped().map(|(file, _)| module_path(file)).collect();
    let mut imports = Imports::new();
    for (file, text) in shipped() {
        let own = module_path(file);
        for path in Source::new(text).paths() {
            let named = absolute(&path, file);
            let lengths = (1..=named.len()).rev();
            let file = lengths
                .map(|len| &named[..len])
                .find(|part| files.contains(*part));
            if let Some(imported) = file.filter(|imported| *imported != own) {
                let from = imports.entry(own.join("::")).or_default();
                from.insert(imported.join("::"));
            }
        }
    }
    imports
}

/// The component of a file in `engine/`.
fn component_of(module: &[String]) -> Option<&str> {
    match module {
        [layer] if layer == "engine" => Some(ENGINE),
        [layer, component, ..] if layer == "engine" => Some(component),
        _ => None,
    }
}

fn component_imports(file: &str, source: &Source, found: &mut Vec<String>) {
    let own = module_path(file);
    let Some(from) = component_of(&own) else {
        return;
    };
    let place = |name: &str| COMPONENTS.iter().position(|component| *component == name);
    let Some(at) = place(from) else {
        found.push(format!(
            "src/{file}:1: `{from}` is not in the list of components"
        ));
        return;
    };
    for path in source.paths() {
        let named = absolute(&path, file);
        let to = match component_of(&named) {
            // What is not a module of its own is defined in `engine/mod.rs`.
            Some(name) if place(name).is_none() => Some(ENGINE),
            to => to,
        };
        if to.and_then(place).is_some_and(|to| to > at) {
            let (line, name) = (path.line, path.segments.join("::"));
            found.push(format!(
                "src/{file}:{line}: `{from}` names `{name}`, which calls it"
            ));
        }
    }
}

fn crowded_folders(sources: &BTreeMap<String, String>) -> Vec<String> {
    let mut files = BTreeMap::<&str, usize>::new();
    for file in sources.keys() {
        let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
        *files.entry(folder).or_default() += 1;
    }
    let crowded = files.into_iter().filter(|(_, files)| *files > MAX_FILES);
    crowded
        .map(|(folder, files)| {
            format!("src/{folder}: {files} files in one folder, at most {MAX_FILES} allowed")
        })
        .collect()
}

fn past_the_seam(file: &str, source: &Source, found: &mut Vec<String>) {
    let remedy = "which only src/vfs/os and src/vfs/direct_io may; go through crate::vfs";
    for token in &source.tokens {
        if NAMES_PAST_THE_SEAM.contains(&token.text.as_str()) {
            found.push(format!(
                "src/{file}:{}: uses `{}`, {remedy}",
                token.line, token.text
            ));
        }
    }
    for path in source.paths() {
        for banned in PAST_THE_SEAM {
            if path
                .segments
                .windows(banned.len())
                .any(|part| part == *banned)
            {
                let (line, what) = (path.line, banned.join("::"));
                found.push(format!("src/{file}:{line}: uses `{what}`, {remedy}"));
            }
        }
    }
}

fn wall_clock(file: &str, source: &Source, found: &mut Vec<String>) {
    for token in source.tokens.iter().filter(|it| it.text == WALL_CLOCK) {
        let line = token.line;
        found.push(format!(
            "src/{file}:{line}: reads the wall clock, on which nothing may depend; take `now`"
        ));
    }
}

fn decisions(file: &str, source: &Source, found: &mut Vec<String>) {
    let is_banned = |name: &str| NOT_IN_DECISIONS.contains(&name);
    for token in source.tokens.iter().filter(|it| is_banned(&it.text)) {
        let (line, name) = (token.line, &token.text);
        found.push(format!(
            "src/{file}:{line}: names `{name}`, and a decision goes by facts alone"
        ));
    }
}

fn past_sync(file: &str, source: &Source, found: &mut Vec<String>) {
    let remedy = "which a model checker cannot see; take it from crate::base::sync";
    for token in &source.tokens {
        if NAMES_PAST_SYNC.contains(&token.text.as_str()) {
            let (line, name) = (token.line, &token.text);
            found.push(format!("src/{file}:{line}: uses `{name}`, {remedy}"));
        }
    }
    let std = |segment: &String| segment == "std" || segment == "core";
    for path in source.paths() {
        let of_std = path.segments.first().is_some_and(std);
        for banned in PAST_SYNC {
            if of_std
                && path.segments[1..]
                    .iter()
                    .zip(*banned)
                    .filter(|(a, b)| a == b)
                    .count()
                    == banned.len()
            {
                let (line, what) = (path.line, banned.join("::"));
                found.push(format!("src/{file}:{line}: uses `std::{what}`, {remedy}"));
            }
        }
    }
}

fn upward_imports(file: &str, source: &Source, found: &mut Vec<String>) {
    let from = layer_of(file);
    if rank(&from).is_none() {
        found.push(format!(
            "src/{file}:1: `{from}` is not in the list of layers"
        ));
        return;
    }
    for path in source.paths() {
        let Some(to) = named_layer(&path, file) else {
            continue;
        };
        if !may_import(&from, &to) {
            let (line, name) = (path.line, path.segments.join("::"));
            let why = match rank(&to).cmp(&rank(&from)) {
                std::cmp::Ordering::Greater => "which stands above it",
                _ => "which is of the same rank",
            };
            found.push(format!(
                "src/{file}:{line}: `{from}` names `{name}` of `{to}`, {why}"
            ));
        }
    }
}

fn read_sources(dir: &Path, prefix: &str, into: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(dir).expect("src is readable") {
        let path = entry.expect("an entry is readable").path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .expect("a UTF-8 name");
        if path.is_dir() {
            read_sources(&path, &format!("{prefix}{name}/"), into);
        } else if name.ends_with(".rs") {
            into.insert(
                format!("{prefix}{name}"),
                fs::read_to_string(&path).expect("a text"),
            );
        }
    }
}

#[test]
fn the_sources_keep_the_rules() {
    let mut sources = BTreeMap::new();
    read_sources(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        "",
        &mut sources,
    );
    assert!(sources.contains_key("lib.rs"), "the sources were not found");
    let found = breaches(&sources);
    assert!(
        found.is_empty(),
        "{} breaches:\n{}",
        found.len(),
        found.join("\n")
    );
}

#[test]
fn the_listed_exceptions_stay_in_one_rank_and_go_one_way() {
    for (from, to, reason) in ALLOWED {
        assert_eq!(
            rank(from),
            rank(to),
            "{from} and {to} need no exception, or may not have one"
        );
        assert!(!reason.is_empty());
        let back = ALLOWED
            .iter()
            .any(|(importer, imported, _)| (importer, imported) == (to, from));
        assert!(!back, "{from} and {to} may import each other");
    }
}

// The checker itself, on made-up sources.

fn breaches_of(files: &[(&str, &str)]) -> Vec<String> {
    let owned = files
        .iter()
        .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    breaches(&owned.collect())
}

#[test]
fn a_folder_has_a_bounded_number_of_files() {
    let names: Vec<String> = (0..=MAX_FILES).map(|i| format!("log/f{i}.rs")).collect();
    let mut files: Vec<(&str, &str)> = names.iter().map(|name| (&name[..], "//! One.\n")).collect();
    assert_eq!(
        breaches_of(&files),
        ["src/log: 15 files in one folder, at most 14 allowed"]
    );
    files.pop();
    assert_eq!(breaches_of(&files), Vec::<String>::new());
}

#[test]
fn an_upward_import_is_named_with_file_and_line() {
    let found = breaches_of(&[("log/wal.rs", "//! The log.\n\nuse crate::version::Edit;\n")]);
    assert_eq!(
        found,
        [
            "src/log/wal.rs:3: `log` names `crate::version::Edit` of `version`, which stands above it"
        ]
    );
}

#[test]
fn an_upward_import_is_found_in_every_spelling() {
    for text in [
        "use crate::{base::keys, jobs::flush};",
        "use super::super::jobs;",
        "use super::super::{error::Error, jobs::{flush}};",
        "fn f() { crate::jobs::run(); }",
        "fn f(x: &'a crate::jobs::Job) {}",
        "mod inner { use super::super::super::jobs::Job; }",
        "macro_rules! m { () => { $crate::jobs::run() }; }",
        "use crate::Db;",
        "use crate::*;",
    ] {
        let found = breaches_of(&[("memtable/arena.rs", &format!("//! An arena.\n{text}\n"))]);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert!(
            found[0].starts_with("src/memtable/arena.rs:2: `memtable` names"),
            "{found:?}"
        );
    }
}

#[test]
fn downward_and_sideways_inside_a_layer_is_no_breach() {
    let text = "//! Flush.\nuse crate::base::keys::SeqNo;\nuse super::merge::Merge;\n\
                use crate::{error::Result, vfs::Env};\nuse self::inner::X;\n\
                mod inner { use super::super::merge; }\n";
    assert_eq!(
        breaches_of(&[("jobs/flush/mod.rs", text)]),
        Vec::<String>::new()
    );
}

#[test]
fn one_rank_may_not_import_sideways_except_as_listed() {
    let both = [
        (
            "record/file.rs",
            "//! Record file.\nuse crate::key_table::ReadCache;\n",
        ),
        (
            "key_table/reader.rs",
            "//! Reader.\nuse crate::record::RecordFile;\n",
        ),
        (
            "hash_index/mod.rs",
            "//! Index.\nuse crate::memtable::Batch;\n",
        ),
    ];
    let found = breaches_of(&both);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("hash_index/mod.rs:2") && found[0].contains("same rank"));
    assert!(found[1].contains("key_table/reader.rs:2"), "{found:?}");
}

#[test]
fn an_unknown_layer_is_a_breach() {
    let found = breaches_of(&[("utils/mod.rs", "//! Things.\n")]);
    assert_eq!(
        found,
        ["src/utils/mod.rs:1: `utils` is not in the list of layers"]
    );
}

#[test]
fn reaching_past_the_seam_is_a_breach_outside_vfs_os() {
    for text in [
        "use std::fs::File;",
        "use std::{io, fs};",
        "use std::thread;",
        "use std::time::Instant;",
        "fn f() { std::thread::yield_now(); }",
        "fn f() { let t = SystemTime::now(); }",
        "fn f() { let n: u64 = rand::random(); }",
        "use crate::base::sync::{Mutex, Condvar};",
    ] {
        let text = format!("//! A module.\n{text}\n");
        let found = breaches_of(&[("engine/write/mod.rs", &text)]);
        assert!(
            found
                .iter()
                .any(|f| f.starts_with("src/engine/write/mod.rs:2: uses")),
            "{text}: {found:?}"
        );
        assert_eq!(
            breaches_of(&[("vfs/os/threads.rs", &text)]),
            Vec::<String>::new()
        );
        assert_eq!(breaches_of(&[("vfs/os.rs", &text)]), Vec::<String>::new());
        assert!(
            !breaches_of(&[("vfs/sim/disk.rs", &text)]).is_empty(),
            "{text}"
        );
    }
}

#[test]
fn a_use_of_the_wall_clock_is_a_breach_outside_vfs() {
    for text in [
        "fn f(env: &Env) -> u64 { env.runtime.wall_clock_ms() }",
        "fn f(r: &dyn Runtime) -> u64 { Runtime::wall_clock_ms(r) }",
    ] {
        let text = format!("//! A module.\n{text}\n");
        let found = breaches_of(&[("jobs/flush/mod.rs", &text)]);
        let want = "src/jobs/flush/mod.rs:2: reads the wall clock, on which nothing may depend; take `now`";
        assert_eq!(found, [want], "{text}");
        assert_eq!(
            breaches_of(&[("vfs/sim/runtime.rs", &text)]),
            Vec::<String>::new()
        );
    }
}

#[test]
fn a_lock_a_clock_or_a_file_is_a_breach_where_decisions_are_made() {
    for (text, name) in [
        ("use crate::base::sync::Mutex;", "sync"),
        ("use crate::vfs::file_store::FileStore;", "vfs"),
        ("fn f(core: &Core) { core.clock.now_ms(); }", "clock"),
    ] {
        let text = format!("//! A module.\n{text}\n");
        let found = breaches_of(&[("jobs/plan/rules.rs", &text)]);
        let want =
            format!("src/jobs/plan/rules.rs:2: names `{name}`, and a decision goes by facts alone");
        assert_eq!(found, [want], "{text}");
        assert_eq!(
            breaches_of(&[("jobs/flush/mod.rs", &text)]),
            Vec::<String>::new()
        );
    }
}

#[test]
fn atomics_and_locks_from_elsewhere_are_a_breach() {
    for text in [
        "use std::sync::atomic::AtomicU64;",
        "use core::sync::atomic::fence;",
        "use std::sync::{Arc, OnceLock};",
        "use std::sync::Mutex;",
        "fn f() { std::sync::atomic::fence(o); }",
        "use parking_lot::Mutex;",
        "use arc_swap::ArcSwap;",
    ] {
        let text = format!("//! A module.\n{text}\n");
        for file in ["memtable/skiplist.rs", "vfs/os/runtime.rs"] {
            let found = breaches_of(&[(file, &text)]);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert!(found[0].starts_with(&format!("src/{file}:2: uses")));
        }
        for file in SYNC {
            assert_eq!(breaches_of(&[(file, &text)]), Vec::<String>::new());
        }
    }
    let text = "//! A module.\nuse crate::base::sync::{Mutex, atomic::AtomicU64};\nuse std::sync::{Arc, Weak};\n";
    assert_eq!(breaches_of(&[("vfs/a.rs", text)]), Vec::<String>::new());
}

#[test]
fn comments_strings_and_characters_are_not_code() {
    let text = r####"//! A module. See [`crate::db::Db`].
/* use crate::db::Db; /* nested */ std::fs::read */
const A: &str = "use crate::db::Db; \" std::fs";
const B: &str = r#"crate::db::Db " std::fs"#;
const C: &[u8] = b"std::fs::File";
const D: char = '"';
const E: u8 = b'\'';
fn f<'a>(x: &'a str) -> &'a str { x } // std::thread::sleep
"####;
    assert_eq!(breaches_of(&[("base/a.rs", text)]), Vec::<String>::new());
    let found = breaches_of(&[("base/a.rs", &format!("{text}use crate::db::Db;\n"))]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("src/base/a.rs:9:"), "{found:?}");
}

#[test]
fn tests_are_exempt_but_what_follows_them_is_not() {
    let tests = "//! A module.\n#[cfg(test)]\nuse crate::db::{Db, Iter};\n#[cfg(test)]\nmod long;\n\
                 #[cfg(test)]\n#[allow(unused)]\nmod tests {\n use std::fs;\n fn f() { x; }\n}\n";
    let long = "use crate::db::Db;\nuse std::thread;\n";
    let files = [
        ("log/mod.rs", tests),
        ("log/long.rs", long),
        ("log/long/more.rs", long),
    ];
    assert_eq!(breaches_of(&files), Vec::<String>::new());
    let found = breaches_of(&[("log/mod.rs", &format!("{tests}use crate::db::Db;\n"))]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("src/log/mod.rs:12:"), "{found:?}");
}

#[test]
fn a_module_needs_its_opening_line_and_a_bounded_length() {
    let found = breaches_of(&[("base/a.rs", "use crate::error::Error;\n")]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("does not open with"), "{found:?}");

    let at_limit = format!("//! A module.\n{}", "// line\n".repeat(MAX_LINES - 1));
    let tests = "#[cfg(test)]\nmod tests {\n    fn f() {}\n}\n";
    assert_eq!(
        breaches_of(&[("base/a.rs", &format!("{at_limit}{tests}"))]),
        Vec::<String>::new()
    );
    let found = breaches_of(&[("base/a.rs", &format!("{at_limit}// one more\n{tests}"))]);
    assert_eq!(
        found,
        ["src/base/a.rs: 401 lines without tests, at most 400 allowed"]
    );
}
