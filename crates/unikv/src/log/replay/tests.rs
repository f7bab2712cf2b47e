use super::*;
use crate::base::file_names::{self, FileName};
use crate::base::keys::{DatabaseId, FileUid};
use crate::error::ErrorKind;
use crate::log::tests::{DIR, store};
use crate::log::wal::WalWriter;
use crate::log::{DurablePoint, LogWriter};
use crate::testing::golden;
use crate::vfs::os::OsVfs;
use crate::vfs::sim::{Fault, Keep, Op, SimRuntime, SimVfs};
use crate::vfs::{Env, Vfs};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::path::{Path, PathBuf};
use std::sync::Arc;

mod live;
mod recycled;

const NO_LOW_WATER: FileNumber = FileNumber(0);

/// A log that is needed from `low_water` on, of which the manifest says nothing more.
fn from(low_water: FileNumber) -> NeededLog {
    NeededLog {
        low_water,
        durable: None,
    }
}

fn path(number: u64) -> PathBuf {
    Path::new(DIR).join(file_names::wal(FileNumber(number)))
}

fn point(file: u64, offset: u64) -> DurablePoint {
    DurablePoint {
        file: FileNumber(file),
        offset,
    }
}

/// The segments on the disk, ascending.
fn segments_on(vfs: &SimVfs) -> Vec<FileNumber> {
    let names = vfs.list(Path::new(DIR)).unwrap();
    let numbers = names
        .iter()
        .filter_map(|name| match file_names::parse(name) {
            Some(FileName::Wal(number)) => Some(number),
            _ => None,
        });
    let mut numbers: Vec<FileNumber> = numbers.collect();
    numbers.sort();
    numbers
}

/// A number above all segments on the disk.
fn next_number(vfs: &SimVfs) -> u64 {
    segments_on(vfs).last().map_or(0, |number| number.0) + 1
}

fn write_of(seq: u64, count: u32, ops: &[u8]) -> WalWrite<'_> {
    WalWrite {
        base_seq: SeqNo(seq),
        count,
        commit_tag: None,
        ops,
    }
}

/// Replays what is on the disk; each write's operations are its name.
fn replay_from(vfs: &SimVfs, low_water: FileNumber) -> Result<(Vec<String>, ReplayOutcome)> {
    let mut found = Vec::new();
    let mut sink = |_: FileNumber, write: &WalWrite<'_>| {
        assert_eq!(write.count, 1);
        let name = String::from_utf8(write.ops.to_vec()).unwrap();
        assert!(
            name.starts_with(&format!("{}:", write.base_seq.0)),
            "{name} at {:?}",
            write.base_seq
        );
        found.push(name);
        Ok(())
    };
    let (store, before) = (store(vfs, 99), vfs.calls());
    let outcome = replay(&store, &segments_on(vfs), from(low_water), &mut sink);
    assert_eq!(vfs.calls(), before, "a replay changes nothing");
    let outcome = outcome?;
    assert_eq!(outcome.records, found.len() as u64);
    Ok((found, outcome))
}

fn replay_all(vfs: &SimVfs) -> Result<(Vec<String>, ReplayOutcome)> {
    replay_from(vfs, NO_LOW_WATER)
}

fn corruption(vfs: &SimVfs, number: u64) -> Error {
    let error = replay_all(vfs).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert_eq!(error.file(), Some(&*path(number)), "{error}");
    error
}

/// A writer that remembers what it wrote.
struct Log {
    vfs: SimVfs,
    seed: u64,
    wal: WalWriter,
    names: Vec<String>,
}

impl Log {
    /// A log whose first segment is `number`.
    fn new(vfs: &SimVfs, seed: u64, number: u64) -> Log {
        let wal = WalWriter::create(&store(vfs, seed), FileNumber(number), None, 0, None, None);
        Log {
            vfs: vfs.clone(),
            seed,
            wal: wal.unwrap(),
            names: Vec::new(),
        }
    }

    /// Goes on after a recovery, in segment `number`.
    fn recovered(
        vfs: &SimVfs,
        seed: u64,
        names: Vec<String>,
        outcome: &ReplayOutcome,
        number: u64,
    ) -> Log {
        let number = FileNumber(number);
        let wal = WalWriter::create(&store(vfs, seed), number, outcome.last, 0, None, None);
        Log {
            vfs: vfs.clone(),
            seed,
            wal: wal.unwrap(),
            names,
        }
    }

    fn stage(&mut self, durable: Option<DurablePoint>) {
        let seq = self.names.len() as u64 + 1;
        let name = format!("{seq}:{}", self.seed);
        self.wal.stage(&write_of(seq, 1, name.as_bytes()), durable);
        self.names.push(name);
    }

    fn write(&mut self) {
        self.stage(None);
        self.wal.write_staged().unwrap();
    }

