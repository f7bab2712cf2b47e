//! A damaged database that is repaired: what the damage leaves alone is saved, whatever else is
//! saved is right, and what is lost is reported.

use super::Tally;
use super::exam::{ALL, explains};
use super::plan::{Damage, What};
use super::specimen::{FileKind, Specimen};
use crate::oracle::State;
use crate::salvage::{self, Salvaged, Truth};
use crate::spaces;
use crate::times::Times;
use crate::value::{Bytes, show};
use unikv::RepairOptions;
use unikv::vfs::Vfs;

impl Truth for Specimen {
    fn state(&self) -> &State {
        &self.state
    }

    fn had(&self, key: &[u8], value: &Bytes) -> bool {
        self.history.ever_was(key, value)
    }

    fn times(&self) -> Times {
        self.oracle.times.clone()
    }

    fn numbers(&self) -> &[(u32, &'static str)] {
        &self.numbers
    }
}

/// Repairs one damaged database after the other.
pub(super) struct Rescue<'a> {
    specimen: &'a Specimen,
    /// What is saved without any log: what these keys have they have from elsewhere.
    without_log: State,
}

impl<'a> Rescue<'a> {
    pub(super) fn new(specimen: &'a Specimen) -> Rescue<'a> {
        let disk = specimen.disk.process_kill();
        for path in specimen.files_of(&[FileKind::Wal]) {
            disk.remove(path).expect("a file");
        }
        let salvaged = salvage::repair(&disk, &RepairOptions::default(), specimen);
        Rescue {
            specimen,
            without_log: salvaged.expect("a repair without a log").pairs,
        }
    }

    /// Repairs the database with this damage.
    pub(super) fn repair(&self, damage: &Damage, tally: &mut Tally) {
        let specimen = self.specimen;
        if specimen.whose_log(damage).is_some() {
            // What it says was written, though not here.
            return;
        }
        let disk = specimen.disk.process_kill();
        damage.apply(&disk);
        let salvaged = match salvage::repair(&disk, &RepairOptions::default(), specimen) {
            Ok(salvaged) => salvaged,
            Err(error) => {
                let why = format!("a repair fails and does not say why: {error:?}");
                assert!(explains(specimen, damage, &error), "{why}");
                tally.refused_repairs += 1;
                return;
            }
        };
        tally.repairs += 1;
        let lost = salvaged.missing.len() + salvaged.stale.len();
        tally.lossy_repairs += u64::from(lost > 0);
        // The end of the newest log has nobody that misses it.
        if specimen.is_missed(damage) {
            salvaged.must_report();
        }
        self.intact_is_saved(damage, &salvaged);
    }

    /// Whether another file stands whole in the place of the damaged one.
    fn is_anothers(&self, damage: &Damage) -> bool {
        let twins = self.specimen.twins.iter();
        let mut theirs = twins.filter_map(|twin| twin.disk.read_file(&damage.path));
        damage.what == What::Replaced || theirs.any(|bytes| Some(&bytes) == damage.bytes.as_ref())
    }

    /// What the damage does not reach is there as it was.
    fn intact_is_saved(&self, damage: &Damage, salvaged: &Salvaged) {
        let specimen = self.specimen;
        let kind = specimen.files.get(&damage.path).map(|facts| facts.kind);
        match kind {
            None | Some(FileKind::Idle | FileKind::ScanRun) => {
                salvaged.assert_exact("nothing is lost");
            }
            // Whatever else stands there names another database. A sector is the whole of it.
            Some(FileKind::Current) if self.is_anothers(damage) => {}
            Some(FileKind::Current) => salvaged.assert_exact("the manifest is there"),
            // What came after it follows from the files; ingested ones do not say when that was.
            // The log may lack what an edit had made superfluous.
            Some(FileKind::Manifest) => {
                let in_doubt = salvaged.report.in_doubt;
                let stale = salvaged
                    .stale
                    .iter()
                    .filter(|key| !spaces::is_presence(key));
                let stale: Vec<Vec<u8>> = stale.cloned().collect();
                let gaps = !salvaged.report.log.gaps.is_empty();
                let told = gaps || in_doubt >= stale.len() as u64;
                let stale = salvage::show_keys(&stale);
                assert!(told, "{in_doubt} in doubt, and stale: {stale}");
            }
            Some(FileKind::Wal) => self.others_are_exact(salvaged, |_, key| {
                self.without_log.get(key) != specimen.state.get(key)
            }),
            Some(FileKind::Table | FileKind::Records | FileKind::KeyTable) => {
                let touched = if specimen.is_twofold(&damage.path, &damage.changed) {
                    ALL
                } else {
                    specimen.touched(damage)
                };
                self.others_are_exact(salvaged, |i, _| touched.get >> i & 1 == 1);
            }
        }
    }

    /// Asserts that all keys but the `concerned` ones are as they were.
    fn others_are_exact(&self, salvaged: &Salvaged, concerned: impl Fn(usize, &Vec<u8>) -> bool) {
        let keys = self.specimen.keys.iter().enumerate();
        for (_, key) in keys.filter(|(i, key)| !concerned(*i, key)) {
            let (got, want) = (salvaged.pairs.get(key), self.specimen.state.get(key));
            let report = &salvaged.report;
            assert!(got == want, "{} is intact: {report:#?}", show(key));
        }
    }
}

/// Whether a damage is among the sample that is repaired: of those of bytes one in this many, of
/// those of whole files more.
pub(super) fn is_sampled(damage: &Damage, number: u64) -> bool {
    let every = match damage.what {
        What::Byte | What::Cut | What::Swap | What::Foreign => 53,
        What::Grown | What::Extra => 11,
        What::Replaced | What::Missing | What::Directory | What::Unreadable => 2,
    };
    number.is_multiple_of(every)
}
