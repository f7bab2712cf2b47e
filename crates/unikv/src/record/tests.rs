//! Record files: what is written is read, damage is refused, each byte is pinned.

use super::*;
use crate::base::file_header::{FileHeader, FileKind};
use crate::base::keys::{DatabaseId, FileNumber, FileUid, Kind, SeqNo};
use crate::base::range_tombstones::RangeTombstone;
use crate::error::{Error, ErrorKind};
use crate::key_table::range_section::RangeSection;
use crate::key_table::{EntryValue, KeyEntry, KeySectionBuilder, ReadCache};
use crate::testing::file_trace::{Event, FileTrace, prefetched_in_vain, prefetches, reads};
use crate::testing::golden;
use crate::vfs::file_store::FileStore;
use crate::vfs::sim::{SimRuntime, SimVfs};
use crate::vfs::{Access, Env, Vfs};
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use std::path::{Path, PathBuf};
use std::sync::Arc;

mod chunked;
mod compressed;
mod large;

const DATABASE: DatabaseId = DatabaseId([0xdb; 16]);
const NUMBER: FileNumber = FileNumber(9);
const FILE: &str = "db/000009.rec";

fn store_on(vfs: &SimVfs) -> Arc<FileStore> {
    let env = Env {
        vfs: Arc::new(vfs.clone()),
        runtime: SimRuntime::new(1),
    };
    env.vfs.create_dir_all(Path::new("db")).unwrap();
    FileStore::new(env, PathBuf::from("db"), DATABASE, 16)
}

fn header() -> FileHeader {
    let uid = FileUid(0x0123_4567_89ab_cdef);
    FileHeader {
        kind: FileKind::Record,
        database: DATABASE,
        uid,
        number: NUMBER,
        required: 0,
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Owned {
    key: Vec<u8>,
    seq: SeqNo,
    kind: Kind,
    value: Vec<u8>,
    expiry_ms: Option<u64>,
    host_type: u8,
    older_follows: bool,
}

impl Owned {
    fn as_ref(&self) -> RecordRef<'_> {
        RecordRef {
            key: &self.key,
            seq: self.seq,
            kind: self.kind,
            value: &self.value,
            expiry_ms: self.expiry_ms,
            host_type: self.host_type,
            older_follows: self.older_follows,
        }
    }
}

/// One record of each sort; sorted, as from a flush.
fn small_records() -> Vec<Owned> {
    let record = |key: &[u8], seq, kind, value: &[u8]| Owned {
        key: key.to_vec(),
        seq: SeqNo(seq),
        kind,
        value: value.to_vec(),
        expiry_ms: None,
        host_type: 0,
        older_follows: false,
    };
    let empty = record(b"\0\0\0\x01", 1, Kind::Put, b"");
    let newer = Owned {
        older_follows: true,
        ..record(b"\0\0\0\x01a", 900, Kind::Put, b"new\0er")
    };
    let older = record(b"\0\0\0\x01a", 7, Kind::Put, b"older");
    let dead = record(b"\0\0\0\x01b", 8, Kind::Delete, b"");
    let dying = Owned {
        expiry_ms: Some(1_700_000_000_000),
        host_type: 5,
        ..record(b"\0\0\0\x02c", SeqNo::MAX.0, Kind::Put, b"for a while")
    };
    vec![empty, newer, older, dead, dying]
}

fn write(
    store: &FileStore,
    records: &[Owned],
    with_section: bool,
) -> (RecordFileMeta, Vec<RecordPointer>) {
    let mut writer = RecordWriter::with_header(store, header(), 0).unwrap();
    let mut section = KeySectionBuilder::new(64);
    let mut pointers = Vec::new();
    for record in records {
        let pointer = writer.append(&record.as_ref()).unwrap();
        assert_eq!(writer.len(), pointer.end().unwrap());
        pointers.push(pointer);
        if with_section {
            section.add(&KeyEntry {
                key: &record.key,
                seq: record.seq,
                kind: record.kind,
                expiry_ms: record.expiry_ms,
                value: EntryValue::Pointer(pointer),
            });
        }
    }
    (
        writer.finish(with_section.then_some(section)).unwrap(),
        pointers,
    )
}

fn open(vfs: &SimVfs, meta: &RecordFileMeta) -> Arc<RecordFile> {
    Arc::new(RecordFile::open(
        &store_on(vfs),
        meta.clone(),
        &ReadCache::new(1 << 20),
    ))
}

fn random_records(rng: &mut SmallRng, count: usize) -> Vec<Owned> {
    let record = |_| {
        let key_len = if rng.random_ratio(1, 100) {
            64 << 10
        } else {
            rng.random_range(0..60)
        };
        let value_len = match rng.random_range(0..200) {
            0 => 3 << 20,
            1 => 300 << 10,
            2..20 => rng.random_range(0..70_000),
            _ => rng.random_range(0..2000),
        };
        let mut value = vec![0; value_len];
        rng.fill(&mut value[..]);
        let mut key = vec![0; 4 + key_len];
        rng.fill(&mut key[..]);
        Owned {
            key,
            seq: SeqNo(rng.random::<u64>() >> 8),
            kind: [Kind::Put, Kind::Delete][rng.random_range(0..2)],
            value,
            expiry_ms: rng.random_ratio(1, 3).then(|| rng.random()),
            host_type: rng.random(),
            older_follows: rng.random(),
        }
    };
    (0..count).map(record).collect()
}

#[test]
fn every_way_of_reading_yields_what_was_written() {
    for seed in 0..12 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let records = random_records(&mut rng, 40 * seed as usize);
        let vfs = SimVfs::new();
        let (meta, pointers) = write(&store_on(&vfs), &records, false);
        assert_meta(&meta, &records);
        let file = open(&vfs, &meta);
        file.verify().unwrap();
        assert!(file.keys(Access::Random).is_err());
        for (record, pointer) in records.iter().zip(&pointers) {
            let found = file.get(*pointer).unwrap();
            assert_eq!(found.as_ref(), record.as_ref());
            assert_eq!(found.value_slice(), record.value);
            assert_eq!(Some(found.end_offset()), pointer.end());
            let hint = rng.random_range(0..5000);
            let hinted = file.read_hinted(pointer.offset, hint).unwrap();
            assert_eq!(hinted.as_ref(), record.as_ref());
        }
        let mut stream = file.stream();
        for record in &records {
            assert_eq!(stream.next().unwrap().unwrap().as_ref(), record.as_ref());
        }
        assert!(stream.next().unwrap().is_none());
        some_at_random(&mut rng, &file, &records, &pointers);
    }
}