    fn write_claiming(&mut self, durable: DurablePoint) {
        self.stage(Some(durable));
        self.wal.write_staged().unwrap();
    }

    fn rotate(&mut self, number: u64) {
        self.seed += 1000;
        let prev = Some(self.wal.segment_end());
        let store = store(&self.vfs, self.seed);
        self.wal = WalWriter::create(&store, FileNumber(number), prev, 0, None, None).unwrap();
    }

    fn end(&self) -> DurablePoint {
        point(self.wal.segment_end().number.0, self.wal.end())
    }
}

/// Three segments (2, 5, 9) of three writes each, without marks.
fn three_segments(vfs: &SimVfs) -> Log {
    let mut log = Log::new(vfs, 1, 2);
    for next in [Some(5), Some(9), None] {
        for _ in 0..3 {
            log.write();
        }
        if let Some(next) = next {
            log.rotate(next);
        }
    }
    log
}

fn truncate(vfs: &SimVfs, number: u64, len: usize) {
    let mut bytes = vfs.read_file(&path(number)).unwrap();
    bytes.truncate(len);
    vfs.write_file(&path(number), &bytes);
}

fn append_bytes(vfs: &SimVfs, number: u64, more: &[u8]) {
    let mut bytes = vfs.read_file(&path(number)).unwrap();
    bytes.extend_from_slice(more);
    vfs.write_file(&path(number), &bytes);
}

#[test]
fn an_empty_log_replays_to_nothing() {
    let vfs = SimVfs::new();
    store(&vfs, 1);
    let (found, outcome) = replay_all(&vfs).unwrap();
    assert!(found.is_empty());
    assert_eq!(
        (outcome.last, outcome.cut, outcome.segments),
        (None, None, 0)
    );
}

/// The prototype's defect "writes lost by kill -9": each write that was acknowledged is there.
#[test]
fn no_acknowledged_write_is_lost_by_kill_9() {
    let vfs = SimVfs::new();
    let mut log = Log::new(&vfs, 1, 1);
    for i in 0..60 {
        if i % 7 == 6 {
            log.rotate(i);
        }
        log.write();
        let (found, outcome) = replay_all(&vfs.process_kill()).unwrap();
        assert_eq!(found, log.names);
        assert_eq!(outcome.last, Some(log.wal.segment_end()));
        assert_eq!(outcome.last_seq, SeqNo(log.names.len() as u64));
        assert_eq!((outcome.cut, outcome.abandoned), (None, vec![]));
    }
}

#[test]
fn segments_below_the_low_water_mark_are_ignored() {
    let vfs = SimVfs::new();
    let log = three_segments(&vfs);
    vfs.flip_bit(&path(2), 900);
    let (found, outcome) = replay_from(&vfs, FileNumber(3)).unwrap();
    assert_eq!(found, log.names[3..]);
    assert_eq!((outcome.segments, outcome.cut), (2, None));
    vfs.remove(&path(2)).unwrap();
    assert_eq!(replay_from(&vfs, FileNumber(5)).unwrap().0, log.names[3..]);
}

/// Damages the end of a log in one way.
type Damage = fn(&SimVfs, usize);

#[test]
fn torn_and_strange_tails_are_cut_and_reported() {
    let damages: [Damage; 5] = [
        |vfs, end| truncate(vfs, 9, end + 7),
        |vfs, end| truncate(vfs, 9, end + 30),
        |vfs, end| {
            truncate(vfs, 9, end);
            append_bytes(vfs, 9, &[0; 4096]);
        },
        |vfs, end| {
            truncate(vfs, 9, end);
            append_bytes(vfs, 9, &[0xa5; 1000]);
        },
        |vfs, end| {
            // Blocks of an older segment show through.
            let old = vfs.read_file(&path(2)).unwrap();
            truncate(vfs, 9, end);
            append_bytes(vfs, 9, &old);
        },
    ];
    for damage in damages {
        let vfs = SimVfs::new();
        let mut log = three_segments(&vfs);
        let end = log.wal.segment_end();
        log.write();
        damage(&vfs, end.end as usize);
        let len = vfs.read_file(&path(9)).unwrap().len() as u64;
        let (found, outcome) = replay_all(&vfs).unwrap();
        assert_eq!(found, log.names[..9]);
        assert_eq!(outcome.last, Some(end));
        let cut = outcome.cut.unwrap();
        assert_eq!(
            (cut.path, cut.offset, cut.bytes),
            (path(9), end.end, len - end.end)
        );
    }
}

