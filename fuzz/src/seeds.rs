//! Writes the first corpora: `seeds DIR` makes a folder of small inputs for each target. Always the
//! same, from the specimen and a few fixed choices.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use unikv::vfs::sim::SimVfs;
use unikv::{Db, KeyspaceOptions};
use unikv_fuzz::seal;
use unikv_fuzz::specimen::{DIR, Specimen, env, options};
use unikv_sim::history::{History, Mix};
use unikv_sim::runner::{Runner, Tolerance};

struct Corpora(PathBuf);

impl Corpora {
    fn put(&self, target: &str, name: &str, parts: &[&[u8]]) {
        let dir = self.0.join(target);
        fs::create_dir_all(&dir).expect("a folder");
        fs::write(dir.join(name), parts.concat()).expect("a file");
    }
}

fn main() {
    let dir = std::env::args().nth(1).expect("the folder for the corpora");
    let corpora = Corpora(Path::new(&dir).to_owned());
    let specimen = Specimen::build();
    headers(&corpora, &specimen);
    logs(&corpora, &specimen);
    tables(&corpora, &specimen);
    directories(&corpora, &specimen);
    edits(&corpora);
    range_deletes(&corpora);
    exports(&corpora);
    for n in 0..12_u8 {
        // Not random: every operation, in an order that differs from seed to seed.
        let ops: Vec<u8> = (0..300_u32)
            .map(|i| (i * (2 * u32::from(n) + 1) >> 3) as u8)
            .collect();
        corpora.put("operations", &format!("stride{n:02}"), &[&[n; 8], &ops]);
    }
}

fn headers(corpora: &Corpora, specimen: &Specimen) {
    for (i, (path, bytes)) in specimen.files.iter().enumerate() {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or("");
        if bytes.len() >= seal::HEADER_LEN && bytes[8] <= 5 {
            let header = &bytes[..seal::HEADER_LEN];
            corpora.put(
                "headers",
                &format!("file{i:02}"),
                &[&[8 | bytes[8]], header, name.as_bytes()],
            );
        }
    }
    for (i, current) in specimen.files_like("CURRENT").into_iter().enumerate() {
        corpora.put("options", &format!("current{i}"), &[&[0x83], current]);
    }
}

fn logs(corpora: &Corpora, specimen: &Specimen) {
    let segments = specimen.files_like(".wal");
    let [first, second] = [segments.first(), segments.get(1)].map(|s| *s.unwrap_or(&&[][..]));
    let len = |part: &[u8]| (part.len() as u16).to_le_bytes();
    for flags in [0_u8, 3, 7, 15] {
        let both = [&[flags][..], &len(first), &len(second), first, second];
        corpora.put("wal", &format!("both{flags}"), &both);
        let one = [&[flags][..], &len(first), &[0, 0], first];
        corpora.put("wal", &format!("one{flags}"), &one);
    }
    for (s, segment) in segments.iter().enumerate() {
        for (i, (kind, payload)) in records(segment).enumerate() {
            let which = if kind == 1 { 1 } else { 2 };
            corpora.put("batch", &format!("record{s}{i}"), &[&[which], payload]);
            if kind == 2 && payload.len() > 13 {
                corpora.put("batch", &format!("ops{s}{i}"), &[&[0], &payload[13..]]);
                corpora.put("batch", &format!("made{s}{i}"), &[&[4], payload]);
            }
        }
    }
    corpora.put("batch", "external", &[&[3], &[0; 40]]);
    for manifest in specimen.files_like("MANIFEST") {
        for flags in [0_u8, 3] {
            corpora.put("manifest", &format!("file{flags}"), &[&[flags], manifest]);
        }
        for (i, (_, edit)) in records(manifest).filter(|(kind, _)| *kind == 1).enumerate() {
            corpora.put("manifest", &format!("edit{i}"), &[&[4], edit]);
            corpora.put("edit", &format!("edit{i}"), &[edit]);
            for (tag, bytes) in fields(edit) {
                match tag & 0x7fff {
                    7 => corpora.put("options", &format!("options{i}"), &[&[0], bytes]),
                    21 => corpora.put("options", &format!("lifetime{i}"), &[&[1], bytes]),
                    _ => {}
                }
            }
        }
    }
}

