//! A repair, and the verdict on it: what it saved must be right, and what it did not save must be
//! reported.

use crate::oracle::State;
use crate::runner::{DIR, env};
use crate::spaces;
use crate::times::Times;
use crate::value::{Bytes, show};
use crate::verify;
use std::path::PathBuf;
use unikv::vfs::sim::SimVfs;
use unikv::{Db, Options, RepairOptions, RepairReport, RepairTrust};

/// Where the salvaged database goes.
pub const TO: &str = "/new";

/// What is known of a database that was damaged.
pub trait Truth {
    /// What it held.
    fn state(&self) -> &State;
    /// Whether the key ever had this value, with this expiry.
    fn had(&self, key: &[u8], value: &Bytes) -> bool;
    /// What time it is.
    fn times(&self) -> Times {
        Times::default()
    }
}

/// What a repair gave.
pub struct Salvaged {
    /// What it says.
    pub report: RepairReport,
    /// What the salvaged database holds.
    pub pairs: State,
    /// Keys that were there and are not there any more.
    pub missing: Vec<Vec<u8>>,
    /// Keys that have another value than they had in the end, or should not be there.
    pub stale: Vec<Vec<u8>>,
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
    let report = Db::repair_in(&env(disk, &runtime), DIR, TO, options);
    let unchanged = contents(disk) == before;
    assert!(unchanged, "the damaged directory has changed");
    let left = disk.file_names().into_iter().filter(|p| p.starts_with(TO));
    let report = report.inspect_err(|_| assert_eq!(left.count(), 0, "files are left"))?;
    Ok(judge(disk, report, truth))
}

/// Looks at what a repair has written.
pub fn judge(disk: &SimVfs, report: RepairReport, truth: &impl Truth) -> Salvaged {
    let runtime = truth.times().runtime(11);
    let opening = Options::default().create_if_missing(false);
    let opened = Db::open_in(env(disk, &runtime), TO, opening);
    let db = opened.unwrap_or_else(|err| panic!("what was salvaged does not open: {err:?}"));
    let pairs = spaces::content_of(&db, &db, verify::scan, truth.times().matters);
    let pairs = pairs.unwrap_or_else(|err| panic!("what was salvaged cannot be read: {err:?}"));
    db.close().expect("a close");
    assert_eq!(pairs.len() as u64, report.saved, "{report:#?}");
    for (key, value) in &pairs {
        let (key_text, value_text) = (show(key), show(value));
        let had = truth.had(key, value);
        let end = value.expiry_ms;
        assert!(
            had,
            "{key_text} never was {value_text} until {end:?}: {report:#?}"
        );
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
            &range.from[..] <= key && range.to.as_ref().is_none_or(|to| key <= &to[..])
        })
    }

    /// Asserts that nothing is lost or out of date without a word.
    pub fn must_tell(&self) {
        let report = &self.report;
        let log = !report.log.gaps.is_empty() || report.log.cut.is_some();
        for key in &self.missing {
            let lost = report.lost_keys.iter().any(|lost| lost.key == key[..]);
            let uncertain = report.uncertain_keys.iter().any(|k| k.key == key[..]);
            let reported = lost || uncertain || self.in_lost_range(key) || log;
            assert!(reported, "{} is missing: {report:#?}", show(key));
        }
        for key in &self.stale {
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
