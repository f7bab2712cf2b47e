//! Segments that are written over old ones.

use super::*;
use crate::log::RECORD_HEADER_LEN;

/// Begins segment `number` in the place of `old`, after what `log` has written.
fn recycle(log: &mut Log, old: u64, number: u64) {
    log.seed += 1000;
    let prev = Some(log.wal.segment_end());
    let store = store(&log.vfs, log.seed);
    log.wal = over(&store, old, number, prev).unwrap();
    assert!(log.wal.is_recycled());
}

fn over(store: &FileStore, old: u64, number: u64, prev: Option<SegmentEnd>) -> Result<WalWriter> {
    let old = path(old);
    WalWriter::create(store, FileNumber(number), prev, 0, None, Some(&old))
}

/// An old segment 2 with this many writes, of which each claims that all is durable, and segment 3
/// begun after it; nothing below 3 is needed. With the names that the old one held.
fn with_spare(vfs: &SimVfs, writes: usize) -> (Log, usize) {
    let mut log = Log::new(vfs, 1, 2);
    for _ in 0..writes {
        log.write_claiming(log.end());
    }
    log.rotate(3);
    (log, writes)
}

/// Nothing but the `gone` first names, which are below the low-water mark, is missing.
fn all_is_there(vfs: &SimVfs, log: &Log, gone: usize) -> ReplayOutcome {
    let (found, outcome) = replay_from(vfs, FileNumber(3)).unwrap();
    assert_eq!(found, log.names[gone..]);
    assert_eq!(outcome.cut, None);
    outcome
}

#[test]
fn a_segment_over_an_old_one_reads_as_if_it_were_alone() {
    for old in [0, 1, 2, 40, 500] {
        let vfs = SimVfs::new();
        let (mut log, gone) = with_spare(&vfs, old);
        recycle(&mut log, 2, 5);
        for _ in 0..60 {
            let outcome = all_is_there(&vfs.process_kill(), &log, gone);
            assert_eq!(outcome.last, Some(log.wal.segment_end()));
            log.write();
            log.stage(None);
            log.write();
        }
        assert!(vfs.len(&path(2)).is_err(), "it has given up its old name");
        log.rotate(6);
        log.write();
        all_is_there(&vfs, &log, gone);
    }
}

/// A block that is not in memory any more would have to be read before a part of it is written.
#[test]
fn a_block_is_written_whole_when_the_log_first_comes_into_it() {
    let vfs = SimVfs::new();
    let (mut log, _) = with_spare(&vfs, 2000);
    recycle(&mut log, 2, 5);
    let old = vfs.read_file(&path(5)).unwrap();
    let mut covered = 4096;
    while covered < 40_000 {
        let bytes = vfs.read_file(&path(5)).unwrap();
        let end = log.wal.end() as usize + RECORD_HEADER_LEN;
        covered = covered.max(end.next_multiple_of(4096));
        assert!(bytes[end..covered].iter().all(|&byte| byte == 0), "{end}");
        assert_eq!(bytes[covered..], old[covered..], "{end}");
        log.write();
    }
}

#[test]
fn any_flipped_bit_of_a_segment_over_an_old_one_is_an_error_or_a_cut() {
    let vfs = SimVfs::new();
    let (mut log, gone) = with_spare(&vfs, 50);
    recycle(&mut log, 2, 5);
    (0..4).for_each(|_| log.write());
    let end = log.wal.end() + RECORD_HEADER_LEN as u64;
    let all = &log.names[gone..];
    for bit in 0..end * 8 {
        assert!(vfs.flip_bit(&path(5), bit));
        let (found, outcome) = match replay_from(&vfs, FileNumber(3)) {
            Ok(replayed) => replayed,
            // The number of a later segment: no crash does that.
            Err(error) => panic!("bit {bit}: {error}"),
        };
        assert!(all.starts_with(&found), "bit {bit}");
        assert!(outcome.cut.is_some(), "bit {bit}");
        // Behind the last record, all are there.
        assert_eq!(
            found.len() == all.len(),
            bit / 8 >= log.wal.end(),
            "bit {bit}"
        );
        vfs.flip_bit(&path(5), bit);
    }
}

