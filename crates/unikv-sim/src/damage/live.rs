//! A database that lives on with a damaged file, and then gets it back.

use super::Tally;
use super::exam::{ALL, explains};
use super::plan::{Damage, What};
use super::reads::failed_reads;
use super::specimen::{Specimen, extension};
use crate::oracle::State;
use crate::runner::{DIR, env};
use crate::spaces::{self, NAMES, key_in};
use crate::value::{Value, show, show_option};
use crate::verify;
use std::path::Path;
use std::sync::Arc;
use unikv::vfs::sim::{SimRuntime, SimVfs};
use unikv::{Db, Snapshot};

/// Whether jobs can meet this damage, and the file get its bytes back: one in place, of a file that
/// is not made again by an opening, as those of the other kinds are.
pub(super) fn can_work(specimen: &Specimen, damage: &Damage) -> bool {
    let in_place = matches!(damage.what, What::Byte | What::Swap | What::Foreign);
    let is_listed = specimen.files.contains_key(&damage.path);
    in_place && is_listed && ["rec", "key"].contains(&&extension(&damage.path)[..])
}

/// Lets jobs run on a database with this damage; every other one is damaged after it was opened.
pub(super) fn live_on(specimen: &Specimen, damage: &Damage, number: u64, tally: &mut Tally) {
    let facts = &specimen.files[&damage.path];
    let damaged = damage.bytes.as_ref().expect("a file");
    let disk = specimen.disk.process_kill();
    let before = number.is_multiple_of(2);
    if before {
        set_bytes(&disk, &damage.path, damaged);
    }
    let runtime = specimen.oracle.times.runtime(number);
    let opened = Db::open(DIR, specimen.config.options().env(env(&disk, &runtime)));
    let db = opened.expect("it has opened before");
    let mut state = specimen.state.clone();
    if !before {
        set_bytes(&disk, &damage.path, damaged);
    }
    failed_reads(specimen, damage, &db, ALL);
    let mut life = Life {
        specimen,
        damage,
        db,
        runtime,
        failures: 0,
    };
    let snapshot = life.db.snapshot();
    let then = spaces::own(&state, 0);
    life.work(&mut state);
    life.compare("after jobs", &state, true);
    life.compare_snapshot(&snapshot, &then, true);
    // The file as it was, if jobs have left it.
    set_bytes(&disk, &damage.path, &facts.bytes);
    life.compare("with the file as it was", &state, false);
    life.compare_snapshot(&snapshot, &then, false);
    drop(snapshot);
    // What has failed may fail to be reported again at closing.
    let failures = life.failures;
    let closed = life.db.close();
    if let Err(error) = closed {
        assert!(explains(specimen, damage, &error), "closing: {error:?}");
    }
    let times = &specimen.oracle.times;
    let (db, _runtime) = verify::open_at(&disk, &specimen.config, number ^ 1, times);
    let found = spaces::whole(&db, false).expect("a scan");
    verify::same_pairs("after another opening", &found, &state);
    db.compact().expect("a compaction");
    let found = spaces::whole(&db, false).expect("a scan");
    verify::same_pairs("after a compaction", &found, &state);
    db.close().expect("a close");
    verify::check_clean(&disk);
    tally.live += 1;
    tally.live_failures += failures;
}

/// Changes the bytes of a file in place, as a medium does; one that is gone stays gone.
fn set_bytes(disk: &SimVfs, path: &Path, wanted: &[u8]) {
    let now = disk.read_file(path).unwrap_or_default();
    for (at, (is, wanted)) in now.iter().zip(wanted).enumerate() {
        let differs = is ^ wanted;
        let bits = (0..8).filter(|bit| differs >> bit & 1 == 1);
        for bit in bits {
            disk.flip_bit(path, at as u64 * 8 + bit);
        }
    }
}

struct Life<'a> {
    specimen: &'a Specimen,
    damage: &'a Damage,
    db: Db,
    runtime: Arc<SimRuntime>,
    failures: u64,
}

