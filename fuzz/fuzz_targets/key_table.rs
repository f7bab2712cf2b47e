//! Key tables. The first byte says what the rest is: 0 a file as it is, 1 a file whose checksums
//! are made right, 2 the entries and restarts of one block, 3 an index over one block, 4
//! properties, 5 entries that an encoder of this target's own makes into blocks as `docs/format.md`
//! says.
#![no_main]

use libfuzzer_sys::arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use std::path::Path;
use unikv::fuzzing::{Cursor, Entry, Files, Go, Keys, Place};
use unikv::vfs::sim::SimVfs;
use unikv_fuzz::specimen::env;
use unikv_fuzz::{allocation, seal, typed};

const NUMBER: u64 = 9;

fuzz_target!(|data: &[u8]| {
    let Some((&which, bytes)) = data.split_first() else {
        return;
    };
    let mut expected = None;
    let file = match which % 6 {
        0 => bytes.to_vec(),
        1 => {
            let mut file = bytes.to_vec();
            seal::header(&mut file, 5, NUMBER, seal::DATABASE);
            seal::key_section(&mut file);
            file
        }
        2 => {
            let mut index = Vec::new();
            put_index_entry(&mut index, bytes.len() + 4, b"");
            table(&[bytes, &[0; 4]].concat(), &index)
        }
        3 => table(b"\0\x05\x01\x01\0\0\0\0a\0\0\0\0\x01\0\0\0\0\0\0\0", bytes),
        4 => seal::table(5, NUMBER, b"", b"", Some(b""), bytes),
        _ => {
            let entries = draw_entries(bytes);
            let file = encode(&entries);
            expected = Some(entries);
            file
        }
    };
    // The cache, the reader's run of blocks, and an inspection's buffers.
    // A compressed block may be much longer than its stored form, and there may be two at a time.
    let limit = 64 * data.len() + (5 << 20);
    allocation::bounded(limit, || read(&file, expected.as_deref(), bytes));
    let disk = SimVfs::new();
    disk.write_file(Path::new("/db/000009.key"), &file);
    let seen = env(&disk).inspect("/db/000009.key", &mut |_| {});
    typed::checked(seen);
});

fn table(blocks: &[u8], index: &[u8]) -> Vec<u8> {
    seal::table(5, NUMBER, b"", blocks, Some(index), b"")
}

fn put_index_entry(index: &mut Vec<u8>, block_len: usize, fence: &[u8]) {
    seal::put_varint(index, block_len as u64);
    seal::put_varint(index, 2 * fence.len() as u64);
    index.extend_from_slice(fence);
}

fn open(file: &[u8]) -> Keys {
    let disk = SimVfs::new();
    disk.write_file(Path::new("/db/000009.key"), file);
    let files = Files::new(env(&disk), Path::new("/db"), seal::DATABASE);
    files.key_table(NUMBER, seal::uid(file), file.len() as u64)
}

fn read(file: &[u8], expected: Option<&[Entry]>, bytes: &[u8]) {
    let keys = open(file);
    typed::checked(keys.facts());
    let forward = walk(keys.iter(false), Go::First, Go::Next, file.len());
    let mut backward = walk(keys.iter(true), Go::Last, Go::Back, file.len());
    let probe = &bytes[..bytes.len().min(9)];
    typed::checked(keys.get(probe, u64::MAX >> 8));
    if let Some(part) = typed::checked(keys.part_before(probe)) {
        assert!((0.0..=1.0).contains(&part), "{part}");
    }
    let sought = typed::checked(keys.iter(false).go(Go::To(probe, 7)));
    let Some(expected) = expected else {
        return;
    };
    backward.reverse();
    assert_eq!(forward, expected);
    assert_eq!(backward, expected);
    let behind = |e: &&Entry| (&e.key[..], u64::MAX - e.seq) >= (probe, u64::MAX - 7);
    assert_eq!(sought, Some(expected.iter().find(behind).cloned()));
    for entry in expected {
        let found = typed::checked(keys.get(&entry.key, entry.seq));
        assert_eq!(found, Some(Some((entry.seq, entry.kind))));
    }
}

/// All entries from one end, up to an error.
fn walk(mut cursor: Cursor, first: Go<'_>, step: Go<'_>, file_len: usize) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut at = typed::checked(cursor.go(first)).flatten();
    while let Some(entry) = at {
        entries.push(entry);
        // Each entry takes at least four bytes of the file.
        assert!(
            4 * entries.len() <= file_len,
            "the cursor goes round in circles"
        );
        at = typed::checked(cursor.go(step)).flatten();
    }
    entries
}

