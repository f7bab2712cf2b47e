//! Compressed values.

use super::*;
use crate::codec::dictionary::Samples;
use crate::codec::tests::built_in;
use crate::codec::{Codec, Compression, Dictionaries, Dictionary, FileCompression};
use crate::vfs::sim::SimVfs;

const OTHER: &str = "db/000010.rec";

/// Documents that are like each other, a few long ones, and some noise.
fn documents(rng: &mut SmallRng, count: usize) -> Vec<Owned> {
    let document = |i: usize| {
        let value = match i % 16 {
            3 => (0..600).map(|_| rng.random()).collect(),
            7 => b"short".to_vec(),
            11 => format!("{i:08}").repeat(5000).into_bytes(),
            _ => format!(
                "{{\"id\":{i},\"first name\":\"name {}\",\"second name\":\"name {}\",\
                 \"first tag\":\"one\",\"second tag\":\"two\",\"hash\":\"{:x}\"}}",
                rng.random_range(0..100),
                rng.random_range(0..100),
                rng.random::<u64>()
            )
            .into_bytes(),
        };
        Owned {
            key: [&b"\0\0\0\x01"[..], &(i as u32).to_be_bytes()].concat(),
            seq: SeqNo(i as u64 + 1),
            kind: Kind::Put,
            value,
            expiry_ms: i.is_multiple_of(5).then_some(1_700_000_000_000 + i as u64),
            host_type: 7,
            older_follows: false,
        }
    };
    (0..count).map(document).collect()
}

fn dictionary_of(records: &[Owned]) -> Option<Arc<Dictionary>> {
    let mut samples = Samples::default();
    records.iter().for_each(|record| samples.add(&record.value));
    Dictionaries::default().of(samples)
}

fn write_as(
    store: &FileStore,
    header: FileHeader,
    records: &[Owned],
    compression: Compression,
    dictionary: Option<Arc<Dictionary>>,
) -> (RecordFileMeta, Vec<RecordPointer>) {
    let writer = RecordWriter::with_header(store, header, 0).unwrap();
    let mut writer = writer.with_dictionary(dictionary);
    let appended = records.iter().map(|record| {
        let pointer = writer.append_as(&record.as_ref(), compression).unwrap();
        assert_eq!(pointer.end(), Some(writer.len()));
        pointer
    });
    let pointers = appended.collect();
    (writer.finish(None).unwrap(), pointers)
}

/// With a dictionary where that is of use, and without.
fn settings(records: &[Owned]) -> Vec<(Compression, Option<Arc<Dictionary>>)> {
    let plain = built_in()
        .into_iter()
        .map(|compression| (compression, None));
    let mut all: Vec<_> = plain.collect();
    if let Some(dictionary) = dictionary_of(records) {
        all.push((Compression::zstd(3), Some(dictionary)));
    }
    all
}

#[test]
fn every_way_of_reading_yields_the_raw_value() {
    let mut rng = SmallRng::seed_from_u64(1);
    let records = documents(&mut rng, 300);
    let raw_len: usize = records.iter().map(|record| record.value.len()).sum();
    let mut lens = Vec::new();
    for (compression, dictionary) in settings(&records) {
        let vfs = SimVfs::new();
        let store = store_on(&vfs);
        let has_dictionary = dictionary.is_some();
        let (meta, pointers) = write_as(&store, header(), &records, compression, dictionary);
        assert_eq!(meta.compression.dictionary.is_some(), has_dictionary);
        assert!(
            meta.len < raw_len as u64 * 3 / 4,
            "{compression:?}: {}",
            meta.len
        );
        lens.push(meta.len);
        let file = open(&vfs, &meta);
        file.verify().unwrap();
        assert!(meta.agrees_with(&file.facts().unwrap()));
        for (record, pointer) in records.iter().zip(&pointers) {
            let len = || file.value_len(*pointer).unwrap();
            assert_eq!(len(), record.value.len());
            // From the file, and from the cache.
            for found in [file.get(*pointer), file.get(*pointer)] {
                let found = found.unwrap();
                assert_eq!(found.as_ref(), record.as_ref());
                assert_eq!(Some(found.end_offset()), pointer.end());
                assert_eq!(found.frame_len(), pointer.len as usize);
            }
            assert_eq!(len(), record.value.len());
            for _ in 0..2 {
                let found = file.version_at(pointer.offset, 100, &record.key).unwrap();
                let found = found.unwrap();
                assert_eq!(found.value(), record.value);
                assert_eq!(Some(found.end_offset()), pointer.end());
                let other = file.version_at(pointer.offset, 100, b"\0\0\0\x01other");
                assert!(other.unwrap().is_none());
            }
        }
        let mut stream = file.stream();
        for record in &records {
            assert_eq!(stream.next().unwrap().unwrap().as_ref(), record.as_ref());
        }
        some_at_random(&mut rng, &file, &records, &pointers);
    }
    if let [.., plain, _slow, with_dictionary] = lens[..] {
        assert!(with_dictionary < plain, "{lens:?}");
    }
}

