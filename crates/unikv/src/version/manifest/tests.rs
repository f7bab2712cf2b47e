use super::super::edit::tests::full_edit;
use super::super::tagged::CRITICAL;
use super::*;
use crate::testing::golden;
use crate::vfs::Env;
use crate::vfs::sim::{Fault, Keep, Op, SimRuntime, SimVfs};
use std::sync::Arc;

const DIR: &str = "/db";
const DATABASE: DatabaseId = DatabaseId([0x42; 16]);

fn store(vfs: &SimVfs, seed: u64) -> Arc<FileStore> {
    vfs.create_dir_all(Path::new(DIR)).unwrap();
    let env = Env {
        vfs: Arc::new(vfs.clone()),
        runtime: SimRuntime::new(seed),
    };
    FileStore::new(env, PathBuf::from(DIR), DATABASE, 16)
}

fn manifest_path(number: u64) -> PathBuf {
    Path::new(DIR).join(file_names::manifest(FileNumber(number)))
}

fn current_path() -> PathBuf {
    Path::new(DIR).join(file_names::CURRENT)
}

fn recover(vfs: &SimVfs) -> Result<RecoveredManifest> {
    Manifest::recover(vfs, Path::new(DIR))
}

/// An edit that can be distinguished from others.
fn edit(next_file: u64) -> VersionEdit {
    VersionEdit {
        next_file: Some(next_file),
        ..VersionEdit::default()
    }
}

/// What was committed, by [`edit`].
fn committed(recovered: &RecoveredManifest) -> Vec<u64> {
    edits(recovered)
        .iter()
        .filter_map(|edit| edit.next_file)
        .collect()
}

fn edits(recovered: &RecoveredManifest) -> Vec<VersionEdit> {
    let edits = recovered.edits.iter(&recovered.path);
    edits.map(Result::unwrap).collect()
}

fn create(vfs: &SimVfs, number: u64, first: u64) -> Manifest {
    Manifest::create(&store(vfs, number), FileNumber(number), edit(first)).unwrap()
}

#[test]
fn committed_edits_survive_any_power_cut() {
    let vfs = SimVfs::new();
    let mut manifest = create(&vfs, 1, 10);
    for n in 11..15 {
        manifest.append(&edit(n)).unwrap();
        let cuts = [Keep::Nothing, Keep::All, Keep::Prefix(n), Keep::Torn(n)];
        for cut in cuts.map(|keep| vfs.power_cut(keep)) {
            let recovered = recover(&cut).unwrap();
            assert_eq!(committed(&recovered), (10..=n).collect::<Vec<_>>());
            assert_eq!(recovered.edit_count, manifest.edits());
            assert_eq!(recovered.path, manifest_path(1));
            assert_eq!(recovered.database, DATABASE);
        }
    }
    let recovered = recover(&vfs.process_kill()).unwrap();
    assert_eq!((recovered.end, recovered.cut), (manifest.len(), None));
}

/// At every call of a creation a power cut leaves the old manifest or the new one.
#[test]
fn a_new_manifest_replaces_the_old_one_at_once() {
    let mut outcomes = [false; 2];
    for at in 0..20 {
        for seed in 0..8 {
            let vfs = SimVfs::new();
            create(&vfs, 1, 10);
            let calls = vfs.calls();
            vfs.set_fault(Box::new(move |call| {
                if call.index >= calls + at {
                    Fault::PowerCut
                } else {
                    Fault::None
                }
            }));
            let store = FileStore::new(
                Env {
                    vfs: Arc::new(vfs.clone()),
                    runtime: SimRuntime::new(2),
                },
                PathBuf::from(DIR),
                DATABASE,
                16,
            );
            let created = Manifest::create(&store, FileNumber(2), edit(20));
            let found = recover(&vfs.power_cut(Keep::Torn(seed))).unwrap();
            let new = found.path == manifest_path(2);
            assert_eq!(committed(&found), [if new { 20 } else { 10 }]);
            assert!(new || created.is_err(), "a finished creation was undone");
            outcomes[usize::from(new)] = true;
        }
    }
    assert_eq!(outcomes, [true, true]);
}