/// Every bit of every file, the file headers and links included: below the durable point its damage
/// is corruption, above it the log is cut to a prefix.
#[test]
fn every_flipped_bit_below_the_mark_is_corruption_and_above_it_a_cut() {
    let vfs = SimVfs::new();
    let mut log = Log::new(&vfs, 1, 2);
    log.write();
    log.rotate(5);
    log.write();
    let durable = log.end();
    log.write();
    log.write_claiming(durable);
    log.rotate(9);
    log.write();
    for number in [2, 5, 9] {
        let bits = vfs.read_file(&path(number)).unwrap().len() as u64 * 8;
        for bit in 0..bits {
            assert!(vfs.flip_bit(&path(number), bit));
            let found = replay_all(&vfs);
            let carrier = log.names.len() - 2;
            match found {
                Err(error) => {
                    assert_eq!(
                        error.kind(),
                        ErrorKind::Corruption,
                        "{number} {bit}: {error}"
                    );
                    assert!(error.to_string().contains(".wal"), "{error}");
                    let covered = durable.covers(FileNumber(number), bit / 8);
                    assert!(covered, "{number} {bit}: {error}");
                }
                Ok((found, outcome)) => {
                    assert!(
                        !durable.covers(FileNumber(number), bit / 8),
                        "{number} {bit}"
                    );
                    assert!(log.names.starts_with(&found), "{number} {bit}");
                    assert!(found.len() < log.names.len(), "{number} {bit}");
                    assert!(found.len() >= carrier - 1, "{number} {bit}");
                    assert!(outcome.cut.is_some(), "{number} {bit}");
                }
            }
            vfs.flip_bit(&path(number), bit);
        }
    }
}

/// The newest segment has nobody who names its uid: where a byte of it has changed, trying finds
/// it.
#[test]
fn a_changed_byte_of_the_newest_segments_header_is_corruption() {
    let vfs = SimVfs::new();
    let mut log = Log::new(&vfs, 1, 2);
    log.write();
    log.wal.stage_point(log.end());
    log.wal.write_staged().unwrap();
    let good = vfs.read_file(&path(2)).unwrap();
    for at in 0..crate::base::file_header::HEADER_LEN {
        let bits = (0..8).map(|bit| good[at] ^ 1 << bit);
        for byte in bits.chain([0, 0xff, 0x5a]).filter(|byte| *byte != good[at]) {
            let mut bad = good.clone();
            bad[at] = byte;
            vfs.write_file(&path(2), &bad);
            corruption(&vfs, 2);
        }
    }
}

/// A durable point after the damage counts wherever it stands: as the torn last record's header, in
/// a record of its own, in a later segment.
#[test]
fn marks_after_the_damage_count() {
    let in_torn_record: fn(&mut Log) = |log| {
        let durable = log.end();
        log.write_claiming(durable);
        let len = log.vfs.read_file(&path(5)).unwrap().len();
        truncate(&log.vfs, 5, len - 1);
    };
    let alone: fn(&mut Log) = |log| {
        let durable = log.end();
        log.wal.stage_point(durable);
        log.wal.write_staged().unwrap();
    };
    let in_later_segment: fn(&mut Log) = |log| {
        let durable = log.end();
        log.rotate(8);
        log.write_claiming(durable);
    };
    for claim in [in_torn_record, alone, in_later_segment] {
        for damaged_by in [2, 5] {
            let vfs = SimVfs::new();
            let mut log = Log::new(&vfs, 1, 2);
            log.write();
            log.rotate(5);
            log.write();
            claim(&mut log);
            assert!(replay_all(&vfs).is_ok());
            vfs.flip_bit(&path(damaged_by), 8 * 150);
            corruption(&vfs, damaged_by);
        }
    }
}

#[test]
fn a_missing_segment_is_corruption_where_a_mark_covers_it_and_else_a_cut() {
    let vfs = SimVfs::new();
    let mut log = three_segments(&vfs);
    vfs.remove(&path(5)).unwrap();
    let (found, outcome) = replay_all(&vfs).unwrap();
    assert_eq!(found, log.names[..3]);
    assert_eq!(outcome.abandoned, [FileNumber(9)]);
    let cut = outcome.cut.unwrap();
    assert_eq!((cut.path, cut.offset), (path(5), 0));
    assert_eq!(cut.bytes, vfs.len(&path(9)).unwrap());

    log.write_claiming(point(5, 120));
    let error = corruption(&vfs, 5);
    assert!(error.to_string().contains("missing"), "{error}");
}