/// A sector may have kept the end that stood in it when a later one had got more records.
#[test]
fn an_end_before_later_records_is_a_cut_and_below_a_mark_corruption() {
    for durable in [false, true] {
        let vfs = SimVfs::new();
        let (mut log, gone) = with_spare(&vfs, 50);
        recycle(&mut log, 2, 5);
        log.write();
        let at = log.wal.end() as usize;
        let before = vfs.read_file(&path(5)).unwrap();
        log.write();
        if durable {
            log.write_claiming(log.end())
        } else {
            log.write()
        }
        let mut bytes = vfs.read_file(&path(5)).unwrap();
        bytes[at..at + RECORD_HEADER_LEN].copy_from_slice(&before[at..at + RECORD_HEADER_LEN]);
        vfs.write_file(&path(5), &bytes);
        let replayed = replay_from(&vfs, FileNumber(3));
        if durable {
            assert_eq!(replayed.unwrap_err().kind(), ErrorKind::Corruption);
            continue;
        }
        let (found, outcome) = replayed.unwrap();
        assert_eq!(found, log.names[gone..=gone]);
        assert_eq!(outcome.cut.unwrap().offset, at as u64);
    }
}

/// The new name may be durable and nothing else of the segment. What the old one claimed of itself
/// says nothing of this one.
#[test]
fn an_old_segment_under_a_new_name_is_a_cut_unless_a_mark_covers_it() {
    for durable in [false, true] {
        let vfs = SimVfs::new();
        let (mut log, gone) = with_spare(&vfs, 50);
        let old = vfs.read_file(&path(2)).unwrap();
        recycle(&mut log, 2, 5);
        log.write();
        let end = log.end();
        if durable {
            log.rotate(8);
            log.write_claiming(end);
        }
        vfs.write_file(&path(5), &old);
        let replayed = replay_from(&vfs, FileNumber(3));
        if durable {
            let error = replayed.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption);
            assert_eq!(error.file(), Some(&*path(5)), "{error}");
            continue;
        }
        let (found, outcome) = replayed.unwrap();
        assert_eq!(found, log.names[gone..gone]);
        assert_eq!(outcome.abandoned, [FileNumber(5)]);
        assert_eq!(outcome.cut.unwrap().path, path(5));
        // Nor does it keep an opening from counting edits.
        let store = store(&vfs, 1);
        max_manifest_edits(&store, &segments_on(&vfs)).unwrap();
    }
}

/// The other way round: the bytes are durable and the name is not.
#[test]
fn a_new_segment_under_an_old_name_is_not_needed() {
    let vfs = SimVfs::new();
    let (mut log, gone) = with_spare(&vfs, 50);
    recycle(&mut log, 2, 5);
    log.write();
    vfs.rename(&path(5), &path(2)).unwrap();
    let (found, outcome) = replay_from(&vfs, FileNumber(3)).unwrap();
    assert_eq!((&found[..], outcome.cut), (&log.names[gone..gone], None));
    max_manifest_edits(&store(&vfs, 1), &segments_on(&vfs)).unwrap();
}

/// At whatever call the beginning fails, the next attempt goes on where it should.
#[test]
fn a_failed_beginning_over_an_old_segment_is_followed_by_a_new_one() {
    for at in 0..4 {
        for bytes in [0, 50, 110, usize::MAX] {
            let vfs = SimVfs::new();
            let (mut log, gone) = with_spare(&vfs, 50);
            log.write();
            let store = store(&vfs, 50);
            let (end, calls) = (log.wal.segment_end(), vfs.calls());
            vfs.set_fault(Box::new(move |call| {
                if call.index == calls + at {
                    Fault::FailAfter {
                        bytes: bytes.min(call.bytes),
                    }
                } else {
                    Fault::None
                }
            }));
            let begun = over(&store, 2, 10, Some(end));
            vfs.clear_faults();
            all_is_there(&vfs, &log, gone);
            match begun {
                Err(_) => log.rotate(11),
                Ok(wal) => log.wal = wal,
            }
            log.write();
            all_is_there(&vfs, &log, gone);
        }
    }
}

