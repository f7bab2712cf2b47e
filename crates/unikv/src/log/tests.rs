use super::*;
use crate::base::file_header::{FileKind, HEADER_LEN};
use crate::base::keys::DatabaseId;
use crate::error::ErrorKind;
use crate::testing::golden;
use crate::vfs::file_store::FileStore;
use crate::vfs::os::OsVfs;
use crate::vfs::sim::{Fault, Op, SimRuntime, SimVfs};
use crate::vfs::{Env, Vfs};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) const DIR: &str = "/db";
const DATABASE: DatabaseId = DatabaseId([0x42; 16]);

/// A store on `vfs` whose uids come from `seed`.
pub(super) fn store(vfs: &SimVfs, seed: u64) -> Arc<FileStore> {
    vfs.create_dir_all(Path::new(DIR)).unwrap();
    let env = Env {
        vfs: Arc::new(vfs.clone()),
        runtime: SimRuntime::new(seed),
    };
    FileStore::new(env, PathBuf::from(DIR), DATABASE, 16)
}

fn path() -> PathBuf {
    Path::new(DIR).join("000007.wal")
}

fn writer(vfs: &SimVfs) -> LogWriter {
    LogWriter::create(&store(vfs, 1), path(), FileKind::Wal, FileNumber(7)).unwrap()
}

fn reader(vfs: &SimVfs) -> LogReader {
    LogReader::open(vfs, &path(), FileKind::Wal, Some(DATABASE)).unwrap()
}

fn point(offset: u64) -> Option<DurablePoint> {
    Some(DurablePoint {
        file: FileNumber(7),
        offset,
    })
}

/// The payloads up to the first place that is no record, and what stands there.
fn read_all(reader: &mut LogReader) -> (Vec<Vec<u8>>, Option<&'static str>) {
    let mut payloads = Vec::new();
    loop {
        match reader.next().unwrap() {
            LogItem::Record { payload, .. } => payloads.push(payload.to_vec()),
            LogItem::End { .. } => return (payloads, None),
            LogItem::Bad { reason, .. } => return (payloads, Some(reason)),
        }
    }
}

#[test]
fn records_of_all_sizes_are_read_back() {
    let vfs = SimVfs::new();
    let mut log = writer(&vfs);
    let mut rng = SmallRng::seed_from_u64(1);
    let mut expected = Vec::new();
    for len in [
        0,
        1,
        23,
        24,
        25,
        1000,
        256 << 10,
        (256 << 10) - 24,
        5 << 20,
        3,
    ] {
        let mut payload = vec![0; len];
        rng.fill(&mut payload[..]);
        let (a, b) = payload.split_at(len / 3);
        if len > 1 << 20 {
            log.write_large(1, &[a, b], point(96)).unwrap();
        } else {
            log.stage(1, &[a, b], point(96));
        }
        expected.push(payload);
    }
    log.write_staged().unwrap();
    let mut found = reader(&vfs);
    assert_eq!(read_all(&mut found), (expected, None));
    assert_eq!(found.chain(), log.chain());
    assert_eq!(found.offset(), log.end());
    assert_eq!(found.uid(), log.uid());
    assert_eq!(found.greatest_point(), point(96));
}

#[test]
fn a_group_is_one_append() {
    let vfs = SimVfs::new();
    let mut log = writer(&vfs);
    for _ in 0..10 {
        log.stage(2, &[&[1; 100]], None);
    }
    let before = vfs.calls();
    log.write_staged().unwrap();
    assert_eq!(vfs.calls(), before + 1);
    log.write_staged().unwrap();
    assert_eq!(vfs.calls(), before + 1, "nothing staged, nothing written");
}

#[test]
fn after_a_failed_append_the_writer_is_broken_for_good() {
    let vfs = SimVfs::new();
    let mut log = writer(&vfs);
    log.stage(2, &[b"good"], None);
    log.write_staged().unwrap();
    let (end, chain) = (log.end(), log.chain());
    vfs.set_fault(Box::new(|call| match call.op {
        Op::Append => Fault::Fail(io::ErrorKind::StorageFull),
        _ => Fault::None,
    }));
    log.stage(2, &[b"lost"], None);
    assert_eq!(log.write_staged().unwrap_err().kind(), ErrorKind::DiskFull);
    vfs.clear_faults();
    log.stage(2, &[b"later"], None);
    assert_eq!(
        log.write_staged().unwrap_err().kind(),
        ErrorKind::WritesSuspended
    );
    let large = log.write_large(2, &[b"later"], None);
    assert_eq!(large.unwrap_err().kind(), ErrorKind::WritesSuspended);
    assert_eq!((log.end(), log.chain()), (end, chain));
    assert_eq!(read_all(&mut reader(&vfs)), (vec![b"good".to_vec()], None));
}

