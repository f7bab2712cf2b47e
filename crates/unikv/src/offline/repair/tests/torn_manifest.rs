//! A manifest that ends before an edit that was durable, at the border of a record: nothing in it
//! shows that.

use super::*;
use crate::base::file_header::FileKind;
use crate::engine::tests::Model;
use crate::log::{LogItem, LogReader};
use crate::version::manifest::KIND_EDIT;
use std::path::Path;

fn manifest(machine: &Machine) -> PathBuf {
    let mut manifests = files(machine, "");
    manifests.retain(|path| path.to_string_lossy().contains("MANIFEST"));
    assert_eq!(manifests.len(), 1, "{manifests:?}");
    manifests.remove(0)
}

/// Where each edit begins.
fn edits(machine: &Machine, path: &Path) -> Vec<u64> {
    let mut log = LogReader::open(&machine.disk, path, FileKind::Manifest, None).unwrap();
    let mut edits = Vec::new();
    while let LogItem::Record { offset, kind, .. } = log.next().unwrap() {
        if kind == KIND_EDIT {
            edits.push(offset);
        }
    }
    edits
}

/// The database without the last `lost` edits of its manifest, and the report of its repair.
fn repaired_without(disk: &SimVfs, lost: usize) -> (Machine, RepairReport) {
    let mut machine = Machine::new(41);
    machine.disk = disk.process_kill();
    let path = manifest(&machine);
    let edits = edits(&machine, &path);
    let cut = edits[edits.len() - lost] as usize;
    let bytes = machine.disk.read_file(&path).unwrap();
    machine.disk.write_file(&path, &bytes[..cut]);
    let report = repaired(&machine).unwrap();
    (machine, report)
}

fn says_that_edits_are_missing(report: &RepairReport) {
    assert_eq!(report.trust, RepairTrust::ManifestPrefix, "{report:#?}");
    let of_manifest = |file: &&report::RepairedFile| file.name.starts_with("MANIFEST");
    let manifest = report.files.iter().find(of_manifest).unwrap();
    assert!(manifest.fault_count > 0, "{report:#?}");
}

#[test]
fn a_manifest_without_its_last_merge_does_not_hide_what_that_wrote() {
    let machine = Machine::new(41);
    let mut model = Model::new();
    let (db, _) = machine.open(small());
    (0..60).for_each(|i| put(&db, &mut model, i, 1));
    db.compact().unwrap();
    (20..40).for_each(|i| put(&db, &mut model, i, 2));
    delete(&db, &mut model, 50);
    db.flush().unwrap();
    db.compact().unwrap();
    db.close().unwrap();
    let (machine, report) = repaired_without(&machine.disk, 1);
    says_that_edits_are_missing(&report);
    assert_eq!(report.lost, 0, "{report:#?}");
    same(&salvaged(&machine), &model);
}

#[test]
fn a_manifest_without_its_last_flush_does_not_hide_what_that_wrote() {
    let machine = Machine::new(42);
    let mut model = Model::new();
    let (db, _) = machine.open(small());
    (0..10).for_each(|i| put(&db, &mut model, i, 1));
    db.flush().unwrap();
    (5..15).for_each(|i| put(&db, &mut model, i, 2));
    db.flush().unwrap();
    (12..18).for_each(|i| put(&db, &mut model, i, 3));
    db.close().unwrap();
    for lost in 1..=2 {
        let (machine, report) = repaired_without(&machine.disk, lost);
        if lost == 2 {
            says_that_edits_are_missing(&report);
        }
        assert!(report.log.gaps.is_empty(), "{report:#?}");
        same(&salvaged(&machine), &model);
    }
}

/// A process that is killed before a commit leaves files that no edit lists. They are no sign that
/// edits are missing, and neither is a file that is missing.
#[test]
fn a_file_that_is_missing_is_no_sign_of_missing_edits() {
    let (machine, _) = database(43);
    let tables = files(&machine, ".key");
    machine.disk.remove(&tables[0]).unwrap();
    let report = repaired(&machine).unwrap();
    assert_eq!(report.trust, RepairTrust::Manifest, "{report:#?}");
}
