//! Large values: records read piece by piece, the files that a log names for them, and what else of
//! a file need not be what its reader was given.

use super::super::external::External;
use super::super::frame::FrameHeader;
use super::*;
use crate::record::stream::value_reader::ValueReader;
use crate::vfs::sim::{Fault, Op};
use std::io;

/// Keys and values around the sizes in which they are read, with and without an expiry.
fn long_records() -> Vec<Owned> {
    let template = small_records().swap_remove(0);
    let mut records = Vec::new();
    for key_len in [1, 4 << 10, 60 << 10] {
        for value_len in [0, 5000, 250 << 10] {
            records.push(Owned {
                key: [&[0; 4][..], &vec![b'k'; key_len]].concat(),
                value: (0..value_len).map(|i: usize| (i % 251) as u8).collect(),
                expiry_ms: (value_len > 0).then_some(77),
                ..template.clone()
            });
        }
    }
    records
}

#[test]
fn a_record_read_piece_by_piece_is_the_record() {
    let vfs = SimVfs::new();
    let records = long_records();
    let (meta, pointers) = write(&store_on(&vfs), &records, false);
    let file = open(&vfs, &meta);
    for (record, pointer) in records.iter().zip(&pointers) {
        let mut reader = ValueReader::open(&file, *pointer).unwrap();
        assert_eq!(reader.key(), record.key);
        assert_eq!((reader.seq(), reader.kind()), (record.seq, record.kind));
        assert_eq!(reader.expiry_ms(), record.expiry_ms);
        assert_eq!(reader.stored_len(), record.value.len());
        assert_eq!(Some(reader.end_offset()), pointer.end());
        let mut value = vec![0; record.value.len()];
        for piece in value.chunks_mut(70_000) {
            reader.read(piece).unwrap();
        }
        assert_eq!(value, record.value);
        reader.finish().unwrap();
    }
}

#[test]
fn more_of_a_value_than_there_is_is_refused_and_read_no_byte_of() {
    let vfs = SimVfs::new();
    let records = long_records();
    let (meta, pointers) = write(&store_on(&vfs), &records, false);
    let file = open(&vfs, &meta);
    for (record, pointer) in records.iter().zip(&pointers) {
        let mut reader = ValueReader::open(&file, *pointer).unwrap();
        let mut half = vec![0; record.value.len() / 2];
        reader.read(&mut half).unwrap();
        let left = record.value.len() - half.len();
        let error = reader.read(&mut vec![0; left + 1]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert_eq!(error.offset(), Some(pointer.offset));
        assert!(error.to_string().contains("ends early"), "{error}");
        // The checksum after it still fits.
        reader.read(&mut vec![0; left]).unwrap();
        reader.finish().unwrap();
    }
}

#[test]
fn a_pointer_of_another_length_opens_no_record() {
    let vfs = SimVfs::new();
    let (meta, pointers) = write(&store_on(&vfs), &long_records(), false);
    let file = open(&vfs, &meta);
    let good = pointers[2];
    for len in [good.len - 1, good.len + 1] {
        let error = ValueReader::open(&file, RecordPointer { len, ..good }).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert_eq!(error.offset(), Some(good.offset));
        assert!(error.to_string().contains("another length"), "{error}");
    }
    ValueReader::open(&file, good).unwrap();
}

/// The code that hands out a frame has read as much as its header says; this is the last line of
/// defence.
#[test]
fn a_frame_that_is_cut_short_is_no_record() {
    let vfs = SimVfs::new();
    let (meta, pointers) = write(&store_on(&vfs), &small_records(), false);
    let file = open(&vfs, &meta);
    for pointer in pointers {
        let frame = file
            .read_bytes(pointer.offset, pointer.len as usize)
            .unwrap();
        let place = file.place(pointer.offset);
        let header = FrameHeader::decode(&frame, &place).unwrap();
        StoredRecord::verify(frame.clone(), header, &place).unwrap();
        for len in 0..frame.len() {
            let error = StoredRecord::verify(frame.slice(..len), header, &place).unwrap_err();
            assert!(error.to_string().contains("cut short"), "{len}: {error}");
        }
    }
}

/// A large value as it was written: its file, and what the log says of it.
fn write_large(vfs: &SimVfs, with_section: bool) -> (RecordFileMeta, External) {
    let value = Owned {
        seq: UNNUMBERED,
        value: vec![9; 5000],
        ..small_records().swap_remove(0)
    };
    let (meta, pointers) = write(&store_on(vfs), &[value], with_section);
    let external = External::new(pointers[0], &meta);
    (meta, external)
}

fn open_external(vfs: &SimVfs, external: &External) -> crate::error::Result<Arc<RecordFile>> {
    external.open_file(&store_on(vfs), &ReadCache::new(0))
}

#[test]
fn the_file_of_a_large_value_must_be_the_one_that_the_log_names() {
    let vfs = SimVfs::new();
    let (meta, good) = write_large(&vfs, false);
    let file = open_external(&vfs, &good).unwrap();
    assert_eq!(file.meta(), &meta);
    assert_eq!(file.get(good.pointer).unwrap().value_slice(), [9; 5000]);
    let len = good.pointer.len + 1;
    let outside = RecordPointer {
        len,
        ..good.pointer
    };
    let wrong = [
        (
            External {
                uid: FileUid(1),
                ..good
            },
            "another file",
        ),
        (
            External {
                file_len: good.file_len + 1,
                ..good
            },
            "another length",
        ),
        (
            External {
                pointer: outside,
                ..good
            },
            "no record",
        ),
    ];
    for (external, why) in wrong {
        let error = open_external(&vfs, &external).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{why}: {error}");
        assert_eq!(error.file(), Some(Path::new(FILE)), "{why}");
        assert!(error.to_string().contains(why), "{error}");
    }
    vfs.remove(Path::new(FILE)).unwrap();
    let error = open_external(&vfs, &good).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains("missing"), "{error}");
}

