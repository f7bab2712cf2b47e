//! Record files. The first byte: 0 a file as it is, 1 a file whose checksums are made right, 2
//! frames alone, 3 frames whose checksums are made right, 4 records that an encoder of this
//! target's own writes as `docs/format.md` says. The second: how much a guess of a length is off.
#![no_main]

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use std::path::Path;
use unikv::fuzzing::{Files, Frame, Go, Records};
use unikv::vfs::sim::SimVfs;
use unikv_fuzz::specimen::env;
use unikv_fuzz::{allocation, seal, typed};

const NUMBER: u64 = 9;
/// The codec of a value in chunks, and their size in this target's own encoder.
const CHUNKS: u8 = 4;
const CHUNK_BITS: u8 = 8;

fuzz_target!(|data: &[u8]| {
    let Some((&[which, guess], bytes)) = data.split_first_chunk() else {
        return;
    };
    let mut expected = None;
    let mut file = match which % 5 {
        0 | 1 => bytes.to_vec(),
        2 | 3 => seal::table(4, NUMBER, bytes, b"", None, b""),
        _ => {
            let frames = draw_frames(bytes);
            let file = seal::table(4, NUMBER, &encode(&frames), b"", None, b"");
            expected = Some(frames);
            file
        }
    };
    if matches!(which % 5, 1 | 3 | 4) {
        seal::header(&mut file, 4, NUMBER, seal::DATABASE);
        seal::record_file(&mut file);
    }
    // Buffers of streams and walks; every other buffer is as long as what the file holds, and what
    // is read is kept in several copies.
    let mut limit = 64 * data.len() + 16 * file.len() + (2 << 20);
    // An entry of nine bytes may stand for a chunk of 64 KiB, of which there are several copies.
    if file.contains(&CHUNKS) {
        limit += file.len() / 9 * (64 << 10) * 8;
    }
    allocation::bounded(limit, || read(&file, expected.as_deref(), guess));
    let disk = SimVfs::new();
    disk.write_file(Path::new("/db/000009.rec"), &file);
    let seen = env(&disk).inspect("/db/000009.rec", &mut |_| {});
    typed::checked(seen);
});

fn open(file: &[u8]) -> (Files, Records) {
    let disk = SimVfs::new();
    disk.write_file(Path::new("/db/000009.rec"), file);
    let files = Files::new(env(&disk), Path::new("/db"), seal::DATABASE);
    let len = file.len() as u64;
    let (uid, whole) = (
        seal::uid(file),
        files.record_file(NUMBER, seal::uid(file), len, len),
    );
    match typed::checked(whole.facts()) {
        Some(facts) => {
            let records = files.record_file(NUMBER, uid, len, facts.records_end);
            (files, records)
        }
        None => (files, whole),
    }
}

fn read(file: &[u8], expected: Option<&[Frame]>, guess: u8) {
    let (files, records) = open(file);
    for (start, end, seq) in typed::checked(files.range_tombstones(&records)).unwrap_or_default() {
        assert!(start.len() >= 4 && end.len() >= 4 && start < end, "a range");
        assert!(start[..4] == end[..4] || end.len() == 4, "of one keyspace");
        assert!(seq < 1 << 56);
    }
    let (frames, end) = records.stream();
    typed::checked(end.clone());
    // Whatever way a frame is read, it is the same frame.
    let pointers: Vec<_> = frames.iter().rev().map(|f| (f.offset, f.len)).collect();
    let many = records.read_many(&pointers);
    for (frame, read) in frames.iter().rev().zip(many) {
        assert_eq!(typed::checked(read).as_ref(), Some(frame));
    }
    for frame in frames.iter().take(8) {
        let (offset, len) = (frame.offset, frame.len);
        assert_eq!(records.get(offset, len).ok().as_ref(), Some(frame));
        let hinted = (len as usize).saturating_add_signed(isize::from(guess as i8));
        assert_eq!(
            records.read_hinted(offset, hinted).ok().as_ref(),
            Some(frame)
        );
        let value = records.read_in_pieces(offset, len, usize::from(guess) + 1);
        let value = value.expect("a record that was read whole");
        assert!(value.is_none_or(|value| value == frame.value));
        assert!(
            records.get(offset, len + 1).is_err(),
            "a pointer with a wrong length"
        );
    }
    // And where a stream ends with an error, every other way does, too.
    if let Some(error) = end.err() {
        let at = frames
            .last()
            .map_or(96, |last| last.offset + u64::from(last.len));
        assert!(
            records.read_hinted(at, usize::from(guess)).is_err(),
            "{error:?}"
        );
    }
    if let Some(keys) = typed::checked(records.keys(guess % 2 == 0)) {
        let mut keys = keys;
        let mut at = typed::checked(keys.go(Go::First)).flatten();
        while at.is_some() {
            at = typed::checked(keys.go(Go::Next)).flatten();
        }
    }
    if let Some(expected) = expected {
        assert_eq!(frames, expected);
    }
}