/// An edit of each kind of job, the shortest of those that drawn histories make.
fn edits(corpora: &Corpora) {
    let mix = Mix {
        steps: 400,
        reads: true,
        crashes: false,
        reopens: false,
        busy: true,
    };
    let mut shortest: BTreeMap<&str, Vec<u8>> = BTreeMap::new();
    for seed in 0..30 {
        let (history, disk) = (History::draw(seed, mix), SimVfs::new());
        let mut runner = Runner::new(&history, disk.clone(), Tolerance::None);
        runner.play(&history.ops).expect("the machine is there");
        let names = disk.file_names().into_iter();
        let manifests = names.filter(|name| name.to_string_lossy().contains("MANIFEST-"));
        for manifest in manifests.filter_map(|name| disk.read_file(&name)) {
            // The first edit of a manifest is the whole version.
            let later = records(&manifest).filter(|(kind, _)| *kind == 1).skip(1);
            for (job, edit) in later.filter_map(|(_, edit)| Some((job(edit)?, edit))) {
                let found = shortest.entry(job).or_insert_with(|| edit.to_vec());
                if edit.len() < found.len() {
                    *found = edit.to_vec();
                }
            }
        }
    }
    let jobs: Vec<&str> = shortest.keys().copied().collect();
    assert_eq!(
        jobs,
        [
            "flush", "ingest", "join", "merge", "rewrite", "scan-run", "split"
        ]
    );
    for (job, edit) in &shortest {
        corpora.put("edit", job, &[edit]);
    }
}

/// What a small database with range deletes has of them, and the same with a first key that comes
/// after the end, or stands in another keyspace.
fn range_deletes(corpora: &Corpora) {
    let disk = SimVfs::new();
    let db = Db::open(DIR, options().env(env(&disk)));
    let db = db.expect("a new database");
    for key in ["a", "first", "m"] {
        db.put(key, "value").expect("a write");
    }
    db.delete_range("first".."last").expect("a range delete");
    db.delete_range("k"..).expect("a range delete");
    db.flush().expect("a flush");
    db.put("h", "later").expect("a write");
    db.delete_range("first".."last").expect("a range delete");
    let names = disk.file_names().into_iter();
    let files: Vec<_> = names
        .filter_map(|name| Some((disk.read_file(&name)?, name)))
        .collect();
    drop(db);
    for (what, first) in [
        ("sound", b"first"),
        ("turned", b"zzzzz"),
        ("foreign", b"first"),
    ] {
        let change = |bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            let at = bytes.windows(5).rposition(|window| window == b"first");
            if let Some(at) = at {
                match what {
                    // The keyspace id stands before the key.
                    "foreign" => bytes[at - 1] = 7,
                    _ => bytes[at..at + 5].copy_from_slice(first),
                }
            }
            bytes
        };
        for (bytes, name) in &files {
            let name = name.to_string_lossy();
            let ranges = |part: &[u8]| part.windows(5).any(|window| window == b"first");
            let is_log = name.ends_with(".wal") || name.contains("MANIFEST-");
            if name.ends_with(".rec") {
                let file = change(bytes);
                corpora.put(
                    "record_file",
                    &format!("ranges-{what}"),
                    &[&[1, 200], &file],
                );
            } else if is_log {
                for (kind, payload) in records(bytes).filter(|(_, payload)| ranges(payload)) {
                    let payload = change(payload);
                    let (target, which): (_, &[u8]) = if !name.ends_with(".wal") {
                        ("edit", &[])
                    } else if kind == 2 {
                        ("batch", &[2])
                    } else {
                        continue;
                    };
                    corpora.put(target, &format!("ranges-{what}"), &[which, &payload]);
                    if target == "batch" {
                        corpora.put(
                            target,
                            &format!("range-ops-{what}"),
                            &[&[0], &payload[13..]],
                        );
                    } else {
                        corpora.put("manifest", &format!("ranges-{what}"), &[&[4], &payload]);
                    }
                }
            }
        }
    }
}

/// Exports of a small database, whole and with a value in parts.
fn exports(corpora: &Corpora) {
    let disk = SimVfs::new();
    let db = Db::open(DIR, options().env(env(&disk)));
    let db = db.expect("a new database");
    let space = KeyspaceOptions::default().default_ttl(Duration::from_secs(9));
    let space = db.keyspace("space", space).expect("a keyspace");
    for key in ["a", "first", "m"] {
        db.put(key, "value").expect("a write");
        space.put(key, "value").expect("a write");
    }
    let read = |path: &str| disk.read_file(Path::new(path)).expect("an export");
    db.export(.., "/plain").expect("an export");
    space.export(.., "/space").expect("an export");
    for flags in [0_u8, 1, 3] {
        corpora.put(
            "export",
            &format!("plain{flags}"),
            &[&[flags], &read("/plain")],
        );
        corpora.put(
            "export",
            &format!("space{flags}"),
            &[&[flags], &read("/space")],
        );
    }
    // An entry whose value is to follow in parts, and the beginning of these.
    db.put("n", vec![7; 256 << 10]).expect("a write");
    db.export(.., "/parts").expect("an export");
    let parts = read("/parts");
    corpora.put("export", "parts", &[&[1], &parts[..600]]);
}