fn assert_meta(meta: &RecordFileMeta, records: &[Owned]) {
    assert_eq!(meta.count, records.len() as u64);
    let keys = || records.iter().map(|record| record.key.clone());
    assert_eq!(meta.min_key, keys().min().unwrap_or_default());
    assert_eq!(meta.max_key, keys().max().unwrap_or_default());
    let seqs = || records.iter().map(|record| record.seq);
    assert_eq!(meta.min_seq, seqs().min().unwrap_or_default());
    assert_eq!(meta.max_seq, seqs().max().unwrap_or_default());
    let expiries = || records.iter().filter_map(|record| record.expiry_ms);
    assert_eq!(meta.expiry, expiries().min().zip(expiries().max()));
    assert!(!meta.has_range_deletes);
}

#[test]
fn a_file_with_range_tombstones_is_pinned_byte_for_byte() {
    let vfs = SimVfs::new();
    let mut writer = RecordWriter::with_header(&store_on(&vfs), header(), 0).unwrap();
    for record in small_records() {
        writer.append(&record.as_ref()).unwrap();
    }
    for (start, end, seq) in [
        (&b"\0\0\0\0a"[..], &b"\0\0\0\x01"[..], 300),
        (b"\0\0\0\0b", b"\0\0\0\0c", 7),
    ] {
        let (start, end) = (start.to_vec(), end.to_vec());
        let seq = SeqNo(seq);
        writer
            .append_range(RangeTombstone { start, end, seq }.as_ref())
            .unwrap();
    }
    let section = KeySectionBuilder::new(64);
    writer.finish(Some(section)).unwrap();
    golden::check(
        "record_file_with_ranges",
        &vfs.read_file(Path::new(FILE)).unwrap(),
    );
}

