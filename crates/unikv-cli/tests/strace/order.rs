//! The order rules of durability, on a trace of one process:
//! - when an append to the manifest begins, each data file that it lists has been synced after its
//!   last write, and the directory after its creation;
//! - a file that an edit drops is unlinked only when the manifest has been synced after that edit;
//! - a segment of the log that recovery cut off has no edit: it goes at the opening, before the
//!   process begins its own, and then no later segment stays;
//! - a segment is opened for writing over it only when the edit is synced that says that it is not
//!   needed, and takes the name of a later one; none is synced while an earlier needed one is not;
//! - `CURRENT.tmp`, the manifest that it names and the directory are synced before it is renamed;
//!   nothing is unlinked before the directory is synced after the rename;
//! - a repair's mark goes when files and, after their names, the directory have been synced.

use super::known::Kind;
use super::trace::Call;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use unikv::inspect::inspect;

/// What the manifest that a process left says, by the offset of the record that says it.
#[derive(Default)]
struct Manifest {
    path: String,
    /// Files that are listed for the first time.
    listed: BTreeMap<String, u64>,
    /// Files that are dropped.
    dropped: BTreeMap<String, u64>,
    /// Low-water marks of the log.
    low_water: Vec<(u64, u64)>,
}

fn field<'a>(part: &'a unikv::inspect::Part, name: &str) -> Option<&'a str> {
    part.fields
        .iter()
        .find(|(n, _)| *n == name)
        .map(|(_, value)| &value[..])
}

/// Reads the last manifest that the trace writes.
fn manifest(calls: &[Call], db: &str) -> Option<Manifest> {
    let written = calls.iter().rev().filter(|call| call.name == "pwrite64");
    let mut paths = written.flat_map(Call::paths);
    let path = paths.find(|path| Kind::of(path, db) == Kind::Manifest)?;
    let mut found = Manifest {
        path: path.to_owned(),
        ..Manifest::default()
    };
    inspect(Path::new(&path), &mut |part| {
        let name = |suffix: &str| {
            let number = field(part, "number").and_then(|n| n.parse::<u64>().ok());
            format!("{db}/{:06}{suffix}", number.unwrap_or(u64::MAX))
        };
        match part.what {
            "+ record file" => {
                found.listed.entry(name(".rec")).or_insert(part.offset);
            }
            "+ key table" | "+ key table of the run" => {
                found.listed.entry(name(".key")).or_insert(part.offset);
            }
            "- record file" => drop(found.dropped.insert(name(".rec"), part.offset)),
            "- key table" => drop(found.dropped.insert(name(".key"), part.offset)),
            _ => {}
        }
        if let Some(number) = field(part, "log begins with") {
            found.low_water.push((number.parse().unwrap(), part.offset));
        }
    })
    .unwrap();
    Some(found)
}

/// Checks all rules on the trace of one process, whose database is as it left it.
pub fn check(calls: &[Call], db: &str) {
    // A check changes nothing.
    let Some(manifest) = manifest(calls, db) else {
        return;
    };
    let mut state = State::new(manifest, db);
    for call in calls.iter().filter(|call| call.succeeded()) {
        state.step(call);
    }
    println!(
        "strace: {} listings and {} removals in order, {} syncs of the log, {} segments written over",
        state.listings, state.removals, state.log_syncs, state.recycled
    );
}

struct State<'a> {
    db: &'a str,
    manifest: Manifest,
    /// Where the manifest ends, and what of it is synced; the lines of its writes.
    manifest_end: u64,
    manifest_synced: u64,
    /// Per file that was created: the line of the creation, of the last write, of the last sync.
    created: BTreeMap<String, usize>,
    written: BTreeMap<String, usize>,
    synced: BTreeMap<String, usize>,
    directory_synced: Option<usize>,
    renamed: Option<usize>,
    checked: BTreeSet<String>,
    /// Segments of the log from earlier processes that are there, and those that went without an
    /// edit, until the process begins its own.
    found: BTreeSet<String>,
    cut_off: BTreeSet<String>,
    log_begun: bool,
    listings: u64,
    removals: u64,
    log_syncs: u64,
    recycled: u64,
}