/// An interrupted first creation is no database; it can be created again, over what is left.
#[test]
fn an_interrupted_first_creation_is_not_found_and_can_be_repeated() {
    let mut unfinished = 0;
    for at in 0..20 {
        for keep in [Keep::Nothing, Keep::All, Keep::Torn(at)] {
            let vfs = SimVfs::new();
            let store = store(&vfs, 1);
            let calls = vfs.calls();
            vfs.set_fault(Box::new(move |call| {
                if call.index >= calls + at {
                    Fault::PowerCut
                } else {
                    Fault::None
                }
            }));
            let created = Manifest::create(&store, FileNumber(1), edit(10));
            let vfs = vfs.power_cut(keep);
            match recover(&vfs) {
                Ok(found) => assert_eq!(committed(&found), [10]),
                Err(error) => {
                    assert!(created.is_err());
                    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
                    let survey = file_names::survey(&vfs, Path::new(DIR)).unwrap();
                    assert!(!survey.has_current && !survey.has_data());
                    create(&vfs, survey.max_number() + 1, 11);
                    assert_eq!(committed(&recover(&vfs).unwrap()), [11]);
                    unfinished += 1;
                }
            }
        }
    }
    assert!(unfinished > 5);
}

#[test]
fn the_first_failure_poisons() {
    for failing in [Op::Append, Op::Sync] {
        let vfs = SimVfs::new();
        let mut manifest = create(&vfs, 1, 10);
        manifest.append(&edit(11)).unwrap();
        vfs.set_fault(Box::new(move |call| {
            if call.op == failing {
                Fault::Fail(io::ErrorKind::Other)
            } else {
                Fault::None
            }
        }));
        assert_eq!(
            manifest.append(&edit(12)).unwrap_err().kind(),
            ErrorKind::Io
        );
        vfs.clear_faults();
        let len = vfs.len(&manifest_path(1)).unwrap();
        let error = manifest.append(&edit(13)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WritesSuspended);
        assert!(error.remedy().contains("open it again"), "{error}");
        assert_eq!(
            vfs.len(&manifest_path(1)).unwrap(),
            len,
            "nothing is written behind it"
        );
        assert_eq!(manifest.edits(), 2);
        for seed in 0..10 {
            let found = committed(&recover(&vfs.power_cut(Keep::Torn(seed))).unwrap());
            assert!(found == [10, 11] || found == [10, 11, 12], "{found:?}");
        }
    }
}

/// That an edit is durable is noted without a sync. A power cut may tear the note and keep an edit
/// after it that was not synced, either: nothing is damaged then.
#[test]
fn a_note_that_a_power_cut_tears_ends_the_manifest() {
    // At some of these lengths the note ends in a sector of which nothing else is.
    for len in (0..512).step_by(4) {
        let vfs = SimVfs::new();
        let mut manifest = create(&vfs, 1, 10);
        let long = VersionEdit {
            commit_tag: Some(vec![7; len]),
            ..edit(11)
        };
        manifest.append(&long).unwrap();
        vfs.set_fault(Box::new(|call| match call.op {
            Op::Sync => Fault::Fail(io::ErrorKind::Other),
            _ => Fault::None,
        }));
        manifest.append(&edit(12)).unwrap_err();
        for seed in 0..8 {
            let cut = vfs.power_cut(Keep::Torn(seed));
            let found = committed(&recover(&cut).unwrap());
            assert!(found == [10, 11] || found == [10, 11, 12], "{found:?}");
        }
    }
}

/// Below the durable point a flipped bit is corruption; in the last edit, whose durable point may
/// have been lost with it, it is a cut that is reported; and the file header and the first edit are
/// always missed.
#[test]
fn every_flipped_bit_is_corruption_or_a_reported_cut() {
    let vfs = SimVfs::new();
    let mut manifest = create(&vfs, 1, 10);
    manifest.append(&edit(11)).unwrap();
    let marked = manifest.len();
    let bytes = vfs.read_file(&manifest_path(1)).unwrap();
    let last_mark = marked - RECORD_LEN_OF_MARK;
    for bit in 0..bytes.len() as u64 * 8 {
        vfs.flip_bit(&manifest_path(1), bit);
        match recover(&vfs) {
            Err(error) => {
                assert_eq!(error.file(), Some(&*manifest_path(1)), "{error}");
                assert!(bit / 8 < last_mark, "bit {bit}: {error}");
            }
            Ok(found) => {
                assert!(bit / 8 >= last_mark, "bit {bit}");
                assert_eq!(committed(&found), [10, 11]);
                assert_eq!(found.cut.unwrap().offset, last_mark);
            }
        }
        vfs.flip_bit(&manifest_path(1), bit);
    }
    // Without its durable point the last edit looks like a torn one.
    vfs.write_file(&manifest_path(1), &bytes[..last_mark as usize - 1]);
    let found = recover(&vfs).unwrap();
    assert_eq!(committed(&found), [10]);
    assert!(found.cut.is_some());
    // Unless a segment of the log knows better.
    assert!(found.check_edits(1).is_ok());
    let error = found.check_edits(2).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert_eq!(error.file(), Some(&*manifest_path(1)));
}