#[test]
fn the_segment_of_the_low_water_mark_may_not_be_missing() {
    let vfs = SimVfs::new();
    three_segments(&vfs);
    vfs.remove(&path(5)).unwrap();
    let error = replay_from(&vfs, FileNumber(5)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert_eq!(error.file(), Some(&*path(5)));
    // Without anything that needs it, it was never there.
    vfs.remove(&path(9)).unwrap();
    assert!(replay_from(&vfs, FileNumber(5)).unwrap().0.is_empty());
}

/// The manifest may name the first segment before that is created; from then on a power cut may
/// take away the names of later ones, never its own.
#[test]
fn the_name_of_the_first_segment_is_durable_at_once() {
    for seed in 0..20 {
        let vfs = SimVfs::new();
        let log = three_segments(&vfs);
        let found = replay_from(&vfs.power_cut(Keep::Torn(seed)), FileNumber(2));
        assert!(log.names.starts_with(&found.unwrap().0));
    }
}

#[test]
fn a_segment_that_ends_before_its_successor_says_breaks_the_chain() {
    let vfs = SimVfs::new();
    let log = three_segments(&vfs);
    let len = vfs.read_file(&path(5)).unwrap().len();
    let one_write = 24 + 13 + "5:1001".len();
    truncate(&vfs, 5, len - one_write);
    let (found, outcome) = replay_all(&vfs).unwrap();
    assert_eq!(found, log.names[..5]);
    assert_eq!(outcome.abandoned, [FileNumber(9)]);
    assert_eq!(outcome.cut.unwrap().offset, (len - one_write) as u64);
}

#[test]
fn a_segment_whose_creation_was_interrupted_is_cut() {
    let vfs = SimVfs::new();
    let mut log = three_segments(&vfs);
    let end = log.wal.segment_end();
    log.rotate(12);
    let whole = vfs.read_file(&path(12)).unwrap();
    for len in 0..whole.len() {
        vfs.write_file(&path(12), &whole[..len]);
        let (found, outcome) = replay_all(&vfs).unwrap();
        assert_eq!((found.len(), outcome.last), (9, Some(end)), "length {len}");
        assert_eq!(outcome.abandoned, [FileNumber(12)]);
        // An empty file, or one with nothing but its header, never held anything.
        assert_eq!(outcome.cut.is_none(), len == 0 || len == 96, "length {len}");
    }
    let zeros = vec![0; whole.len()];
    vfs.write_file(&path(12), &zeros);
    assert_eq!(replay_all(&vfs).unwrap().0.len(), 9);
    // Then the next one begins after it, and nobody looks at it again.
    let (names, outcome) = replay_all(&vfs).unwrap();
    let mut log = Log::recovered(&vfs, 7, names, &outcome, next_number(&vfs));
    log.write();
    let (found, outcome) = replay_all(&vfs).unwrap();
    assert_eq!((&found, outcome.cut), (&log.names, None));
    assert_eq!(outcome.abandoned, [FileNumber(12)]);
}

/// A failed append may have left whole records after the end that the successor links.
#[test]
fn records_after_a_linked_end_are_ignored() {
    for bytes in [0, 10, 30, 45, 80, 1000] {
        let vfs = SimVfs::new();
        let mut log = three_segments(&vfs);
        let end = log.wal.segment_end();
        vfs.set_fault(Box::new(move |call| match call.op {
            Op::Append => Fault::FailAfter {
                bytes: bytes.min(call.bytes),
            },
            _ => Fault::None,
        }));
        let acknowledged = log.names.clone();
        log.stage(Some(point(9, 96)));
        log.stage(None);
        log.wal.write_staged().unwrap_err();
        vfs.clear_faults();
        assert_eq!(log.wal.segment_end(), end);

        log.names = acknowledged;
        log.seed = 5;
        log.rotate(11);
        log.write();
        let (found, outcome) = replay_all(&vfs).unwrap();
        assert_eq!(found, log.names, "{bytes} bytes of the failed append");
        assert_eq!((outcome.cut, outcome.abandoned), (None, vec![]));
    }
}

/// At whatever call the creation of a segment fails, the next attempt goes on where it should.
#[test]
fn a_failed_creation_is_followed_by_one_with_a_new_number() {
    for at in 0..4 {
        for bytes in [0, 50, usize::MAX] {
            let vfs = SimVfs::new();
            let mut log = three_segments(&vfs);
            let store = store(&vfs, 50);
            let (end, calls) = (log.wal.segment_end(), vfs.calls());
            vfs.set_fault(Box::new(move |call| {
                if call.index == calls + at {
                    let bytes = bytes.min(call.bytes);
                    Fault::FailAfter { bytes }
                } else {
                    Fault::None
                }
            }));
            let created = WalWriter::create(&store, FileNumber(10), Some(end), 0, None, None);
            vfs.clear_faults();
            let (found, outcome) = replay_all(&vfs).unwrap();
            assert_eq!(found, log.names);
            match created {
                Err(_) => log.rotate(11),
                Ok(wal) => {
                    assert_eq!(outcome.cut, None);
                    log.wal = wal;
                }
            }
            log.write();
            let (found, outcome) = replay_all(&vfs).unwrap();
            assert_eq!((found, outcome.cut), (log.names, None));
        }
    }
}

/// On the real file system: what was written is there although nobody closed the file.
#[test]
fn the_real_file_system_keeps_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env {
        vfs: Arc::new(OsVfs::default()),
        runtime: SimRuntime::new(1),
    };
    let store = FileStore::new(env, dir.path().to_owned(), DatabaseId([2; 16]), 4);
    let mut prev = None;
    let mut written = Vec::new();
    for number in 1..4 {
        let number = FileNumber(number);
        let mut wal = WalWriter::create(&store, number, prev, 0, None, None).unwrap();
        for i in 0..10u8 {
            wal.stage(&write_of(u64::from(i), 1, &[i; 100]), None);
            wal.write_staged().unwrap();
            written.push(vec![i; 100]);
        }
        wal.sync_handle().sync().unwrap();
        prev = Some(wal.segment_end());
        // As a killed process would leave it: not closed.
        std::mem::forget(wal);
    }
    let numbers = [1, 2, 3].map(FileNumber);
    let mut found = Vec::new();
    let outcome = replay(&store, &numbers, from(NO_LOW_WATER), &mut |_, write| {
        found.push(write.ops.to_vec());
        Ok(())
    });
    let outcome = outcome.unwrap();
    assert_eq!(found, written);
    assert_eq!((outcome.cut, outcome.last), (None, prev));
}

