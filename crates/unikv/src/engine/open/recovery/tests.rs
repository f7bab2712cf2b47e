use super::*;
use crate::base::checksum;
use crate::base::file_header::{FileKind, HEADER_LEN, RawHeader};
use crate::base::keys::Kind;
use crate::base::keys::{DatabaseId, EXTERNAL_LEN, FileUid, KEYSPACE_PREFIX_LEN, SeqNo, Slot};
use crate::engine::tests::common::{key, put, rewrite_manifest};
use crate::engine::tests::{Machine, Model, same, small};
use crate::log::wal::{KIND_POINT, KIND_START, KIND_WRITE, SegmentStart};
use crate::log::{LogWriter, WalWriter};
use crate::log::{WalWrite, replay};
use crate::memtable::OpsIter;
use crate::record::External;
use crate::record::RecordPointer;
use crate::testing::golden;
use crate::version::file_names;
use crate::version::manifest::Manifest;
use crate::version::scan_run::ScanRunMeta;
use crate::vfs::Vfs;
use crate::vfs::sim::{Fault, Keep, Op, SimVfs};
use crate::{Batch, Db, ErrorKind, RepairOptions};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A sequence number above all that tables have.
const LATER: u64 = 1_000_000;

/// A closed database with key tables, a value log, and after them a table that is not merged.
fn database(seed: u64) -> (Machine, Model) {
    let machine = Machine::new(seed);
    let mut model = Model::new();
    let (db, _) = machine.open(small());
    (0..40).for_each(|i| put(&db, &mut model, i, 1));
    db.compact().unwrap();
    (20..30).for_each(|i| put(&db, &mut model, i, 2));
    db.flush().unwrap();
    db.close().unwrap();
    (machine, model)
}

fn copy_of(machine: &Machine) -> Machine {
    Machine {
        disk: machine.disk.process_kill(),
        seed: machine.seed + 1,
    }
}

fn contents(disk: &SimVfs) -> BTreeMap<PathBuf, Vec<u8>> {
    let bytes = |path: PathBuf| {
        let bytes = disk.read_file(&path).unwrap();
        (path, bytes)
    };
    disk.file_names().into_iter().map(bytes).collect()
}

/// The error of an opening, which has changed nothing.
fn refused(machine: &Machine) -> Error {
    let before = contents(&machine.disk);
    let error = Db::open("/db", small().env(machine.env())).err().unwrap();
    assert_eq!(contents(&machine.disk), before, "{error}");
    error
}

fn refused_as_newer(machine: &Machine, file: &Path, what: &str) {
    let error = refused(machine);
    assert_eq!(error.kind(), ErrorKind::Incompatible, "{error}");
    assert_eq!(error.file(), Some(file), "{error}");
    assert!(error.to_string().contains(what), "{error}");
    assert!(error.remedy().contains("newer release"), "{error}");
}

fn refused_as_damaged(machine: &Machine, file: &Path, what: &str) {
    let error = refused(machine);
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert_eq!(error.file(), Some(file), "{error}");
    assert!(error.to_string().contains(what), "{error}");
}

fn path(name: String) -> PathBuf {
    Path::new("/db").join(name)
}

/// Makes a change to a manifest; returns the file that it is about.
type Change = fn(&mut VersionEdit) -> PathBuf;

fn of_record_file(edit: &VersionEdit) -> PathBuf {
    path(file_names::record(edit.record_files[0].number))
}

fn of_key_table(edit: &VersionEdit) -> PathBuf {
    path(file_names::key_table(edit.key_tables[0].1.number))
}

#[test]
fn files_that_use_what_a_newer_release_can_do_are_refused_by_name() {
    let changes: [(Change, &str); 4] = [
        (
            |edit| {
                edit.record_files[0].has_range_deletes = true;
                of_record_file(edit)
            },
            "range deletes",
        ),
        (
            |edit| {
                edit.key_tables[0].1.has_range_deletes = true;
                of_key_table(edit)
            },
            "range deletes",
        ),
        (
            |edit| {
                let meta = &mut edit.key_tables[0].1;
                meta.clip = Some((meta.min_key.clone(), meta.max_key.clone()));
                of_key_table(edit)
            },
            "tables shared by partitions",
        ),
        (
            |edit| {
                let path = of_key_table(edit);
                let mut meta = edit.key_tables.remove(0).1;
                meta.clip = Some((meta.min_key.clone(), meta.max_key.clone()));
                edit.scan_runs.push(ScanRunMeta {
                    partition: edit.tables[0].partition,
                    generation: edit.tables[0].generation,
                    end: Slot(edit.tables[0].slot.0 + 1),
                    tables: vec![meta],
                });
                path
            },
            "tables shared by partitions",
        ),
    ];
    let (pristine, _) = database(1);
    for (change, what) in changes {
        let machine = copy_of(&pristine);
        let mut file = PathBuf::new();
        rewrite_manifest(&machine, |edit| file = change(edit));
        refused_as_newer(&machine, &file, what);
        let error = machine.env().check("/db").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Incompatible, "{error}");
        assert_eq!(error.file(), Some(&*file), "{error}");
    }
}