fn draw_frames(bytes: &[u8]) -> Vec<Frame> {
    let mut input = Unstructured::new(bytes);
    let (mut frames, mut offset) = (Vec::new(), seal::HEADER_LEN as u64);
    while !input.is_empty() {
        let Ok(frame) = draw_frame(&mut input, offset) else {
            break;
        };
        offset += u64::from(frame.len);
        frames.push(frame);
    }
    frames
}

fn draw_frame(input: &mut Unstructured<'_>, offset: u64) -> Result<Frame> {
    let mut key = vec![0, 0, 0, 0];
    key.extend_from_slice(input.arbitrary::<&[u8]>()?);
    let mut value = input.arbitrary::<&[u8]>()?.to_vec();
    // Now and then a long value, which is read piece by piece.
    if offset < 100_000 && input.ratio(1, 16)? {
        value.resize(300 << 10, 0x5a);
    }
    let expiry_ms: Option<u64> = input.arbitrary()?;
    let len = 36 + key.len() + value.len() + if expiry_ms.is_some() { 8 } else { 0 };
    let mut frame = Frame {
        offset,
        len: len as u32,
        key,
        seq: input.arbitrary::<u64>()? >> 8,
        kind: input.int_in_range(1..=5)?,
        value,
        expiry_ms,
        host_type: input.arbitrary()?,
        older_follows: input.arbitrary()?,
    };
    frame.len += directory(&frame).len() as u32;
    Ok(frame)
}

/// Of every other put, the directory of the chunks that its value is.
fn directory(frame: &Frame) -> Vec<u8> {
    if frame.kind != 1 || frame.host_type % 2 == 0 {
        return Vec::new();
    }
    let chunks = frame.value.chunks(1 << CHUNK_BITS);
    chunks
        .flat_map(|chunk| (chunk.len() as u64).to_le_bytes())
        .collect()
}

fn encode(frames: &[Frame]) -> Vec<u8> {
    let mut out = Vec::new();
    for frame in frames {
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&(frame.seq << 8 | u64::from(frame.kind)).to_le_bytes());
        out.extend_from_slice(&(frame.key.len() as u32).to_le_bytes());
        let directory = directory(frame);
        let stored_len = frame.value.len() + directory.len();
        out.extend_from_slice(&(stored_len as u32).to_le_bytes());
        out.extend_from_slice(&(frame.value.len() as u32).to_le_bytes());
        let flags = u8::from(frame.expiry_ms.is_some()) | u8::from(frame.older_follows) << 1;
        let (codec, bits) = if directory.is_empty() {
            (0, 0)
        } else {
            (CHUNKS, CHUNK_BITS)
        };
        out.extend_from_slice(&[flags, codec, frame.host_type, bits, 0, 0, 0, 0]);
        out.extend(frame.expiry_ms.iter().flat_map(|ms| ms.to_le_bytes()));
        out.extend_from_slice(&frame.key);
        out.extend_from_slice(&frame.value);
        out.extend_from_slice(&directory);
        out.extend_from_slice(&[0; 4]);
    }
    out
}