/// A bare durable point is a record without payload.
const RECORD_LEN_OF_MARK: u64 = crate::log::RECORD_HEADER_LEN as u64;

#[test]
fn edits_are_counted_across_manifests() {
    let vfs = SimVfs::new();
    let mut manifest = create(&vfs, 1, 10);
    manifest.append(&edit(11)).unwrap();
    assert_eq!(manifest.edits(), 2);
    let snapshot = VersionEdit {
        edits_before: Some(recover(&vfs).unwrap().edit_count),
        ..edit(12)
    };
    let mut manifest = Manifest::create(&store(&vfs, 2), FileNumber(2), snapshot).unwrap();
    assert_eq!(manifest.edits(), 3);
    manifest.append(&edit(13)).unwrap();
    let found = recover(&vfs).unwrap();
    assert_eq!((found.edit_count, manifest.edits()), (4, 4));
    assert_eq!(found.path, manifest_path(2));
}

#[test]
fn a_missing_or_damaged_current_is_named_and_nothing_is_removed() {
    let vfs = SimVfs::new();
    let mut manifest = create(&vfs, 1, 10);
    let good = vfs.read_file(&current_path()).unwrap();
    for bit in 0..good.len() as u64 * 8 {
        vfs.flip_bit(&current_path(), bit);
        let error = recover(&vfs).err().unwrap();
        assert_eq!(error.file(), Some(&*current_path()), "bit {bit}: {error}");
        vfs.flip_bit(&current_path(), bit);
    }
    for len in [0, 95, good.len() - 1, good.len() + 1] {
        let mut bad = good.clone();
        bad.resize(len, 0);
        vfs.write_file(&current_path(), &bad);
        assert_eq!(
            recover(&vfs).err().unwrap().kind(),
            ErrorKind::Corruption,
            "{len}"
        );
    }
    vfs.remove(&current_path()).unwrap();
    manifest.append(&edit(11)).unwrap();
    let before = vfs.file_names();
    let error = recover(&vfs).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert_eq!(error.file(), Some(&*current_path()));
    assert_eq!(vfs.file_names(), before);

    vfs.remove(&manifest_path(1)).unwrap();
    vfs.write_file(&Path::new(DIR).join("000004.rec"), b"data");
    assert_eq!(recover(&vfs).err().unwrap().kind(), ErrorKind::Corruption);
}

#[test]
fn where_nothing_is_nothing_is_found() {
    let vfs = SimVfs::new();
    assert_eq!(recover(&vfs).err().unwrap().kind(), ErrorKind::NotFound);
    vfs.write_file(&Path::new(DIR).join("notes.txt"), b"mine");
    vfs.write_file(&Path::new(DIR).join("LOCK"), b"");
    assert_eq!(recover(&vfs).err().unwrap().kind(), ErrorKind::NotFound);
    let survey = file_names::survey(&vfs, Path::new(DIR)).unwrap();
    assert_eq!(survey.foreign, ["notes.txt"]);
    assert_eq!(survey.names, [FileName::Lock]);
}

#[test]
fn a_manifest_that_current_does_not_mean_is_refused() {
    let vfs = SimVfs::new();
    create(&vfs, 1, 10);
    let other = SimVfs::new();
    Manifest::create(&store(&other, 9), FileNumber(1), edit(10)).unwrap();
    let swapped = other.read_file(&manifest_path(1)).unwrap();
    vfs.write_file(&manifest_path(1), &swapped);
    assert_eq!(recover(&vfs).err().unwrap().kind(), ErrorKind::Corruption);
    vfs.remove(&manifest_path(1)).unwrap();
    let error = recover(&vfs).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains("missing"), "{error}");
}

