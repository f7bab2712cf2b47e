//! The real command on a real file system, watched with `strace`: every file access is one that the
//! file layer knows, the order rules of durability hold as seen from outside, and interrupted calls
//! are taken up again. `scripts/strace_check.sh` runs these tests; they need `strace` and the right
//! to use it.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, and says what it has seen"
)]

#[path = "strace/known.rs"]
mod known;
#[path = "strace/order.rs"]
mod order;
#[path = "strace/trace.rs"]
mod trace;

use known::{KNOWN, Kind, OUTSIDE};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use trace::Call;

/// Options under which a few hundred writes flush, merge, split, and make files of large values.
const SMALL: [&str; 12] = [
    "--memtable-bytes=64KiB",
    "--unsorted-bytes=256KiB",
    "--partition-bytes=1MiB",
    "--key-table-bytes=16KiB",
    "--inline-value-bytes=32",
    "--memory-budget=4MiB",
    "--max-space-amp=1.3",
    "--background-threads=3",
    "--clustering=least-writing",
    "--threads=3",
    "--operations=900",
    "--durability=periodic:20ms",
];

struct Place {
    root: tempfile::TempDir,
    traces: usize,
}

impl Place {
    fn new() -> Place {
        Place {
            root: tempfile::tempdir().unwrap(),
            traces: 0,
        }
    }

    fn path(&self, name: &str) -> String {
        let root = self.root.path().canonicalize().unwrap();
        root.join(name).to_str().unwrap().to_owned()
    }

    /// Runs the command with these arguments under strace with these options.
    fn traced(&mut self, strace: &[&str], arguments: &[&str]) -> (Output, Vec<Call>) {
        self.traces += 1;
        let out = self.path(&format!("trace{}", self.traces));
        let output = Command::new("strace")
            .args(["-f", "-y", "-qq", "-s", "0", "-o", &out])
            .args(strace)
            .arg(env!("CARGO_BIN_EXE_unikv"))
            .args(arguments)
            // Cargo's, in which the loader would look.
            .env_remove("LD_LIBRARY_PATH")
            .output()
            .unwrap();
        (output, trace::read(&fs::read_to_string(out).unwrap()))
    }

    /// As [`Place::traced`], for all calls that touch files.
    fn watched(&mut self, more: &[&str], arguments: &[&str]) -> (Output, Vec<Call>) {
        let calls = "trace=%file,%desc,sync,io_uring_setup,io_uring_enter";
        self.traced(&[&["-e", calls], more].concat(), arguments)
    }
}

/// Those of [`SMALL`] that are the engine's.
fn engine_options<'a>() -> impl Iterator<Item = &'a str> {
    let of_the_load = ["--threads", "--operations"];
    let options = SMALL.into_iter();
    options.filter(move |option| !of_the_load.iter().any(|name| option.starts_with(name)))
}