#[test]
fn a_range_tombstone_that_bounds_no_range_is_damage() {
    let sound = (&b"\0\0\0\0a"[..], &b"\0\0\0\0k"[..]);
    for (start, end) in [
        (&b"\0\0\0\0k"[..], &b"\0\0\0\0a"[..]),
        (b"\0\0\0\0a", b"\0\0\0\x01b"),
        (b"\0\0\0\0a", b"\0\0\0\x02"),
        (b"\0\0\0\0a", b"z"),
    ] {
        let vfs = SimVfs::new();
        let mut writer = RecordWriter::create(&store_on(&vfs), NUMBER, 0).unwrap();
        for (start, end) in [sound, (start, end)] {
            let (start, end) = (start.to_vec(), end.to_vec());
            let seq = SeqNo(7);
            writer
                .append_range(RangeTombstone { start, end, seq }.as_ref())
                .unwrap();
        }
        let meta = writer.finish(None).unwrap();
        let file = open(&vfs, &meta);
        let error = file.range_tombstones().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        assert!(error.to_string().contains("no range"), "{error}");
        let store = store_on(&vfs);
        let path = file.path().to_owned();
        let data = store.data_file(path, NUMBER, meta.uid, Access::Sequential);
        let mut frames = walk::FrameWalk::new(&data, meta.records_end);
        let sound = frames.next().unwrap().unwrap();
        assert!(sound.fault.is_none() && sound.frame.unwrap().range.is_some());
        let bad = frames.next().unwrap().unwrap();
        assert!(bad.fault.is_some() && bad.frame.unwrap().range.is_none());
        assert!(frames.next().unwrap().is_none());
    }
}

#[test]
fn range_tombstones_follow_the_records() {
    let mut rng = SmallRng::seed_from_u64(5);
    let records = random_records(&mut rng, 20);
    let vfs = SimVfs::new();
    let store = store_on(&vfs);
    let mut writer = RecordWriter::create(&store, NUMBER, 0).unwrap();
    let pointers: Vec<_> = records
        .iter()
        .map(|record| writer.append(&record.as_ref()).unwrap())
        .collect();
    let tombstone = |start: &[u8], end: &[u8], seq| RangeTombstone {
        start: start.to_vec(),
        end: end.to_vec(),
        seq: SeqNo(seq),
    };
    let tombstones = [
        tombstone(b"\0\0\0\0a", b"\0\0\0\0k", 7),
        tombstone(b"\0\0\0\0b", b"\0\0\0\0c", 9),
    ];
    for tombstone in &tombstones {
        writer.append_range(tombstone.as_ref()).unwrap();
    }
    let meta = writer.finish(None).unwrap();
    assert_eq!(meta.count, 20);
    assert!(meta.has_range_deletes);
    let file = open(&vfs, &meta);
    assert!(meta.agrees_with(&file.facts().unwrap()));
    assert_eq!(file.range_tombstones().unwrap(), tombstones);
    let mut stream = file.stream();
    for record in &records {
        assert_eq!(stream.next().unwrap().unwrap().as_ref(), record.as_ref());
    }
    assert!(stream.next().unwrap().is_none());
    let begin = pointers.last().unwrap().end().unwrap();
    assert_eq!(meta.plain_end(), begin);
    let bytes = vfs.read_file(file.path()).unwrap();
    for at in begin..meta.records_end {
        let mut damaged = bytes.clone();
        damaged[at as usize] ^= 1 << (at % 8);
        vfs.write_file(file.path(), &damaged);
        let error = open(&vfs, &meta).range_tombstones().unwrap_err();
        let kinds = [ErrorKind::Corruption, ErrorKind::Incompatible];
        assert!(kinds.contains(&error.kind()), "byte {at}: {error}");
    }
    // Another number of them, or another range, is not what was listed.
    vfs.write_file(file.path(), &bytes);
    let changes: [fn(&mut RangeSection); 3] = [
        |ranges| ranges.count += 1,
        |ranges| ranges.start.push(0),
        |ranges| ranges.max_seq.0 -= 1,
    ];
    for change in changes {
        let mut other = meta.clone();
        change(other.ranges.as_mut().unwrap());
        assert!(open(&vfs, &other).range_tombstones().is_err());
    }
}

/// Reads a random selection together, and in ascending order through a stream.
fn some_at_random(
    rng: &mut SmallRng,
    file: &Arc<RecordFile>,
    records: &[Owned],
    pointers: &[RecordPointer],
) {
    let mut chosen: Vec<usize> = (0..records.len()).filter(|_| rng.random()).collect();
    let mut stream = file.stream();
    for &i in &chosen {
        let found = stream.read(pointers[i]).unwrap();
        let found = file.expanded(found).unwrap();
        assert_eq!(found.as_ref(), records[i].as_ref());
    }
    chosen.shuffle(rng);
    chosen.extend(chosen.first().copied());
    let wanted: Vec<RecordPointer> = chosen.iter().map(|&i| pointers[i]).collect();
    let mut found = Vec::new();
    file.read_many(&wanted, &mut found);
    assert_eq!(found.len(), chosen.len());
    for (found, &i) in found.iter().zip(&chosen) {
        assert_eq!(found.as_ref().unwrap().as_ref(), records[i].as_ref());
    }
}