/// Abandoned segments stay out, whether or not they have been removed.
#[test]
fn what_was_cut_never_comes_back() {
    let vfs = SimVfs::new();
    let log = three_segments(&vfs);
    let len = vfs.read_file(&path(2)).unwrap().len();
    vfs.flip_bit(&path(2), (len as u64 - 1) * 8);
    let (names, outcome) = replay_all(&vfs).unwrap();
    assert_eq!(names, log.names[..2]);
    assert_eq!(outcome.abandoned, [FileNumber(5), FileNumber(9)]);

    let mut log = Log::recovered(&vfs, 7, names, &outcome, next_number(&vfs));
    for _ in 0..3 {
        log.write();
    }
    for removed in [None, Some(9), Some(5)] {
        if let Some(number) = removed {
            vfs.remove(&path(number)).unwrap();
        }
        let (found, outcome) = replay_all(&vfs).unwrap();
        assert_eq!((&found, outcome.cut), (&log.names, None));
        assert_eq!(outcome.last, Some(log.wal.segment_end()));
    }
}

#[test]
fn a_segment_under_a_wrong_name_or_of_another_database_is_refused() {
    let vfs = SimVfs::new();
    three_segments(&vfs);
    let bytes = vfs.read_file(&path(5)).unwrap();
    vfs.write_file(&path(3), &bytes);
    corruption(&vfs, 3);
    // An older one may be what a segment was begun over. Nothing needs this one.
    vfs.remove(&path(3)).unwrap();
    vfs.write_file(&path(7), &bytes);
    assert_eq!(replay_all(&vfs).unwrap().1.abandoned, [FileNumber(7)]);

    let header = crate::base::file_header::FileHeader {
        kind: FileKind::Wal,
        database: DatabaseId([1; 16]),
        uid: crate::base::keys::FileUid(1),
        number: FileNumber(7),
        required: 0,
    };
    vfs.write_file(&path(7), &header.encode());
    assert_eq!(
        replay_all(&vfs).unwrap_err().kind(),
        ErrorKind::Incompatible
    );
}

#[test]
fn records_of_a_later_version_are_refused_not_cut() {
    let payloads: [(u8, &[u8]); 3] = [
        (9, b"a kind of the future"),
        (wal::KIND_WRITE, &[1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0x80]),
        (wal::KIND_START, &[0x80]),
    ];
    for (kind, payload) in payloads {
        let vfs = SimVfs::new();
        let mut log =
            LogWriter::create(&store(&vfs, 1), path(1), FileKind::Wal, FileNumber(1)).unwrap();
        if kind != wal::KIND_START {
            let start = wal::SegmentStart {
                prev: None,
                manifest_edits: 0,
            };
            log.stage(wal::KIND_START, &[&start.encode()], None);
        }
        log.stage(kind, &[payload], None);
        log.write_staged().unwrap();
        let error = replay_all(&vfs).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Incompatible, "{error}");
    }
}

#[test]
fn a_segment_of_another_log_in_the_place_of_one_breaks_the_chain() {
    let (vfs, elsewhere) = (SimVfs::new(), SimVfs::new());
    let mut log = three_segments(&vfs);
    Log::new(&elsewhere, 77, 5).write();
    vfs.write_file(&path(5), &elsewhere.read_file(&path(5)).unwrap());
    let (found, outcome) = replay_all(&vfs).unwrap();
    assert_eq!(found, log.names[..3]);
    assert_eq!(outcome.abandoned, [FileNumber(5), FileNumber(9)]);
    let cut = outcome.cut.unwrap();
    assert_eq!((cut.path, cut.offset), (path(5), 0));
    assert!(cut.reason.contains("another file"), "{}", cut.reason);

    log.write_claiming(point(5, 120));
    corruption(&vfs, 5);
}