/// The job that makes such an edit; a `rewrite` is a collection, or one partition's clustering.
fn job(edit: &[u8]) -> Option<&'static str> {
    let tags: Vec<u16> = fields(edit).map(|(tag, _)| tag & 0x7fff).collect();
    let count = |tag: u16| tags.iter().filter(|t| **t == tag).count();
    let [
        low_water,
        commit_tag,
        partitions,
        dropped_partitions,
        tables,
    ] = [3, 8, 11, 12, 15].map(count);
    let [dropped_generations, key_tables, scan_runs] = [16, 17, 19].map(count);
    Some(match () {
        () if partitions > dropped_partitions => "split",
        () if partitions > 0 => "join",
        () if scan_runs > 0 => "scan-run",
        () if dropped_generations > 0 => "merge",
        () if key_tables > 0 => "rewrite",
        () if tables > 0 && low_water > 0 => "flush",
        () if tables > 0 && commit_tag > 0 => "ingest",
        () => return None,
    })
}

fn tables(corpora: &Corpora, specimen: &Specimen) {
    for (i, file) in specimen.files_like(".key").into_iter().enumerate() {
        for which in [0_u8, 1] {
            corpora.put("key_table", &format!("file{i}{which}"), &[&[which], file]);
        }
        let blocks = &file[seal::HEADER_LEN..];
        let len = |at: usize| {
            let at = file.len() - seal::FOOTER_LEN + at;
            u64::from_le_bytes(file[at..at + 8].try_into().expect("eight bytes")) as usize
        };
        let (blocks_len, index_len, properties_len) = (len(16), len(24), len(32));
        let (blocks, rest) = blocks.split_at(blocks_len);
        let (index, rest) = rest.split_at(index_len);
        let properties = &rest[..properties_len];
        corpora.put(
            "key_table",
            &format!("block{i}"),
            &[&[2], &blocks[..blocks_len - 4]],
        );
        corpora.put(
            "key_table",
            &format!("index{i}"),
            &[&[3], &index[..index_len - 4]],
        );
        let properties = &properties[..properties_len - 4];
        corpora.put("key_table", &format!("properties{i}"), &[&[4], properties]);
        corpora.put("key_table", &format!("entries{i}"), &[&[5], blocks]);
    }
    for (i, file) in specimen.files_like(".rec").into_iter().enumerate() {
        for which in [0_u8, 1] {
            corpora.put(
                "record_file",
                &format!("file{i}{which}"),
                &[&[which, 200], file],
            );
        }
        let end = file.len().min(seal::HEADER_LEN + 700);
        let frames = &file[seal::HEADER_LEN..end];
        for which in [2_u8, 3, 4] {
            corpora.put(
                "record_file",
                &format!("frames{i}{which}"),
                &[&[which, 7], frames],
            );
        }
    }
}

fn directories(corpora: &Corpora, specimen: &Specimen) {
    corpora.put("directory", "whole", &[&[0]]);
    for what in 0..8_u8 {
        for file in 0..specimen.files.len() as u8 {
            if (what + file) % 3 != 0 {
                continue;
            }
            let (sealed, at) = (what / 2 + file & 1, [what.wrapping_mul(29), file / 4]);
            let name = format!("change{what}{file:02}{sealed}");
            // Choices are taken from the front, the lengths of slices from the back.
            let parts: [&[u8]; 5] = [&[sealed, what, file], &at, b"changed", &[file], &[4]];
            corpora.put("directory", &name, &parts);
        }
    }
}

/// The records of a log: kind and payload.
fn records(log: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let mut at = seal::HEADER_LEN;
    std::iter::from_fn(move || {
        let head = log.get(at..at + seal::LOG_RECORD_LEN)?;
        let len = u32::from_le_bytes(head[8..12].try_into().ok()?) as usize;
        let payload = at + seal::LOG_RECORD_LEN;
        at = payload + len;
        Some((head[12], log.get(payload..at)?))
    })
}

/// The fields of an edit: tag and bytes.
fn fields(edit: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let head = edit.get(at..at + 6)?;
        let len = u32::from_le_bytes(head[2..].try_into().ok()?) as usize;
        let start = at + 6;
        at = start + len;
        Some((u16::from_le_bytes([head[0], head[1]]), edit.get(start..at)?))
    })
}