#[test]
fn a_stream_expects_to_go_on_where_reads_follow_each_other() {
    let vfs = SimVfs::new();
    let template = small_records().remove(0);
    let record = |i: u32| Owned {
        key: format!("key{i:05}").into_bytes(),
        value: vec![7; 1000],
        ..template.clone()
    };
    let records: Vec<Owned> = (0..100).map(record).collect();
    let (meta, pointers) = write(&store_on(&vfs), &records, false);
    let file = open(&vfs, &meta);
    let mut stream = file.stream().reading(8 << 10);
    let at = |i: usize| pointers[i].offset;
    assert!(!stream.goes_on_at(at(40)), "nothing has been read");
    stream.read(pointers[40]).unwrap();
    assert!(stream.goes_on_at(at(47)), "it crosses the buffer's end");
    assert!(stream.goes_on_at(at(50)), "what is between was dead");
    assert!(!stream.goes_on_at(at(90)), "another partition's range");
    assert!(!stream.goes_on_at(at(30)));
}

#[test]
fn a_stream_prefetches_the_next_buffer_and_nothing_after_the_records() {
    let template = small_records().remove(0);
    let record = |i: u32| Owned {
        key: format!("key{i:05}").into_bytes(),
        value: vec![i as u8; 1000],
        ..template.clone()
    };
    for (count, buffer_bytes) in [
        (3000, 256 << 10),
        (3000, 40 << 10),
        (300, 256 << 10),
        (3, 4 << 10),
    ] {
        let vfs = SimVfs::new();
        let records: Vec<Owned> = (0..count).map(record).collect();
        let (meta, _) = write(&store_on(&vfs), &records, true);
        let file = open(&vfs, &meta);
        let trace = FileTrace::begin(&vfs, file.path());
        let mut stream = file.stream().reading(buffer_bytes);
        for record in &records {
            assert_eq!(stream.next().unwrap().unwrap().as_ref(), record.as_ref());
        }
        assert!(stream.next().unwrap().is_none());
        let events = trace.take();
        let what = format!("{count} records, buffers of {buffer_bytes}: {events:?}");
        let (reads, prefetched) = (reads(&events), prefetches(&events));
        let buffers = meta.records_end.div_ceil(buffer_bytes as u64);
        assert!(reads.len() as u64 >= buffers, "{what}");
        // The first says nothing of what comes, and after the last there is nothing.
        assert_eq!(prefetched.len(), reads.len().saturating_sub(2), "{what}");
        for pair in events.windows(2) {
            if let [before, Event::Prefetched(next)] = pair {
                let end = (next.start + buffer_bytes as u64).min(meta.records_end);
                assert_eq!(next.end, end, "{what}");
                assert!(matches!(before, Event::Read(read) if read.end == next.start));
            }
        }
        assert_eq!(prefetched_in_vain(&events), 0, "{what}");
    }
}

#[test]
fn the_bytes_of_a_file_are_pinned() {
    for (name, with_section) in [("record_file", true), ("record_file_without_keys", false)] {
        let vfs = SimVfs::new();
        let (meta, _) = write(&store_on(&vfs), &small_records(), with_section);
        let bytes = vfs.read_file(Path::new(FILE)).unwrap();
        assert_eq!(meta.len, bytes.len() as u64);
        assert_eq!(meta.checksum, crc32c::crc32c(&bytes));
        assert_eq!(meta.key_section, with_section);
        golden::check(name, &bytes);
    }
}

#[test]
fn a_file_written_by_an_older_release_is_read() {
    let vfs = SimVfs::new();
    let (meta, pointers) = write(&store_on(&vfs), &small_records(), true);
    vfs.write_file(Path::new(FILE), &golden::load("record_file"));
    let file = open(&vfs, &meta);
    let mut stream = file.stream();
    let mut keys = file.keys(Access::Sequential).unwrap();
    keys.seek_to_first().unwrap();
    for (record, pointer) in small_records().iter().zip(pointers) {
        assert_eq!(stream.next().unwrap().unwrap().as_ref(), record.as_ref());
        let entry = keys.entry().unwrap();
        assert_eq!((entry.key, entry.seq), (&record.key[..], record.seq));
        assert_eq!(entry.value, EntryValue::Pointer(pointer));
        keys.next().unwrap();
    }
    assert!(keys.entry().is_none());
}

