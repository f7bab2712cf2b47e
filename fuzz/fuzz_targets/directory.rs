//! A whole database directory, a small one, whose files are changed. The first byte: whether the
//! checksums of changed files are made right (bit 0). Then changes: what, in which file, where, and
//! with which bytes.
//!
//! Without right checksums everything that is read is right, or the read fails and names the file.
//! With them the database may hold what was never written; but it neither panics nor hangs, nor
//! allocates what a length says that lies.
#![no_main]

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use unikv::Db;
use unikv::vfs::sim::SimVfs;
use unikv_fuzz::specimen::{Content, DIR, Specimen, env, options};
use unikv_fuzz::{allocation, seal, typed};

static SPECIMEN: LazyLock<Specimen> = LazyLock::new(Specimen::build);

/// The memory budget of the specimen is 1 MiB; a simulated disk and its runtime are beside it.
const LIMIT: usize = 16 << 20;

fuzz_target!(|data: &[u8]| {
    let mut input = Unstructured::new(data);
    let sealed = input.arbitrary::<u8>().unwrap_or(0) & 1 == 1;
    let disk = SPECIMEN.disk.process_kill();
    let mut logs_changed = false;
    while !input.is_empty() {
        let Ok(changed) = change(&mut input, &disk, sealed) else {
            break;
        };
        logs_changed |= changed;
    }
    let allowed = match (sealed, logs_changed) {
        (true, _) => None,
        // What no durable point covers may be cut off a log.
        (false, true) => Some(&SPECIMEN.contents[..]),
        (false, false) => SPECIMEN.contents.last().map(std::slice::from_ref),
    };
    allocation::bounded(LIMIT, || examine(&disk, allowed));
});

/// Makes one change. Whether it was to a log.
fn change(input: &mut Unstructured<'_>, disk: &SimVfs, sealed: bool) -> Result<bool> {
    let what: u8 = input.arbitrary()?;
    let (path, _) = input.choose(&SPECIMEN.files)?;
    let (at, bytes): (u16, &[u8]) = (input.arbitrary()?, input.arbitrary()?);
    let mut file = disk.read_file(path).unwrap_or_default();
    let at = usize::from(at).min(file.len());
    match what % 8 {
        0 | 1 => {
            let end = (at + bytes.len()).min(file.len());
            file[at..end].copy_from_slice(&bytes[..end - at]);
        }
        2 => file.truncate(at),
        3 => file.extend_from_slice(bytes),
        4 => drop(file.splice(at..at, bytes.iter().copied())),
        5 => file.truncate(0),
        6 => {
            let (other, _) = input.choose(&SPECIMEN.files)?;
            file = disk.read_file(other).unwrap_or_default();
        }
        _ => {
            let (_, other) = input.choose(&SPECIMEN.files)?;
            let from = other.get(at..).unwrap_or_default();
            let len = from.len().min(file.len() - at).min(512);
            file[at..at + len].copy_from_slice(&from[..len]);
        }
    }
    if sealed {
        reseal(path, &mut file);
    }
    disk.write_file(path, &file);
    Ok(name(path).starts_with("MANIFEST") || name(path).ends_with(".wal"))
}

fn name(path: &Path) -> &str {
    path.file_name()
        .and_then(|name| name.to_str())
        .unwrap_or("")
}

fn reseal(path: &PathBuf, file: &mut [u8]) {
    seal::header_checksum(file);
    match name(path) {
        "CURRENT" => seal::current_checksum(file),
        name if name.ends_with(".rec") => seal::record_file(file),
        name if name.ends_with(".key") => seal::key_section(file),
        _ => drop(seal::log(file, None)),
    }
}

/// Checks the directory, opens it, reads all of it and works with it. `allowed`: what it may hold.
fn examine(disk: &SimVfs, allowed: Option<&[Content]>) {
    typed::checked(env(disk).check(DIR));
    let Some(db) = typed::checked_call(Db::open_existing(DIR, options().env(env(disk)))) else {
        return;
    };
    let forward: Option<Content> = whole(db.iter().map(owned));
    let backward: Option<Content> = whole(db.iter().rev().map(owned));
    if let Some(allowed) = allowed {
        if let Some(found) = &forward {
            assert!(allowed.contains(found), "a scan finds {found:?}");
        }
        assert!(forward.is_none() || backward.is_none() || forward == backward);
        let newest = allowed.last().expect("a content");
        for key in newest.keys().chain(allowed[0].keys()) {
            let Some(got) = typed::checked(db.get(key)) else {
                continue;
            };
            match &forward {
                Some(found) => assert_eq!(got.as_deref(), found.get(key).map(|v| &v[..])),
                None => assert!(
                    allowed
                        .iter()
                        .any(|c| c.get(key).map(|v| &v[..]) == got.as_deref()),
                    "a get of {key:?} finds {got:?}"
                ),
            }
        }
    }
    typed::checked_call(db.put("key07", "a new value"));
    typed::checked_call(db.flush());
    typed::checked_call(db.compact());
    typed::checked_call(db.collect_garbage());
    typed::checked_call(db.close());
}

type Pair = unikv::Result<(Vec<u8>, Vec<u8>)>;

fn owned(entry: unikv::Result<(unikv::Bytes, unikv::Bytes)>) -> Pair {
    entry.map(|(key, value)| (key.to_vec(), value.to_vec()))
}

/// All pairs, if reading them does not fail.
fn whole(pairs: impl Iterator<Item = Pair>) -> Option<Content> {
    typed::checked(pairs.collect())
}
