//! Exports: each must hold what the database held of its range, whatever becomes of the machine,
//! and an import stores exactly that, or nothing of a file that is damaged.

use super::super::time::find;
use super::{Copies, Interrupt, Runner, env, fork};
use crate::history::{Key, Range, Source};
use crate::oracle::{Change, Ending, State};
use crate::spaces::{self, NAMES, key_in};
use crate::times::moved_end;
use crate::value::Bytes;
use crate::verify::{same_pairs, scan};
use std::ops::RangeBounds;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use unikv::vfs::sim::{SimRuntime, SimVfs};
use unikv::{Db, ErrorKind, Export, ExportFile, Keyspace, Options};

/// Where exports are imported, on a copy of the disk.
const IMPORTED: &str = "/imported";
/// One import in this many has a damaged file before it.
const DAMAGED_EVERY: usize = 3;

/// An export, and what it must hold.
#[derive(Clone, Debug)]
pub(super) struct Exported {
    path: PathBuf,
    entries: Arc<State>,
    /// Those that had expired by then need not be in it.
    optional_ms: u64,
    /// When it was made.
    time_ms: u64,
    /// The call that made it has returned, so that it must be there.
    is_made: bool,
    /// The bytes that were imported and right: the same bytes are right again.
    right: Arc<OnceLock<Vec<u8>>>,
}

impl Exported {
    fn is_there(&self, disk: &SimVfs) -> bool {
        disk.read_file(&self.path).is_some()
    }

    /// It is whole, if it is there. What is left of an attempt is whole, or refused.
    fn verify(&self, disk: &SimVfs) {
        let Some(bytes) = disk.read_file(&self.path) else {
            let gone = "was acknowledged and is gone";
            assert!(!self.is_made, "{:?} {gone}", self.path);
            return self.verify_left(disk);
        };
        if self.right.get() == Some(&bytes) {
            return;
        }
        let disk = fork(disk, Ending::Kill);
        let found = self.imported(&disk, &self.path);
        let found = found.unwrap_or_else(|err| panic!("{:?} is broken: {err}", self.path));
        self.is_what(&found);
        // Whoever was first has set the same.
        let _was_first = self.right.set(bytes);
    }

    fn verify_left(&self, disk: &SimVfs) {
        let begin = format!("{}.", self.path.display());
        let is_left = |path: &PathBuf| path.to_string_lossy().starts_with(&begin);
        for left in disk.file_names().into_iter().filter(is_left) {
            let disk = fork(disk, Ending::Kill);
            match self.imported(&disk, &left) {
                Ok(found) => self.is_what(&found),
                // The power cut has torn its header.
                Err(err) if err.kind() == ErrorKind::Incompatible => {
                    assert_eq!(err.file(), Some(&*left), "{err}");
                }
                Err(err) => assert_damage(&err, &left),
            }
        }
    }

    fn is_what(&self, found: &State) {
        let must_be_there = |value: &Bytes| {
            let ended = |end_ms| end_ms <= self.optional_ms;
            !value.expiry_ms.is_some_and(ended)
        };
        let mut wanted = State::clone(&self.entries);
        wanted.retain(|key, value| must_be_there(value) || found.contains_key(key));
        same_pairs("an export", found, &wanted);
        let ends = |state: &State| state.values().map(|it| it.expiry_ms).collect::<Vec<_>>();
        assert_eq!(ends(found), ends(&wanted), "when it expires");
    }

    /// What a disk has of it.
    fn found(&self, disk: &SimVfs) -> State {
        let found = self.imported(&fork(disk, Ending::Kill), &self.path);
        found.unwrap_or_else(|err| panic!("{:?} is broken: {err}", self.path))
    }

    /// What a new database holds that has imported the file.
    fn imported(&self, disk: &SimVfs, path: &Path) -> unikv::Result<State> {
        // Little space is no matter of what is in it.
        disk.set_free_space(None);
        // So early that nothing has expired.
        let runtime = SimRuntime::new(7);
        runtime.set_wall_clock_ms(1);
        let file = env(disk, &runtime).open_export(path)?;
        let options = Options::default();
        let db = Db::open(IMPORTED, options.env(env(disk, &runtime)))?;
        let done = db.import(&file);
        if let Err(err) = done {
            assert!(db.iter().next().is_none(), "a part was imported: {err}");
            return Err(err);
        }
        let expires = self.entries.values().any(|value| value.expiry_ms.is_some());
        let found = spaces::content_of(&db, &db, scan, expires)?;
        assert_eq!(done?.records, found.len() as u64, "{path:?}");
        Ok(found)
    }
}

/// An error that names the place in the file where it is damaged.
fn assert_damage(err: &unikv::Error, path: &Path) {
    let is_named = err.file() == Some(path) && err.offset().is_some();
    assert!(err.kind() == ErrorKind::Corruption && is_named, "{err}");
}

impl Copies {
    /// Asserts that each export on a disk is whole, and that all are there that must be.
    pub(super) fn verify_exports(&self, disk: &SimVfs) {
        // The newest two have met all that their like can meet.
        let newest = self.exports.iter().rev().take(2);
        newest.for_each(|exported| exported.verify(disk));
    }

    /// Forgets the exports that need not be there and are not.
    pub(super) fn resolve_exports(&mut self, disk: &SimVfs) {
        self.exports.retain(|it| it.is_made || it.is_there(disk));
    }
}