#[test]
fn no_flipped_bit_yields_wrong_data() {
    let (vfs, records) = (SimVfs::new(), small_records());
    let (meta, pointers) = write(&store_on(&vfs), &records, true);
    for bit in 0..meta.len * 8 {
        assert!(vfs.flip_bit(Path::new(FILE), bit));
        let file = open(&vfs, &meta);
        assert_eq!(
            file.verify().unwrap_err().kind(),
            ErrorKind::Corruption,
            "bit {bit}"
        );
        let mut refused = 0;
        let mut many = Vec::new();
        file.read_many(&pointers, &mut many);
        for ((record, pointer), of_many) in records.iter().zip(&pointers).zip(many) {
            let hinted = file.read_hinted(pointer.offset, 100);
            for found in [file.get(*pointer), hinted, of_many] {
                match found {
                    Ok(found) => assert_eq!(found.as_ref(), record.as_ref(), "bit {bit}"),
                    Err(_) => refused += 1,
                }
            }
        }
        let of_records = bit / 8 >= 96 && bit / 8 < meta.records_end;
        assert_eq!(refused, if of_records { 3 } else { 0 }, "bit {bit}");
        let mut stream = file.stream();
        let mut streamed = records.iter();
        while let Ok(Some(found)) = stream.next() {
            assert_eq!(
                Some(found.as_ref()),
                streamed.next().map(Owned::as_ref),
                "bit {bit}"
            );
        }
        assert_eq!(streamed.next().is_none(), !of_records, "bit {bit}");
        read_keys(&file, &records, &pointers);
        assert!(vfs.flip_bit(Path::new(FILE), bit));
    }
}

#[test]
fn a_file_knows_when_the_manifest_says_something_else() {
    let wrong: [fn(&mut RecordFileMeta); 7] = [
        |meta| meta.count += 1,
        |meta| meta.records_end -= 1,
        |meta| meta.min_key.push(0),
        |meta| meta.max_key.truncate(2),
        |meta| meta.min_seq.0 += 1,
        |meta| meta.expiry = None,
        |meta| meta.key_section ^= true,
    ];
    for with_section in [false, true] {
        let vfs = SimVfs::new();
        let (good, _) = write(&store_on(&vfs), &small_records(), with_section);
        let facts = open(&vfs, &good).facts().unwrap();
        assert!(good.agrees_with(&facts));
        for (i, change) in wrong.into_iter().enumerate() {
            let mut meta = good.clone();
            change(&mut meta);
            assert!(!meta.agrees_with(&facts), "change {i}");
        }
    }
}

/// Whatever the key section yields is right; an end that comes early is an error.
fn read_keys(file: &Arc<RecordFile>, records: &[Owned], pointers: &[RecordPointer]) {
    let mut iter = file.keys(Access::Sequential).unwrap();
    let mut ended = iter.seek_to_first();
    let mut expected = records.iter().zip(pointers);
    while let (Ok(()), Some(entry)) = (&ended, iter.entry()) {
        let (record, pointer) = expected.next().unwrap();
        assert_eq!(
            (entry.key, entry.seq, entry.kind),
            (&record.key[..], record.seq, record.kind)
        );
        assert_eq!(entry.value, EntryValue::Pointer(*pointer));
        ended = iter.next();
    }
    assert!(ended.is_err() || expected.next().is_none());
}