#[test]
fn a_large_write_over_an_old_segment_is_there_whole_or_not_at_all() {
    let vfs = SimVfs::new();
    let mut log = Log::new(&vfs, 1, 2);
    let ops = vec![7; 2 << 20];
    log.wal.write_large(&write_of(1, 2, &ops), None).unwrap();
    let prev = log.wal.segment_end();
    let store = store(&vfs, 9);
    let mut wal = over(&store, 2, 5, Some(prev)).unwrap();
    let machine = vfs.clone();
    let killed = Arc::new(crate::base::sync::Mutex::new(Vec::new()));
    let seen = Arc::clone(&killed);
    vfs.set_fault(Box::new(move |_| {
        seen.lock().push(machine.process_kill());
        Fault::None
    }));
    wal.stage(&write_of(10, 1, b"small"), None);
    wal.write_large(&write_of(11, 1, &ops[..1 << 20]), None)
        .unwrap();
    wal.stage(&write_of(12, 1, b"small"), None);
    wal.write_staged().unwrap();
    vfs.clear_faults();
    let mut kills = std::mem::take(&mut *killed.lock());
    kills.push(vfs.process_kill());
    let mut most = 0;
    for vfs in &kills {
        let mut seqs = Vec::new();
        let store = crate::log::tests::store(vfs, 1);
        let segments = segments_on(vfs);
        replay(&store, &segments, from(FileNumber(5)), &mut |_, write| {
            seqs.push(write.base_seq.0);
            Ok(())
        })
        .unwrap();
        assert!([10, 11, 12].starts_with(&seqs), "{seqs:?}");
        assert!(seqs.len() >= most, "{seqs:?}");
        most = seqs.len();
    }
    assert_eq!(most, 3);
}

#[test]
fn a_segment_over_an_old_one_is_pinned_byte_for_byte() {
    let vfs = SimVfs::new();
    let (mut log, _) = with_spare(&vfs, 8);
    recycle(&mut log, 2, 5);
    (0..3).for_each(|_| log.write());
    golden::check("wal_recycled", &vfs.read_file(&path(5)).unwrap());

    let old = SimVfs::new();
    old.write_file(&path(5), &golden::load("wal_recycled"));
    let (found, outcome) = replay_from(&old, FileNumber(5)).unwrap();
    assert_eq!((found.len(), outcome.cut), (3, None));
}

/// A log that is flushed now and then, and whose old segments are written over, under random
/// crashes.
struct Flushed {
    log: Log,
    rng: SmallRng,
    low_water: u64,
    /// The names that were in the log before the segment of the low-water mark began.
    flushed: usize,
    /// The segments that this process has begun, with what was written before, oldest first.
    segments: Vec<(u64, usize, Arc<dyn crate::vfs::SyncFile>)>,
    spare: Option<u64>,
    durable: Option<DurablePoint>,
    durable_names: usize,
    /// What recovery read may be in the page cache only.
    volatile: bool,
    recycled: u64,
}

impl Flushed {
    fn new(seed: u64) -> Flushed {
        let log = Log::new(&SimVfs::new(), seed << 32, 1);
        let segments = vec![(1, 0, log.wal.sync_handle())];
        Flushed {
            log,
            rng: SmallRng::seed_from_u64(seed),
            low_water: 1,
            flushed: 0,
            segments,
            spare: None,
            durable: None,
            durable_names: 0,
            volatile: false,
            recycled: 0,
        }
    }

    fn step(&mut self) {
        match self.rng.random_range(0..12) {
            0 | 1 => self.rotate(),
            2 => self.flush(),
            3 if !self.volatile => self.sync(),
            _ => {
                for _ in 0..self.rng.random_range(1..30) {
                    self.log.stage(self.durable);
                    if self.rng.random() {
                        self.log.wal.write_staged().unwrap();
                    }
                }
                self.log.wal.write_staged().unwrap();
            }
        }
    }

