//! Reading a log beside its writer.

use super::super::live::{LogTail, Wanted};
use super::*;

/// What a secondary that knows of `edits` reads of the log up to `until`.
fn read_on(tail: &mut LogTail, vfs: &SimVfs, until: usize, edits: u64) -> Vec<String> {
    let mut found = Vec::new();
    let mut sink = |_: FileNumber, write: &WalWrite<'_>| {
        found.push(String::from_utf8(write.ops.to_vec()).unwrap());
        Ok(())
    };
    let wanted = Wanted {
        store: &store(vfs, 99),
        low_water: NO_LOW_WATER,
        until: SeqNo(until as u64),
        edits,
    };
    let segments = || Ok(segments_on(vfs));
    tail.read_on(&wanted, segments, &mut sink).unwrap();
    found
}

/// Begins segment `number` after this many edits, linked to `prev`.
fn begin(log: &mut Log, number: u64, prev: Option<SegmentEnd>, edits: u64) {
    log.seed += 1000;
    let store = store(&log.vfs, log.seed);
    log.wal = WalWriter::create(&store, FileNumber(number), prev, edits, None, None).unwrap();
}

/// The writer may rotate the log, and publish what it writes then, between the sync of an edit and
/// the moment when the edit is in force.
#[test]
fn a_segment_that_is_linked_is_read_before_the_edits_that_it_counts_are_in_force() {
    for held in [false, true] {
        let vfs = SimVfs::new();
        let (mut log, mut tail) = (Log::new(&vfs, 1, 2), LogTail::default());
        log.write();
        let before = if held {
            read_on(&mut tail, &vfs, 1, 0)
        } else {
            Vec::new()
        };
        let prev = Some(log.wal.segment_end());
        begin(&mut log, 5, prev, 7);
        log.write();
        let found = read_on(&mut tail, &vfs, 2, 6);
        assert_eq!([before, found].concat(), log.names, "{held}");
    }
}

/// What was written before is in tables that the secondary does not know yet.
#[test]
fn a_segment_after_a_log_that_was_given_up_waits_for_the_edits_that_it_counts() {
    let vfs = SimVfs::new();
    let (mut log, mut tail) = (Log::new(&vfs, 1, 2), LogTail::default());
    log.write();
    begin(&mut log, 5, None, 7);
    log.write();
    assert!(read_on(&mut tail, &vfs, 2, 6).is_empty());
    assert_eq!(read_on(&mut tail, &vfs, 2, 7), log.names[1..]);
}