#[test]
fn a_wrong_pointer_is_refused() {
    let vfs = SimVfs::new();
    let (meta, pointers) = write(&store_on(&vfs), &small_records(), true);
    let file = open(&vfs, &meta);
    let good = pointers[1];
    for (bad, offset) in [
        (
            RecordPointer {
                len: good.len + 1,
                ..good
            },
            good.offset,
        ),
        (
            RecordPointer {
                len: good.len - 1,
                ..good
            },
            good.offset,
        ),
        (
            RecordPointer {
                offset: good.offset + 1,
                ..good
            },
            good.offset + 1,
        ),
        (
            RecordPointer {
                file: FileNumber(8),
                ..good
            },
            good.offset,
        ),
        (
            RecordPointer {
                offset: meta.records_end,
                ..good
            },
            meta.records_end,
        ),
        (
            RecordPointer {
                offset: u64::MAX - 3,
                ..good
            },
            u64::MAX - 3,
        ),
        (RecordPointer { offset: 0, ..good }, 0),
        (RecordPointer { len: 0, ..good }, good.offset),
        (
            RecordPointer {
                len: u32::MAX,
                ..good
            },
            good.offset,
        ),
    ] {
        let mut many = Vec::new();
        file.read_many(&[pointers[0], bad, pointers[2]], &mut many);
        assert!(many[0].is_ok() && many[2].is_ok(), "neighbours of {bad:?}");
        let streamed = file.stream().read(bad);
        let streamed = streamed.and_then(|record| file.expanded(record));
        for found in [file.get(bad), streamed, many.swap_remove(1)] {
            let error: Error = found.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption, "{bad:?}");
            assert_eq!(error.offset(), Some(offset), "{bad:?}");
            assert_eq!(error.file(), Some(Path::new(FILE)), "{bad:?}");
        }
    }
    for offset in [
        0,
        95,
        meta.records_end,
        meta.records_end - 1,
        meta.len,
        u64::MAX,
    ] {
        assert!(file.read_hinted(offset, 1000).is_err(), "{offset}");
        assert!(file.read_hinted(offset, usize::MAX).is_err(), "{offset}");
    }
}

#[test]
fn bytes_of_another_file_or_place_are_refused() {
    let vfs = SimVfs::new();
    let store = store_on(&vfs);
    let (meta, pointers) = write(&store, &small_records(), false);
    let other = FileHeader {
        uid: FileUid(1),
        ..header()
    };
    vfs.remove(Path::new(FILE)).unwrap();
    let mut writer = RecordWriter::with_header(&store, other, 0).unwrap();
    for record in small_records() {
        writer.append(&record.as_ref()).unwrap();
    }
    assert_eq!(writer.finish(None).unwrap().len, meta.len);
    let file = open(&vfs, &meta);
    for pointer in pointers {
        assert_eq!(file.get(pointer).unwrap_err().kind(), ErrorKind::Corruption);
    }
}

#[test]
fn a_frame_of_a_newer_release_is_not_damage() {
    let vfs = SimVfs::new();
    let (meta, pointers) = write(&store_on(&vfs), &small_records(), false);
    let good = vfs.read_file(Path::new(FILE)).unwrap();
    let start = pointers[1].offset as usize;
    for (at, value, named) in [
        (4, 6, "kind 0x6"),
        (24, 0x80 | 2, "flags 0x80"),
        (25, 5, "codec 0x5"),
        (27, 1, "reserved"),
    ] {
        let mut newer = good.clone();
        newer[start + at] = value;
        let header = newer[start + 4..start + 32].to_vec();
        let crc = crate::base::checksum::bound(meta.uid, start as u64, &header);
        newer[start..start + 4].copy_from_slice(&crc.to_le_bytes());
        vfs.write_file(Path::new(FILE), &newer);
        let error = open(&vfs, &meta).get(pointers[1]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Incompatible, "{named}");
        assert!(error.to_string().contains(named), "{error}");
    }
}

#[test]
fn a_length_beyond_the_file_is_refused_before_it_is_allocated() {
    let vfs = SimVfs::new();
    let (meta, pointers) = write(&store_on(&vfs), &small_records(), false);
    let start = pointers[1].offset as usize;
    let good = vfs.read_file(Path::new(FILE)).unwrap();
    for len in [1 << 30, u32::MAX] {
        let mut bad = good.clone();
        bad[start + 16..start + 20].copy_from_slice(&len.to_le_bytes());
        bad[start + 20..start + 24].copy_from_slice(&len.to_le_bytes());
        let header = bad[start + 4..start + 32].to_vec();
        let crc = crate::base::checksum::bound(meta.uid, start as u64, &header);
        bad[start..start + 4].copy_from_slice(&crc.to_le_bytes());
        vfs.write_file(Path::new(FILE), &bad);
        let file = open(&vfs, &meta);
        let error = file.read_hinted(start as u64, 64).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        let mut stream = file.stream();
        stream.next().unwrap();
        assert_eq!(stream.next().unwrap_err().offset(), Some(start as u64));
    }
}

#[test]
fn limits_are_kept_before_anything_is_written() {
    let store = store_on(&SimVfs::new());
    let mut writer = RecordWriter::create(&store, NUMBER, 0).unwrap();
    let good = small_records().swap_remove(1);
    let long_key = vec![0; 4 + (64 << 10) + 1];
    for bad in [
        RecordRef {
            key: &long_key,
            ..good.as_ref()
        },
        RecordRef {
            key: b"abc",
            ..good.as_ref()
        },
        RecordRef {
            seq: SeqNo(1 << 56),
            ..good.as_ref()
        },
    ] {
        assert_eq!(
            writer.append(&bad).unwrap_err().kind(),
            ErrorKind::InvalidArgument
        );
    }
    assert_eq!(writer.len(), 96);
    assert_eq!(writer.finish(None).unwrap().count, 0);
}