fn with_options<'a>(first: &[&'a str], last: &[&'a str]) -> Vec<&'a str> {
    [first, &SMALL[..], last].concat()
}

/// A life of the writer, bounded by operations, and everything that another command may do after
/// it.
#[test]
#[ignore = "scripts/strace_check.sh runs it"]
fn every_file_access_is_known_to_the_file_layer_and_in_order() {
    let mut place = Place::new();
    let (db, acks) = (place.path("db"), place.path("acks"));
    let ack = format!("--ack-file={acks}");
    let mut seen = Seen::default();
    let writer = with_options(&["crash-writer", &db, &ack], &[]);
    let (output, calls) = place.watched(&[], &writer);
    assert!(output.status.success(), "{output:?}");
    seen.add(&calls, &db, &place);
    order::check(&calls, &db);
    the_rules_are_broken_without_the_syncs(&calls, &db);
    // Killed by a signal at a call in the midst, then opened again.
    let kill = ["-e", "inject=pwrite64:signal=SIGKILL:when=200"];
    let (output, calls) = place.watched(&kill, &writer);
    assert!(!output.status.success(), "it was killed");
    seen.add(&calls, &db, &place);
    created_and_no_more(&db);
    let mut verify = vec!["crash-verify", &db[..], &ack];
    verify.extend(engine_options());
    let (output, calls) = place.watched(&[], &verify);
    assert!(output.status.success(), "{output:?}");
    seen.add(&calls, &db, &place);
    order::check(&calls, &db);
    let others: [&[&str]; 6] = [
        &["stats", &db, "--json"],
        &["compact", &db],
        &["gc", &db],
        &["scan", &db, "--limit=300"],
        &["get", &db, "no such key"],
        &["check", &db],
    ];
    for arguments in others {
        let (_, calls) = place.watched(&[], arguments);
        if matches!(arguments[0], "scan" | "get" | "stats" | "check") {
            only_reads(&calls, &db);
        }
        seen.add(&calls, &db, &place);
        order::check(&calls, &db);
    }
    inspected(&mut place, &db, &mut seen);
    dumped_and_loaded(&mut place, &db, &mut seen);
    repaired(&mut place, &db, &mut seen);
    seen.report();
}

/// A command that reads writes nothing, syncs nothing, and takes no lock that an opening meets.
fn only_reads(calls: &[Call], db: &str) {
    let changes = |call: &&Call| {
        let is_read = match &call.name[..] {
            "openat" => !call
                .flags()
                .iter()
                .any(|flag| ["O_RDWR", "O_WRONLY", "O_CREAT"].contains(flag)),
            "flock" => !call.flags().contains(&"LOCK_EX"),
            "mmap" => !call.flags().contains(&"PROT_WRITE"),
            name => [
                "close",
                "fadvise64",
                "fcntl",
                "fstat",
                "fstatfs",
                "getdents64",
                "madvise",
                "newfstatat",
                "pread64",
                "preadv",
                "preadv2",
                "read",
                "readahead",
                "statx",
            ]
            .contains(&name),
        };
        call.paths().iter().any(|path| path.starts_with(db)) && !is_read
    };
    let found: Vec<_> = calls.iter().filter(changes).take(20).collect();
    assert!(found.is_empty(), "{found:#?}");
}

/// A file of each kind is looked at, and nothing is changed.
fn inspected(place: &mut Place, db: &str, seen: &mut Seen) {
    for ending in ["CURRENT", "MANIFEST-", ".wal", ".rec", ".key"] {
        let entries = fs::read_dir(db).unwrap().map(|entry| entry.unwrap().path());
        let mut paths = entries.filter_map(|path| path.to_str().map(str::to_owned));
        let path = paths.find(|path| path.contains(ending)).unwrap();
        let (output, calls) = place.watched(&[], &["inspect", &path]);
        assert!(output.status.success(), "{output:?}");
        let writes = |call: &&Call| call.flags().contains(&"O_RDWR") || call.name == "unlinkat";
        assert_eq!(calls.iter().filter(writes).count(), 0, "{path}");
        seen.add(&calls, db, place);
    }
}

fn dumped_and_loaded(place: &mut Place, db: &str, seen: &mut Seen) {
    let (output, calls) = place.watched(&[], &["dump", db]);
    assert!(output.status.success(), "{output:?}");
    only_reads(&calls, db);
    seen.add(&calls, db, place);
    order::check(&calls, db);
    let (file, copy) = (place.path("dumped"), place.path("copy"));
    fs::write(&file, &output.stdout).unwrap();
    let mut load = vec!["load", &copy[..], &file];
    load.extend(engine_options());
    let (output, calls) = place.watched(&[], &load);
    assert!(output.status.success(), "{output:?}");
    seen.add(&calls, &copy, place);
    order::check(&calls, &copy);
}

/// With so little memory that what is salvaged is sorted in files.
fn repaired(place: &mut Place, db: &str, seen: &mut Seen) {
    let salvaged = place.path("salvaged");
    let to = format!("--to={salvaged}");
    let (output, calls) = place.watched(&[], &["repair", db, &to, "--memory-budget=128KiB"]);
    assert!(output.status.success(), "{output:?}");
    let sorts = |call: &&Call| {
        call.paths()
            .iter()
            .any(|p| Kind::of(p, &salvaged) == Kind::Sort)
    };
    assert!(
        calls.iter().any(|call| sorts(&call)),
        "nothing is sorted in files"
    );
    seen.add(&calls, db, place);
    seen.add(&calls, &salvaged, place);
    order::check(&calls, &salvaged);
    the_rules_are_broken_without_the_syncs(&calls, &salvaged);
}

/// As if the kill had come between the creation of a segment of the log and its first bytes: the
/// next opening removes it.
fn created_and_no_more(db: &str) {
    let entries = fs::read_dir(db).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let numbers = names.filter_map(|name| {
        let digits = name.split(['-', '.']).find(|part| part.len() == 6)?;
        digits.parse::<u64>().ok()
    });
    let next = numbers.max().unwrap() + 1;
    fs::write(format!("{db}/{next:06}.wal"), b"").unwrap();
}

/// The check of the order sees what it is for: take the syncs of one kind of file out of a trace,
/// and a rule is broken.
fn the_rules_are_broken_without_the_syncs(calls: &[Call], db: &str) {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let kinds = [Kind::Data, Kind::Directory, Kind::Manifest, Kind::Temp];
    let missed: Vec<_> = kinds
        .into_iter()
        .filter(|kind| {
            let is_sync = |call: &&Call| {
                let of_kind = call.paths().iter().any(|path| Kind::of(path, db) == *kind);
                of_kind && matches!(&call.name[..], "fsync" | "fdatasync")
            };
            let fewer: Vec<Call> = calls.iter().filter(|c| !is_sync(c)).cloned().collect();
            std::panic::catch_unwind(|| order::check(&fewer, db)).is_ok()
        })
        .collect();
    std::panic::set_hook(hook);
    assert!(missed.is_empty(), "nobody misses the syncs of {missed:?}");
}

/// What was seen, by row of the list.
#[derive(Default)]
struct Seen {
    calls: BTreeMap<&'static str, u64>,
    rows: BTreeSet<usize>,
}

impl Seen {
    fn add(&mut self, calls: &[Call], db: &str, place: &Place) {
        let mut unknown = BTreeSet::new();
        let mut has_direct_reads = false;
        // With debug assertions, the standard library asks about each descriptor before it closes
        // it.
        let asks = |call: &&Call| call.name == "fcntl" && call.flags() == ["F_GETFD"];
        for call in calls.iter().filter(|call| !asks(call)) {
            for path in &call.paths() {
                if path == db || path.starts_with(&format!("{db}/")) {
                    let kind = Kind::of(path, db);
                    let flags = call.flags();
                    match known::row(&call.name, kind, &flags) {
                        Some(row) => {
                            *self.calls.entry(row.0).or_default() += 1;
                            self.rows
                                .insert(KNOWN.iter().position(|r| r == row).unwrap());
                        }
                        None => drop(unknown.insert(format!(
                            "{} of {kind:?} with {flags:?}: {}",
                            call.name, call.args
                        ))),
                    }
                } else if !is_known_outside(path, place) {
                    unknown.insert(format!("{}: {path}", call.name));
                }
            }
            // What a ring reads is not reported; but it needs a descriptor, and has none but those
            // for that.
            has_direct_reads |= call.name == "openat" && call.flags().contains(&"O_DIRECT");
            let is_known = call.name != "io_uring_enter" || has_direct_reads;
            assert!(is_known && call.name != "sync", "{call:?}");
        }
        let unknown: Vec<_> = unknown.into_iter().take(40).collect();
        assert!(unknown.is_empty(), "not known:\n{}", unknown.join("\n"));
    }

    fn report(&self) {
        let sum: u64 = self.calls.values().sum();
        println!(
            "strace: {sum} accesses to files of the database, all known: {:?}",
            self.calls
        );
        let all = 0..KNOWN.len();
        let unseen: Vec<_> = all.filter(|row| !self.rows.contains(row)).collect();
        for row in &unseen {
            println!("strace: never seen: {:?}", KNOWN[*row]);
        }
        // What needs a crash at the right moment, a second opener or another file system may be
        // absent.
        assert!(unseen.len() <= 6, "the list knows too much");
    }
}

fn is_known_outside(path: &str, place: &Place) -> bool {
    let ours = place.path("");
    let program = env!("CARGO_BIN_EXE_unikv");
    path == program
        || path.starts_with(&ours)
        || OUTSIDE.iter().any(|(prefix, _)| path.starts_with(prefix))
        // The directories above the database, to see whether they are there.
        || PathBuf::from(&ours).starts_with(path)
}

/// Calls that a signal interrupts are taken up again: the load goes on as if nothing had been.
#[test]
#[ignore = "scripts/strace_check.sh runs it"]
fn interrupted_calls_are_taken_up_again() {
    let mut place = Place::new();
    // When: after the calls of the loader, and then every seventh or so of each thread.
    let calls = [
        ("pread64", "12+7"),
        ("pwrite64", "12+7"),
        ("fdatasync", "3+7"),
        ("fsync", "2+5"),
        ("fallocate", "2+5"),
        ("ftruncate", "1+2"),
        ("openat", "40+7"),
    ];
    for (n, (name, when)) in calls.into_iter().enumerate() {
        let (db, acks) = (
            place.path(&format!("db{n}")),
            place.path(&format!("acks{n}")),
        );
        let ack = format!("--ack-file={acks}");
        let inject = format!("inject={name}:error=EINTR:when={when}");
        let only = format!("trace={name}");
        let writer = with_options(&["crash-writer", &db, &ack], &[]);
        let (output, traced) =
            place.traced(&["--seccomp-bpf", "-e", &only, "-e", &inject], &writer);
        assert!(output.status.success(), "{name}: {output:?}");
        let hit = traced
            .iter()
            .filter(|call| call.error.as_deref() == Some("EINTR"));
        let hit = hit
            .filter(|call| call.paths().iter().any(|path| path.starts_with(&db)))
            .count();
        println!("strace: {name}: {hit} calls on files of the database interrupted");
        // How many segments of the log are written over depends on how busy the machine is.
        let least = if name == "ftruncate" { 1 } else { 3 };
        assert!(hit >= least, "{name}: {hit} calls interrupted");
        let checked = place.traced(&["-e", "trace=none"], &["check", &db]).0;
        assert!(checked.status.success(), "{name}: {checked:?}");
    }
}