/// Copies the records of `file` to another one, and says how many were copied as they are stored.
fn copied(
    file: &Arc<RecordFile>,
    pointers: &[RecordPointer],
    compression: Compression,
    dictionary: Option<Arc<Dictionary>>,
    vfs: &SimVfs,
) -> (RecordFileMeta, usize) {
    let number = FileNumber(10);
    let writer = RecordWriter::create(&store_on(vfs), number, 0).unwrap();
    let mut writer = writer.with_dictionary(dictionary);
    let (mut stream, mut as_stored) = (file.stream(), 0);
    for pointer in pointers {
        let stored = stream.read(*pointer).unwrap();
        let source = file.meta().compression;
        let copy = writer.append_copy(&stored.head(), &stored, &source, compression);
        if copy.unwrap().is_some() {
            as_stored += 1;
            continue;
        }
        let record = file.expanded(stored).unwrap();
        writer.append_as(&record.as_ref(), compression).unwrap();
    }
    (writer.finish(None).unwrap(), as_stored)
}

#[test]
fn what_has_the_wanted_form_is_copied_as_it_is_and_all_else_is_compressed_again() {
    let mut rng = SmallRng::seed_from_u64(2);
    let records = documents(&mut rng, 200);
    let all = settings(&records);
    for (from, of_source) in &all {
        let vfs = SimVfs::new();
        let store = store_on(&vfs);
        let (meta, pointers) = write_as(&store, header(), &records, *from, of_source.clone());
        let file = open(&vfs, &meta);
        for (to, of_copy) in &all {
            let (meta, as_stored) = copied(&file, &pointers, *to, of_copy.clone(), &vfs);
            let (of, into) = (from.codec(), to.codec());
            let is_slower = to.level() > from.level();
            let has_one = |dictionary: &Option<_>| dictionary.is_some();
            if of != into || is_slower {
                assert_eq!(as_stored, 0);
            } else if has_one(of_source) == has_one(of_copy) {
                assert!(as_stored > 100, "{from:?} {to:?} {as_stored}");
            } else {
                // Long values do without a dictionary.
                assert!(as_stored < 20, "{from:?} {to:?} {as_stored}");
            }
            let path = Path::new(OTHER);
            let copy = RecordFile::open(&store_on(&vfs), meta.clone(), &ReadCache::new(1 << 20));
            let copy = Arc::new(copy);
            copy.verify().unwrap();
            let mut stream = copy.stream();
            for record in &records {
                assert_eq!(stream.next().unwrap().unwrap().as_ref(), record.as_ref());
            }
            assert!(vfs.read_file(path).is_some());
            vfs.remove(path).unwrap();
        }
    }
}

#[test]
fn values_with_another_dictionary_are_not_copied_as_they_are() {
    let mut rng = SmallRng::seed_from_u64(3);
    let (mine, yours) = (documents(&mut rng, 200), documents(&mut rng, 300));
    let (Some(own), Some(foreign)) = (dictionary_of(&mine), dictionary_of(&yours[100..])) else {
        return;
    };
    assert_ne!(own.hash(), foreign.hash());
    let vfs = SimVfs::new();
    let compression = Compression::zstd(3);
    let (meta, pointers) = write_as(&store_on(&vfs), header(), &mine, compression, Some(own));
    let file = open(&vfs, &meta);
    let (meta, as_stored) = copied(&file, &pointers, compression, Some(foreign), &vfs);
    // Long ones have none.
    assert!(as_stored < 20, "{as_stored}");
    let copy = RecordFile::open(&store_on(&vfs), meta, &ReadCache::new(1 << 20));
    let mut stream = Arc::new(copy).stream();
    for record in &mine {
        assert_eq!(stream.next().unwrap().unwrap().as_ref(), record.as_ref());
    }
}