#[test]
fn the_manifest_and_current_are_pinned_byte_for_byte() {
    let vfs = SimVfs::new();
    let store = store(&vfs, 1);
    let mut manifest = Manifest::create(&store, FileNumber(3), full_edit()).unwrap();
    manifest.append(&edit(101)).unwrap();
    golden::check("manifest", &vfs.read_file(&manifest_path(3)).unwrap());
    golden::check("current", &vfs.read_file(&current_path()).unwrap());

    let old = SimVfs::new();
    old.write_file(&manifest_path(3), &golden::load("manifest"));
    old.write_file(&current_path(), &golden::load("current"));
    let found = recover(&old).unwrap();
    assert_eq!(edits(&found), [full_edit(), edit(101)]);
    assert_eq!((found.edit_count, found.cut), (19, None));
}

/// What could be said before keyspaces had numbers for their data, and before their changes said
/// what of the log was durable.
fn without_keyspace_numbers() -> VersionEdit {
    let mut edit = full_edit();
    edit.wal_durable = None;
    edit.last_keyspace = None;
    edit.dropped_keyspaces.clear();
    let keyspaces = edit.keyspaces.iter_mut();
    keyspaces.for_each(|keyspace| keyspace.data = keyspace.id);
    edit
}

#[test]
fn a_manifest_from_before_keyspaces_could_be_made_is_read() {
    let old = SimVfs::new();
    old.write_file(
        &manifest_path(3),
        &golden::load("manifest_without_keyspace_numbers"),
    );
    old.write_file(&current_path(), &golden::load("current"));
    let expected = without_keyspace_numbers();
    assert_eq!(edits(&recover(&old).unwrap()), [expected, edit(101)]);
}

/// Then nobody knew what the newest versions of a table take.
#[test]
fn a_manifest_that_does_not_count_the_newest_versions_is_read() {
    let old = SimVfs::new();
    old.write_file(&manifest_path(3), &golden::load("manifest_without_newest"));
    old.write_file(&current_path(), &golden::load("current"));
    let mut expected = without_keyspace_numbers();
    expected
        .key_tables
        .iter_mut()
        .for_each(|(_, t)| t.newest = None);
    expected.tables[0].hidden_bytes = 0;
    assert_eq!(edits(&recover(&old).unwrap()), [expected, edit(101)]);
}

/// Before there were partitions to share them, a table had no share: all of it counts. Nor were
/// there scan runs or lifetime figures.
#[test]
fn a_manifest_without_shares_of_tables_is_read() {
    let old = SimVfs::new();
    old.write_file(&manifest_path(3), &golden::load("manifest_0_1"));
    old.write_file(&current_path(), &golden::load("current"));
    let mut expected = without_keyspace_numbers();
    let tables = expected.tables.iter_mut();
    tables.for_each(|t| (t.share, t.hidden_bytes) = (None, 0));
    expected.scan_runs.clear();
    expected.dropped_scan_runs.clear();
    expected.lifetime = None;
    expected
        .record_files
        .iter_mut()
        .for_each(|f| (f.refs, f.ingest_seq) = (Vec::new(), None));
    expected
        .key_tables
        .iter_mut()
        .for_each(|(_, t)| (t.older_bytes, t.newest) = (0, None));
    assert_eq!(edits(&recover(&old).unwrap()), [expected, edit(101)]);
}

/// Makes a manifest of these records current, after a first edit.
fn hand_made(vfs: &SimVfs, records: &[(u8, &[u8])]) {
    let (store, path) = (store(vfs, 1), manifest_path(1));
    let number = FileNumber(1);
    let mut log = LogWriter::create(&store, path, FileKind::Manifest, number).unwrap();
    log.stage(KIND_EDIT, &[&edit(10).encode()], None);
    for (kind, payload) in records {
        log.stage(*kind, &[payload], None);
    }
    log.write_staged().unwrap();
    write_next_current(&store, number, log.uid()).unwrap();
    replace_current(&store).unwrap();
}

fn salvage(vfs: &SimVfs, number: u64) -> Result<Option<SalvagedManifest>> {
    let dir = Path::new(DIR);
    let named = read_current(vfs, dir).ok();
    Manifest::salvage(vfs, dir, FileNumber(number), named.as_ref())
}

/// A repair may not leave out what it does not know, either.
#[test]
fn records_and_fields_of_a_newer_release_are_refused_by_an_opening_and_by_a_repair() {
    let critical = (300 | CRITICAL).to_le_bytes();
    let field = [&critical[..], &3u32.to_le_bytes(), b"new"].concat();
    let newer: [((u8, &[u8]), &str); 3] = [
        ((2, b"what"), "record kind 2"),
        ((200, b""), "record kind 200"),
        ((KIND_EDIT, &field), "300"),
    ];
    for (record, named) in newer {
        let vfs = SimVfs::new();
        hand_made(&vfs, &[record]);
        let opened = recover(&vfs).err();
        for error in [opened, salvage(&vfs, 1).err()] {
            let error = error.expect(named);
            assert_eq!(error.kind(), ErrorKind::Incompatible, "{error}");
            assert_eq!(error.file(), Some(&*manifest_path(1)));
            assert!(error.to_string().contains(named), "{error}");
            assert!(error.remedy().contains("newer release"), "{error}");
        }
    }
}

