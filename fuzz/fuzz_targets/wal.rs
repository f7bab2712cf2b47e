//! Replay of the write-ahead log: up to three segments. The first byte: whether headers (bit 0) and
//! records (bit 1) are made right, whether links are (bit 2), and the low-water mark (bits 3 and
//! 4). Then the lengths of the first two segments, two bytes each; then the segments.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::path::Path;
use unikv::fuzzing::{self, Files};
use unikv::vfs::sim::SimVfs;
use unikv_fuzz::specimen::env;
use unikv_fuzz::{allocation, seal, typed};

const NUMBERS: [u64; 3] = [3, 4, 6];

fuzz_target!(|data: &[u8]| {
    let Some((&[flags, a, b, c, d], bytes)) = data.split_first_chunk() else {
        return;
    };
    let first = usize::from(u16::from_le_bytes([a, b])).min(bytes.len());
    let (first, rest) = bytes.split_at(first);
    let second = usize::from(u16::from_le_bytes([c, d])).min(rest.len());
    let (second, third) = rest.split_at(second);
    let disk = SimVfs::new();
    let (mut link, mut numbers) = (None, Vec::new());
    for (number, segment) in NUMBERS.into_iter().zip([first, second, third]) {
        if segment.is_empty() {
            continue;
        }
        let mut segment = segment.to_vec();
        if flags & 1 != 0 {
            seal::header(&mut segment, 3, number, seal::DATABASE);
        }
        if flags & 2 != 0 {
            link = Some(seal::log(&mut segment, link.filter(|_| flags & 4 != 0)));
        }
        disk.write_file(&path(number), &segment);
        numbers.push(number);
    }
    let low_water = NUMBERS[usize::from(flags >> 3 & 3).min(2)];
    // A reader's buffer of 256 KiB for each segment that is open at once, and what a payload takes.
    let limit = 8 * data.len() + (2 << 20);
    let once = allocation::bounded(limit, || replay(&disk, &numbers, low_water));
    let twice = replay(&disk, &numbers, low_water);
    assert_eq!(once, twice, "replay changes nothing");
    for number in numbers {
        let seen = env(&disk).inspect(path(number), &mut |_| {});
        typed::checked(seen);
    }
});

fn path(number: u64) -> std::path::PathBuf {
    Path::new("/db").join(format!("{number:06}.wal"))
}

/// What replay hands out: base sequence and operations of each write.
fn replay(disk: &SimVfs, numbers: &[u64], low_water: u64) -> Option<Vec<(u64, Vec<u8>)>> {
    let files = Files::new(env(disk), Path::new("/db"), seal::DATABASE);
    let (mut writes, mut ops) = (Vec::new(), 0);
    let mut sink = |base: u64, count: u32, _mark: Option<&[u8]>, bytes: &[u8]| {
        writes.push((base, bytes.to_vec()));
        ops += u64::from(count);
    };
    let done = typed::checked(files.replay(numbers, low_water, &mut sink))?;
    assert_eq!(done.records, writes.len() as u64);
    assert_eq!(done.ops, ops);
    let on_disk: u64 = numbers.iter().map(|&n| len(disk, n)).sum();
    assert!(done.bytes <= on_disk);
    if let Some((number, end)) = done.last {
        assert!(number >= low_water && end <= len(disk, number));
    }
    if let Some(cut) = done.cut {
        let ours = numbers.iter().any(|&number| cut.path == path(number));
        assert!(ours || cut.bytes == 0 || cut.offset == 0, "{cut:?}");
        assert!(!cut.reason.is_empty());
        assert!(cut.bytes <= on_disk, "{cut:?}");
    }
    for (_, bytes) in &writes {
        let (again, _, bad) = fuzzing::operations(bytes);
        assert!(again == *bytes || bad.is_some());
    }
    Some(writes)
}

fn len(disk: &SimVfs, number: u64) -> u64 {
    disk.read_file(&path(number))
        .map_or(0, |bytes| bytes.len() as u64)
}