/// Of such a group nothing is written, and the writer goes on after what stood there before.
#[test]
fn a_payload_longer_than_its_length_field_is_refused_with_its_group() {
    let vfs = SimVfs::new();
    let mut log = writer(&vfs);
    log.stage(2, &[b"before"], point(96));
    log.write_staged().unwrap();
    let (before, end, chain) = (vfs.calls(), log.end(), log.chain());
    // More than 4 GiB, of which nobody reads a byte.
    let chunk = vec![0; 64 << 20];
    let parts = [&chunk[..]; 65];
    log.stage(2, &[b"of the same group"], None);
    log.stage(2, &parts, None);
    log.stage(2, &parts, None);
    log.stage(2, &[b"of the same group"], None);
    let error = log.write_staged().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(error.remedy().contains("smaller"), "{error}");
    let error = log.write_large(2, &parts, None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert_eq!(
        (vfs.calls(), log.end(), log.chain()),
        (before, end, chain),
        "nothing of them is written"
    );

    log.stage(2, &[b"behind"], None);
    log.write_staged().unwrap();
    let mut found = reader(&vfs);
    let payloads = vec![b"before".to_vec(), b"behind".to_vec()];
    assert_eq!(read_all(&mut found), (payloads, None));
    assert_eq!((found.offset(), found.chain()), (log.end(), log.chain()));
}

/// A file that another process cuts is read up to its new end, be that within a record or between
/// two.
#[test]
fn a_file_that_has_become_shorter_ends_early_and_nothing_is_made_up() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env {
        vfs: Arc::new(OsVfs::default()),
        runtime: SimRuntime::new(1),
    };
    let store = FileStore::new(env, dir.path().to_owned(), DATABASE, 4);
    // Longer than what a reader fetches at a time.
    let payload = vec![7; 200 << 10];
    let len = (RECORD_HEADER_LEN + payload.len()) as u64;
    let first_end = HEADER_LEN as u64 + len;
    for (number, left) in (1..).zip([first_end, first_end + 10, first_end + 2 * len - 1]) {
        let path = dir.path().join(format!("{number:06}.wal"));
        let (kind, number) = (FileKind::Wal, FileNumber(number));
        let mut log = LogWriter::create(&store, path.clone(), kind, number).unwrap();
        (0..3).for_each(|_| log.stage(2, &[&payload], None));
        log.write_staged().unwrap();
        let vfs = &*store.env().vfs;
        let mut reader = LogReader::open(vfs, &path, kind, Some(DATABASE)).unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(left).unwrap();
        let whole = ((left - HEADER_LEN as u64) / len) as usize;
        let (found, reason) = read_all(&mut reader);
        assert_eq!(found, vec![payload.clone(); whole]);
        assert_eq!(reason, Some("the file ends inside a record"));
        assert!(reader.file_len() < HEADER_LEN as u64 + 3 * len, "{left}");
        assert!(!reader.resync().unwrap());
    }
}

/// Each single flipped bit after the header is noticed, and every record after the damaged one
/// is found again.
#[test]
fn every_flipped_bit_is_noticed_and_the_rest_is_found_again() {
    let vfs = SimVfs::new();
    let mut log = writer(&vfs);
    for payload in [&b"first"[..], b"second", b"", b"the last one"] {
        log.stage(2, &[payload], None);
        log.write_staged().unwrap();
    }
    let len = vfs.read_file(&path()).unwrap().len();
    let good = read_all(&mut reader(&vfs)).0;
    for bit in HEADER_LEN * 8..len * 8 {
        vfs.flip_bit(&path(), bit as u64);
        let mut log = reader(&vfs);
        let (mut found, reason) = read_all(&mut log);
        assert!(reason.is_some(), "bit {bit}");
        let bad_at = found.len();
        assert_eq!(read_all(&mut log).1, reason, "a bad place stays bad");
        if log.resync().unwrap() {
            found.push(good[bad_at].clone());
            found.extend(read_all(&mut log).0);
        } else {
            found.push(good[bad_at].clone());
        }
        assert_eq!(found, good, "bit {bit}");
        vfs.flip_bit(&path(), bit as u64);
    }
}

/// Cut, zeroed and overwritten tails never panic, never allocate for a damaged length, and never
/// give a record that was not written.
#[test]
fn random_damage_never_gives_a_wrong_record() {
    let mut rng = SmallRng::seed_from_u64(3);
    for round in 0..300 {
        let vfs = SimVfs::new();
        let mut log = writer(&vfs);
        for i in 0..rng.random_range(1..20u32) {
            let payload = vec![i as u8; rng.random_range(0..2000)];
            log.stage(2, &[&payload], point(96));
        }
        log.write_staged().unwrap();
        let good = read_all(&mut reader(&vfs)).0;
        let mut bytes = vfs.read_file(&path()).unwrap();
        let from = rng.random_range(HEADER_LEN..=bytes.len());
        match round % 4 {
            0 => bytes.truncate(from),
            1 => bytes[from..].fill(0),
            2 => rng.fill(&mut bytes[from..]),
            _ => {
                // An older part of the file, moved to another offset.
                let part = bytes[HEADER_LEN..from].to_vec();
                bytes.splice(from.., part);
            }
        }
        vfs.write_file(&path(), &bytes);
        let mut log = reader(&vfs);
        let (mut found, mut reason) = read_all(&mut log);
        assert!(good.starts_with(&found), "round {round}");
        while reason.is_some() && log.resync().unwrap() {
            let (more, next) = read_all(&mut log);
            found.extend(more);
            reason = next;
        }
        for payload in &found {
            assert!(good.contains(payload), "round {round}");
        }
    }
}