#[test]
fn a_repair_takes_the_edits_before_a_malformed_one() {
    let vfs = SimVfs::new();
    let good = edit(11).encode();
    let short = &edit(12).encode()[..5];
    hand_made(
        &vfs,
        &[(KIND_EDIT, &good), (KIND_EDIT, short), (KIND_EDIT, &good)],
    );
    assert_eq!(recover(&vfs).err().unwrap().kind(), ErrorKind::Corruption);
    let found = salvage(&vfs, 1).unwrap().unwrap();
    assert_eq!(committed(&found.recovered), [10, 11]);
    assert_eq!((found.recovered.edit_count, found.header_damage), (2, None));
    let damage = found.damage.unwrap();
    assert!(damage.contains("version edit"), "{damage}");
}

#[test]
fn a_repair_takes_no_other_manifest_for_the_one_that_current_names() {
    let vfs = SimVfs::new();
    create(&vfs, 1, 10);
    // Whole, but begun again under the same number; and one that says another number than its name.
    let other = SimVfs::new();
    Manifest::create(&store(&other, 9), FileNumber(1), edit(10)).unwrap();
    let renewed = other.read_file(&manifest_path(1)).unwrap();
    let own = vfs.read_file(&manifest_path(1)).unwrap();
    vfs.write_file(&manifest_path(1), &renewed);
    vfs.write_file(&manifest_path(2), &own);
    for number in [1, 2] {
        assert!(salvage(&vfs, number).unwrap().is_none(), "{number}");
    }
    vfs.write_file(&manifest_path(1), &own);
    assert!(salvage(&vfs, 1).unwrap().is_some());
}

/// What cannot be read now may be whole: an opening or a repair that went on would leave it out.
#[test]
fn a_read_that_fails_is_not_taken_for_the_end_of_the_manifest() {
    let vfs = SimVfs::new();
    // Each longer than the reader's buffer.
    let long = |next_file| VersionEdit {
        options: Some(vec![7; 300 << 10]),
        ..edit(next_file)
    };
    let (whole, torn) = (long(11).encode(), long(12).encode());
    hand_made(&vfs, &[(KIND_EDIT, &whole), (KIND_EDIT, &torn)]);
    let len = vfs.len(&manifest_path(1)).unwrap();
    vfs.flip_bit(&manifest_path(1), 8 * (len - torn.len() as u64 - 1));
    let fail_read = |n: u32| {
        let mut reads = 0;
        vfs.set_read_fault(Box::new(move |read| {
            reads += u32::from(read.path == manifest_path(1));
            (reads == n).then_some(io::ErrorKind::Other)
        }));
    };
    // The first read is of the header, without which a repair does not know the file.
    let mut failed = 0;
    for n in 2..10 {
        fail_read(n);
        let opened = recover(&vfs);
        fail_read(n);
        let salvaged = salvage(&vfs, 1).map(|found| found.unwrap().recovered);
        assert_eq!(opened.is_err(), salvaged.is_err(), "read {n}");
        for found in [opened, salvaged] {
            match found {
                Ok(found) => assert_eq!(committed(&found), [10, 11], "read {n}"),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Io, "read {n}: {error}");
                    failed += 1;
                }
            }
        }
    }
    // The payload of one edit, the search after the damage, for both.
    assert!(failed >= 4, "{failed}");
}

#[test]
fn without_current_a_manifest_that_cannot_be_read_is_not_taken_for_the_beginnings_of_a_database() {
    let vfs = SimVfs::new();
    create(&vfs, 1, 10);
    vfs.remove(&current_path()).unwrap();
    assert_eq!(recover(&vfs).err().unwrap().kind(), ErrorKind::NotFound);
    vfs.set_read_fault(Box::new(|read| {
        (read.path == manifest_path(1)).then_some(io::ErrorKind::PermissionDenied)
    }));
    let error = recover(&vfs).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    assert_eq!(error.file(), Some(&*manifest_path(1)));
}