/// What is read at opening: the files that lead to the others, the log, and tables that are not
/// merged.
#[test]
fn files_with_a_feature_that_is_not_known_are_refused_by_name() {
    let (pristine, _) = database(3);
    let mut tables = Vec::new();
    let copy = copy_of(&pristine);
    rewrite_manifest(&copy, |edit| {
        tables = edit.tables.iter().map(|place| place.file).collect();
    });
    let mut seen = 0;
    for file in pristine.disk.file_names() {
        let mut bytes = pristine.disk.read_file(&file).unwrap();
        let Some(raw) = RawHeader::decode(&bytes).filter(|raw| raw.checksum_fits) else {
            continue;
        };
        let is_data = file.extension().is_some_and(|e| e == "rec" || e == "key");
        // That of the page nobody reads: each opening makes one of its own.
        let is_page = file.ends_with(file_names::VISIBLE);
        if is_page || is_data && !tables.contains(&raw.number) {
            continue;
        }
        bytes[16] = 0x40;
        let crc = checksum::bound(raw.uid, 0, &bytes[..HEADER_LEN - 4]);
        bytes[HEADER_LEN - 4..HEADER_LEN].copy_from_slice(&crc.to_le_bytes());
        let machine = copy_of(&pristine);
        machine.disk.write_file(&file, &bytes);
        refused_as_newer(&machine, &file, "required feature bits 0x40");
        seen += 1;
    }
    // CURRENT, a manifest, a segment, a table.
    assert!(seen >= 4, "{seen}");
}

#[test]
fn a_table_in_a_slot_that_no_index_can_name_is_refused_by_name() {
    let (machine, _) = database(5);
    let mut file = PathBuf::new();
    rewrite_manifest(&machine, |edit| {
        edit.tables[0].slot = Slot(1 << 10);
        file = path(file_names::record(edit.tables[0].file));
    });
    refused_as_damaged(&machine, &file, "cannot be indexed");
}

/// The bytes of an operation, as the format has them.
fn op(kind: u8, flags: u8, user_key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut out = vec![kind, flags];
    out.extend_from_slice(&(user_key.len() as u32 + 4).to_le_bytes());
    out.extend_from_slice(&(value.len() as u32).to_le_bytes());
    if flags & 1 != 0 {
        out.extend_from_slice(&1_u64.to_le_bytes());
    }
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(user_key);
    out.extend_from_slice(value);
    out
}

const START: SegmentStart = SegmentStart {
    prev: None,
    manifest_edits: 0,
};

/// Adds a segment with these records, kind and payload, to the log of a closed database. Returns
/// its path.
fn add_segment(machine: &Machine, records: &[(u8, &[u8])]) -> PathBuf {
    let found = Manifest::recover(&machine.disk, Path::new("/db")).unwrap();
    let survey = file_names::survey(&machine.disk, Path::new("/db")).unwrap();
    let store = FileStore::new(machine.env(), "/db".into(), found.database, 16);
    let number = FileNumber(survey.max_number() + 1);
    let path = path(file_names::wal(number));
    let mut log = LogWriter::create(&store, path.clone(), FileKind::Wal, number).unwrap();
    for (kind, payload) in records {
        log.stage(*kind, &[payload], None);
    }
    log.write_staged().unwrap();
    path
}

/// The payload of a write.
fn write_at(seq: u64, count: u32, ops: &[u8]) -> Vec<u8> {
    let write = WalWrite {
        base_seq: SeqNo(seq),
        count,
        commit_tag: None,
        ops,
    };
    [&write.prefix(), ops].concat()
}

/// A copy of the database with one more write in its log, and the segment that holds it.
fn with_write(pristine: &Machine, count: u32, ops: &[u8]) -> (Machine, PathBuf) {
    let machine = copy_of(pristine);
    let write = write_at(LATER, count, ops);
    let records = [(KIND_START, &START.encode()[..]), (KIND_WRITE, &write)];
    let segment = add_segment(&machine, &records);
    (machine, segment)
}