    fn rotate(&mut self) {
        let next = self.log.wal.segment_end().number.0 + self.rng.random_range(1..4);
        match self.spare.take() {
            Some(old) => recycle(&mut self.log, old, next),
            None => self.log.rotate(next),
        }
        self.recycled += u64::from(self.log.wal.is_recycled());
        let handle = self.log.wal.sync_handle();
        self.segments.push((next, self.log.names.len(), handle));
    }

    /// All that stands in segments before the current one is in tables, durably.
    fn flush(&mut self) {
        let Some(&(current, before, _)) = self.segments.last() else {
            return;
        };
        self.log.vfs.sync_dir(Path::new(DIR)).unwrap();
        let retired: Vec<u64> = segments_on(&self.log.vfs)
            .iter()
            .map(|number| number.0)
            .filter(|number| *number < current && self.spare != Some(*number))
            .collect();
        let begun = |n: &u64| self.segments.iter().any(|(number, ..)| number == n);
        for number in &retired {
            if self.spare.is_none() && begun(number) {
                self.spare = Some(*number);
            } else {
                self.log.vfs.remove(&path(*number)).unwrap();
            }
        }
        self.segments.retain(|(number, ..)| *number == current);
        (self.low_water, self.flushed) = (current, before);
        self.durable_names = self.durable_names.max(before);
        self.volatile = false;
    }

    fn sync(&mut self) {
        for (_, _, handle) in &self.segments {
            handle.sync().unwrap();
        }
        self.log.vfs.sync_dir(Path::new(DIR)).unwrap();
        self.durable = Some(self.log.end());
        self.durable_names = self.log.names.len();
    }

    fn crash(&mut self, round: u64) {
        let seed = self.rng.random();
        let killed = self.rng.random_range(0..4) == 0;
        let vfs = match self.rng.random_range(0..6) {
            _ if killed => self.log.vfs.process_kill(),
            0 => self.log.vfs.power_cut(Keep::Nothing),
            1 => self.log.vfs.power_cut(Keep::Prefix(seed)),
            2 => self.log.vfs.power_cut(Keep::Torn(seed)),
            3 => {
                let pending = self.log.vfs.pending_changes();
                let kept = self.rng.random_range(0..=pending);
                self.log.vfs.power_cut(Keep::First(kept))
            }
            _ => self.log.vfs.power_cut(Keep::Sectors(seed)),
        };
        let (found, outcome) = replay_from(&vfs, FileNumber(self.low_water)).unwrap();
        let written = &self.log.names[self.flushed..];
        assert!(
            written.starts_with(&found),
            "no prefix of {written:?}: {found:?}"
        );
        let kept = self.flushed + found.len();
        assert!(kept >= self.durable_names, "durable writes lost");
        if killed {
            assert_eq!(found, written, "acknowledged writes lost by kill -9");
            assert_eq!(outcome.cut, None);
        } else {
            self.durable_names = kept;
        }
        for number in segments_on(&vfs) {
            let unneeded = number.0 < self.low_water || outcome.abandoned.contains(&number);
            if unneeded && self.rng.random() {
                vfs.remove(&path(number.0)).unwrap();
            }
        }
        let seed = self.log.seed / 1000 * 1000 + 1_000_000 + round;
        let names = self.log.names[..kept].to_vec();
        // The manifest knows that numbers up to here were given.
        let number = self.log.wal.segment_end().number.0 + 1;
        self.log = Log::recovered(&vfs, seed, names, &outcome, number);
        if outcome.last.is_none() {
            (self.low_water, self.flushed) = (number, kept);
        }
        self.segments = vec![(number, kept, self.log.wal.sync_handle())];
        (self.volatile, self.durable, self.spare) = (killed, None, None);
    }
}

/// As without: what survives is a prefix of what was written with everything durable in it.
#[test]
fn any_row_of_crashes_of_a_log_over_old_segments_leaves_a_prefix() {
    let mut recycled = 0;
    for seed in 0..150 {
        let mut log = Flushed::new(seed);
        for round in 0..8 {
            for _ in 0..log.rng.random_range(0..40) {
                log.step();
            }
            log.crash(round);
        }
        recycled += log.recycled;
    }
    assert!(recycled > 200, "{recycled}");
}