/// Their checksums match: no power cut makes them.
#[test]
fn malformed_records_are_corruption_and_are_not_cut() {
    let start = wal::SegmentStart {
        prev: None,
        manifest_edits: 0,
    };
    let start = start.encode();
    let write = write_of(1, 2, b"").prefix();
    let beyond = write_of(SeqNo::MAX.0, 2, b"").prefix();
    let overflowing = write_of(u64::MAX, 2, b"").prefix();
    let cases: [(u8, &[u8], &str); 8] = [
        (wal::KIND_START, &[], "first record is too short"),
        (wal::KIND_START, &start[..8], "first record is too short"),
        (wal::KIND_START, &[&start[..], b"x"].concat(), "too long"),
        (wal::KIND_START, &[1; 36], "first record is too short"),
        (wal::KIND_WRITE, &write[..12], "write record is too short"),
        (wal::KIND_WRITE, &beyond, "out of range"),
        (wal::KIND_WRITE, &overflowing, "out of range"),
        (wal::KIND_EDITS, &[1; 7], "not 8 bytes long"),
    ];
    for (kind, payload, what) in cases {
        let vfs = SimVfs::new();
        let store = store(&vfs, 1);
        let mut log = LogWriter::create(&store, path(1), FileKind::Wal, FileNumber(1)).unwrap();
        if kind != wal::KIND_START {
            log.stage(wal::KIND_START, &[&start], None);
        }
        log.write_staged().unwrap();
        let offset = log.end();
        log.stage(kind, &[payload], None);
        log.write_staged().unwrap();
        let error = corruption(&vfs, 1);
        assert_eq!(error.offset(), Some(offset), "{error}");
        assert!(error.to_string().contains(what), "{error}");
    }
}

#[test]
fn a_segment_that_does_not_begin_with_its_link_is_corruption() {
    let vfs = SimVfs::new();
    let store = store(&vfs, 1);
    let mut log = LogWriter::create(&store, path(3), FileKind::Wal, FileNumber(3)).unwrap();
    let begin = log.end();
    let prefix = write_of(1, 1, b"1:1").prefix();
    log.stage(wal::KIND_WRITE, &[&prefix, b"1:1"], None);
    log.write_staged().unwrap();
    let error = corruption(&vfs, 3);
    assert_eq!(error.offset(), Some(begin));
    assert!(error.to_string().contains("its link"), "{error}");
}

/// Each record verifies, and yet they are not those that the writer of the next segment saw.
#[test]
fn a_segment_that_its_successor_saw_end_otherwise_is_corruption() {
    let changes: [fn(&mut SegmentEnd); 3] = [
        |end| end.chain ^= 1,
        |end| end.end -= 1,
        // Between the last two records: the chain is that of all three.
        |end| end.end -= 24 + 13 + "3:1".len() as u64,
    ];
    for change in changes {
        let vfs = SimVfs::new();
        let mut log = Log::new(&vfs, 1, 2);
        (0..3).for_each(|_| log.write());
        let mut prev = log.wal.segment_end();
        change(&mut prev);
        let store = store(&vfs, 2);
        WalWriter::create(&store, FileNumber(5), Some(prev), 0, None, None).unwrap();
        let error = corruption(&vfs, 2);
        assert!(error.offset() >= Some(prev.end), "{error}");
        assert!(error.to_string().contains("ended elsewhere"), "{error}");
    }
}

/// A log that has lost its end, its only durable point or all of itself looks like one that was
/// just begun.
#[test]
fn a_log_that_ends_before_the_mark_in_the_manifest_is_corruption() {
    let vfs = SimVfs::new();
    let mut log = Log::new(&vfs, 1, 2);
    log.write();
    let first = log.wal.end();
    log.write();
    let durable = DurableSegment {
        point: DurablePoint {
            file: FileNumber(2),
            offset: log.wal.end(),
        },
        uid: log.wal.segment_end().uid,
    };
    let end = durable.point.offset as usize;
    log.write();
    let whole = vfs.read_file(&path(2)).unwrap();
    let replay_with = |durable| {
        let needed = NeededLog {
            low_water: FileNumber(2),
            durable: Some(durable),
        };
        replay(&store(&vfs, 99), &segments_on(&vfs), needed, &mut |_, _| {
            Ok(())
        })
    };
    for len in [0, 50, first as usize - 1, first as usize, end - 1] {
        vfs.write_file(&path(2), &whole[..len]);
        let error = replay_with(durable).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{len}: {error}");
        assert_eq!(error.file(), Some(&*path(2)), "{len}: {error}");
        // A segment that is not needed any more may say what it likes.
        let older = DurableSegment {
            point: DurablePoint {
                file: FileNumber(1),
                offset: 1 << 40,
            },
            ..durable
        };
        assert!(replay_with(older).is_ok(), "{len}");
    }
    vfs.write_file(&path(2), &whole[..end]);
    assert_eq!(replay_with(durable).unwrap().records, 2);
    let other = DurableSegment {
        uid: FileUid(durable.uid.0 + 1),
        ..durable
    };
    let error = replay_with(other).unwrap_err();
    assert!(error.to_string().contains("another file"), "{error}");
    vfs.remove(&path(2)).unwrap();
    let error = replay_with(durable).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
}