impl Life<'_> {
    /// A call that may fail for the damage alone.
    fn may<T>(&mut self, what: &str, result: unikv::Result<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                let why = format!("{what} fails and does not say why: {error:?}");
                assert!(explains(self.specimen, self.damage, &error), "{why}");
                self.failures += 1;
                None
            }
        }
    }

    /// Writes, and every job there is.
    fn work(&mut self, state: &mut State) {
        for round in 0..3u32 {
            for n in (round..60).step_by(4) {
                let key = super::maker::key(n % 50);
                let stamp = 0xdd_0000 + round * 100 + n;
                let value = Value::new(stamp, 40).bytes();
                let put = self.db.put(&key, &value);
                if self.may("a put", put).is_some() {
                    state.insert(key, value);
                }
            }
            self.write_to_keyspaces(round, state);
            let flushed = self.db.flush();
            self.may("a flush", flushed);
            for _ in 0..3 {
                let mut scanned = vec![self.db.iter()];
                let keyspaces = NAMES.iter().filter_map(|name| self.db.find_keyspace(name));
                scanned.extend(keyspaces.map(|keyspace| keyspace.iter()));
                for mut iter in scanned {
                    let scanned = iter.try_for_each(|pair| pair.map(drop));
                    self.may("a scan", scanned);
                }
                self.runtime.run_until_idle();
            }
            let done = match round {
                0 => self.db.wait_until_idle(),
                1 => self.db.collect_garbage(),
                _ => self.db.compact(),
            };
            self.may("a job", done);
        }
    }

    /// One write to each keyspace.
    fn write_to_keyspaces(&mut self, round: u32, state: &mut State) {
        for (i, name) in NAMES.iter().enumerate() {
            let Some(keyspace) = self.db.find_keyspace(name) else {
                continue;
            };
            let n = round * 3 + i as u32;
            let value = Value::new(0xde_0000 + n, 40).bytes();
            let key = super::maker::key(n);
            let put = keyspace.put(&key, &value);
            if self.may("a put in a keyspace", put).is_some() {
                state.insert(key_in(name, &key), value);
            }
        }
    }

    fn compare(&mut self, when: &str, state: &State, may_fail: bool) {
        if may_fail {
            let specimen = self.specimen;
            for key in &specimen.keys {
                let got = spaces::get(&self.db, key);
                if let Some(got) = self.may("a get", got) {
                    same(when, key, got.as_deref(), state);
                }
            }
            return;
        }
        let found = spaces::whole(&self.db, false);
        let found = found.unwrap_or_else(|err| panic!("{when}, a scan fails: {err:?}"));
        verify::same_pairs(when, &found, state);
        let back = spaces::whole_back(&self.db);
        let back = back.unwrap_or_else(|err| panic!("{when}, a scan fails: {err:?}"));
        verify::same_pairs(when, &back, state);
        for key in &self.specimen.keys {
            let got = spaces::get(&self.db, key);
            let got = got.unwrap_or_else(|err| panic!("{when}, a get fails: {err:?}"));
            same(when, key, got.as_deref(), state);
        }
    }

    /// Compares what a snapshot holds of the default keyspace.
    fn compare_snapshot(&mut self, snapshot: &Snapshot, then: &State, may_fail: bool) {
        for key in self.specimen.keys.iter().filter(|key| spaces::is_own(key)) {
            let got = if may_fail {
                self.may("a get of a snapshot", snapshot.get(key))
            } else {
                Some(snapshot.get(key).expect("a get of a snapshot"))
            };
            if let Some(got) = got {
                same("in a snapshot", key, got.as_deref(), then);
            }
        }
        let scanned = verify::scan(snapshot.iter());
        let found = if may_fail {
            self.may("a scan of a snapshot", scanned)
        } else {
            Some(scanned.expect("a scan of a snapshot"))
        };
        if let Some(found) = found {
            verify::same_pairs("in a snapshot", &found, then);
        }
    }
}

fn same(when: &str, key: &[u8], got: Option<&[u8]>, state: &State) {
    let want = state.get(key).map(|value| &value[..]);
    let (key, got_text, want_text) = (show(key), show_option(got), show_option(want));
    assert!(
        got == want,
        "{when}, get of {key}: {got_text}, not {want_text}"
    );
}
