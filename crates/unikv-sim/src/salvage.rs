//! A repair, and the verdict on it: what it saved must be right, and what it did not save must be
//! reported.

use crate::oracle::State;
use crate::runner::{DIR, env};
use crate::spaces::{self, NAMES, key_in};
use crate::times::Times;
use crate::value::{Bytes, show};
use crate::verify;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use unikv::vfs::sim::{SimRuntime, SimVfs};
use unikv::{Db, Options, RepairOptions, RepairReport, RepairTrust};

/// Where the salvaged database goes.
pub const TO: &str = "/new";

/// What is known of a database that was damaged.
pub trait Truth {
    /// What it held.
    fn state(&self) -> &State;
    /// Whether the key ever had this value, with this expiry.
    fn had(&self, key: &[u8], value: &Bytes) -> bool;
    /// The numbers that its keyspaces have had, and their names.
    fn numbers(&self) -> &[(u32, &'static str)] {
        &[]
    }
    /// What time it is.
    fn times(&self) -> Times {
        Times::default()
    }
}

/// What a repair gave.
pub struct Salvaged {
    /// What it says.
    pub report: RepairReport,
    /// What the salvaged database holds. A keyspace of which only the number is known stands there
    /// under the name that it had, if it was there in the end.
    pub pairs: State,
    /// Keys that were there and are not there any more.
    pub missing: Vec<Vec<u8>>,
    /// Keys that have another value than they had in the end, or should not be there.
    pub stale: Vec<Vec<u8>>,
    numbers: Vec<(u32, &'static str)>,
}

/// The files of the damaged database but for those whose bytes mean nothing, and their bytes.
pub fn contents(disk: &SimVfs) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = disk.file_names();
    let means_nothing = |path: &PathBuf| path.ends_with("LOCK") || path.ends_with("BALLAST");
    all.retain(|path| path.starts_with(DIR) && !means_nothing(path));
    let with_bytes = |path: PathBuf| disk.read_file(&path).map(|bytes| (path, bytes));
    all.into_iter().filter_map(with_bytes).collect()
}

/// Repairs the database into [`TO`]. Asserts that it stays as it is, that the salvaged one is
/// sound, and that it holds nothing but values that its keys once had. A repair that fails must
/// leave nothing.
///
/// # Errors
/// As the repair.
pub fn repair(
    disk: &SimVfs,
    options: &RepairOptions,
    truth: &impl Truth,
) -> unikv::Result<Salvaged> {
    let runtime = truth.times().runtime(11);
    let before = contents(disk);
    let report = Db::repair(DIR, TO, &options.clone().env(env(disk, &runtime)));
    let unchanged = contents(disk) == before;
    assert!(unchanged, "the damaged directory has changed");
    let left = disk.file_names().into_iter().filter(|p| p.starts_with(TO));
    let report = report.inspect_err(|_| assert_eq!(left.count(), 0, "files are left"))?;
    Ok(judge(disk, report, truth))
}

/// Looks at what a repair has written.
pub fn judge(disk: &SimVfs, report: RepairReport, truth: &impl Truth) -> Salvaged {
    let open = |disk: &SimVfs, runtime: &Arc<SimRuntime>| {
        let options = Options::default().env(env(disk, runtime));
        let opened = Db::open_existing(TO, options);
        opened.unwrap_or_else(|err| panic!("what was salvaged does not open: {err:?}"))
    };
    // So early that what jobs may not destroy yet shows.
    let runtime = SimRuntime::new(12);
    runtime.set_wall_clock_ms(1);
    let early = truth
        .times()
        .matters
        .then(|| open(&disk.process_kill(), &runtime));
    let in_all = early.map(|db| held(&db, truth).expect("a scan"));
    let db = open(disk, &truth.times().runtime(11));
    let held = held(&db, truth);
    let held = held.unwrap_or_else(|err| panic!("what was salvaged cannot be read: {err:?}"));
    let names: BTreeSet<String> = db.keyspaces().into_iter().skip(1).collect();
    db.close().expect("a close");
    let reported: BTreeSet<String> = report.keyspaces.iter().cloned().collect();
    assert_eq!(names, reported, "{report:#?}");
    let saved = in_all.as_ref().unwrap_or(&held);
    let saved = saved.iter().flat_map(|(_, records)| records);
    let saved = saved.filter(|(key, _)| !spaces::is_presence(key));
    assert_eq!(saved.count() as u64, report.saved, "{report:#?}");
    let mut pairs = State::new();
    for (standing, records) in held {
        if standing != Standing::Listed {
            assert!(report.unlisted_keyspaces > 0, "{report:#?}");
            assert!(!report.is_complete(), "{report:#?}");
            assert!(report.in_doubt >= records.len() as u64, "{report:#?}");
        }
        for (key, value) in records {
            let had = truth.had(&key, &value);
            let (key_text, value_text) = (show(&key), show(&value));
            let end = value.expiry_ms;
            assert!(
                had,
                "{key_text} never was {value_text} until {end:?}: {report:#?}"
            );
            if standing != Standing::Older {
                pairs.entry(key).or_insert(value);
            }
        }
    }
    let state = truth.state();
    let missing = state.keys().filter(|key| !pairs.contains_key(*key));
    let stale = pairs
        .iter()
        .filter(|(key, value)| state.get(*key) != Some(value));
    Salvaged {
        report,
        missing: missing.cloned().collect(),
        stale: stale.map(|(key, _)| key.clone()).collect(),
        pairs,
        numbers: truth.numbers().to_vec(),
    }
}

/// What is known of a salvaged keyspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Its name.
    Listed,
    /// Its number, which is that of a keyspace which was there in the end.
    ByNumber,
    /// Its number, and that keyspace was dropped or emptied.
    Older,
}