#[test]
fn segments_tell_how_many_edits_the_manifest_had() {
    let vfs = SimVfs::new();
    let store = store(&vfs, 1);
    let a = WalWriter::create(&store, FileNumber(1), None, 7, None, None).unwrap();
    let prev = Some(a.segment_end());
    WalWriter::create(&store, FileNumber(2), prev, 12, None, None).unwrap();
    assert_eq!(max_manifest_edits(&store, &segments_on(&vfs)).unwrap(), 12);
}

#[test]
fn large_writes_and_errors_of_the_sink_go_through() {
    let vfs = SimVfs::new();
    let store = store(&vfs, 1);
    let mut wal = WalWriter::create(&store, FileNumber(1), None, 0, None, None).unwrap();
    let ops = vec![7; 3 << 20];
    assert!(WalWriter::is_large(&ops));
    wal.stage(&write_of(1, 2, b"staged"), None);
    let commit_tag = Some(&b"mark"[..]);
    let large = write_of(3, 4, &ops);
    wal.write_large(
        &WalWrite {
            commit_tag,
            ..large
        },
        None,
    )
    .unwrap();
    // A commit tag alone takes a number, too.
    let mark_alone = write_of(7, 0, b"");
    wal.stage(
        &WalWrite {
            commit_tag,
            ..mark_alone
        },
        None,
    );
    wal.write_staged().unwrap();
    let mut found = Vec::new();
    let outcome = replay(
        &store,
        &[FileNumber(1)],
        from(NO_LOW_WATER),
        &mut |_, write| {
            let tag = write.commit_tag.map(<[u8]>::to_vec);
            found.push((write.base_seq.0, write.count, write.ops.len(), tag));
            Ok(())
        },
    );
    let outcome = outcome.unwrap();
    let tag = Some(b"mark".to_vec());
    let (first, second) = ((1, 2, 6, None), (3, 4, 3 << 20, tag.clone()));
    assert_eq!(found, [first, second, (7, 0, 0, tag)]);
    assert_eq!((outcome.ops, outcome.last_seq), (6, SeqNo(7)));

    let refused = replay(&store, &[FileNumber(1)], from(NO_LOW_WATER), &mut |_, _| {
        Err(Error::closed())
    });
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn a_segment_is_pinned_byte_for_byte() {
    let vfs = SimVfs::new();
    let prev = wal::SegmentEnd {
        number: FileNumber(9),
        uid: crate::base::keys::FileUid(0x0102_0304_0506_0708),
        end: 4096,
        chain: 0xdead_beef,
    };
    let durable = Some(point(9, 4000));
    let store = store(&vfs, 1);
    let mut wal = WalWriter::create(&store, FileNumber(12), Some(prev), 3, durable, None).unwrap();
    wal.stage(&write_of(1, 1, b"1:one"), durable);
    let commit_tag = Some(&b"a mark"[..]);
    let second = write_of(2, 1, b"2:two");
    wal.stage(
        &WalWrite {
            commit_tag,
            ..second
        },
        durable,
    );
    wal.write_staged().unwrap();
    wal.stage_point(point(12, wal.end()));
    wal.write_staged().unwrap();
    golden::check("wal_segment", &vfs.read_file(&path(12)).unwrap());

    let old = SimVfs::new();
    old.write_file(&path(12), &golden::load("wal_segment"));
    let (found, outcome) = replay_from(&old, FileNumber(10)).unwrap();
    assert_eq!(found, ["1:one", "2:two"]);
    assert_eq!(outcome.cut, None);
    let edits = max_manifest_edits(&crate::log::tests::store(&old, 1), &segments_on(&old));
    assert_eq!(edits.unwrap(), 3);
}

/// The durable state of a [`Log`] under random crashes, kept by the rules that the engine keeps.
struct Crashes {
    rng: SmallRng,
    log: Log,
    /// Every segment since the last crash, with its handle, unsynced ones from `synced` on.
    handles: Vec<(u64, Arc<dyn crate::vfs::SyncFile>)>,
    durable: Option<DurablePoint>,
    durable_names: usize,
    /// Recovered bytes may still be in the page cache only: claim nothing.
    volatile: bool,
}

impl Crashes {
    fn new(seed: u64) -> Crashes {
        let vfs = SimVfs::new();
        let log = Log::new(&vfs, seed << 32, 1);
        let handles = vec![(1, log.wal.sync_handle())];
        Crashes {
            rng: SmallRng::seed_from_u64(seed),
            log,
            handles,
            durable: None,
            durable_names: 0,
            volatile: false,
        }
    }

    fn step(&mut self) {
        match self.rng.random_range(0..10) {
            0 => {
                let next = self.log.wal.segment_end().number.0 + self.rng.random_range(1..4);
                self.log.rotate(next);
                self.handles.push((next, self.log.wal.sync_handle()));
            }
            1 | 2 => self.sync(),
            _ => {
                for _ in 0..self.rng.random_range(1..6) {
                    self.log.stage(self.durable);
                }
                self.log.wal.write_staged().unwrap();
            }
        }
    }

    /// Makes the log durable, oldest segment first, then the names.
    fn sync(&mut self) {
        if self.volatile {
            return;
        }
        for (_, handle) in &self.handles {
            handle.sync().unwrap();
        }
        self.log.vfs.sync_dir(Path::new(DIR)).unwrap();
        self.durable = Some(self.log.end());
        self.durable_names = self.log.names.len();
        if self.rng.random() {
            self.log.wal.stage_point(self.log.end());
            self.log.wal.write_staged().unwrap();
        }
    }

    fn crash(&mut self, round: u64) {
        let killed = self.rng.random_range(0..4) == 0;
        let seed = self.rng.random();
        let vfs = match self.rng.random_range(0..4) {
            _ if killed => self.log.vfs.process_kill(),
            0 => self.log.vfs.power_cut(Keep::Nothing),
            1 => self.log.vfs.power_cut(Keep::Prefix(seed)),
            _ => self.log.vfs.power_cut(Keep::Torn(seed)),
        };
        let (found, outcome) = replay_all(&vfs).unwrap();
        let written = &self.log.names;
        assert!(
            written.starts_with(&found),
            "{found:?} is no prefix of {written:?}"
        );
        assert!(found.len() >= self.durable_names, "durable writes lost");
        if killed {
            assert_eq!(&found, written, "acknowledged writes lost by kill -9");
        } else {
            // After a power cut, what is there is durable.
            self.durable_names = found.len();
        }
        self.volatile = killed;
        self.durable = None;
        if self.rng.random() {
            for number in &outcome.abandoned {
                vfs.remove(&path(number.0)).unwrap();
            }
        }
        let seed = self.log.seed / 1000 * 1000 + 1_000_000 + round;
        self.log = Log::recovered(&vfs, seed, found, &outcome, next_number(&vfs));
        self.handles = vec![(
            self.log.wal.segment_end().number.0,
            self.log.wal.sync_handle(),
        )];
    }
}

/// Many crashes in a row without a flush: what survives is always a prefix of what was written
/// with everything durable in it, and nothing that was cut returns.
#[test]
fn any_row_of_crashes_leaves_a_prefix_with_everything_durable() {
    for seed in 0..150 {
        let mut crashes = Crashes::new(seed);
        for round in 0..8 {
            for _ in 0..crashes.rng.random_range(0..25) {
                crashes.step();
            }
            crashes.crash(round);
        }
    }
}

/// Random damage to random logs never panics, and never gives anything but a prefix.
#[test]
fn random_damage_gives_a_prefix_or_an_error() {
    let mut rng = SmallRng::seed_from_u64(11);
    let mut refused = 0;
    for _ in 0..300 {
        let vfs = SimVfs::new();
        let mut log = three_segments(&vfs);
        if rng.random() {
            log.write_claiming(point(5, rng.random_range(1..300)));
        }
        for _ in 0..rng.random_range(1..4) {
            let number = [2, 5, 9][rng.random_range(0..3usize)];
            let mut bytes = vfs.read_file(&path(number)).unwrap();
            if bytes.is_empty() {
                continue;
            }
            let (a, b) = (
                rng.random_range(0..bytes.len()),
                rng.random_range(0..bytes.len()),
            );
            match rng.random_range(0..4) {
                0 => bytes.truncate(a),
                1 => bytes[a.min(b)..a.max(b)].fill(0),
                2 => rng.fill(&mut bytes[a.min(b)..a.max(b)]),
                _ => bytes[a] ^= 1 << rng.random_range(0..8),
            }
            vfs.write_file(&path(number), &bytes);
        }
        match replay_all(&vfs) {
            Ok((found, _)) => assert!(log.names.starts_with(&found)),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 20, "{refused} damaged logs were refused");
}