#[test]
fn reads_take_as_few_calls_as_promised() {
    let vfs = SimVfs::new();
    let store = store_on(&vfs);
    let record = |i: u32, value_len| Owned {
        key: i.to_be_bytes().to_vec(),
        value: vec![i as u8; value_len],
        ..small_records().swap_remove(0)
    };
    // 600 KiB, a hole of 5 KiB, then 1.5 MiB.
    let mut records: Vec<Owned> = (0..600).map(|i| record(i, 1024 - 40)).collect();
    records.push(record(600, 5 << 10));
    records.extend((601..2101).map(|i| record(i, 1024 - 40)));
    let (meta, pointers) = write(&store, &records, false);
    let file = Arc::new(RecordFile::open(&store, meta.clone(), &ReadCache::new(0)));
    let reads = |work: &dyn Fn()| {
        let before = store.reads();
        work();
        store.reads() - before
    };
    let exact = pointers[3].len as usize;
    assert_eq!(reads(&|| drop(file.get(pointers[3]).unwrap())), 1);
    assert_eq!(
        reads(&|| drop(file.read_hinted(pointers[3].offset, exact).unwrap())),
        1
    );
    assert_eq!(
        reads(&|| drop(file.read_hinted(pointers[3].offset, 5000).unwrap())),
        1
    );
    assert_eq!(
        reads(&|| drop(file.read_hinted(pointers[3].offset, exact - 1).unwrap())),
        2
    );
    assert_eq!(
        reads(&|| drop(file.read_hinted(pointers[2100].offset, 5000).unwrap())),
        1
    );

    let mut wanted = pointers.clone();
    wanted.remove(600);
    wanted.reverse();
    let many = |wanted: &[RecordPointer]| file.read_many(wanted, &mut Vec::new());
    // Runs of at most 64 KiB: ten before the hole, 24 after it.
    assert_eq!(reads(&|| many(&wanted)), 10 + 24);
    // Every fifth: gaps of 4 KiB are read over. Every sixth: they are not.
    assert_eq!(
        reads(&|| many(&[pointers[0], pointers[5], pointers[10]])),
        1
    );
    assert_eq!(
        reads(&|| many(&[pointers[0], pointers[6], pointers[12]])),
        3
    );
    let stream = || {
        let mut stream = file.stream();
        while stream.next().unwrap().is_some() {}
    };
    assert!(
        reads(&stream) <= 1 + meta.len.div_ceil(255 << 10),
        "{}",
        meta.len
    );
}

#[test]
fn a_failed_read_of_many_is_repeated_one_by_one() {
    let vfs = SimVfs::new();
    let (meta, pointers) = write(&store_on(&vfs), &small_records(), false);
    let file = open(&vfs, &meta);
    let broken = pointers[3];
    vfs.set_read_fault(Box::new(move |read| {
        let end = read.offset + read.bytes as u64;
        let hit = (read.offset..end).contains(&broken.offset);
        hit.then_some(std::io::ErrorKind::Other)
    }));
    let mut found = Vec::new();
    file.read_many(&pointers, &mut found);
    for (i, found) in found.iter().enumerate() {
        match found {
            Ok(found) => assert_eq!(found.as_ref(), small_records()[i].as_ref()),
            Err(error) => assert_eq!((i, error.kind()), (3, ErrorKind::Io)),
        }
    }
    assert!(found[3].is_err());
}