/// What each keyspace of the salvaged database holds, the default one first, with keys as the
/// oracle has them.
fn held(db: &Db, truth: &impl Truth) -> unikv::Result<Vec<(Standing, State)>> {
    let matters = truth.times().matters;
    let own = spaces::content_of(db, db, verify::scan, matters)?;
    let mut all = vec![(Standing::Listed, own)];
    for called in db.keyspaces().iter().skip(1) {
        let keyspace = db.find_keyspace(called).expect("a keyspace that is listed");
        let (standing, name) = who_is(called, truth);
        let records = spaces::content_of(db, &keyspace, verify::scan, matters)?;
        let records = records.into_iter();
        let mut records: State = records
            .map(|(key, value)| (key_in(name, &key), value))
            .collect();
        if standing == Standing::Listed {
            let presence = spaces::presence(name);
            let value = spaces::get(db, &presence)?.expect("a keyspace that is listed");
            records.insert(presence, value[..].into());
        }
        all.push((standing, records));
    }
    Ok(all)
}

/// Which keyspace this name of a salvaged one means.
fn who_is(called: &str, truth: &impl Truth) -> (Standing, &'static str) {
    if let Some(name) = NAMES.into_iter().find(|name| *name == called) {
        return (Standing::Listed, name);
    }
    let number = called.strip_prefix("recovered-");
    let number: Option<u32> = number.and_then(|number| number.parse().ok());
    let numbers = truth.numbers().iter();
    let mut of_number = numbers.clone().filter(|(of, _)| Some(*of) == number);
    let Some((number, name)) = of_number.next() else {
        panic!("the keyspace {called} never was");
    };
    let newest = numbers.filter(|(_, of)| of == name).map(|(of, _)| of).max();
    if newest == Some(number) && spaces::is_there(truth.state(), name) {
        (Standing::ByNumber, *name)
    } else {
        (Standing::Older, *name)
    }
}

/// Keys for a person.
pub fn show_keys(keys: &[Vec<u8>]) -> String {
    let keys = keys.iter().map(|key| key.escape_ascii().to_string());
    keys.collect::<Vec<_>>().join(" ")
}

impl Salvaged {
    /// Asserts that every key is as it was.
    pub fn assert_exact(&self, what: &str) {
        let Salvaged { missing, stale, .. } = self;
        assert!(missing.is_empty(), "{what}: missing {}", show_keys(missing));
        assert!(stale.is_empty(), "{what}: stale {}", show_keys(stale));
    }

    /// Whether the report says that records of this key may be missing.
    pub fn in_lost_range(&self, key: &[u8]) -> bool {
        self.report.lost_ranges.iter().any(|range| {
            let user_key = &key[spaces::prefix_of(key).len()..];
            let is_before_end = range.to.as_ref().is_none_or(|to| user_key <= &to[..]);
            self.is_in(key, &range.keyspace) && &range.from[..] <= user_key && is_before_end
        })
    }

    /// Whether the report may call the keyspace of this key so.
    fn is_in(&self, key: &[u8], called: &str) -> bool {
        let Some(name) = spaces::name_of(key) else {
            return called == "default";
        };
        let mut numbers = self.numbers.iter().filter(|(_, of)| *of == name);
        called == name || numbers.any(|(number, _)| called == format!("recovered-{number}"))
    }

    /// Whether a place in the report is this key.
    fn is_it(&self, key: &[u8], (called, user_key): (&str, &[u8])) -> bool {
        self.is_in(key, called) && &key[spaces::prefix_of(key).len()..] == user_key
    }

    /// Asserts that nothing is lost or out of date without a word.
    pub fn must_report(&self) {
        let report = &self.report;
        let log = !report.log.gaps.is_empty() || report.log.cut.is_some();
        let is_presence = |key: &&Vec<u8>| spaces::is_presence(key);
        for key in self.missing.iter().chain(&self.stale).filter(is_presence) {
            let is_sure = report.trust == RepairTrust::Manifest;
            assert!(!is_sure, "the keyspace of {}: {report:#?}", show(key));
        }
        for key in self.missing.iter().filter(|key| !is_presence(key)) {
            let mut lost = report.lost_keys.iter();
            let lost = lost.any(|lost| self.is_it(key, (&lost.keyspace, &lost.key)));
            let mut uncertain = report.uncertain_keys.iter();
            let uncertain = uncertain.any(|k| self.is_it(key, (&k.keyspace, &k.key)));
            let reported = lost || uncertain || self.in_lost_range(key) || log;
            assert!(reported, "{} is missing: {report:#?}", show(key));
        }
        for key in self.stale.iter().filter(|key| !is_presence(key)) {
            let reported = (report.in_doubt > 0 && self.in_lost_range(key)) || log;
            let reported = reported || report.log.batches_dropped > 0;
            let reported =
                reported || (report.trust != RepairTrust::Manifest && report.in_doubt > 0);
            assert!(reported, "{} is stale: {report:#?}", show(key));
        }
        if !self.missing.is_empty() || !self.stale.is_empty() {
            let cut = report.log.cut.is_some();
            assert!(!report.is_complete() || cut, "{report:#?}");
        }
    }
}
