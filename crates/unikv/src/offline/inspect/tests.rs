use super::*;
use crate::engine::tests::{Machine, small};
use crate::vfs::sim::{SimRuntime, SimVfs};
use crate::{Batch, Db, ErrorKind};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::path::PathBuf;

fn env(disk: &SimVfs) -> Env {
    Env {
        vfs: Arc::new(disk.clone()),
        runtime: SimRuntime::new(1),
    }
}

fn look(disk: &SimVfs, path: &Path) -> (Inspection, Vec<Part>) {
    let mut parts = Vec::new();
    let seen = env(disk)
        .inspect(path, &mut |part| parts.push(part.clone()))
        .unwrap();
    (seen, parts)
}

/// A closed database with a file of each kind.
fn disk() -> SimVfs {
    let machine = Machine::new(31);
    let (db, _) = machine.open(small().inline_value_bytes(16));
    for round in 0..3_u32 {
        for i in 0..60_u32 {
            let len = if i % 3 == 0 { 8 } else { 200 };
            db.put(format!("key{i:03}"), vec![round as u8; len])
                .unwrap();
        }
        db.delete("key001").unwrap();
        if round == 0 {
            db.compact().unwrap();
        } else if round == 1 {
            db.flush().unwrap();
        }
    }
    let mut batch = Batch::new();
    batch.put("x", "1").delete("y");
    db.write(&batch).unwrap();
    db.close().unwrap();
    machine.disk.clone()
}

fn files(disk: &SimVfs) -> Vec<PathBuf> {
    let names = disk.file_names().into_iter();
    let means = |path: &PathBuf| !path.ends_with("LOCK") && !path.ends_with("BALLAST");
    names.filter(means).collect()
}

/// Nothing that an edit adds or drops is left out: the parts are as many as the entries.
#[test]
fn everything_in_an_edit_is_shown() {
    let edit = crate::version::edit::tests::full_edit();
    let parts = edits::parts(Part::new("edit", 96, 500), &edit);
    for what in [
        "keyspace",
        "partition",
        "record file",
        "table",
        "key table",
        "key table of the run",
        "scan run",
    ] {
        let shown = format!("+ {what}");
        assert_eq!(
            parts.iter().filter(|p| p.what == shown).count(),
            1,
            "{what}"
        );
    }
    let keyspace = parts.iter().find(|part| part.what == "+ keyspace").unwrap();
    assert!(
        keyspace.fault.is_some(),
        "its options are none: {keyspace:?}"
    );
    let mut edit = edit;
    let options = crate::KeyspaceOptions::default().inline_value_bytes(77);
    edit.keyspaces[0].options = options.encode_over(&[]).unwrap();
    let shown = edits::parts(Part::new("edit", 96, 500), &edit);
    let keyspace = shown.iter().find(|part| part.what == "+ keyspace").unwrap();
    let options = keyspace.fields.iter().find(|field| field.0 == "options");
    assert!(options.unwrap().1.contains("77"), "{keyspace:?}");
    for what in [
        "partition",
        "record file",
        "generation",
        "key table",
        "scan run",
    ] {
        let shown = format!("- {what}");
        assert_eq!(
            parts.iter().filter(|p| p.what == shown).count(),
            1,
            "{what}"
        );
    }
}

#[test]
fn every_kind_of_file_is_shown_whole() {
    let disk = disk();
    let mut kinds: BTreeMap<&str, Vec<Part>> = BTreeMap::new();
    for path in files(&disk) {
        let (seen, parts) = look(&disk, &path);
        assert_eq!(seen.faults, 0, "{}: {parts:#?}", path.display());
        assert_eq!(seen.parts, parts.len() as u64);
        assert!(
            parts.iter().all(|p| p.offset + p.len <= seen.len),
            "{parts:#?}"
        );
        // A copy elsewhere, under any name, shows the same.
        let copy = Path::new("/elsewhere");
        disk.write_file(copy, &disk.read_file(&path).unwrap());
        assert_eq!(look(&disk, copy), (seen.clone(), parts.clone()));
        kinds.entry(seen.kind).or_default().extend(parts);
    }
    let names: Vec<_> = kinds.keys().copied().collect();
    let all = [
        "CURRENT",
        "key table",
        "manifest",
        "page of visible numbers",
        "record file",
        "write-ahead log",
    ];
    assert_eq!(names, all);
    let whats = |kind: &str| {
        let mut whats: Vec<_> = kinds[kind].iter().map(|part| part.what).collect();
        whats.sort_unstable();
        whats.dedup();
        whats.join(", ")
    };
    assert_eq!(whats("CURRENT"), "file header, pointer");
    assert_eq!(
        whats("key table"),
        "block, entry, file header, footer, index, properties"
    );
    let record = "block, entry, file header, footer, index, properties, record";
    assert_eq!(whats("record file"), record);
    assert!(whats("write-ahead log").contains("durable point, "));
    assert!(whats("write-ahead log").contains("file header, operation, segment start, "));
    assert!(whats("manifest").contains("+ key table, + partition, + record file, + table, "));
    let texts = |kind: &str| format!("{:?}", kinds[kind]);
    assert!(texts("write-ahead log").contains("\\\"x\\\""));
    assert!(texts("record file").contains("\\\"key059\\\""));
    assert!(texts("key table").contains("8 bytes here"));
}