/// Entries in internal order.
fn draw_entries(bytes: &[u8]) -> Vec<Entry> {
    let mut input = Unstructured::new(bytes);
    let mut entries = Vec::new();
    while !input.is_empty() {
        let Ok(entry) = draw_entry(&mut input) else {
            break;
        };
        entries.push(entry);
    }
    entries.sort_by(|a, b| (&a.key, b.seq).cmp(&(&b.key, a.seq)));
    entries.dedup_by(|a, b| (&a.key, a.seq) == (&b.key, b.seq));
    entries
}

fn draw_entry(input: &mut Unstructured<'_>) -> libfuzzer_sys::arbitrary::Result<Entry> {
    let mut key = vec![0, 0, 0, 0];
    key.extend_from_slice(input.arbitrary::<&[u8]>()?);
    let kind = input.int_in_range(1..=2)?;
    Ok(Entry {
        key,
        seq: input.arbitrary::<u64>()? >> input.int_in_range(8..=63)?,
        kind,
        expiry_ms: input.arbitrary()?,
        value: match (kind, input.arbitrary::<u8>()? % 2) {
            (2, _) => Place::None,
            (_, 0) => Place::Inline(input.arbitrary::<&[u8]>()?.to_vec()),
            _ => Place::Pointer(input.arbitrary()?, input.arbitrary()?, input.arbitrary()?),
        },
    })
}

/// A key table of blocks of up to 20 entries each.
fn encode(entries: &[Entry]) -> Vec<u8> {
    let (mut blocks, mut index) = (Vec::new(), Vec::new());
    let mut before: Option<&Entry> = None;
    for part in entries.chunks(20) {
        let block = encode_block(part);
        let first = &part[0];
        match before {
            None => put_index_entry(&mut index, block.len(), b""),
            Some(left) if left.key == first.key => {
                seal::put_varint(&mut index, block.len() as u64);
                seal::put_varint(&mut index, 2 * first.key.len() as u64 + 1);
                index.extend_from_slice(&first.key);
                index.extend_from_slice(&(left.seq - 1).to_le_bytes());
            }
            Some(left) => {
                let same = left.key.iter().zip(&first.key).take_while(|(a, b)| a == b);
                put_index_entry(&mut index, block.len(), &first.key[..same.count() + 1]);
            }
        }
        blocks.extend_from_slice(&block);
        before = part.last();
    }
    table(&blocks, &index)
}

fn encode_block(entries: &[Entry]) -> Vec<u8> {
    let (mut out, mut restarts, mut before): (Vec<u8>, Vec<u32>, &[u8]) = Default::default();
    for (i, entry) in entries.iter().enumerate() {
        let mut shared = before
            .iter()
            .zip(&entry.key)
            .take_while(|(a, b)| a == b)
            .count();
        if i % 8 == 0 {
            restarts.push(out.len() as u32);
            shared = 0;
        }
        seal::put_varint(&mut out, shared as u64);
        seal::put_varint(&mut out, (entry.key.len() - shared) as u64);
        let expiry = u8::from(entry.expiry_ms.is_some()) << 4;
        let place = match entry.value {
            Place::None => 0,
            Place::Inline(_) => 1 << 3,
            Place::Pointer(..) => 1 << 5,
        };
        out.push(entry.kind | expiry | place);
        seal::put_varint(&mut out, entry.seq);
        out.extend(entry.expiry_ms.iter().flat_map(|ms| ms.to_le_bytes()));
        out.extend_from_slice(&entry.key[shared..]);
        match &entry.value {
            Place::None => {}
            Place::Inline(value) => {
                seal::put_varint(&mut out, value.len() as u64);
                out.extend_from_slice(value);
            }
            Place::Pointer(file, offset, len) => {
                for number in [*file, *offset, u64::from(*len)] {
                    seal::put_varint(&mut out, number);
                }
            }
        }
        before = &entry.key;
    }
    out.extend(restarts.iter().flat_map(|at| at.to_le_bytes()));
    out.extend_from_slice(&(restarts.len() as u32).to_le_bytes());
    // For the checksum, which `seal::table` puts there.
    out.extend_from_slice(&[0; 4]);
    out
}