#[test]
fn every_damaged_byte_is_a_typed_error_and_never_another_value() {
    let mut rng = SmallRng::seed_from_u64(4);
    let records = documents(&mut rng, 250);
    for (compression, dictionary) in settings(&records) {
        if matches!(compression, Compression::Zstd { level: 19 }) {
            continue;
        }
        let vfs = SimVfs::new();
        let few = &records[..24];
        let (meta, pointers) = write_as(&store_on(&vfs), header(), few, compression, dictionary);
        for byte in 0..meta.len {
            let bit = byte * 8 + byte % 8;
            assert!(vfs.flip_bit(Path::new(FILE), bit));
            let file = open(&vfs, &meta);
            assert!(file.verify().is_err());
            for (record, pointer) in few.iter().zip(&pointers) {
                for found in [file.get(*pointer), file.read_hinted(pointer.offset, 100)] {
                    match found {
                        Ok(found) => assert_eq!(found.as_ref(), record.as_ref(), "byte {byte}"),
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::Corruption, "byte {byte}");
                            assert_eq!(error.file(), Some(Path::new(FILE)));
                            assert!(error.offset().is_some());
                        }
                    }
                }
            }
            assert!(vfs.flip_bit(Path::new(FILE), bit));
        }
    }
}

#[test]
fn a_file_knows_when_the_manifest_says_something_else_of_its_compression() {
    let mut rng = SmallRng::seed_from_u64(5);
    let records = documents(&mut rng, 250);
    for (compression, dictionary) in settings(&records) {
        let vfs = SimVfs::new();
        let (meta, _) = write_as(&store_on(&vfs), header(), &records, compression, dictionary);
        let facts = open(&vfs, &meta).facts().unwrap();
        let mut without = meta.clone();
        without.compression = FileCompression::default();
        let mut harder = meta.clone();
        harder.compression.level += 1;
        for (wrong, is_right) in [(&meta, true), (&without, false), (&harder, false)] {
            assert_eq!(wrong.agrees_with(&facts), is_right);
        }
        let file = open(&vfs, &without);
        let needs_one = meta.compression.codecs.holds(Codec::ZstdWithDictionary);
        let mut stream = file.stream();
        let all_read = records.iter().all(|_| stream.next().is_ok());
        assert_eq!(all_read, !needs_one);
    }
}

/// The files were written by the first release that compresses.
#[test]
fn values_of_older_builds_of_the_codecs_are_read() {
    let mut rng = SmallRng::seed_from_u64(6);
    let records = documents(&mut rng, 160);
    let few = &records[..8];
    let settings = [
        ("record_file_lz4", Compression::Lz4, None),
        ("record_file_zstd", Compression::zstd(3), None),
        (
            "record_file_dictionary",
            Compression::zstd(3),
            dictionary_of(&records),
        ),
    ];
    for (name, compression, dictionary) in settings {
        let has_dictionary = name == "record_file_dictionary";
        if compression.check().is_err() || (has_dictionary && dictionary.is_none()) {
            continue;
        }
        let vfs = SimVfs::new();
        let bytes = golden::kept(name, || {
            write_as(&store_on(&vfs), header(), few, compression, dictionary);
            vfs.read_file(Path::new(FILE)).unwrap()
        });
        vfs.write_file(Path::new(FILE), &bytes);
        let (bare, _) = write(&store_on(&SimVfs::new()), few, false);
        let mut meta = RecordFileMeta {
            len: bytes.len() as u64,
            ..bare
        };
        let facts = open(&vfs, &meta).facts().unwrap();
        meta.records_end = facts.records_end;
        meta.compression = facts.properties.compression;
        assert_eq!(meta.compression.dictionary.is_some(), has_dictionary);
        assert!(meta.agrees_with(&facts), "{name}");
        let mut stream = open(&vfs, &meta).stream();
        for record in few {
            assert_eq!(
                stream.next().unwrap().unwrap().as_ref(),
                record.as_ref(),
                "{name}"
            );
        }
    }
}