impl Runner {
    /// Exports a range, unless nobody knows what is in it.
    pub(super) fn export(&mut self, source: Source, range: &Range) -> Result<(), Interrupt> {
        if self.oracle.unknowns() > 0 {
            return self.check_all();
        }
        let (state, time_ms) = (self.oracle.state(), self.time());
        let keyspace = match source {
            Source::Space(name) => find(self.db(), Some(NAMES[name])),
            _ => Some(None),
        };
        let Some(keyspace) = keyspace else {
            return Ok(());
        };
        let mut entries = match source {
            // Also what does not show.
            Source::Own => spaces::own(state, 0),
            Source::Space(name) => spaces::within(state, NAMES[name], 0),
            Source::Snapshot(slot) => match &self.snapshots[slot] {
                Some(held) => spaces::own(&held.all, 0),
                None => return Ok(()),
            },
        };
        let bounds = range.bounds();
        entries.retain(|key, _| bounds.contains(&Key(key.clone())));
        self.copies.begun += 1;
        let path = PathBuf::from(format!("/export{}", self.copies.begun));
        let of_snapshot = match source {
            Source::Snapshot(slot) => self.snapshots[slot].as_ref().map(|held| held.time_ms),
            _ => None,
        };
        self.copies.exports.push(Exported {
            path: path.clone(),
            entries: Arc::new(entries),
            optional_ms: time_ms,
            time_ms: of_snapshot.unwrap_or(time_ms),
            is_made: false,
            right: Arc::default(),
        });
        self.report(None);
        let made = match (source, keyspace) {
            (Source::Snapshot(slot), _) => {
                let held = self.snapshots[slot].as_ref();
                let held = held.expect("it was there just now");
                held.snapshot.export(bounds, &path)
            }
            (_, Some(keyspace)) => keyspace.export(bounds, &path),
            _ => self.db().export(bounds, &path),
        };
        let made = self.may("an export", made);
        self.note_time();
        let destroyed_ms = self.oracle.times.destroyed_ms;
        if let Some(exported) = self.copies.exports.last_mut() {
            exported.is_made = matches!(made, Ok(Some(_)));
            exported.optional_ms = of_snapshot.unwrap_or(0).max(destroyed_ms);
            exported.verify(&fork(&self.vfs, Ending::Kill));
            if let Ok(Some(made)) = &made {
                if self.oracle.times.matters {
                    // From now on it is known exactly.
                    exported.entries = Arc::new(exported.found(&self.vfs));
                    exported.optional_ms = 0;
                }
                let count = exported.entries.len() as u64;
                assert_eq!(made.records, count, "records of an export");
                self.coverage.exports += 1;
            }
        }
        self.report(None);
        made.map(drop)
    }

    /// Imports one of the exports into a keyspace.
    pub(super) fn import(&mut self, number: usize, into: Option<usize>) -> Result<(), Interrupt> {
        if self.oracle.unknowns() > 0 {
            return self.check_all();
        }
        let made = self.copies.exports.iter().filter(|it| it.is_made);
        let made: Vec<_> = made.cloned().collect();
        let name = into.map(|name| NAMES[name]);
        let Some(keyspace) = find(self.db(), name) else {
            return Ok(());
        };
        let Some(exported) = made.get(number % made.len().max(1)) else {
            return Ok(());
        };
        if number.is_multiple_of(DAMAGED_EVERY) {
            self.import_damaged(exported, keyspace.as_ref())?;
        }
        let now_ms = self.time();
        let changes = exported.entries.iter().map(|(key, value)| -> Change {
            let key = name.map_or_else(|| key.clone(), |name| key_in(name, key));
            let mut value = value.clone();
            let end = value.expiry_ms;
            value.expiry_ms = end.map(|end| moved_end(end, exported.time_ms, now_ms));
            (key, Some(value))
        });
        let changes: Vec<Change> = changes.collect();
        let syncs = !changes.is_empty();
        let opened = env(&self.vfs, &self.runtime).open_export(&exported.path);
        let Some(file) = self.may("opening an export", opened)? else {
            return Ok(());
        };
        let import = |runner: &Runner| runner.import_into(keyspace.as_ref(), &file).map(drop);
        if self.change("an import", changes, import, syncs)? {
            self.coverage.imports += 1;
        }
        Ok(())
    }

    /// A copy with a byte that is another one, or without its end, is refused; later reads show
    /// that nothing of it was stored.
    fn import_damaged(
        &mut self,
        exported: &Exported,
        keyspace: Option<&Keyspace>,
    ) -> Result<(), Interrupt> {
        let Some(mut bytes) = self.vfs.read_file(&exported.path) else {
            return Ok(());
        };
        let at = self.step.wrapping_mul(0x9e37_79b9) % bytes.len();
        if self.step.is_multiple_of(2) {
            bytes[at] ^= 1 << (self.step % 8)
        } else {
            bytes.truncate(at)
        }
        let path = exported.path.with_extension("damaged");
        self.vfs.write_file(&path, &bytes);
        let imported = env(&self.vfs, &self.runtime)
            .open_export(&path)
            .and_then(|file| self.import_into(keyspace, &file));
        match imported {
            Ok(_) => panic!("a damaged export is imported: byte {at} of {path:?}"),
            Err(err) if err.kind() == ErrorKind::Corruption => assert_damage(&err, &path),
            Err(err) => drop(self.may::<()>("a damaged import", Err(err))?),
        }
        Ok(())
    }

    fn import_into(&self, keyspace: Option<&Keyspace>, file: &ExportFile) -> unikv::Result<Export> {
        match keyspace {
            Some(keyspace) => keyspace.import(file),
            None => self.db().import(file),
        }
    }
}