#[test]
fn who_keeps_one_of_many_records_keeps_no_large_buffer() {
    let vfs = SimVfs::new();
    let record = |i: u8, value_len| Owned {
        key: vec![0, 0, 0, 0, i],
        value: vec![i; value_len],
        ..small_records().swap_remove(0)
    };
    // In how many buffers the values of each `step`th record stand: in one they are as far apart as
    // in the file.
    let buffers = |value_len: usize, count: u8, step: usize| {
        let records: Vec<Owned> = (0..count).map(|i| record(i, value_len)).collect();
        let (meta, pointers) = write(&store_on(&vfs), &records, false);
        let wanted: Vec<_> = pointers.iter().copied().step_by(step).collect();
        let mut found = Vec::new();
        open(&vfs, &meta).read_many(&wanted, &mut found);
        vfs.remove(open(&vfs, &meta).path()).unwrap();
        let values: Vec<_> = found.into_iter().map(|r| r.unwrap().into_value()).collect();
        let expected = records.iter().step_by(step);
        assert!(values.iter().zip(expected).all(|(v, r)| v[..] == r.value));
        let apart = step * pointers[0].len as usize;
        let address = |value: &bytes::Bytes| value.as_ptr().addr();
        let is_next = |pair: &&[bytes::Bytes]| address(&pair[0]) + apart == address(&pair[1]);
        values.len() - values.windows(2).filter(is_next).count()
    };
    assert_eq!(buffers(1 << 10, 50, 1), 1);
    assert_eq!(buffers(1 << 10, 50, 2), 1);
    assert_eq!(
        buffers(1 << 10, 50, 4),
        13,
        "each its own: most was read for nothing"
    );
    assert_eq!(buffers(1 << 10, 100, 1), 2);
    assert_eq!(buffers(200 << 10, 3, 1), 3);
}

#[test]
fn a_record_that_is_read_again_stays_in_the_cache() {
    let vfs = SimVfs::new();
    let store = store_on(&vfs);
    let (meta, pointers) = write(&store, &small_records(), false);
    let cache = ReadCache::new(1 << 20);
    let file = RecordFile::open(&store, meta, &cache);
    let reads = |work: &dyn Fn()| {
        let before = store.reads();
        work();
        store.reads() - before
    };
    let pointer = pointers[2];
    let get = || {
        let found = file.get(pointer).unwrap();
        assert_eq!(found.as_ref(), small_records()[2].as_ref());
    };
    assert_eq!([reads(&get), reads(&get)], [1, 0]);
    let hinted = || {
        let record = small_records().swap_remove(2);
        let of = |key| file.version_at(pointer.offset, 5000, key).unwrap();
        let found = of(&record.key).unwrap();
        assert_eq!(
            (found.seq(), found.kind(), found.value()),
            (record.seq, record.kind, &record.value[..])
        );
        assert_eq!(found.older_follows(), record.older_follows);
        assert_eq!(Some(found.end_offset()), pointer.end());
        assert!(of(b"\0\0\0\0another").is_none());
    };
    assert_eq!(reads(&hinted), 0);
    assert!(cache.used_bytes() > u64::from(pointer.len));

    // The cache does not make a wrong pointer right.
    let len = pointer.len - 1;
    assert!(file.get(RecordPointer { len, ..pointer }).is_err());
    let other = FileNumber(pointer.file.0 + 1);
    let foreign = RecordPointer {
        file: other,
        ..pointer
    };
    assert!(file.get(foreign).is_err());
    // Reading many, as scans and the check do, passes by the cache.
    let many = || file.read_many(&[pointer], &mut Vec::new());
    assert_eq!(reads(&many), 1);
}

#[test]
fn a_full_cache_takes_what_is_read_last() {
    let vfs = SimVfs::new();
    let store = store_on(&vfs);
    let record = |i: u16| Owned {
        key: [&[0; 4][..], &i.to_be_bytes()].concat(),
        value: vec![7; 800],
        ..small_records().swap_remove(0)
    };
    let records: Vec<Owned> = (0..3000).map(record).collect();
    let (meta, pointers) = write(&store, &records, false);
    let cache = ReadCache::new(2 << 20);
    let file = RecordFile::open(&store, meta, &cache);
    let get = |i: usize| {
        let before = store.reads();
        file.get(pointers[i]).unwrap();
        store.reads() - before
    };
    for i in 0..2999 {
        get(i);
    }
    assert!(cache.used_bytes() <= 2 << 20);
    let last = 2999;
    assert_eq!([get(last), get(last), get(last)], [1, 0, 0]);
}

#[test]
fn a_record_too_large_for_the_cache_is_not_kept() {
    let vfs = SimVfs::new();
    let store = store_on(&vfs);
    let large = Owned {
        value: vec![7; 2 << 10],
        ..small_records().swap_remove(0)
    };
    let (meta, pointers) = write(&store, &[large], false);
    let cache = ReadCache::new(1 << 20);
    let file = RecordFile::open(&store, meta, &cache);
    for _ in 0..3 {
        file.get(pointers[0]).unwrap();
    }
    assert_eq!((store.reads(), cache.used_bytes()), (3, 0));
}