#[test]
fn a_table_is_not_the_file_of_a_large_value() {
    let vfs = SimVfs::new();
    let (_, external) = write_large(&vfs, true);
    let error = open_external(&vfs, &external).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains("names a table"), "{error}");
}

/// That the system does not say its length is no word about the file.
#[test]
fn a_file_of_a_large_value_that_cannot_be_looked_at_is_not_damaged() {
    let vfs = SimVfs::new();
    let (_, external) = write_large(&vfs, false);
    vfs.set_look_fault(Box::new(|call| match call.op {
        Op::Len => Fault::Fail(io::ErrorKind::PermissionDenied),
        _ => Fault::None,
    }));
    let error = open_external(&vfs, &external).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    assert_eq!(error.file(), Some(Path::new(FILE)));
    vfs.clear_faults();
    open_external(&vfs, &external).unwrap();
}

#[test]
fn a_file_that_is_open_already_must_be_the_one_of_the_large_value() {
    let vfs = SimVfs::new();
    let (meta, good) = write_large(&vfs, false);
    let file = open(&vfs, &meta);
    good.is_in(&file).unwrap();
    let offset = good.pointer.offset + 1;
    let outside = RecordPointer {
        offset,
        ..good.pointer
    };
    let another = "another file than the one";
    let wrong = [
        (
            External {
                uid: FileUid(1),
                ..good
            },
            another,
        ),
        (
            External {
                file_len: good.file_len + 1,
                ..good
            },
            another,
        ),
        (
            External {
                file_checksum: !good.file_checksum,
                ..good
            },
            another,
        ),
        (
            External {
                pointer: outside,
                ..good
            },
            "no record",
        ),
    ];
    for (external, why) in wrong {
        let error = external.is_in(&file).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert!(error.to_string().contains(why), "{error}");
    }
}

/// Records out of order are no table's: nothing is made of them in the place of a damaged section.
#[test]
fn a_damaged_section_is_not_made_up_for_by_records_out_of_order() {
    let record = |i: u8| Owned {
        key: vec![0, 0, 0, 1, i],
        ..small_records().swap_remove(1)
    };
    for disordered in [false, true] {
        let vfs = SimVfs::new();
        let mut records: Vec<Owned> = (0..30).map(record).collect();
        if disordered {
            records.swap(3, 20);
        }
        let store = store_on(&vfs);
        let mut writer = RecordWriter::with_header(&store, header(), 0).unwrap();
        let append =
            |record: &Owned| (record.key.clone(), writer.append(&record.as_ref()).unwrap());
        let mut pointers: Vec<_> = records.iter().map(append).collect();
        pointers.sort_by(|(a, _), (b, _)| a.cmp(b));
        let mut section = KeySectionBuilder::new(64);
        for (key, pointer) in &pointers {
            section.add(&KeyEntry {
                key,
                seq: SeqNo(900),
                kind: Kind::Put,
                expiry_ms: None,
                value: EntryValue::Pointer(*pointer),
            });
        }
        let meta = writer.finish(Some(section)).unwrap();
        let first_block = meta.records_end;
        vfs.flip_bit(Path::new(FILE), 8 * first_block);
        let file = open(&vfs, &meta);
        let found = file.section().unwrap().get(&pointers[0].0, SeqNo::MAX);
        if disordered {
            let error = found.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption);
            assert_eq!(error.offset(), Some(first_block), "{error}");
        } else {
            assert!(found.unwrap().is_some());
        }
        // The other blocks need no help.
        let last = file.section().unwrap().get(&pointers[29].0, SeqNo::MAX);
        assert!(last.unwrap().is_some());
    }
}