impl<'a> State<'a> {
    fn new(manifest: Manifest, db: &'a str) -> State<'a> {
        State {
            db,
            manifest,
            manifest_end: 0,
            manifest_synced: 0,
            created: BTreeMap::new(),
            written: BTreeMap::new(),
            synced: BTreeMap::new(),
            directory_synced: None,
            renamed: None,
            checked: BTreeSet::new(),
            found: BTreeSet::new(),
            cut_off: BTreeSet::new(),
            log_begun: false,
            listings: 0,
            removals: 0,
            log_syncs: 0,
            recycled: 0,
        }
    }

    fn step(&mut self, call: &Call) {
        let paths = call.paths();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let Some(path) = paths.iter().find(|path| path.starts_with(self.db)) else {
            return;
        };
        let kind = Kind::of(path, self.db);
        match &call.name[..] {
            "openat" if call.flags().contains(&"O_CREAT") => {
                self.created.insert((*path).to_owned(), call.end);
                if kind == Kind::Wal && !self.log_begun {
                    self.began_log(call);
                }
            }
            "openat" if kind == Kind::Wal && call.flags().contains(&"O_RDWR") => {
                let at = self.unneeded_by(path);
                assert!(
                    at.is_some_and(|at| at < self.manifest_synced),
                    "{path} is written over before its edit is durable: {call:?}"
                );
            }
            "openat" if kind == Kind::Wal && !self.log_begun => {
                self.found.insert((*path).to_owned());
            }
            "pwrite64" => self.wrote(path, call),
            "fdatasync" if kind == Kind::Wal => self.synced_log(path, call),
            "fdatasync" => {
                self.synced.insert((*path).to_owned(), call.begin);
                if *path == self.manifest.path {
                    self.manifest_synced = self.manifest_end;
                }
            }
            "fsync" if kind == Kind::Directory => {
                self.directory_synced = Some(call.begin);
            }
            "renameat" if kind == Kind::Wal => self.renamed_log(&paths, call),
            "renameat" if [Kind::Hints, Kind::Figures].contains(&kind) => {}
            "renameat" => self.renamed_current(call),
            "unlinkat" => self.unlinked(path, kind, call),
            _ => {}
        }
    }

    /// Whether `path` was synced after its last write.
    fn is_synced(&self, path: &str) -> bool {
        match (self.written.get(path), self.synced.get(path)) {
            (None, _) => true,
            (Some(written), Some(synced)) => written < synced,
            (Some(_), None) => false,
        }
    }

    fn wrote(&mut self, path: &str, call: &Call) {
        if path != self.manifest.path {
            self.written.insert(path.to_owned(), call.end);
            return;
        }
        let begin = self.manifest_end;
        self.manifest_end += u64::try_from(call.returned.unwrap_or(0)).unwrap();
        let listed = self.manifest.listed.iter();
        let now = listed.filter(|(_, at)| (begin..self.manifest_end).contains(at));
        for (file, _) in now {
            let Some(created) = self.created.get(file) else {
                continue; // From an earlier process.
            };
            assert!(
                self.is_synced(file),
                "{file} is listed and not synced: {call:?}"
            );
            let name = self
                .directory_synced
                .is_some_and(|synced| synced > *created);
            assert!(name, "{file} is listed and its name not synced: {call:?}");
            self.listings += 1;
        }
        self.written.insert(path.to_owned(), call.end);
    }

    fn began_log(&mut self, call: &Call) {
        self.log_begun = true;
        let in_order = match (self.found.last(), self.cut_off.first()) {
            (Some(kept), Some(cut_off)) => kept < cut_off,
            _ => true,
        };
        let (kept, cut_off) = (&self.found, &self.cut_off);
        assert!(in_order, "{cut_off:?} went and {kept:?} stay: {call:?}");
    }

    fn synced_log(&mut self, path: &str, call: &Call) {
        let is_needed = |file: &str| {
            self.unneeded_by(file)
                .is_none_or(|at| at >= self.manifest_synced)
        };
        let earlier = self.written.keys().filter(|file| {
            Kind::of(file, self.db) == Kind::Wal && &file[..] < path && is_needed(file)
        });
        for file in earlier {
            assert!(
                self.is_synced(file),
                "{path} is synced before {file}: {call:?}"
            );
        }
        self.synced.insert(path.to_owned(), call.begin);
        self.log_syncs += 1;
    }

    /// The place of the edit that makes this segment of the log unnecessary.
    fn unneeded_by(&self, path: &str) -> Option<u64> {
        let number = segment_number(path);
        let mut above = self.manifest.low_water.iter();
        above
            .find(|(low_water, _)| *low_water > number)
            .map(|(_, at)| *at)
    }

    /// What is written to a segment from now on counts for its new name.
    fn renamed_log(&mut self, paths: &[&str], call: &Call) {
        let [old, new] = paths else {
            panic!("a rename of two paths: {call:?}");
        };
        assert!(segment_number(old) < segment_number(new), "{call:?}");
        for files in [&mut self.written, &mut self.synced] {
            if let Some(at) = files.remove(*old) {
                files.insert((*new).to_owned(), at);
            }
        }
        self.recycled += 1;
    }

    fn renamed_current(&mut self, call: &Call) {
        let temp = format!("{}/CURRENT.tmp", self.db);
        assert!(
            self.is_synced(&temp),
            "CURRENT is renamed and not synced: {call:?}"
        );
        let manifests = self.created.iter();
        let manifests = manifests.filter(|(path, _)| Kind::of(path, self.db) == Kind::Manifest);
        if let Some((manifest, created)) = manifests.max_by_key(|(_, line)| **line) {
            assert!(
                self.is_synced(manifest),
                "{manifest} is named and not synced: {call:?}"
            );
            let name = self
                .directory_synced
                .is_some_and(|synced| synced > *created);
            assert!(
                name,
                "{manifest} is named and its name not synced: {call:?}"
            );
        }
        self.renamed = Some(call.end);
    }

    /// Nothing that was saved is in the log.
    fn unmarked(&self, call: &Call) {
        for (file, at) in &self.manifest.listed {
            let durable = self.is_synced(file) && *at < self.manifest_synced;
            assert!(durable, "{file} or its listing is not synced: {call:?}");
        }
        let named = self.created.values().chain(&self.renamed).max();
        assert!(
            self.directory_synced.as_ref() > named,
            "the names of the salvaged database are not durable: {call:?}"
        );
    }

    fn unlinked(&mut self, path: &str, kind: Kind, call: &Call) {
        self.written.remove(path);
        self.found.remove(path);
        if kind == Kind::Mark {
            self.unmarked(call);
        }
        if !matches!(kind, Kind::Manifest | Kind::Wal | Kind::Data) {
            return;
        }
        if let Some(renamed) = self.renamed {
            let durable = self.directory_synced.is_some_and(|synced| synced > renamed);
            assert!(durable, "{path} goes before CURRENT is durable: {call:?}");
        }
        let reason = match kind {
            Kind::Data => self.manifest.dropped.get(path).copied(),
            Kind::Wal => self.unneeded_by(path),
            _ => None,
        };
        // What no edit names was never listed: orphan files of an earlier process, or a manifest.
        if let Some(at) = reason {
            if kind == Kind::Wal && !self.log_begun && at >= self.manifest_synced {
                self.cut_off.insert(path.to_owned());
                return;
            }
            assert!(
                at < self.manifest_synced,
                "{path} goes before its edit is durable: {call:?}"
            );
            assert!(self.checked.insert(path.to_owned()), "{path} goes twice");
            self.removals += 1;
        }
    }
}

/// The number in the name of a segment of the log.
fn segment_number(path: &str) -> u64 {
    let name = Path::new(path).file_stem().and_then(|stem| stem.to_str());
    name.and_then(|name| name.parse().ok()).unwrap()
}