#[test]
fn records_of_another_file_do_not_verify() {
    let vfs = SimVfs::new();
    let mut log = writer(&vfs);
    log.stage(2, &[b"mine"], None);
    log.write_staged().unwrap();
    let mine = vfs.read_file(&path()).unwrap();

    let other = SimVfs::new();
    let store = store(&other, 2);
    let mut log = LogWriter::create(&store, path(), FileKind::Wal, FileNumber(7)).unwrap();
    for payload in [&b"also"[..], b"recycled", b"blocks"] {
        log.stage(2, &[payload], None);
    }
    log.write_staged().unwrap();
    let theirs = other.read_file(&path()).unwrap();

    let mut bytes = mine.clone();
    bytes.extend_from_slice(&theirs[mine.len()..]);
    vfs.write_file(&path(), &bytes);
    let mut log = reader(&vfs);
    let (found, reason) = read_all(&mut log);
    assert_eq!(found, [b"mine"]);
    assert!(reason.is_some());
    assert!(!log.resync().unwrap());
}

/// A search through a file full of what looks like the beginnings of long records reads each byte
/// a bounded number of times.
#[test]
fn resync_is_linear() {
    let vfs = SimVfs::new();
    let mut log = writer(&vfs);
    log.stage(2, &[b"x"], None);
    log.write_staged().unwrap();
    let mut bytes = vfs.read_file(&path()).unwrap();
    let at = bytes.len();
    bytes[at - 1] ^= 1;
    // Kind 2, reserved 0 and a small length at many offsets.
    let pattern = [9, 0, 0, 0, 2, 0, 0, 0];
    bytes.extend(pattern.iter().cycle().take(4 << 20));
    vfs.write_file(&path(), &bytes);
    let read = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counter = Arc::clone(&read);
    vfs.set_read_fault(Box::new(move |call| {
        counter.fetch_add(call.bytes, std::sync::atomic::Ordering::Relaxed);
        None
    }));
    let mut log = reader(&vfs);
    assert!(read_all(&mut log).1.is_some());
    assert!(!log.resync().unwrap());
    let read = read.load(std::sync::atomic::Ordering::Relaxed);
    assert!(
        read < 2 * bytes.len(),
        "{read} bytes read of {}",
        bytes.len()
    );
}

#[test]
fn a_payload_longer_than_the_file_allocates_nothing() {
    let vfs = SimVfs::new();
    let log = writer(&vfs);
    // A header that verifies and promises 4 GiB.
    let header = RecordHeader {
        payload_crc: 0,
        payload_len: u32::MAX,
        kind: 2,
        durable: None,
    };
    let mut bytes = vfs.read_file(&path()).unwrap();
    bytes.extend_from_slice(&header.encode(log.number(), log.uid(), log.end()));
    bytes.extend_from_slice(b"short");
    vfs.write_file(&path(), &bytes);
    let mut log = reader(&vfs);
    assert_eq!(
        read_all(&mut log),
        (vec![], Some("the file ends inside a record"))
    );
}

#[test]
fn marks_survive_their_encoding() {
    let (number, uid) = (FileNumber(70_000), crate::base::keys::FileUid(5));
    let encode = |durable| {
        let header = RecordHeader {
            payload_crc: 1,
            payload_len: 2,
            kind: 3,
            durable,
        };
        let bytes = header.encode(number, uid, 1000);
        RecordHeader::decode(&bytes, number, uid, 1000).map(|header| header.durable)
    };
    let at = |file, offset| {
        Some(DurablePoint {
            file: FileNumber(file),
            offset,
        })
    };
    assert_eq!(encode(None), Ok(None));
    assert_eq!(encode(at(70_000, 1000)), Ok(at(70_000, 1000)));
    assert_eq!(encode(at(4465, 1 << 40)), Ok(at(4465, 1 << 40)));
    assert_eq!(encode(at(4464, 500)), Ok(None), "too far behind to name");
    assert!(
        encode(at(70_000, 1001)).is_err(),
        "claims more than was written"
    );
}

#[test]
fn marks_cover_what_stands_below_them() {
    let point = DurablePoint {
        file: FileNumber(5),
        offset: 100,
    };
    assert!(point.covers(FileNumber(4), u64::MAX));
    assert!(point.covers(FileNumber(5), 99));
    assert!(!point.covers(FileNumber(5), 100));
    assert!(!point.covers(FileNumber(6), 0));
}

#[test]
fn the_file_header_is_pinned() {
    let vfs = SimVfs::new();
    drop(writer(&vfs));
    golden::check("file_header", &vfs.read_file(&path()).unwrap());
}