#[test]
fn range_deletes_are_shown_with_their_bounds() {
    let machine = Machine::new(32);
    let (db, _) = machine.open(small());
    db.put("a", "1").unwrap();
    db.delete_range("b".."d").unwrap();
    db.flush().unwrap();
    db.delete_range("m"..).unwrap();
    db.close().unwrap();
    let mut shown = Vec::new();
    for path in files(&machine.disk) {
        let (seen, parts) = look(&machine.disk, &path);
        assert_eq!(seen.faults, 0, "{}: {parts:#?}", path.display());
        for part in parts {
            let fields = part.fields.iter();
            let bounds = fields.filter(|(name, _)| ["from", "to before"].contains(name));
            let bounds: Vec<_> = bounds.map(|(_, text)| &text[..]).collect();
            match part.what {
                "range delete" => shown.push(format!("frame {}", bounds.join(" "))),
                "operation" if !bounds.is_empty() => shown.push(format!("op {}", bounds.join(" "))),
                what => {
                    let lists = part
                        .fields
                        .iter()
                        .filter(|(name, _)| *name == "range deletes");
                    shown.extend(lists.map(|(_, text)| format!("{what}: {text}")));
                }
            }
        }
    }
    shown.sort();
    shown.dedup();
    let text = shown.join("\n");
    for expected in [
        "frame \"b\" \"d\"",
        "op \"m\" keyspace 1: \"\"",
        "properties: 1 at ",
        "+ record file: 1 at ",
        "\"b\" to before \"d\", sequence numbers 2 to 2",
    ] {
        assert!(text.contains(expected), "{expected} in:\n{text}");
    }
}

#[test]
fn whatever_bit_flips_is_shown_and_the_rest_too() {
    let disk = disk();
    let mut rng = SmallRng::seed_from_u64(5);
    for path in files(&disk) {
        let bytes = disk.read_file(&path).unwrap();
        let (seen, parts) = look(&disk, &path);
        let whole = seen.parts;
        let unused = parts.iter().find(|part| part.what == "unused");
        let unused = unused.map(|part| part.offset);
        for _ in 0..40 {
            let bit = rng.random_range(0..bytes.len() as u64 * 8);
            if unused.is_some_and(|from| bit / 8 >= from) {
                continue;
            }
            assert!(disk.flip_bit(&path, bit));
            let (seen, parts) = look(&disk, &path);
            // The last durable point of a log is zeros or a record; either way it is seen.
            assert!(seen.faults > 0, "{}, bit {bit}: {parts:#?}", path.display());
            assert!(whole > 0);
            assert!(disk.flip_bit(&path, bit));
        }
        for len in [0, 50, 96, 97, bytes.len() / 2, bytes.len() - 1] {
            disk.write_file(&path, &bytes[..len]);
            look(&disk, &path);
        }
        disk.write_file(&path, &bytes);
    }
}

#[test]
fn after_a_damaged_record_the_next_is_found() {
    let disk = disk();
    let is = |path: &PathBuf, suffix: &str| path.extension().is_some_and(|e| e == suffix);
    for suffix in ["rec", "wal"] {
        let all = files(&disk);
        let path = all
            .iter()
            .filter(|path| is(path, suffix))
            .max_by_key(|path| disk.read_file(path).map_or(0, |bytes| bytes.len()));
        let path = path.unwrap();
        let (_, parts) = look(&disk, path);
        let records = |parts: &[Part]| parts.iter().filter(|p| p.depth == 0).count();
        let (victim, whole) = (parts[2].clone(), records(&parts));
        disk.flip_bit(path, (victim.offset + 5) * 8);
        let (seen, parts) = look(&disk, path);
        assert_eq!(seen.faults, 1, "{parts:#?}");
        assert_eq!(records(&parts), whole, "{parts:#?}");
        let bad = parts.iter().find(|part| part.fault.is_some()).unwrap();
        assert_eq!((bad.offset, bad.len), (victim.offset, victim.len));
    }
}

#[test]
fn strangers_are_refused() {
    let disk = SimVfs::new();
    disk.write_file(Path::new("/notes.txt"), b"hello");
    let error = env(&disk).inspect("/notes.txt", &mut |_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incompatible);
    let error = env(&disk).inspect("/none", &mut |_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
}

#[test]
fn opening_needs_no_database() {
    let disk = disk();
    for path in files(&disk) {
        let bytes = disk.read_file(&path).unwrap();
        let alone = SimVfs::new();
        let name = Path::new("/").join(path.file_name().unwrap());
        alone.write_file(&name, &bytes);
        assert_eq!(look(&alone, &name), look(&disk, &path));
    }
    let db = Db::open("/db", small().env(env(&disk))).unwrap();
    assert_eq!(db.get("x").unwrap().as_deref(), Some(&b"1"[..]));
}