/// A check refuses it, too, and a repair does not take it for damage that it may leave out.
fn refused_and_never_dropped(machine: &Machine, segment: &Path, what: &str) {
    refused_as_newer(machine, segment, what);
    let checked = machine.env().check("/db").unwrap_err();
    assert_eq!(checked.kind(), ErrorKind::Incompatible, "{checked}");
    assert!(checked.to_string().contains(what), "{checked}");
    let options = RepairOptions::default();
    let repaired = Db::repair("/db", "/new", &options.clone().env(machine.env()));
    let error = repaired.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Incompatible, "{error}");
    assert_eq!(error.file(), Some(segment), "{error}");
}

#[test]
fn operations_that_a_newer_release_logged_are_refused_and_never_dropped() {
    let (pristine, _) = database(7);
    let known = op(1, 0, b"known", b"value");
    for (newer, what) in [
        (op(4, 0, b"key", b"operand"), "unknown kind"),
        (op(200, 0, b"key", b""), "unknown kind"),
        (op(1, 2, b"key", b"value"), "unknown flags"),
    ] {
        let (machine, segment) = with_write(&pristine, 2, &[known.clone(), newer].concat());
        refused_and_never_dropped(&machine, &segment, what);
    }
}

#[test]
fn log_records_that_a_newer_release_wrote_are_refused_and_never_dropped() {
    let (pristine, _) = database(13);
    let start = START.encode();
    let mut later_start = start.clone();
    later_start[0] = 0x80;
    let mut later_write = write_at(LATER, 1, &op(1, 0, b"key", b"value"));
    later_write[12] = 0x80;
    let cases: [(&[u8], u8, &[u8], &str); 3] = [
        (&start, 9, b"?", "log record kind 9"),
        (&start, KIND_WRITE, &later_write, "write flags 0x80"),
        (&later_start, KIND_POINT, b"", "segment flags 0x80"),
    ];
    for (start, kind, payload, what) in cases {
        let machine = copy_of(&pristine);
        let segment = add_segment(&machine, &[(KIND_START, start), (kind, payload)]);
        refused_and_never_dropped(&machine, &segment, what);
    }
}

#[test]
fn log_records_that_say_another_number_of_operations_or_malformed_ones_are_damage() {
    let (pristine, _) = database(9);
    let one = op(1, 0, b"key", b"value");
    let two = [one.clone(), op(2, 0, b"other", b"")].concat();
    let place = op(5, 0, b"large", &[0; EXTERNAL_LEN - 1]);
    let mut no_keyspace = one.clone();
    no_keyspace[2] = 3;
    let cases: [(u32, &[u8], &str); 6] = [
        (2, &one, "holds 1 operations and says 2"),
        (1, &two, "holds 2 operations and says 1"),
        (1, b"", "holds 0 operations and says 1"),
        (1, &place, "external value's place has a wrong length"),
        (1, &no_keyspace, "too short for a keyspace"),
        (2, &two[..two.len() - 1], "cut short"),
    ];
    for (count, ops, what) in cases {
        let (machine, segment) = with_write(&pristine, count, ops);
        refused_as_damaged(&machine, &segment, what);
        let report = machine.env().check("/db").unwrap();
        assert!(report.problems[0].what.contains(what), "{report:?}");
    }
}

/// A segment is needed as long as one of its writes is in no table; the others are in tables, and
/// may have been overwritten there.
#[test]
fn writes_that_tables_hold_are_not_replayed_beside_later_ones_of_their_segment() {
    let (machine, mut model) = database(11);
    let stale = op(1, 0, &key(3), b"stale");
    let fresh = op(1, 0, &key(4), b"fresh");
    let (stale, fresh) = (write_at(1, 1, &stale), write_at(LATER, 1, &fresh));
    let start = (KIND_START, &START.encode()[..]);
    add_segment(
        &machine,
        &[start, (KIND_WRITE, &stale), (KIND_WRITE, &fresh)],
    );
    model.insert(key(4), b"fresh".to_vec());
    let (db, _) = machine.open(small());
    same(&db, &model);
    assert_eq!(db.recovery().wal_records, 2);
    db.close().unwrap();
    machine.check();
}

/// What a sync of the directory was to cover when it failed stays in doubt in the next life, too:
/// segments that were begun shortly before may be missing after a power cut, while later ones are
/// there. `more` values are behind the ingest, and the background goes some `steps` before the cut.
fn with_names_in_doubt(more: u32, steps: u32) {
    let machine = Machine::new(77);
    let (db, _) = machine.open(small());
    let mut model = Model::new();
    put(&db, &mut model, 1, 1);
    db.flush().unwrap();
    // What is in memory is flushed with the ingest, and then the log goes on in another segment.
    put(&db, &mut model, 2, 2);
    let ingested = [(key(3), Some(vec![3; 200]))];
    db.ingest_sorted(ingested.map(Result::<_>::Ok), None)
        .unwrap();
    model.insert(key(3), vec![3; 200]);
    let durable = model.clone();
    machine.disk.set_fault(Box::new(|call| match call.op {
        Op::SyncDir => Fault::Fail(std::io::ErrorKind::StorageFull),
        _ => Fault::None,
    }));
    let written = (4..4 + more).take_while(|i| {
        let stored = db.put(key(*i), [4; 200]).is_ok();
        if stored {
            model.insert(key(*i), vec![4; 200]);
        }
        stored
    });
    let written = written.count() as u32;
    db.sync().unwrap_err();
    machine.disk.clear_faults();
    let _suspended = db.close();
    let (db, runtime) = machine.open(small());
    same(&db, &model);
    let last = 4 + written;
    db.put(key(last), [5; 200]).unwrap();
    for _ in 0..steps {
        runtime.run_one();
    }
    for seed in 0..16 {
        let after = Machine {
            disk: machine.disk.power_cut(Keep::Sectors(seed)),
            seed,
        };
        let (db, _) = after.open(small());
        for (key, value) in &durable {
            assert_eq!(db.get(key).unwrap().as_deref(), Some(&value[..]));
        }
        let found = |n| db.get(key(n)).unwrap().is_some();
        let lost = (4..=last).skip_while(|n| found(*n)).collect::<Vec<_>>();
        let later = lost.iter().filter(|n| found(**n)).count();
        assert_eq!(later, 0, "only a suffix is lost");
        db.close().unwrap();
        after.check();
    }
}

#[test]
fn a_segment_whose_name_is_in_doubt_may_vanish_after_a_later_opening() {
    for more in [1, 10, 25, 40, 60] {
        (0..5).for_each(|steps| with_names_in_doubt(more, steps));
    }
}

/// What the log holds in truth: batches with deletes, and the places of large values.
#[test]
fn a_segment_with_batches_is_pinned_byte_for_byte() {
    let machine = Machine::new(1);
    machine.disk.create_dir_all(Path::new("/db")).unwrap();
    let database = DatabaseId([7; 16]);
    let store = FileStore::new(machine.env(), "/db".into(), database, 16);
    let external = External {
        pointer: RecordPointer {
            file: FileNumber(11),
            offset: HEADER_LEN as u64,
            len: 0x0012_3456,
        },
        uid: FileUid(0x1122_3344_5566_7788),
        file_len: 0x0012_4000,
        file_checksum: 0xdead_beef,
    };
    let mut first = Batch::new();
    first.put("a", "1").put("b", "2").delete("a");
    let mut second = Batch::new();
    second.delete("b").set_commit_tag("a mark");
    second.push_external(b"\0\0\0\0large", None, &external.encode(), 1 << 20);
    let mut wal = WalWriter::create(&store, FileNumber(12), None, 3, None, None).unwrap();
    for (base_seq, batch) in [(5, &first), (8, &second)] {
        let write = WalWrite {
            base_seq: SeqNo(base_seq),
            count: batch.len() as u32,
            commit_tag: batch.commit_tag(),
            ops: batch.ops_bytes(),
        };
        wal.stage(&write, None);
        wal.write_staged().unwrap();
    }
    let path = Path::new("/db/000012.wal");
    golden::check("wal_batches", &machine.disk.read_file(path).unwrap());

    let old = Machine::new(2);
    old.disk.write_file(path, &golden::load("wal_batches"));
    let store = FileStore::new(old.env(), "/db".into(), database, 16);
    let mut found = Vec::new();
    let mut take = |_: FileNumber, write: &WalWrite<'_>| {
        let ops = OpsIter::new(write.ops).map(|op| op.unwrap());
        let ops = ops.map(|op| (op.kind, op.key.to_vec(), op.value.to_vec()));
        let commit_tag = write.commit_tag.map(<[u8]>::to_vec);
        found.push((write.base_seq, commit_tag, ops.collect::<Vec<_>>()));
        Ok(())
    };
    let outcome = replay::replay(
        &store,
        &[FileNumber(12)],
        replay::NeededLog::default(),
        &mut take,
    )
    .unwrap();
    assert_eq!((outcome.ops, outcome.cut), (5, None));
    let op = |kind, key: &[u8], value: &[u8]| {
        let key = [&[0; KEYSPACE_PREFIX_LEN], key].concat();
        (kind, key, value.to_vec())
    };
    let first = vec![
        op(Kind::Put, b"a", b"1"),
        op(Kind::Put, b"b", b"2"),
        op(Kind::Delete, b"a", b""),
    ];
    let place = op(Kind::External, b"large", &external.encode());
    let second = vec![op(Kind::Delete, b"b", b""), place];
    let commit_tag = Some(b"a mark".to_vec());
    assert_eq!(
        found,
        [(SeqNo(5), None, first), (SeqNo(8), commit_tag, second)]
    );
}
